"""One written word -> several: brace expansion before anything else, splitting at blanks after all else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from verlcli.config.quick import dataclass
from verlcli.config.shell.items import Item, Lit, Param, Template
from verlcli.config.shell.parts import Parts, cut_piece
from verlcli.config.shell.types import Gap, Piece, Place, Word

_MOST_BRACED = 1024
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
        if len(inner) * len(rest) > _MOST_BRACED:
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
    if abs(end - begin) // by >= _MOST_BRACED:
        raise TooManyWordsError
    numbers = range(begin, end + (1 if end >= begin else -1), by if end >= begin else -by)
    at = next(token.at for token in tokens)
    return [[Lit(str(number).zfill(width) if first else chr(number), at, False)] for number in numbers]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part with how it is written: in quotes or not, from an expansion (and so to be split) or not."""

    part: Piece | Gap | None  # None: an empty text in quotes
    quoted: bool
    split: bool = False


_STAY = frozenset(("command", "runtime", "unsupported", "refused"))  # gaps that make a word of their own
Break = None  # between the items of "${a[@]}", where one word ends and the next begins
DEFAULT_IFS = " \t\n"
MOST_WORDS = 20_000


class _Fields:
    def __init__(self, place: Place, apart: bool) -> None:
        self.place, self.apart = place, apart
        self.done: list[Word] = []
        self.dropped: list[Gap] = []
        self.parts: list[Piece | Gap] = []
        self.quoted = False

    def close(self) -> None:
        """Ends a word; one that is empty and without quotes is no word."""
        vanishing = [part for part in self.parts if isinstance(part, Gap) and part.kind not in _STAY]
        if self.quoted or len(vanishing) < len(self.parts):
            place = self.parts[0].place if self.apart and self.parts else self.place
            self.done.append(Word(place, tuple(self.parts), self.quoted))
        else:
            self.dropped += vanishing
        self.parts, self.quoted = [], False


def split_fields(
    segments: list[Segment | None], place: Place, separators: str = DEFAULT_IFS, apart: bool = False
) -> tuple[list[Word], list[Gap]]:
    """Words of one written word, and the gaps that vanish because nothing stands beside them.

    They stand at `place`, or with `apart` where each of them was written.
    """
    fields = _Fields(place, apart)
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
    if not any(separator in piece.text for separator in separators):
        if piece.text:
            fields.parts.append(piece)
        return
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


def in_one(segments: list[Segment | None]) -> Parts:
    """Parts of a text that is not split: a space between the items of `${a[@]}`, whatever IFS says."""
    parts: list[Piece | Gap] = []
    spaces = 0
    for segment in segments:
        spaces += segment is Break
        if segment is None or segment.part is None:
            continue
        if spaces:
            parts.append(Piece(" " * spaces, segment.part.place))
            spaces = 0
        parts.append(segment.part)
    return (*parts, Piece(" " * spaces, parts[-1].place)) if spaces and parts else tuple(parts)
