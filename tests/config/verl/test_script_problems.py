"""What `verl validate` says of a script whose launch bash does not start as it looks, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config.check_file import check_file
from verlcli.config.problems import Problem

SOUND = """actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \
actor_rollout_ref.rollout.n=8 actor_rollout_ref.rollout.max_model_len=1024 \
actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
algorithm.adv_estimator=grpo trainer.save_freq=-1 trainer.n_gpus_per_node=8"""
PPO = f"python3 -m verl.trainer.main_ppo {SOUND}"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(text: str) -> list[Problem]:
    """Errors, warnings and what the script itself is noted for; not what defaults and missing facts are noted for."""
    Path("run.sh").write_text(text, encoding="utf-8", newline="")
    problems = [problem for problem in check_file("run.sh") if not problem.unchecked]
    return [problem for problem in problems if problem.severity != "note" or "VRL300" < problem.code < "VRL320"]


def codes(text: str) -> list[str]:
    return [problem.code for problem in said(text)]


@pytest.mark.parametrize(
    "script",
    [
        f'bash -c "{PPO} trainer.experiment_name=$SLURM_JOB_ID"',
        f'ray job submit -- bash -c "{PPO} trainer.nnodes=$SLURM_NNODES data.train_files=$HOME/x.parquet"',
        f'docker run img bash -c "{PPO} trainer.nnodes=$SLURM_NNODES"',
        f'CMD="{PPO} trainer.nnodes=$SLURM_NNODES data.train_files=$HOME/x.parquet"; eval $CMD',
    ],
)
def test_a_command_string_is_as_sound_as_the_launch_itself(script: str) -> None:
    assert codes(script) == []


@pytest.mark.parametrize(
    "script",
    [
        f"sbatch <<EOF\n#!/bin/bash\n{PPO} trainer.loger=1\nEOF\n",
        f"bash <<EOF\n{PPO} trainer.loger=1\nEOF\n",
        f"srun bash -s <<'EOF'\n{PPO} trainer.loger=1\nEOF\n",
        f"cat > job.sh <<'EOF'\n{PPO} trainer.loger=1\nEOF\nsbatch job.sh\n",
        f'sbatch --wrap "{PPO} trainer.loger=1"\n',
        f'ssh host "{PPO} trainer.loger=1"\n',
    ],
)
def test_a_launch_in_another_shell_is_checked(script: str) -> None:
    assert codes(script) == ["VRL240"]


def test_directives_are_those_of_the_job() -> None:
    job = "sbatch <<EOF\n#!/bin/bash\n#SBATCH --gpus-per-node={0}\n{1} trainer.nnodes=1\nEOF\n"
    assert codes(job.format(8, PPO)) == []
    assert codes(job.format(8, PPO) + job.format(4, PPO)) == ["VRL320"]


def test_a_launch_that_is_not_read_is_pointed_at() -> None:
    (problem,) = said(f"echo start\ncat x | parallel {PPO}\n")
    assert (problem.code, problem.severity, problem.line) == ("VRL330", "warning", 2)
    assert problem.message.startswith("line 2 looks like a launch of verl, but is not read")
    assert "nothing in this script" in said("echo start\n# python3 -m verl.trainer.main_ppo\n")[0].message


def test_a_quote_without_end_is_all_there_is_to_say() -> None:
    assert codes(f'{PPO} trainer.project_name="x\n') == ["VRL315"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (f'{PPO} "trainer.default_local_dir=/c/${{trainer.project_name}}"', "VRL318"),
        (f"{PPO} trainer.default_local_dir=/c/${{trainer.project_name}}", "VRL318"),
        (f"$ {PPO}", "VRL328"),
        (f"A=(trainer.nnodes=1 trainer.val_before_train=False)\n{PPO} $A", "VRL329"),
        (f"{PPO} \\\r\n  trainer.nnodes=1\r\n", "VRL309"),
        (f"{PPO} $(cat args.txt)", "VRL319"),
        (f"source .env\n{PPO} trainer.project_name=$NAME", "VRL316"),
    ],
)
def test_one_cause_is_said_once(script: str, code: str) -> None:
    assert codes(script) == [code]


def test_a_branch_of_the_users_choice_is_checked() -> None:
    script = (
        'MODE=${1:-small}\nif [ "$MODE" = big ]; then\n  TP=3\nelse\n  TP=2\nfi\n'
        f"{PPO} actor_rollout_ref.rollout.tensor_model_parallel_size=$TP"
    )
    assert [(problem.code, problem.line) for problem in said(script)] == [("VRL201", 3)]
    assert codes(script.replace("TP=3", "TP=4")) == []


def test_words_that_a_broken_line_cuts_off_count_as_said() -> None:
    cut = "python3 -m verl.trainer.main_ppo \\ \n  " + SOUND.replace(" ", " \\\n  ") + "\n"
    assert codes(cut) == ["VRL305"]
    assert codes("python3 -m verl.trainer.main_ppo \\\n# a comment\n  " + SOUND.replace(" ", " \\\n  ")) == ["VRL305"]
    assert codes("python3 -m verl.trainer.main_ppo\n  " + SOUND.replace(" ", " \\\n  ") + "\n") == ["VRL306"]
