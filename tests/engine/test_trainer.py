"""Whole small runs: what they write, what they learn, and how they end when something is wrong."""

from __future__ import annotations

import json
import math
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from verlcli import PPOTrainer
from verlcli.engine import run_directory, trainer
from verlcli.engine.observer import Observer
from verlcli.errors import ConfigError, DoesNotFitError, TrainingFailedError
from verlcli.resources import load_schema

Settings = Callable[..., dict[str, Any]]


class Listener(Observer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.steps: list[int] = []

    def warned(self, message: str) -> None:
        self.warnings.append(message)

    def stepped(self, row: Any) -> None:
        self.steps.append(row["step"])


def make(settings: dict[str, Any], listener: Observer | None = None) -> PPOTrainer:
    return PPOTrainer(
        {}, overrides=[f"{key}={json.dumps(value)}" for key, value in settings.items()], observer=listener
    )


def rows(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_everything_that_is_promised(settings: Settings, tmp_path: Path) -> None:
    result = make(settings()).train()
    run = tmp_path / "run"
    assert result.run_dir == run
    assert {p.name for p in run.iterdir()} == {
        *("config.yaml", "origins.json", "plan.json", "manifest.json", "metrics.jsonl", "events.jsonl"),
        *("checkpoints", "logs", ".lock"),
    }
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == ["step_2", "step_4"]
    assert [r["step"] for r in rows(run)] == [0, 1, 2, 3, 4]
    assert [r["step"] for r in rows(run) if "eval" in r] == [0, 2, 4]
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert manifest["attempts"][0]["exit_code"] == 0
    assert manifest["peak_memory_gib"]["measured"] > 0
    assert any(name.endswith("model.safetensors") for name in manifest["fingerprints"])
    from jsonschema import Draft202012Validator

    Draft202012Validator(load_schema("train")).validate(result.to_json())
    Draft202012Validator(load_schema("plan")).validate(json.loads((run / "plan.json").read_text()))


def test_the_final_model_loads_in_plain_transformers(settings: Settings) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    running = make(settings())
    result = running.train()
    model = AutoModelForCausalLM.from_pretrained(result.model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(result.model)
    ids = torch.tensor([tokenizer("3+4=")["input_ids"]])
    with torch.no_grad():
        assert model(ids).logits.equal(running.roles.actor.module(ids).logits)


def test_training_from_the_written_config_repeats_the_run(settings: Settings, tmp_path: Path) -> None:
    make(settings()).train()
    again = tmp_path / "again"
    PPOTrainer(tmp_path / "run" / "config.yaml", overrides=[f"trainer.output_dir={again}"]).train()
    kept = ("step", "metrics", "tokens", "eval")
    one, two = ([{k: r.get(k) for k in kept} for r in rows(d)] for d in (tmp_path / "run", again))
    assert one == two


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_the_reward_rises_when_it_can(settings: Settings, algorithm: str, tmp_path: Path) -> None:
    reward = tmp_path / "digits.py"
    reward.write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
        "    return solution_str.count('7') / 3\n"
    )
    changes = {
        "algorithm.name": algorithm,
        "reward.function": f"{reward}:compute_score",
        "trainer.total_steps": 30,
        "trainer.test_freq": 0,
        "trainer.save_freq": 0,
        "actor.optim.lr": 3e-3,
        "critic.optim.lr": 3e-3,
        "data.shuffle": True,
    }
    result = make(settings(**changes)).train()
    assert result.reward_first is not None
    assert result.reward_last is not None
    assert result.reward_first < 0.2
    assert result.reward_last > 0.6


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm.kl_in": "reward", "algorithm.name": "ppo", "algorithm.kl_coef": 0.05},
        {"algorithm.kl_coef": 0.0, "algorithm.entropy_coef": 0.01},
        {"training.ppo_mini_batch_size": 4, "training.ppo_epochs": 2, "training.ppo_micro_batch_size_per_gpu": 3},
        {"model.lora_rank": 4},
        {"model.lora_rank": 4, "algorithm.name": "ppo"},
        {"model.enable_gradient_checkpointing": True, "algorithm.name": "ppo"},
        {"rollout.batch_size": 5, "rollout.temperature": 0.7, "rollout.top_k": 5, "rollout.top_p": 0.9},
        {"algorithm.loss_agg_mode": "seq-mean-token-sum-norm", "algorithm.norm_adv_by_std": False},
        {"actor.optim.lr_scheduler": "cosine", "actor.optim.warmup_steps": 2, "data.shuffle": False},
    ],
)
def test_every_corner_of_the_config_trains(settings: Settings, tmp_path: Path, changes: dict[str, Any]) -> None:
    listener = Listener()
    result = make(settings(**changes), listener).train()
    assert result.steps == 4
    assert listener.warnings == []
    for row in rows(tmp_path / "run")[1:]:
        assert all(math.isfinite(value) for value in row["metrics"].values()), row
        assert ("kl" in row["metrics"]) == (changes.get("algorithm.kl_coef") != 0.0)
        # fp32 on the CPU: rollout and trainer agree to rounding while nothing truncates the distribution.
        if "rollout.temperature" not in changes and "training.ppo_epochs" not in changes:
            assert row["metrics"]["rollout_gap"] < 1e-5


def length_reward(folder: Path) -> str:
    """A reward that differs among the answers of an untrained model, which solves nothing."""
    file = folder / "length.py"
    file.write_text(
        "def score(data_source, solution_str, ground_truth, extra_info=None):\n    return len(solution_str) / 8\n"
    )
    return f"{file}:score"


def test_a_lora_run_exports_the_merged_policy(settings: Settings, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    changes = {"model.lora_rank": 4, "actor.optim.lr": 0.05, "reward.function": length_reward(tmp_path)}
    running = make(settings(**changes))
    result = running.train()
    merged = AutoModelForCausalLM.from_pretrained(result.model, dtype=torch.float32)
    ids = torch.tensor([[5, 14, 6, 17]])
    module: Any = running.roles.actor.module
    with torch.no_grad():
        adapted = module(ids).logits
        with module.disable_adapter():
            base = module(ids).logits
        assert merged(ids).logits.allclose(adapted, atol=1e-4)
        assert not merged(ids).logits.allclose(base, atol=1e-2)


def test_the_documented_python_api(settings: Settings) -> None:
    running = make(settings())
    rollout = running.rollout()
    assert rollout.tokens.shape[0] == 32
    info = running.actor_model.get_sharding_info()
    assert info.phase == "training"
    assert running.train().steps == 4


def test_a_reward_model_scores_the_responses(settings: Settings, tiny_model: Path, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    folder = tmp_path / "judge"
    shutil.copytree(tiny_model, folder)
    config = LlamaConfig.from_pretrained(tiny_model, num_labels=1)
    torch.manual_seed(0)
    LlamaForSequenceClassification(config).save_pretrained(folder)
    listener = Listener()
    running = make(settings(**{"reward_model.path": str(folder), "reward.function": []}), listener)
    running.train()
    metrics = rows(tmp_path / "run")[1]["metrics"]
    assert metrics["reward_std"] > 0
    assert metrics["equal_groups"] < 1


# Bad input


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("int('x')", "ValueError"),
    ],
)
def test_a_reward_that_always_raises_stops_with_its_line(
    settings: Settings, tmp_path: Path, body: str, wanted: str
) -> None:
    file = tmp_path / "r.py"
    file.write_text(f"def score(data_source, solution_str, ground_truth, extra_info=None):\n    return {body}\n")
    with pytest.raises(TrainingFailedError, match=wanted) as caught:
        make(settings(**{"reward.function": f"{file}:score"})).train()
    assert "r.py:2" in str(caught.value)


def test_a_reward_that_fails_now_and_then_scores_0_and_is_reported(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "r.py"
    file.write_text(
        "calls = 0\n"
        "def score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    global calls\n    calls += 1\n    assert calls % 30 != 0, 'thirtieth'\n    return 1.0\n"
    )
    listener = Listener()
    make(settings(**{"reward.function": f"{file}:score"}), listener).train()
    assert any("scored 0" in w and "thirtieth" in w for w in listener.warnings)
    failed = [row["metrics"]["reward_errors"] for row in rows(tmp_path / "run")[1:]]
    assert sum(failed) >= 3
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert "warning" in kinds


def test_a_batch_larger_than_the_data_names_both_sizes(settings: Settings) -> None:
    with pytest.raises(ConfigError, match=r"batch of 80 prompts .* 60 rows"):
        make(settings(**{"data.train_batch_size": 80})).train()


def test_prompts_that_are_too_long_are_found_before_the_first_step(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"60 of 60 prompts are longer than data.max_prompt_length=2 tokens"):
        make(settings(**{"data.max_prompt_length": 2})).train()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_truncated_prompts_are_counted(settings: Settings, tmp_path: Path) -> None:
    make(settings(**{"data.max_prompt_length": 2, "data.truncation": "left"})).train()
    assert rows(tmp_path / "run")[1]["metrics"]["prompts_truncated"] == 8


def test_a_bad_row_in_the_middle_is_found_before_the_first_step(settings: Settings, tmp_path: Path) -> None:
    good = {"prompt": "1+1=", "data_source": "x", "reward_model": {"ground_truth": "2"}}
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in [*[good] * 20, good | {"prompt": ""}, *[good] * 20]))
    changes = settings(**{"data.train_files": [str(file)]})
    del changes["data.source"], changes["data.source_args"]
    with pytest.raises(ConfigError, match=r"rows.jsonl:21"):
        make(changes).train()


def test_more_devices_than_one_are_refused_before_loading(settings: Settings) -> None:
    with pytest.raises(DoesNotFitError, match="one process"):
        make(settings(**{"distributed.gpus_per_node": 2, "distributed.device": "cuda"}))


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[int]], None]:
    """Make the reward's weight NaN-producing at given updates, at the loss."""

    def poison(updates: set[int]) -> None:
        from verlcli.engine import stages

        calls = [0]
        original = stages.actor_loss

        def loss(*args: Any) -> Any:
            calls[0] += 1
            value, stats = original(*args)
            return (value * float("nan") if calls[0] in updates else value), stats

        monkeypatch.setattr(stages, "actor_loss", loss)

    return poison


def test_a_nan_loss_skips_the_update_and_goes_on(settings: Settings, tmp_path: Path, poisoned: Any) -> None:
    poisoned({2, 3})
    listener = Listener()
    result = make(settings(**{"algorithm.kl_coef": 0.0}), listener).train()
    assert result.steps == 4
    assert [w.split(":")[0] for w in listener.warnings] == ["step 2", "step 3"]
    skipped = [row["metrics"].get("skipped_updates", 0) for row in rows(tmp_path / "run")[1:]]
    assert skipped == [0, 1, 1, 0]


def test_three_nan_losses_in_a_row_stop_with_the_batch_kept(settings: Settings, tmp_path: Path, poisoned: Any) -> None:
    from safetensors.torch import load_file

    poisoned({2, 3, 4})
    with pytest.raises(TrainingFailedError, match="3 actor updates in a row were not finite"):
        make(settings()).train()
    kept = load_file(tmp_path / "run" / "failed_batch.safetensors")
    assert {"input_ids", "response_mask", "rewards", "advantages"} <= kept.keys()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "failed"
    assert manifest["attempts"][-1]["exit_code"] == 1
    assert any((tmp_path / "run" / "logs").glob("error-*.txt"))


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A real failure of the file system: writing past `size` bytes gives EFBIG, as a full disk gives ENOSPC."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_takes_no_checkpoint_ends_the_run_and_keeps_the_older_one(
    settings: Settings, tmp_path: Path
) -> None:
    make(settings(**{"trainer.total_steps": 2})).train()
    with file_size_limit(100_000), pytest.raises(TrainingFailedError, match="cannot write the run's files"):
        make(settings()).train()
    assert sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir()) == ["step_2"]
    assert make(settings()).train().steps == 4


def test_an_unwritable_output_directory_is_said_before_models_load(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(trainer, "build_roles", lambda *_: pytest.fail("models were loaded"))
    with pytest.raises(ConfigError, match=r"cannot write here|is a file"):
        make(settings(**{"trainer.output_dir": str(tmp_path / "file" / "run")})).train()


def test_a_damaged_newest_checkpoint_is_passed_over_with_a_warning(settings: Settings, tmp_path: Path) -> None:
    make(settings()).train()
    whole = rows(tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "step_4" / "state.json").write_text("{}")
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished"', '"running"'))
    listener = Listener()
    make(settings(), listener).train()
    assert "step_4 is damaged" in listener.warnings[0]
    assert listener.steps == [3, 4]
    assert [r["metrics"] for r in rows(tmp_path / "run")[1:]] == [r["metrics"] for r in whole[1:]]


def test_no_secret_of_the_command_line_reaches_the_manifest() -> None:
    shown = run_directory.redacted(["verl", "-o", "verl.hf_token=abc", "-o", "a.max_token_len=5", "x.api_key=k"])
    assert shown == ["verl", "-o", "verl.hf_token=***", "-o", "a.max_token_len=5", "x.api_key=***"]


def test_a_run_is_the_same_each_time_with_lora_too(settings: Settings, tmp_path: Path) -> None:
    for name in ("one", "two"):
        torch.manual_seed(len(name) + torch.seed() % 7)  # whatever state the process is in
        make(settings(**{"model.lora_rank": 4, "trainer.output_dir": str(tmp_path / name)})).train()
    assert [r["metrics"] for r in rows(tmp_path / "one")[1:]] == [r["metrics"] for r in rows(tmp_path / "two")[1:]]


def test_kl_in_the_reward_moves_grpo_too(settings: Settings, tmp_path: Path) -> None:
    losses = []
    for coef in (0.001, 1.0):
        changes = {"algorithm.kl_in": "reward", "algorithm.kl_coef": coef, "training.ppo_mini_batch_size": 4}
        changes["reward.function"] = length_reward(tmp_path)
        make(settings(**changes, **{"trainer.output_dir": str(tmp_path / str(coef))})).train()
        losses.append([row["metrics"]["grad_norm"] for row in rows(tmp_path / str(coef))[2:]])
    assert losses[0] != losses[1]


def test_reward_errors_of_an_evaluation_count_over_all_its_chunks_and_are_reported(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "r.py"
    file.write_text(
        "def score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    assert ground_truth != '18', 'eighteen'\n    return 0.0\n"
    )
    listener = Listener()
    changes = {"reward.function": f"{file}:score", "rollout.batch_size": 1, "reward.max_error_fraction": 0.2}
    make(
        settings(**changes, **{"data.source_args": {"max_operand": 9, "train_size": 20, "val_size": 80}}), listener
    ).train()
    assert any("of the evaluation, scored 0" in warning and "eighteen" in warning for warning in listener.warnings)


def test_accuracy_is_the_first_functions_own_score(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "r.py"
    file.write_text("def one(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n")
    changes = {"reward.function": ["exact_match", f"{file}:one"], "reward.weights": [0.5, 1.0]}
    result = make(settings(**changes)).train()
    metrics = rows(tmp_path / "run")[1]["metrics"]
    assert metrics["reward"] >= 1.0
    assert metrics["accuracy"] < 0.5
    assert result.eval_before is not None
    assert result.eval_before < 0.5


@pytest.mark.parametrize("lr", [1e6, 1e30])
def test_a_diverging_policy_stops_with_advice(settings: Settings, lr: float) -> None:
    changes = {"actor.optim.lr": lr, "actor.optim.clip_grad": 1e9, "algorithm.kl_coef": 0.0, "trainer.total_steps": 8}
    with pytest.raises(TrainingFailedError, match=r"diverged|not finite") as caught:
        make(settings(**changes)).train()
    assert "actor.optim.lr" in str(caught.value)


def test_a_run_without_one_applied_update_fails(settings: Settings, poisoned: Any) -> None:
    poisoned({1, 2})
    with pytest.raises(TrainingFailedError, match="no update of 2 steps was applied"):
        make(settings(**{"trainer.total_steps": 2})).train()


def test_a_second_train_is_refused(settings: Settings) -> None:
    running = make(settings())
    running.train()
    with pytest.raises(ConfigError, match="made steps already"):
        running.train()


def test_a_failed_start_leaves_the_directory_free_for_the_mended_config(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="no such model folder"):
        make(settings(**{"model.path": "/no/such/model"})).train()
    assert make(settings()).train().steps == 4


def test_missing_weights_are_never_made_up(settings: Settings, tiny_model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "torn"
    shutil.copytree(tiny_model, folder)
    weights = load_file(folder / "model.safetensors")
    save_file(
        {k: v for k, v in weights.items() if ".mlp.up_proj" not in k}, folder / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(ConfigError, match=r"2 weights are missing .*up_proj"):
        make(settings(**{"model.path": str(folder)})).train()


def test_more_tokens_than_the_model_has_positions_are_refused(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="= 80 tokens, the model has 64 positions"):
        make(settings(**{"data.max_prompt_length": 40, "data.max_response_length": 40})).train()


def test_data_that_changed_between_attempts_is_said(settings: Settings, tmp_path: Path) -> None:
    row = {"prompt": "1+1=", "data_source": "x", "reward_model": {"ground_truth": "2"}}
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for _ in range(16)))
    changes = settings(**{"data.train_files": [str(file)]})
    del changes["data.source"], changes["data.source_args"]
    make(changes).train()
    file.write_text(file.read_text().replace("1+1", "1+2"))
    listener = Listener()
    make(changes | {"trainer.total_steps": 6}, listener).train()
    assert listener.warnings == [f"{file} has changed since this run began"]


def test_a_stretched_learning_rate_decay_is_said(settings: Settings) -> None:
    changes = settings(**{"actor.optim.lr_scheduler": "linear"})
    make(changes).train()
    listener = Listener()
    make(changes | {"trainer.total_steps": 6}, listener).train()
    assert "decay now ends at step 6 instead of 4" in listener.warnings[0]


def test_running_out_of_gpu_memory_names_the_keys(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verlcli.engine import stages

    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(stages, "actor_loss", full)
    listener = Listener()
    with pytest.raises(DoesNotFitError, match="out of memory, with micro batches of half the size too") as caught:
        make(settings(), listener).train()
    assert "ppo_micro_batch_size_per_gpu" in str(caught.value)
    assert any("micro batches are half as large" in warning for warning in listener.warnings)
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["attempts"][-1]["exit_code"] == 3
