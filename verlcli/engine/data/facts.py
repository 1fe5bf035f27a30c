"""What the training data hold, as facts for the checks of a config or a launch script."""

from __future__ import annotations

import os
from typing import Any

from verlcli.config.context import Asked, DataFacts
from verlcli.engine.data.check import check_files
from verlcli.errors import VerlCliError
from verlcli.facts import cached_snapshot


def data_facts(asked: Asked) -> DataFacts:
    """Read every row of the files; without a tokenizer on this machine the prompts' lengths are not known.

    Raises:
        ConfigError: a file cannot be read; rows that no training can use are counted instead.
    """
    tokenizer = _tokenizer(asked.model)
    report = check_files(
        asked.files,
        prompt_key=asked.prompt_key,
        tokenizer=tokenizer,
        limit=asked.limit,
        prompt_only=asked.prompt_only,
    )
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
    """Tokenizer of a model that is on this machine; a check does without the network."""
    if model is None:
        return None
    from verlcli.engine.models import ModelSource, load_tokenizer, locate

    try:
        folder = model if os.path.isdir(model) else cached_snapshot(model)
        source = ModelSource(folder) if folder else locate(model, key="model") if _local(model) else None
        return load_tokenizer(source, key="model") if source else None
    except VerlCliError:
        return None


def _local(model: str) -> bool:
    return model.startswith("pkg:") or model.endswith(".gguf")
