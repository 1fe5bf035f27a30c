"""What commands of bash print, and what they read, as far as it can be known."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.parts import Parts, cut_parts, first_gap, joined, rewritten, stripped, text_as_run
from verlcli.config.shell.shell import Call
from verlcli.config.shell.types import Gap, Piece, Place, Word
from verlcli.config.shell.world import Var, World

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


def read(call: Call) -> list[World]:
    """`read` takes its text from a here-document or a here-string; from elsewhere it cannot be known."""
    world, arguments = call.world, call.arguments
    array, whole = "-a" in arguments, any(text.startswith("-d") for text in arguments)
    names = _read_names(arguments)
    given = next((each for each in call.command.redirects if each.op in ("<<", "<<<")), None)
    place = call.expander.source.place(call.command.start)
    if given is None or first_gap(text := call.expander.text(given.target)):
        for name in names or ["REPLY"]:
            store(call, name, (Gap("what the script reads while it runs", place, name, "runtime"),))
        world.status = "maybe"
        return [world]
    world.status = "no" if whole else "yes"
    fields = _read_fields(call, text if whole else cut_parts(text, 0, len(text_as_run(text).partition("\n")[0])))
    if array and names:
        world.put(names[0], Var(items=dict(enumerate(fields))))
        return [world]
    _share(call, names, fields, stripped(text))
    return [world]


def _read_names(arguments: list[str]) -> list[str]:
    names, skip = [], False
    for text in arguments:
        if skip:
            skip = False
        elif text.startswith("-"):
            skip = text[-1:] in "dnNptui" and not (len(text) > 2 and text[1] in "dnNptui")
        else:
            names.append(text)
    return names


def _read_fields(call: Call, text: Parts) -> list[Parts]:
    prefix = next((a for a in call.command.assignments if a.name == "IFS"), None)
    ifs = call.world.variables.get("IFS")
    separators = (
        text_as_run(call.expander.text(prefix.value)) if prefix else text_as_run(ifs.scalar()) if ifs else " \t\n"
    )
    if not separators:
        return [text]
    kind = re.escape(separators)
    return [cut_parts(text, found.start(), found.end()) for found in re.finditer(f"[^{kind}]+", text_as_run(text))]


def _share(call: Call, names: list[str], fields: list[Parts], text: Parts) -> None:
    """One field a name, the rest to the last name as it stands."""
    place = call.expander.source.place(call.command.start)
    if len(names) <= 1:
        whole = text_as_run(text)
        start = len(whole) - len(whole.lstrip())
        store(call, names[0] if names else "REPLY", cut_parts(text, start, len(whole.rstrip())))
        return
    for number, name in enumerate(names):
        rest = fields[number:] if number + 1 == len(names) else fields[number : number + 1]
        store(call, name, joined(rest, " ") if place else ())


def store(call: Call, name: str, parts: Parts) -> None:
    """Sets a variable; anything but a plain name is left alone."""
    match = re.fullmatch(r"([A-Za-z_]\w*)(?:\[.*\])?", name, re.ASCII)
    if match and match[0] == match[1]:
        call.world.put(name, replace(call.world.variables.get(name, Var()), parts=parts, items=None))


def mapfile(call: Call) -> list[World]:
    """An array of lines that only a run can tell."""
    names = [text for text in call.arguments if text[:1] != "-" and not text.isdigit()]
    place = call.expander.source.place(call.command.start)
    gap = Gap("what the script reads while it runs", place, names[-1] if names else "MAPFILE", "runtime")
    call.world.put(names[-1] if names else "MAPFILE", Var(items={0: (gap,)}))
    return [call.world]
