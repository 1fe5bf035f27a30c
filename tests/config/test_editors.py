"""Editors and CI check configs against the schema alone, with programs that are not ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from verlcli.config.presets import EDITOR_HEADER, preset_names, preset_path
from verlcli.resources import schema_path

NAMES = preset_names()

# What is written in place of what, in the preset quickstart.
BROKEN = {
    "misspelt key": ("max_prompt_length:", "max_promt_length:"),
    "misspelt section": ("rollout:", "rolout:"),
    "dash for underscore": ("train_batch_size:", "train-batch-size:"),
    "key in capitals": ("algorithm:", "Algorithm:"),
    "key at the top level": ("trainer:\n", "lr: 1e-6\ntrainer:\n"),
    "verl's name": ("name: grpo", "adv_estimator: grpo"),
    "text for a number": ("n: 8", "n: eight"),
    "quoted number": ("n: 8", "n: '8'"),
    "fraction for a whole number": ("n: 8", "n: 8.5"),
    "list for a number": ("n: 8", "n: [8]"),
    "mapping for text": ("name: grpo", "name: {is: grpo}"),
    "null for a number": ("train_batch_size: 64", "train_batch_size: 64\n  prefetch_factor: null"),
    "number for true": ("n: 8", "n: 8\n  cpu_offload: 1"),
    "below the range": ("n: 8", "n: 0"),
    "above the range": ("n: 8", "n: 8\n  top_p: 1.5"),
    "wrong choice": ("name: grpo", "name: gropo"),
    "choice in capitals": ("name: grpo", "name: GRPO"),
    "list for a section": ("rollout:\n  n: 8", "rollout: [n, 8]"),
    "empty path": ("path: ./quickstart-model", "path: ''"),
}


def schema_named_by(file: Path) -> Path:
    """Schema file that the header of a preset names, as an editor finds it."""
    match = re.fullmatch(rf"# {EDITOR_HEADER} \$schema=(\S+)", file.read_text(encoding="utf-8").splitlines()[0])
    assert match is not None
    return Path(os.path.normpath(file.parent / match[1]))


def check(schema: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("name", NAMES)
def test_header_of_a_preset_leads_to_the_schema(name: str) -> None:
    schema = schema_named_by(preset_path(name))
    assert schema.is_file()
    assert schema.samefile(schema_path("config"))


def test_every_preset_passes_by_its_own_header() -> None:
    files = [preset_path(name) for name in NAMES]
    done = check(schema_named_by(files[0]), *files)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the checker prints for all broken files at once; one process for each would take a minute."""
    folder = tmp_path_factory.mktemp("broken")
    text = preset_path("quickstart").read_text(encoding="utf-8")
    files = []
    for case, (old, new) in BROKEN.items():
        assert text.count(old) == 1, case
        files.append(folder / f"{case.replace(' ', '-')}.yaml")
        files[-1].write_text(text.replace(old, new), encoding="utf-8")
    untouched = folder / "untouched.yaml"
    untouched.write_text(text, encoding="utf-8")
    done = check(schema_path("config"), *files, untouched)
    assert done.returncode == 1
    return done.stdout


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_rejected(verdicts: str, case: str) -> None:
    assert f"/{case.replace(' ', '-')}.yaml::" in verdicts


def test_the_same_file_unbroken_is_not(verdicts: str) -> None:
    assert "/untouched.yaml" not in verdicts
