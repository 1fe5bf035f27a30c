"""Whole launch scripts, written as people write them: exactly these problems, at these lines, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config.check_file import check_file
from verlcli.config.problems import Problem

SCRIPTS = Path(__file__).with_name("scripts")
CLEAN = sorted(file.name for file in SCRIPTS.glob("clean_*"))

# What is said of each script: line, severity, code. Notes that a fact is missing are left out.
EXPECTED = {
    "arithmetic.sh": [
        (4, "error", "VRL201"),  # TP=3 on 8 GPUs
        (6, "note", "VRL303"),  # 100 / 8
        (6, "error", "VRL206"),  # 12 sequences over 8 ranks
        (7, "warning", "VRL233"),  # GRPO with n=1
        (17, "error", "VRL208"),  # 4096 tokens for sequences of 6144
        (22, "error", "VRL256"),  # gpu_memory_utilization=1.7
        (26, "note", "VRL277"),
    ],
    "broken_lines.sh": [
        (5, "note", "VRL277"),
        (8, "error", "VRL301"),  # $MODEL_PTH
        (9, "error", "VRL307"),  # lr = 1e-6
        (17, "error", "VRL305"),  # a comment in the middle
    ],
    "docker_command.sh": [
        (5, "warning", "VRL233"),  # N=1, outside of the string
        (12, "error", "VRL207"),
        (20, "error", "VRL240"),  # trainer.loger, in verl 0.8.0 that the script installs
    ],
    "easy_r1.sh": [(4, "warning", "VRL331")],
    "head_and_workers.sh": [
        (12, "warning", "VRL244"),  # a folder that is not on this machine
        (9, "note", "VRL265"),
        (9, "note", "VRL277"),
        (10, "error", "VRL232"),
        (18, "error", "VRL263"),
    ],
    "lost_backslash.sh": [
        (9, "warning", "VRL244"),
        (2, "warning", "VRL324"),
        (4, "error", "VRL210"),
        (4, "note", "VRL277"),
        (7, "warning", "VRL233"),
        (10, "error", "VRL305"),  # a space behind the backslash
        (11, "error", "VRL206"),  # among the words that get lost
    ],
    "nodes.slurm": [
        (15, "warning", "VRL244"),
        (5, "error", "VRL320"),  # four nodes in a job of two
        (12, "note", "VRL277"),
        (25, "error", "VRL320"),
        (25, "error", "VRL322"),
    ],
    "old_keys.sh": [
        (6, "note", "VRL265"),
        (6, "note", "VRL277"),
        (14, "error", "VRL263"),
        (15, "error", "VRL240"),
        (17, "error", "VRL255"),
        (20, "error", "VRL263"),
        (22, "error", "VRL227"),
        (23, "error", "VRL227"),
        (24, "error", "VRL263"),
        (25, "error", "VRL263"),
    ],
    "search_r1.sh": [
        *[(2, "note", "VRL225")] * 2,  # files of training and validation that are not where the test runs
        (7, "note", "VRL277"),
        (7, "note", "VRL308"),
        (13, "error", "VRL264"),
        (14, "error", "VRL264"),
        (19, "error", "VRL264"),
        (27, "error", "VRL264"),
        (28, "error", "VRL264"),
        (29, "error", "VRL264"),
        (30, "error", "VRL264"),
    ],
    "wrong_engine.sh": [
        (3, "note", "VRL277"),
        (7, "error", "VRL216"),
        (9, "error", "VRL262"),
        (12, "error", "VRL250"),
        (16, "error", "VRL251"),
        (18, "error", "VRL334"),
        (19, "error", "VRL240"),
    ],
}

# What the advice has to say, by script and line.
ADVICE = {
    ("arithmetic.sh", 17): "6144",
    ("broken_lines.sh", 8): "$MODEL_PATH",
    ("broken_lines.sh", 9): "actor_rollout_ref.actor.optim.lr=1e-6",
    ("docker_command.sh", 20): "trainer.logger",
    ("head_and_workers.sh", 18): "critic.fsdp.param_offload",
    ("nodes.slurm", 5): "trainer.nnodes=2",
    ("old_keys.sh", 14): "actor_rollout_ref.actor.checkpoint.save_contents",
    ("old_keys.sh", 17): "async",
    ("old_keys.sh", 22): "reward.reward_manager.name=dapo",
    ("old_keys.sh", 23): "reward.custom_reward_function.path=/opt/rewards/score.py",
    ("old_keys.sh", 24): "trainer.log_val_generations",
    ("old_keys.sh", 25): "ray_kwargs.ray_init.num_cpus",
    ("search_r1.sh", 27): "actor_rollout_ref.rollout.multi_turn.max_assistant_turns",
    ("wrong_engine.sh", 7): "actor_rollout_ref.model.lora_rank=64",
    ("wrong_engine.sh", 9): "model_engine=megatron",
    ("wrong_engine.sh", 12): "actor_rollout_ref.rollout.temperature=0.7",
    ("wrong_engine.sh", 16): "+actor_rollout_ref.rollout.engine_kwargs.vllm.max_loras=2",
    ("wrong_engine.sh", 18): "trainer.logger=[console,wandb]",
    ("wrong_engine.sh", 19): "trainer.total_epochs",
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file that a script names may happen to be there."""
    monkeypatch.chdir(tmp_path)


def _said(name: str) -> list[Problem]:
    return [problem for problem in check_file(str(SCRIPTS / name)) if not problem.unchecked]


def test_every_script_is_expected_to_say_something_or_nothing() -> None:
    assert {file.name for file in SCRIPTS.iterdir()} == {*CLEAN, *EXPECTED}
    assert len(CLEAN) >= 4


@pytest.mark.parametrize("name", CLEAN)
def test_sound_scripts_are_left_alone(name: str) -> None:
    assert [str(problem) for problem in _said(name)] == []


@pytest.mark.parametrize("name", EXPECTED)
def test_exactly_these_problems(name: str) -> None:
    found = sorted((problem.line, problem.code, problem.severity) for problem in _said(name))
    assert found == sorted((line, code, severity) for line, severity, code in EXPECTED[name])


@pytest.mark.parametrize(("name", "line"), ADVICE)
def test_the_advice_names_what_to_write(name: str, line: int) -> None:
    advice = [problem.suggestion or "" for problem in _said(name) if problem.line == line]
    assert any(ADVICE[name, line] in text for text in advice), advice


@pytest.mark.parametrize("name", [*CLEAN, *EXPECTED])
def test_every_place_is_a_place_of_the_script(name: str) -> None:
    lines = (SCRIPTS / name).read_text(encoding="utf-8").splitlines()
    for problem in check_file(str(SCRIPTS / name)):
        assert problem.file == str(SCRIPTS / name)
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
