"""The reader of dataclasses that `scripts/verl_facts.py` uses."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "verl_facts_source.py"
SOURCE = """
from dataclasses import dataclass, field
from typing import Any, Literal, Optional

@dataclass
class Server:
    timeout: float = 60.0

@dataclass
class Base:
    _mutable: set = field(default_factory=set)
    n: int = 1

@dataclass
class Rollout(Base):
    mode: Literal["a", "b"] = "a"
    limit: Optional[int] = None
    kwargs: dict = field(default_factory=dict)
    custom: Optional[dict] = None
    names: list[str] = field(default_factory=lambda: ["x"])
    server: Server = field(default_factory=Server)
    engine: Any = None
    built: int = field(init=False)
"""


@pytest.fixture(scope="module")
def reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verl_facts_source", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def test_fields_of_a_section(reader: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "config.py").write_text(SOURCE)
    classes = reader.Dataclasses(tmp_path, ("verl",))
    tree = {"rollout": {"_target_": "verl.config.Rollout", "n": 4, "inner": {"_target_": "verl.config.Nowhere"}}}
    found = {key: (field.extra, field.default, field.kind) for key, field in classes.fields_of(tree)}
    assert found == {
        "rollout.n": (False, 1, "integer"),
        "rollout.mode": (True, "a", "string"),
        "rollout.limit": (True, None, "integer|null"),
        "rollout.kwargs": (True, {}, "map"),
        "rollout.custom": (True, {}, "map|null"),
        "rollout.names": (True, ["x"], "list"),
        "rollout.server.timeout": (True, 60.0, "number"),
        "rollout.engine": (True, None, None),
    }


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("int", "integer"),
        ("float | None", "number|null"),
        ("Optional[Union[str, float]]", "number|string|null"),
        ("list[int] | str", "list|string"),
        ("Literal[1, 2]", "integer"),
        ("SomeClass", None),
        ("int | SomeClass", None),
    ],
)
def test_kind_of(reader: ModuleType, annotation: str, kind: str | None) -> None:
    assert reader.kind_of(ast.parse(annotation, mode="eval").body) == kind
