"""What somebody wrote about one launch of verl, as data: settings, variables, and the script around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from verlcli.config.problems import Place
from verlcli.config.quick import dataclass

UNKNOWN: Any = object()  # value of a setting that the text alone does not decide
Prefix = Literal["", "+", "++", "~"]
Source = Literal["script", "hydra", "config"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One Hydra key that somebody set.

    Attributes:
        key: dotted verl key without its prefix.
        value: parsed; `UNKNOWN` when a part of it is known at run time only.
        place: of the key, or of its prefix if there is one.
        value_place: where the value's text stands: the line of the variable that it came through.
        prefix: Hydra's `+`, `++` or `~`.
        raw: the value as Hydra receives it.
        written: the key as the user wrote it: the same, or a key of ours that was translated.
        variable: shell variable that the value came through.
        reason: why the value is not known, or which part of a path is not: the value then shows it as `$HOME/x`.
        via: shell variable or array that the whole override came through, key and all.
        inside: a mapping that was set as a whole has this key in it, so that it cannot be changed alone.
        default: whoever starts the script may choose another value: `${NNODES:-2}`.
    """

    key: str
    value: Any
    place: Place
    value_place: Place
    prefix: Prefix = ""
    raw: str = ""
    written: str = ""
    variable: str | None = None
    reason: str = ""
    via: str | None = None
    inside: bool = False
    default: bool = False


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Another command of the script, such as `ray start`; a word is None when it is known at run time only."""

    words: tuple[str | None, ...]
    place: Place
    condition: str = ""

    def option(self, *names: str) -> str | None:
        """Value of the first of the options `names` that stands in it, as `--name=value` or `--name value`."""
        for word, following in zip(self.words, (*self.words[1:], None), strict=True):
            name, equals, value = (word or "").partition("=")
            if name in names:
                return value if equals else following
        return None


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """What stands around a launch in its script.

    Attributes:
        submitted: by `ray job submit`, so that exported variables stay behind.
        runtime_env: text of its `--runtime-env` or `--runtime-env-json`; None without one, or when it is not known.
        wrapper: words before python, such as `srun --nodes=2`.
        commands: other commands of interest: `ray start`, `pip install`, `cd`.
    """

    submitted: bool = False
    runtime_env: str | None = None
    wrapper: CommandLine | None = None
    commands: tuple[CommandLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable of the launched process; `value` is None when it is known at run time only."""

    name: str
    value: str | None
    place: Place


def leaves(setting: Setting) -> Iterator[Setting]:
    """A setting, and for a mapping each key inside it: Hydra merges it key by key."""
    yield setting
    if isinstance(setting.value, dict):
        for name, value in setting.value.items():
            written = f"{setting.written}.{name}" if setting.written else ""
            yield from leaves(replace(setting, key=f"{setting.key}.{name}", value=value, written=written, inside=True))
