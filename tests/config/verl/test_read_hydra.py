"""A Hydra YAML of verl becomes a launch with its keys' places; `defaults` and the keys choose the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config.context import Context, NotKnown
from verlcli.config.verl.read_hydra import config_of_file, read_hydra_run
from verlcli.config.verl.run import VerlRun
from verlcli.errors import ConfigError

OWN = """\
defaults:
  - ppo_trainer
  - _self_
hydra:
  searchpath: [pkg://verl.trainer.config]
data:
  max_response_length: 1024
  max_prompt_length: ${data.max_response_length}
actor_rollout_ref:
  actor: {optim: {lr: 1e-6}}
  rollout:
    n: 8
"""


def read(text: str, version: str | None = None) -> VerlRun:
    run, problems = read_hydra_run("mine.yaml", text, Context(verl_version=version))
    assert not problems
    return run


def test_leaves_become_settings_with_the_places_of_key_and_value() -> None:
    run = read(OWN)
    assert [setting.key for setting in run.settings] == [
        "data.max_response_length",
        "data.max_prompt_length",
        "actor_rollout_ref.actor.optim.lr",
        "actor_rollout_ref.rollout.n",
    ]
    last = run.settings[-1]
    assert (last.place.line, last.place.column, last.value_place.line, last.value_place.column) == (12, 5, 12, 8)
    assert (last.place.file, last.raw) == ("mine.yaml", "8")
    assert (run.source, run.engine, run.entry) == ("hydra", "dp", "main_ppo")


def test_references_stay_and_are_resolved_on_asking() -> None:
    run = read(OWN)
    assert run.settings[1].value == "${data.max_response_length}"
    assert run.get("data.max_prompt_length") == 1024


@pytest.mark.parametrize(
    ("text", "value", "raw"),
    [
        ("yes", True, "yes"),
        ("off  # no", False, "off"),
        ('"yes"', "yes", '"yes"'),
        ("'no'", "no", "'no'"),
        ("1_000", 1000, "1_000"),
        ("1e-6", 1e-6, "1e-6"),
        ("[a, b]", ["a", "b"], ""),
        ("null", None, "null"),
        ("{}", {}, ""),
        ("a b", "a b", "a b"),
    ],
)
def test_scalars_are_those_of_omegaconf(text: str, value: object, raw: str) -> None:
    setting = read(f"data:\n  shuffle: {text}\n").settings[0]
    assert (setting.value, setting.raw) == (value, raw)
    assert type(setting.value) is type(value)


@pytest.mark.parametrize(
    ("text", "version", "entry", "engine"),
    [
        ("defaults: [ppo_megatron_trainer, _self_]\n", "0.7.1", "main_ppo", "megatron"),
        (
            "defaults:\n  - ppo_trainer\n  - override model_engine: megatron\n  - _self_\n",
            "0.9.1",
            "main_ppo",
            "megatron",
        ),
        ("actor_rollout_ref:\n  actor:\n    strategy: megatron\n", "0.9.1", "main_ppo", "megatron"),
        ("actor_rollout_ref:\n  actor:\n    strategy: fsdp2\n", "0.9.1", "main_ppo", "dp"),
        ("actor_rollout_ref: {}\nasync_training:\n  require_batches: 1\n", "0.9.1", "fully_async", "dp"),
        ("defaults: [fully_async_ppo_trainer, _self_]\n", "0.9.1", "fully_async", "dp"),
        ("defaults: [one_step_off_ppo_trainer, _self_]\n", "0.9.1", "one_step_off", "dp"),
        ("model:\n  path: x\noptim:\n  lr: 1e-6\n", "0.9.1", "sft", "dp"),
    ],
)
def test_defaults_and_keys_choose_the_tree(text: str, version: str, entry: str, engine: str) -> None:
    run = read(text, version)
    assert (run.version, run.entry, run.engine) == (version, entry, engine)


def test_a_config_of_the_users_own_in_defaults_may_set_anything() -> None:
    run = read("defaults: [ppo_trainer, my_base, _self_]\ntrainer:\n  nnodes: 2\n")
    assert "my_base" in run.unseen
    assert run.get("trainer.nnodes") == 2
    with pytest.raises(NotKnown, match="my_base"):
        run.get("trainer.save_freq")


def test_a_list_of_overrides_is_read_as_hydra_wrote_it() -> None:
    run, problems = read_hydra_run("overrides.yaml", "- trainer.nnodes=2\n- +trainer.x='a b'\n- a=[1\n", Context())
    assert [(setting.key, setting.value, setting.place.line) for setting in run.settings] == [
        ("trainer.nnodes", 2, 1),
        ("trainer.x", "a b", 2),
    ]
    assert [(problem.code, problem.line) for problem in problems] == [("VRL333", 3)]


@pytest.mark.parametrize("text", ["5\n", "a: [\n", "", "- {a: 1\n"])
def test_what_is_no_config_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_hydra_run("x.yaml", text, Context())


def test_a_version_without_the_entry_point_is_refused() -> None:
    with pytest.raises(ConfigError, match="fully_async"):
        read_hydra_run("x.yaml", "async_training: {}\n", Context(verl_version="0.5.0"))


def test_settings_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("trainer:\n  nnodes: 2\n")
    assert [(setting.key, setting.place.file) for setting in config_of_file(file)[0]] == [("trainer.nnodes", str(file))]
    with pytest.raises(ConfigError):
        config_of_file(tmp_path / "none.yaml")


def test_a_duplicate_key_is_reported() -> None:
    _, problems = read_hydra_run("x.yaml", "trainer:\n  nnodes: 1\n  nnodes: 2\n", Context())
    assert [(problem.code, problem.line) for problem in problems] == [("VRL006", 3)]
