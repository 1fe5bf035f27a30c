"""YAML events -> a tree of nodes with their places; everything hostile or ambiguous is refused here.

The builder keeps its own stack, so that no input makes Python or C recurse, and counts what aliases would expand to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import yaml

from verlcli.config.scalars import Scalar, resolve_plain
from verlcli.errors import ConfigError

MAX_DEPTH = 64
MAX_NODES = 20_000  # with aliases expanded; a config with every key has some 200

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}


@dataclass(slots=True)
class Node:
    """One value: a scalar, a sequence (`items`) or a mapping (`pairs`, then what `<<` brings in `merged`).

    `size` and `height` count the subtree with aliases expanded; `done` is False while its events still come.
    """

    kind: Literal["scalar", "sequence", "mapping"]
    line: int
    column: int
    value: Scalar = None
    plain: bool = False
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list)
    merged: list[tuple[Node, Node]] = field(default_factory=list)
    size: int = 1
    height: int = 1
    done: bool = False
    keys: dict[str, tuple[Node, Node]] = field(default_factory=dict)  # the first of each name, with its value
    key: Node | None = None  # the key that waits for its value


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A key set twice in the mapping at `trail`; `value` is that of the first one, which counts."""

    trail: tuple[str, ...]
    key: Node
    first: Node
    value: Node


@dataclass(slots=True)
class Tree:
    root: Node | None
    duplicates: list[Duplicate]


def build_tree(events: Iterable[yaml.Event], name: str) -> Tree:
    """Build the one document's tree; `root` is None when there is no document.

    Raises:
        ConfigError: several documents, object tags, keys that are not strings, undefined or recursive aliases, nesting
            deeper than 64, or more than 20,000 nodes with aliases expanded.
        yaml.YAMLError: from the parser behind `events`.
    """
    builder = _Builder(name)
    for event in events:
        builder.feed(event)
    return Tree(builder.root, builder.duplicates)


def _start(event: yaml.Event) -> tuple[int, int]:
    mark: Any = event.start_mark  # every event of a parser has one
    return mark.line + 1, mark.column + 1


class _Builder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.root: Node | None = None
        self.duplicates: list[Duplicate] = []
        self._documents = 0
        self._stack: list[Node] = []
        self._anchors: dict[str, Node] = {}

    def feed(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._add(self._anchored(event, self._scalar(event)))
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            node = self._stack.pop()
            node.done = True
            self._add(node)
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._alias(event))
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._refuse(event, "a second document starts here", "keep one document a file, without `---` between")

    def _refuse(self, event: yaml.Event, message: str, fix: str) -> NoReturn:
        line, column = _start(event)
        raise ConfigError(message, where=f"{self.name}:{line}:{column}", fix=fix)

    def _refuse_node(self, node: Node, message: str, fix: str) -> NoReturn:
        raise ConfigError(message, where=f"{self.name}:{node.line}:{node.column}", fix=fix)

    def _anchored(self, event: yaml.NodeEvent, node: Node) -> Node:
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        kind: Literal["sequence", "mapping"] = "sequence" if isinstance(event, yaml.SequenceStartEvent) else "mapping"
        if event.tag not in (None, "!", _TAG + ("seq" if kind == "sequence" else "map")):
            self._refuse_tag(event, event.tag)
        if len(self._stack) >= MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels", "flatten it; no key lies that deep")
        if self._stack and self._stack[-1].kind == "mapping" and self._stack[-1].key is None:
            self._refuse(event, f"a {kind} is used as a key", "keys are plain strings; quote text with braces")
        self._stack.append(self._anchored(event, Node(kind, *_start(event))))

    def _alias(self, event: yaml.AliasEvent) -> Node:
        node = self._anchors.get(event.anchor or "")
        if node is None:
            self._refuse(event, f"undefined alias *{event.anchor}", "define the anchor above it, or quote the value")
        if not node.done:
            self._refuse(event, f"alias *{event.anchor} contains itself", "write the values out")
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        node = Node("scalar", *_start(event), done=True)
        node.plain = event.tag is None and bool(event.implicit[0])
        node.value = resolve_plain(event.value) if node.plain else self._tagged(event)
        return node

    def _tagged(self, event: yaml.ScalarEvent) -> Scalar:
        text: str = event.value
        if event.tag in (None, "!", _TAG + "str"):
            return text
        wanted = _SCALAR_TAGS.get(event.tag.removeprefix(_TAG)) if event.tag.startswith(_TAG) else None
        if wanted is None:
            self._refuse_tag(event, event.tag)
        value = resolve_plain(text)
        if type(value) not in wanted:
            self._refuse(event, f"'{text[:40]}' is no {event.tag.removeprefix(_TAG)}", "remove the tag")
        return float(value) if event.tag == _TAG + "float" and isinstance(value, int) else value

    def _refuse_tag(self, event: yaml.Event, tag: Any) -> NoReturn:
        shown = str(tag).replace(_TAG, "!!")[:60]
        self._refuse(event, f"the tag {shown} is not allowed", "remove it; configs hold plain values only")

    def _add(self, node: Node) -> None:
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        self._count(parent, node)
        if parent.kind == "sequence":
            parent.items.append(node)
        elif parent.key is None:
            parent.key = self._checked_key(node)
        else:
            self._pair(parent, parent.key, node)
            parent.key = None

    def _count(self, parent: Node, node: Node) -> None:
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if parent.size > MAX_NODES:
            self._refuse_node(node, f"more than {MAX_NODES} values, aliases expanded", "is this a config?")
        if parent.height > MAX_DEPTH:
            self._refuse_node(node, f"aliases nest deeper than {MAX_DEPTH} levels", "write the values out")

    def _checked_key(self, node: Node) -> Node:
        if node.kind != "scalar":
            self._refuse_node(node, f"a {node.kind} is used as a key", "keys are plain strings")
        if not isinstance(node.value, str):
            kind = "null" if node.value is None else type(node.value).__name__
            self._refuse_node(node, f"a key is text, but this one is read as {kind}", "put quotes around the key")
        return node

    def _pair(self, parent: Node, key: Node, value: Node) -> None:
        first, first_value = parent.keys.setdefault(str(key.value), (key, value))
        if first is not key:
            trail = tuple(str(frame.key.value) for frame in self._stack[:-1] if frame.key is not None)
            self.duplicates.append(Duplicate(trail, key, first, first_value))
        elif key.plain and key.value == "<<":
            self._merge(parent, value)
        else:
            parent.pairs.append((key, value))

    def _merge(self, parent: Node, value: Node) -> None:
        sources = value.items if value.kind == "sequence" else [value]
        for source in sources:
            if source.kind != "mapping":
                self._refuse_node(source, "`<<` takes a mapping or a list of mappings", "write an alias: `<<: *NAME`")
            parent.merged.extend(source.pairs)
            parent.merged.extend(source.merged)
