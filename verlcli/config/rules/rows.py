"""Rules about the rows of the training data; they need the data read."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.context import Context
from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config


def rows_fill_a_batch(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL141: the data hold fewer rows than one training batch takes.

    Why: a step draws train_batch_size different prompts, so a smaller dataset gives not one.
    Example: `data: {train_files: ten_rows.jsonl, train_batch_size: 64}`
    Instead: `data: {train_batch_size: 8}`, or more rows
    """
    data, limit, batch = context.data, config.data.train_max_samples, config.data.train_batch_size
    if data is None or config.backend == "verl":
        return
    rows = data.rows_read if limit is None else min(limit, data.rows_read)
    if rows < batch:
        yield Verdict(
            "VRL141",
            ("data.train_batch_size", "data.train_files"),
            f"a batch of {batch} prompts cannot be drawn from {rows} rows",
            f"set it to {rows} or less, or give more data" if rows else "give files that hold rows",
        )


def prompts_fit(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL142: prompts are longer than max_prompt_length, and truncation is an error.

    Why: under `truncation: error` the first such prompt ends the run when it is drawn.
    Example: `data: {max_prompt_length: 64, truncation: error}` and prompts of 90 tokens
    Instead: `data: {max_prompt_length: 96}`, or `truncation: left`, which keeps the end
    """
    data, limit = context.data, config.data.max_prompt_length
    if data is None or not data.too_long or config.data.truncation != "error" or config.backend == "verl":
        return
    yield Verdict(
        "VRL142",
        ("data.max_prompt_length", "data.truncation"),
        f"{data.too_long} of {data.rows_read} prompts have more than {limit} tokens, the longest {data.longest_prompt}",
        f"raise it to {data.longest_prompt}, or set data.truncation to left, right or middle",
    )
