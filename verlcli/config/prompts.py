"""Layers -> layers where the later choice of prompts stands: files replace a base's generator, and the other way round.

A child of a preset says what it trains on; what the preset said about the other way of getting prompts falls away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from verlcli.config.layers import REMOVE, Layer, Setting

_DATA = ("data",)
_SOURCE, _ARGS = ("data", "source"), ("data", "source_args")
_TRAIN, _VAL = ("data", "train_files"), ("data", "val_files")


@dataclass(slots=True)
class _Prompts:
    """What the layers so far say."""

    source: bool = False
    arguments: bool = False
    files: bool = False


def later_prompts_win(ranks: Sequence[Sequence[Layer]]) -> list[Layer]:
    """Layers in order, lowest first, with what a higher rank makes pointless set to nothing.

    Args:
        ranks: layers of equal standing together (all `-o`, say): within one rank nothing falls away, so that a
            contradiction in one place is reported.
    """
    so_far, settled = _Prompts(), list[Layer]()
    for rank in ranks:
        settings = [setting for layer in rank for setting in layer.settings if setting.path[:1] == _DATA]
        settled += rank
        dropped = _dropped(so_far, settings)
        if dropped:
            settled[-1] = replace(settled[-1], settings=(*settled[-1].settings, *dropped))
        for setting in (*settings, *dropped):
            _follow(so_far, setting)
    return settled


def _dropped(lower: _Prompts, settings: Sequence[Setting]) -> list[Setting]:
    """Settings that take back what the ranks below say and this one replaces."""
    last = {setting.path: setting for setting in settings}
    source, train = last.get(_SOURCE), last.get(_TRAIN)
    said = {setting.path[:2] for setting in settings}
    if source is not None and _is_something(source):
        # The generator has its own held-out part, so validation files go as well.
        return [_nothing(path, source, []) for path in (_TRAIN, _VAL) if lower.files and path not in said]
    found = []
    ends = source
    if source is None and train is not None and _is_something(train) and lower.source:
        ends = train
        found.append(_nothing(_SOURCE, train, None))
    if ends is not None and lower.arguments and _ARGS not in said:
        found.append(_nothing(_ARGS, ends, None))
    return found


def _nothing(path: tuple[str, str], cause: Setting, value: object) -> Setting:
    origin = replace(cause.origin, label=f"{cause.origin.label} ({cause.path[-1]})", value=value)
    return Setting(path, value, origin)


def _follow(so_far: _Prompts, setting: Setting) -> None:
    something = _is_something(setting)
    if setting.path == _DATA and not something:
        so_far.source = so_far.arguments = so_far.files = False
    elif setting.path == _SOURCE:
        so_far.source = something
    elif setting.path == _ARGS:
        # An empty map merges; null and a removal clear.
        so_far.arguments = something or (so_far.arguments and setting.value == {})
    elif setting.path[:2] == _ARGS:
        so_far.arguments = so_far.arguments or something
    elif setting.path in (_TRAIN, _VAL):
        so_far.files = something or (setting.path == _VAL and so_far.files)


def _is_something(setting: Setting) -> bool:
    return setting.value is not REMOVE and bool(setting.value)
