"""What the training data hold, as facts for the checks of a config or a launch script."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from verlcli.config.context import DataFacts
from verlcli.engine.data.check import check_files
from verlcli.errors import VerlCliError


def data_facts(files: Sequence[str], prompt_key: str, model: str | None, max_prompt_length: int | None) -> DataFacts:
    """Read every row of `files`.

    Args:
        model: path of the model whose tokenizer counts the prompts' tokens; without one that is on this machine the
            lengths are not known.
        max_prompt_length: tokens; longer prompts are counted as filtered.

    Raises:
        ConfigError: a file cannot be read; rows that no training can use are counted instead.
    """
    tokenizer = _tokenizer(model)
    report = check_files(files, prompt_key=prompt_key, tokenizer=tokenizer, limit=max_prompt_length)
    lengths = report.prompt_length if tokenizer is not None else None
    too_long = report.too_long if lengths else None
    columns = dict.fromkeys(name for facts in report.files for name in facts.columns)
    return DataFacts(
        rows=report.rows - report.bad_count - (too_long or 0),
        rows_read=report.rows - report.bad_count,
        columns=tuple(columns),
        sources=tuple(report.data_sources),
        longest_prompt=lengths.max if lengths else None,
        p50_prompt=lengths.p50 if lengths else None,
        p99_prompt=lengths.p99 if lengths else None,
        too_long=too_long,
        bad_rows=report.bad_count,
        first_bad=f"{report.bad[0].where}: {report.bad[0].message}" if report.bad else "",
    )


def _tokenizer(model: str | None) -> Any:
    """Tokenizer of a model that is on this machine; a hub id would need the network, which a check does without."""
    if model is None:
        return None
    from verlcli.engine.models import ModelSource, load_tokenizer, locate

    try:
        source = ModelSource(model) if os.path.isdir(model) else locate(model, key="model") if _local(model) else None
        return load_tokenizer(source, key="model") if source else None
    except VerlCliError:
        return None


def _local(model: str) -> bool:
    return model.startswith("pkg:") or model.endswith(".gguf")
