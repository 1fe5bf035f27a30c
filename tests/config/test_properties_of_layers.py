"""What holds for any override, any order of layers and any size."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config import Loaded, load_config
from verlcli.config.keys import default_at, known_keys, schema_at
from verlcli.errors import ConfigError

ROOT = Path(__file__).parents[2]
COMPLETE: dict[str, Any] = {"model": {"path": "some/model"}, "data": {"source": "arithmetic"}}
LEAVES = [path for path in known_keys() if "properties" not in (schema_at(path) or {})]

SCALARS = st.sampled_from(["1", "0", "-1", "0.5", "true", "null", "grpo", "bf16", "'8'", "x y", "512 tokens", "1e-6"])
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3).map(lambda items: f"[{', '.join(items)}]"), st.just("{a: 1}"))


def said(loaded: Loaded) -> list[tuple[str, str, str]]:
    return sorted((problem.code, problem.path, problem.sentence) for problem in loaded.problems)


@given(st.sampled_from([*known_keys(), ("x",), ("rollout", "nn")]), VALUES)
def test_an_override_says_what_a_file_would_say(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[str, ...], value: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "override.yaml"
    lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(path)]
    file.write_text("\n".join(lines) + f" {value}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(file.parent)
        in_file = load_config([COMPLETE, file], env={})
        by_option = load_config([COMPLETE], [f"{'.'.join(path)}={value}"], env={})
    assert in_file.values == by_option.values
    assert said(in_file) == said(by_option)


def _tree(settings: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in settings.items():
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = value
    return tree


# Prompts are left out: a later source of prompts takes the earlier one's place as a whole.
SETTABLE = [path for path in LEAVES if path[0] != "data" and not (schema_at(path) or {}).get("additionalProperties")]
LAYERS = st.dictionaries(st.sampled_from(SETTABLE), st.integers(1, 3) | st.just("x"), max_size=6).map(_tree)


def deep(below: Any, above: Any) -> Any:
    """`above` on top of `below`: mappings merge, everything else replaces."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {key: deep(below.get(key), above[key]) if key in above else below[key] for key in {**below, **above}}


@given(LAYERS, LAYERS, LAYERS)
def test_layers_may_be_merged_in_any_grouping(low: Any, middle: Any, high: Any) -> None:
    apart = load_config([COMPLETE, low, middle, high], env={})
    first = load_config([COMPLETE, deep(low, middle), high], env={})
    last = load_config([COMPLETE, low, deep(middle, high)], env={})
    assert apart.values == first.values == last.values
    assert said(apart) == said(first) == said(last)


@given(st.sampled_from(SETTABLE), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_the_last_layer_wins_and_history_keeps_the_others(path: tuple[str, ...], numbers: list[int]) -> None:
    loaded = load_config([COMPLETE, *(_tree({path: number}) for number in numbers)], env={})
    history = [origin.value for origin in loaded.origins[".".join(path)]][1 if path not in _set_before() else 2 :]
    assert [value[0] if isinstance(value, list) else value for value in history] == numbers


def _set_before() -> list[tuple[str, ...]]:
    return [(section, key) for section, keys in COMPLETE.items() for key in keys]


@given(st.sampled_from(SETTABLE), LAYERS)
def test_removal_goes_back_to_the_default_whatever_was_set(path: tuple[str, ...], layer: Any) -> None:
    loaded = load_config([COMPLETE, layer], [f"~{'.'.join(path)}"], env={})
    value: Any = loaded.values
    for part in path:
        value = value[part]
    assert value == default_at(schema_at(path) or {})


PRESETS = [(ROOT / "presets" / f"{name}.yaml").read_text(encoding="utf-8") for name in ("quickstart", "70b-cluster")]
SPOILT = st.builds(
    lambda text, at, put, skip: text[:at] + put + text[at + skip :],
    st.sampled_from(PRESETS),
    st.integers(0, 1200),
    st.text("\t\n:-#[]{}'\"&*!|>?,%@`~0a x", max_size=3),
    st.integers(0, 5),
)
OVERRIDES = st.lists(
    st.text(max_size=20)
    | st.builds("{}={}".format, st.sampled_from([".".join(path) for path in known_keys()]), st.text(max_size=12)),
    max_size=3,
)


@given(st.binary(max_size=60) | SPOILT.map(str.encode), OVERRIDES)
def test_any_bytes_and_any_overrides_give_a_config_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, overrides: list[str]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(data)
    sentences = []
    with suppress(ConfigError):
        sentences = [str(problem) for problem in load_config([file], overrides, env={}).problems]
    assert all(": " in sentence for sentence in sentences)


def calls(function: Callable[[], Any]) -> int:
    """How many Python and C functions are called: work without a clock."""
    count = 0

    def counter(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counter)
    try:
        with suppress(ConfigError):
            function()
    finally:
        sys.setprofile(None)
    return count


GROWING: dict[str, Callable[[int], str]] = {
    "keys": lambda size: "".join(f"k{number}: 1\n" for number in range(size)),
    "keys of a free map": lambda size: "verl:\n" + "".join(f"  k{number}: 1\n" for number in range(size)),
    "unknown keys of a section": lambda size: "rollout:\n" + "".join(f"  k{number}: 1\n" for number in range(size)),
    "duplicates": lambda size: "a: 1\n" * size,
    "duplicates of the last": lambda size: (
        "".join(f"k{number}: 1\n" for number in range(size // 2)) + "z: 1\n" * (size // 2)
    ),
    "items": lambda size: "reward:\n  function:\n" + "  - gsm8k\n" * size,
    "wrong items": lambda size: "reward:\n  function:\n" + "  - 3\n" * size,
    "aliases": lambda size: "verl:\n  a: &a 1\n" + "".join(f"  k{number}: *a\n" for number in range(size)),
    "merges": lambda size: "verl:\n  a: &a {x: 1}\n" + "".join(f"  k{n}: {{<<: *a}}\n" for n in range(size // 4)),
    "comments": lambda size: "# x\n" * size + "rollout: {n: x}\n",
    "sections again and again": lambda size: "rollout:\n  n: 1\n" * (size // 2),
}


@pytest.mark.parametrize("case", GROWING)
def test_work_grows_with_the_text_and_not_with_its_square(tmp_path: Path, case: str) -> None:
    def work(size: int) -> int:
        file = tmp_path / f"{size}.yaml"
        file.write_text(GROWING[case](size))
        return calls(lambda: load_config([COMPLETE, file], env={}))

    work(1000)  # fills the caches
    small, medium, large = work(1000), work(2000), work(4000)
    assert medium < 2.5 * small
    assert large < 5 * small


def test_work_grows_with_the_number_of_overrides() -> None:
    def work(size: int) -> int:
        return calls(lambda: load_config([COMPLETE], [f"verl.k{number}=1" for number in range(size)], env={}))

    work(100)
    small, large = work(500), work(2000)
    assert large < 5 * small
