"""Statements made of others: `a && b || c`, `a | b`, `( … )`, and those with redirections."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from verlcli.config.shell.shell import shortened
from verlcli.config.shell.switches import as_if_set, other_choices
from verlcli.config.shell.types import Gap, Place
from verlcli.config.shell.world import World, merged

if TYPE_CHECKING:
    from tree_sitter import Node

    from verlcli.config.shell.statements import Run


def run_list(run: Run, node: Node, world: World) -> list[World]:
    """`a && b || c`, from left to right."""
    chain: list[tuple[str, Node]] = []
    while node.type == "list" and len(node.children) >= 3:
        left, joiner, *rest = node.children
        right = next((child for child in rest if child.is_named and child.type != "comment"), None)
        if right is not None:
            chain.append((joiner.type, right))
        node = left
    used, run.shell.status_used = run.shell.status_used, bool(chain) or run.shell.status_used
    worlds = run.statement(node, world)
    run.shell.status_used = used
    before, base = node, world.conditions
    # A program is taken to succeed, unless something is written for the case that it does not.
    last_or = next((number for number, (operator, _) in enumerate(chain) if operator == "||"), len(chain))
    for number, (operator, right) in reversed(list(enumerate(chain))):
        sure = number < last_or
        worlds = [out for each in worlds for out in _then(run, each, operator, sure, before, right)]
        worlds = run.limited(merged(worlds, base), node) if len(worlds) > 1 else worlds
        before = right
    return worlds


def _then(run: Run, world: World, operator: str, sure: bool, left: Node, right: Node) -> list[World]:
    if world.flow:
        return [world]
    wanted, other = ("yes", "no") if operator == "&&" else ("no", "yes")
    if chosen := _chosen(run, world, left):
        return [out for each in (world, *chosen) for out in _then(run, each, operator, sure, left, right)]
    if world.status == other:
        return [world]
    if world.status == wanted or (world.status == "likely" and sure):
        return _decided(run, world, right, run.source.place(left.start_byte))
    return _both(run, world, operator, left, right)


def _chosen(run: Run, world: World, left: Node) -> list[World]:
    """The worlds in which variables that the test on the left asks for were chosen otherwise."""
    said = shortened(run.source.text[left.start_byte : left.end_byte], 80)
    if not said.startswith(("[", "test ")) or world.status not in ("yes", "no"):
        return []
    chosen = other_choices(run, world, said, run.source.place(left.start_byte))
    for each in chosen:
        told = "if" if each.status == "yes" else "unless"
        each.conditions, each.asked = (*world.conditions, f"{told} {said}"), frozenset()
    return chosen


def _decided(run: Run, world: World, right: Node, place: Place) -> list[World]:
    """The right side runs; where it only ends the script for want of a variable, life without it goes on too."""
    touched, spare = world.touched_unset, world.copy()
    worlds = run.statement(right, world)
    if touched and all(each.flow == "exit" for each in worlds):
        return [as_if_set(run, spare, place)]
    return worlds


def _both(run: Run, world: World, operator: str, left: Node, right: Node) -> list[World]:
    skipped, base = world.copy(), world.conditions
    said = shortened(run.source.text[left.start_byte : left.end_byte], 80)
    tested = said.startswith(("[", "test ", "(("))
    told = f"if {said}" if operator == "&&" else (f"unless {said}" if tested else f"if {said} fails")
    world.conditions = (*base, told)
    skipped.conditions = (*base, f"unless {said}" if operator == "&&" else f"if {said}")
    skipped.status = "no" if operator == "&&" else "yes"
    return merged([skipped, *run.statement(right, world)], base)


def run_pipeline(run: Run, node: Node, world: World) -> list[World]:
    """`a | b`: each part in a shell of its own."""
    parts = _parts(node)
    output, outer = world.output, run.shell.piped_to
    last: list[World] = []
    for number, part in enumerate(parts):
        inner = world.copy()
        ends = number + 1 == len(parts)
        inner.output = () if output is not None else None
        run.shell.piped_to = outer if ends else _first_word(run, parts[number + 1])
        last = run.statement(part, inner)
    run.shell.piped_to = outer
    _piped_output(run, node, world, last)
    world.status = "likely"
    return [world]


def _piped_output(run: Run, node: Node, world: World, last: list[World]) -> None:
    if world.output is None:
        return
    said = shortened(run.source.text[node.start_byte : node.end_byte])
    gap = Gap(f"the output of `{said}`", run.source.place(node.start_byte), None, "command")
    outputs = {each.output or () for each in last}
    world.printed(outputs.pop() if len(outputs) == 1 else (gap,))


def _first_word(run: Run, node: Node) -> str:
    match = re.compile(r"[^\s;&|()]+").match(run.source.text, node.start_byte)
    return match[0].rpartition("/")[2] if match else ""


def run_redirected(run: Run, node: Node, world: World) -> list[World]:
    """A statement with redirections; those of a simple command are read with it."""
    body = node.child_by_field_name("body")
    if body is None:
        return run.simple(node, world)
    nested = [
        child
        for redirect in node.children
        if redirect.type == "heredoc_redirect"
        for child in redirect.children
        if child.type in ("pipeline", "list", "command")
    ]
    if nested:
        run.shell.piped_to, before = _first_word(run, nested[0].named_children[0]), run.shell.piped_to
        worlds = run.statement(body, world)
        run.shell.piped_to = before
        return run.block(nested, worlds)
    return run.statement(body, world)


def run_subshell(run: Run, node: Node, world: World) -> list[World]:
    """`( … )`: nothing but what it prints and launches is left of it."""
    inner = world.copy()
    inner.output = () if world.output is not None else None
    results = run.block(node.children, [inner])
    _piped_output(run, node, world, results)
    statuses = {result.status for result in results}
    world.status = statuses.pop() if len(statuses) == 1 else "maybe"
    return [world]


def _parts(node: Node) -> list[Node]:
    """Parts of a pipeline; the parser nests them when one has a redirection."""
    parts: list[Node] = []
    while True:
        *first, last = [child for child in node.named_children if child.type not in ("comment", "file_redirect")]
        parts = [last, *parts]
        for child in reversed(first[1:]):
            parts = [child, *parts]
        if not first:
            return parts
        head = first[0]
        body = head.child_by_field_name("body") if head.type == "redirected_statement" else None
        node = body if body is not None and body.type == "pipeline" else head
        if node.type != "pipeline":
            return [node, *parts]
