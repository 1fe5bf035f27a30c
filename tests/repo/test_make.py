"""Every make target installs once: a second call, with nothing changed, goes straight to its work."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAMPS = {"quickstart": ".installed", "test": ".installed-dev", "lint": ".installed-dev", "slow": ".installed-slow"}


def dry_run(target: str, venv: Path) -> str:
    command = ["make", "--dry-run", target, f"VENV={venv}"]
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    return tmp_path


@pytest.mark.parametrize("target", STAMPS)
def test_first_call_makes_the_environment_and_installs(target: str, tmp_path: Path) -> None:
    shown = dry_run(target, tmp_path / "new")
    assert "-m venv" in shown
    assert "pip install --quiet -c constraints.txt" in shown


@pytest.mark.parametrize("target", STAMPS)
def test_second_call_installs_nothing(target: str, venv: Path) -> None:
    for stamp in dict.fromkeys([*STAMPS.values()]):
        (venv / stamp).touch()
    shown = dry_run(target, venv)
    assert "pip" not in shown
    assert "venv\n" not in shown


def test_changed_requirements_are_installed_again(venv: Path) -> None:
    for stamp in STAMPS.values():
        (venv / stamp).touch()
        os.utime(venv / stamp, (0, 0))
    assert "pip install" in dry_run("quickstart", venv)
