"""The table of our keys and verl's: both sides exist, values come back, and the base preset holds verl's defaults."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from verlcli.config.keys import known_keys, schema_at
from verlcli.config.loader import load_document
from verlcli.config.presets import preset_path
from verlcli.config.resolve import resolve
from verlcli.config.verl.groups import ChosenMicroBatch
from verlcli.config.verl.mapping import BASE, PAIRS
from verlcli.config.verl.pairs import ABSENT, Field, View, equal
from verlcli.config.verl.translate import translate
from verlcli.config.violations import violations
from verlcli.facts.verl import UNRESOLVED, VERSIONS, engines, key_tree

FIELDS = [pair for pair in PAIRS if isinstance(pair, Field)]
TREES = [(version, engine) for version in VERSIONS for engine in ("dp", "megatron")]
# verl's defaults that no word of ours says: the preset says them under `verl:`, or leaves them open.
UNTRANSLATED = {
    "model.path",  # a placeholder of verl's own
    "data.train_files",
    "data.val_files",
    "critic.path",
    "rollout.name",  # mandatory
    "trainer.total_steps",
    "trainer.save_freq",
    "trainer.test_freq",
    "trainer.output_dir",
    "data.seed",
    "training.ppo_micro_batch_size_per_gpu",
    "model.attn_implementation",  # in no tree
    "training.fsdp_config.mixed_precision",
    "distributed.ray_address",
}


# A micro batch that is left to the planner turns a switch which is another pair's.
OWNERS = [pair for pair in PAIRS if not isinstance(pair, ChosenMicroBatch)]


def base_view(version: str = "0.9.1", engine: str = "dp") -> View:
    values = resolve([BASE], env={}).values
    return View(key_tree(version, "main_ppo", engine), values, lambda key: False, lambda key: False)


@pytest.mark.parametrize("pair", OWNERS, ids=lambda pair: pair.ours[0])
def test_both_sides_of_a_pair_exist(pair: Any) -> None:
    assert all(tuple(key.split(".")) in known_keys() for key in pair.ours)
    trees = [key_tree("0.9.1", "main_ppo", engine) for engine in ("dp", "megatron")]
    names = {name for tree in trees for name in pair.keys(tree)}
    assert names
    free = isinstance(pair, Field) and pair.free
    assert free or names == {"model_engine"} or all(any(tree.has(name) for tree in trees) for name in names)


def test_no_key_stands_in_two_pairs() -> None:
    ours = [field.key for field in FIELDS] + [
        key for pair in OWNERS if not isinstance(pair, Field) for key in pair.ours
    ]
    assert len(ours) == len(set(ours))
    for engine in ("dp", "megatron"):
        names = [name for pair in PAIRS for name in pair.keys(key_tree("0.9.1", "main_ppo", engine))]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(("version", "engine"), TREES)
def test_the_pairs_hold_in_every_version(version: str, engine: str) -> None:
    if engine not in engines(version):
        pytest.skip("no such engine")
    tree = key_tree(version, "main_ppo", engine)
    present = [pair for pair in PAIRS if pair.keys(tree)]
    assert len(present) > len(PAIRS) * 0.7
    for field in (pair for pair in present if isinstance(pair, Field)):
        assert field.free or tree.has(field.keys(tree)[0])


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.key)
def test_a_default_of_verl_comes_back_from_our_key(field: Field) -> None:
    view = base_view()
    (name,) = field.keys(view.tree)
    default = view.tree.value(name, {}) if view.tree.has(name) else UNRESOLVED
    ours = field.decode(default)
    if field.key in UNTRANSLATED:
        assert default is UNRESOLVED or ours is ABSENT or not equal(ours, view.value(field.key))
        return
    assert equal(ours, view.value(field.key)), f"{BASE}.yaml: {field.key} should be {ours}"
    assert not violations(schema_at(field.key.split(".")) or {}, ours)


def test_the_base_preset_names_every_mapped_key_and_no_other() -> None:
    document = load_document(preset_path(BASE))
    named = {".".join(map(str, path)) for path in document.marks if path and not any(isinstance(p, int) for p in path)}
    sections = {".".join(path[:end]) for path in known_keys() for end in range(1, len(path))}
    leaves = {name for name in named if name not in sections and not name.startswith("verl")} - {"backend"}
    assert leaves == {key for pair in PAIRS for key in pair.ours}


@pytest.mark.parametrize(("version", "engine"), TREES)
def test_the_base_preset_alone_tells_verl_nothing(version: str, engine: str) -> None:
    if engine not in engines(version):
        pytest.skip("no such engine")
    name = ["actor.training_engine=mcore"] if engine == "megatron" else []
    found = translate(resolve([BASE], name, env={}), version)
    assert found.tree.engine == engine
    assert [told.key for told in found.told] == (["model_engine"] if name else [])
    assert found.left_out == ()


def test_the_kept_keys_of_the_base_preset_are_verl_s_own_defaults() -> None:
    kept = load_document(preset_path(BASE)).values["verl"]["trainer"]
    tree = key_tree("0.9.1")
    assert kept
    assert all(tree.default(f"trainer.{name}") == value for name, value in kept.items())


def test_the_reference_page_is_current() -> None:
    script = Path(__file__).parents[3] / "scripts" / "verl_keys_reference.py"
    page = Path(__file__).parents[3] / "docs" / "reference" / "verl-keys.md"
    assert runpy.run_path(str(script))["render"]() == page.read_text(encoding="utf-8")
