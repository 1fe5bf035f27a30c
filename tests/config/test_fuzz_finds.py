"""Inputs that fuzzing found to reach code that the others do not (benchmarks/fuzz_config.py); none may crash."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from verlcli.config import load_config
from verlcli.config.check_file import check_file
from verlcli.config.loader import load_text
from verlcli.errors import ConfigError

INPUTS = sorted((Path(__file__).parent / "fuzz").glob("*.bin"))
BETWEEN = b"\n%%\n"  # before overrides, one a line


def test_the_inputs_are_there() -> None:
    assert len(INPUTS) >= 20


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_input_gives_a_config_or_a_polite_refusal(path: Path, tmp_path: Path) -> None:
    body, _, rest = path.read_bytes().partition(BETWEEN)
    file = tmp_path / "config.yaml"
    file.write_bytes(body)
    said = ""
    try:
        loaded = load_config([file], rest.decode("utf-8", "replace").splitlines(), env={})
        said = "\n".join(str(problem) for problem in loaded.problems) or loaded.to_yaml()
    except ConfigError as error:
        said = str(error) if error.where and error.fix else ""
    assert said


@pytest.mark.parametrize("suffix", [".sh", ".yaml"])
@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_input_is_no_trouble_as_a_script_or_a_hydra_config(path: Path, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"run{suffix}"
    launch = b"python3 -m verl.trainer.main_ppo " if suffix == ".sh" else b"hydra: {}\n"
    file.write_bytes(launch + path.read_bytes())
    with suppress(ConfigError):
        assert all(problem.code for problem in check_file(str(file)))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_input_is_also_no_trouble_as_one_value(path: Path) -> None:
    document = None
    with suppress(ConfigError):
        document = load_text(path.read_bytes().decode("utf-8", "replace"), "t")
    assert document is None or () in document.marks
