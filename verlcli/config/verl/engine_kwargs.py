"""Names below `rollout.engine_kwargs.vllm` and `.sglang` against the arguments that the engine takes."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.run import Setting, VerlRun
from verlcli.config.wording import closest

_MARK = "rollout.engine_kwargs."


def engine_kwargs_verdicts(run: VerlRun, setting: Setting) -> Iterator[Verdict]:
    """A name that the engine does not know; a warning, for its arguments differ from release to release."""
    from verlcli.facts.verl.engine_args import engine_args

    before, mark, rest = setting.key.partition(_MARK)
    engine, dot, name = rest.partition(".")
    arguments = engine_args(engine) if mark and dot else None
    if arguments is None or "." in name or arguments.knows(name):
        return
    close = closest(name, sorted(arguments.names))
    title = {"vllm": "vLLM", "sglang": "SGLang"}[engine]
    message = f"{title} {arguments.version} has no argument {name}: the rollout server stops when it starts"
    fix = Fix("rename", setting.key, f"{before}{mark}{engine}.{close}") if close and _sure(name, close) else None
    advice = f"did you mean {close}?" if close else f"check it against the arguments of your {title} release"
    older = run.version not in ("0.9.0", "0.9.1", "main")  # made for an engine whose arguments are not listed here
    yield Verdict("VRL253", (setting.key,), message, advice, "note" if older else "warning", fix=fix)


def _sure(name: str, close: str) -> bool:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name, close).ratio() >= 0.85
