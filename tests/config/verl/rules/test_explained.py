from __future__ import annotations

import inspect
import re

import pytest

from verlcli.config.verl.rules import (
    adapters,
    batch,
    cluster,
    engine_memory,
    memory,
    micro,
    offload,
    parallel,
    prefill,
    sharding,
    steps,
    tokens,
)
from verlcli.config.verl.rules._base import VerlRule

MODULES = (
    adapters, batch, cluster, engine_memory, memory, micro, offload, parallel, prefill, sharding, steps, tokens
)  # fmt: skip
RULES = [rule for module in MODULES for rule in module.RULES]
FORM = re.compile(r"VRL2\d\d: (?P<title>[^\n]+)\n\nWhy: .+\nExample: .+\nInstead: .+\nSource: .+", re.DOTALL)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_every_rule_explains_itself(rule: VerlRule) -> None:
    found = FORM.fullmatch(inspect.getdoc(rule.check) or "")
    assert found is not None
    assert found["title"].endswith(".")


def test_no_rule_is_missing() -> None:
    assert {rule.code for rule in RULES} == {f"VRL{number}" for number in range(201, 224)}
    assert len({rule.check.__name__ for rule in RULES}) == len(RULES)
