"""Assignments: scalars, arrays, items of arrays, `+=`."""

from __future__ import annotations

from dataclasses import replace

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.expand import Expander
from verlcli.config.shell.items import Assignment, RawWord, Template
from verlcli.config.shell.lexer import Lexer
from verlcli.config.shell.lint import lint_quotes
from verlcli.config.shell.numbers import Numbers
from verlcli.config.shell.parts import first_gap, text_as_run
from verlcli.config.shell.splitting import MOST_WORDS
from verlcli.config.shell.types import Piece
from verlcli.config.shell.world import Parts, Var


def assign(expander: Expander, assignment: Assignment, exported: bool = False, integer: bool = False) -> None:
    """Makes an assignment in the expander's world."""
    world, name = expander.world, assignment.name
    old = world.variables.get(name, Var())
    old = replace(old, exported=old.exported or exported, integer=old.integer or integer)
    if assignment.items is not None:
        world.put(name, _array(expander, assignment, old))
        return
    value = expander.text(assignment.value)
    if assignment.index is not None:
        world.put(name, _item(expander, assignment, old, value))
    elif old.items is not None:
        first: int | str = "0" if old.keyed else 0
        value = (*old.items.get(first, ()), *value) if assignment.append else value
        world.put(name, replace(old, items={**old.items, first: value}))
    else:
        world.put(name, replace(old, parts=_scalar(expander, assignment, old, value)))


def _scalar(expander: Expander, assignment: Assignment, old: Var, value: Parts) -> Parts:
    if old.integer:
        return _number(
            expander,
            assignment,
            (*old.parts, Piece("+", value[0].place), *value) if assignment.append and value else value,
        )
    if assignment.append:
        return expander.capped((*old.parts, *value), assignment.value_at)
    return value


def _number(expander: Expander, assignment: Assignment, value: Parts) -> Parts:
    place = expander.source.place(assignment.value_at)
    try:
        return (
            value
            if first_gap(value)
            else (Piece(str(evaluate(text_as_run(value), Numbers(expander.world, place))), place),)
        )
    except BadArithmeticError:
        return value


def _item(expander: Expander, assignment: Assignment, old: Var, value: Parts) -> Var:
    items: dict[int | str, Parts] = dict(old.items or ({0: old.parts} if old.parts else {}))
    key = _key(expander, assignment.index or (), old, assignment.at)
    if key is None:
        return replace(old, items=items)
    items[key] = (*items.get(key, ()), *value) if assignment.append else value
    return replace(old, items=dict(sorted(items.items(), key=_order)))


def _order(item: tuple[int | str, Parts]) -> tuple[int, str]:
    return (item[0], "") if isinstance(item[0], int) else (0, "")


def _key(expander: Expander, index: Template, old: Var, at: int) -> int | str | None:
    text = text_as_run(expander.text(index))
    if old.keyed:
        return text.strip("'\"")
    try:
        return evaluate(text, Numbers(expander.world, expander.source.place(at)))
    except BadArithmeticError:
        return None


def _array(expander: Expander, assignment: Assignment, old: Var) -> Var:
    """`name=(…)`: words in order, or at the keys written as `[key]=value`."""
    items: dict[int | str, Parts] = (
        dict(old.items or ({0: old.parts} if old.parts else {})) if assignment.append else {}
    )
    for raw in assignment.items or ():
        lint_quotes(expander.shell, expander.source, raw)
        keyed = _keyed(expander, raw, old)
        if keyed:
            items[keyed[0]] = keyed[1]
            continue
        following = max((key for key in items if isinstance(key, int)), default=-1) + 1
        for number, word in enumerate(expander.words(raw)):
            items[following + number] = word.parts
    if len(items) > MOST_WORDS:
        expander.shell.limit(expander.source.place(assignment.at), "an array with more items than are followed")
        items = dict(list(items.items())[:MOST_WORDS])
    return replace(old, parts=(), items=items)


def _keyed(expander: Expander, raw: RawWord, old: Var) -> tuple[int | str, Parts] | None:
    text = expander.source.text[raw.start : raw.end]
    closing = text.find("]=")
    if not text.startswith("[") or closing < 0:
        return None
    index = Lexer(expander.source.text, raw.start + 1, raw.start + closing).arithmetic()
    key = _key(expander, index, old, raw.start)
    value = Lexer(expander.source.text, raw.start + closing + 2, raw.end).word()
    return None if key is None else (key, expander.text(value))
