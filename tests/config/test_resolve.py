from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config import load_config
from verlcli.config.keys import known_keys, schema_at
from verlcli.config.resolve import resolve
from verlcli.errors import ConfigError
from verlcli.resources import presets_dir


def get(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values[part]
    return values


def history(loaded: Any, key: str) -> list[tuple[str, Any]]:
    return [(origin.kind, origin.value) for origin in loaded.origins[key]]


def test_every_layer_wins_over_the_one_below_and_the_history_keeps_all(write: Any) -> None:
    base = write("rollout: {n: 2}\n", "base.yaml")
    write("extends: ./base.yaml\nrollout: {n: 3}\n", "first.yaml")
    second = write("rollout: {n: 4}\n", "second.yaml")
    loaded = load_config(
        [base.parent / "first.yaml", second], ["rollout.n=6"], env={"VERL_CFG__ROLLOUT__N": "5"}, flags={"rollout.n": 7}
    )
    assert loaded.values["rollout"]["n"] == 7
    assert history(loaded, "rollout.n") == [
        ("default", 8),
        ("file", 2),
        ("file", 3),
        ("file", 4),
        ("env", 5),
        ("override", 6),
        ("flag", 7),
    ]
    labels = [str(origin) for origin in loaded.origins["rollout.n"]]
    assert labels[0] == "default"
    assert labels[1].endswith("base.yaml:1:14")
    assert labels[4:] == ["env VERL_CFG__ROLLOUT__N", "-o #1", "--n"]


def test_preset_is_a_layer_below_the_file(write: Any) -> None:
    loaded = load_config([write("extends: 7b-single-node\nmodel: {lora_rank: 8}\n")], env={})
    assert history(loaded, "model.lora_rank") == [("default", 0), ("preset", 64), ("file", 8)]
    assert loaded.values["rollout"]["tensor_model_parallel_size"] == 2


def test_maps_merge_and_lists_replace(write: Any) -> None:
    write("trainer: {loggers: [a, b], seed: 1}\nverl: {x: {y: 1, z: [1, 2]}}\n", "base.yaml")
    loaded = load_config([write("extends: ./base.yaml\ntrainer: {loggers: [c]}\nverl: {x: {z: [3]}}\n")], env={})
    assert loaded.values["trainer"]["loggers"] == ["c"]
    assert loaded.values["trainer"]["seed"] == 1
    assert loaded.values["verl"] == {"x": {"y": 1, "z": [3]}}


def test_extends_takes_several_bases_lowest_first(write: Any) -> None:
    write("rollout: {n: 2, top_k: 5}\n", "one.yaml")
    write("rollout: {n: 3}\n", "two.yaml")
    loaded = load_config([write("extends: [./one.yaml, ./two.yaml]\n")], env={})
    assert (loaded.values["rollout"]["n"], loaded.values["rollout"]["top_k"]) == (3, 5)


def test_extends_path_is_relative_to_the_file_that_names_it(write: Any) -> None:
    write("trainer: {seed: 7}\n", "deep/base.yaml")
    write("extends: ./base.yaml\n", "deep/mid.yaml")
    loaded = load_config([write("extends: deep/mid.yaml\n")], env={})
    assert loaded.values["trainer"]["seed"] == 7


def test_cycle_prints_the_chain(write: Any) -> None:
    write("extends: ./b.yaml\n", "a.yaml")
    write("extends: ./c.yaml\n", "b.yaml")
    write("extends: ./a.yaml\n", "c.yaml")
    with pytest.raises(ConfigError, match=r"circle: .*a\.yaml -> .*b\.yaml -> .*c\.yaml -> .*a\.yaml"):
        load_config([write("extends: ./b.yaml\n", "a.yaml")], env={})


def test_file_that_extends_itself_is_a_cycle(write: Any) -> None:
    with pytest.raises(ConfigError, match="circle"):
        load_config([write("extends: ./a.yaml\n")], env={})


def test_doubling_chain_of_bases_is_refused(write: Any) -> None:
    for level in range(20):
        write(f"extends: [./{level + 1}.yaml, ./{level + 1}.yaml]\n", f"{level}.yaml")
    write("backend: local\n", "20.yaml")
    with pytest.raises(ConfigError, match="more than 64 files"):
        load_config([write("extends: ./0.yaml\n")], env={})


@pytest.mark.parametrize(
    ("name", "message", "fix"),
    [
        ("7b-single-nod", "no preset '7b-single-nod'", "did you mean '7b-single-node'?"),
        ("zzz", "no preset 'zzz'", "70b-cluster"),
        ("./nothing.yaml", "no such file", "path"),
        ("3", "takes a preset's name or a path", "quickstart"),
        ("{a: 1}", "takes a preset's name or a path", "quickstart"),
    ],
)
def test_bad_extends_says_where_and_what_to_write(write: Any, name: str, message: str, fix: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_config([write(f"backend: local\nextends: {name}\n")], env={})
    assert fix in (caught.value.fix or "")
    assert (caught.value.where or "").endswith("a.yaml:2:10")


def test_unknown_preset_as_source_lists_the_presets_and_the_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("backend: local\n")
    with pytest.raises(ConfigError, match="no preset 'mine'") as caught:
        load_config(["mine"], env={})
    assert "7b-single-node" in (caught.value.fix or "")
    assert "./mine" in (caught.value.fix or "")
    assert load_config(["./mine"], env={}).name == "mine"
    assert load_config([Path("mine")], env={}).name == "mine"


def test_name_is_the_last_source(write: Any) -> None:
    assert load_config(["7b-single-node"], env={}).name == "7b-single-node"
    assert load_config(["7b-single-node", write("backend: local\n", "mine.yml")], env={}).name == "mine"
    assert load_config([], env={}).name == "run"


def test_short_forms_become_the_keys_they_stand_for(load: Any) -> None:
    loaded = load("fsdp_config: {param_offload: true}\nactor_rollout_ref: {dtype: fp16, n: 4, optim: {lr: 1e-3}}\n")
    values = loaded.values
    assert values["training"]["fsdp_config"]["param_offload"] is True
    assert (values["actor"]["dtype"], values["reference"]["dtype"]) == ("fp16", "fp16")
    assert values["rollout"]["n"] == 4
    assert values["actor"]["optim"]["lr"] == 1e-3
    assert not {"fsdp_config", "actor_rollout_ref", "extends"} & set(values)
    assert loaded.origins["actor.dtype"][-1].written == "actor_rollout_ref.dtype"


@pytest.mark.parametrize("own_first", [True, False])
def test_role_wins_over_the_shared_section_of_its_own_layer(load: Any, own_first: bool) -> None:
    sections = ["actor: {dtype: bf16}\n", "actor_rollout_ref: {dtype: fp16}\n"]
    values = load("".join(sections if own_first else reversed(sections))).values
    assert (values["actor"]["dtype"], values["reference"]["dtype"]) == ("bf16", "fp16")


def test_shared_section_of_a_higher_layer_wins_over_the_role(write: Any) -> None:
    write("actor: {dtype: bf16}\n", "base.yaml")
    loaded = load_config([write("extends: ./base.yaml\nactor_rollout_ref: {dtype: fp16}\n")], env={})
    assert loaded.values["actor"]["dtype"] == "fp16"


@pytest.mark.parametrize(
    ("key", "value", "result"),
    [
        ("reward.function", "numeric", ["numeric"]),
        ("reward.weights", "2", [2]),
        ("trainer.loggers", "tensorboard", ["tensorboard"]),
        ("monitor.metrics", "step_time", ["step_time"]),
        ("model.lora_target_modules", "all-linear", "all-linear"),
    ],
)
def test_one_value_stands_for_a_list_where_a_list_is_meant(load: Any, key: str, value: str, result: Any) -> None:
    assert get(load("backend: local", f"{key}={value}").values, key) == result


def test_empty_sections_change_nothing(load: Any) -> None:
    loaded = load("model: {path: a/b}\nmonitor:\ntraining: {}\nverl:\ndata:\n  source_args:\n")
    assert loaded.values["monitor"]["log_interval"] == 10
    assert (loaded.values["verl"], loaded.values["data"]["source_args"]) == ({}, {})


def test_scalar_in_a_base_does_not_lose_the_sections_defaults(write: Any) -> None:
    write("training: 5\n", "base.yaml")
    loaded = load_config([write("extends: ./base.yaml\ntraining: {ppo_epochs: 2}\n")], env={})
    assert loaded.values["training"]["ppo_epochs"] == 2
    assert loaded.values["training"]["max_token_len_per_gpu"] == 16384


def test_removal_goes_back_to_the_default_and_says_so(write: Any) -> None:
    loaded = load_config(["7b-single-node"], ["~model.lora_rank", "~training"], env={})
    assert loaded.values["model"]["lora_rank"] == 0
    assert loaded.values["training"]["ppo_mini_batch_size"] is None
    assert [str(origin) for origin in loaded.origins["model.lora_rank"]][-1] == "default (-o #1 removed the value)"
    assert history(loaded, "model.lora_rank")[-2:] == [("preset", 64), ("default", 0)]
    assert "training.ppo_mini_batch_size" not in loaded.set_by_user


def test_removal_of_an_unknown_key_repairs_a_file(load: Any) -> None:
    assert "zonk" not in load("data: {zonk: 1}\n", "~data.zonk").values["data"]
    assert load("verl: {a: {b: 1, c: 2}}\n", "~verl.a.b").values["verl"] == {"a": {"c": 2}}


def test_lists_are_indexed(load: Any) -> None:
    text = "reward: {function: [numeric, format, gsm8k]}\n"
    loaded = load(text, "reward.function.1=exact_match", "~reward.function.0")
    assert loaded.values["reward"]["function"] == ["exact_match", "gsm8k"]
    assert [origin.value for origin in loaded.origins["reward.function"]][1:] == [
        ["numeric", "format", "gsm8k"],
        ["numeric", "exact_match", "gsm8k"],
        ["exact_match", "gsm8k"],
    ]


@pytest.mark.parametrize(
    ("override", "code"),
    [("reward.function.3=a", "VRL003"), ("reward.function.x=a", "VRL002"), ("~zonk", "VRL001"), ("~a.b.c", "VRL001")],
)
def test_override_that_fits_nowhere_is_a_problem_of_that_override(load: Any, override: str, code: str) -> None:
    problems = [problem for problem in load("backend: local", override).problems if problem.origin == "-o #1"]
    assert [problem.code for problem in problems] == [code]


class TestPaths:
    """Relative paths start at the file that names them; overrides' at the working directory."""

    @pytest.fixture(autouse=True)
    def _elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here = tmp_path / "cwd"
        self.here.mkdir()
        monkeypatch.chdir(self.here)

    @pytest.mark.parametrize(
        ("key", "value", "result"),
        [
            ("data.train_files", "d/a.jsonl", ["{base}/d/a.jsonl"]),
            ("data.val_files", "[../a.parquet, /abs/b.parquet]", ["{parent}/a.parquet", "/abs/b.parquet"]),
            ("data.train_files", "hf://x/y.parquet", ["hf://x/y.parquet"]),
            ("reward.function", "my.py:score", ["{base}/my.py:score"]),
            ("reward.function", "my.py", ["{base}/my.py"]),
            ("reward.function", "numeric", ["numeric"]),
            ("model.path", "./m", "{base}/m"),
            ("model.path", "existing", "{base}/existing"),
            ("model.path", "org/model", "org/model"),
            ("model.path", "sub/x.gguf", "{base}/sub/x.gguf"),
            ("model.path", "pkg:mod/x.gguf", "pkg:mod/x.gguf"),
            ("critic.path", "../c", "{parent}/c"),
            ("reference.path", "./r", "{base}/r"),
            ("reward_model.path", "./rm", "{base}/rm"),
        ],
    )
    @pytest.mark.parametrize("by_override", [False, True])
    def test_relative_paths(
        self, tmp_path: Path, write: Any, key: str, value: str, result: Any, by_override: bool
    ) -> None:
        section, leaf = key.split(".")
        base = self.here if by_override else tmp_path / "conf"
        (tmp_path / "conf").mkdir()
        (base / "existing").mkdir()
        text = "backend: local\n" if by_override else f"{section}:\n  {leaf}: {value}\n"
        loaded = load_config([write(text, "conf/a.yaml")], [f"{key}={value}"] if by_override else [], env={})
        places = {"base": str(base), "parent": str(base.parent)}
        expected = [item.format(**places) for item in result] if isinstance(result, list) else result.format(**places)
        assert loaded.values[section][leaf] == expected

    def test_home_folder_is_expanded(self, load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/me")
        assert load("model: {path: ~/m}\n").values["model"]["path"] == "/home/me/m"

    def test_data_that_a_preset_does_not_ship_starts_at_the_working_directory(self) -> None:
        files = load_config(["7b-single-node"], env={}).values["data"]["train_files"]
        assert files == [str(self.here / "data/gsm8k/train.parquet")]
        assert not (presets_dir() / "data").exists()

    def test_base_keeps_its_own_folder(self, tmp_path: Path, write: Any) -> None:
        write("data: {train_files: a.jsonl}\n", "base/b.yaml")
        loaded = load_config([write("extends: base/b.yaml\ndata: {val_files: v.jsonl}\n")], env={})
        assert loaded.values["data"]["train_files"] == [str(tmp_path / "base/a.jsonl")]
        assert loaded.values["data"]["val_files"] == [str(tmp_path / "v.jsonl")]


def test_mapping_is_a_source_too() -> None:
    loaded = load_config([{"model": {"path": "a/b"}, "rollout": {"n": 3}}], ["rollout.n=4"], env={})
    assert loaded.name == "run"
    assert loaded.values["rollout"]["n"] == 4
    assert history(loaded, "rollout.n")[1] == ("file", 3)


def test_mapping_may_extend_a_preset() -> None:
    loaded = load_config([{"extends": "7b-single-node", "rollout": {"n": 3}}], env={})
    assert (loaded.values["model"]["lora_rank"], loaded.values["rollout"]["n"]) == (64, 3)
    with pytest.raises(ConfigError, match="no preset 'zzz'"):
        load_config([{"extends": "zzz"}], env={})


def test_config_given_as_a_mapping_may_not_change_the_callers_mapping() -> None:
    given_config = {"extends": "7b-single-node", "data": {"train_files": ["a"]}}
    load_config([given_config], ["data.train_files.0=b"], env={})
    assert given_config == {"extends": "7b-single-node", "data": {"train_files": ["a"]}}


LEAVES = [path for path in known_keys() if "properties" not in (schema_at(path) or {})]
DERIVED = ("data", "train_batch_size")  # at least as large as a mini batch


@given(st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(0, 99)), max_size=12))
def test_last_setting_of_a_leaf_holds_and_all_other_leaves_stay(settings: list[tuple[tuple[str, ...], int]]) -> None:
    plain = resolve([], env={})
    resolved = resolve([], [f"{'.'.join(path)}={number}" for path, number in settings], env={})
    last = dict(settings)
    for path in LEAVES:
        value = get(resolved.values, ".".join(path))
        if path in last:
            assert value in (last[path], [last[path]])
            assert len(resolved.origins[path]) == 1 + sum(setting[0] == path for setting in settings)
        elif path != DERIVED:
            assert value == get(plain.values, ".".join(path))


@given(st.data())
def test_merge_in_two_steps_or_one_is_the_same(data: Any) -> None:
    trees = st.dictionaries(
        st.sampled_from("abc"), st.integers(0, 3) | st.dictionaries(st.sampled_from("xy"), st.integers())
    )
    low, high = data.draw(trees), data.draw(trees)
    both = resolve([{"verl": low}, {"verl": high}], env={}).values["verl"]
    for key in {*low, *high}:
        if isinstance(low.get(key), dict) and isinstance(high.get(key), dict):
            assert both[key] == {**low[key], **high[key]}
        else:
            assert both[key] == (high[key] if key in high else low[key])
