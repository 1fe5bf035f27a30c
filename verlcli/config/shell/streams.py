"""What commands of bash print, and what they read, as far as it can be known."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.parts import Parts, cut_parts, first_gap, joined, rewritten, text_as_run
from verlcli.config.shell.shell import Call
from verlcli.config.shell.splitting import DEFAULT_IFS
from verlcli.config.shell.types import Gap, Piece, Place, Word
from verlcli.config.shell.world import Var, World

_READ_TAKES, _MAPFILE_TAKES = "adinNptu", "dnOsuCc"  # options with a value
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
    world = call.world
    options, names = _options(call.arguments, _READ_TAKES)
    text = _given(call) if not {"u", "n", "N"} & options.keys() else None
    if text is None:
        _read_unknown(call, options.get("a"), names or ["REPLY"])
        return [world]
    before, found, _ = text_as_run(text).partition(options["d"][0] if options.get("d") else "\n")
    to_the_end = options.get("d") == ""
    world.status = "yes" if found and not to_the_end else "no"
    line = text if to_the_end else cut_parts(text, 0, len(before))
    if array := options.get("a"):
        fields = [cut_parts(line, *span) for span in _read_fields(call, line)]
        world.put(array, Var(items=dict(enumerate(fields))))
    else:
        _share(call, names, line)
    return [world]


def _read_unknown(call: Call, array: str | None, names: list[str]) -> None:
    call.world.status = "maybe"
    if array:
        call.world.put(array, Var(items={0: (replace(_read_gap(call, array), many=True),)}))
        return
    for name in names:
        store(call, name, (_read_gap(call, name),))


def _options(arguments: Sequence[str], takes: str) -> tuple[dict[str, str], list[str]]:
    """Options of a builtin, letters of one word taken apart (`-ra NAME`), and the words behind them."""
    options, rest = dict[str, str](), list(arguments)
    while rest and rest[0].startswith("-") and len(rest[0]) > 1:
        text = rest.pop(0)
        if text == "--":
            break
        for behind, letter in enumerate(text[1:], 2):
            options[letter] = ""
            if letter in takes:
                options[letter] = text[behind:] or (rest.pop(0) if rest else "")
                break
    return options, rest


def _given(call: Call) -> Parts | None:
    """Text of the here-document or here-string, the line end that bash adds included; None when it is not known."""
    given = next((each for each in call.command.redirects if each.op in ("<<", "<<<")), None)
    if given is None or first_gap(text := call.expander.text(given.target)):
        return None
    return (*text, Piece("\n", call.expander.source.place(given.at))) if given.op == "<<<" else text


def _read_gap(call: Call, name: str) -> Gap:
    return Gap("what the script reads while it runs", call.expander.source.place(call.command.start), name, "runtime")


def _separators(call: Call) -> tuple[str, str]:
    """IFS as `read` sees it, and the blanks in it."""
    prefix = next((a for a in call.command.assignments if a.name == "IFS"), None)
    ifs = call.world.variables.get("IFS")
    given = call.expander.text(prefix.value) if prefix else ifs.scalar() if ifs else None
    separators = DEFAULT_IFS if given is None else text_as_run(given)
    return separators, "".join(char for char in separators if char in DEFAULT_IFS)


def _read_fields(call: Call, line: Parts) -> list[tuple[int, int]]:
    """Where the fields of a line stand: blanks of IFS go in runs, each other character of it ends one field."""
    separators, blanks = _separators(call)
    text = text_as_run(line)
    start, end = (len(text) - len(text.lstrip(blanks)), len(text.rstrip(blanks))) if blanks else (0, len(text))
    spans: list[tuple[int, int]] = []
    for ended in _field_ends(separators, blanks).finditer(text, start, end) if separators else ():
        spans.append((start, ended.start()))
        start = ended.end()
    return [*spans, (start, end)] if start < end else spans


def _field_ends(separators: str, blanks: str) -> re.Pattern[str]:
    blank = f"[{re.escape(blanks)}]" if blanks else "(?!)"
    hard = "".join(char for char in separators if char not in blanks)
    return re.compile(f"{blank}*[{re.escape(hard)}]{blank}*|{blank}+" if hard else f"{blank}+")


def _share(call: Call, names: list[str], line: Parts) -> None:
    """One field a name, the rest to the last name as it stands."""
    if not names:
        store(call, "REPLY", line)
        return
    spans = _read_fields(call, line)
    for number, name in enumerate(names):
        rest = spans[number:]
        if number + 1 == len(names) and len(rest) > 1:
            rest = [(rest[0][0], len(text_as_run(line).rstrip(_separators(call)[1] or "\n")))]
        store(call, name, cut_parts(line, *rest[0]) if rest else ())


def store(call: Call, name: str, parts: Parts) -> None:
    """Sets a variable; anything but a plain name is left alone."""
    match = re.fullmatch(r"([A-Za-z_]\w*)(?:\[.*\])?", name, re.ASCII)
    if match and match[0] == match[1]:
        call.world.put(name, replace(call.world.variables.get(name, Var()), parts=parts, items=None))


def mapfile(call: Call) -> list[World]:
    """An array of the lines of a here-document or a here-string; of lines from elsewhere only a run can tell."""
    options, names = _options(call.arguments, _MAPFILE_TAKES)
    name, text = names[0] if names else "MAPFILE", _given(call) if options.keys() <= {"t"} else None
    items: dict[int | str, Parts] = {} if text is not None else {0: (replace(_read_gap(call, name), many=True),)}
    if text is not None:
        at = 0
        for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text_as_run(text))):
            items[number] = cut_parts(text, at, at + len(line) - ("t" in options and line.endswith("\n")))
            at += len(line)
    call.world.put(name, Var(items=items))
    return [call.world]
