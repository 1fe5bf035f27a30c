"""Statements of the syntax tree, walked in every world that is still possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from verlcli.config.shell.branches import run_case, run_if
from verlcli.config.shell.items import SimpleCommand
from verlcli.config.shell.lists import run_list, run_pipeline, run_redirected, run_subshell
from verlcli.config.shell.loops import run_counted, run_for, run_while
from verlcli.config.shell.scanner import UnclosedError
from verlcli.config.shell.shell import DEEPEST, MOST_STEPS, Shell
from verlcli.config.shell.simple import command_at, run_arithmetic, run_double_bracket, run_simple
from verlcli.config.shell.source import Source
from verlcli.config.shell.types import Gap
from verlcli.config.shell.world import World, merged, without_echoes

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_WORLDS = 16
_SIMPLE = frozenset(
    (
        "command", "variable_assignment", "variable_assignments", "declaration_command", "unset_command",
        "test_command", "ERROR", "word", "string", "concatenation", "raw_string", "simple_expansion", "expansion",
        "command_name", "number",
    )
)  # fmt: skip
_JOINED = frozenset(("list", "pipeline", "redirected_statement", "negated_command"))
_BETWEEN = re.compile(r"(?:[\s;&|]|\\\n)*")
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
        shell, out = self.shell, list[World]()
        before = shell.in_background, shell.several
        shell.in_background, shell.several = shell.in_background or background, shell.several or len(worlds) > 1
        for world in worlds:
            out += [world] if world.flow else self.statement(node, world)
        shell.in_background, shell.several = before
        return self.limited(merged(without_echoes(self._affordable(out))), node) if len(out) > 1 else out

    def _affordable(self, worlds: list[World]) -> list[World]:
        """In a script that does very much, only the worlds in which nobody chooses anything."""
        if self.shell.steps < MOST_STEPS // 3 or not any(world.switched for world in worlds):
            return worlds
        return [world for world in worlds if not world.switched] or worlds

    def limited(self, worlds: list[World], node: Node) -> list[World]:
        """At most 16 worlds; the rest is given up, and said so."""
        if len(worlds) > MOST_WORLDS:
            # What nobody may ever choose goes first, without a word.
            worlds = sorted(worlds, key=lambda world: world.switched)
            worlds = worlds[: max(MOST_WORLDS, sum(not world.switched for world in worlds))]
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
        if text.startswith("((", start) and node.type != "subshell" and node.type not in _JOINED:
            return run_arithmetic(self, node, world)
        if text.startswith("[[", start) and node.type == "test_command":
            return run_double_bracket(self, node, world)
        handler = _HANDLERS.get(node.type)
        if handler:
            return handler(self, node, world)
        return self.simple(node, world) if node.type in _SIMPLE else self.block(node.children, [world])

    def simple(self, node: Node, world: World) -> list[World]:
        """A simple command, and what the parser took into the same node behind it."""
        if node.type == "ERROR" and any(child.type in _HANDLERS for child in node.children):
            return self.block(node.children, [world])
        worlds, at = [world], node.start_byte
        while at < node.end_byte:
            blank = _BETWEEN.match(self.source.text, at)
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
    "list": run_list,
    "pipeline": run_pipeline,
    "redirected_statement": run_redirected,
    "subshell": run_subshell,
    "compound_statement": Run.group,
    "negated_command": Run.negated,
    "function_definition": Run.function,
    "if_statement": run_if,
    "case_statement": run_case,
    "for_statement": run_for,
    "c_style_for_statement": run_counted,
    "while_statement": run_while,
}
