"""The built-in reward `math_verify`, in a file of its own: it runs in the reward's process, as a user's file does.

The package's time limits are alarms of the main thread, and its import takes longer than many a sample's limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from math_verify import parse, verify


def math_verify(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None
) -> float:
    """1.0 when the answer is mathematically equal to the ground truth (LaTeX or plain), by the math-verify package."""
    # A bare ground truth such as \frac12 is found as LaTeX only when it is set off.
    gold = parse(ground_truth if "$" in ground_truth or "\\boxed" in ground_truth else f"${ground_truth}$")
    return float(verify(gold, parse(solution_str)))
