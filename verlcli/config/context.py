"""What a check may know beside the text: the cluster, the data, the verl version that will run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verlcli.config.problems import Place

if TYPE_CHECKING:
    from verlcli.facts import Cluster


class NotKnown(Exception):  # noqa: N818 - no error, but the answer of a fact that is not there
    """A rule asked for a fact that nobody gave.

    Attributes:
        need: what would have to be known, as the rest of "not checked: needs ..."; empty when there is nothing to say,
            for example because the value is wrong and reported already.
    """

    def __init__(self, need: str = "") -> None:
        super().__init__(need)
        self.need = need


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What was read from the training data.

    Attributes:
        rows: rows of all training files after filtering of prompts that are too long.
        rows_read: rows before filtering.
        columns: names of the columns.
        sources: values of `data_source`.
        longest_prompt, p50_prompt, p99_prompt: tokens; None without a tokenizer.
        too_long: prompts above `max_prompt_length`; None without a tokenizer.
        bad_rows: rows that no training can use; they count in neither number of rows.
        first_bad: place and fault of the first of them.
    """

    rows: int
    rows_read: int
    columns: tuple[str, ...]
    sources: tuple[str, ...]
    longest_prompt: int | None = None
    p50_prompt: int | None = None
    p99_prompt: int | None = None
    too_long: int | None = None
    bad_rows: int = 0
    first_bad: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """Data files that a run names.

    Attributes:
        name: the key as the user writes it.
        place: of its value.
        files: paths.
        prompt_key: column of the prompt.
        model: path of the model whose tokenizer counts.
        limit: tokens of the longest prompt that is wanted.
        prompt_only: the other columns are somebody else's business.
    """

    name: str
    place: Place
    files: Sequence[str]
    prompt_key: str
    model: str | None
    limit: int | None
    prompt_only: bool = False


ReadData = Callable[[Asked], DataFacts]


@dataclass(frozen=True, slots=True)
class Context:
    """Facts for one check; a rule that needs one that is None says so instead of guessing.

    Attributes:
        cluster: where it is going to run.
        data: what the training data hold.
        verl_version: a version of `verlcli.facts.verl.VERSIONS`; None: the default one.
        read_data: reads data files for `data`, raising ConfigError; None: data are not looked at.
    """

    cluster: Cluster | None = None
    data: DataFacts | None = None
    verl_version: str | None = None
    read_data: ReadData | None = None
