"""Faults of values: of the wrong type, out of range, no choice of the key."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from mutants.base import Case, Path_, Preset, dotted, leaves, node_at, sample, types, with_value
from mutants.keys import distance

# What other programs call a choice of ours.
SYNONYMS = {
    "bf16": ("bfloat16", "torch.bfloat16"),
    "fp16": ("float16", "half"),
    "fp32": ("float32", "float"),
    "hf": ("huggingface", "transformers"),
    "mcore": ("megatron",),
    "fsdp": ("fsdp2",),
    "k3": ("low_var_kl",),
    "k1": ("kl",),
    "k2": ("mse",),
    "token-mean": ("token_mean",),
    "cuda": ("gpu",),
}

Fault = tuple[str, str, tuple[str, ...]]  # what was done, the value, what must be proposed


def wrong_type(base: Preset, rng: random.Random) -> Iterator[Case]:
    """Values of another type, or of the right one in quotes or with a unit; sections that are none."""
    for path in _spots(base, rng, 30):
        node = node_at(path) or {}
        for done, value, wants in sample(rng, list(_wrong(node)), 4):
            yield _case("wrong type", base, path, done, value, ("VRL002",), wants)
    for section in base.sections:
        first = section.number + 1
        lines = list(base.lines)
        del lines[first - 1 : base.end(section)]
        for done, value in (("a number", " 3"), ("text", " yes please"), ("a list", " [1, 2]")):
            lines[section.number - 1] = f"{section.indent}{section.path[-1]}:{value}"
            name = f"{dotted(section.path)} is {done}"
            yield Case("wrong type", name, "\n".join(lines) + "\n", ("VRL002",), section.number)


def _wrong(node: dict[str, Any]) -> Iterator[Fault]:
    kinds = types(node)
    number = "integer" in kinds or "number" in kinds
    if "object" not in kinds:
        yield "a mapping", "{a: 1}", ()
    if "array" not in kinds and kinds:
        yield "a list", f"[{_good(node)}]", (f"write {_good(node)}",)
    if number and "string" not in kinds:
        yield "text", "many", ()
        yield "quoted", f"'{_good(node)}'", (f"write {_good(node)}",)
        yield "with a unit", f"{_good(node)} tokens", (f"write {_good(node)}",)
        yield "with a comma", "1,024" if node.get("maximum") is None else "'1'", ("write 1",)
    if number and kinds[0] != "array":
        yield "a truth value", "true", ()
    if "number" in kinds and node.get("maximum") == 1 and "string" not in kinds:
        yield "a share in percent", "30%", ("write 0.3",)
    if "integer" in kinds and "number" not in kinds:
        yield "a fraction", "1.5", ()
    if "boolean" in kinds:
        for value, wants in (("yes", "true"), ("Off", "false"), ("'True'", "true"), ("1", "true"), ("0", "false")):
            yield f"{value} for a truth value", value, (f"write {wants}",)
    if "null" not in kinds and "array" not in kinds:
        yield "null", "null", ()
    if kinds in (("string",), ("string", "null")) and "enum" not in node:
        yield "a number for text", "3", ("write '3'",)


def _good(node: dict[str, Any]) -> object:
    """Some value that the node accepts, as YAML."""
    if "enum" in node:
        return node["enum"][0]
    default = node.get("default")
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, (int, float)) and default:
        return default
    kinds = types(node)
    return "true" if "boolean" in kinds else 2 if "integer" in kinds else 0.5 if "number" in kinds else "some"


def out_of_range(base: Preset, rng: random.Random) -> Iterator[Case]:
    """Numbers beyond the limits of their key, empty text, lists of the wrong length."""
    for path in _spots(base, rng, 60):
        for done, value, wants in _beyond(node_at(path) or {}):
            yield _case("out of range", base, path, done, value, ("VRL003",), wants)


def _beyond(node: dict[str, Any]) -> Iterator[Fault]:
    for keyword, step in (("minimum", -1), ("exclusiveMinimum", 0), ("maximum", 89), ("exclusiveMaximum", 0)):
        if keyword in node:
            value = node[keyword] + step
            yield keyword, str(value), ("0.9",) if value == 90 else (str(node[keyword]),)
    if "minLength" in node and "array" not in types(node):
        yield "empty", "''", ()
    if "maxItems" in node:
        yield "too long", "[0.9, 0.9, 0.9]", (str(node["maxItems"]),)


def bad_enum(base: Preset, rng: random.Random) -> Iterator[Case]:
    """Choices with a slip, in capitals, or as another program calls them."""
    for path in _spots(base, rng, 200):
        node = node_at(path) or {}
        choices = [choice for choice in node.get("enum", ()) if isinstance(choice, str)]
        for done, value, wants in sample(rng, [fault for each in choices for fault in _slips(each, choices, rng)], 4):
            yield _case("bad choice", base, path, done, value, ("VRL004",), wants)


def _slips(choice: str, choices: list[str], rng: random.Random) -> Iterator[Fault]:
    words = {"capitals": choice.swapcase()} | {"synonym": rng.choice(SYNONYMS.get(choice, (choice,)))}
    if len(choice) > 3:
        at = rng.randrange(1, len(choice))
        words |= {"a letter short": choice[:at] + choice[at + 1 :], "a letter more": choice[:at] + "e" + choice[at:]}
    for done, word in words.items():
        if word not in choices:
            near = {other for other in choices if distance(word, other) <= distance(word, choice)}
            yield done, word, tuple(f"'{other}'" for other in sorted(near if done != "synonym" else {choice}))


def _spots(base: Preset, rng: random.Random, count: int) -> list[Path_]:
    """Keys to spoil: those of the preset, and as many others as `count` allows."""
    own = [entry.path for entry in base.leaves if (node_at(entry.path) or {}).get("additionalProperties") is not True]
    own = [path for path in own if path in set(leaves())]
    rest = [path for path in leaves() if path not in own]
    return own + sample(rng, rest, max(0, count - len(own)))


def _case(
    kind: str, base: Preset, path: Path_, done: str, value: str, codes: tuple[str, ...], wants: tuple[str, ...]
) -> Case:
    text, line = with_value(base, path, value)
    return Case(kind, f"{dotted(path)}: {value} ({done})", text, codes, line, wants=wants)
