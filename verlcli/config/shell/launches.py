"""Programs that a script starts: python launches, found behind whatever wraps them; other commands of interest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

from verlcli.config.shell.handed import run_evaluated, run_handed
from verlcli.config.shell.lint import (
    lint_assignment_with_spaces,
    lint_broken_lines,
    lint_launch,
    lint_spaces,
)
from verlcli.config.shell.lint_words import lint_open_words
from verlcli.config.shell.parts import shown
from verlcli.config.shell.programs import OF_BASH, PYTHON, assigned, base_name, behind, find_python, with_input
from verlcli.config.shell.source import Source
from verlcli.config.shell.streams import program_output
from verlcli.config.shell.types import Launch, Place, Word
from verlcli.config.shell.world import World

if TYPE_CHECKING:
    from verlcli.config.shell.shell import Call

_OF_INTEREST = {"ray": ("start", "stop", "job"), "pip": ("install",), "pip3": ("install",), "uv": ("pip", "sync")}
# Files that set up a tool and not the launch.
_OF_TOOLS = re.compile(
    r"(?:^|/)(?:conda\.sh|mamba\.sh|activate|\.bashrc|\.bash_profile|\.profile|\.zshrc|profile|modules?\.sh|bash|lmod\.sh"
    r"|set_?(?:env|vars)\.sh)$"
)
_QUIET = frozenset(["mkdir", "rm", "cp", "mv", "sleep", "touch", "kill", "pkill", "chmod", "ln"])
_LARGEST = 1_000_000  # bytes
_VARIABLES_A_STEP = 8  # that a launch takes with it for the work of one step


def run_program(call: Call) -> list[World]:
    """Runs something that is neither a function nor a builtin: a launch, a wrapper, a string for another shell."""
    world, words = call.world, call.words
    name = base_name(words[0])
    world.status = "likely"
    if name in ("source", "."):
        call.record()
        return _sourced(call)
    if name == "eval":
        return run_evaluated(call)
    found = find_python(words)
    if found is not None and (installed := _installing(words[found:])):
        replace(call, words=installed).record()
    elif found is not None:
        _launched(call, found)
    elif run_handed(call):
        pass
    elif _of_interest(words):
        call.record()
    elif lint_assignment_with_spaces(call):
        return [world]
    if name == "exec" and len(words) > 1:
        world.flow = "exit"
    _print(call, name)
    return [world]


def _installing(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """`pip install …` of `python3 -m pip install …`; nothing for other modules."""
    return words[2:] if len(words) > 2 and [word.text for word in words[1:3]] == ["-m", "pip"] else ()


def _of_interest(words: tuple[Word, ...]) -> bool:
    name = base_name(words[0])
    second = words[1].text if len(words) > 1 else ""
    if second in _OF_INTEREST.get(name, ()):
        return True
    # Slurm, containers and ssh start Ray as well: `srun … ray start --head`, `ssh node "ray start …"`.
    return "ray start" in " ".join(word.text_as_run for word in words)


def _print(call: Call, name: str) -> None:
    if call.world.output is None or name in _QUIET or _silent_python(call.words):
        return
    place = call.expander.source.place(call.command.start)
    given = next((each for each in call.command.redirects if each.op in ("<<", "<<<")), None)
    if name == "cat" and len(call.words) == 1 and given:
        call.world.printed(call.expander.text(given.target))
    else:
        call.world.printed(program_output(name, call.words[1:], place))


def _silent_python(words: tuple[Word, ...]) -> bool:
    """`python3 -c 'import x'`, which only tells by its status."""
    code = words[2].text if len(words) == 3 and words[1].text == "-c" else None
    return code is not None and bool(PYTHON.match(base_name(words[0]))) and not re.search("print|write", code)


def _variables(world: World, exported: bool, place: Place) -> dict[str, Word]:
    """Variables by name; one that is exported empty, as to hide all GPUs, stands at `place`."""
    return {
        name: Word(parts[0].place if parts else place, parts)
        for name, variable in world.variables.items()
        if (variable.exported or not exported) and ((parts := variable.scalar()) or exported)
    }


def _launched(call: Call, at: int) -> None:
    shell, world, words = call.run.shell, call.world, call.words
    shell.charge(len(world.variables) // _VARIABLES_A_STEP)
    wrapper = (*shell.around, *words[:at])
    place = call.expander.source.place(call.command.start)
    environment: Mapping[str, Word] = {**_variables(world, True, place), **assigned(call, wrapper)}
    started, below = with_input(words, at), lint_broken_lines(call)
    lost = (*lint_spaces(call, started), *(word for raw in below for word in call.expander.words(raw)))
    gaps = [*call.expander.dropped, *(gap for word in (*words[:at], *started, *lost) for gap in word.gaps)]
    submitted = len(wrapper) > 2 and base_name(wrapper[0]) == "ray" and wrapper[1].text == "job"
    launch = Launch(
        words=started,
        place=place,
        environment=environment,
        variables=_variables(world, False, place),
        submitted=submitted,
        runtime_env=_options(wrapper) if submitted else {},
        piped_to=shell.piped_to,
        pipefail="pipefail" in world.options,
        in_background=shell.in_background,
        takes_arguments=any(gap.kind == "arguments" for gap in gaps) or lint_open_words(call, words, at),
        wrapper=tuple(dropwhile(lambda word: base_name(word) in OF_BASH, wrapper)),
        lost=lost,
        directives=shell.directives,
        switched=world.switched,
    )
    shell.launches.append((world.conditions, launch))
    lint_launch(call, launch, below)


def _options(words: tuple[Word, ...]) -> dict[str, Word]:
    """Long options of `ray job submit`, with the word that is the value of each."""
    options: dict[str, Word] = {}
    for number, word in enumerate(words):
        name, equals, _ = word.text_as_run.partition("=")
        if not name.startswith("--") or name == "--":
            continue
        if equals:
            options[name[2:]] = Word(word.place_of(len(name) + 1), behind(word, len(name) + 1), word.quoted)
        elif number + 1 < len(words) and not words[number + 1].text_as_run.startswith("-"):
            options[name[2:]] = words[number + 1]
        else:
            options[name[2:]] = Word(word.place, ())
    return options


def _sourced(call: Call) -> list[World]:
    """Runs the file in the same world; all that is in it has the place of the `source` command."""
    from verlcli.config.shell.statements import run_text

    shell, world = call.run.shell, call.world
    place = call.expander.source.place(call.command.start)
    path = _path(call)
    text = _text(path) if path else None
    if path is None or text is None or path in shell.sourced:
        named = " ".join(shown(word.parts) for word in call.words[1:2]) or "another file"
        if _OF_TOOLS.search(named):
            return [world]
        world.unread = named
        message = f"`source {named}` is not read: what it sets is not known here"
        shell.find("sourced", place, message, "put what the launch needs into this script", "note")
        return [world]
    shell.sourced.add(path)
    source = Source.of_file(text, place)
    worlds = run_text(shell, source, 0, len(source.text), world)
    shell.sourced.discard(path)
    for each in worlds:
        each.flow = "" if each.flow == "return" else each.flow
    return worlds


def _path(call: Call) -> Path | None:
    """The file, looked for beside the script: `$(dirname "$0")/x.sh` means that folder as well."""
    folder = call.run.shell.folder
    if folder is None or len(call.words) < 2:
        return None
    word = call.words[1]
    text = word.text_as_run.lstrip("/") if word.gaps else word.text_as_run
    path = folder / text
    return path.resolve() if text and path.is_file() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", errors="replace") if path.stat().st_size <= _LARGEST else None
    except OSError:
        return None
