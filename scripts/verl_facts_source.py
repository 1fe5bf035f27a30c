"""Read the dataclasses behind verl's config sections with `ast`: fields beyond the YAML, and their types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCALARS = {"int": "integer", "float": "number", "bool": "boolean", "str": "string", "list": "list", "List": "list"}
SCALARS |= {"tuple": "list", "Sequence": "list", "dict": "map", "Dict": "map", "DictConfig": "map", "None": "null"}
HIDDEN = {"extra", "_target_"}


@dataclass(frozen=True)
class Field:
    """One field of a config dataclass at its place in a tree."""

    extra: bool  # in the dataclass, not in the YAML: legal with + alone
    default: Any  # None also stands for one that is made at run time
    kind: str | None  # "integer", "number|null", ...; None: not certain


class Dataclasses:
    """All classes of a source tree by name; `fields_of` lays them over a composed tree."""

    def __init__(self, root: Path, folders: tuple[str, ...]) -> None:
        self.classes: dict[str, list[tuple[str, ast.ClassDef]]] = {}
        for file in sorted(file for folder in folders for file in (root / folder).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list):
                    self.classes.setdefault(node.name, []).append((module, node))

    def find(self, target: str) -> ast.ClassDef | None:
        """The class of a dotted path, wherever below its package it is defined."""
        package, _, name = target.rpartition(".")
        found = [node for module, node in self.classes.get(name, []) if module.startswith(package)]
        return found[0] if found else next((node for _, node in self.classes.get(name, [])), None)

    def annotations(self, node: ast.ClassDef) -> dict[str, ast.AnnAssign]:
        """Fields that the constructor takes, inherited ones too."""
        fields: dict[str, ast.AnnAssign] = {}
        for base in reversed(node.bases):
            parent = self.find(ast.unparse(base))
            fields |= self.annotations(parent) if parent is not None else {}
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                fields[item.target.id] = item
        return fields

    def fields_of(self, tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Field]]:
        """Key and field for every dataclass field of the sections with a `_target_`."""
        target = tree.get("_target_")
        node = self.find(target) if isinstance(target, str) else None
        if node is not None:
            yield from self._fields(node, tree, prefix)
        for name, value in tree.items():
            if isinstance(value, dict):
                yield from self.fields_of(value, f"{prefix}{name}.")

    def _fields(self, node: ast.ClassDef, tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, Field]]:
        for name, item in self.annotations(node).items():
            if name in HIDDEN or name.startswith("_") or "init=False" in ast.unparse(item):
                continue
            kind = kind_of(item.annotation)
            if name not in tree and (inner := self.find(_class_name(item.annotation))) is not None:
                yield from self._fields(inner, {}, f"{prefix}{name}.")
                continue
            default = _default(item.value)
            if default is None and kind in ("map", "map|null"):
                default = {}  # anything may be put into it
            yield f"{prefix}{name}", Field(name not in tree, default, kind)


def _class_name(annotation: ast.expr) -> str:
    """`Optional[ServerConfig]` -> `ServerConfig`."""
    return ast.unparse(annotation).removeprefix("Optional[").removesuffix("]").removesuffix(" | None")


def kind_of(annotation: ast.expr) -> str | None:
    """`Optional[int]` -> "integer|null"; None when any part is not a plain type."""
    parts = sorted(set(_parts(annotation)), key=lambda part: (part == "null", part))
    return None if "?" in parts else "|".join(parts)


def _parts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.BinOp):
        yield from [*_parts(node.left), *_parts(node.right)]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Optional", "Union"):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        yield from [part for item in inner for part in _parts(item)]
        if ast.unparse(node.value) == "Optional":
            yield "null"
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        values = ast.literal_eval(node.slice)
        yield from [SCALARS[type(value).__name__] for value in (values if isinstance(values, tuple) else (values,))]
    else:
        name = ast.unparse(node.value if isinstance(node, ast.Subscript) else node)
        yield SCALARS.get(name, "?")


def _default(value: ast.expr | None) -> Any:
    if isinstance(value, ast.Call):
        return _from_factory(value)
    try:
        return None if value is None else ast.literal_eval(value)
    except ValueError:
        return None


def _from_factory(call: ast.Call) -> Any:
    for keyword in call.keywords:
        if keyword.arg == "default":
            return _default(keyword.value)
        if keyword.arg == "default_factory":
            body = keyword.value.body if isinstance(keyword.value, ast.Lambda) else keyword.value
            return {"dict": {}, "list": []}.get(ast.unparse(body)) if isinstance(body, ast.Name) else _default(body)
    return None
