from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config import load_config
from verlcli.config.keys import known_keys, schema_at
from verlcli.config.problems import Problem
from verlcli.config.renames import RENAMES
from verlcli.errors import ConfigError

COMPLETE = "model: {path: some/model}\ndata: {source: arithmetic}\n"


def problems_of(load: Any, text: str, *overrides: str) -> list[Problem]:
    problems = load(text, "model.path=some/model", "data.source=arithmetic", *overrides).problems
    return [problem for problem in problems if not problem.unchecked]


# What is written, and how the only problem reads (file name left out).
SENTENCES = {
    "misspelt key": (
        "algorithm:\n  clip_rato: 0.2\n",
        "2:3 error VRL001 algorithm.clip_rato: unknown key; did you mean 'clip_ratio'?",
    ),
    "misspelt section": (
        "algoritm:\n  gamma: 1\n",
        "1:1 error VRL001 algoritm: unknown key; did you mean 'algorithm'?",
    ),
    "section in capitals": ("ROLLOUT: {n: 2}\n", "1:1 error VRL001 ROLLOUT: unknown key; did you mean 'rollout'?"),
    "key of another section": (
        "actor:\n  kl_coef: 0.1\n",
        "2:3 error VRL001 actor.kl_coef: unknown key; belongs under `algorithm:`",
    ),
    "key of two sections": (
        "lr: 1e-6\n",
        "1:1 error VRL001 lr: unknown key; belongs under `actor.optim:` or `critic.optim:`",
    ),
    "key one level too high": (
        "critic: {lr: 1}\n",
        "1:10 error VRL001 critic.lr: unknown key; belongs under `critic.optim:`",
    ),
    "section too deep": (
        "trainer:\n  rollout:\n    n: 2\n",
        "2:3 error VRL001 trainer.rollout: unknown key; belongs at the top level",
    ),
    "verl's name": (
        "algorithm: {adv_estimator: grpo}\n",
        "1:13 error VRL001 algorithm.adv_estimator: unknown key; here it is called 'algorithm.name'",
    ),
    "another trainer's name": (
        "critic: {optim: {learning_rate: 1}}\n",
        "1:18 error VRL001 critic.optim.learning_rate: unknown key; here it is called 'critic.optim.lr'",
    ),
    "misspelt key of another section": (
        "model: {ppo_mini_batchsize: 4}\n",
        "1:9 error VRL001 model.ppo_mini_batchsize: unknown key; did you mean 'training.ppo_mini_batch_size'?",
    ),
    "key like no other": (
        "reward: {zzz: 1}\n",
        "1:10 error VRL001 reward.zzz: unknown key; keys of `reward:`: function, weights, timeout, max_error_fraction",
    ),
    "key of a shared section": (
        "actor_rollout_ref:\n  zzz: 1\n",
        "2:3 error VRL001 actor_rollout_ref.zzz: unknown key; see `verl schema actor_rollout_ref`",
    ),
    "key that the shared section leaves to the model": (
        "actor_rollout_ref: {engine: hf}\n",
        "1:21 error VRL001 actor_rollout_ref.engine: unknown key; belongs under `reference:` or `reward_model:`",
    ),
    "text for a number": ("rollout:\n  top_k: many\n", "2:10 error VRL002 rollout.top_k: 'many' is not a whole number"),
    "quoted number": ("rollout: {top_k: '8'}\n", "1:18 error VRL002 rollout.top_k: '8' is not a whole number; write 8"),
    "number with underscores": (
        "trainer: {total_steps: 1_000}\n",
        "1:24 error VRL002 trainer.total_steps: '1_000' is not a whole number; write 1000",
    ),
    "fraction for a whole number": (
        "rollout: {top_k: 1.5}\n",
        "1:18 error VRL002 rollout.top_k: 1.5 is not a whole number",
    ),
    "yes for true": (
        "data: {shuffle: yes}\n",
        "1:17 error VRL002 data.shuffle: 'yes' is not true or false; write true",
    ),
    "true for a number": ("trainer: {seed: true}\n", "1:17 error VRL002 trainer.seed: true is not a whole number"),
    "null where nothing may be missing": (
        "rollout: {top_k: null}\n",
        "1:18 error VRL002 rollout.top_k: null is not a whole number; remove the line for the default 0",
    ),
    "list for a section": ("monitor: [1]\n", "1:10 error VRL002 monitor: [1] is not a mapping of keys"),
    "section for a value": (
        "trainer: {seed: {a: 1}}\n",
        "1:17 error VRL002 trainer.seed: a mapping is not a whole number; "
        "it has no key 'a' below it: write one value after `seed:`",
    ),
    "wrong item of a list": (
        "trainer:\n  loggers:\n    - jsonl\n    - 3\n",
        "4:7 error VRL002 trainer.loggers.1: 3 is not text; write '3'",
    ),
    "below the range": (
        "model: {lora_rank: -1}\n",
        "1:20 error VRL003 model.lora_rank: -1 is below the smallest allowed value 0; 0 trains all weights",
    ),
    "above the range": (
        "algorithm: {gamma: 2}\n",
        "1:20 error VRL003 algorithm.gamma: 2 is above the largest allowed value 1",
    ),
    "on an open end": ("actor: {optim: {lr: 0}}\n", "1:21 error VRL003 actor.optim.lr: 0 is not above 0"),
    "infinite": (
        "algorithm: {clip_ratio: .inf}\n",
        "1:25 error VRL003 algorithm.clip_ratio: inf is not a finite number",
    ),
    "not a number": (
        "algorithm: {entropy_coef: .nan}\n",
        "1:27 error VRL003 algorithm.entropy_coef: nan is not a finite number",
    ),
    "not a number in a free map": (
        "verl: {a: .nan}\nbackend: verl\n",
        "1:11 error VRL003 verl.a: nan is not a finite number",
    ),
    "too short a list": (
        "actor: {optim: {betas: [0.9]}}\n",
        "1:24 error VRL003 actor.optim.betas: [0.9] has fewer than 2 items",
    ),
    "empty text": ("trainer: {output_dir: ''}\n", "1:23 error VRL003 trainer.output_dir: '' is empty"),
    "wrong choice": (
        "algorithm:\n  name: gropo\n",
        "2:9 error VRL004 algorithm.name: 'gropo' is not one of: grpo, ppo, dr_grpo, dapo, rloo, "
        "reinforce_plus_plus, reinforce_plus_plus_baseline, gspo or cispo; did you mean 'grpo'?",
    ),
    "wrong choice with null among them": (
        "reference: {dtype: bfloat16}\n",
        "1:20 error VRL004 reference.dtype: 'bfloat16' is not one of: auto, fp32, bf16, fp16 or null; "
        "did you mean 'bf16'?",
    ),
    "word that is not understood": (
        "trainer: {resume: maybe}\n",
        "1:19 error VRL004 trainer.resume: 'maybe' is not understood; write auto, never or 100",
    ),
    "formula that is not understood": (
        "data: {num_dataloader_workers: 'max(1, 2)'}\n",
        "1:32 error VRL004 data.num_dataloader_workers: 'max(1, 2)' is not understood; "
        "write auto, min(32, cpu_cores) or 4",
    ),
    "duplicate": (
        "rollout: {n: 4}\nrollout: {n: 8}\n",
        "2:1 error VRL006 rollout: duplicate key; already set on line 1; remove line 1 or line 2",
    ),
    "shared section with a wrong value": (
        "actor_rollout_ref:\n  dtype: fp17\n",
        "2:10 error VRL004 actor_rollout_ref.dtype: 'fp17' is not one of: auto, fp32, bf16, fp16 or null; "
        "did you mean 'fp16'?",
    ),
    "short form with a wrong value": (
        "fsdp_config: {param_offload: 1}\n",
        "1:30 error VRL002 fsdp_config.param_offload: 1 is not true or false; write true",
    ),
    "interpolation": (
        "model: {dtype: '${DTYPE}'}\n",
        "1:16 error VRL007 model.dtype: '${DTYPE}': ${...} is not expanded; "
        "write the value, or give it from the shell: -o model.dtype=$NAME",
    ),
    "interpolation for a number": (
        "actor: {optim: {lr: '${LR}'}}\n",
        "1:21 error VRL007 actor.optim.lr: '${LR}': ${...} is not expanded; "
        "write the value, or give it from the shell: -o actor.optim.lr=$NAME",
    ),
    "percentage for a share": (
        "rollout: {gpu_memory_utilization: 90}\n",
        "1:35 error VRL003 rollout.gpu_memory_utilization: 90 is above the largest allowed value 1; "
        "write 0.9 if 90 % is meant",
    ),
    "percent sign": (
        "rollout: {gpu_memory_utilization: 90%}\n",
        "1:35 error VRL002 rollout.gpu_memory_utilization: '90%' is not a number; write 0.9, without %",
    ),
    "minus one for no limit": (
        "training: {ppo_micro_batch_size_per_gpu: -1}\n",
        "1:42 error VRL003 training.ppo_micro_batch_size_per_gpu: -1 is below the smallest allowed value 1; "
        "write null, which means: by tokens, as `use_dynamic_bsz` does",
    ),
    "number with a unit": (
        "data: {max_response_length: 512 tokens}\n",
        "1:29 error VRL002 data.max_response_length: '512 tokens' is not a whole number; write 512, without tokens",
    ),
    "minutes for seconds": (
        "distributed: {timeout: 30min}\n",
        "1:24 error VRL002 distributed.timeout: '30min' is not a whole number; write 1800, without min",
    ),
    "thousands": (
        "data: {max_prompt_length: 1.5k}\n",
        "1:27 error VRL002 data.max_prompt_length: '1.5k' is not a whole number; write 1500, without k",
    ),
    "unit of no number": (
        "data: {max_prompt_length: k5}\n",
        "1:27 error VRL002 data.max_prompt_length: 'k5' is not a whole number",
    ),
    "None for null": (
        "trainer: {keep_checkpoints: None}\n",
        "1:29 error VRL002 trainer.keep_checkpoints: 'None' is not a whole number or null; write null",
    ),
    "one item for a list": (
        "algorithm: {gamma: [0.9]}\n",
        "1:20 error VRL002 algorithm.gamma: [0.9] is not a number; write 0.9, without a list around it",
    ),
    "items for keys": (
        "actor:\n  optim:\n    - lr: 1e-6\n    - eps: 1e-8\n",
        "3:5 error VRL002 actor.optim: [a mapping, a mapping] is not a mapping of keys; "
        "remove the dashes before its keys",
    ),
    "no space after a colon": (
        "rollout:\n  n:8\n",
        "2:3 error VRL002 rollout: 'n:8' is not a mapping of keys; put a space after the colon: `n: 8`",
    ),
    "dashes in a key": (
        "data: {max-prompt-length: 8}\n",
        "1:8 error VRL001 data.max-prompt-length: unknown key; did you mean 'max_prompt_length'?",
    ),
    "a slip between two keys": (
        "algorithm: {clip_ratio_: 3.0}\n",
        "1:13 error VRL001 algorithm.clip_ratio_: unknown key; did you mean 'clip_ratio_c' or 'clip_ratio'?",
    ),
    "another trainer's name for something near": (
        "trainer: {total_epochs: 1}\n",
        "1:11 error VRL001 trainer.total_epochs: unknown key; here it is called 'trainer.total_steps', "
        "in steps: one epoch has as many as the rows divided by data.train_batch_size",
    ),
    "another program's choice": (
        "model: {dtype: half}\n",
        "1:16 error VRL004 model.dtype: 'half' is not one of: auto, fp32, bf16 or fp16; did you mean 'fp16'?",
    ),
    "section a level too deep": (
        "rollout:\n  n: 2\n  distributed:\n  nnodes: 1\n  timeout: 5\n",
        "3:3 error VRL001 rollout.distributed: unknown key; belongs at the top level",
    ),
    "shared section that is none": (
        "actor_rollout_ref: 3\n",
        "1:20 error VRL002 actor_rollout_ref: 3 is not a mapping of keys; write its keys indented below it",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_problem_reads_like_a_colleague_and_points_at_its_cause(load: Any, tmp_path: Path, case: str) -> None:
    text, sentence = SENTENCES[case]
    lines = [str(problem).removeprefix(f"{tmp_path / 'a.yaml'}:") for problem in problems_of(load, text)]
    assert lines == [sentence]


def test_all_problems_come_at_once_sorted_by_line(load: Any) -> None:
    text = "rollout:\n  n: x\n  zonk: 1\nalgorithm: {name: foo}\ntraining: {ppo_mini_batch_size: 7}\nrollout: {}\n"
    found = [(problem.line, problem.code) for problem in problems_of(load, text)]
    assert found == [(2, "VRL002"), (3, "VRL001"), (4, "VRL004"), (5, "VRL102"), (6, "VRL006")]


def test_problems_of_overrides_come_after_files_in_their_order(load: Any) -> None:
    overrides = [f"rollout.zz{number}=1" for number in range(11)]
    origins = [problem.origin for problem in problems_of(load, "rollout: {n: x}\n", *overrides)]
    assert origins[1:] == [f"-o #{number}" for number in range(3, 14)]


def test_problem_in_a_base_points_at_the_base(write: Any) -> None:
    base = write("rollout: {n: x}\n", "base.yaml")
    problems = load_config([write("extends: ./base.yaml\n")], env={}).problems
    assert (str(base), 1, 14) in [(problem.file, problem.line, problem.column) for problem in problems]


def test_wrong_value_that_a_higher_layer_replaces_is_no_problem(load: Any) -> None:
    assert problems_of(load, "rollout: {n: x}\n", "rollout.n=4") == []


def test_extends_outside_a_file_is_refused(load: Any) -> None:
    assert [(p.code, p.path) for p in problems_of(load, "backend: local\n", "extends=quickstart")] == [
        ("VRL001", "extends")
    ]


def test_value_of_a_key_does_not_shout_a_screen_full(load: Any) -> None:
    (problem,) = problems_of(load, f"rollout: {{n: {'x' * 500}}}\n")
    assert len(problem.message) < 120


def test_interpolation_goes_through_to_who_expands_it(load: Any) -> None:
    assert problems_of(load, "backend: verl\nverl: {trainer: {experiment_name: '${oc.env:NAME}'}}\n") == []


def test_rules_are_silent_about_a_key_that_stands_under_a_wrong_name(load: Any) -> None:
    loaded = load("modle: {path: a/b}\ndta: {source: arithmetic}\n")
    assert [(problem.code, problem.line) for problem in loaded.problems] == [("VRL001", 1), ("VRL001", 2)]
    loaded = load("model: {paht: a/b}\ndata: {training_files: a}\n")
    assert [(problem.code, problem.line) for problem in loaded.problems] == [("VRL001", 1), ("VRL001", 2)]


def test_rules_still_speak_of_a_key_that_is_set_beside_its_misspelling(load: Any) -> None:
    found = problems_of(load, "algorithm: {name: grpo}\nrollout: {n: 1, N: 4}\n")
    assert [problem.code for problem in found] == ["VRL103", "VRL001"]


def test_an_error_says_its_problems_to_who_prints_it(load: Any) -> None:
    loaded = load(f"{COMPLETE}verl: {{a: 1}}\nrollout: {{n: x}}\n")
    with pytest.raises(ConfigError) as caught:
        loaded.require()
    lines = str(caught.value).splitlines()
    assert lines[0] == "the config has 1 error"
    assert [line.strip() for line in lines[1:-1]] == [str(problem) for problem in loaded.problems]
    assert lines[-1].startswith("  fix: ")
    assert caught.value.summary.splitlines() == [lines[0], lines[-1]]


def test_an_error_with_many_problems_lists_twenty(load: Any) -> None:
    keys = ", ".join(f"zz{number}: 1" for number in range(30))
    with pytest.raises(ConfigError) as caught:
        load(f"{COMPLETE}rollout: {{{keys}}}\n").require()
    assert "  ... and 10 more" in str(caught.value).splitlines()
    assert str(caught.value).count("VRL001") == 20


def test_require_raises_with_all_problems_and_says_how_many(load: Any) -> None:
    loaded = load(f"{COMPLETE}rollout: {{n: x, zz: 1}}\n")
    with pytest.raises(ConfigError, match="2 errors") as caught:
        loaded.require()
    assert caught.value.problems == loaded.problems


def test_warnings_alone_do_not_stop(load: Any) -> None:
    loaded = load(f"{COMPLETE}verl: {{a: 1}}\n")
    assert [problem.severity for problem in loaded.problems] == ["warning"]
    assert loaded.require() == loaded.config


def test_renames_lead_from_foreign_names_to_keys_that_exist() -> None:
    own = {path[-1] for path in known_keys()}
    assert not own & set(RENAMES)
    assert all(schema_at(target.split(".")) for target in RENAMES.values())


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SOMEWHERE = st.sampled_from(
    [*known_keys(), ("extends",), ("actor_rollout_ref",), ("actor_rollout_ref", "dtype"), ("x",)]
)


@given(st.lists(st.tuples(SOMEWHERE, ANYTHING), max_size=5))
def test_any_values_anywhere_give_problems_or_a_config(settings: list[tuple[tuple[str, ...], Any]]) -> None:
    layers: list[Any] = []
    for path, value in settings:
        for key in reversed(path):
            value = {key: value}
        layers.append(value)
    try:
        loaded = load_config([{"model": {"path": "a/b"}, "data": {"source": "arithmetic"}}, *layers], env={})
    except ConfigError:
        return  # of `extends`
    assert all(str(problem) for problem in loaded.problems)
    if loaded.ok:
        assert loaded.config == load_config([loaded.values], env={}).config


LEAVES = [path for path in known_keys() if "properties" not in (schema_at(path) or {}) and len(path) == 2]


@given(st.permutations(LEAVES), st.integers(0, 200), st.sampled_from(["key", "value"]))
def test_a_broken_line_is_the_line_that_is_named(
    tmp_path_factory: pytest.TempPathFactory, order: list[tuple[str, ...]], position: int, part: str
) -> None:
    """Take a correct config in any order, break one line, and the problem is on that line."""
    lines, keys = _complete_lines(order)
    spots = [number for number, key in enumerate(keys) if key]
    spot = spots[position % len(spots)]
    key = keys[spot] or ""
    lines[spot] = f"  {key}_zq: 1" if part == "key" else f"  {key}: {{not: this}}"
    path = tmp_path_factory.mktemp("m") / "a.yaml"
    path.write_text("\n".join(lines) + "\n")
    found = [problem for problem in load_config([path], env={}).problems if problem.code in ("VRL001", "VRL002")]
    if part == "value" and "object" in str((schema_at((_section(lines, spot), key)) or {}).get("type")):
        assert found == []
    else:
        assert [problem.line for problem in found] == [spot + 1]
        assert found[0].column == (3 if part == "key" else len(key) + 5)


def _section(lines: list[str], spot: int) -> str:
    return next(line[:-1] for line in reversed(lines[:spot]) if not line.startswith(" "))


def _complete_lines(order: list[tuple[str, ...]]) -> tuple[list[str], list[str | None]]:
    values = load_config(["cpu-gpu-hybrid"], env={}).values
    lines: list[str] = []
    keys: list[str | None] = []
    for section in dict.fromkeys(path[0] for path in order):
        lines.append(f"{section}:")
        keys.append(None)
        for path in order:
            if path[0] == section:
                text = yaml.safe_dump(values[section][path[1]], default_flow_style=True).split("\n")[0]
                lines.append(f"  {path[1]}: {text}")
                keys.append(path[1])
    return lines, keys
