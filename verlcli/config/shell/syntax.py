"""Places where the syntax tree says that the text is not bash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verlcli.config.shell.shell import Shell, shortened
from verlcli.config.shell.source import Source

if TYPE_CHECKING:
    from tree_sitter import Node

# Inside words the parser knows less of bash than our own reading, which then reports what is wrong.
_STATEMENTS = frozenset(
    (
        "program", "list", "if_statement", "elif_clause", "else_clause", "do_group", "for_statement", "while_statement",
        "case_statement", "case_item", "compound_statement", "subshell", "function_definition",
    )
)  # fmt: skip
_KEYWORDS = frozenset(("fi", "done", "esac", "then", "do", "}", ")", "in", ";;"))


def find_errors(shell: Shell, source: Source) -> None:
    """Adds a finding for the first place among statements where the parser lost its way: there bash stops."""
    pending = [source.tree()]
    while pending and not shell.errors:
        node = pending.pop()
        if node.is_missing and node.type in _KEYWORDS:
            _report(shell, source, node, f"`{node.type}` is missing here")
        elif (
            node.is_error
            and source.text[node.start_byte : node.end_byte].strip("\\ \n\t")
            and (node.parent is None or node.parent.type in _STATEMENTS)
        ):
            said = shortened(source.text[node.start_byte : node.end_byte], 40)
            _report(shell, source, node, f"bash does not understand `{said}` here")
        elif node.has_error:
            pending += reversed(node.children)


def _report(shell: Shell, source: Source, node: Node, what: str) -> None:
    place = source.place(node.start_byte)
    shell.errors.append(place)
    message = f"{what}: the script stops with a syntax error"
    shell.find("syntax", place, message, "check the quotes and keywords above, or run `bash -n` on the script", "error")
