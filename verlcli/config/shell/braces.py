"""Brace expansion: `{a,b}` and `{1..8}` make several words of one, before anything else is looked at."""

from __future__ import annotations

import re
from dataclasses import replace

from verlcli.config.shell.items import Item, Lit, Param, Template

MOST_WORDS = 1024
_DEEPEST = 20
_NAME = re.compile(r"[A-Za-z_]\w*$", re.ASCII)
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?$|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?$")


class TooManyWordsError(Exception):
    """A brace expansion beyond the limit."""


def braced(items: Template) -> list[Template]:
    """The templates that brace expansion makes of one. Raises `TooManyWordsError`."""
    if not any(isinstance(item, Lit) and not item.quoted and "{" in item.text for item in items):
        return [items]
    return [_joined(tokens) for tokens in _expand(_tokens(items), 0)]


def _tokens(items: Template) -> list[Item]:
    """Unquoted text in single characters, so that the marks of an expansion stand alone."""
    tokens: list[Item] = []
    for item in items:
        if isinstance(item, Lit) and not item.quoted:
            tokens += [Lit(char, item.at + number, False) for number, char in enumerate(item.text)]
        else:
            tokens.append(item)
    return tokens


def _joined(tokens: list[Item]) -> Template:
    items: list[Item] = []
    for token in tokens:
        last = items[-1] if items else None
        if isinstance(last, Lit) and isinstance(token, Lit) and _adjoining(last, token):
            items[-1] = Lit(last.text + token.text, last.at, False)
        elif (
            isinstance(last, Param)
            and last.bare
            and not last.quoted
            and _mark(token)
            and _NAME.match(last.name + _mark(token))
        ):
            # Braces are expanded in the text: `$X{a,b}` is `$Xa` and `$Xb`.
            items[-1] = replace(last, name=last.name + _mark(token))
        else:
            items.append(token)
    return tuple(items)


def _adjoining(first: Lit, second: Lit) -> bool:
    return not (first.quoted or second.quoted) and first.at + len(first.text) == second.at


def _mark(token: Item) -> str:
    return token.text if isinstance(token, Lit) and not token.quoted else ""


def _expand(tokens: list[Item], depth: int) -> list[list[Item]]:
    if depth == _DEEPEST:
        return [tokens]
    for opening, (close, commas) in sorted(_pairs(tokens).items()):
        ends = [*commas, close]
        middles = [tokens[start + 1 : end] for start, end in zip([opening, *commas], ends, strict=True)]
        choices = middles if commas else _range(middles[0])
        if not choices:
            continue
        rest = _expand(tokens[close + 1 :], depth + 1)
        inner = [word for middle in choices for word in _expand(middle, depth + 1)]
        if len(inner) * len(rest) > MOST_WORDS:
            raise TooManyWordsError
        return [[*tokens[:opening], *middle, *tail] for middle in inner for tail in rest]
    return [tokens]


def _pairs(tokens: list[Item]) -> dict[int, tuple[int, list[int]]]:
    """Each brace that closes: where it opens -> where it closes, and the commas that are its own."""
    found: dict[int, tuple[int, list[int]]] = {}
    opened: list[tuple[int, list[int]]] = []
    for at, token in enumerate(tokens):
        mark = _mark(token)
        if mark == "{":
            opened.append((at, []))
        elif mark == "," and opened:
            opened[-1][1].append(at)
        elif mark == "}" and opened:
            opening, commas = opened.pop()
            found[opening] = (at, commas)
    return found


def _range(tokens: list[Item]) -> list[list[Item]] | None:
    if not tokens or not all(_mark(token) for token in tokens):
        return None
    match = _RANGE.match("".join(_mark(token) for token in tokens))
    if not match:
        return None
    first, last, step, low, high, stride = match.groups()
    begin, end = (int(first), int(last)) if first else (ord(low), ord(high))
    width = max(map(len, (first, last))) if first and any(re.match(r"-?0\d", end) for end in (first, last)) else 0
    by = abs(int(step or stride or 1)) or 1
    if abs(end - begin) // by >= MOST_WORDS:
        raise TooManyWordsError
    numbers = range(begin, end + (1 if end >= begin else -1), by if end >= begin else -by)
    at = next(token.at for token in tokens)
    return [[Lit(str(number).zfill(width) if first else chr(number), at, False)] for number in numbers]
