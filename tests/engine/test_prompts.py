"""Prompts of a step: what is cut is counted, what cannot be is found before training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verlcli.config.load import load_config
from verlcli.config.types import DataConfig
from verlcli.engine.prompts import PromptFeed, check_lengths, check_vocabulary, encode_rows
from verlcli.engine.types import PromptRow
from verlcli.errors import ConfigError

ROWS = [PromptRow(text, "made", "1") for text in ("1+1=", "12+34=", "123+456+789=", "1+2+3+4+5+6+7=")]


@pytest.fixture
def tokenizer(tiny_model: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model)


@pytest.fixture
def data(settings: Any) -> DataConfig:
    return load_config([{}], [f"{key}={json.dumps(value)}" for key, value in settings().items()]).config.data


@pytest.mark.parametrize("truncation", ["left", "right", "middle"])
def test_truncated_prompts_of_a_step_are_counted(data: DataConfig, tokenizer: Any, truncation: Any) -> None:
    config = replace(data, max_prompt_length=6, truncation=truncation, train_batch_size=4)
    rows, ids, truncated = PromptFeed(ROWS, config, tokenizer, seed=0).step(1)
    assert sorted(len(each) for each in ids) == [4, 6, 6, 6]
    assert (len(rows), truncated) == (4, 2)


@pytest.mark.parametrize("truncation", ["left", "right", "middle"])
def test_what_will_be_cut_is_no_error(data: DataConfig, tokenizer: Any, truncation: Any) -> None:
    config = replace(data, max_prompt_length=6, truncation=truncation)
    check_lengths(ROWS, config, tokenizer, key="data.train_files")
    assert encode_rows(ROWS, config, tokenizer)[1] == 2


def test_too_long_prompts_are_found_before_training_with_their_number_and_the_remedy(
    data: DataConfig, tokenizer: Any
) -> None:
    config = replace(data, max_prompt_length=6, truncation="error")
    with pytest.raises(ConfigError, match=r"2 of 4 prompts are longer.*the first is row 3 with 12") as caught:
        check_lengths(ROWS, config, tokenizer, key="data.val_files")
    assert caught.value.where == "data.val_files"
    assert "data.max_prompt_length: 14" in str(caught.value.fix)
    check_lengths(ROWS, replace(config, max_prompt_length=14), tokenizer, key="data.val_files")


@pytest.mark.parametrize("name", ["eos_token", "pad_token", "bos_token"])
def test_a_tokenizer_of_another_model_is_named(tokenizer: Any, name: str) -> None:
    check_vocabulary(tokenizer, 19)
    setattr(tokenizer, name, "<new>")
    tokenizer.add_tokens(["<new>"])
    with pytest.raises(ConfigError, match=f"{name} '<new>' is token 19, the model knows tokens 0 to 18"):
        check_vocabulary(tokenizer, 19)


def test_a_tokenizer_without_an_end_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from verlcli.engine.models import ModelSource, load_tokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="has no EOS token") as caught:
        load_tokenizer(ModelSource(str(tmp_path)))
    assert caught.value.where == "model.path"
    assert caught.value.fix
