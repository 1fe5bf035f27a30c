"""From a dataset to a step's prompts as token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from verlcli.engine.data import PromptSampler, encode_prompt
from verlcli.engine.randomness import derive_seed
from verlcli.engine.types import Dataset, PromptRow
from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from verlcli.config.types import DataConfig

PROBE = "x"


class PromptFeed:
    """Draws and encodes the prompts of a step; a pure function of the step's number."""

    def __init__(self, dataset: Dataset, config: DataConfig, tokenizer: Any, *, seed: int) -> None:
        self._dataset = dataset
        self._config = config
        self._tokenizer = tokenizer
        self._seed = seed
        self._sampler = PromptSampler(len(dataset), config.train_batch_size, seed, config.shuffle)

    def step(self, step: int) -> tuple[list[PromptRow], list[list[int]], int]:
        """Rows, token ids and the number of truncated prompts of 1-based `step`."""
        rows = [self._dataset[i] for i in self._sampler.batch(step - 1)]
        ids, truncated = encode_rows(rows, self._config, self._tokenizer)
        return rows, ids, truncated

    def more(self, step: int, number: int) -> tuple[list[PromptRow], list[list[int]]] | None:
        """Rows and token ids of the `number`-th further batch of 1-based `step`, in an order of that step's own; None
        when every prompt has been seen."""
        if (number - 1) * self._config.train_batch_size >= len(self._dataset):
            return None
        seed = derive_seed(self._seed, step, "more_prompts")
        sampler = PromptSampler(len(self._dataset), self._config.train_batch_size, seed)
        rows = [self._dataset[i] for i in sampler.batch(number - 1)]
        return rows, encode_rows(rows, self._config, self._tokenizer)[0]


def encode_rows(rows: Sequence[PromptRow], config: DataConfig, tokenizer: Any) -> tuple[list[list[int]], int]:
    """Token ids of every prompt, and how many were truncated."""
    encoded = [encode_prompt(tokenizer, row.prompt, config.max_prompt_length, config.truncation) for row in rows]
    return [e.ids for e in encoded], sum(e.truncated for e in encoded)


def check_lengths(dataset: Dataset, config: DataConfig, tokenizer: Any, *, key: str) -> None:
    """Find a prompt that `truncation: error` would stop at, before training instead of in the middle of it.

    Raises:
        ConfigError: a prompt is longer than `data.max_prompt_length`; names the first, the longest and the count.
    """
    if config.truncation != "error":
        return
    lengths = {
        i: len(encode_prompt(tokenizer, dataset[i].prompt, 10**9, "error").ids)
        for i in _possibly_long(dataset, config.max_prompt_length, tokenizer)
    }
    long = {i: length for i, length in lengths.items() if length > config.max_prompt_length}
    if long:
        first = min(long)
        raise ConfigError(
            f"{len(long)} of {len(dataset)} prompts are longer than data.max_prompt_length={config.max_prompt_length} "
            f"tokens; the first is row {first + 1} with {long[first]}",
            where=key,
            fix=f"set data.max_prompt_length: {max(long.values())}, or data.truncation: left, right or middle",
        )


def check_vocabulary(tokenizer: Any, embeddings: int, *, key: str = "model.path") -> None:
    """Find a tokenizer that is not the model's, before its tokens fail deep in a kernel or no response ever ends.

    Args:
        embeddings: tokens the model knows, the rows of its input embedding.

    Raises:
        ConfigError: the end, padding or beginning token is none of the model's.
    """
    for name in ("eos_token", "pad_token", "bos_token"):
        token_id = getattr(tokenizer, f"{name}_id")
        if token_id is not None and token_id >= embeddings:
            raise ConfigError(
                f"the tokenizer's {name} {getattr(tokenizer, name)!r} is token {token_id}, "
                f"the model knows tokens 0 to {embeddings - 1}",
                where=key,
                fix=f"give a model folder with the model's own tokenizer, or a {name} of its vocabulary",
            )


def _possibly_long(dataset: Dataset, limit: int, tokenizer: Any) -> Iterator[int]:
    """Rows that may exceed `limit`: a token stands for at least one byte, so shorter texts need no tokenizer."""
    probe = ({"role": "user", "content": PROBE},)
    chat_overhead = len(encode_prompt(tokenizer, probe, 10**9, "error").ids)
    for i in range(len(dataset)):
        prompt = dataset[i].prompt
        if isinstance(prompt, str):
            if len(prompt.encode()) + 1 > limit:
                yield i
        elif sum(len(m["content"].encode()) + chat_overhead for m in prompt) > limit:
            yield i
