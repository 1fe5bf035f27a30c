"""A simple command in one world: its words expanded, its assignments made, its program looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.assign import assign
from verlcli.config.shell.builtins import BUILTINS
from verlcli.config.shell.commands import read_command
from verlcli.config.shell.conditions import double_bracket_test
from verlcli.config.shell.expand import Expander
from verlcli.config.shell.items import Assignment, RawWord, Redirect, SimpleCommand, Subst
from verlcli.config.shell.launches import run_program
from verlcli.config.shell.lexer import Lexer
from verlcli.config.shell.parts import first_gap, text_as_run
from verlcli.config.shell.programs import unset_python
from verlcli.config.shell.shell import Call
from verlcli.config.shell.source import Source
from verlcli.config.shell.types import Word
from verlcli.config.shell.world import Numbers, Status, World, merged

if TYPE_CHECKING:
    from tree_sitter import Node

    from verlcli.config.shell.statements import Run

_TO_FILE = frozenset((">", ">>", "1>", "1>>", "&>", "&>>", ">|", "1>|", ">&", "1>&"))


def command_at(source: Source, at: int, limit: int) -> SimpleCommand:
    """The simple command at an offset, not beyond `limit`, read once. Raises `UnclosedError`."""
    key = ("command", at, limit)
    if key not in source.cache:
        source.cache[key] = read_command(source.text, at, limit)
    command: SimpleCommand = source.cache[key]
    return command


def run_simple(run: Run, command: SimpleCommand, world: World) -> list[World]:
    """Runs one simple command; a function may make several worlds of one."""
    expander = Expander(run.shell, run.source, world)
    words: list[Word] = []
    declared: list[Assignment] = []
    for raw in command.words:
        if isinstance(raw, RawWord):
            words += expander.words(raw) or ([] if words else unset_python(expander, raw.start))
        else:
            declared.append(raw)
    if not words:
        return _assigned(run, command, expander)
    call = Call(run, command, expander, world, tuple(words), tuple(declared))
    before = world.output
    worlds = _called(call)
    if any(_hides_output(redirect) for redirect in command.redirects):
        for each in worlds:
            each.output = before
    return worlds


def _assigned(run: Run, command: SimpleCommand, expander: Expander) -> list[World]:
    """Assignments alone; where a `$(…)` in them prints one of a few texts, a world for each."""
    shell, world, written = run.shell, expander.world, run.source.text[command.start : command.end]
    if "$(" not in written and "`" not in written:
        _assign_all(expander, command)
        return [world]
    spare = world.copy()
    shell.offered.clear()
    _assign_all(expander, command)
    if len(shell.offered) != 1 or shell.forced:
        return [world]
    ((key, outputs),) = shell.offered.items()
    worlds = []
    for conditions, parts in list(outputs.items()):
        shell.forced = {key: parts}
        chosen = spare.copy()
        chosen.conditions = conditions
        _assign_all(Expander(shell, run.source, chosen), command)
        worlds.append(chosen)
    shell.forced = {}
    return merged(worlds, spare.conditions)


def _assign_all(expander: Expander, command: SimpleCommand) -> None:
    for assignment in command.assignments:
        assign(expander, assignment)
    expander.world.status = _assigned_status(command)


def _hides_output(redirect: Redirect) -> bool:
    return redirect.op in _TO_FILE


def _assigned_status(command: SimpleCommand) -> Status:
    for assignment in command.assignments:
        if any(isinstance(item, Subst) for item in assignment.value):
            return "likely"
    return "yes"


def _called(call: Call) -> list[World]:
    name, world = call.words[0].text, call.world
    function = world.functions.get(name) if name else None
    if function:
        return _function(call, function)
    builtin = BUILTINS.get(name) if name else None
    world.status = "yes"
    return builtin(call) if builtin else run_program(call)


def _function(call: Call, function: tuple[Source, Node]) -> list[World]:
    from verlcli.config.shell.statements import Run

    world, (source, body) = call.world, function
    outer = world.positional
    world.positional = tuple(word.parts for word in call.words[1:])
    world.saved = (*world.saved, {})
    kept = {each.name: world.variables.get(each.name) for each in call.command.assignments}
    for assignment in call.command.assignments:
        assign(call.expander, assignment, exported=True)
    worlds = Run(call.run.shell, source).statement(body, world)
    for each in worlds:
        each.positional = outer
        *outer_locals, local = each.saved
        each.saved = tuple(outer_locals)
        # What stands before a function's name is undone behind it, whatever the function made of it.
        for name, old in {**local, **kept}.items():
            if old is None:
                each.variables.pop(name, None)
            else:
                each.variables[name] = old
        if each.flow == "return":
            each.flow = ""
    return worlds


def run_arithmetic(run: Run, node: Node, world: World) -> list[World]:
    """`(( … ))`: true when it is not 0."""
    text = run.source.text
    body = Lexer(text, node.start_byte + 2, max(node.start_byte + 2, text.rfind("))", 0, node.end_byte))).arithmetic()
    parts = Expander(run.shell, run.source, world).text(body)
    gap = first_gap(parts)
    try:
        if gap and gap.kind != "unset":
            raise BadArithmeticError(gap.reason)
        value = evaluate(text_as_run(parts), Numbers(world, run.source.place(node.start_byte)))
        world.status = "yes" if value else "no"
    except BadArithmeticError:
        world.status = "maybe"
    return [world]


def run_double_bracket(run: Run, node: Node, world: World) -> list[World]:
    """`[[ … ]]`."""
    world.asked = frozenset()
    answer = double_bracket_test(Expander(run.shell, run.source, world), node.start_byte + 2, node.end_byte - 2)
    world.status = "maybe" if answer is None else ("yes" if answer else "no")
    return [world]
