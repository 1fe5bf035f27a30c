"""Faults between keys: each value is fine alone."""

from __future__ import annotations

import random
from collections.abc import Iterator

from mutants.base import Case, Preset, parsed, with_value

# The same conflict has another code where verl's own arithmetic decides.
ALSO = {"VRL101": ("VRL207",), "VRL102": ("VRL206", "VRL207"), "VRL103": ("VRL233",)}

# Two settings that contradict each other, in the order in which they are to be written; the first is to be changed.
PAIRS: tuple[tuple[str, tuple[str, str], tuple[str, str], tuple[str, ...]], ...] = (
    ("VRL101", ("training.ppo_mini_batch_size", "96"), ("data.train_batch_size", "32"), ("32",)),
    ("VRL101", ("training.ppo_mini_batch_size", "4096"), ("data.train_batch_size", "1024"), ("1024",)),
    (
        "VRL102",
        ("training.ppo_mini_batch_size", "48"),
        ("data.train_batch_size", "64"),
        ("32 and 64", "32 or 64", "divide"),
    ),
    ("VRL102", ("training.ppo_mini_batch_size", "7"), ("data.train_batch_size", "60"), ("6 and 10", "to 8")),
    ("VRL103", ("rollout.n", "1"), ("algorithm.name", "grpo"), ("rollout.n",)),
    ("VRL111", ("algorithm.clip_ratio_low", "0.4"), ("algorithm.clip_ratio_high", "0.3"), ("swap",)),
    ("VRL130", ("actor.rollout_engine", "sglang"), ("rollout.name", "vllm"), ("one of them",)),
    ("VRL132", ("rollout.batch_size_per_worker", "64"), ("rollout.buffer_size", "8"), ("8",)),
    ("VRL140", ("actor.optim.warmup_steps", "50"), ("trainer.total_steps", "50"), ("trainer.total_steps",)),
    ("VRL120", ("model.shape", "{hidden_size: 8}"), ("model.path", "some/model"), ("one of them",)),
)


def conflicting(base: Preset, rng: random.Random) -> Iterator[Case]:
    """Both keys in the file, each on its own line; the other line must be shown as well."""
    for code, (key, value), (other, partner), wants in PAIRS:
        if code == "VRL140" and base.name == "verl-defaults":
            continue  # the number of steps stands under `verl:` there
        path, partner_path = tuple(key.split(".")), tuple(other.split("."))
        with_partner = parsed(base.name, with_value(base, partner_path, partner)[0])
        text, line = with_value(with_partner, path, value)
        partner_entry = parsed(base.name, text).find(partner_path)
        if partner_entry is not None:
            # verl pads a rest of the batch; what it refuses is a mini batch that its ranks do not divide.
            alone = code == "VRL102" and "backend: verl" in text
            name = f"{key}: {value} beside {other}: {partner}"
            yield Case(
                "conflicting pair",
                name,
                text,
                (code, *ALSO.get(code, ())),
                line,
                wants=wants,
                other=0 if alone else partner_entry.number,
            )
