"""Any file: its kind is told, it is read and checked, each problem comes once and in order."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from verlcli.config.check_file import check_file
from verlcli.config.context import Context
from verlcli.config.presets import preset_names, preset_path
from verlcli.config.verl.kind import kind_of
from verlcli.errors import ConfigError

A = "actor_rollout_ref"
SOUND = f"""\
#!/usr/bin/env bash
set -x
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    {A}.model.path=Qwen/Qwen2.5-7B-Instruct \\
    {A}.rollout.name=vllm \\
    {A}.rollout.n=8 \\
    {A}.rollout.max_model_len=4096 \\
    {A}.actor.ppo_micro_batch_size_per_gpu=4 \\
    {A}.rollout.log_prob_micro_batch_size_per_gpu=4 \\
    {A}.ref.log_prob_micro_batch_size_per_gpu=4 \\
    trainer.save_freq=20
"""


def codes(path: Path | str, *overrides: str, context: Context | None = None) -> list[tuple[str, int]]:
    problems = check_file(str(path), overrides, context)
    return [(problem.code, problem.line) for problem in problems if problem.severity != "note"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run.sh"
    path.write_text(SOUND)
    return path


def test_a_sound_script_is_clean(script: Path) -> None:
    assert codes(script) == []


def test_keys_and_rules_are_checked_and_a_wrong_value_is_told_once(script: Path) -> None:
    text = SOUND.replace("rollout.n=8", "rollout.n=five").replace(
        "save_freq=20", "save_freq=20 trainer.n_gpus_per_node=1"
    )
    script.write_text(text)
    found = codes(script)
    assert ("VRL254", 7) in found
    assert ("VRL201", 12) in found
    assert len(found) == len(set(found))
    assert [line for _, line in found] == sorted(line for _, line in found)


def test_the_same_problem_in_two_branches_comes_once(script: Path) -> None:
    start = SOUND.index("python3")
    command = SOUND[start:].replace("trainer.save_freq=20", 'trainer.save_freq=20 "${ARGS[@]}"')
    script.write_text(f'ARGS=(trainer.nnodes=two)\nif [ "$RANK" = 0 ]; then\n{command}\nelse\n{command}\nfi\n')
    assert codes(script) == [("VRL254", 1)]


def test_overrides_come_on_top_of_every_launch(script: Path) -> None:
    assert [code for code, _ in codes(script, "trainer.nnodes=two")] == ["VRL254"]
    problem = next(found for found in check_file(str(script), ["trainer.nnodes=two"]) if found.code == "VRL254")
    assert (problem.file, problem.origin) == (None, "-o #1")
    assert [code for code, _ in codes(script, "a=[1")] == ["VRL333"]


def test_version_of_the_context_holds(script: Path) -> None:
    script.write_text(SOUND.replace("trainer.save_freq=20", "trainer.save_freq=20 reward_model.reward_manager=dapo"))
    assert [code for code, _ in codes(script)] == ["VRL227"]
    assert codes(script, context=Context(verl_version="0.6.1")) == []


def test_what_is_empty_is_told_once(script: Path) -> None:
    script.write_text(SOUND.replace("trainer.save_freq=20", "trainer.project_name="))
    found = [problem.code for problem in check_file(str(script)) if problem.line == 12]
    assert found == ["VRL258"]


def test_supervised_fine_tuning_is_not_measured_by_rules_for_rl(script: Path) -> None:
    script.write_text("torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer data.train_batch_size=5 model.path=x\n")
    assert codes(script) == []


def test_a_hydra_config_is_checked_at_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"defaults: [ppo_trainer, _self_]\n{A}:\n  rollout:\n    name: vllm\n    n: five\n"
        "    tensor_model_paralel_size: 1\n"
    )
    found = codes(path)
    assert ("VRL254", 5) in found
    assert ("VRL252", 6) in found


def test_overrides_of_a_run_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "overrides.yaml"
    path.write_text(f"- {A}.rollout.name=vllm\n- trainer.nnodes=two\n")
    assert ("VRL254", 2) in codes(path)


def test_configs_of_ours_go_their_own_way(tmp_path: Path) -> None:
    assert codes(preset_names()[0]) == []
    path = tmp_path / "mine.yaml"
    path.write_text("extends: quickstart\nalgorithm:\n  clip_rato: 0.2\n")
    assert codes(path) == [("VRL001", 3)]
    assert codes(path, "algorithm.clip_rato=0.1") != []


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (SOUND.replace("rollout.n=8", "rollout.n=five"), "VRL254", 7),
        (f"{A}:\n  rollout:\n    name: vllm\n    n: five\n", "VRL254", 4),
        ("extends: quickstart\nalgorithm:\n  clip_rato: 0.2\n", "VRL001", 3),
    ],
)
def test_the_standard_input_is_told_by_its_text(
    monkeypatch: pytest.MonkeyPatch, text: str, code: str, line: int
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    found = [problem for problem in check_file("-") if problem.code == code]
    assert [(problem.file, problem.line) for problem in found] == [("<stdin>", line)]


@pytest.mark.parametrize(
    ("content", "message"), [(None, "no such file"), (b"a\0b", "binary"), (b"#" * (1 << 21), "larger")]
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "x.sh"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        check_file(str(path))
    with pytest.raises(ConfigError, match="directory"):
        check_file(f"{tmp_path}/")


def test_a_script_that_is_not_utf_8_is_read_all_the_same(script: Path) -> None:
    script.write_bytes(SOUND.encode() + b"# caf\xe9\n")
    assert codes(script) == []


OURS = [
    "extends: quickstart\n",
    "model:\n  path: x\nrollout:\n  n: 4\n",
    "training:\n  ppo_epochs: 1\ntrainer:\n  total_steps: 3\n",
    "backend: verl\nverl:\n  actor_rollout_ref:\n    actor: {}\n",
    "data:\n  train_files: [a]\n",
    "actor_rollout_ref:\n  n: 4\n  optim:\n    lr: 1e-6\n",
    "",
    "algorithm:\n  name: grpo\n  kl_in: loss\n",
]
HYDRA = [
    "defaults:\n  - ppo_trainer\n  - _self_\n",
    "actor_rollout_ref:\n  actor:\n    strategy: fsdp\n",
    "actor_rollout_ref:\n    rollout:\n        name: vllm\n",
    "trainer:\n  nnodes: 1\n  n_gpus_per_node: 8\n",
    "algorithm:\n  adv_estimator: grpo\n",
    "hydra:\n  searchpath: []\n",
    "# comment\n- trainer.nnodes=2\n",
    "data:\n  train_files: a\nreward:\n  custom_reward_function:\n    path: x\n",
]
SCRIPTS = [
    ("run.sh", "anything"),
    ("job.slurm", "model:\n"),
    ("job.sbatch", ""),
    ("noending", "#!/bin/bash\nx"),
    ("noending", "#!/usr/bin/env bash\n"),
    ("<stdin>", "python3 -m verl.trainer.main_ppo trainer.nnodes=2\n"),
    ("<stdin>", "export A=1\npython3 x.py\n"),
]


@pytest.mark.parametrize("text", OURS)
def test_ours_is_told(text: str) -> None:
    assert kind_of("x.yaml", text) == "ours"


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_ours(name: str) -> None:
    assert kind_of("x.yaml", preset_path(name).read_text()) == "ours"


@pytest.mark.parametrize("text", HYDRA)
def test_hydra_is_told(text: str) -> None:
    assert kind_of("x.yaml", text) == "hydra"


@pytest.mark.parametrize(("name", "text"), SCRIPTS)
def test_scripts_are_told(name: str, text: str) -> None:
    assert kind_of(name, text) == "script"


SWITCH = """\
STRATEGY=${STRATEGY:-fsdp}
case "$STRATEGY" in
    megatron) export A=1 ;;
    *) export A=2 ;;
esac
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.n=8 actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.model.path=a/b actor_rollout_ref.actor.strategy=$STRATEGY%s
"""


def test_what_only_a_switch_brings_about_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(SWITCH % "")
    assert [problem.code for problem in check_file(str(file)) if problem.severity == "error"] == []
    file.write_text(SWITCH % " trainer.no_such_key=1")
    problems = [problem for problem in check_file(str(file)) if problem.code == "VRL240"]
    assert [problem.severity for problem in problems] == ["error"]
