"""Plain YAML scalars by the YAML 1.2 core schema (chapter 10.3.2 of the specification)."""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_LONGEST_NUMBER = 100  # characters; Python refuses to convert very long ones, and no config means them


def resolve_plain(text: str) -> Scalar:
    """Value of an unquoted scalar: null, bool, int, float, or else the text itself.

    `on`, `yes`, `1_000`, `1:30` and dates are text, as in YAML 1.2; PyYAML's own resolver follows YAML 1.1.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    return _number(text)


def _number(text: str) -> Scalar:
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITY.fullmatch(text):
        return float("-inf") if text[0] == "-" else float("inf")
    return float("nan") if text in _NAN else text
