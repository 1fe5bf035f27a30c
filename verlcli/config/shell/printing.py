"""What `echo`, `printf` and the small programs of a script's `$(…)` print, as far as it can be known."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from verlcli.config.shell.parts import joined, rewritten
from verlcli.config.shell.types import Gap, Piece, Place, Word
from verlcli.config.shell.world import Parts

_FORMAT = re.compile(r"%(?:%|(-?0?\d*(?:\.\d+)?)([sdi]))|%|\\(?:(n)|(t)|(\\))|[^%\\]+|\\")


def echo(words: Sequence[Word], place: Place) -> Parts:
    """Output of `echo`; `-e` changes only texts with a backslash, which are then not known."""
    flags = []
    while words and re.fullmatch(r"-[neE]+", words[0].text or ""):
        flags.append(words[0].text_as_run[1:])
        words = words[1:]
    parts = joined([word.parts for word in words], " ")
    if "e" in "".join(flags) and any(isinstance(part, Piece) and "\\" in part.text for part in parts):
        return (Gap("the output of `echo -e`", place, None, "command"),)
    return parts if "n" in "".join(flags) else (*parts, Piece("\n", place))


def printf(words: Sequence[Word], place: Place) -> Parts:
    """Output of `printf` with the formats %s and %d, used once more while arguments are left."""
    form = words[0].text if words else None
    if form is None:
        return (Gap("the output of `printf`", place, None, "command"),)
    arguments, out = list(words[1:]), list[Piece | Gap]()
    for _ in range(1000):
        before = len(arguments)
        if not _printed_once(form, arguments, out, place):
            return (Gap("the output of `printf`", place, None, "command"),)
        if not arguments or len(arguments) == before:
            break
    return tuple(out)


def _printed_once(form: str, arguments: list[Word], out: list[Piece | Gap], place: Place) -> bool:
    for match in _FORMAT.finditer(form):
        flags, kind, newline, tab, backslash = match.groups()
        if kind:
            word = arguments.pop(0) if arguments else Word(place, ())
            shown = _formatted(word, flags, kind)
            if shown is None:
                return False
            out += shown
        elif newline or tab or backslash:
            out.append(Piece("\n" if newline else "\t" if tab else "\\", place))
        elif match[0] in ("%", "\\"):
            return False
        else:
            out.append(Piece(match[0].replace("%%", "%"), place))
    return True


def _formatted(word: Word, flags: str, kind: str) -> Parts | None:
    if not flags and kind == "s":
        return word.parts
    text = word.text
    if text is None or len(flags) > 4:
        return None
    try:
        shown = f"%{flags}{kind}" % (text if kind == "s" else int(text or "0"))
    except ValueError:
        return None
    return rewritten(word.parts, shown) or (Piece(shown, word.place),)


def program_output(name: str, words: Sequence[Word], place: Place) -> Parts:
    """Output of `seq`, `expr`, `basename` and `dirname` on known words; of every other program a gap."""
    texts = [word.text for word in words]
    known = [text for text in texts if text is not None]
    computed = _computed(name, known) if len(known) == len(texts) else None
    if computed is None:
        said = " ".join([name, *(word.text_as_run for word in words)])[:80]
        return (Gap(f"the output of `{said}`", place, None, "command"),)
    shown = rewritten(words[0].parts, computed) if words else ()
    return (*(shown or (Piece(computed, place),)), Piece("\n", place))


def _computed(name: str, texts: list[str]) -> str | None:
    if name == "seq":
        return _seq(texts)
    if name == "basename" and len(texts) in (1, 2):
        base = posixpath.basename(texts[0].rstrip("/"))
        suffix = texts[1] if len(texts) == 2 else ""
        return base.removesuffix(suffix) if suffix and base != suffix else base
    if name == "dirname" and len(texts) == 1:
        return posixpath.dirname(texts[0].rstrip("/")) or ("/" if texts[0].startswith("/") else ".")
    return _expr(texts) if name == "expr" else None


def _seq(texts: list[str]) -> str | None:
    if not 1 <= len(texts) <= 3 or not all(re.fullmatch(r"-?\d{1,9}", text) for text in texts):
        return None
    numbers = [int(text) for text in texts]
    first, step, last = {1: (1, 1, numbers[-1]), 2: (numbers[0], 1, numbers[-1])}.get(len(texts), tuple(numbers))
    if step == 0 or abs(last - first) // abs(step) > 1000:
        return None
    return "\n".join(map(str, range(first, last + (1 if step > 0 else -1), step)))


def _expr(texts: list[str]) -> str | None:
    from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate

    if not all(re.fullmatch(r"-?\d+|[-+*/%()]", text) for text in texts):
        return None
    try:
        return str(evaluate(" ".join(texts), _NoNames()))
    except BadArithmeticError:
        return None


class _NoNames:
    """`expr` knows no variables."""

    def get(self, name: str) -> str:
        """Nothing has a value."""
        return name and ""

    def put(self, name: str, value: int) -> None:
        """Nothing is kept."""
