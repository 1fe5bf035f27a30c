"""Rules about the training data: whether the files can be read, hold the right columns and fill a batch."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import at_least
from verlcli.config.verl.rules.files import DATA_FILES, files_at
from verlcli.config.verl.run import VerlRun
from verlcli.config.wording import any_of

_BATCH, _SAMPLES = "data.train_batch_size", "data.train_max_samples"
_PROMPT, _LENGTH = "data.prompt_key", "data.max_prompt_length"
_TRUNCATION, _FILTER = "data.truncation", "data.filter_overlong_prompts"
_MANAGER = "reward.reward_manager.source"
_NEAR = 16  # rows, within which a batch that divides is looked for


def _reads_own_files(run: VerlRun) -> bool:
    """Whether verl's own dataset reads them, not a class of the user's."""
    return run.get("data.custom_cls.path") is None


def _is_rl(run: VerlRun) -> bool:
    """Whether it trains from rollouts; supervised fine-tuning reads its data with another class."""
    return run.has("algorithm.adv_estimator")


@rule()
def samples_fill_a_batch(run: VerlRun) -> Iterator[Verdict]:
    """VRL224: there are fewer prompts than one training batch takes.

    Why: only whole batches are trained on, so the number of steps is prompts / batch, rounded down: 0. verl 0.9 stops
        with a bare ZeroDivisionError after the model is loaded and the first validation is done; older versions say
        that the dataloader is empty.
    Example: data.train_max_samples=500 data.train_batch_size=1024
    Instead: data.train_batch_size=500, or more prompts
    Source: verl/trainer/ppo/v1/trainer_base.py, verl/trainer/ppo/ray_trainer.py
    """
    batch, limit, data = run.integer(_BATCH), run.get(_SAMPLES), run.context.data
    asked = limit if isinstance(limit, int) and limit > 0 else None
    # What is too long counts until it is filtered out.
    there = None if data is None else data.rows if run.flag(_FILTER) else data.rows_read
    rows = min((count for count in (asked, there) if count is not None), default=None)
    # Rows that all are bad are reported as such.
    if rows is None or rows >= batch or (data and data.bad_rows and not data.rows_read):
        return
    limited = rows == asked
    source = f"{run.name(_SAMPLES)} leaves {rows} prompts" if limited else f"the data hold {rows} prompts"
    # The largest that also divides over the ranks and into mini-batches, if one does.
    mini = run.get("actor_rollout_ref.actor.ppo_mini_batch_size")
    whole = rows // mini * mini if isinstance(mini, int) and mini > 0 else 0
    likely = [*range(rows, max(rows - _NEAR, 0), -1), *([whole] if whole else [])]
    most = next(iter(good_values(run, "VRL224", _BATCH, likely, 1)), rows)
    lower = f"lower {run.name(_BATCH)} to {most}{' or less' if most == rows else ''}" if rows else "correct the data"
    yield Verdict(
        "VRL224",
        (_BATCH, _SAMPLES) if limited else (_BATCH, DATA_FILES[0]),
        f"{source}, fewer than the {batch} of one batch, so there is not one step",
        f"{lower}, or raise {run.name(_SAMPLES)}" if limited else lower,
    )


@rule()
def files_have_a_known_format(run: VerlRun) -> Iterator[Verdict]:
    """VRL225: a data file cannot be read: its format, its place or its columns.

    Why: verl tells the format by the ending: .parquet, and from 0.7 on .json and .jsonl. Anything else, a folder too,
        stops it when the dataset is built, and so does a file that is not there. A column that is missing
        (data.prompt_key, and data_source and reward_model for the reward) is a KeyError at the first batch.
    Example: data.train_files=train.arrow
    Instead: data.train_files=train.parquet
    Source: verl/utils/dataset/rl_dataset.py, verl/experimental/reward_loop/reward_manager/naive.py
    """
    if not _is_rl(run) or not _reads_own_files(run):
        return
    # Before 0.7 every file was taken for parquet.
    old = not at_least(run, "0.7")
    endings = (".parquet",) if old else (".parquet", ".json", ".jsonl")
    for key in DATA_FILES:
        wrong = [file for file in files_at(run, key) if not file.endswith(endings)] if run.is_set(key) else []
        if wrong:
            yield Verdict(
                "VRL225",
                (key,),
                f"verl {run.version} does not read '{wrong[0]}': it takes {any_of(endings)} files",
                "name files of these formats; `verl data convert` makes parquet",
            )


@rule()
def rows_have_their_columns(run: VerlRun) -> Iterator[Verdict]:
    """VRL225: a column that verl reads is not in the data.

    Why: the prompts stand in `data.prompt_key`; the reward managers read `data_source` and `reward_model` (with
        `ground_truth` inside). A missing one is a KeyError at the first batch or the first reward.
    Example: data.prompt_key=question, and files with a column `prompt`
    Instead: data.prompt_key=prompt
    Source: verl/utils/dataset/rl_dataset.py, verl/experimental/reward_loop/reward_manager/naive.py
    """
    data = run.context.data
    if data is None or not _is_rl(run) or not _reads_own_files(run):
        return
    prompt, rewards = run.text(_PROMPT), run.text(_MANAGER) in (None, "register")
    wanted = [prompt or "prompt", *(("data_source", "reward_model") if rewards else ())]
    missing = [f"'{name}'" for name in wanted if name not in data.columns]
    if missing:
        keys = (_PROMPT, DATA_FILES[0]) if wanted[0] not in data.columns else (DATA_FILES[0],)
        yield Verdict(
            "VRL225",
            keys,
            f"the data have no column {' and no '.join(missing)}; they have {', '.join(data.columns)}",
            f"name the right column in {run.name(_PROMPT)}"
            if keys[0] == _PROMPT and len(missing) == 1
            else "`verl data convert` writes verl's row format",
        )


@rule()
def prompts_fit(run: VerlRun) -> Iterator[Verdict]:
    """VRL274: prompts are longer than `data.max_prompt_length`.

    Why: up to 0.6 with truncation=error the first such prompt stops the run, maybe hours in. From 0.8 on its beginning
        is cut off without a word, with the system prompt and the question's start.
    Example: data.max_prompt_length=512, and prompts of 900 tokens
    Instead: data.filter_overlong_prompts=True, or a larger data.max_prompt_length
    Source: verl/utils/dataset/rl_dataset.py, verl/experimental/agent_loop/agent_loop.py; verl issue 3373
    """
    data = run.context.data
    if data is None or not data.too_long or not run.has(_FILTER) or run.flag(_FILTER):
        return
    stops = not at_least(run, "0.7") and run.text(_TRUNCATION) == "error"
    effect = "the first of them stops the run" if stops else "their beginning is cut off"
    longest = f" (the longest has {data.longest_prompt})" if data.longest_prompt else ""
    yield Verdict(
        "VRL274",
        (_LENGTH, _FILTER, _TRUNCATION),
        f"{data.too_long} prompts are longer than {run.integer(_LENGTH)} tokens{longest}: {effect}",
        f"set {run.name(_FILTER)}=True, or raise {run.name(_LENGTH)}",
        "error" if stops else "warning",
    )


@rule(versions=">=0.8")
def truncation_is_not_read(run: VerlRun) -> Iterator[Verdict]:
    """VRL279: `data.truncation` has no effect any more.

    Why: from 0.8 on nothing reads it for prompts: what is longer than `data.max_prompt_length` loses its beginning,
        whatever is set here. With filter_overlong_prompts=True there is nothing left to cut.
    Example: data.truncation=error, and filter_overlong_prompts at its default False
    Instead: data.filter_overlong_prompts=True
    Source: verl/utils/dataset/rl_dataset.py, verl/experimental/agent_loop/agent_loop.py
    """
    if not _is_rl(run) or not run.is_set(_TRUNCATION):
        return
    if run.text(_TRUNCATION) != "left" and not run.flag(_FILTER) and _reads_own_files(run):
        yield Verdict(
            "VRL279",
            (_TRUNCATION, _FILTER),
            f"{run.shown(_TRUNCATION)} is not read: verl {run.version} cuts off the beginning of a longer prompt",
            f"set {run.name(_FILTER)}=True to leave such prompts out",
            "note",
        )


RULES: tuple[VerlRule, ...] = (
    samples_fill_a_batch,
    files_have_a_known_format,
    rows_have_their_columns,
    prompts_fit,
    truncation_is_not_read,
)
