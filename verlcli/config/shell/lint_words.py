"""Words of a launch that bash does not expand to what they look like, or that only a run can tell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from verlcli.config.shell.items import Param, RawWord
from verlcli.config.shell.parts import shown
from verlcli.config.shell.programs import base_name
from verlcli.config.shell.types import Launch, Word

if TYPE_CHECKING:
    from verlcli.config.shell.shell import Call

_OPEN = ("command", "runtime", "unsupported")
_MOST_SHOWN = 6


def lint_refused(call: Call, launch: Launch) -> None:
    """Adds a finding for every `${a.b}` that bash takes for a reference of its own."""
    for gap in (gap for word in (*launch.words, *launch.lost) for gap in word.gaps if gap.kind == "refused"):
        message = f"bash says `bad substitution` at {gap.reason}, and does not run the command"
        advice = "put the word in single quotes, so that bash leaves it to Hydra"
        call.run.shell.find("bad_substitution", gap.place, message, advice, "error")


def lint_first_alone(call: Call, raw: RawWord) -> None:
    """Adds a finding for `$args` of an array, which is its first item to bash."""
    for item in raw.items:
        variable = call.world.variables.get(item.name) if isinstance(item, Param) else None
        if not isinstance(item, Param) or item.index is not None or item.op or item.length or item.indirect:
            continue
        if variable and variable.items and len(variable.items) > 1 and not variable.keyed and not call.run.shell.zsh:
            message = f"${item.name} is the first of the {len(variable.items)} items of the array alone"
            advice = f'write "${{{item.name}[@]}}" for all of them'
            call.run.shell.find("first_element", call.run.source.place(item.at), message, advice, "error")


def lint_open_words(call: Call, words: Sequence[Word], at: int) -> bool:
    """Adds a note for words of a launch of which nothing is known; tells whether there are any."""
    named = [
        shown(word.parts) if gap.variable else _written(gap.reason)
        for before, word in pairwise(words[at:])
        if not word.text_as_run
        and not (word.quoted and before.text_as_run.startswith("-"))
        and (gap := next(iter(word.gaps), None))
        and gap.kind in _OPEN
    ]
    around = words[:at]
    if any(base_name(word) == "xargs" for word in around) and not any(
        word.text_as_run.startswith("-I") for word in around
    ):
        named.append("what xargs reads")
    if named:
        place, names = call.expander.source.place(call.command.start), ", ".join(dict.fromkeys(named[:_MOST_SHOWN]))
        message = f"the words of {names} are not known here: they may set any key"
        call.run.shell.find("open_words", place, message, "write them into the script to have them checked", "note")
    return bool(named)


def _written(reason: str) -> str:
    """The command whose output is not known, as it is written: `$(cat args.txt)`."""
    command = reason.removeprefix("the output of ").strip("`")
    return command if command.startswith("$(") or command == reason else f"$({command})"
