"""Randomness is a function of (seed, step, stream): a resumed run draws what the uninterrupted one would have drawn."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch


def derive_seed(seed: int, step: int, stream: str) -> int:
    """A 63-bit seed for one stream ("rollout", "reward"...) of one step."""
    digest = hashlib.blake2b(f"{seed}/{step}/{stream}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def seed_all(seed: int, step: int, stream: str) -> None:
    """Seed every global generator for what follows."""
    value = derive_seed(seed, step, stream)
    random.seed(value)
    np.random.seed(value % 2**32)
    torch.manual_seed(value)
