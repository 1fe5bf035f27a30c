"""A launch script -> the launches of verl in it, with every override's place, and what is wrong with the script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from verlcli.config.context import Context
from verlcli.config.problems import Place, Problem, Severity
from verlcli.config.shell import Command as ShellCommand
from verlcli.config.shell import Launch, Script, ShellFinding, Word, read_script
from verlcli.config.verl.command import HydraLine, hydra_line, program_of
from verlcli.config.verl.entry import Chosen, Command, choose_entry
from verlcli.config.verl.read_hydra import settings_of_file
from verlcli.config.verl.run import CommandLine, ScriptFacts, Setting, Variable, VerlRun
from verlcli.config.verl.shell_codes import OTHER, SHELL_CODES
from verlcli.config.verl.words import place_at, read_word
from verlcli.errors import ConfigError

_PINNED = re.compile(r"verl(?:\[[\w,-]*\])?==(?P<version>\d+(?:\.\d+)+)")


def read_script_runs(path: str, text: str, context: Context) -> tuple[list[VerlRun], list[Problem]]:
    """Every launch of verl in a script, and the problems of the script itself.

    Nothing is executed: values that only a run can tell are `UNKNOWN` with the reason. A launch in two branches of the
    script comes twice. The keys themselves are checked elsewhere.

    Args:
        path: of the script, as the user named it.
        text: of the script.
        context: facts beside it; without a verl version there, one that the script installs counts.
    """
    script = read_script(text, path)
    reader = _Reader(path, script, context)
    runs = [run for launch in script.launches for run in reader.runs(launch)]
    problems = [_problem_of(path, finding) for finding in script.findings] + reader.problems
    if not runs and not any(problem.code in ("VRL331", "VRL332") for problem in problems):
        problems.append(_nothing(path))
    return runs, problems


def _nothing(path: str) -> Problem:
    message = "nothing in this script starts a trainer of verl, as far as it can be followed without running it"
    advice = "check the script that holds `python3 -m verl.trainer.main_ppo ...`"
    return Problem("VRL330", "warning", "", message, suggestion=advice).at(Place(path, 1, 1))


def _problem_of(path: str, finding: ShellFinding) -> Problem:
    code = SHELL_CODES.get(finding.kind, OTHER)
    problem = Problem(code, finding.severity, "", finding.message, suggestion=finding.suggestion)
    return problem.at(Place(path, finding.place.line, finding.place.column))


class _Reader:
    def __init__(self, path: str, script: Script, context: Context) -> None:
        self.path, self.context = path, context
        self.commands = tuple(_command(path, command) for command in script.commands)
        self.directives = {name: _variable(path, name, word) for name, word in script.directives.items()}
        self.problems: list[Problem] = []

    def runs(self, launch: Launch) -> Iterator[VerlRun]:
        """The launch as a launch of verl; nothing when it starts something else."""
        program = program_of(launch)
        line = hydra_line(program.arguments, self.path)
        readings = [(word, read_word(word, self.path, line.multirun)) for word in line.overrides]
        settings = tuple(reading.setting for _, reading in readings if reading.setting)
        chosen = choose_entry(self._command(program.module, line, settings))
        if chosen is None:
            return
        place = Place(self.path, launch.place.line, launch.place.column)
        if chosen.entry is not None:
            self.problems += [*line.problems, *(reading.problem for _, reading in readings if reading.problem)]
            # A word of which nothing is known may be any override.
            open_words = any(not reading.setting and not reading.problem for _, reading in readings)
            yield self._run(launch, line, chosen, settings, open_words or launch.takes_arguments)
        elif chosen.code:
            self._remark(chosen, place)

    def _command(self, module: str, line: HydraLine, settings: tuple[Setting, ...]) -> Command:
        from verlcli.facts.verl import DEFAULT_VERSION

        pinned = self.context.verl_version or self._installed()
        name = line.config_name.text if line.config_name else None
        groups = {setting.key: str(setting.value) for setting in settings if setting.key in ("model_engine", "engine")}
        keys = [setting.key for setting in settings]
        return Command(module, pinned or DEFAULT_VERSION, self.context.verl_version is not None, name, groups, keys)

    def _installed(self) -> str | None:
        """Version of verl that the script itself installs."""
        from verlcli.facts.verl.versions import nearest_version

        words = [word for command in self.commands for word in command.words if word]
        found = [match["version"] for word in words if (match := _PINNED.fullmatch(word))]
        return nearest_version(found[-1]) if found else None

    def _run(
        self, launch: Launch, line: HydraLine, chosen: Chosen, settings: tuple[Setting, ...], takes_arguments: bool
    ) -> VerlRun:
        place = Place(self.path, launch.place.line, launch.place.column)
        entry = chosen.entry
        assert entry is not None
        brought = self._config_file(line) if chosen.code == "VRL337" else None
        if brought is None and chosen.code:
            self._remark(chosen, place)
        return VerlRun(
            "script",
            entry.key_tree(),
            (*(brought or ()), *settings),
            place,
            {name: _variable(self.path, name, word) for name, word in launch.environment.items()},
            self.context,
            self.directives,
            takes_arguments,
            launch.condition,
            self._facts(launch),
            entry.entry,
            "" if brought is not None else chosen.unseen or _search_path(line, settings),
        )

    def _remark(self, chosen: Chosen, place: Place) -> None:
        severity: Severity = "note" if chosen.entry else "warning"
        self.problems.append(Problem(chosen.code, severity, "", chosen.remark).at(place))

    def _config_file(self, line: HydraLine) -> tuple[Setting, ...] | None:
        """Settings of the user's own config, when its file is on this machine."""
        name = line.config_name.text if line.config_name else None
        folders = [word.text for word in (line.config_path, line.config_dir) if word and word.text]
        for folder in folders:
            file = Path(self.path).parent / folder / f"{(name or '').removesuffix('.yaml')}.yaml"
            try:
                return settings_of_file(file)
            except ConfigError:
                continue
        return None

    def _facts(self, launch: Launch) -> ScriptFacts:
        words = tuple(word.text for word in launch.wrapper)
        wrapper = CommandLine(words, Place(self.path, launch.place.line, launch.place.column)) if words else None
        return ScriptFacts(launch.submitted, self._runtime_env(launch.runtime_env), wrapper, self.commands)

    def _runtime_env(self, options: Mapping[str, Word]) -> str | None:
        """The runtime environment as text: written in the script, or the content of the file that is named."""
        options = {name.lstrip("-"): word for name, word in options.items()}
        if "runtime-env-json" in options:
            return options["runtime-env-json"].text
        if "runtime-env" not in options:
            return ""
        name = options["runtime-env"].text
        try:
            return (Path(self.path).parent / name).read_text(encoding="utf-8")[: 1 << 16] if name else None
        except (OSError, ValueError):
            return None


def _search_path(line: HydraLine, settings: tuple[Setting, ...]) -> str:
    """What configs from other folders are called, which may add groups and keys; empty without any."""
    added = any(setting.key == "hydra.searchpath" for setting in settings)
    return "the configs on hydra.searchpath" if added else "the configs in --config-dir" if line.config_dir else ""


def _command(path: str, command: ShellCommand) -> CommandLine:
    words = tuple(word.text for word in command.words)
    return CommandLine(words, Place(path, command.place.line, command.place.column), command.condition)


def _variable(path: str, name: str, word: Word) -> Variable:
    return Variable(name, word.text, place_at(word, 0, path))
