"""One directory, one run: when it is new, gone on with, passed over or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from verlcli.engine import checkpoint
from verlcli.engine.run_directory import RunDirectory, open_run
from verlcli.errors import ConfigError

VALUES: dict[str, Any] = {"actor": {"optim": {"lr": 1e-6}}, "trainer": {"total_steps": 4, "seed": 0}, "monitor": {}}


def fill(path: Path, *, status: str = "running", steps: tuple[int, ...] = (2,)) -> None:
    """What a run of VALUES leaves."""
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump(VALUES))
    (path / "manifest.json").write_text(json.dumps({"status": status}))
    for step in steps:
        checkpoint.save_checkpoint(
            path / "checkpoints", step, lambda folder: checkpoint.write_state(folder, {"step": 0}), keep=None
        )


def attempt(path: Path, values: dict[str, Any] = VALUES, **kwargs: Any) -> RunDirectory:
    arguments: dict[str, Any] = {"explicit": True, "resume": "auto", "total_steps": 4} | kwargs
    return open_run(path, values, **arguments)


def test_a_new_and_an_empty_directory_start_fresh(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "new" / "deep", tmp_path / "empty"):
        run = attempt(path)
        assert run.checkpoint is None
        run.close()


def test_a_cut_off_run_of_the_same_config_goes_on(tmp_path: Path) -> None:
    fill(tmp_path / "run", steps=(2, 3))
    run = attempt(tmp_path / "run")
    assert run.checkpoint == tmp_path / "run" / "checkpoints" / "step_3"
    run.close()
    assert attempt(tmp_path / "run", resume=2).checkpoint == tmp_path / "run" / "checkpoints" / "step_2"


def test_keys_that_do_not_change_learning_may_differ(tmp_path: Path) -> None:
    fill(tmp_path / "run", status="finished", steps=(4,))
    longer = VALUES | {"trainer": {"total_steps": 9, "seed": 0}, "monitor": {"log_interval": 3}}
    assert attempt(tmp_path / "run", longer, total_steps=9).checkpoint is not None


@pytest.mark.parametrize(
    ("kwargs", "status", "wanted"),
    [
        (
            {"values": VALUES | {"actor": {"optim": {"lr": 1.0}}}},
            "running",
            r"another config \(different: actor.optim.lr",
        ),
        ({"resume": "never"}, "running", "resume is 'never'"),
        ({}, "finished", "finished run of 4 steps"),
        ({"resume": 3}, "running", "cannot resume from step 3: there is none"),
        ({"resume": 4, "values": VALUES | {"actor": {"optim": {"lr": 1.0}}}, "explicit": False}, "running", "another"),
    ],
)
def test_a_run_that_cannot_go_on_is_refused_with_the_fix(
    tmp_path: Path, kwargs: dict[str, Any], status: str, wanted: str
) -> None:
    fill(tmp_path / "run", status=status, steps=(4,))
    with pytest.raises(ConfigError, match=wanted) as caught:
        attempt(tmp_path / "run", **kwargs)
    assert caught.value.fix
    assert caught.value.exit_code == 2


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds files, but not a run"):
        attempt(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        attempt(tmp_path / "file")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "thesis.txt"]


def test_a_default_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    fill(tmp_path / "run", status="finished", steps=(4,))
    (tmp_path / "run-2").mkdir()
    (tmp_path / "run-2" / "notes").write_text("")
    run = attempt(tmp_path / "run", explicit=False)
    assert run.path == tmp_path / "run-3"


def test_a_directory_in_use_is_refused_or_passed_over(tmp_path: Path) -> None:
    first = attempt(tmp_path / "run")
    with pytest.raises(ConfigError, match="another process is training"):
        attempt(tmp_path / "run")
    second = attempt(tmp_path / "run", explicit=False)
    assert second.path == tmp_path / "run-2"
    first.close()
    attempt(tmp_path / "run").close()


def test_a_run_killed_before_its_first_file_starts_fresh(tmp_path: Path) -> None:
    (tmp_path / "run" / "logs").mkdir(parents=True)
    for name in (".lock", ".config.yaml.partial", "events.jsonl"):
        (tmp_path / "run" / name).write_text("")
    assert attempt(tmp_path / "run").checkpoint is None


def test_metrics_survive_a_cut_off_line_and_forget_what_is_repeated(tmp_path: Path) -> None:
    run = attempt(tmp_path / "run")
    for step in range(4):
        run.append_metrics({"step": step, "value": float("nan") if step == 1 else 0.5})
    with (run.path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 4, "val')
    assert [row["step"] for row in run.rows()] == [0, 1, 2, 3]
    assert run.rows()[1]["value"] is None
    run.forget_after(2)
    assert (run.path / "metrics.jsonl").read_text().count("\n") == 3
    run.append_metrics({"step": 3})
    assert [row["step"] for row in run.rows()] == [0, 1, 2, 3]


@pytest.mark.parametrize("explicit", [True, False])
def test_a_step_to_resume_from_is_never_ignored(tmp_path: Path, explicit: bool) -> None:
    with pytest.raises(ConfigError, match="cannot resume from step 7: there is no checkpoint here"):
        attempt(tmp_path / "typo", resume=7, explicit=explicit)
    assert list(tmp_path.iterdir()) == []


def test_going_back_sets_newer_checkpoints_aside(tmp_path: Path) -> None:
    fill(tmp_path / "run", steps=(2, 4, 6))
    attempt(tmp_path / "run", resume=2).close()
    names = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["abandoned_step_4", "abandoned_step_6", "step_2"]
    assert attempt(tmp_path / "run").checkpoint == tmp_path / "run" / "checkpoints" / "step_2"


def test_a_run_whose_checkpoints_are_all_damaged_is_not_written_over(tmp_path: Path) -> None:
    fill(tmp_path / "run", steps=(2, 4))
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 4}\n')
    for step in (2, 4):
        (tmp_path / "run" / "checkpoints" / f"step_{step}" / "checksums.json").unlink()
    with pytest.raises(ConfigError, match="none of its 2 checkpoints is intact"):
        attempt(tmp_path / "run")
    assert checkpoint.steps(tmp_path / "run" / "checkpoints") == [2, 4]
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == '{"step": 4}\n'


@pytest.mark.parametrize("text", ["hi", "", "[1"])
def test_a_config_that_is_none_does_not_make_a_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    (tmp_path / "other").write_text("")
    with pytest.raises(ConfigError, match="holds files, but not a run"):
        attempt(tmp_path)


def test_a_start_that_failed_before_its_first_step_is_no_run(tmp_path: Path) -> None:
    fill(tmp_path / "run", steps=())
    other = VALUES | {"actor": {"optim": {"lr": 1.0}}}
    assert attempt(tmp_path / "run", other).checkpoint is None


def test_a_run_that_appears_between_look_and_lock_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from verlcli.engine import run_directory

    lock = run_directory._lock

    def late(path: Path) -> Any:
        (path).mkdir(exist_ok=True)
        fill(path / "inner")
        for entry in (path / "inner").iterdir():
            entry.rename(path / entry.name)
        (path / "inner").rmdir()
        return lock(path)

    monkeypatch.setattr(run_directory, "_lock", late)
    with pytest.raises(ConfigError, match="another config"):
        attempt(tmp_path / "run", VALUES | {"actor": {"optim": {"lr": 1.0}}})


def test_an_event_after_a_cut_off_line_stands_on_its_own(tmp_path: Path) -> None:
    fill(tmp_path / "run")
    (tmp_path / "run" / "events.jsonl").write_text('{"kind": "a"}\n{"ki')
    run = attempt(tmp_path / "run")
    run.event("b")
    lines = (run.path / "events.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["kind"] == "b"
