"""A `Problem` is one thing wrong (or doubtful) in a config, as data; reporters turn it into text or JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem at one place.

    Attributes:
        code: stable code, `VRL001`.
        path: dotted key, `algorithm.clip_ratio`; empty for the whole document.
        message: what is wrong, without the place.
        file: file as the user named it, or None when the value came from an override or the environment.
        line, column: 1-based; 0 when there is no text position.
        suggestion: what to write instead, or None.
        origin: where the value came from, for people: `preset.yaml:14:3`, `-o #2`, `env VERL_CFG__A__B`.
    """

    code: str
    severity: Severity
    path: str
    message: str
    file: str | None = None
    line: int = 0
    column: int = 0
    suggestion: str | None = None
    origin: str | None = None

    def __str__(self) -> str:
        """One line, as compilers write it: `a.yaml:14:3 error VRL001 algorithm.clip_rato: unknown key; ...`."""
        place = f"{self.file}:{self.line}:{self.column}" if self.file else self.origin
        key = f"{self.path}: " if self.path else ""
        return f"{f'{place} ' if place else ''}{self.severity} {self.code} {key}{self.sentence}"

    @property
    def sentence(self) -> str:
        """What is wrong and what to write instead."""
        return f"{self.message}; {self.suggestion}" if self.suggestion else self.message

    def to_json(self) -> dict[str, Any]:
        """Plain dict with the keys of `schemas/validate.schema.json`."""
        return asdict(self)
