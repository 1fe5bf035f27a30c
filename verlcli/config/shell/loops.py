"""`for`, `while` and `until`: every pass while they are few and known, else one pass."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.commands import read_command
from verlcli.config.shell.expand import Expander
from verlcli.config.shell.items import RawWord
from verlcli.config.shell.parts import Parts
from verlcli.config.shell.shell import shortened
from verlcli.config.shell.types import Gap, Word
from verlcli.config.shell.world import Numbers, Status, Var, World, merged

if TYPE_CHECKING:
    from tree_sitter import Node

    from verlcli.config.shell.statements import Run

MOST_PASSES = 32
_ARGUMENTS = re.compile(r"\bgetopts?\b|\$#|\$\{?[1@*]")


def run_for(run: Run, node: Node, world: World) -> list[World]:
    """`for x in words`; without words it is the script's or the function's arguments."""
    variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if variable is None or body is None:
        return [world]
    name = run.source.text[variable.start_byte : variable.end_byte]
    words, dropped = _values(run, node, world)
    own = any(gap.kind == "arguments" for gap in dropped)
    if own and not words:
        return _maybe_once(run, node, world, name, dropped[0])
    passes, launches = len(words), len(run.shell.launches)
    words, spare = words[-1:] if passes > MOST_PASSES else words, world.copy()
    worlds = [world]
    for word in words:
        live = [each for each in worlds if not each.flow]
        if not live:
            break
        for each in live:
            _set(each, name, word.parts)
        worlds = _pass(run, body, worlds)
        if len(worlds) > 1:
            worlds = merged(worlds, but=name if any(each.flow for each in worlds) else "")
    worlds = _left(worlds)
    if passes > MOST_PASSES and (launches != len(run.shell.launches) or not _only_waited(spare, worlds, name)):
        message = f"the loop over {name} has {passes} passes; only its last value is followed"
        run.shell.find("limit", run.source.place(node.start_byte), message, None, "note")
    return worlds


def _only_waited(before: World, after: list[World], name: str) -> bool:
    """Whether a loop left nothing behind but its own variable."""
    variables = {key: value for key, value in before.variables.items() if key != name}
    return all({key: each.variables[key] for key in each.variables if key != name} == variables for each in after)


def _values(run: Run, node: Node, world: World) -> tuple[list[Word], list[Gap]]:
    opening = next((child for child in node.children if child.type == "in"), None)
    place = run.source.place(node.start_byte)
    if opening is None:
        if world.positional is None:
            return [], [Gap("the script's own arguments", place, "@", "arguments")]
        return [Word(place, parts) for parts in world.positional], []
    expander = Expander(run.shell, run.source, world)
    command = read_command(run.source.text, opening.end_byte, node.end_byte, plain=True)
    words = [word for raw in command.words if isinstance(raw, RawWord) for word in expander.words(raw)]
    return words, expander.dropped


def _set(world: World, name: str, parts: Parts) -> None:
    world.put(name, replace(world.variables.get(name, Var()), parts=parts, items=None))


def _maybe_once(run: Run, node: Node, world: World, name: str, gap: Gap) -> list[World]:
    body, base = node.child_by_field_name("body"), world.conditions
    entered = world.copy()
    _set(entered, name, (gap,))
    entered.conditions = (*base, f"for {name} in the script's arguments")
    results = _left(_pass(run, body, [entered])) if body is not None else []
    return merged([world, *results], base)


def _pass(run: Run, body: Node, worlds: list[World]) -> list[World]:
    """One pass through the body; a world that said `break` stays out of the next."""
    results = run.block(body.children, worlds)
    for world in results:
        if world.flow == "continue" and world.levels == 1:
            world.flow = ""
    return results


def _left(worlds: list[World]) -> list[World]:
    """Worlds behind a loop; `break 2` goes on with the loop around it."""
    for world in worlds:
        if world.flow in ("break", "continue"):
            world.flow = world.flow if world.levels > 1 else ""
            world.levels = max(1, world.levels - 1)
    return worlds


def run_counted(run: Run, node: Node, world: World) -> list[World]:
    """`for ((i = 0; i < n; i++))`."""
    body, text = node.child_by_field_name("body"), run.source.text
    opening = text.find("((", node.start_byte)
    head = text[opening + 2 : text.rfind("))", opening, body.start_byte)] if body is not None else ""
    first, test, step, *_ = [*head.split(";"), "", ""]
    worlds = [world]
    _reckon(run, node, world, first)
    for _ in range(MOST_PASSES):
        live = [each for each in worlds if not each.flow]
        held = _reckon(run, node, live[0], test) if live and test.strip() else None
        if body is None or not live or held == 0:
            break
        worlds = _pass(run, body, worlds)
        for each in worlds:
            _reckon(run, node, each, step)
        if held is None:
            break
    return _left(worlds)


def _reckon(run: Run, node: Node, world: World, text: str) -> int | None:
    try:
        expression = re.sub(r"\$\{?(\w+)\}?", r"\1", text)
        return evaluate(expression, Numbers(world, run.source.place(node.start_byte)))
    except BadArithmeticError:
        return None


def run_while(run: Run, node: Node, world: World) -> list[World]:
    """`while` and `until`: passes while the condition is known to hold, one pass where it is undecided."""
    body = node.child_by_field_name("body")
    condition = [child for child in node.children[1:] if body is not None and child.end_byte <= body.start_byte]
    named = [child for child in condition if child.is_named]
    if body is None or not named:
        return [world]
    said = run.source.text[named[0].start_byte : named[-1].end_byte]
    if _ARGUMENTS.search(said) and world.positional is None:
        # Options of the script: it is read as called without any.
        return [world]
    told = f"{node.children[0].type} {shortened(said, 80)}"
    wanted: Status = "no" if node.children[0].type == "until" else "yes"
    base, done, worlds = world.conditions, [], [world]
    for _ in range(MOST_PASSES):
        worlds = run.block(condition, worlds)
        entering, undecided, over = _grouped(worlds, wanted)
        done += [*over, *(each.copy() for each in undecided)]
        for each in undecided:
            each.conditions = (*each.conditions, told)
        done += _pass(run, body, undecided) if undecided else []
        if not entering:
            break
        worlds = _pass(run, body, entering)
        if len(worlds) > len(entering):
            # Undecided inside: a further pass would only double the worlds.
            done += worlds
            break
    else:
        done += worlds
    return merged(_left(done), base)


def _grouped(worlds: list[World], wanted: Status) -> tuple[list[World], list[World], list[World]]:
    """Worlds that enter a loop's body, those that may, and those that are done with it."""
    entering, undecided, over = list[World](), list[World](), list[World]()
    for world in worlds:
        if world.flow or world.status not in (wanted, "likely", "maybe"):
            over.append(world)
        else:
            (entering if world.status == wanted else undecided).append(world)
    return entering, undecided, over
