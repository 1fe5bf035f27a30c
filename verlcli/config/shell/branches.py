"""`if` and `case`: the branch bash takes, or every branch where only a run can tell."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from verlcli.config.shell.expand import Expander
from verlcli.config.shell.items import Param
from verlcli.config.shell.lexer import Lexer
from verlcli.config.shell.parts import Parts, known_text
from verlcli.config.shell.patterns import TooHardError, matches
from verlcli.config.shell.shell import shortened
from verlcli.config.shell.switches import EQUALITY, as_if_set, choose, other_case, other_choices, other_values
from verlcli.config.shell.types import Gap, Piece, Place
from verlcli.config.shell.world import World, merged

if TYPE_CHECKING:
    from tree_sitter import Node

    from verlcli.config.shell.items import Template
    from verlcli.config.shell.statements import Run

Branch = tuple[list["Node"], list["Node"]]  # condition and body; an `else` has no condition


def run_if(run: Run, node: Node, world: World) -> list[World]:
    """`if`, its `elif`s and its `else`."""
    base = world.conditions
    branches = [_branch(node)]
    branches += [_branch(child) for child in node.children if child.type in ("elif_clause", "else_clause")]
    results = _tried(run, branches, world)
    return merged(results, base) if len(results) > 1 else results


def _branch(node: Node) -> Branch:
    condition: list[Node] = []
    body: list[Node] = []
    side = body if node.type == "else_clause" else condition
    for child in node.children:
        if child.type in ("if", "elif", "else", "fi", "elif_clause", "else_clause"):
            continue
        if child.type == "then" and side is condition:
            side = body
        else:
            side.append(child)
    return condition, body


def _tried(run: Run, branches: list[Branch], world: World) -> list[World]:
    """Worlds after the first branch whose condition holds, and after the others where that is undecided."""
    if not branches:
        world.status = "yes"
        return [world]
    (condition, body), *others = branches
    if not condition:
        return run.block(body, [world])
    world.touched_unset, world.asked = False, frozenset()
    used, run.shell.status_used = run.shell.status_used, True
    tested = run.block(condition, [world])
    run.shell.status_used = used
    test = _said(run, condition), run.source.place(condition[0].start_byte)
    return [result for each in tested for result in _chosen(run, body, others, each, test)]


def _said(run: Run, condition: list[Node]) -> str:
    named = [node for node in condition if node.is_named]
    return shortened(run.source.text[named[0].start_byte : named[-1].end_byte], 80) if named else ""


def _chosen(run: Run, body: list[Node], others: list[Branch], world: World, test: tuple[str, Place]) -> list[World]:
    if world.flow:
        return [world]
    base, touched = world.conditions, world.touched_unset
    choices = other_choices(run, world, *test) if world.status in ("yes", "no") else []
    spare = world.copy()
    if world.status in ("yes", "no"):
        taken = run.block(body, [world]) if world.status == "yes" else _tried(run, others, world)
        if not touched or not all(each.flow == "exit" for each in taken):
            # First comes what bash does without any word about it.
            return [*taken, *_otherwise(run, body, others, choices, base, test[0])]
        # Bash would stop here for want of a variable that the user sets before a real run.
        as_if_set(run, spare, test[1])
        return _tried(run, others, spare) if spare.status == "yes" else run.block(body, [spare])
    if (match := EQUALITY.fullmatch(test[0])) and not match["not"]:
        _take(world, run, match, body)
    world.conditions, spare.conditions = (*base, f"if {test[0]}"), (*base, f"unless {test[0]}")
    return [*run.block(body, [world]), *_tried(run, others, spare)]


def _otherwise(
    run: Run, body: list[Node], others: list[Branch], worlds: list[World], base: tuple[str, ...], said: str
) -> list[World]:
    """Goes on behind a decided test in the worlds in which a variable was chosen otherwise."""
    results = []
    for world in worlds:
        world.conditions = (*base, f"{'if' if world.status == 'yes' else 'unless'} {said}")
        results += run.block(body, [world]) if world.status == "yes" else _tried(run, others, world)
    return results


def _take(world: World, run: Run, match: re.Match[str], body: list[Node]) -> None:
    """Inside `if [ $X = value ]` an unknown `$X` is that value."""
    variable = world.variables.get(match["name"])
    if variable is not None and len(variable.parts) == 1 and isinstance(variable.parts[0], Gap) and body:
        piece = Piece(match["value"], run.source.place(body[0].start_byte))
        world.put(match["name"], replace(variable, parts=(piece,)))


def run_case(run: Run, node: Node, world: World) -> list[World]:
    """`case`: the first item whose pattern fits; every item that may fit where the subject is not known."""
    opening = next((child for child in node.children if child.type == "in"), node.children[-1])
    written = _words(run, node.start_byte + len("case"), opening.start_byte)[0]
    name, place = _open_name(run, world, written), run.source.place(node.start_byte)
    others = [(text, other_case(world, name, text, place)) for text in other_values(run.source, world, name)]
    base, said = world.conditions, shortened(run.source.text[node.start_byte : opening.end_byte], 60)
    results = _case(run, node, world, written, said)
    for text, other in others:
        other.conditions = (*base, f"{said} {text})")
        results += _case(run, node, other, written, said)
    return merged(results, base) if others else results


def _open_name(run: Run, world: World, written: Template) -> str:
    """The variable with a default that a `case` asks for; empty for other subjects."""
    param = written[0] if len(written) == 1 else None
    if not isinstance(param, Param) or param.op not in ("", ":-", "-") or param.index is not None:
        return ""
    subject = Expander(run.shell, run.source, world).text(written)
    return param.name if known_text(subject) is not None else ""


def _case(run: Run, node: Node, world: World, written: Template, said: str) -> list[World]:
    expander = Expander(run.shell, run.source, world)
    subject = expander.text(written)
    text = known_text(subject)
    base, results = world.conditions, list[World]()
    for item in (child for child in node.children if child.type == "case_item"):
        fits, pattern = _fits(run, expander, item, text)
        if fits is False:
            continue
        entered = world.copy()
        if fits is None or results:
            entered.conditions = (*base, f"{said} {_pattern_text(run, item)})")
        _narrow(entered, written, subject, pattern)
        results += run.block(_body(item), [entered])
        if fits:
            return merged(results, base)
    return merged([*results, world], base)


def _narrow(world: World, written: Template, subject: Parts, pattern: Parts) -> None:
    """Inside `case $X in value)` an unknown `$X` is that value."""
    param = written[0] if len(written) == 1 else None
    if not isinstance(param, Param) or param.op or param.index is not None or known_text(subject) is not None:
        return
    if pattern and len(subject) == 1 and not param.name.isdigit():
        choose(world, param.name, pattern)


def _body(item: Node) -> list[Node]:
    numbers = [number for number, child in enumerate(item.children) if child.type == ")"]
    return item.children[numbers[0] + 1 :] if numbers else []


def _pattern_text(run: Run, item: Node) -> str:
    bracket = next((child for child in item.children if child.type == ")"), item)
    return shortened(run.source.text[item.start_byte : bracket.start_byte], 40)


def _fits(run: Run, expander: Expander, item: Node, text: str | None) -> tuple[bool | None, Parts]:
    """Whether an item fits, and its pattern where that is one plain text."""
    bracket = next((child for child in item.children if child.type == ")"), None)
    end = bracket.start_byte if bracket is not None else item.end_byte
    patterns = _words(run, item.start_byte, end)
    if run.source.text[item.start_byte : end].strip("( ") == "*":
        return True, ()
    answers = [_matches(expander, pattern, text) for pattern in patterns]
    plain = expander.text(patterns[0]) if len(patterns) == 1 else ()
    literal = plain if not re.search(r"[*?\[]", known_text(plain) or "*") else ()
    return (True if True in answers else None if None in answers else False), literal


def _matches(expander: Expander, pattern: Template, text: str | None) -> bool | None:
    try:
        return None if text is None else matches(expander.pattern(pattern), text)
    except TooHardError:
        return None


def _words(run: Run, start: int, end: int) -> list[Template]:
    """Words between two offsets, blanks, bars and brackets left out; at least one."""
    lexer, words = Lexer(run.source.text, start, end), []
    while lexer.at < end:
        at = lexer.at
        items = lexer.word("pattern")
        if items:
            words.append(items)
        if lexer.at == at:
            lexer.at += 1
    return words or [()]
