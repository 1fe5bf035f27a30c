"""What forks of verl, and recipes that lived apart from it, call things."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from verlcli.facts.verl.fork_tables import TABLES


@dataclass(frozen=True)
class Fork:
    """One key of a fork."""

    name: str
    key: str
    upstream: str | None  # what verl calls it; None: it has nothing like it
    note: str = ""


@dataclass(frozen=True)
class ForkEntry:
    """A way to start training that only a fork has."""

    name: str
    module: str
    note: str


FORKS: tuple[Fork, ...] = tuple(Fork(name, *row) for name, rows in TABLES.items() for row in rows)
FORK_ENTRIES: tuple[ForkEntry, ...] = (
    ForkEntry("EasyR1", "verl.trainer.main", "takes config=FILE and keys of its own, no Hydra"),
    ForkEntry("rLLM", "rllm.trainer.verl.train_agent_ppo", "adds rllm.* to verl's keys"),
)


def fork_of(key: str) -> Fork | None:
    """The fork that a key comes from; None for a key of none. Sections of a fork count for everything below them."""
    return _by_key().get(key) or _by_section().get(key.partition(".")[0])


@cache
def _by_key() -> dict[str, Fork]:
    return {fork.key: fork for fork in reversed(FORKS)}


@cache
def _by_section() -> dict[str, Fork]:
    own = {"worker": "EasyR1", "ttrl": "TTRL", "rllm": "rLLM", "retriever": "Search-R1", "agent_proxy": "RAGEN"}
    own |= {"es_manager": "RAGEN", "ctx_manager": "RAGEN"}
    return {section: Fork(name, f"{section}.*", None) for section, name in own.items()}
