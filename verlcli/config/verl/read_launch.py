"""A file of any kind that starts verl -> the one launch of the trainer that is meant."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from verlcli.config.context import Context
from verlcli.config.loader import load_text
from verlcli.config.verl.kind import kind_of
from verlcli.config.verl.run import VerlRun
from verlcli.config.verl.words import sweep_values
from verlcli.errors import ConfigError

ENTRY = "main_ppo"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of verl's trainer.

    Attributes:
        run: what it says.
        number: which one it is, from the top, counting from 1.
        total: launches of the trainer in the file.
        kind: `script` or `hydra`.
    """

    run: VerlRun
    number: int
    total: int
    kind: str


def read_launch(path: str, number: int | None = None, context: Context | None = None) -> Launch:
    """The launch `number` of a script, by default the last line's, or the one that a Hydra config describes.

    Args:
        path: `-` reads stdin.
        number: from the top, counting from 1.

    Raises:
        ConfigError: the file cannot be read, starts no trainer of verl, another trainer than `main_ppo`, has no such
            launch, or varies a key by `--multirun`.
    """
    name, text = ("<stdin>", sys.stdin.read()) if path == "-" else (path, _text(path))
    kind = kind_of(name, text)
    if kind == "ours":
        load_text(text, name)  # what cannot be read at all is no config either
        fix = "it needs no import: `verl plan FILE --emit verl` prints verl's command line"
        raise ConfigError("is a config of this program already", where=name, fix=fix)
    runs = _runs(name, text, kind, context or Context())
    trainers = [run for run in runs if (run.entry or run.tree.entry) == ENTRY]
    if not trainers:
        raise _nothing(name, runs)
    chosen = _main(trainers) if number is None else number
    if not 1 <= chosen <= len(trainers):
        lines = "; ".join(f"{index} in line {described(run)}" for index, run in enumerate(trainers, start=1))
        raise ConfigError(f"no launch {chosen}", where=name, fix=f"choose one of: {lines}")
    _one_run(trainers[chosen - 1])
    return Launch(trainers[chosen - 1], chosen, len(trainers), kind)


def _main(trainers: list[VerlRun]) -> int:
    """Number of the last launch; of those that one line makes in several branches the first, which needs the least."""
    line = trainers[-1].place.line
    return next(number for number, run in enumerate(trainers, start=1) if run.place.line == line)


def described(run: VerlRun) -> str:
    """Line of a launch, with the branch of the script that it stands in."""
    return f"{run.place.line}{f' ({run.condition})' if run.condition else ''}"


def _one_run(run: VerlRun) -> None:
    """A config is one run: a sweep has none that could be taken for all.

    Raises:
        ConfigError: a key of the launch stands for several values.
    """
    for setting in run.settings if run.source == "script" else ():
        if setting.place.file == run.place.file and not setting.inside and sweep_values(setting):
            message = f"starts several runs, with {setting.key}={setting.raw[:60]}, and a config is one run"
            fix = "write one value for it"
            raise ConfigError(message, where=f"{run.place.file}:{setting.place.line}", fix=fix)


def _runs(name: str, text: str, kind: str, context: Context) -> list[VerlRun]:
    if kind == "script":
        from verlcli.config.verl.read_script import read_script_runs

        return read_script_runs(name, text, context)[0]
    from verlcli.config.verl.read_hydra import read_hydra_run

    # A part of a config is open to more keys, but no script hands arguments on.
    return [replace(read_hydra_run(name, text, context)[0], takes_arguments=False)]


def _nothing(name: str, runs: list[VerlRun]) -> ConfigError:
    others = sorted({run.entry or run.tree.entry for run in runs})
    if others:
        message = f"starts {', '.join(others)}, but only verl's trainer {ENTRY} can be written as a config"
        return ConfigError(message, where=name, fix="`verl validate` checks it as it is")
    message = "nothing in it starts verl's trainer, as far as it can be followed without running it"
    return ConfigError(message, where=name, fix="name the script that runs `python3 -m verl.trainer.main_ppo ...`")


def _text(path: str) -> str:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"cannot be read: {reason}", where=path, fix="check the path") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError("larger than 1 MiB", where=path, fix="is this really the launch script?")
    if b"\0" in data:
        raise ConfigError("a binary file, not text", where=path, fix="is this really the launch script?")
    return data.decode("utf-8-sig", errors="replace")  # comments may be in any encoding
