"""What is proposed for a value that does not fit its key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config.corrections import choice_meant, number_meant, value_meant
from verlcli.config.keys import known_keys, schema_at

N, SHARE, TIMEOUT = ("rollout", "n"), ("rollout", "gpu_memory_utilization"), ("distributed", "timeout")


@pytest.mark.parametrize(
    ("path", "value", "advice"),
    [
        (N, "8", "write 8"),
        (N, "1_024", "write 1024"),
        (N, "1,024", "write 1024"),
        (N, "8 samples", "write 8, without samples"),
        (N, "2k", "write 2000, without k"),
        (N, "1.5", None),
        (N, "8.0", "write 8.0"),
        (N, "1e999", None),
        (N, "9" * 40, None),
        (N, "eight", None),
        (N, "", None),
        (N, None, "remove the line for the default 8"),
        (N, [4], "write 4, without a list around it"),
        (N, [4, 5], None),
        (N, [[4]], None),
        (N, {"a": 1, "b": 2}, None),
        (N, True, None),
        (SHARE, "90%", "write 0.9, without %"),
        (SHARE, "0.9 GB", "write 0.9, without GB"),
        (TIMEOUT, "30s", "write 30, without s"),
        (TIMEOUT, "30 seconds", "write 30, without seconds"),
        (TIMEOUT, "30m", "write 1800, without m"),
        (TIMEOUT, "2 hours", "write 7200, without hours"),
        (TIMEOUT, "1ms", None),
        (("reward", "timeout"), "500ms", "write 0.5, without ms"),
        (("data", "shuffle"), "Yes", "write true"),
        (("data", "shuffle"), "FALSE", "write false"),
        (("data", "shuffle"), 0, "write false"),
        (("data", "shuffle"), 1.0, None),
        (("data", "shuffle"), 2, None),
        (("trainer", "output_dir"), 3, "write '3'"),
        (("trainer", "output_dir"), True, "write 'true'"),
        (("trainer", "keep_checkpoints"), "None", "write null"),
        (("rollout",), "n:8", "put a space after the colon: `n: 8`"),
        (("rollout",), 3, "write its keys indented below it"),
        (("rollout",), [{"n": 8}], "remove the dashes before its keys"),
        (("rollout",), [8], None),
        (("rollout",), [], None),
    ],
)
def test_a_value_of_the_wrong_type_is_put_right(path: tuple[str, ...], value: Any, advice: str | None) -> None:
    assert value_meant(path, schema_at(path) or {}, value) == advice


@pytest.mark.parametrize(
    ("path", "value", "advice"),
    [
        (SHARE, 90, "write 0.9 if 90 % is meant"),
        (SHARE, 2, None),
        (SHARE, 500, None),
        (("trainer", "save_freq"), -1, "0 saves at the end only"),
        (("data", "train_max_samples"), -1, "write null, which means: all"),
        (("data", "train_max_samples"), 0, "write null, which means: all"),
        (("trainer", "seed"), -1, None),
        (("trainer", "save_freq"), -2, None),
        (N, 0, None),
        (("trainer", "output_dir"), "", None),
    ],
)
def test_a_number_out_of_range_is_explained(path: tuple[str, ...], value: Any, advice: str | None) -> None:
    assert number_meant(schema_at(path) or {}, value) == advice


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("BF16", "did you mean 'bf16'?"),
        ("torch.bfloat16", "did you mean 'bf16'?"),
        ("half", "did you mean 'fp16'?"),
        ("None", "write null"),
        ("huggingface", None),  # a choice of other keys
        ("zonk", None),
        (None, None),
    ],
)
def test_a_choice_is_recognised(value: Any, advice: str | None) -> None:
    choices = ["auto", "fp32", "bf16", "fp16", *([] if value is None else [None])]
    assert choice_meant(choices, value) == advice


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers())


@given(
    st.sampled_from(known_keys()), ANYTHING | st.from_regex(r"-?[0-9]{1,3}(\.[0-9])? ?[%a-zA-Z]{0,4}", fullmatch=True)
)
def test_whatever_is_given_an_advice_is_a_sentence_or_nothing(path: tuple[str, ...], value: Any) -> None:
    node = schema_at(path) or {}
    for advice in (value_meant(path, node, value), number_meant(node, value)):
        assert advice is None or (advice and advice == advice.strip())


@pytest.mark.parametrize("key", ["training.recompute", "algorithm.rollout_is"])
def test_a_switch_where_a_word_is_meant_gets_the_words(key: str) -> None:
    path = tuple(key.split("."))
    node = schema_at(path)
    assert node is not None
    words = [word for word in node["enum"] if word]
    assert value_meant(path, node, True) == f"choose one of {', '.join(words)}"
