"""Checkpoints are whole or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.engine import checkpoint


def write(text: str = "weights") -> object:
    def fill(folder: Path) -> None:
        (folder / "actor").mkdir()
        (folder / "actor" / "model.safetensors").write_text(text)
        checkpoint.write_state(folder, {"step": 1})

    return fill


def save(root: Path, step: int, keep: int | None = None, text: str = "weights") -> Path:
    return checkpoint.save_checkpoint(root, step, write(text), keep=keep)  # type: ignore[arg-type]


def test_a_saved_checkpoint_verifies_and_reads_back(tmp_path: Path) -> None:
    folder = save(tmp_path, 3)
    assert checkpoint.damage(folder) is None
    assert checkpoint.read_state(folder) == {"step": 1}
    assert checkpoint.steps(tmp_path) == [3]


def test_a_failed_write_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")

    save(tmp_path, 1)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save_checkpoint(tmp_path, 2, fail, keep=None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_1"]


@pytest.mark.parametrize("hurt", ["flip", "truncate", "delete", "no checksums"])
def test_damage_is_found_and_an_older_checkpoint_taken(tmp_path: Path, hurt: str) -> None:
    save(tmp_path, 1)
    file = save(tmp_path, 2) / "actor" / "model.safetensors"
    if hurt == "flip":
        file.write_text("weightz")
    elif hurt == "truncate":
        file.write_text("wei")
    elif hurt == "delete":
        file.unlink()
    else:
        (file.parent.parent / checkpoint.CHECKSUMS).unlink()
    found, complaints = checkpoint.newest_intact(tmp_path)
    assert found == tmp_path / "step_1"
    assert len(complaints) == 1
    assert "step_2 is damaged" in complaints[0]


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (2, 4, 10):
        save(tmp_path, step, keep=2)
    assert checkpoint.steps(tmp_path) == [4, 10]


def test_the_checkpoint_just_written_is_never_the_one_dropped(tmp_path: Path) -> None:
    for step in (6, 8, 3):
        save(tmp_path, step, keep=1)
    assert 3 in checkpoint.steps(tmp_path)


def test_a_repeated_step_replaces_the_old_one(tmp_path: Path) -> None:
    save(tmp_path, 1, text="old")
    folder = save(tmp_path, 1, text="new")
    assert (folder / "actor" / "model.safetensors").read_text() == "new"
    assert checkpoint.damage(folder) is None


def test_what_a_killed_run_left_aside_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".step_7.partial").mkdir()
    checkpoint.remove_partial(tmp_path)
    assert list(tmp_path.iterdir()) == []
    checkpoint.remove_partial(tmp_path / "absent")
