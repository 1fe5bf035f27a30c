"""The stages of a step with a real tiny model: dynamic sampling, length penalty, KL that adapts, flat responses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from verlcli.engine.batch import Batch
from verlcli.engine.dataflow import run_in_turn
from verlcli.engine.stages import StepState
from verlcli.engine.trainer import PPOTrainer

Settings = Callable[..., dict[str, Any]]

COIN = """
import zlib

def score(data_source, solution_str, ground_truth, extra_info=None):
    return float(zlib.crc32(solution_str.encode()) % 4 == 0)

def same(data_source, solution_str, ground_truth, extra_info=None):
    return 0.1
"""


@pytest.fixture
def reward(tmp_path: Path) -> Path:
    file = tmp_path / "coin.py"
    file.write_text(COIN)
    return file


class Step:
    """One step of a trainer, with the updates it made."""

    def __init__(self, changes: dict[str, Any], *, more: bool = True, carried: dict[str, float] | None = None) -> None:
        self.trainer = PPOTrainer(changes_to_tree(changes))
        self.state = self.trainer._state(1)
        self.minis: list[Batch] = []
        self.asked: list[int] = []
        self.state.on_update = lambda role, result, mini: self.minis.append(mini)
        self.state.more_prompts = self._more if more else None
        self.state.carried = {} if carried is None else carried

    def _more(self, number: int) -> Any:
        self.asked.append(number)
        state = self.trainer._state(1 + number)
        return state.rows, state.prompt_ids

    def run(self) -> StepState:
        try:
            run_in_turn(self.trainer._stages, self.state)
        finally:
            self.trainer.close()
        return self.state


def changes_to_tree(changes: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in changes.items():
        node = tree
        for part in key.split(".")[:-1]:
            node = node.setdefault(part, {})
        node[key.rpartition(".")[2]] = value
    return tree


@pytest.fixture
def dapo(settings: Settings, reward: Path) -> Settings:
    """Settings of a DAPO step of 4 prompts with 2 answers each, about a third of whose groups differ."""

    def make(**changes: Any) -> dict[str, Any]:
        own = {"algorithm.name": "dapo", "rollout.n": 2, "data.train_batch_size": 4, "data.max_response_length": 5}
        return settings(**own | {"reward.function": [f"{reward}:score"]} | changes)

    return make


def test_groups_of_equal_rewards_are_replaced_until_the_batch_is_full(dapo: Settings) -> None:
    step = Step(dapo(**{"algorithm.max_num_gen_batches": 0}))
    state = step.run()
    scores = state.ready.scores
    assert scores is not None
    assert scores.shape == (8,)
    groups = scores.view(4, 2)
    assert (groups[:, 0] != groups[:, 1]).all()
    assert state.ready.groups.view(4, 2).unique(dim=1).shape == (4, 1)
    assert step.asked == list(range(1, len(step.asked) + 1))
    assert step.asked
    metrics = state.metrics
    assert metrics["gen_batches"] == 1 + len(step.asked)
    assert metrics["groups_kept"] + metrics["groups_dropped"] == 4 * metrics["gen_batches"]
    assert metrics["groups_kept"] >= 4
    assert metrics["equal_groups"] == pytest.approx(metrics["groups_dropped"] / (4 * metrics["gen_batches"]))
    assert state.generated_tokens > int(state.ready.response_mask.sum())


def test_sampling_stops_at_the_limit_and_trains_on_what_there_is(dapo: Settings) -> None:
    step = Step(dapo(**{"algorithm.max_num_gen_batches": 2, "data.train_batch_size": 12}))
    state = step.run()
    assert step.asked == [1]
    assert len(state.ready) == 2 * min(12, state.metrics["groups_kept"]) > 0
    assert state.metrics["loss"] == state.metrics["loss"]  # an update was made


def test_without_further_prompts_the_unequal_groups_are_kept(dapo: Settings) -> None:
    state = Step(dapo(**{"data.train_batch_size": 12}), more=False).run()
    assert state.metrics["gen_batches"] == 1
    assert len(state.ready) == 2 * state.metrics["groups_kept"] > 0


@pytest.mark.parametrize("buffer", [0, 2])
def test_a_step_of_equal_groups_alone_trains_on_none_of_them(dapo: Settings, reward: Path, buffer: int) -> None:
    changes = {
        "reward.function": [f"{reward}:same"],
        "algorithm.overlong_buffer": buffer,  # answers of another length are no better for it
        "algorithm.max_num_gen_batches": 3,
    }
    step = Step(dapo(**changes))
    state = step.run()
    assert step.asked == [1, 2]
    assert (state.metrics["groups_kept"], state.metrics["groups_dropped"]) == (0, 12)
    if not buffer:
        assert state.metrics["grad_norm"] == 0
        assert state.metrics["loss"] == 0


def test_the_same_step_samples_the_same(dapo: Settings) -> None:
    first, second = (Step(dapo()).run().ready for _ in range(2))
    assert torch.equal(first.input_ids, second.input_ids)


def test_a_long_answer_loses_reward(settings: Settings, reward: Path) -> None:
    changes = {"algorithm.overlong_buffer": 2, "algorithm.overlong_penalty": 0.5, "reward.function": [f"{reward}:same"]}
    state = Step(settings(**changes)).run()
    lengths = state.ready.response_mask.sum(1)  # of at most 3
    assert state.ready.rewards is not None
    assert state.ready.rewards.tolist() == pytest.approx([0.1 - 0.25 * max(0, n - 1) for n in lengths.tolist()])
    assert state.metrics["overlong_penalty"] < 0
    assert len(lengths.unique()) > 1


def test_answers_of_groups_without_a_difference_are_not_passed_through_the_model(
    settings: Settings, reward: Path
) -> None:
    changes = {"algorithm.kl_coef": 0.0, "rollout.n": 2, "reward.function": [f"{reward}:score"]}
    step = Step(settings(**changes))
    state = step.run()
    (mini,) = step.minis
    equal = round(state.metrics["equal_groups"] * 8)
    assert 0 < equal < 8
    assert len(mini) == 16 - 2 * equal
    assert state.trained_tokens == int(mini.attention_mask.sum()) < int(state.ready.attention_mask.sum())


def test_with_a_kl_loss_every_answer_is_trained_on(settings: Settings, reward: Path) -> None:
    step = Step(settings(**{"algorithm.kl_coef": 0.1, "rollout.n": 2, "reward.function": [f"{reward}:score"]}))
    state = step.run()
    assert [len(mini) for mini in step.minis] == [16]
    assert state.trained_tokens == int(state.ready.attention_mask.sum())


@pytest.mark.parametrize("kl_in", ["reward", "loss"])
def test_the_kl_coefficient_is_handed_to_the_next_step(settings: Settings, kl_in: str) -> None:
    changes = {
        "algorithm.kl_in": kl_in,
        "algorithm.kl_coef": 0.2,
        "algorithm.kl_target": 0.5,
        "algorithm.kl_horizon": 320,
    }
    carried: dict[str, float] = {}
    state = Step(settings(**changes), carried=carried).run()
    # The policy is the reference still: a distance of 0, and the coefficient falls by a fifth of 32 answers / 320.
    assert state.metrics["kl_coef"] == 0.2
    assert carried["kl_coef"] == pytest.approx(0.2 * (1 - 0.2 * 32 / 320))
    state = Step(settings(**changes), carried=carried).run()
    assert state.metrics["kl_coef"] == pytest.approx(0.196)


def test_without_a_target_nothing_is_carried(settings: Settings) -> None:
    carried: dict[str, float] = {}
    Step(settings(**{"algorithm.kl_in": "reward"}), carried=carried).run()
    assert carried == {}


def test_the_largest_weight_of_all_micro_batches_is_reported(settings: Settings) -> None:
    changes = {"algorithm.rollout_is": "token", "training.ppo_micro_batch_size_per_gpu": 5, "rollout.temperature": 1.0}
    metrics = Step(settings(**changes)).run().metrics
    # On the CPU sampler and trainer are the same up to rounding.
    assert metrics["rollout_is_max"] == pytest.approx(1, abs=1e-4)
    assert metrics["rollout_is_mean"] == pytest.approx(1, abs=1e-4)
    assert metrics["rollout_is_clipped"] == 0
    assert metrics["rollout_kl"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    "name", ["dr_grpo", "rloo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "gspo", "cispo"]
)
def test_every_algorithm_makes_a_finite_step_with_several_updates(settings: Settings, reward: Path, name: str) -> None:
    changes = {"algorithm.name": name, "training.ppo_mini_batch_size": 4, "reward.function": [f"{reward}:score"]}
    metrics = Step(settings(**changes)).run().metrics
    assert metrics["grad_norm"] > 0
    assert all(value == value and abs(value) < 1e6 for value in metrics.values())
