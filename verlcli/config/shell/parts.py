"""Parts of a value, and small operations on them: joining, cutting, marking the variable they came through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from verlcli.config.shell.types import Gap, Piece, moved

Parts = tuple[Piece | Gap, ...]
LONGEST_TEXT = 64 * 1024  # characters of one value
MOST_PARTS = 4096  # of one value
_MOST_NAMES = 8  # that a piece remembers having come through


def known_text(parts: Parts) -> str | None:
    """The text; None with a gap inside."""
    return text_as_run(parts) if first_gap(parts) is None else None


def text_as_run(parts: Parts) -> str:
    """The text with gaps left out."""
    return "".join([part.text for part in parts if isinstance(part, Piece)])


def shown(parts: Parts) -> str:
    """The text for people, with `$NAME` or `$(...)` in the place of a gap."""
    return "".join(
        [part.text if isinstance(part, Piece) else f"${part.variable}" if part.variable else "$(...)" for part in parts]
    )


def first_gap(parts: Parts) -> Gap | None:
    """The first part that cannot be known, if any."""
    for part in parts:
        if isinstance(part, Gap):
            return part
    return None


def through(parts: Parts, name: str) -> Parts:
    """The parts as they come out of `$name`."""
    return tuple([_through(part, name) for part in parts])


def _through(part: Piece | Gap, name: str) -> Piece | Gap:
    if isinstance(part, Gap):
        return part
    via = part.via
    if not via or via[0] != name:
        via = (name, *via[: _MOST_NAMES - 1])
    return Piece(part.text, part.place, name, via, part.default)


def cut_parts(parts: Parts, start: int, end: int) -> Parts:
    """Characters `start` to `end` of parts without gaps, each still at its place."""
    out: list[Piece | Gap] = []
    for part in parts:
        if isinstance(part, Gap):
            continue
        low, high = max(0, start), min(len(part.text), end)
        if low < high:
            out.append(cut_piece(part, low, high))
        start, end = start - len(part.text), end - len(part.text)
    return tuple(out)


def cut_piece(piece: Piece, start: int, end: int) -> Piece:
    """Characters `start` to `end` of a piece."""
    if start == 0 and end == len(piece.text):
        return piece
    return replace(piece, text=piece.text[start:end], place=moved(piece.place, piece.text[:start]))


def rewritten(parts: Parts, text: str) -> Parts:
    """A text computed from `parts`, at the place of the first of them."""
    first = next((part for part in parts if isinstance(part, Piece)), None)
    return (replace(first, text=text),) if first and text else ()


def joined(fields: Iterable[Parts], separator: str) -> Parts:
    """All fields in one value, as `"${a[*]}"` gives it."""
    out: list[Piece | Gap] = []
    for each in fields:
        place = each[0].place if each else (out[-1].place if out else None)
        if out and separator and place:
            out.append(Piece(separator, place))
        out += each
    return tuple(out)


def stripped(parts: Parts) -> Parts:
    """The parts without line ends at the end, as `$(…)` gives them."""
    kept = list(parts)
    while kept and isinstance(last := kept[-1], Piece):
        text = last.text.rstrip("\n")
        if text:
            kept[-1] = cut_piece(last, 0, len(text))
            break
        kept.pop()
    return tuple(kept)
