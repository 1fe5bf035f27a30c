"""Names that `rollout.engine_kwargs` may hand to an engine: of the releases that verl 0.9.1 pins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("engine_args.json")


@dataclass(frozen=True)
class EngineArgs:
    """Argument names of one release of an engine, with underscores."""

    version: str
    names: frozenset[str]  # of the engine itself: vLLM's AsyncEngineArgs, SGLang's ServerArgs
    server_names: frozenset[str]  # of the HTTP server around it

    def knows(self, name: str) -> bool:
        """Whether the engine's command line takes `name`, also as `no-name` and with hyphens."""
        plain = name.replace("-", "_")
        return any(form in self.names or form in self.server_names for form in (plain, plain.removeprefix("no_")))


@cache
def engine_args(engine: str) -> EngineArgs | None:
    """Arguments of "vllm" or "sglang"; None for an engine without a list."""
    found = json.loads(FILE.read_text(encoding="utf-8")).get(engine)
    if found is None:
        return None
    return EngineArgs(found["version"], frozenset(found["names"]), frozenset(found["server_names"]))
