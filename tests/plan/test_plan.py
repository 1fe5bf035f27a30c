"""The whole plan: roles, keys without effect, run directory, command, reports."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from verlcli.config import Loaded, load_config
from verlcli.config.keys import dotted, known_keys
from verlcli.plan import Machine, Plan, make_plan
from verlcli.plan.ineffective import LOCAL
from verlcli.plan.report import plan_document, plan_report
from verlcli.resources import load_schema

PlanOf = Callable[..., Plan]


@pytest.mark.parametrize(
    ("overrides", "roles"),
    [
        ((), ["actor", "rollout", "reward", "reference"]),
        (("algorithm.kl_coef=0",), ["actor", "rollout", "reward"]),
        (("algorithm.name=ppo",), ["actor", "rollout", "reward", "reference", "critic"]),
        (("reward_model.path=judge",), ["actor", "rollout", "reward", "reward_model", "reference"]),
    ],
)
def test_a_run_has_the_roles_that_it_uses(
    plan_of: PlanOf, cpu: Machine, overrides: tuple[str, ...], roles: list[str]
) -> None:
    assert [role.role for role in plan_of(cpu, *overrides).placement] == roles


def test_a_lora_reference_is_the_actor_with_its_adapter_off(plan_of: PlanOf, cpu: Machine) -> None:
    reference = plan_of(cpu, "model.lora_rank=8").role("reference")
    assert reference is not None
    assert reference.reason.startswith("the actor with its adapter off")


@pytest.mark.parametrize("path", ["other", "tiny"])
def test_a_lora_run_with_a_reference_path_loads_it(plan_of: PlanOf, cpu: Machine, path: str) -> None:
    reference = plan_of(cpu, "model.lora_rank=8", f"reference.path={path}", "reference.dtype=bf16").role("reference")
    assert reference is not None
    assert "adapter" not in reference.reason


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rollout.use_async_rollout=true", "in turn"),
        ("rollout.gpu_memory_utilization=0.9", "the graph rollout on a cpu"),
        ("rollout.max_num_seqs=8", "no such setting"),
        ("rollout.cpu_offload=true", "no such setting"),
        ("rollout.tensor_model_parallel_size=2", "one process"),
        ("training.fsdp_config.param_offload=true", "on its device"),
        ("actor.ulysses_sequence_parallel_size=4", "one process"),
        ("distributed.skip_grad_sync=false", "one process"),
        ("data.prefetch_factor=4", "reads rows"),
        ("data.num_dataloader_workers='min(32, cpu_cores)'", "reads rows"),
        ("monitor.rollback=true", "no monitor"),
        ("trainer.loggers=[jsonl, wandb]", "no other logger"),
        ("algorithm.lam=0.9", "grpo has no critic"),
        ("model.lora_alpha=64", "model.lora_rank is 0"),
        ("critic.optim.lr=0.1", "grpo has no critic"),
        ("reward_model.dtype=fp16", "reward_model.path is not set"),
        ("data.prompt_key=question", "makes the prompts"),
        ("reward.timeout=1", "without a limit"),
        ("critic.use_flash_attention=true", "fastest attention"),
        ("reward_model.use_flash_attention=true", "transformers' own attention"),
    ],
)
def test_a_key_without_effect_is_named(plan_of: PlanOf, cpu: Machine, override: str, words: str) -> None:
    (note,) = plan_of(cpu, override).notes
    assert (note.severity, note.path) == ("warning", override.split("=")[0])
    assert note.message.startswith("no effect: ")
    assert words in note.message


@pytest.mark.parametrize(
    "override", ["rollout.use_async_rollout=false", "data.prefetch_factor=2", "~rollout.num_workers"]
)
def test_a_key_set_to_its_default_is_not_worth_a_note(plan_of: PlanOf, cpu: Machine, override: str) -> None:
    assert plan_of(cpu, override).notes == ()


def test_without_kl_the_reference_keys_have_no_effect(plan_of: PlanOf, cpu: Machine) -> None:
    notes = plan_of(cpu, "algorithm.kl_coef=0", "algorithm.kl_estimator=k1", "reference.dtype=fp32").notes
    assert [note.path for note in notes] == ["algorithm.kl_estimator", "reference.dtype"]


@pytest.mark.parametrize(
    ("overrides", "paths"),
    [
        (["training={ppo_micro_batch_size_per_gpu: 8, max_token_len_per_gpu: 99}"], ["training.max_token_len_per_gpu"]),
        (["training.max_token_len_per_gpu=99"], []),
        (["reward={timeout: 1, function: [numeric, math_verify]}"], []),
        (["model.lora_rank=8", "reference={dtype: fp32, engine: hf}"], ["reference.dtype", "reference.engine"]),
        (["model.lora_rank=8", "actor_rollout_ref.dtype=fp32"], []),
        (["data={source: null, train_files: [a], val_max_samples: 9}", "trainer.test_freq=5"], ["trainer.test_freq"]),
        (["data={source: null, train_files: [a], val_files: [b]}", "trainer.test_freq=5"], []),
        (["trainer.test_freq=5", "data.val_max_samples=9"], []),
    ],
)
def test_what_else_is_set_can_leave_a_key_without_effect(
    plan_of: PlanOf, cpu: Machine, overrides: list[str], paths: list[str]
) -> None:
    notes = {note.path for note in plan_of(cpu, *overrides).notes} - {"data.val_max_samples"}
    assert sorted(notes) == paths


def test_dynamic_micro_batches_of_verl_follow_the_token_limit(plan_of: PlanOf, eight_a100: Machine) -> None:
    training = "training={ppo_micro_batch_size_per_gpu: 8, max_token_len_per_gpu: 1099, use_dynamic_bsz: true}"
    assert plan_of(eight_a100, "backend=verl", training).notes == ()


def test_ppo_has_no_groups_to_norm_by(plan_of: PlanOf, cpu: Machine) -> None:
    (note,) = plan_of(cpu, "algorithm.name=ppo", "algorithm.norm_adv_by_std=false", "algorithm.lam=0.9").notes
    assert note.path == "algorithm.norm_adv_by_std"


def test_verl_uses_what_local_does_not(plan_of: PlanOf, eight_a100: Machine) -> None:
    assert plan_of(eight_a100, "backend=verl", "rollout.gpu_memory_utilization=0.9", "data.pin_memory=true").notes == ()


def test_the_table_of_keys_without_effect_names_keys_that_exist() -> None:
    assert set(LOCAL) <= {dotted(path) for path in known_keys()}


def test_the_run_directory_is_named_after_the_run_or_as_asked(plan_of: PlanOf, cpu: Machine) -> None:
    assert plan_of(cpu).run_dir == "runs/test"
    assert plan_of(cpu, "trainer.output_dir=/tmp/here").run_dir == "/tmp/here"


def test_the_command_can_be_pasted_into_a_shell(load: Callable[..., Loaded], cpu: Machine) -> None:
    argv = ["my run.yaml", "-o", "actor.device_map=cuda:0,cuda:1"]
    plan = make_plan(load().config, name="x", machine=cpu, argv=argv, origins={})
    assert plan.command == "verl train 'my run.yaml' -o actor.device_map=cuda:0,cuda:1"


@pytest.mark.parametrize("preset", ["7b-single-node", "70b-cluster", "cpu-gpu-hybrid"])
@pytest.mark.parametrize("machine", ["cpu", "a100", "eight_a100"])
def test_the_documents_presets_plan_anywhere(preset: str, machine: str, request: pytest.FixtureRequest) -> None:
    loaded = load_config([preset], env={})
    plan = make_plan(
        loaded.config,
        name=loaded.name,
        machine=request.getfixturevalue(machine),
        argv=[preset],
        origins=loaded.origins,
    )
    Draft202012Validator(load_schema("plan")).validate(json.loads(json.dumps(plan_document(plan))))


SNIPPETS = {
    "single node": """
        model: {path: meta-llama/Llama-2-7b-chat-hf, lora_rank: 64, enable_gradient_checkpointing: true}
        rollout: {name: vllm, tensor_model_parallel_size: 2, max_num_batched_tokens: 16384, gpu_memory_utilization: 0.9}
        training:
          ppo_mini_batch_size: 512
          ppo_micro_batch_size_per_gpu: 64
          use_dynamic_bsz: true
          fsdp_config: {param_offload: false, mixed_precision: bf16}
        """,
    "dataflow": "rollout: {num_workers: 4, buffer_size: 1024, batch_size_per_worker: 32, use_async_rollout: true}",
    "engines": "{actor: {rollout_engine: vllm}, critic: {training_engine: mcore}, reward_model: {engine: hf}}",
    "cluster": "{actor_rollout_ref: {ulysses_sequence_parallel_size: 4, fsdp_wrap_policy: TRANSFORMER_BASED_WRAP},"
    " critic: {ulysses_sequence_parallel_size: 4, use_flash_attention: true}, reward_model: {dtype: fp16},"
    " distributed: {backend: nccl, timeout: 1800, skip_grad_sync: true}}",
    "hybrid": "{rollout: {name: vllm, cpu_offload: true, cpu_offload_ratio: 0.3},"
    " data: {num_dataloader_workers: 12, pin_memory: true},"
    " model: {enable_gradient_checkpointing: true, use_recompute: true}}",
    "placement": '{actor: {device_map: "cuda:0,cuda:1"}, critic: {device_map: "cuda:2,cuda:3"},'
    ' reward_model: {device_map: "cuda:4"}}',
    "loader": 'data: {prefetch_factor: 4, num_dataloader_workers: "min(32, cpu_cores)"}',
    "top-level fsdp_config": "fsdp_config: {mixed_precision: bf16, param_offload: true}",
}


@pytest.mark.parametrize("snippet", SNIPPETS.values(), ids=SNIPPETS)
@pytest.mark.parametrize("machine", ["cpu", "eight_a100"])
def test_the_documents_snippets_plan_as_written(
    snippet: str, machine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file = tmp_path / "snippet.yaml"
    file.write_text(snippet)
    # A snippet that names no model or data gets them from below; nothing it says is changed.
    loaded = load_config([{"model": {"path": "tiny"}, "data": {"source": "arithmetic"}}, file], env={})
    where = request.getfixturevalue(machine)
    plan = make_plan(loaded.config, name=loaded.name, machine=where, argv=[], origins=loaded.origins)
    assert plan.batch.updates == 1


def test_the_document_matches_its_schema_and_is_closed(plan_of: PlanOf, cpu: Machine) -> None:
    document = plan_document(plan_of(cpu, "algorithm.name=ppo", "rollout.name=vllm"))
    validator = Draft202012Validator(load_schema("plan"))
    validator.validate(json.loads(json.dumps(document)))
    assert list(validator.iter_errors({**document, "more": 1}))
    assert document["batch"]["sequences"] == 512


def test_a_note_that_several_roles_share_is_said_once(plan_of: PlanOf, v100: Machine) -> None:
    plan = plan_of(v100, "algorithm.name=ppo", "model.dtype=bf16")
    assert [note.path for note in plan.notes] == ["model.dtype"]


def test_a_path_with_brackets_is_shown_as_it_is(plan_of: PlanOf, cpu: Machine, tmp_path: Path) -> None:
    file = tmp_path / "data[red]" / "score.py"
    file.parent.mkdir()
    file.write_text("")
    console = Console(width=400, record=True, file=io.StringIO(), soft_wrap=True)
    console.print(plan_report(plan_of(cpu, f"reward.function='{file}:judge'")))
    assert "data[red]/score.py:judge" in console.export_text()


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_report_shows_the_whole_plan_on_one_screen(plan_of: PlanOf, cpu: Machine, width: int) -> None:
    plan = plan_of(cpu, "algorithm.name=ppo", "rollout.name=vllm")
    console = Console(width=width, record=True, file=io.StringIO(), soft_wrap=True)
    console.print(plan_report(plan))
    text = " ".join(console.export_text().split())
    for part in (*plan.batch.equation, plan.run_dir, plan.command, plan.notes[0].message):
        assert " ".join(part.split()) in text
    for role in plan.placement:
        assert role.role in text
        assert role.reason.split(" ")[0] in text


@pytest.mark.parametrize(
    ("map_", "shown"), [("cuda:0,cuda:1,cuda:2", "cuda:0-2"), ("cuda:0,cuda:2", "cuda:0,cuda:2"), ("cuda:1", "cuda:1")]
)
def test_neighbouring_devices_are_shown_as_a_range(plan_of: PlanOf, cpu: Machine, map_: str, shown: str) -> None:
    console = Console(width=200, record=True, file=io.StringIO(), soft_wrap=True)
    console.print(plan_report(plan_of(cpu, "data.train_batch_size=6", f"actor.device_map='{map_}'")))
    assert f" {shown} " in console.export_text()


@pytest.mark.parametrize(
    ("overrides", "warned"),
    [
        (["reward_model.path=judge"], True),
        (["reward_model.path=judge", "reward.function=numeric"], False),
        (["reward_model.path=judge", "reward.function=[]"], False),
        ([], False),
    ],
)
def test_a_default_reward_beside_a_reward_model_is_never_added_silently(
    plan_of: PlanOf, cpu: Machine, overrides: list[str], warned: bool
) -> None:
    notes = [note for note in plan_of(cpu, *overrides).notes if note.path == "reward.function"]
    assert bool(notes) is warned
