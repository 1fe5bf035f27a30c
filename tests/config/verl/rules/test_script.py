"""Rules about the script around a launch; the launches are read from scripts, so that places are the real ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.context import Context
from verlcli.config.problems import Problem
from verlcli.config.verl.placing import problem_of
from verlcli.config.verl.read_script import read_script_runs
from verlcli.config.verl.rules.script import RULES

MAIN = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm"
Find = Callable[[str], list[Problem]]


@pytest.fixture
def find() -> Find:
    def problems(text: str) -> list[Problem]:
        runs, _ = read_script_runs("run.sh", text, Context())
        return [problem_of(run, verdict) for run in runs for rule in RULES for verdict in rule.check(run)]

    return problems


@pytest.mark.parametrize(
    ("directives", "keys", "severity", "line", "message"),
    [
        ("#SBATCH --nodes=2", "trainer.nnodes=4", "error", 3, "gets 2 nodes"),
        ("#SBATCH -N 4", "trainer.nnodes=2", "warning", 3, "set trainer.nnodes=4, or ask Slurm for 2"),
        ("#SBATCH --gpus-per-node=4", "trainer.n_gpus_per_node=8", "error", 3, "Ray does not have them"),
        ("#SBATCH --gres=gpu:a100:4", "", "error", 2, "trainer.n_gpus_per_node=8 (verl's default)"),
        ("#SBATCH --gpus-per-node=h100:8", "trainer.n_gpus_per_node=4", "warning", 3, "stays idle"),
    ],
)
def test_slurm_and_the_launch_disagree(
    find: Find, directives: str, keys: str, severity: str, line: int, message: str
) -> None:
    problems = [found for found in find(f"#!/bin/bash\n{directives}\n{MAIN} {keys}\n") if found.code == "VRL320"]
    assert [(problem.severity, problem.line) for problem in problems] == [(severity, line)]
    assert message in problems[0].sentence


@pytest.mark.parametrize(
    "directives",
    ["#SBATCH --nodes=2\n#SBATCH --gres=gpu:8", "#SBATCH --nodes=1-4", "#SBATCH --gres=nvme:1", "#SBATCH --mem=1G"],
)
def test_slurm_and_the_launch_agree(find: Find, directives: str) -> None:
    assert not [p for p in find(f"#!/bin/bash\n{directives}\n{MAIN} trainer.nnodes=2\n") if p.code == "VRL320"]


def test_too_few_visible_gpus(find: Find) -> None:
    problem = next(p for p in find(f"export CUDA_VISIBLE_DEVICES=0,1\n{MAIN} trainer.n_gpus_per_node=4\n"))
    assert (problem.code, problem.severity, problem.line) == ("VRL321", "error", 2)
    assert "shows 2 of the 4 GPUs" in problem.message
    assert [(related.path, related.place.line) for related in problem.related] == [("$CUDA_VISIBLE_DEVICES", 1)]


@pytest.mark.parametrize(
    "text",
    [
        f"export CUDA_VISIBLE_DEVICES=0,1\n{MAIN} trainer.n_gpus_per_node=2\n",
        f"export CUDA_VISIBLE_DEVICES=$GPUS\n{MAIN} trainer.n_gpus_per_node=2\n",
        f"export CUDA_VISIBLE_DEVICES=0\nray job submit -- {MAIN} trainer.n_gpus_per_node=8\n",
        f"export CUDA_VISIBLE_DEVICES=0\n{MAIN} +ray_kwargs.ray_init.address=auto\n",
    ],
)
def test_visible_gpus_that_suffice_or_do_not_count(find: Find, text: str) -> None:
    assert not [problem for problem in find(text) if problem.code == "VRL321"]


def test_ray_start_with_too_few_gpus(find: Find) -> None:
    problems = find(f"ray start --head --num-gpus 4\n{MAIN} trainer.n_gpus_per_node=8\n")
    assert [(problem.code, problem.line) for problem in problems] == [("VRL322", 2)]
    assert "line 1 starts Ray with --num-gpus=4" in problems[0].message
    assert not find(f"ray start --head --num-gpus=8\n{MAIN} trainer.n_gpus_per_node=8\n")


def test_several_nodes_want_a_ray_that_runs(find: Find) -> None:
    problems = find(f"{MAIN} trainer.nnodes=2\n")
    assert [(problem.code, problem.severity) for problem in problems] == [("VRL323", "note")]
    for start in ("ray start", "srun -w $NODE apptainer run $IMAGE \\\n  ray start", "/opt/ray/bin/ray start"):
        assert not find(f"{start} --head\n{MAIN} trainer.nnodes=2\n")
    assert not find(f'ssh $NODE "ray start --head"\n{MAIN} trainer.nnodes=2\n')
    assert find(f"ray stop\necho ray start\n{MAIN} trainer.nnodes=2\n")
    assert not find(f"ray job submit -- {MAIN} trainer.nnodes=2\n")
    assert not find(f"{MAIN} trainer.nnodes=1\n")


@pytest.mark.parametrize("nodes", ["${NNODES:-2}", "$1", "${1:-2}", "$NOT_SET", "$(cat nodes)"])
def test_whoever_chooses_the_nodes_knows_of_ray(find: Find, nodes: str) -> None:
    text = f"{MAIN} trainer.nnodes={nodes} trainer.default_local_dir=/shared\n"
    assert not [problem for problem in find(text) if problem.code == "VRL323"]


def test_a_job_of_slurm_is_as_large_as_its_directives_say(find: Find) -> None:
    keys = "trainer.nnodes=$SLURM_NNODES trainer.n_gpus_per_node=${SLURM_GPUS_ON_NODE:-2}"
    text = f"#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\n{MAIN} {keys}\n"
    assert [problem.code for problem in find(text)] == ["VRL323"]
    # Without a directive the default holds.
    found = find(text.replace("#SBATCH --gres=gpu:8", "export CUDA_VISIBLE_DEVICES=0"))
    assert "shows 1 of the 2 GPUs" in next(problem.message for problem in found if problem.code == "VRL321")


def test_num_cpus_cannot_go_with_a_ray_that_runs(find: Find) -> None:
    problems = find(f"ray start --head\n{MAIN} ray_kwargs.ray_init.num_cpus=32\n")
    assert [(problem.code, problem.line) for problem in problems] == [("VRL327", 2)]
    assert "--num-cpus=32" in problems[0].sentence
    assert not find(f"{MAIN} ray_kwargs.ray_init.num_cpus=32\n")


def test_exports_do_not_reach_a_submitted_job(find: Find) -> None:
    problems = find(f"export NCCL_DEBUG=INFO\nexport FOO=1\nray job submit -- {MAIN}\n")
    assert [(problem.code, problem.severity, problem.line) for problem in problems] == [("VRL324", "warning", 1)]
    assert "env_vars.NCCL_DEBUG" in problems[0].sentence
    assert "FOO" not in problems[0].sentence


@pytest.mark.parametrize(
    "text",
    [
        f"export NCCL_DEBUG=INFO\n{MAIN}\n",
        f"export NCCL_DEBUG=INFO\nray job submit --runtime-env=/not/here.yaml -- {MAIN}\n",
        f"export NCCL_DEBUG=INFO\nray job submit --runtime-env-json='{{env_vars: {{NCCL_DEBUG: INFO}}}}' -- {MAIN}\n",
        f"export NCCL_DEBUG=INFO\nray job submit -- {MAIN} +ray_kwargs.ray_init.runtime_env.env_vars.NCCL_DEBUG=INFO\n",
    ],
)
def test_exports_that_reach_it_or_may(find: Find, text: str) -> None:
    assert not [problem for problem in find(text) if problem.code == "VRL324"]


def test_checkpoints_of_several_nodes_in_a_relative_folder(find: Find) -> None:
    base = f"ray start --head\n{MAIN} trainer.nnodes=2 trainer.save_freq=10"
    problems = find(f"{base} trainer.default_local_dir=ckpt\n")
    assert [(problem.code, problem.severity, problem.line) for problem in problems] == [("VRL326", "note", 2)]
    assert "'ckpt'" in problems[0].message
    for folder in ("/shared/ckpt", "$HOME/ckpt", "hdfs://x/ckpt"):
        assert not find(f"{base} trainer.default_local_dir={folder}\n")
    assert not find(f"{base.replace('save_freq=10', 'save_freq=-1')}\n")
