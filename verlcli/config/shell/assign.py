"""Assignments in one world: scalars, arrays and their items, from the texts that an expander makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.expand import Expander
from verlcli.config.shell.items import Assignment, RawWord, Template
from verlcli.config.shell.lexer import Lexer
from verlcli.config.shell.lint import lint_quotes
from verlcli.config.shell.parts import Parts, first_gap, text_as_run
from verlcli.config.shell.sharing import shared
from verlcli.config.shell.splitting import MOST_WORDS
from verlcli.config.shell.types import Gap, Piece
from verlcli.config.shell.world import Numbers, Var, last_index

_ITEMS_A_STEP = 64  # that are copied for the work of one step


def assign(expander: Expander, assignment: Assignment, exported: bool = False, integer: bool = False) -> None:
    """Makes an assignment in the expander's world."""
    world, name = expander.world, assignment.name
    old = world.variables.get(name, Var())
    if (exported and not old.exported) or (integer and not old.integer):
        old = Var(old.parts, old.items, old.exported or exported, old.integer or integer, old.keyed)
    if assignment.items is not None:
        world.put(name, _array(expander, assignment, old))
        return
    (value,) = shared(expander, assignment.expanded, (assignment.value,), lambda: (expander.text(assignment.value),))
    if assignment.index is not None:
        world.put(name, _item(expander, assignment, old, value))
    elif old.items is not None:
        first: int | str = "0" if old.keyed else 0
        value = (*old.items.get(first, ()), *value) if assignment.append else value
        world.put(name, replace(old, items={**old.items, first: value}))
    else:
        parts = _scalar(expander, assignment, old, value)
        world.put(name, Var(parts, None, old.exported, old.integer, old.keyed))


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
    items = old.items or {}
    expander.shell.charge(len(items) // _ITEMS_A_STEP)
    key = _key(expander, assignment.index or (), old, assignment.at)
    if key is None:
        return replace(old, items=old.listed())
    if isinstance(key, int) and key < 0:
        key += last_index(items) + 1
    return old.with_item(key, (*items.get(key, ()), *value) if assignment.append else value)


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
    items = old.listed() if assignment.append else {}
    expander.shell.charge(len(items) // _ITEMS_A_STEP)
    raws, text = assignment.items or (), expander.source.text
    if any(text.startswith("[", raw.start) for raw in raws):
        _put_keyed(expander, raws, old, items)
    else:
        templates = (raw.items for raw in raws)
        values = shared(expander, assignment.expanded, templates, lambda: tuple(_values(expander, raws)))
        items.update(enumerate(values, last_index(items) + 1))
    if len(items) > MOST_WORDS:
        expander.shell.limit(expander.source.place(assignment.at), "an array with more items than are followed")
        items = dict(list(items.items())[:MOST_WORDS])
    return Var((), items, old.exported, old.integer, old.keyed)


def _values(expander: Expander, raws: Iterable[RawWord]) -> Iterator[Parts]:
    """Items that written words become, in order."""
    for raw in raws:
        lint_quotes(expander.shell, expander.source, raw)
        for word in expander.words(raw):
            yield word.parts if word.quoted or first_gap(word.parts) is None else tuple(map(_splits, word.parts))


def _put_keyed(expander: Expander, raws: Iterable[RawWord], old: Var, items: dict[int | str, Parts]) -> None:
    for raw in raws:
        keyed = _keyed(expander, raw, old)
        if keyed:
            lint_quotes(expander.shell, expander.source, raw)
            items[keyed[0]] = keyed[1]
        else:
            items.update(enumerate(_values(expander, (raw,)), last_index(items) + 1))


def _splits(part: Piece | Gap) -> Piece | Gap:
    """A part without quotes: what only a run can tell becomes any number of items."""
    return replace(part, many=True) if isinstance(part, Gap) else part


def _keyed(expander: Expander, raw: RawWord, old: Var) -> tuple[int | str, Parts] | None:
    text = expander.source.text[raw.start : raw.end]
    closing = text.find("]=")
    if not text.startswith("[") or closing < 0:
        return None
    index = Lexer(expander.source.text, raw.start + 1, raw.start + closing).arithmetic()
    key = _key(expander, index, old, raw.start)
    value = Lexer(expander.source.text, raw.start + closing + 2, raw.end).word()
    return None if key is None else (key, expander.text(value))
