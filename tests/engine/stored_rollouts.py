"""A fixed set of rollouts of the quickstart model, and PPO and GRPO steps on it: what the stored trajectories are of.

`python tests/engine/stored_rollouts.py` records the trajectories anew, after a change that is meant to change them. The
rollouts stay as they are; where the file is missing, they are sampled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from verlcli.config import load_config
from verlcli.engine.batch import Batch
from verlcli.engine.dataflow import Stage, run_in_turn
from verlcli.engine.roles import build_roles, load_run_tokenizer
from verlcli.engine.stages import StepState, build_stages
from verlcli.plan import make_plan, this_machine

FILE = Path(__file__).with_suffix(".json")
STEPS, BATCHES, PROMPTS, SAMPLES = 20, 4, 8, 4
SETTINGS: dict[str, dict[str, Any]] = {
    # Two mini batches a step, so that the second one's ratio differs from 1; a KL loss, an entropy bonus.
    "grpo": {"algorithm.name": "grpo", "algorithm.kl_coef": 0.05, "algorithm.entropy_coef": 0.01},
    # A critic whose clip binds, KL in the reward, two epochs.
    "ppo": {
        "algorithm.name": "ppo",
        "algorithm.kl_in": "reward",
        "algorithm.kl_coef": 0.05,
        "algorithm.kl_estimator": "k1",
        "training.ppo_epochs": 2,
        "algorithm.value_clip": 0.02,
        "critic.optim.lr": 1e-4,
    },
}


def run_steps(settings: dict[str, Any], stored: list[dict[str, Any]], steps: int = STEPS) -> Iterator[dict[str, float]]:
    """Metrics of each step; step i trains on the stored rollouts of number i modulo their count."""
    common = {
        "distributed.device": "cpu",
        "data.train_batch_size": PROMPTS,
        "training.ppo_mini_batch_size": PROMPTS // 2,
        "rollout.n": SAMPLES,
        "actor.optim.lr": 1e-4,
        "actor.optim.warmup_steps": 0,
        "actor.optim.lr_scheduler": "constant",
    }
    overrides = [f"{key}={value}" for key, value in (common | settings).items()]
    loaded = load_config(["quickstart"], overrides, env={})
    config = loaded.require()
    plan = make_plan(config, name="stored", machine=this_machine(), argv=["stored"], origins=loaded.origins)
    roles = build_roles(config, plan, load_run_tokenizer(config), None)
    for step in range(1, steps + 1):
        batch = to_batch(stored[(step - 1) % len(stored)])
        given = {"rollout": _put(batch), "reward": _nothing}
        stages = [replace(each, run=given.get(each.name, each.run)) for each in build_stages(config, plan, roles)]
        state = StepState(step, [], [], config.actor.optim.lr, config.critic.optim.lr, lambda role, result, mini: None)
        run_in_turn(stages, state)
        yield state.metrics


def to_batch(stored: dict[str, Any]) -> Batch:
    """The tensors of one set of stored rollouts."""
    prompts, responses = stored["prompts"], stored["responses"]
    left, right = (max(map(len, rows)) for rows in (prompts, responses))
    ids, mask, response = [], [], []
    for prompt, answer in zip(prompts, responses, strict=True):
        before, after = left - len(prompt), right - len(answer)
        ids.append([0] * before + prompt + answer + [0] * after)
        mask.append([0] * before + [1] * (len(prompt) + len(answer)) + [0] * after)
        response.append([True] * len(answer) + [False] * after)
    return Batch(
        input_ids=torch.tensor(ids),
        attention_mask=torch.tensor(mask),
        response_mask=torch.tensor(response),
        groups=torch.arange(len(ids)) // SAMPLES,
        rewards=torch.tensor(stored["rewards"]),
    )


def _put(batch: Batch) -> Any:
    def run(state: StepState) -> None:
        state.batch = batch

    return run


def _nothing(state: StepState) -> None:
    """The rewards are stored beside the tokens."""


def _sample() -> list[dict[str, Any]]:
    """Rollouts of the untrained model; some rewards are moved so that most groups have something to say."""
    from verlcli.engine.trainer import PPOTrainer

    trainer = PPOTrainer(
        "quickstart",
        overrides=[f"data.train_batch_size={PROMPTS}", f"rollout.n={SAMPLES}", "distributed.device=cpu"],
    )
    stored = []
    for _ in range(BATCHES):
        state = trainer._state(trainer.step + 1)
        stages: list[Stage[StepState]] = trainer._stages
        for stage in stages[:2]:
            stage.run(state)
        trainer.step += 1
        batch = state.ready
        assert batch.rewards is not None
        width = batch.input_ids.shape[1] - batch.response_width
        on = batch.attention_mask.bool()
        rewards = [round(r + 0.25 * (i % 3 == 0), 2) for i, r in enumerate(batch.rewards.tolist())]
        stored.append(
            {
                "prompts": [batch.input_ids[i, :width][on[i, :width]].tolist() for i in range(len(batch))],
                "responses": [batch.responses[i][batch.response_mask[i]].tolist() for i in range(len(batch))],
                "rewards": rewards,
            }
        )
    trainer.close()
    return stored


def _record() -> None:
    stored = json.loads(FILE.read_text(encoding="utf-8"))["rollouts"] if FILE.exists() else _sample()
    document: dict[str, Any] = {"rollouts": stored, "trajectories": {}}
    for name, settings in SETTINGS.items():
        keys = ("loss", "grad_norm", *(("value_loss", "value_grad_norm") if name == "ppo" else ()))
        rows = list(run_steps(settings, stored))
        document["trajectories"][name] = {key: [row[key] for row in rows] for key in keys}
    text = json.dumps(document, indent=None, separators=(",", ":"))
    FILE.write_text(text.replace('},{"prompts"', '},\n{"prompts"').replace('"trajectories"', '\n"trajectories"') + "\n")


if __name__ == "__main__":
    _record()
