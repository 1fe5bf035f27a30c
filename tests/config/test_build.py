from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any

import pytest

from verlcli.config import Config, as_loaded, load_config
from verlcli.errors import ConfigError

COMPLETE: dict[str, Any] = {"model": {"path": "a/b"}, "data": {"source": "arithmetic"}}


def config(*overrides: str) -> Config:
    return load_config([COMPLETE], overrides, env={}).require()


def test_lists_become_tuples_at_every_depth() -> None:
    built = config("trainer.loggers=[a, b]", "reward={function: [numeric, format], weights: [1, 2]}")
    assert built.trainer.loggers == ("a", "b")
    assert built.reward.weights == (1.0, 2.0)
    assert built.actor.optim.betas == (0.9, 0.999)
    assert built.reward.function == ("numeric", "format")


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("actor.optim.lr=1", lambda c: c.actor.optim.lr, 1.0),
        ("rollout.n=8.0", lambda c: c.rollout.n, 8),
        ("algorithm.clip_ratio_low=1", lambda c: c.algorithm.clip_ratio_low, 1.0),
        ("data.seed=3.0", lambda c: c.data.seed, 3),
        ("data.num_dataloader_workers=4.0", lambda c: c.data.num_dataloader_workers, 4),
        ("trainer.resume=100", lambda c: c.trainer.resume, 100),
        ("trainer.resume=never", lambda c: c.trainer.resume, "never"),
        ("reward.weights=2", lambda c: c.reward.weights, (2.0,)),
        ("model.lora_target_modules=[q, k]", lambda c: c.model.lora_target_modules, ("q", "k")),
        ("actor.optim.betas=[0, 0.5]", lambda c: c.actor.optim.betas, (0.0, 0.5)),
    ],
)
def test_numbers_take_the_type_of_their_field(override: str, read: Any, value: object) -> None:
    found = read(config(override))
    assert (found, type(found)) == (value, type(value))


def test_config_is_frozen_all_the_way_down_and_travels_to_other_processes() -> None:
    built = config()
    with pytest.raises(FrozenInstanceError):
        built.actor.optim.lr = 1.0  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(built)) == built
    assert copy.deepcopy(built) == built


def test_no_field_holds_a_list() -> None:
    def walk(value: Any) -> None:
        assert not isinstance(value, list)
        if is_dataclass(value):
            for field in fields(value):
                walk(getattr(value, field.name))

    walk(config())


def test_anything_that_names_a_config_can_be_loaded(tmp_path: Any) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: {path: a/b}\ndata: {source: arithmetic}\n")
    loaded = as_loaded(path)
    assert as_loaded(loaded) is loaded
    assert as_loaded(str(path)).config == as_loaded(COMPLETE).config == loaded.config
    assert as_loaded("7b-single-node").config.rollout.n == 4
    more = as_loaded(loaded, ["rollout.n=3"])
    assert (more.name, more.config.rollout.n, loaded.config.rollout.n) == ("a", 3, 8)


def test_config_with_errors_is_not_built() -> None:
    loaded = load_config([COMPLETE], ["rollout.n=x"], env={})
    assert not loaded.ok
    with pytest.raises(ConfigError):
        _ = loaded.config
