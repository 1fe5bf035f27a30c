"""One-fault mutants of the presets, each with what a good checker says about it."""

from __future__ import annotations

from mutants.base import Case, Preset, preset
from mutants.corpus import KINDS, cases

__all__ = ["KINDS", "Case", "Preset", "cases", "preset"]
