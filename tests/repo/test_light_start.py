"""Commands that only look at a config or the machine never load the heavy stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "pyarrow", "safetensors", "peft", "numpy", "vllm", "ray", "verl")
PROGRAM = """
import json, sys
from verlcli.cli.app import main
sys.argv = ["verl", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps({"code": code or 0, "modules": sorted({name.split(".")[0] for name in sys.modules})}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    ["--help", "--version", "validate 7b-single-node", "plan quickstart", "plan quickstart --json", "diagnose",
     "diagnose quickstart", "presets list", "schema", "explain VRL201", "explain rollout.n",
     "plan 70b-cluster --emit verl"],
)  # fmt: skip
def test_command_loads_no_torch(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split()], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    seen = json.loads(done.stderr.splitlines()[-1])
    assert seen["code"] == 0, done.stderr
    assert not set(HEAVY) & set(seen["modules"])


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, verlcli, verlcli.config, verlcli.plan, verlcli.diagnose; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
