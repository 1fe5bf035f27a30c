"""Odd launches that verl 0.9.1 was asked about: what it refuses, and what it lets pass, is reported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from verlcli.config.check_file import check_file
from verlcli.config.problems import Problem

_A, _R = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


@dataclass(frozen=True)
class Row:
    """One launch with what verl 0.9.1's own validation says: `PASS`, or the exception."""

    name: str
    overrides: tuple[str, ...]
    verl: str

    @property
    def refused(self) -> bool:
        return not self.verl.startswith("PASS")

    def line(self, key: str) -> int:
        """Line of a key in the script that `checked` writes; 1, the launch, for what nobody set."""
        lines = [line for line, text in enumerate(self.overrides, start=2) if text.partition("=")[0] == key]
        return lines[-1] if lines else 1


def rows() -> dict[str, Row]:
    text = (Path(__file__).parents[2] / "data" / "verl_matrix_0.9.1.tsv").read_text(encoding="utf-8")
    fields = [line.split("\t") for line in text.splitlines()[1:]]
    return {name: Row(name, tuple(overrides.split()), verl) for name, overrides, verl in fields}


ROWS = rows()
SOUND = ("base grpo", "kl both", "warmup_style legacy")
# What is reported of each wrong one: code, severity, key at whose line it stands.
EXPECTED: dict[str, tuple[str, str, str]] = {
    "no micro at all": ("VRL210", "error", f"{_A}.ppo_micro_batch_size_per_gpu"),
    "TP=2 default on 1 GPU": ("VRL201", "error", "trainer.n_gpus_per_node"),
    "TP=3 on 8": ("VRL201", "error", f"{_R}.tensor_model_parallel_size"),
    "train bs 100 n 1 8 gpus": ("VRL206", "error", "data.train_batch_size"),
    # verl's validation passes it; its worker asserts that 50 sequences divide over 8 ranks.
    "same, dynamic": ("VRL206", "error", f"{_A}.ppo_mini_batch_size"),
    "mini 6 n 1 8 gpus nondyn": ("VRL206", "error", f"{_A}.ppo_mini_batch_size"),
    "mini 12 n 1": ("VRL206", "error", f"{_A}.ppo_mini_batch_size"),
    "mini > train": ("VRL207", "error", "data.train_batch_size"),
    "mini > train (dynamic)": ("VRL207", "warning", "data.train_batch_size"),
    "mini*n/dp % micro: 16*1/8=2 micro 4": ("VRL206", "error", f"{_A}.ppo_micro_batch_size_per_gpu"),
    "dynamic, max_token_len 1024 < prompt+resp 4096": ("VRL208", "error", f"{_A}.ppo_max_token_len_per_gpu"),
    "max_num_batched_tokens<max_model_len, chunked False": ("VRL212", "warning", f"{_R}.max_num_batched_tokens"),
    "max_model_len < prompt+response": ("VRL211", "error", f"{_R}.max_model_len"),
    "SP=3 on 8 (fsdp_config)": ("VRL204", "error", f"{_A}.fsdp_config.ulysses_sequence_parallel_size"),
    "SP=2, no remove_padding (actor key)": ("VRL205", "error", "actor_rollout_ref.model.use_remove_padding"),
    "SP=2, no remove_padding (fsdp_config key)": ("VRL205", "error", "actor_rollout_ref.model.use_remove_padding"),
    "rollout.name typo": ("VRL255", "error", f"{_R}.name"),
    "rollout.name missing": ("VRL261", "error", f"{_R}.name"),
    "mode=sync": ("VRL255", "error", f"{_R}.mode"),
    "gpu_memory_utilization 1.7": ("VRL256", "error", f"{_R}.gpu_memory_utilization"),
    "adv_estimator typo": ("VRL255", "error", "algorithm.adv_estimator"),
    "model_dtype bf17": ("VRL255", "error", f"{_A}.fsdp_config.model_dtype"),
    "both micro": ("VRL210", "error", f"{_A}.ppo_micro_batch_size"),
    "both logprob micro": ("VRL210", "error", f"{_R}.log_prob_micro_batch_size"),
    "dyn actor only, rollout logprob dyn False": ("VRL209", "error", f"{_R}.log_prob_use_dynamic_bsz"),
    "layered_summon + dummy load": ("VRL215", "error", f"{_R}.layered_summon"),
    "lora_rank 1024": ("VRL217", "error", "actor_rollout_ref.model.lora_rank"),
    "fsdp + model.lora.rank=32": ("VRL216", "error", "actor_rollout_ref.model.lora.rank"),
    "megatron + lora_rank=32 (fsdp key)": ("VRL216", "error", "actor_rollout_ref.model.lora_rank"),
    "offload_policy under fsdp1": ("VRL218", "warning", f"{_A}.fsdp_config.offload_policy"),
    # The second offload is switched off, which changes nothing for the worse.
    "offload_policy+param_offload fsdp2": ("VRL218", "note", f"{_A}.fsdp_config.param_offload"),
    "async_save with fsdp": ("VRL229", "warning", f"{_A}.checkpoint.async_save"),
    "legacy reward_manager dapo": ("VRL227", "error", "reward_model.reward_manager"),
    "legacy custom reward fn": ("VRL227", "error", "custom_reward_function.path"),
    "custom reward fn missing file (new key)": ("VRL247", "warning", "reward.custom_reward_function.path"),
    "reward manager typo": ("VRL255", "error", "reward.reward_manager.name"),
    "missing train file": ("VRL225", "warning", "data.train_files"),
    "use_mbridge False": ("VRL238", "error", f"{_A}.megatron.use_mbridge"),
    "megatron TP3": ("VRL204", "error", f"{_A}.megatron.tensor_model_parallel_size"),
    "megatron TP3 dynamic": ("VRL204", "error", f"{_A}.megatron.tensor_model_parallel_size"),
    "n=1 with grpo": ("VRL233", "warning", f"{_R}.n"),
    "val do_sample with temp 0 rollouts": ("VRL233", "error", f"{_R}.temperature"),
    "val temp 0 do_sample": ("VRL233", "warning", f"{_R}.val_kwargs.temperature"),
    "gae w/ default critic path": ("VRL232", "error", "critic.model.path"),
    "separate_async no rollout nodes": ("VRL228", "error", "trainer.v1.trainer_mode"),
    "trainer_mode typo": ("VRL255", "error", "trainer.v1.trainer_mode"),
    "resume_mode typo": ("VRL255", "error", "trainer.resume_mode"),
    "loss_agg typo": ("VRL255", "error", f"{_A}.loss_agg_mode"),
    "lr_scheduler typo": ("VRL255", "error", f"{_A}.optim.lr_scheduler_type"),
    "strategy mismatch: fsdp yaml + strategy=megatron": ("VRL262", "error", f"{_A}.strategy"),
    "EP=2 TP=1 DP=1": ("VRL202", "error", f"{_R}.expert_parallel_size"),
    "PP=2 vllm": ("VRL202", "error", f"{_R}.pipeline_model_parallel_size"),
    "clip_ratio_c<1": ("VRL256", "error", f"{_A}.clip_ratio_c"),
    'lr as string 1e-6 typo "1e6"': ("VRL257", "warning", f"{_A}.optim.lr"),
    "total_epochs 0": ("VRL256", "error", "trainer.total_epochs"),
    "router replay R2 + bypass": ("VRL249", "error", "algorithm.rollout_correction.bypass_mode"),
    "profiler steps no tool": ("VRL248", "warning", "global_profiler.steps"),
    "n_gpus 0": ("VRL256", "error", "trainer.n_gpus_per_node"),
    "temperature 0 rollout with logprob": ("VRL233", "error", f"{_R}.temperature"),
    "train_batch 0": ("VRL256", "error", "data.train_batch_size"),
}


def checked(row: Row, folder: Path) -> list[Problem]:
    """Problems of a script that launches the row's overrides, one on each line after the first."""
    script = folder / "run.sh"
    words = "".join(f" \\\n  {override}" for override in row.overrides)
    script.write_text(f"python3 -m verl.trainer.main_ppo{words}\n", encoding="utf-8")
    return check_file(str(script))


def test_the_matrix_is_whole() -> None:
    assert len(ROWS) == 63
    assert sorted([*SOUND, *EXPECTED]) == sorted(ROWS)
    assert sum(row.refused for row in ROWS.values()) == 16


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_wrong_is_reported_where_it_stands(name: str, tmp_path: Path) -> None:
    row, (code, severity, key) = ROWS[name], EXPECTED[name]
    found = [problem for problem in checked(row, tmp_path) if problem.code == code and problem.path == key]
    assert [problem.severity for problem in found[:1]] == [severity]
    assert found[0].line == row.line(key)
    assert found[0].suggestion


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.refused])
def test_what_verl_refuses_is_an_error(name: str, tmp_path: Path) -> None:
    assert "error" in {problem.severity for problem in checked(ROWS[name], tmp_path)}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_has_no_error(name: str, tmp_path: Path) -> None:
    found = checked(ROWS[name], tmp_path)
    assert [problem for problem in found if problem.severity == "error"] == []
    # rollout.n stays at verl's default of 1, which leaves GRPO nothing to compare.
    assert {problem.code for problem in found if problem.severity == "warning"} <= {"VRL233"}
