"""Evaluated parts of a word -> the words that bash makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from verlcli.config.shell.parts import cut_piece
from verlcli.config.shell.types import Gap, Piece, Place, Word
from verlcli.config.shell.world import Parts


@dataclass(frozen=True, slots=True)
class Segment:
    """A part with how it is written: in quotes or not, from an expansion (and so to be split) or not."""

    part: Piece | Gap | None  # None: an empty text in quotes
    quoted: bool
    split: bool = False


Break = None  # between the items of "${a[@]}", where one word ends and the next begins
DEFAULT_IFS = " \t\n"
MOST_WORDS = 20_000


class _Fields:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.done: list[Word] = []
        self.dropped: list[Gap] = []
        self.reset()

    def reset(self) -> None:
        self.parts: list[Piece | Gap] = []
        self.quoted = False

    def close(self) -> None:
        """Ends a word; one that is empty and without quotes is no word."""
        stays = any(
            isinstance(part, Piece) or part.kind in ("command", "runtime", "unsupported") for part in self.parts
        )
        if self.quoted or stays:
            self.done.append(Word(self.place, tuple(self.parts), self.quoted))
        else:
            self.dropped += [part for part in self.parts if isinstance(part, Gap)]
        self.reset()


def split_fields(
    segments: list[Segment | None], place: Place, separators: str = DEFAULT_IFS
) -> tuple[list[Word], list[Gap]]:
    """Words of one written word, and the gaps that vanish because nothing stands beside them."""
    fields = _Fields(place)
    for segment in segments:
        if segment is Break:
            fields.close()
            continue
        fields.quoted |= segment.quoted
        part = segment.part
        if isinstance(part, Piece) and segment.split and separators:
            _split(fields, part, separators)
        elif isinstance(part, Gap) or (isinstance(part, Piece) and part.text):
            fields.parts.append(part)
    fields.close()
    return fields.done[:MOST_WORDS], fields.dropped


def _split(fields: _Fields, piece: Piece, separators: str) -> None:
    for start, end, ended in _runs(piece.text, separators):
        if ended:
            if fields.parts or fields.quoted:
                fields.close()
            elif ended == "hard":
                fields.quoted = True
                fields.close()
        else:
            fields.parts.append(cut_piece(piece, start, end))


def _runs(text: str, separators: str) -> Iterator[tuple[int, int, str]]:
    """Stretches of text, and between them the separators: "soft" for blanks, "hard" for others such as commas."""
    kind = re.escape(separators)
    for match in re.finditer(f"[{kind}]+|[^{kind}]+", text):
        if match[0][0] not in separators:
            yield match.start(), match.end(), ""
            continue
        hard = [char for char in match[0] if char not in DEFAULT_IFS]
        yield match.start(), match.end(), "hard" if hard else "soft"
        for _ in hard[1:]:
            yield match.start(), match.end(), "hard"


def spread(parts: Parts, quoted: bool) -> list[Segment | None]:
    """An expansion's parts: split later unless in quotes, where even nothing makes a word."""
    if not parts:
        return [Segment(None, True)] if quoted else []
    return [Segment(part, quoted, split=not quoted) for part in parts]
