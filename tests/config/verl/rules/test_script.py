"""Rules about the script around a launch; the launches are read from scripts, so that places are the real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from verlcli.config.context import Context, NotKnown
from verlcli.config.problems import Problem
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.placing import problem_of
from verlcli.config.verl.read_script import read_script_runs
from verlcli.config.verl.rules.script import RULES

MAIN = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm"
Find = Callable[[str], list[Problem]]


def _known(verdicts: Iterator[Verdict]) -> Iterator[Verdict]:
    """The verdicts up to the first fact that is missing."""
    with suppress(NotKnown):
        yield from verdicts


@pytest.fixture
def find() -> Find:
    def problems(text: str) -> list[Problem]:
        runs, _ = read_script_runs("run.sh", text, Context())
        return [problem_of(run, verdict) for run in runs for rule in RULES for verdict in _known(rule.check(run))]

    return problems


@pytest.mark.parametrize(
    ("directives", "keys", "severity", "line", "message"),
    [
        ("#SBATCH --nodes=2", "trainer.nnodes=4", "error", 3, "gets 2 nodes"),
        ("#SBATCH -N 4", "trainer.nnodes=2", "warning", 3, "set trainer.nnodes=4, or ask Slurm for 2"),
        ("#SBATCH --gpus-per-node=4", "trainer.n_gpus_per_node=8", "error", 3, "Ray does not have them"),
        ("#SBATCH --gres=gpu:a100:4", "", "error", 2, "trainer.n_gpus_per_node=8 (verl's default)"),
        ("#SBATCH --gpus-per-node=h100:8", "trainer.n_gpus_per_node=4", "warning", 3, "stays idle"),
        ("#SBATCH --gres=gpu:4,nvme:1", "", "error", 2, "gets 4 GPUs a node (#SBATCH --gres)"),
        ("#SBATCH --gres=nvme:1,gpu:a100:4", "", "error", 2, "gets 4 GPUs a node"),
        ("#SBATCH --gres=gpu", "trainer.n_gpus_per_node=8", "error", 3, "gets 1 GPU a node"),
        ("#SBATCH --gres=gpu:0", "", "error", 2, "; ask Slurm for 8"),
        (
            "#SBATCH --ntasks-per-node=4 --gpus-per-task=1",
            "",
            "error",
            2,
            "4 GPUs a node (#SBATCH --ntasks-per-node, --g",
        ),
        ("#SBATCH -N 2 -n 8 --gpus-per-task=1", "trainer.nnodes=2", "error", 2, "gets 4 GPUs a node"),
        ("#SBATCH --nodes=1", "trainer.nnodes=2", "error", 3, "gets 1 node (#SBATCH --nodes)"),
        ("#SBATCH -G 8", "trainer.nnodes=2", "error", 3, "=8 (verl's default) ask for 16: Ray does not have"),
        (
            "#SBATCH --gpus=h100:16 -N 2",
            "trainer.nnodes=2 trainer.n_gpus_per_node=4",
            "warning",
            3,
            "n_gpus_per_node=8, or",
        ),
        ("#SBATCH --gpus=3", "trainer.nnodes=2", "error", 3, "; ask Slurm for 16"),
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
    [
        "#SBATCH --nodes=2\n#SBATCH --gres=gpu:8",
        "#SBATCH --nodes=1-4",
        "#SBATCH --gres=nvme:1",
        "#SBATCH --mem=1G",
        "#SBATCH --gres=gpu:8,nvme:1",
        "#SBATCH --gres=gpu:a100:4,gpu:h100:4",
        "#SBATCH --gres=gpu:$N",
        "#SBATCH --ntasks-per-node=8 --gpus-per-task=1",
        "#SBATCH --gpus-per-task=8",
        "#SBATCH --ntasks=1 --gpus-per-task=a100:8",
        "#SBATCH --ntasks=16 --gpus-per-task=1",
        "#SBATCH -N 2 -G 16",
        "#SBATCH --gpus=a100",
    ],
)
def test_slurm_and_the_launch_agree(find: Find, directives: str) -> None:
    assert not [p for p in find(f"#!/bin/bash\n{directives}\n{MAIN} trainer.nnodes=2\n") if p.code == "VRL320"]


def test_nodes_that_only_a_run_can_tell_do_not_hide_the_gpus(find: Find) -> None:
    problems = find(f"#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n{MAIN} trainer.nnodes=$(wc -l < nodes)\n")
    assert [(problem.code, problem.line) for problem in problems if "GPUs" in problem.message] == [("VRL320", 3)]


ASYNC = "python3 -m verl.experimental.fully_async_policy.fully_async_main trainer.default_local_dir=/shared"
OF_FOUR = f"{ASYNC} trainer.nnodes=2 trainer.n_gpus_per_node=8 rollout.nnodes=2 rollout.n_gpus_per_node=8"
REWARD = f"{MAIN} reward.reward_model.enable_resource_pool=True reward.reward_model.nnodes=1"


@pytest.mark.parametrize(
    ("directives", "launch", "severity", "message"),
    [
        (
            "--nodes=2 --gres=gpu:8",
            OF_FOUR,
            "error",
            "gets 16 GPUs (#SBATCH --nodes, --gres), and the launch asks for 2 × 8",
        ),
        (
            "--nodes=2 --gres=gpu:8",
            OF_FOUR,
            "error",
            "+ 2 × 8 = 32: Ray does not have them, and verl stops; ask Slurm for 4 nodes",
        ),
        ("--nodes=5 --gres=gpu:8", OF_FOUR, "warning", "gets 40 GPUs"),
        ("--gpus=16", OF_FOUR, "error", "ask Slurm for 32 GPUs"),
        ("--nodes=5", OF_FOUR, "warning", "gets 5 nodes (#SBATCH --nodes), and the launch asks for 4"),
        ("--nodes=1", OF_FOUR, "error", "gets 1 node (#SBATCH --nodes), and trainer.nnodes=2"),
        ("--nodes=4 --gres=gpu:4", OF_FOUR, "error", "rollout.n_gpus_per_node=8"),
        ("--nodes=1 --gres=gpu:8", f"{REWARD} reward.reward_model.n_gpus_per_node=4", "error", "1 × 8 + 1 × 4 = 12"),
    ],
)
def test_slurm_and_groups_of_gpus_disagree(
    find: Find, directives: str, launch: str, severity: str, message: str
) -> None:
    problems = [found for found in find(f"#!/bin/bash\n#SBATCH {directives}\n{launch}\n") if found.code == "VRL320"]
    assert {(problem.severity, problem.line) for problem in problems} == {(severity, 3)}
    assert any(message in problem.sentence for problem in problems)


@pytest.mark.parametrize(
    ("directives", "launch"),
    [
        ("--nodes=4 --gres=gpu:8", OF_FOUR),
        ("--nodes=4", OF_FOUR),
        ("--gpus=32", OF_FOUR),
        ("--nodes=2", OF_FOUR),  # with 16 GPUs a node
        ("--nodes=2 --gpus-per-node=8", f"{REWARD} reward.reward_model.n_gpus_per_node=8"),
        (
            "--nodes=1 --gpus-per-node=8",
            f"{ASYNC} trainer.n_gpus_per_node=4 rollout.nnodes=1 rollout.n_gpus_per_node=4",
        ),
        ("--nodes=4 --gres=gpu:8", f"{OF_FOUR} rollout.nnodes=$R"),
    ],
)
def test_slurm_and_groups_of_gpus_agree(find: Find, directives: str, launch: str) -> None:
    text = f"#!/bin/bash\n#SBATCH {directives}\n{launch}\n"
    assert not [problem for problem in find(text) if problem.code == "VRL320"]


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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("-1", "CUDA_VISIBLE_DEVICES=-1 hides every GPU from the launch, and trainer.n_gpus_per_node=1"),
        ("", "CUDA_VISIBLE_DEVICES is empty, which hides every GPU"),
        ('""', "CUDA_VISIBLE_DEVICES is empty, which hides every GPU"),
        ("NoDevFiles", "hides every GPU"),
    ],
)
def test_no_visible_gpu_at_all(find: Find, value: str, message: str) -> None:
    (problem,) = find(f"CUDA_VISIBLE_DEVICES={value} {MAIN} trainer.n_gpus_per_node=1\n")
    assert (problem.code, problem.severity, problem.line) == ("VRL321", "error", 1)
    assert message in problem.message
    assert "=0" not in problem.sentence


def test_an_exported_variable_may_hide_all_gpus(find: Find) -> None:
    (problem,) = find(f"export CUDA_VISIBLE_DEVICES=\n{MAIN} trainer.n_gpus_per_node=1\n")
    assert (problem.code, problem.line) == ("VRL321", 2)
    assert "CUDA_VISIBLE_DEVICES is empty" in problem.message


def test_cuda_stops_at_the_first_that_is_none(find: Find) -> None:
    (problem,) = find(f"export CUDA_VISIBLE_DEVICES=0,-1,1\n{MAIN} trainer.n_gpus_per_node=2\n")
    assert "shows 1 of the 2 GPUs" in problem.message


def test_visible_gpus_of_several_groups_on_one_node(find: Find) -> None:
    keys = "trainer.n_gpus_per_node=4 rollout.nnodes=1 rollout.n_gpus_per_node=4"
    problems = find(f"export CUDA_VISIBLE_DEVICES=0,1,2,3\n{ASYNC} {keys}\n")
    (problem,) = [found for found in problems if found.code == "VRL321"]
    assert (
        "shows 4 of the 8 GPUs that trainer.n_gpus_per_node=4 and rollout.n_gpus_per_node=4 ask for" in problem.message
    )
    for text in (
        f"export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\n{ASYNC} {keys}\n",
        f"export CUDA_VISIBLE_DEVICES=0,1,2,3\nray start --head\n{ASYNC} {keys}\n",  # the others on a second node
    ):
        assert not [found for found in find(text) if found.code == "VRL321"]


@pytest.mark.parametrize(
    "text",
    [
        f"ray start --head\nexport CUDA_VISIBLE_DEVICES=-1\n{MAIN}\n",  # Ray has its GPUs already
        f"CUDA_VISIBLE_DEVICES= {MAIN} trainer.device=npu\n",
    ],
)
def test_visible_gpus_of_something_else(find: Find, text: str) -> None:
    assert not [problem for problem in find(text) if problem.code == "VRL321"]


def test_ray_start_with_too_few_gpus(find: Find) -> None:
    problems = find(f"ray start --head --num-gpus 4\n{MAIN} trainer.n_gpus_per_node=8\n")
    assert [(problem.code, problem.line) for problem in problems] == [("VRL322", 2)]
    assert "line 1 starts Ray with --num-gpus=4" in problems[0].message
    assert not find(f"ray start --head --num-gpus=8\n{MAIN} trainer.n_gpus_per_node=8\n")


def test_largest_of_several_ray_starts_counts(find: Find) -> None:
    head = "ray start --head --num-gpus=0"
    worker = 'ssh n1 "ray start --address=head:6379 --num-gpus={}"'
    launch = f"{MAIN} trainer.n_gpus_per_node=8"
    (problem,) = find(f"{head}\n{worker.format(4)}\n{launch}\n")
    assert (problem.code, problem.severity, problem.line) == ("VRL322", "error", 3)
    assert "line 2 starts Ray with --num-gpus=4" in problem.message
    assert problem.suggestion == "write --num-gpus=8, or trainer.n_gpus_per_node=4"
    for start in (worker.format(8), worker.format("$N"), "ray start --address=$HEAD:6379"):
        assert not find(f"{head}\n{start}\n{launch}\n")
    (problem,) = find(f"{head}\n{launch}\n")
    assert (problem.code, problem.severity) == ("VRL322", "warning")
    assert problem.suggestion == "start Ray with --num-gpus=8 on the GPU nodes"


def test_ray_start_and_groups_of_gpus(find: Find) -> None:
    keys = "trainer.n_gpus_per_node=4 rollout.nnodes=1 rollout.n_gpus_per_node={}"
    one = "ray start --head --num-gpus=4"
    (problem,) = [p for p in find(f"{one}\n{ASYNC} {keys.format(4)}\n") if p.code == "VRL322"]
    assert (problem.severity, problem.line) == ("warning", 2)
    assert "rollout.n_gpus_per_node=4 ask for 8 GPUs together" in problem.message
    (problem,) = [p for p in find(f"{one}\n{ASYNC} {keys.format(8)}\n") if p.code == "VRL322"]
    assert (problem.severity, problem.path) == ("error", "rollout.n_gpus_per_node")
    for starts in (f"{one}\n{one}", "ray start --head --num-gpus=8"):
        assert not [p for p in find(f"{starts}\n{ASYNC} {keys.format(4)}\n") if p.code == "VRL322"]


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


def test_checkpoints_where_the_rollout_has_nodes_of_its_own(find: Find) -> None:
    def found(directives: str, keys: str) -> list[str]:
        launch = ASYNC.replace("=/shared", "=ckpt")
        problems = find(f"#!/bin/bash\n{directives}\n{launch} trainer.save_freq=10 {keys}\n")
        return [problem.message for problem in problems if problem.code == "VRL326"]

    small = "trainer.nnodes=1 trainer.n_gpus_per_node=4 rollout.nnodes=1 rollout.n_gpus_per_node=4"
    (message,) = found("", f"{small} rollout.nnodes=2")
    assert "'ckpt'" in message or "=ckpt" in message
    assert found("#SBATCH --nodes=2", small)
    assert not found("#SBATCH --nodes=1", small)
    assert not found("", small)
