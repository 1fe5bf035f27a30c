"""`verl validate --data`: the training data read once, as facts for the rules and as problems of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verlcli.config.context import Asked, Context, DataFacts
from verlcli.config.problems import Problem
from verlcli.errors import ConfigError

DATA_TEXTS = {
    "VRL143": """VRL143: a data file cannot be read, or has rows that no training can use.

    Why: a row needs the prompt (text or chat messages), `data_source` and `reward_model.ground_truth`. A bad row ends
        the run when it is drawn, which may be hours in.
    Example: {"prompt": "2+2=", "answer": "4"}
    Instead: {"prompt": "2+2=", "data_source": "sums", "reward_model": {"ground_truth": "4"}}; `verl data check` lists
        all bad rows, `verl data convert` brings files into this form
    """,
    "VRL144": """VRL144: what the training data hold.

    Why: not a fault: the numbers of rows and the prompts' lengths in tokens, to compare with the batch and
        data.max_prompt_length.
    Example: 7473 rows; half of the prompts have up to 98 tokens, 99 % up to 213, the longest 400
    """,
}


def with_data(context: Context, asked: Asked) -> tuple[Context, list[Problem]]:
    """The context with what the files hold, and what is wrong with them; as it was when they cannot be read."""
    if context.read_data is None or not asked.files:
        return context, []
    try:
        facts = context.read_data(asked)
    except ConfigError as error:
        message = f"{error.where}: {error.message}" if error.where else error.message
        return context, [Problem("VRL143", "error", asked.name, message, suggestion=error.fix).at(asked.place)]
    problems = [problem.at(asked.place) for problem in _problems(asked.name, facts)]
    return replace(context, data=facts), problems


def _problems(name: str, facts: DataFacts) -> Iterator[Problem]:
    if facts.bad_rows:
        more = f", and {facts.bad_rows - 1} more bad rows" if facts.bad_rows > 1 else ""
        advice = "`verl data check` lists them; `verl data convert` brings files into verl's rows"
        yield Problem("VRL143", "error", name, f"{facts.first_bad}{more}", suggestion=advice)
    sources = ", ".join(facts.sources[:4]) + (", ..." if len(facts.sources) > 4 else "")
    yield Problem("VRL144", "note", name, f"{facts.rows_read} rows of {sources or 'no source'}{_lengths(facts)}")


def _lengths(facts: DataFacts) -> str:
    if facts.longest_prompt is None:
        return "; prompt lengths are not known, as the model's tokenizer is not on this machine"
    longer = f"; longer than the limit: {facts.too_long}" if facts.too_long else ""
    return (
        f"; half of the prompts have up to {facts.p50_prompt} tokens, 99 % up to {facts.p99_prompt}, "
        f"the longest {facts.longest_prompt}{longer}"
    )
