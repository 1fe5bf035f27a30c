"""What holds for any text that is YAML, or nearly."""

from __future__ import annotations

import datetime
import io
import math
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from verlcli.config.loader import Document, load_text
from verlcli.errors import ConfigError

WORDS = ["a", "b c", "on", "yes", "x-1", "a#b", "a:b", "-x", "null", "~", "true", "False", "no", "é", "日本", "."]
NUMBERS = ["0", "-1", "+7", "0o17", "0x1F", "1e-6", "1.5E+3", ".5", "5.", "-.inf", "010", "1e3", "12345678901234567890"]
QUOTED = ["''", "' a '", "'it''s'", '""', '"\\n\\t"', '"\\u00e9"', "'# no'", '"a: b"', "'1'", '"true"', "'- x'", "'*a'"]


class Writer:
    """Writes a random tree as YAML in a random style; `anchors` are the names that may be repeated."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.count = 0
        self.anchors: list[str] = []

    def document(self) -> str:
        start = self.chance.choice(["", "---\n", "# first\n", "\n\n", "%YAML 1.2\n---\n"])
        return start + self.mapping(0, 0) + self.chance.choice(["", "...\n", "# last", "\n"])

    def mapping(self, indent: int, depth: int) -> str:
        names = self.chance.sample(["k", "key two", "'q'", '"d"', "k-1", "é", "1a", "on"], self.chance.randint(1, 4))
        return "".join(f"{' ' * indent}{name}:{self.block_value(indent, depth)}" for name in names)

    def sequence(self, indent: int, depth: int) -> str:
        items = range(self.chance.randint(1, 3))
        return "".join(f"{' ' * indent}-{self.block_value(indent, depth)}" for _ in items)

    def block_value(self, indent: int, depth: int) -> str:
        """What follows `key:` or `-`, with the line's end."""
        inner = indent + self.chance.choice([1, 2, 4])
        style = self.chance.choice(["flow", "flow", "block", "list", "literal"]) if depth < 4 else "flow"
        if style == "literal":
            mark = self.chance.choice(["|", ">", "|-", ">-", "|+"])
            return f" {mark}\n{' ' * inner}text: # 1\n\n{' ' * inner}more\n"
        if style == "flow":
            return f" {self.flow(depth)}{self.comment()}\n"
        self.count += 1
        name = f"n{self.count}" if self.chance.random() < 0.4 else ""
        inside = self.mapping(inner, depth + 1) if style == "block" else self.sequence(inner, depth + 1)
        if name:
            self.anchors.append(name)  # only now: what is inside must not name it
        return f"{f' &{name}' if name else ''}{self.comment()}\n{inside}"

    def flow(self, depth: int) -> str:
        kind = self.chance.choice(["scalar"] * 4 + (["list", "map", "alias"] if depth < 4 else []))
        if kind == "alias" and self.anchors:
            return f"*{self.chance.choice(self.anchors)} "
        if kind == "list":
            return f"[{', '.join(self.flow(depth + 1) for _ in range(self.chance.randint(0, 3)))}]"
        if kind == "map":
            names = self.chance.sample(["a", "'b'", '"c"'], self.chance.randint(0, 3))
            return "{" + ", ".join(f"{name}: {self.flow(depth + 1)}" for name in names) + "}"
        return self.chance.choice(self.chance.choice([WORDS, NUMBERS, QUOTED]))

    def comment(self) -> str:
        return self.chance.choice(["", "", "  # note: [", " #"])


def written(seed: int) -> str:
    writer = Writer(random.Random(seed))
    text = writer.document()
    if seed % 3:
        return text
    # Repeat a part of it by alias.
    body = text.split("---\n")[-1].removesuffix("...\n").removesuffix("# last")
    return f"base: &b\n{''.join(f'  {line}' for line in body.splitlines(True))}\nagain: *b\nmore: {{<<: *b, k: 1}}\n"


TEXTS = st.integers(0, 10**9).map(written)


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """A text with up to three characters dropped, doubled or put in."""
    text = draw(TEXTS)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + draw(st.sampled_from(list(" \t\n:-#[]{}'\"&*!|>?,%@`~0a")))
            + text[at + draw(st.integers(0, 2)) :]
        )
    return text


def reference(text: str) -> Any:
    """The text as ruamel.yaml reads it: YAML 1.2, pure Python."""
    return YAML(typ="safe", pure=True).load(io.StringIO(text))


# What ruamel.yaml reads as something else than YAML 1.2's core schema says; to us it is text.
BEYOND_CORE = re.compile(
    r"[-+]?0b[01_]+|[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[-+]0[xo][0-9a-fA-F_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+"
    r"|\d{4}-\d\d?-\d\d?.*|[-+]?\.[0-9][0-9_]*([eE][-+]?[0-9]+)?|[-+]?\.[0-9_]+|="
)


def alike(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, dict):
        return (
            isinstance(theirs, dict) and ours.keys() == theirs.keys() and all(alike(ours[k], theirs[k]) for k in ours)
        )
    if isinstance(ours, list):
        return isinstance(theirs, list) and len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours):
        return math.isnan(theirs)
    if isinstance(ours, str) and isinstance(theirs, (int, float, datetime.date)):
        return BEYOND_CORE.fullmatch(ours) is not None
    if ours == "" and theirs is None:
        return True  # `!` before nothing makes it text, says YAML 1.2; ruamel.yaml has null
    return type(ours) is type(theirs) and bool(ours == theirs)


@given(TEXTS)
def test_a_text_has_the_values_that_another_yaml_reader_finds(text: str) -> None:
    assert alike(load_text(text, "t").values, reference(text)), text


def loaded(text: str) -> Document | None:
    """None for a text that is refused, which then names a place and a fix."""
    try:
        return load_text(text, "t")
    except ConfigError as error:
        return None if error.where and error.fix else Document(None, {}, "a refusal without place or fix", Path())


@given(spoilt())
def test_a_spoilt_text_is_refused_or_read_as_another_reader_does(text: str) -> None:
    document = loaded(text)
    if document is None or document.problems:
        return  # of duplicate keys there are several opinions
    assert document.file == "t"
    with suppress(YAMLError, ValueError, OverflowError, NotImplementedError, AttributeError):
        assert alike(document.values, reference(text)), text


DIFFERENT: dict[str, tuple[str, Any]] = {
    "underscores": ("a: 1_000", "1_000"),
    "binary": ("a: 0b11", "0b11"),
    "date": ("a: 2024-01-01", "2024-01-01"),
    "signed hexadecimal": ("a: -0x1", "-0x1"),
    "tag without a value": ("a: !", ""),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_we_keep_to_the_core_schema_where_ruamel_goes_beyond(case: str) -> None:
    text, value = DIFFERENT[case]
    assert load_text(text, "t").values == {"a": value}
    assert reference(text) != {"a": value}
    assert alike({"a": value}, reference(text))


def test_a_duplicate_key_is_a_problem_with_both_lines_and_not_the_end() -> None:
    document = load_text("a: 1\nb: 2\na: {x: 3}\n", "t")
    assert document.values == {"a": 1, "b": 2}
    ((problem),) = document.problems
    assert (problem.line, [(other.place.line, other.value) for other in problem.related]) == (3, [(1, "1")])
    with pytest.raises(YAMLError):
        reference("a: 1\na: 3\n")


@pytest.mark.parametrize(
    ("text", "why"), [("1: a", "text"), ("true: a", "text"), ("a: !x 1", "tag"), ("a: !!binary aa==", "tag")]
)
def test_what_json_cannot_say_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_text(text, "t")
    assert reference("1: a") == {1: "a"}


@given(TEXTS)
def test_marks_stand_on_the_token_that_they_name(text: str) -> None:
    document = load_text(text, "t")
    lines = text.split("\n")
    for path, mark in document.marks.items():
        value: Any = document.values
        for part in path:
            value = value[part]
        at_value = lines[mark.line - 1][mark.column - 1 :]
        assert at_value[:1] in _first_characters(value), (path, at_value)
        if path and isinstance(path[-1], str):
            assert lines[mark.key_line - 1][mark.key_column - 1 :].lstrip("'\"").startswith(path[-1])


def _first_characters(value: Any) -> str:
    """How a value's text may begin; `&` for an anchor before it."""
    if isinstance(value, list):
        return "[-&"
    if isinstance(value, dict):
        return "{&'\"" + "".join(str(key)[:1] for key in value)
    if isinstance(value, str):
        return "'\"|>&" + value[:1]
    return (
        {True: "tT", False: "fF", None: "n~"}.get(value, "")
        if value is None or isinstance(value, bool)
        else "-+.0123456789"
    )
