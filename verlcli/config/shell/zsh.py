"""Where zsh expands a parameter in another way than bash: arrays as a whole, values not split at blanks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from verlcli.config.shell.items import Lit, Param
from verlcli.config.shell.splitting import Segment
from verlcli.config.shell.world import World

_FIRST_LINE = re.compile(r"#!.*\bzsh\b")


def is_for_zsh(text: str) -> bool:
    """Whether the first line of a script names zsh."""
    return _FIRST_LINE.match(text) is not None


def all_of_array(world: World, param: Param) -> Param:
    """`$args` of an array as `${args[@]}`, or in quotes as `${args[*]}`; every other parameter as it is."""
    variable = world.variables.get(param.name)
    if param.index is not None or variable is None or variable.items is None or variable.keyed:
        return param
    return replace(param, index=(Lit("*" if param.quoted else "@", param.at, True),))


def unsplit(segments: Sequence[Segment | None]) -> list[Segment | None]:
    """The segments, none of which is split at its blanks."""
    return [replace(segment, split=False) if segment else segment for segment in segments]
