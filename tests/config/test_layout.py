"""Which line is to blame when a text cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from verlcli.config import loader
from verlcli.config.loader import load_document
from verlcli.errors import ConfigError

# text, place, what the message and the fix say
SLIPS = {
    "too far right": (
        "model:\n  path: a\n    lora_rank: 8\n  dtype: bf16\n",
        "3:5",
        "`lora_rank:` is indented by 4 spaces",
        "indent it by 2 spaces if it belongs under `model:`",
    ),
    "a space too many on the first key": (
        "model:\n   path: a\n  lora_rank: 8\n",
        "2:4",
        "`path:` is indented by 3 spaces",
        "indent it by 2 spaces if it belongs under `model:`",
    ),
    "first key two spaces too far right": (
        "model:\n    path: a\n  lora_rank: 8\ndata:\n  source: arithmetic\n",
        "2:5",
        "`path:` is indented by 4 spaces",
        "2 spaces",
    ),
    "first key without indentation": (
        "model:\npath: a\n  lora_rank: 8\n",
        "2:1",
        "`path:` is indented by no space",
        "indent it by 2 spaces if it belongs under `model:`",
    ),
    "one space missing": ("model:\n  path: a\n lora_rank: 8\n", "3:2", "`lora_rank:`", "2 spaces"),
    "section that is indented": (
        "model:\n  path: a\n rollout:\n  n: 8\n",
        "3:2",
        "`rollout:` is indented by 1 space,",
        "indent it by no space if it belongs at the top level",
    ),
    "first section that is indented": (" model:\n  path: a\nrollout:\n  n: 8\n", "1:2", "`model:`", "top level"),
    "deep key": (
        "actor:\n  optim:\n    lr: 1e-6\n      eps: 1e-8\n    clip_grad: 1\n",
        "4:7",
        "`eps:`",
        "indent it by 4 spaces if it belongs under `actor.optim:`",
    ),
    "four spaces a level": (
        "model:\n    path: a\n   lora_rank: 8\nactor:\n    optim:\n        lr: 1\n",
        "3:4",
        "`lora_rank:`",
        "4 spaces",
    ),
    "no space after a colon": ("rollout:\n  n: 8\n  top_k:3\n", "3:3", "no space after `top_k:`", "write `top_k: 3`"),
    "another fault further down": (
        "model:\n  path: a\n    lora_rank: 8\nrollout:\n  n: [1\n",
        "3:5",
        "`lora_rank:`",
        "2 spaces",
    ),
    "unknown keys": ("a:\n  b: 1\n   c: 2\n", "3:4", "`c:`", "2 spaces"),
}


def refusal(write: Any, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_document(write(text), name="x.yaml")
    return caught.value


@pytest.mark.parametrize("parser", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize("case", SLIPS)
def test_the_line_that_slipped_is_named(write: Any, monkeypatch: pytest.MonkeyPatch, case: str, parser: str) -> None:
    monkeypatch.setattr(loader, "_Loader", getattr(yaml, parser))
    text, where, message, fix = SLIPS[case]
    error = refusal(write, text)
    assert error.where == f"x.yaml:{where}"
    assert error.message.startswith("not valid YAML: ")
    assert message in error.message
    assert fix in (error.fix or "")


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        ("model:\n  path: a\n\tlora_rank: 8\n", "x.yaml:3:1", "indent with spaces"),
        ("model: {path: a\nrollout: {n: 8}\n", "x.yaml:2:8", "close the bracket"),
        ('a: "\\x"\n', "x.yaml:1:7", "single quotes"),
        ("a: %b\n", "x.yaml:1:4", "quote the value"),
        ("a: b: c\n", "x.yaml:1:5", "nested key on its own line"),
    ],
)
def test_other_faults_keep_the_parsers_place(write: Any, text: str, where: str, fix: str) -> None:
    error = refusal(write, text)
    assert error.where == where
    assert fix in (error.fix or "")


def test_a_long_text_is_not_searched(write: Any) -> None:
    error = refusal(write, "# filler\n" * 30_000 + "a:\n  b: 1\n   c: 2\n")
    assert (error.where or "").startswith("x.yaml:30003:")
    assert "mapping values" in error.message


def test_a_search_tries_few_corrections(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = 0
    parse = loader.yaml.parse

    def counted(*arguments: Any, **more: Any) -> Any:
        nonlocal trials
        trials += 1
        return parse(*arguments, **more)

    monkeypatch.setattr(loader.yaml, "parse", counted)
    text = "".join(f"k{number}:\n  a: 1\n" for number in range(500)) + "b: c\n  d: e\n"
    assert "not valid YAML" in refusal(write, text).message
    assert 2 < trials <= 200
