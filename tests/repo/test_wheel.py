"""The wheel, installed in another environment and used from another folder, brings all it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed, free of this process's own Python settings."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV", "VERL"))}
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("verlcli-*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with `python` and `verl` of a fresh environment that holds the wheel and borrows our dependencies."""
    home = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=home)
    # A path in a .pth file is added as it is: the editable install of this checkout, itself a .pth file, is not.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def test_wheel_holds_every_schema_preset_and_the_quickstart_model(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [file for folder in ("schemas", "presets") for file in (ROOT / folder).rglob("*") if file.is_file()]
    assert {f"verlcli/{file.relative_to(ROOT).as_posix()}" for file in files} <= names
    assert any(name.startswith("verlcli/presets/") and name.endswith(".safetensors") for name in names)
    assert "verlcli/py.typed" in names
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


def test_wheel_is_what_gets_imported(scripts: Path, tmp_path: Path) -> None:
    place = run(scripts / "python", "-c", "import verlcli; print(verlcli.__file__)", cwd=tmp_path).strip()
    assert Path(place).is_relative_to(scripts.parent)


def test_installed_verl_finds_its_presets_and_schemas(scripts: Path, tmp_path: Path) -> None:
    listed = run(scripts / "verl", "presets", "list", cwd=tmp_path)
    assert all(file.stem in listed for file in (ROOT / "presets").glob("*.yaml"))
    run(scripts / "verl", "validate", "quickstart", cwd=tmp_path)
    assert json.loads(run(scripts / "verl", "schema", cwd=tmp_path))["title"]


def test_installed_verl_brings_its_tables_about_verl_and_models(scripts: Path, tmp_path: Path) -> None:
    launch = tmp_path / "run.sh"
    launch.write_text(
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=8 "
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm "
        "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.rollout.tensor_model_parallel_size=8\n"
    )
    document = json.loads(run(scripts / "verl", "import", launch, "--json", cwd=tmp_path))
    assert "tensor_model_parallel_size: 8" in document["yaml"]
    text = run(scripts / "verl", "explain", "actor_rollout_ref.rollout.max_num_seqs", cwd=tmp_path)
    assert "256 (0.9.0 to main)" in text
    done = subprocess.run([scripts / "verl", "validate", launch], cwd=tmp_path, capture_output=True, text=True)
    # 28 heads do not divide by 8: the table of models is there.
    assert done.returncode == 1
    assert "VRL203" in done.stdout


def test_installed_verl_trains_the_quickstart(scripts: Path, tmp_path: Path) -> None:
    document = json.loads(
        run(scripts / "verl", "train", "quickstart", "-o", "trainer.total_steps=2", "--json", cwd=tmp_path)
    )
    assert document["ok"]
    assert document["steps"] == 2
    assert (tmp_path / document["checkpoint"]).is_dir()
