"""What reading a launch script loads: no more than it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "data/verl_launches/dapo.sh"
HEAVY = ("jsonschema", "rich", "ruamel", "torch", "transformers", "ray", "hydra", "pyarrow", "numpy")
CODE = "import sys\nfrom verlcli.config.check_file import check_file\n{}\nprint(*sys.modules)"


def _loaded(statement: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", CODE.format(statement)], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_a_script_loads_the_parser_and_nothing_heavy() -> None:
    loaded = _loaded(f"check_file({str(SCRIPT)!r})")
    assert "tree_sitter" in loaded
    assert not loaded.intersection(HEAVY)


@pytest.mark.parametrize("statement", ["", "check_file('70b-cluster')"], ids=["importing", "a preset"])
def test_the_parser_is_loaded_for_scripts_alone(statement: str) -> None:
    assert not _loaded(statement).intersection(("tree_sitter", "tree_sitter_bash"))
