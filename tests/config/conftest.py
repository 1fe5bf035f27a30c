"""Shared by the config tests: write a file, load it without the process's environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import settings

from verlcli.config import Loaded, load_config

# Shared machines stall now and then: no deadline for one example.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

Write = Callable[..., Path]
Load = Callable[..., Loaded]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes dedented text to NAME (default `a.yaml`) in the test's folder."""

    def writer(text: str, name: str = "a.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return writer


@pytest.fixture
def load(write: Write) -> Load:
    """Loads text with overrides, environment and flags."""

    def loader(text: str, *overrides: str, **more: Any) -> Loaded:
        context = more.get("context")
        return load_config([write(text)], overrides, more.get("env", {}), more.get("flags"), context)

    return loader
