"""YAML text -> Document: plain values and the place of every key and value, in one pass over the parser's events.

YAML 1.2 core scalars (`1e-6` is a float, `on` a string). Hostile input (deep nesting, alias bombs, object tags) is
refused while the events stream by, before anything is built from it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from verlcli.config.keys import KeyPath, schema_at
from verlcli.config.layout import Blame, hint, misplaced_line
from verlcli.config.nodes import Duplicate, Node, Tree, build_tree
from verlcli.config.problems import Place, Problem, Related
from verlcli.config.wording import shown as in_words
from verlcli.errors import ConfigError

MAX_BYTES = 1 << 20
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where PyYAML was built with it


@dataclass(frozen=True, slots=True)
class Mark:
    """1-based line and column of a key and of its value; the same place twice for list items and the root."""

    key_line: int
    key_column: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document.

    Attributes:
        values: plain dicts, lists and scalars.
        marks: place of every node by its path; `()` is the root.
        file: the name the user gave, for messages.
        root: folder that relative paths in the document start from.
        problems: duplicate keys (the first one counts).
    """

    values: Any
    marks: dict[KeyPath, Mark]
    file: str
    root: Path
    problems: tuple[Problem, ...] = field(default=())


def load_document(path: str | os.PathLike[str], *, name: str | None = None) -> Document:
    """Read and parse a config file whose top level is a mapping; `name` is shown in messages (default: the path).

    Raises:
        ConfigError: the file is missing, unreadable, too large, not UTF-8, not YAML, empty, not a mapping, or hostile.
    """
    shown = name or os.fspath(path)
    text = _decode(read_bytes(path, shown), shown)
    if os.fspath(path).endswith(_SCRIPTS) or text.startswith("#!"):
        raise ConfigError(
            "a shell script, not a config",
            where=shown,
            fix="`verl validate` checks it, `verl import` makes a config of it",
        )
    tree = _parse(text, shown)
    if tree.root is None or (tree.root.kind == "scalar" and tree.root.value is None):
        raise ConfigError("the file is empty", where=shown, fix="write at least one section, such as `model:`")
    if tree.root.kind != "mapping":
        raise ConfigError(
            f"the top level is a {'list' if tree.root.kind == 'sequence' else 'single value'}, not a mapping",
            where=f"{shown}:{tree.root.line}:{tree.root.column}",
            fix="write sections as `KEY: VALUE` lines, such as `model:`",
        )
    return _document(tree, shown, Path(path).absolute().parent)


def load_text(text: str, name: str) -> Document:
    """Parse one YAML value of any kind; empty text is null. `name` is shown in messages, such as `-o #2`.

    Raises:
        ConfigError: the text is not YAML or hostile.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{len(text)} characters; the limit is {MAX_BYTES}", where=name, fix="shorten the value")
    return _document(_parse(text, name), name, Path.cwd())


def read_bytes(path: str | os.PathLike[str], shown: str) -> bytes:
    """Bytes of an input file; `shown` is its name in messages.

    Raises:
        ConfigError: it is missing, a folder, unreadable, or larger than 1 MiB.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError("no such file", where=shown, fix="check the path; presets: `verl presets list`") from None
    except IsADirectoryError:
        raise ConfigError("is a directory, not a file", where=shown, fix="name the file inside it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot be read: {reason}", where=shown, fix="check the path and its permissions") from None
    if len(data) > MAX_BYTES:
        raise ConfigError("larger than 1 MiB, which no input needs", where=shown, fix="is this really the file?")
    return data


def _decode(data: bytes, shown: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"not UTF-8 text (byte 0x{data[error.start]:02x})", where=f"{shown}:{line}", fix="save it as UTF-8 YAML"
        ) from None
    if "\0" in text:
        raise ConfigError("a binary file, not YAML text", where=shown, fix="is this really the config file?")
    return text


def _parse(text: str, shown: str) -> Tree:
    try:
        return build_tree(yaml.parse(text, Loader=_Loader), shown)
    except yaml.MarkedYAMLError as error:
        raise _refusal(text, shown, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else 1
        raise ConfigError(
            f"not valid YAML: {error.reason}", where=f"{shown}:{line}", fix="remove the control character"
        ) from None
    except (UnicodeError, ValueError) as error:
        # A lone surrogate, from the command line's bytes or an escape.
        raise ConfigError(f"not valid YAML: {error}", where=shown, fix="write plain UTF-8 text") from None


def _refusal(text: str, shown: str, error: yaml.MarkedYAMLError) -> ConfigError:
    mark, problem = error.problem_mark or error.context_mark, f"{error.problem} {error.context}"
    if mark is None:
        return ConfigError(f"not valid YAML: {_sentence(error)}", where=shown, fix=hint("", problem))
    lines = text.splitlines()
    fix = hint(lines[mark.line] if mark.line < len(lines) else "", problem)
    blame = None if "tabs" in fix else misplaced_line(text, mark.line, error.problem or "", _keys_or_stop, _exists)
    blame = blame or Blame(mark.line + 1, mark.column + 1, f"not valid YAML: {_sentence(error)}", fix)
    return ConfigError(blame.message, where=f"{shown}:{blame.line}:{blame.column}", fix=blame.fix)


def _sentence(error: yaml.MarkedYAMLError) -> str:
    context = error.context
    if context and error.context_mark and error.problem_mark and error.context_mark.line != error.problem_mark.line:
        context = f"{context} that starts on line {error.context_mark.line + 1}"
    return ", ".join(part for part in (error.problem, context) if part) or "cannot be parsed"


def _exists(path: KeyPath) -> bool:
    return schema_at(path) is not None


def _keys_or_stop(text: str) -> tuple[KeyPath, ...] | int:
    try:
        marks = _document(build_tree(yaml.parse(text, Loader=_Loader), ""), "", Path()).marks
    except yaml.MarkedYAMLError as error:
        return error.problem_mark.line if error.problem_mark else 0
    except (yaml.YAMLError, ConfigError, ValueError):
        return 0
    return tuple(path for path in marks if path and isinstance(path[-1], str))


def _document(tree: Tree, shown: str, root: Path) -> Document:
    marks: dict[KeyPath, Mark] = {}
    problems: list[Problem] = []
    values = None
    if tree.root is not None:
        start = Mark(tree.root.line, tree.root.column, tree.root.line, tree.root.column)
        values = _construct(tree.root, (), start, marks)
        problems = [_duplicate(shown, found) for found in tree.duplicates]
    return Document(values, marks, shown, root, tuple(problems))


def _construct(node: Node, path: KeyPath, mark: Mark, marks: dict[KeyPath, Mark]) -> Any:
    # Recursion is safe: build_tree bounds the depth and the expanded size.
    marks[path] = mark
    if node.kind == "scalar":
        return node.value
    if node.kind == "sequence":
        return [
            _construct(item, (*path, index), Mark(item.line, item.column, item.line, item.column), marks)
            for index, item in enumerate(node.items)
        ]
    pairs = _pairs(node)
    return {
        name: _construct(value, (*path, name), Mark(key.line, key.column, value.line, value.column), marks)
        for name, (key, value) in pairs.items()
    }


def _pairs(node: Node) -> dict[str, tuple[Node, Node]]:
    """Key and value by name; what a mapping says itself comes before what `<<` brings."""
    pairs: dict[str, tuple[Node, Node]] = {}
    for key, value in (*node.pairs, *node.merged):
        pairs.setdefault(str(key.value), (key, value))
    return pairs


def _duplicate(shown: str, found: Duplicate) -> Problem:
    key, first, value = found.key, found.first, found.value
    path = ".".join((*found.trail, str(key.value)))
    text = in_words(value.value) if value.kind == "scalar" else f"a {value.kind}"
    return Problem(
        code="VRL006",
        severity="error",
        path=path,
        message=f"duplicate key; already set on line {first.line}",
        file=shown,
        line=key.line,
        column=key.column,
        suggestion=f"remove line {first.line} or line {key.line}",
        origin=f"{shown}:{key.line}:{key.column}",
        related=(Related(path, text, Place(shown, first.line, first.column)),),
    )
