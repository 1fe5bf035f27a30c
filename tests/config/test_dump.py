from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config import load_config, resolved_yaml
from verlcli.config.dump import to_yaml
from verlcli.config.loader import load_text
from verlcli.config.presets import is_base, preset_names

TRICKY = [
    "on",
    "no",
    "1e-6",
    "1e6",
    "0o14",
    "0x1F",
    "08",
    "1:30",
    "null",
    "~",
    "",
    ".5",
    "1_000",
    "2024-01-01",
    "a: b",
    "#",
]


def reload(text: str, folder: Path) -> Any:
    path = folder / "again.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config([path], env={})


@pytest.mark.parametrize("name", [name for name in preset_names() if not is_base(name)])
def test_resolved_preset_loads_to_an_equal_config_and_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_config([name], env={})
    text = resolved_yaml(loaded.values)
    monkeypatch.chdir(tmp_path)  # all paths are absolute
    again = reload(text, tmp_path)
    assert again.config == loaded.config
    assert resolved_yaml(again.values) == text == loaded.to_yaml()


@pytest.mark.parametrize("text", TRICKY)
def test_text_that_looks_like_something_else_stays_text_for_every_reader(text: str, tmp_path: Path) -> None:
    values = {"backend": "verl", "verl": {"key": text, "list": [text]}}
    dumped = to_yaml(values)
    assert load_text(dumped, "t").values == values
    assert yaml.safe_load(dumped) == values


@pytest.mark.parametrize("number", [1e-6, 1e-8, 1.0, 1e22, 0.1, 123456.789, -2.5e-7])
def test_floats_stay_floats_for_every_reader(number: float) -> None:
    for values in (load_text(to_yaml({"a": number}), "t").values, yaml.safe_load(to_yaml({"a": number}))):
        assert (values["a"], type(values["a"])) == (number, float)


def test_header_points_editors_at_the_schema() -> None:
    first = resolved_yaml(load_config([], env={}).values).split("\n")[0]
    prefix, path = first.split("$schema=")
    assert prefix == "# yaml-language-server: "
    assert Path(path).is_file()


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["C", "Zl", "Zp"])),
        st.integers()
        | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]))
        | st.booleans()
        | st.none(),
    )
)
def test_whatever_is_dumped_is_read_back(values: dict[str, Any]) -> None:
    assert load_text(to_yaml(values), "t").values == values


def test_origins_as_json_name_the_layers_of_what_was_set() -> None:
    loaded = load_config(["7b-single-node"], ["model.lora_rank=8"], env={})
    assert [layer["kind"] for layer in loaded.origins_json()["model.lora_rank"]] == ["default", "preset", "override"]
    assert "trainer.seed" not in loaded.origins_json()
    assert "model.lora_rank" in loaded.set_by_user
