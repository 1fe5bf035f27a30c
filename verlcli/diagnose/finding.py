"""A `Finding` is what one probe saw, graded; beside the data's road: it looks at the machine, not at a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["PASS", "WARN", "FAIL", "SKIP"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One graded observation.

    Attributes:
        id: stable name of the probe, `torch-cuda`; one per GPU for `gpu:0`.
        status: SKIP means the question does not arise here.
        evidence: what was seen, with numbers and units.
        why: what follows from it for a run; None when all is well.
        fix: what to do, a command where there is one; None when there is nothing to do.
    """

    id: str
    status: Status
    evidence: str
    why: str | None = None
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain dict with the keys of `schemas/diagnose.schema.json`."""
        return asdict(self)


def report(findings: tuple[Finding, ...]) -> dict[str, Any]:
    """The JSON document of `verl diagnose --json`; `ok` is false when any probe failed."""
    return {
        "schema_version": 1,
        "ok": all(finding.status != "FAIL" for finding in findings),
        "findings": [finding.to_json() for finding in findings],
    }
