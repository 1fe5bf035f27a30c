"""Commands of bash itself that change its state or print."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.assign import assign
from verlcli.config.shell.commands import DECLARING
from verlcli.config.shell.conditions import bracket_test
from verlcli.config.shell.judging import NotATestError
from verlcli.config.shell.parts import cut_parts, known_text
from verlcli.config.shell.shell import Call
from verlcli.config.shell.streams import echo, mapfile, printf, read, store
from verlcli.config.shell.types import Gap, Piece
from verlcli.config.shell.world import Flow, Numbers, Var, World

_SET_FLAGS = {"a": "allexport", "e": "errexit", "u": "nounset", "x": "xtrace", "f": "noglob", "n": "noexec"}
_DIGITS = re.compile(r"[0-9]+")


def _test(call: Call) -> list[World]:
    words, call.world.asked = call.words[1:], frozenset()
    if call.words[0].text == "[":
        words = words[:-1] if words and words[-1].text == "]" else ()
    try:
        answer = bracket_test(call.expander, words)
    except NotATestError:
        answer = False
    call.world.status = "maybe" if answer is None else ("yes" if answer else "no")
    return [call.world]


def _echo(call: Call) -> list[World]:
    call.world.printed(echo(call.words[1:], call.expander.source.place(call.command.start)))
    return [call.world]


def _printf(call: Call) -> list[World]:
    place = call.expander.source.place(call.command.start)
    words = call.words[1:]
    if len(words) > 2 and words[0].text == "-v":
        store(call, words[1].text_as_run, printf(words[2:], place))
    else:
        call.world.printed(printf(words, place))
    return [call.world]


def _declare(call: Call) -> list[World]:
    world, name = call.world, call.words[0].text
    flags = "".join(text[1:] for text in call.arguments if re.fullmatch(r"-\w+", text))
    names = [text for text in call.arguments if text[:1] not in ("-", "+")]
    if name == "export" and "n" in flags:
        for each in names:
            if each in world.variables:
                world.variables[each] = replace(world.variables[each], exported=False)
        return [world]
    for assignment in call.declared:
        _before_assignment(world, name or "", assignment.name, flags)
        assign(call.expander, assignment, name == "export" or "x" in flags, "i" in flags)
    for text in [] if "f" in flags or "p" in flags else names:
        _declare_name(call, name or "", text, flags)
    if name == "export":
        call.record()
    return [world]


def _before_assignment(world: World, command: str, name: str, flags: str) -> None:
    if command in ("local", "declare", "typeset") and world.saved and "g" not in flags:
        world.saved[-1].setdefault(name, world.variables.get(name))
        world.variables.pop(name, None)
    if "A" in flags:
        world.variables[name] = Var(items={}, keyed=True)
    elif "a" in flags and name not in world.variables:
        world.variables[name] = Var(items={})


def _declare_name(call: Call, command: str, text: str, flags: str) -> None:
    """A name without a value, or an assignment that came out of an expansion."""
    name, equals, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_]\w*\+?", name, re.ASCII):
        return
    _before_assignment(
        call.world, command, name, flags
    ) if name not in call.world.variables or call.world.saved else None
    exported = command == "export" or "x" in flags
    old = call.world.variables.get(name)
    if equals:
        word = next(word for word in call.words[1:] if word.text_as_run == text)
        whole = known_text(word.parts)
        parts = cut_parts(word.parts, len(name) + 1, len(text)) if whole is not None else tuple(word.gaps)
        call.world.put(name, Var(parts if value or whole is None else (), None, exported))
    elif old is not None:
        call.world.put(name, replace(old, exported=old.exported or exported, integer=old.integer or "i" in flags))


def _unset(call: Call) -> list[World]:
    for text in call.arguments:
        if text == "-f":
            continue
        base, _, index = text.rstrip("]").partition("[")
        variable = call.world.variables.get(base)
        if index and variable and variable.items is not None:
            key: int | str = int(index) if _DIGITS.fullmatch(index[:9]) and not variable.keyed else index
            call.world.variables[base] = replace(variable, items={k: v for k, v in variable.items.items() if k != key})
        else:
            call.world.variables.pop(text, None)
    return [call.world]


def _set(call: Call) -> list[World]:
    words, world, options = list(call.words[1:]), call.world, set(call.world.options)
    while words:
        text = words[0].text_as_run
        if text == "--" or text[:1] not in ("-", "+") or len(text) < 2:
            world.positional = tuple(word.parts for word in (words[1:] if text in ("--", "-") else words))
            if any(gap.kind == "arguments" for gap in call.expander.dropped):
                world.positional = world.positional or None
            break
        words.pop(0)
        names = {_SET_FLAGS.get(letter, "") for letter in text[1:]}
        if "o" in text[1:] and words:
            names.add(words.pop(0).text_as_run)
        options = options | names if text[0] == "-" else options - names
    else:
        if call.arguments == ["--"]:
            world.positional = ()
    world.options = frozenset(options - {""})
    return [world]


def _shift(call: Call) -> list[World]:
    world, count = call.world, call.arguments[0] if call.arguments else "1"
    if world.positional is not None and _DIGITS.fullmatch(count) and int(count[:9]) <= len(world.positional):
        world.positional = world.positional[int(count[:9]) :]
    return [world]


def _stop(flow: Flow) -> Callable[[Call], list[World]]:
    def run(call: Call) -> list[World]:
        call.world.flow = flow
        levels = call.arguments[0] if call.arguments and flow in ("break", "continue") else "1"
        call.world.levels = int(levels[:3]) if _DIGITS.fullmatch(levels) else 1
        status = call.arguments[0] if call.arguments else ""
        if flow == "return":
            call.world.status = "yes" if status == "0" else ("no" if _DIGITS.fullmatch(status) else call.world.status)
        return [call.world]

    return run


def _let(call: Call) -> list[World]:
    place = call.expander.source.place(call.command.start)
    for text in call.arguments:
        try:
            call.world.status = "yes" if evaluate(text, Numbers(call.world, place)) else "no"
        except BadArithmeticError:
            call.world.status = "maybe"
    return [call.world]


def _nothing(call: Call) -> list[World]:
    return [call.world]


def _false(call: Call) -> list[World]:
    call.world.status = "no"
    return [call.world]


def _likely(call: Call) -> list[World]:
    call.record()
    call.world.status = "likely"
    return [call.world]


def _pwd(call: Call) -> list[World]:
    place = call.expander.source.place(call.command.start)
    call.world.printed((Gap("the folder it runs in", place, "PWD", "command"), Piece("\n", place)))
    return [call.world]


BUILTINS: dict[str, Callable[[Call], list[World]]] = {
    **dict.fromkeys(("test", "["), _test),
    **dict.fromkeys(DECLARING, _declare),
    **dict.fromkeys((":", "true", "trap", "shopt", "ulimit", "wait", "umask", "alias", "hash", "getopts"), _nothing),
    **dict.fromkeys(("cd", "pushd", "popd"), _likely),
    **dict.fromkeys(("mapfile", "readarray"), mapfile),
    "false": _false,
    "echo": _echo,
    "printf": _printf,
    "pwd": _pwd,
    "unset": _unset,
    "set": _set,
    "shift": _shift,
    "read": read,
    "let": _let,
    "exit": _stop("exit"),
    "return": _stop("return"),
    "break": _stop("break"),
    "continue": _stop("continue"),
}
