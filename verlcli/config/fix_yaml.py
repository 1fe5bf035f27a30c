"""One mechanical fix of a YAML text: a key renamed, moved, set or removed, with comments and layout kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from verlcli.config.keys import KeyPath
from verlcli.config.loader import Document, Mark, load_text
from verlcli.config.problems import Fix
from verlcli.errors import ConfigError

_MISSING: Any = object()


def fix_yaml(text: str, file: str, fix: Fix) -> str | None:
    """The text after `fix`; None when no edit is certain, such as a move out of a flow-style mapping."""
    document = _read(text, file)
    key = tuple(fix.key.split("."))
    if document is None or not isinstance(document.values, dict):
        return None
    meant = _meant(document.values, key, fix)
    if meant is None:
        return None
    for candidate in _candidates(text, document, key, fix):
        after = _read(candidate, file)
        if after is not None and after.values == meant and len(after.problems) <= len(document.problems):
            return candidate
    return None


def _read(text: str, file: str) -> Document | None:
    try:
        return load_text(text, file)
    except ConfigError:
        return None


def _meant(values: dict[str, Any], key: KeyPath, fix: Fix) -> dict[str, Any] | None:
    """The values that the text must have afterwards; None when the fix does not fit them."""
    copy = deepcopy(values)
    if fix.action == "set":
        return _put(copy, key, fix.to)
    value = _take(copy, key)
    if value is _MISSING or fix.action == "prefix":
        return None
    if fix.action == "remove":
        return copy
    new = tuple(str(fix.to).split("."))
    return None if _value_at(copy, new) is not _MISSING else _put(copy, new, value)


def _put(values: dict[str, Any], key: KeyPath, value: Any) -> dict[str, Any] | None:
    parent: Any = values
    for part in key[:-1]:
        if parent.get(part) is None:
            parent[part] = {}
        parent = parent[part]
        if not isinstance(parent, dict):
            return None  # a single value, or a list
    parent[key[-1]] = value
    return values


def _take(values: dict[str, Any], key: KeyPath) -> Any:
    """Remove `key`, and the sections that it leaves empty, and return its value."""
    parents: list[Any] = [values]
    for part in key[:-1]:
        parents.append(parents[-1].get(part) if isinstance(parents[-1], dict) else None)
    if not isinstance(parents[-1], dict) or key[-1] not in parents[-1]:
        return _MISSING
    value = parents[-1].pop(key[-1])
    for depth in range(len(key) - 1, 0, -1):
        if not parents[depth]:
            parents[depth - 1].pop(key[depth - 1])
    return value


def _value_at(values: Any, key: KeyPath) -> Any:
    for part in key:
        if not isinstance(values, dict) or part not in values:
            return _MISSING
        values = values[part]
    return values


def _candidates(text: str, document: Document, key: KeyPath, fix: Fix) -> Iterator[str]:
    lines = text.split("\n")
    mark = document.marks.get(key)
    if fix.action == "set":
        yield from _set_value(lines, document, key, mark, _scalar(fix.to))
        return
    if mark is None:
        return
    new = tuple(str(fix.to).split(".")) if fix.action == "rename" else ()
    if new[:-1] == key[:-1]:
        yield "\n".join(_replaced(lines, mark.key_line, mark.key_column, str(key[-1]), str(new[-1])))
        return
    block = _block(lines, document, key)
    if block is None:
        return
    rest = lines[: block.start] + lines[block.end :]
    if fix.action == "remove":
        yield "\n".join(rest)
    else:
        yield from _moved(rest, document.file, new, block.value)


def _replaced(lines: list[str], line: int, column: int, old: str, new: str) -> list[str]:
    text, start = lines[line - 1], column - 1
    start += text[start : start + 1] in ("'", '"')
    end = start + len(old)
    if text[start:end] != old:  # spelt with escapes
        return lines
    return [*lines[: line - 1], text[:start] + new + text[end:], *lines[line:]]


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `start` to `end` (exclusive) that hold a key and its value; `value` is what follows the key's colon."""

    start: int
    end: int
    value: list[str]


def _block(lines: list[str], document: Document, key: KeyPath) -> _Block | None:
    """The lines of `key`, together with those of the sections that would be empty without it.

    None in flow style, unless it is the only key there and all stands on one line.
    """
    start = document.marks[key].key_line - 1
    head = re.fullmatch(rf"( *){_spelt(key[-1])}(.*)", lines[start])
    alone = rf" *{_spelt(key[-2])}\s*\{{\s*{_spelt(key[-1])}(.*?)\s*\}}(\s*#.*|\s*)" if len(key) > 1 else ""
    flow = re.fullmatch(alone, lines[start])
    if head is not None:
        last = _end(lines, start, len(head[1]))
        value = [head[2], *(line[len(head[1]) :] for line in lines[start + 1 : last])]
    elif flow is not None and len(_value_at(document.values, key[:-1])) == 1:
        last, value = start + 1, [flow[1] + flow[2]]
    else:
        return None
    top = start
    for depth in range(len(key) - 1, 0, -1):
        if len(_value_at(document.values, key[:depth])) > 1:
            break
        top = document.marks[key[:depth]].key_line - 1
        last = max(last, _end(lines, top, document.marks[key[:depth]].key_column - 1))
    return _Block(top, last, value)


def _spelt(name: str | int) -> str:
    """Pattern of a key and its colon, in quotes or not."""
    return rf"[\"']?{re.escape(str(name))}[\"']?\s*:"


def _end(lines: list[str], start: int, indent: int) -> int:
    """First line after the block that starts at `start`; comments before the next key stay with that key."""
    end = start + 1
    for row in range(start + 1, len(lines)):
        line = lines[row]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        if depth < indent or (depth == indent and not line.lstrip().startswith("- ")):
            break
        end = row + 1
    return end


def _moved(lines: list[str], file: str, new: KeyPath, value: list[str]) -> Iterator[str]:
    """`lines` with `new` set to `value`, at the end of its section, or in a new section at the end of the text."""
    document = _read("\n".join(lines), file)
    if document is None:
        return
    depth = next((at for at in range(len(new) - 1, 0, -1) if _is_section(document.values, new[:at])), 0)
    row, indent = _end_of_section(lines, document, new[:depth])
    if not row:
        row, indent, depth = _last_line(lines), 0, 0
    step = 2
    added = [f"{' ' * (indent + step * level)}{part}:" for level, part in enumerate(new[depth:])]
    added[-1] += value[0]
    added += [f"{' ' * (indent + step * (len(new) - depth - 1))}{line}" if line.strip() else line for line in value[1:]]
    yield "\n".join([*lines[:row], *added, *lines[row:]])


def _is_section(values: Any, key: KeyPath) -> bool:
    """Whether `key` is a mapping there, an empty one included."""
    value = _value_at(values, key)
    return value is None or isinstance(value, dict)


def _end_of_section(lines: list[str], document: Document, section: KeyPath) -> tuple[int, int]:
    """Where a key can be added to a section: the row behind its last one, and the indentation; row 0 for nowhere."""
    if not section:
        return 0, 0
    mark, children = document.marks[section], _value_at(document.values, section)
    if children is None:
        return mark.key_line, mark.key_column + 1
    if not children:
        return 0, 0
    path = (*section, next(iter(children)))
    first = document.marks[path]
    return _end(lines, mark.key_line - 1, mark.key_column - 1), first.key_column - 1


def _last_line(lines: list[str]) -> int:
    """Row behind the last one that is not blank."""
    return next((row for row in range(len(lines), 0, -1) if lines[row - 1].strip()), 0)


def _set_value(lines: list[str], document: Document, key: KeyPath, mark: Mark | None, value: str) -> Iterator[str]:
    if mark is None:
        yield from _moved(lines, document.file, key, [f" {value}"])
        return
    text, start = lines[mark.line - 1], mark.column - 1
    token = re.match(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^\s,\]}#][^,\]}#]*?(?=\s*(?:$|[,\]}]| #))", text[start:])
    if token:
        yield "\n".join(
            [*lines[: mark.line - 1], text[:start] + value + text[start + token.end() :], *lines[mark.line :]]
        )


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z_/.][\w/.-]*", value) and value.lower() not in (
            "null",
            "true",
            "false",
            "yes",
            "no",
        )
        return value if plain else "'" + value.replace("'", "''") + "'"
    return str(value)
