"""Every code of a problem with its explanation, taken from the docstring of the rule that reports it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

_FIELDS = ("Why", "Example", "Instead", "Source")


@dataclass(frozen=True, slots=True)
class Code:
    """What a code means.

    Attributes:
        code: `VRL201`.
        title: what is wrong, in one sentence.
        why: what happens and when.
        example: keys or lines that show it.
        instead: what to write.
        source: file of verl, public issue or paper that says so; empty when the code itself is the source.
        holds: inputs it is about: `configs`, `verl launches`, `launch scripts`, with versions where they matter.
    """

    code: str
    title: str
    why: str = ""
    example: str = ""
    instead: str = ""
    source: str = ""
    holds: str = "configs"

    def to_json(self) -> dict[str, Any]:
        """Plain dict of the fields."""
        return asdict(self)


def parse_code(text: str, holds: str = "configs") -> Code:
    """Read an explanation: `VRL201: title.`, then paragraphs `Why: ...`, `Example: ...`, `Instead: ...`, `Source: ...`.

    Raises:
        ValueError: the first line has no code.
    """
    head, *blocks = re.split(rf"^({'|'.join(_FIELDS)}):", inspect.cleandoc(text), flags=re.MULTILINE)
    found = re.match(r"(VRL\d{3}): (.+)", " ".join(head.split()))
    if found is None:
        raise ValueError(f"no code in {text[:40]!r}")
    parts = dict(zip(blocks[::2], blocks[1::2], strict=True))
    # An example keeps its lines.
    texts = {
        name.lower(): inspect.cleandoc(part).strip() if name in ("Example", "Instead") else " ".join(part.split())
        for name, part in parts.items()
    }
    return Code(found[1], found[2].rstrip("."), holds=holds, **texts)


@cache
def all_codes() -> dict[str, tuple[Code, ...]]:
    """Every code in order, with one explanation for each way in which it is broken."""
    codes: dict[str, dict[Code, None]] = {}
    for code in _codes():
        codes.setdefault(code.code, {})[code] = None
    return {code: tuple(found) for code, found in sorted(codes.items())}


def _codes() -> Iterator[Code]:
    from verlcli.config.data import DATA_TEXTS
    from verlcli.config.general_codes import GENERAL
    from verlcli.config.rules import CONTEXT_RULES, RULES
    from verlcli.config.verl.key_codes import KEY_TEXTS
    from verlcli.config.verl.launch_codes import LAUNCH_TEXTS
    from verlcli.config.verl.rules import VERL_RULES
    from verlcli.config.verl.shell_codes import SHELL_TEXTS

    yield from map(parse_code, GENERAL)
    yield from (parse_code(text, "configs and verl launches") for text in DATA_TEXTS.values())
    yield from (parse_code(text, "verl launches") for text in KEY_TEXTS.values())
    yield from (parse_code(text, "launch scripts") for text in (*LAUNCH_TEXTS.values(), *SHELL_TEXTS.values()))
    yield from (parse_code(rule.__doc__ or "") for rule in (*RULES, *CONTEXT_RULES))
    for rule in VERL_RULES:
        yield parse_code(rule.check.__doc__ or "", _launches(rule.versions, rule.engines))


def _launches(versions: str, engines: tuple[str, ...]) -> str:
    parts = [f"verl {versions}" if versions else "", f"engine {' or '.join(engines)}" if engines else ""]
    limits = ", ".join(part for part in parts if part)
    return f"verl launches ({limits})" if limits else "verl launches"
