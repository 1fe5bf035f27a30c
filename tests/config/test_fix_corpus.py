"""`--fix` over whole files: mutants of the presets, launch scripts with each fault that can be mended, Hydra YAML."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from verlcli.config import load_config
from verlcli.config.check_file import check_file
from verlcli.config.fix import Fixed, fix_file
from verlcli.config.problems import Problem

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from mutants import Case, cases, preset  # noqa: E402
from mutants.base import with_value  # noqa: E402
from mutants.foreign import FOREIGN  # noqa: E402

KINDS = ("misspelt key", "key at wrong level", "renamed key")
SAME_WORD = {"low_var_kl": "k3", "bfloat16": "bf16"}
LAUNCHES = sorted((ROOT / "tests" / "data" / "verl_launches").glob("*.sh"))
REAL = sorted((ROOT / "tests" / "config" / "verl" / "scripts").glob("*.s*"))


def mend(path: Path) -> tuple[list[Problem], Fixed | None]:
    problems = check_file(str(path))
    return problems, fix_file(str(path), problems)


def mutants() -> list[Case]:
    return [case for case in cases(per_kind=4) if case.kind in KINDS]


def meant_by(case: Case) -> str:
    """The preset as it was before the fault; with the value under our name where the fault is a foreign name."""
    name, what = case.name.split(": ", 1)
    base = preset(ROOT / "presets" / f"{name}.yaml")
    if case.kind != "renamed key":
        return "\n".join(base.lines) + "\n"
    path, target = what.split(" for ")
    value = next(value for key, value, targets in FOREIGN if (".".join(key), targets[0]) == (path, target))
    return with_value(base, tuple(target.split(".")), SAME_WORD.get(value, value))[0]


def values_of(text: str, folder: Path) -> dict[str, Any]:
    (folder / "m.yaml").write_text(text)
    return load_config([folder / "m.yaml"], env={}).values


def test_mutants_get_their_values_back(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    mendable, mended, wrong = 0, 0, []
    for case in mutants():
        file.write_text(case.text)
        problems, fixed = mend(file)
        mendable += any(problem.fix for problem in problems)
        if fixed is None or not fixed.made:
            continue
        mended += 1
        if values_of(fixed.text, tmp_path) != values_of(meant_by(case), tmp_path):
            wrong.append(case.name)
    assert wrong == []
    assert mendable >= 0.8 * len(mutants())
    assert mended >= 0.95 * mendable


FULL = """\
    algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.max_model_len=4096 \\
    actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True"""
RANK, SUMMON = "actor_rollout_ref.model.lora_rank=32", "actor_rollout_ref.rollout.layered_summon=True"
FORMAT = "actor_rollout_ref.rollout.load_format=safetensors"
HEAD = f"python3 -m verl.trainer.main_ppo \\\n{FULL}"

# Script -> what stands in its place afterwards, and the codes that are mended.
SCRIPTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "last line": (
        f"{HEAD} \\\n    reward_model.reward_manager=dapo\n",
        f"{HEAD} \\\n    reward.reward_manager.name=dapo\n",
        ("VRL227",),
    ),
    "removed last line takes the backslash before it along": (
        f"set -x\n{HEAD} \\\n    actor_rollout_ref.rollout.use_fire_sampling=False\necho done\n",
        f"set -x\n{HEAD}\necho done\n",
        ("VRL263",),
    ),
    "removed line in the middle": (
        f"{HEAD} \\\n    ~trainer.foo \\\n    trainer.nnodes=1\n",
        f"{HEAD} \\\n    trainer.nnodes=1\n",
        ("VRL259",),
    ),
    "removed word among others": (
        f"{HEAD} \\\n    trainer.nnodes=1 '~trainer.foo' trainer.save_freq=5 2>&1 | tee log\n",
        f"{HEAD} \\\n    trainer.nnodes=1 trainer.save_freq=5 2>&1 | tee log\n",
        ("VRL259",),
    ),
    "removed word before a pipe": (
        f"{HEAD} \\\n    ~trainer.foo 2>&1 | tee log\n",
        f"{HEAD} \\\n    2>&1 | tee log\n",
        ("VRL259",),
    ),
    "quoted words": (
        f"{HEAD} \\\n    'reward_model.reward_manager=dapo' \"trainer.total_epoch=3\"\n",
        f"{HEAD} \\\n    'reward.reward_manager.name=dapo' \"trainer.total_epochs=3\"\n",
        ("VRL227", "VRL240"),
    ),
    "plus dropped inside quotes": (
        f'{HEAD} \\\n    "+actor_rollout_ref.rollout.temperature=0.7"\n',
        f'{HEAD} \\\n    "actor_rollout_ref.rollout.temperature=0.7"\n',
        ("VRL250",),
    ),
    "plus added": (
        f"{HEAD} \\\n    actor_rollout_ref.rollout.engine_kwargs.vllm.max_num_seqs=64\n",
        f"{HEAD} \\\n    +actor_rollout_ref.rollout.engine_kwargs.vllm.max_num_seqs=64\n",
        ("VRL251",),
    ),
    "renamed and without its plus": (
        f"{HEAD} \\\n    +actor_rollout_ref.model.enable_activation_offloading=True\n",
        f"{HEAD} \\\n    actor_rollout_ref.model.enable_activation_offload=True\n",
        ("VRL252",),
    ),
    "array with comments": (
        f"REWARD=(\n    reward_model.reward_manager=dapo  # overlong\n"
        f'    "custom_reward_function.path=/my rewards/r.py"\n'
        f'    custom_reward_function.name=score\n    ~trainer.foo\n)\n{HEAD} "${{REWARD[@]}}" "$@"\n',
        f"REWARD=(\n    reward.reward_manager.name=dapo  # overlong\n"
        f'    "reward.custom_reward_function.path=/my rewards/r.py"\n    reward.custom_reward_function.name=score\n)\n'
        f'{HEAD} "${{REWARD[@]}}" "$@"\n',
        ("VRL227", "VRL227", "VRL227", "VRL259"),
    ),
    "variable of several words": (
        f'EXTRA="reward_model.reward_manager=dapo +actor_rollout_ref.rollout.temperature=0.9"\n{HEAD} $EXTRA\n',
        f'EXTRA="reward.reward_manager.name=dapo actor_rollout_ref.rollout.temperature=0.9"\n{HEAD} $EXTRA\n',
        ("VRL227", "VRL250"),
    ),
    "value of a variable, quotes kept": (
        f"MODE=\"masterx\"\nMETHOD='cosin'\n{HEAD} \\\n    actor_rollout_ref.actor.optim.lr_scheduler_type=$METHOD\n",
        f"MODE=\"masterx\"\nMETHOD='cosine'\n{HEAD} \\\n    actor_rollout_ref.actor.optim.lr_scheduler_type=$METHOD\n",
        ("VRL255",),
    ),
    "default of a variable": (
        f"N=${{N:-4.0}}\n{HEAD.replace('n=8', 'n=$N')}\n",
        f"N=${{N:-4}}\n{HEAD.replace('n=8', 'n=$N')}\n",
        ("VRL254",),
    ),
    "whole number": (HEAD.replace("n=8", "n=8.0") + "\n", HEAD + "\n", ("VRL254",)),
    "LoRA rank of the other engine": (
        f"{HEAD} \\\n    actor_rollout_ref.model.lora.rank=32\n",
        f"{HEAD} \\\n    actor_rollout_ref.model.lora_rank=32\n",
        ("VRL216",),
    ),
    "LoRA rank of the other engine, Megatron": (
        f"{HEAD} \\\n    model_engine=megatron actor_rollout_ref.model.lora_rank=32\n",
        f"{HEAD} \\\n    model_engine=megatron actor_rollout_ref.model.lora.rank=32\n",
        ("VRL216",),
    ),
    "base weights that the engine loads": (
        f"{HEAD} \\\n    {RANK} \\\n    {SUMMON} \\\n    trainer.n_gpus_per_node=8\n",
        f"{HEAD} \\\n    {RANK} \\\n    {SUMMON} \\\n"
        "    actor_rollout_ref.rollout.load_format=safetensors \\\n    trainer.n_gpus_per_node=8\n",
        ("VRL215",),
    ),
    "key added before the last line": (
        f"{HEAD} \\\n    actor_rollout_ref.model.lora_rank=32 trainer.n_gpus_per_node=8 \\\n"
        "    actor_rollout_ref.rollout.layered_summon=True\n",
        f"{HEAD} \\\n    actor_rollout_ref.model.lora_rank=32 trainer.n_gpus_per_node=8 \\\n"
        "    actor_rollout_ref.rollout.load_format=safetensors \\\n    actor_rollout_ref.rollout.layered_summon=True\n",
        ("VRL215",),
    ),
    "key added to an array": (
        f'LORA=(\n  {RANK}\n  {SUMMON} # little memory\n)\n{HEAD} trainer.n_gpus_per_node=8 "${{LORA[@]}}"\n',
        f"LORA=(\n  {RANK}\n  {SUMMON} # little memory\n"
        f'  actor_rollout_ref.rollout.load_format=safetensors\n)\n{HEAD} trainer.n_gpus_per_node=8 "${{LORA[@]}}"\n',
        ("VRL215",),
    ),
    "function, and its arguments": (
        f'train() {{\n    {HEAD} \\\n    trainer.total_training_step=100 "$@"\n}}\n'
        "train reward_model.reward_manager=dapo\n",
        f'train() {{\n    {HEAD} \\\n    trainer.total_training_steps=100 "$@"\n}}\n'
        "train reward.reward_manager.name=dapo\n",
        ("VRL240", "VRL227"),
    ),
    "loop, and a text that only looks like a launch": (
        f"cat > notes <<'TXT'\nreward_model.reward_manager=dapo\nTXT\nfor lr in 1e-6 2e-6; do\n    {HEAD} \\\n"
        "    actor_rollout_ref.actor.optim.lr=$lr reward_model.reward_manager=dapo\ndone\n",
        f"cat > notes <<'TXT'\nreward_model.reward_manager=dapo\nTXT\nfor lr in 1e-6 2e-6; do\n    {HEAD} \\\n"
        "    actor_rollout_ref.actor.optim.lr=$lr reward.reward_manager.name=dapo\ndone\n",
        ("VRL227",),
    ),
}


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_scripts(tmp_path: Path, name: str) -> None:
    before, after, codes = SCRIPTS[name]
    file = tmp_path / "run.sh"
    file.write_text(before)
    _, fixed = mend(file)
    assert fixed is not None
    assert fixed.text == after
    assert Counter(problem.code for problem in fixed.made) == Counter(codes)
    assert fixed.left == ()


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_second_fix_changes_nothing(tmp_path: Path, name: str) -> None:
    file = tmp_path / "run.sh"
    file.write_text(SCRIPTS[name][1])
    problems, fixed = mend(file)
    assert fixed is None
    assert not any(problem.fix for problem in problems)


def words_in_bash(text: str, folder: Path) -> list[list[str]]:
    """What python gets when bash runs the script, for every launch."""
    (folder / "bin").mkdir(exist_ok=True)
    python = folder / "bin" / "python3"
    python.write_text('#!/bin/bash\nprintf "%s\\0" "$@" >> "$WORDS"; printf "\\n\\0" >> "$WORDS"\n')
    python.chmod(0o755)
    words = folder / "words"
    words.write_text("")
    environment = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "WORDS": str(words)}
    done = subprocess.run(["bash", "-c", text, "run.sh"], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [launch.split("\0")[:-1] for launch in words.read_text().split("\n\0")[:-1]]


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_bash_hands_on_the_same_words_but_for_the_fixed_ones(tmp_path: Path, name: str) -> None:
    before, after, codes = SCRIPTS[name]
    old, new = words_in_bash(before, tmp_path), words_in_bash(after, tmp_path)
    assert len(old) == len(new) > 0
    for one, other in zip(old, new, strict=True):
        gone, come = Counter(one) - Counter(other), Counter(other) - Counter(one)
        assert 0 < max(gone.total(), come.total()) <= len(codes)


@pytest.mark.parametrize("script", [*LAUNCHES, *REAL], ids=lambda path: path.name)
def test_real_scripts_are_mended_once_and_for_all(tmp_path: Path, script: Path) -> None:
    file = tmp_path / script.name
    file.write_bytes(script.read_bytes())
    problems, fixed = mend(file)
    if fixed is None:
        assert not any(problem.fix for problem in problems)
        return
    fixed.write()
    after, again = mend(file)
    assert again is None or not again.made
    assert subprocess.run(["bash", "-n", str(file)], capture_output=True).returncode == 0
    errors = [
        Counter((each.code, each.path) for each in found if each.severity == "error") for found in (problems, after)
    ]
    assert not errors[1] - errors[0]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            f'MODE=cosin\nif [ "$MODE" = cosin ]; then export X=1; fi\n{HEAD} \\\n'
            "    actor_rollout_ref.actor.optim.lr_scheduler_type=$MODE trainer.experiment_name=run-$MODE\n",
            "another word would change",
        ),
        (
            f"export WARM=cosin\n{HEAD} \\\n    actor_rollout_ref.actor.optim.lr_scheduler_type=$WARM\n",
            "the environment would change",
        ),
        (
            f"{HEAD} \\\n    reward_model.reward_manager=dapo"
            " 'trainer.experiment_name=${reward_model.reward_manager}'\n",
            "a reference to it would point nowhere",
        ),
        (
            f"K=reward_model\n{HEAD} \\\n    $K.reward_manager=dapo\n",
            "the key is put together of parts",
        ),
    ],
)
def test_what_would_change_more_is_left(tmp_path: Path, script: str, why: str) -> None:
    file = tmp_path / "run.sh"
    file.write_text(script)
    _, fixed = mend(file)
    assert fixed is not None, why
    assert (fixed.made, fixed.text) == ((), script), why
    assert len(fixed.left) == 1


HYDRA = """\
    # my run
    defaults:
      - ppo_trainer
      - _self_

    actor_rollout_ref:
      model:
        path: Qwen/Qwen2.5-7B-Instruct  # the policy
      actor:
        ulysses_sequence_parallel_size: 2   # no SP
        use_dynamic_bsz: yes
        optim:
          # warmup
          warmup_style: cosine
      rollout:
        name: vllmm
        n: 8.0
        max_model_len: 4096
        use_fire_sampling: false
    reward_model:
      reward_manager: dapo  # overlong
    trainer:
      nnodes: 1
      total_epoch: 3
    """
HYDRA_AFTER = """\
    # my run
    defaults:
      - ppo_trainer
      - _self_

    actor_rollout_ref:
      model:
        path: Qwen/Qwen2.5-7B-Instruct  # the policy
      actor:
        use_dynamic_bsz: yes
        optim:
          # warmup
          lr_scheduler_type: cosine
        fsdp_config:
          ulysses_sequence_parallel_size: 2   # no SP
      rollout:
        name: vllm
        n: 8
        max_model_len: 4096
    trainer:
      nnodes: 1
      total_epochs: 3
    reward:
      reward_manager:
        name: dapo  # overlong
    """


@pytest.mark.parametrize(("end", "start"), [("\n", ""), ("\r\n", "\ufeff")])
def test_hydra_yaml_keeps_comments_and_line_ends(tmp_path: Path, end: str, start: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes((start + dedent(HYDRA).replace("\n", end)).encode())
    _, fixed = mend(file)
    assert fixed is not None
    fixed.write()
    assert file.read_bytes() == (start + dedent(HYDRA_AFTER).replace("\n", end)).encode()
    assert fixed.left == ()
    assert mend(file)[1] is None
