from __future__ import annotations

from typing import Any

import pytest

from verlcli.config import load_config
from verlcli.errors import ConfigError


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("rollout.n=4", ("rollout", "n"), 4),
        (" rollout.n =4", ("rollout", "n"), 4),
        ("actor.optim.lr=1e-6", ("actor", "optim", "lr"), 1e-6),
        ("trainer.output_dir=a=b", ("trainer", "output_dir"), "a=b"),
        ("algorithm.clip_ratio_c=null", ("algorithm", "clip_ratio_c"), None),
        ("algorithm.clip_ratio_c=", ("algorithm", "clip_ratio_c"), None),
        ("data.num_dataloader_workers=min(32, cpu_cores)", ("data", "num_dataloader_workers"), "min(32, cpu_cores)"),
        ("trainer.loggers=[jsonl, wandb]", ("trainer", "loggers"), ["jsonl", "wandb"]),
        ("actor.optim.betas=[0.8, 0.9]", ("actor", "optim", "betas"), [0.8, 0.9]),
        ("fsdp_config.mixed_precision=fp16", ("training", "fsdp_config", "mixed_precision"), "fp16"),
        ("verl.actor.strategy=fsdp2", ("verl", "actor"), {"strategy": "fsdp2"}),
        ("data.source_args={max_operand: 9}", ("data", "source_args"), {"max_operand": 9}),
        ("trainer.output_dir='on'", ("trainer", "output_dir"), "on"),
    ],
)
def test_value_of_an_override_is_yaml(override: str, key: tuple[str, ...], value: Any) -> None:
    values: Any = load_config([], [override], env={}).values
    for part in key:
        values = values[part]
    assert values == value


def test_override_with_a_mapping_merges() -> None:
    rollout = load_config([], ["rollout={n: 4, top_k: 3}", "rollout.top_k=5"], env={}).values["rollout"]
    assert (rollout["n"], rollout["top_k"], rollout["temperature"]) == (4, 5, 1.0)


@pytest.mark.parametrize(
    ("override", "message", "fix"),
    [
        ("rollout.n", "has no '='", "KEY=VALUE"),
        ("rollout.n: 4", "has no '='", "write -o rollout.n=4"),
        ("rollout.n:4", "has no '='", "write -o rollout.n=4"),
        ("rollout.n 4", "has no '='", "write -o rollout.n=4"),
        ("rollout n: 4", "has no '='", "KEY=VALUE"),
        ("=3", "is no key", "dotted key"),
        ("a..b=3", "is no key", "dotted key"),
        ("~", "is no key", "dotted key"),
        ("rollout.n=[1", "not valid YAML", "bracket"),
        ("model.path=@x", "not valid YAML", "quote"),
        ("model.path=!!python/name:os.system", "tag", "remove it"),
    ],
)
def test_malformed_override_is_named_by_its_number(override: str, message: str, fix: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")) as caught:
        load_config([], ["backend=local", override], env={})
    assert (caught.value.where or "").startswith("-o #2")
    assert fix in (caught.value.fix or "")


@pytest.mark.parametrize("name", ["VERL_CFG__ROLLOUT__TOP_K", "verl_cfg__rollout__top_k", "Verl_Cfg__Rollout__Top_K"])
def test_environment_variables_set_keys_whatever_their_case(name: str) -> None:
    loaded = load_config([], env={name: "3", "VERL_CFG": "x", "OTHER__A": "1"})
    assert loaded.values["rollout"]["top_k"] == 3
    assert str(loaded.origins["rollout.top_k"][-1]) == f"env {name}"


def test_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_CFG__ACTOR__OPTIM__LR", "1e-3")
    assert load_config([]).values["actor"]["optim"]["lr"] == 1e-3


def test_environment_variable_with_an_empty_part_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty part"):
        load_config([], env={"VERL_CFG__A____B": "1"})


def test_wrong_values_from_outside_files_name_their_origin() -> None:
    loaded = load_config(
        [], ["rollout.n=x"], env={"VERL_CFG__TRAINER__SEED": "x"}, flags={"trainer.output_dir": 3, "backend": None}
    )
    found = {(p.path, p.origin, p.file, p.line) for p in loaded.problems if p.code == "VRL002"}
    assert found == {
        ("rollout.n", "-o #1", None, 0),
        ("trainer.seed", "env VERL_CFG__TRAINER__SEED", None, 0),
        ("trainer.output_dir", "--output-dir", None, 0),
    }
