"""Statements of the syntax tree, walked in every world that is still possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from verlcli.config.shell.branches import run_case, run_if
from verlcli.config.shell.items import SimpleCommand
from verlcli.config.shell.lexer import UnclosedError
from verlcli.config.shell.loops import run_counted, run_for, run_while
from verlcli.config.shell.shell import DEEPEST, Shell, shortened
from verlcli.config.shell.simple import command_at, run_arithmetic, run_double_bracket, run_simple
from verlcli.config.shell.source import Source
from verlcli.config.shell.types import Gap
from verlcli.config.shell.world import World, merged

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_WORLDS = 16
_SIMPLE = frozenset(
    [
        "command",
        "variable_assignment",
        "variable_assignments",
        "declaration_command",
        "unset_command",
        "test_command",
        "ERROR",
        "word",
        "string",
        "concatenation",
        "raw_string",
        "simple_expansion",
        "expansion",
        "command_name",
        "number",
    ]
)
_JOINED = frozenset(("list", "pipeline", "redirected_statement", "negated_command"))
_SKIPPED = frozenset(("comment", "heredoc_body", "heredoc_end"))


class Run:
    """One reading of one source: the statements in it up to `limit`, run in worlds."""

    def __init__(self, shell: Shell, source: Source, limit: int | None = None) -> None:
        self.shell, self.source = shell, source
        self.limit = len(source.text) if limit is None else limit

    def block(self, nodes: Sequence[Node], worlds: Iterable[World]) -> list[World]:
        """Runs statements one after the other."""
        current, reached = list(worlds), 0
        for number, node in enumerate(nodes):
            if not node.is_named or node.type in _SKIPPED or node.start_byte < reached:
                continue
            if all(world.flow for world in current):
                break
            follower = nodes[number + 1] if number + 1 < len(nodes) else None
            behind = follower is not None and follower.type == "&"
            current = self._each(node, current, background=behind)
            reached = self.end(node)
        return current

    def _each(self, node: Node, worlds: list[World], background: bool) -> list[World]:
        before, self.shell.in_background = self.shell.in_background, self.shell.in_background or background
        out: list[World] = []
        for world in worlds:
            out += [world] if world.flow else self.statement(node, world)
        self.shell.in_background = before
        return self.limited(merged(out), node) if len(out) > 1 else out

    def limited(self, worlds: list[World], node: Node) -> list[World]:
        """At most 16 worlds; the rest is given up, and said so."""
        if len(worlds) <= MOST_WORLDS:
            return worlds
        if not any(kind == "unknown_world_limit" for kind, _, _ in self.shell.findings):
            message = f"more than {MOST_WORLDS} combinations of undecided branches: some launches below may be missing"
            advice = "check the script with the variables of the branches set to what you run it with"
            self.shell.find("unknown_world_limit", self.source.place(node.start_byte), message, advice, "note")
        return worlds[:MOST_WORLDS]

    def statement(self, node: Node, world: World) -> list[World]:
        """Runs one statement in one world, which may become several."""
        self.shell.charge(1)
        self.shell.depth += 1
        try:
            if self.shell.depth > DEEPEST:
                self.shell.limit(self.source.place(node.start_byte), "statements more deeply nested than is followed")
                return [world]
            return self._dispatch(node, world)
        except UnclosedError as unclosed:
            self.unclosed(unclosed)
            return [world]
        finally:
            self.shell.depth -= 1

    def _dispatch(self, node: Node, world: World) -> list[World]:
        text, start = self.source.text, node.start_byte
        if text.startswith("((", start) and node.type != "subshell":
            return run_arithmetic(self, node, world)
        if text.startswith("[[", start) and node.type == "test_command":
            return run_double_bracket(self, node, world)
        handler = _HANDLERS.get(node.type)
        if handler:
            return handler(self, node, world)
        return self._simple(node, world) if node.type in _SIMPLE else self.block(node.children, [world])

    def _simple(self, node: Node, world: World) -> list[World]:
        """A simple command, and what the parser took into the same node behind it."""
        if node.type == "ERROR" and any(child.type in _HANDLERS for child in node.children):
            return self.block(node.children, [world])
        worlds, at = [world], node.start_byte
        while at < node.end_byte:
            blank = re.compile(r"(?:[\s;&|]|\\\n)*").match(self.source.text, at)
            at = blank.end() if blank else at
            if at >= node.end_byte:
                break
            command = self.command(at)
            if command.end == at:
                at += 1
                continue
            worlds = [
                result for each in worlds for result in (run_simple(self, command, each) if not each.flow else [each])
            ]
            at = command.end
        return worlds

    def command(self, at: int) -> SimpleCommand:
        """The simple command at an offset; one whose quote never ends takes in the rest of the text."""
        try:
            return command_at(self.source, at, self.limit)
        except UnclosedError as unclosed:
            self.unclosed(unclosed)
            return SimpleCommand(at, self.limit, (), (), ())

    def unclosed(self, unclosed: UnclosedError) -> None:
        """Adds the finding of a quote or bracket without an end."""
        place = self.source.place(unclosed.at)
        if unclosed.beyond:
            self.shell.find("limit", place, str(unclosed), "write it in a simpler way", "note")
            return
        self.shell.errors.append(place)
        self.shell.find("syntax", place, str(unclosed), "close it where it should end", "error")

    def end(self, node: Node) -> int:
        """Offset behind a statement, by our own reading of the command it ends with."""
        furthest = node.end_byte
        while node.type in _JOINED and node.named_children:
            last = [child for child in node.named_children if child.type not in ("file_redirect", "heredoc_redirect")]
            node = last[-1] if last else node.named_children[-1]
            furthest = max(furthest, node.end_byte)
        if node.type in _SIMPLE and not self.source.text.startswith(("[[", "(("), node.start_byte):
            furthest = max(furthest, self.command(node.start_byte).end)
        return furthest

    def list_(self, node: Node, world: World) -> list[World]:
        """`a && b || c`, from left to right."""
        chain: list[tuple[str, Node]] = []
        while node.type == "list" and len(node.children) >= 3:
            left, joiner, *rest = node.children
            right = next((child for child in rest if child.is_named and child.type != "comment"), None)
            if right is not None:
                chain.append((joiner.type, right))
            node = left
        used, self.shell.status_used = self.shell.status_used, bool(chain) or self.shell.status_used
        worlds = self.statement(node, world)
        self.shell.status_used = used
        before = node
        # A program is taken to succeed, unless something is written for the case that it does not.
        last_or = next((number for number, (operator, _) in enumerate(chain) if operator == "||"), len(chain))
        for number, (operator, right) in reversed(list(enumerate(chain))):
            sure = number < last_or
            worlds = [out for each in worlds for out in self._then(each, operator, sure, before, right)]
            worlds = self.limited(merged(worlds), node) if len(worlds) > 1 else worlds
            before = right
        return worlds

    def _then(self, world: World, operator: str, sure: bool, left: Node, right: Node) -> list[World]:
        if world.flow:
            return [world]
        wanted, other = ("yes", "no") if operator == "&&" else ("no", "yes")
        if world.status == other:
            return [world]
        if world.status == wanted or (world.status == "likely" and sure):
            return self._decided(world, right)
        return self._both(world, operator, left, right)

    def _decided(self, world: World, right: Node) -> list[World]:
        """The right side runs; where it only ends the script for want of a variable, life without it goes on too."""
        touched, spare = world.touched_unset, world.copy()
        worlds = self.statement(right, world)
        if touched and all(each.flow == "exit" for each in worlds):
            return [spare]
        return worlds

    def _both(self, world: World, operator: str, left: Node, right: Node) -> list[World]:
        skipped, base = world.copy(), world.conditions
        said = shortened(self.source.text[left.start_byte : left.end_byte], 80)
        tested = said.startswith(("[", "test ", "(("))
        told = f"if {said}" if operator == "&&" else (f"unless {said}" if tested else f"if {said} fails")
        world.conditions = (*base, told)
        skipped.conditions = (*base, f"unless {said}" if operator == "&&" else f"if {said}")
        skipped.status = "no" if operator == "&&" else "yes"
        return merged([skipped, *self.statement(right, world)], base)

    def pipeline(self, node: Node, world: World) -> list[World]:
        """`a | b`: each part in a shell of its own."""
        parts = _parts(node)
        output, outer = world.output, self.shell.piped_to
        last: list[World] = []
        for number, part in enumerate(parts):
            inner = world.copy()
            ends = number + 1 == len(parts)
            inner.output = () if output is not None else None
            self.shell.piped_to = outer if ends else self._first_word(parts[number + 1])
            last = self.statement(part, inner)
        self.shell.piped_to = outer
        self._piped_output(node, world, last)
        world.status = "likely"
        return [world]

    def _piped_output(self, node: Node, world: World, last: list[World]) -> None:
        if world.output is None:
            return
        said = shortened(self.source.text[node.start_byte : node.end_byte])
        gap = Gap(f"the output of `{said}`", self.source.place(node.start_byte), None, "command")
        outputs = {each.output or () for each in last}
        world.printed(outputs.pop() if len(outputs) == 1 else (gap,))

    def _first_word(self, node: Node) -> str:
        match = re.compile(r"[^\s;&|()]+").match(self.source.text, node.start_byte)
        return match[0].rpartition("/")[2] if match else ""

    def redirected(self, node: Node, world: World) -> list[World]:
        """A statement with redirections; those of a simple command are read with it."""
        body = node.child_by_field_name("body")
        if body is None:
            return self._simple(node, world)
        nested = [
            child
            for redirect in node.children
            if redirect.type == "heredoc_redirect"
            for child in redirect.children
            if child.type in ("pipeline", "list", "command")
        ]
        if nested:
            self.shell.piped_to, before = self._first_word(nested[0].named_children[0]), self.shell.piped_to
            worlds = self.statement(body, world)
            self.shell.piped_to = before
            return self.block(nested, worlds)
        return self.statement(body, world)

    def subshell(self, node: Node, world: World) -> list[World]:
        """`( … )`: nothing but what it prints and launches is left of it."""
        inner = world.copy()
        inner.output = () if world.output is not None else None
        results = self.block(node.children, [inner])
        self._piped_output(node, world, results)
        statuses = {result.status for result in results}
        world.status = statuses.pop() if len(statuses) == 1 else "maybe"
        return [world]

    def group(self, node: Node, world: World) -> list[World]:
        """`{ …; }`, and any other node that only holds statements."""
        return self.block(node.children, [world])

    def negated(self, node: Node, world: World) -> list[World]:
        """`! a`."""
        worlds = self.block(node.named_children, [world])
        for each in worlds:
            each.status = {"yes": "no", "no": "yes"}.get(each.status, "maybe")  # type: ignore[assignment]
        return worlds

    def function(self, node: Node, world: World) -> list[World]:
        """A definition runs nothing."""
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            world.functions[self.source.text[name.start_byte : name.end_byte]] = (self.source, body)
        world.status = "yes"
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


def run_text(shell: Shell, source: Source, start: int, end: int, world: World) -> list[World]:
    """Runs the statements from `start` to `end` of a source."""
    run = Run(shell, source, end)
    shell.depth += 1
    try:
        if shell.depth > DEEPEST:
            shell.limit(source.place(start), "substitutions more deeply nested than are followed")
            world.printed((Gap("a substitution too deep to follow", source.place(start)),))
            return [world]
        return run.block(source.tree(start, end).children, [world])
    finally:
        shell.depth -= 1


_HANDLERS: dict[str, Callable[[Run, Node, World], list[World]]] = {
    "list": Run.list_,
    "pipeline": Run.pipeline,
    "redirected_statement": Run.redirected,
    "subshell": Run.subshell,
    "compound_statement": Run.group,
    "negated_command": Run.negated,
    "function_definition": Run.function,
    "if_statement": run_if,
    "case_statement": run_case,
    "for_statement": run_for,
    "c_style_for_statement": run_counted,
    "while_statement": run_while,
}
