"""A launch script -> the launches of verl in it, with every override's place, and what is wrong with the script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from verlcli.config.context import Context
from verlcli.config.problems import Place, Problem, Severity
from verlcli.config.shell import Command as ShellCommand
from verlcli.config.shell import Launch, Script, ShellFinding, Word, read_script
from verlcli.config.verl.answers import Answers
from verlcli.config.verl.command import HydraLine, hydra_line, program_of
from verlcli.config.verl.entry import Chosen, Command, choose_entry
from verlcli.config.verl.launch_checks import launch_problems
from verlcli.config.verl.read_script_config import OwnConfig, config_folders, own_config
from verlcli.config.verl.run import CommandLine, ScriptFacts, Setting, Variable, VerlRun
from verlcli.config.verl.shell_codes import OTHER, SHELL_CODES
from verlcli.config.verl.tokens import ValueSyntaxError
from verlcli.config.verl.values import parse_value
from verlcli.config.verl.words import Reading, place_at, read_word

if TYPE_CHECKING:
    from verlcli.facts.verl import EntryPoint

_REFERENCE = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|\$\w+|`[^`]*`|…")  # the last as findings shorten them
# `python3 -m verl.trainer.main_ppo`, not behind a `#`.
_ALIKE = re.compile(r"^[^#\n]*?((?:-m\s+|/)verl[./][\w./]*\bmain_\w+)", re.MULTILINE)
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
    reader.answers.several = len(runs) > 1
    findings = [finding for finding in script.findings if not _reads_alike(finding)]
    problems = [_problem_of(path, finding) for finding in findings] + reader.problems
    # Of a script that bash cannot read to its end, that is all there is to say.
    if not runs and not script.errors and not any(problem.code in ("VRL331", "VRL332") for problem in problems):
        problems.append(_nothing(path, text))
    return runs, problems


def _nothing(path: str, text: str) -> Problem:
    found = _ALIKE.search(text)
    if found is None:
        message = "nothing in this script starts a trainer of verl, as far as it can be followed without running it"
        advice = "check the script that holds `python3 -m verl.trainer.main_ppo ...`"
        return Problem("VRL330", "warning", "", message, suggestion=advice).at(Place(path, 1, 1))
    line = text.count("\n", 0, found.start(1)) + 1
    message = f"line {line} looks like a launch of verl, but is not read: it is no command that this script surely runs"
    advice = "check the launch in a script of its own"
    column = found.start(1) - text.rfind("\n", 0, found.start(1))
    return Problem("VRL330", "warning", "", message, suggestion=advice).at(Place(path, line, column))


def _problem_of(path: str, finding: ShellFinding) -> Problem:
    code = SHELL_CODES.get(finding.kind, OTHER)
    problem = Problem(code, _severity(finding), "", finding.message, suggestion=finding.suggestion)
    return problem.at(Place(path, finding.place.line, finding.place.column))


def _reads_alike(finding: ShellFinding) -> bool:
    """Whether Hydra reads a value without its inner quotes as it would with them: `['console']` is `[console]`."""
    if not finding.meant:
        return False
    meant, received = (_REFERENCE.sub("x", text).partition("=")[2] for text in (finding.meant, finding.received))
    try:
        # By their spelling, in which 1 is neither 1.0 nor true.
        return repr(parse_value(meant)) == repr(parse_value(received))
    except ValueSyntaxError:
        return False


def _severity(finding: ShellFinding) -> Severity:
    """Whoever starts the script may set a variable that nobody sets in it, but hardly one that is misspelt."""
    if finding.kind != "unset" or finding.severity != "error":
        return finding.severity
    return "error" if (finding.suggestion or "").startswith("did you mean") else "warning"


class _Reader:
    def __init__(self, path: str, script: Script, context: Context) -> None:
        self.path, self.context = path, context
        self.commands = tuple(_command(path, command) for command in script.commands)
        self.problems: list[Problem] = []
        self.answers, self.readings = Answers(), dict[tuple[int, bool], tuple[Word, Reading]]()
        self.spaced = {find.place.line for find in script.findings if find.kind == "spaces_around_equals"}

    def runs(self, launch: Launch) -> Iterator[VerlRun]:
        """The launch as a launch of verl, words that it lost included; nothing when it starts something else."""
        program = program_of(launch)
        line = hydra_line((*program.arguments, *launch.lost), self.path)
        words = [word for word in line.overrides if not self._cut_off(word)]
        readings = [(word, self._read(word, line.multirun)) for word in words]
        settings = tuple(reading.setting for _, reading in readings if reading.setting)
        chosen = choose_entry(self._command(program.module, line, settings))
        if chosen is None:
            return
        place = Place(self.path, launch.place.line, launch.place.column)
        if chosen.entry is not None:
            self.problems += [*line.problems, *(reading.problem for _, reading in readings if reading.problem)]
            self.problems += launch_problems(self.path, launch, line, chosen)
            # A word of which nothing is known may be any override; one that is a blank is none.
            open_words = any(word.gaps and not reading.setting and not reading.problem for word, reading in readings)
            more = open_words or launch.takes_arguments
            yield self._run(launch, line, chosen, settings, more)
        elif chosen.code:
            self._remark(chosen, place)

    def _read(self, word: Word, multirun: bool) -> Reading:
        """The word as an override; launches share words, and each is kept so that no other takes its number."""
        key = (id(word), multirun)
        if key not in self.readings:
            self.readings[key] = word, read_word(word, self.path, multirun)
        return self.readings[key][1]

    def _cut_off(self, word: Word) -> bool:
        """Whether `key = value` left a word that is no override, which is reported as such."""
        return word.place.line in self.spaced and "=" not in word.text_as_run.strip("=")

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
        place, module = Place(self.path, launch.place.line, launch.place.column), program_of(launch).module
        entry, unseen = chosen.entry, chosen.unseen or _search_path(line, settings)
        assert entry is not None
        own = own_config(self.path, line, module) if chosen.code == "VRL337" else None
        if own is not None:
            entry, unseen = _built_on(entry, own)
        elif chosen.code:
            self._remark(chosen, place, doubtful=chosen.code == "VRL337" and self._is_missing(line, module))
        return VerlRun(
            "script",
            entry.key_tree(),
            (*(own.settings if own else ()), *settings),
            place,
            {name: _variable(self.path, name, word) for name, word in launch.environment.items()},
            self.context,
            {name: _variable(self.path, name, word) for name, word in launch.directives.items()},
            takes_arguments,
            launch.condition,
            self._facts(launch),
            module if chosen.code == "VRL338" else entry.entry,
            unseen,
            answers=self.answers,
        )

    def _remark(self, chosen: Chosen, place: Place, doubtful: bool = False) -> None:
        severity: Severity = chosen.severity or ("note" if chosen.entry and not doubtful else "warning")
        self.problems.append(Problem(chosen.code, severity, "", chosen.remark).at(place))

    def _is_missing(self, line: HydraLine, module: str) -> bool:
        """Whether the config should be in a folder that is known: verl's own, or one that is here."""
        is_own = line.config_path is None and line.config_dir is None
        return is_own or any(config_folders(self.path, line, module))

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


def _built_on(entry: EntryPoint, own: OwnConfig) -> tuple[EntryPoint, str]:
    """The entry point with the config of verl that a user's own takes in, and what else it takes in."""
    from verlcli.facts.verl import entry_of_module

    def found(name: str) -> EntryPoint | None:
        modules = (entry.module, "verl.trainer.main_ppo")
        return next(filter(None, (entry_of_module(module, entry.version, name) for module in modules)), None)

    bases = {name: found(name) for name in own.bases}
    other = next((name for name, base in bases.items() if base is None), None)
    base = next(filter(None, bases.values()), entry)
    program = replace(base, module=entry.module, entry=entry.entry)  # another one's keys, but still this program
    return program.with_groups(own.groups), f"the config '{other}'" if other else ""


def _search_path(line: HydraLine, settings: tuple[Setting, ...]) -> str:
    """What configs from other folders are called, which may add groups and keys; empty without any."""
    added = any(setting.key == "hydra.searchpath" for setting in settings)
    return "the configs on hydra.searchpath" if added else "the configs in --config-dir" if line.config_dir else ""


def _command(path: str, command: ShellCommand) -> CommandLine:
    words = tuple(word.text for word in command.words)
    return CommandLine(words, Place(path, command.place.line, command.place.column), command.condition)


def _variable(path: str, name: str, word: Word) -> Variable:
    return Variable(name, word.text, place_at(word, 0, path))
