"""Programs that a script starts: python launches, found behind whatever wraps them; other commands of interest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import dropwhile
from typing import TYPE_CHECKING

from verlcli.config.shell.broken_lines import lint_broken_lines
from verlcli.config.shell.lint import lint_assignment_with_spaces, lint_launch
from verlcli.config.shell.parts import joined
from verlcli.config.shell.printing import program_output
from verlcli.config.shell.source import Source
from verlcli.config.shell.types import Gap, Launch, Piece, Word
from verlcli.config.shell.world import Parts, Var, World

if TYPE_CHECKING:
    from verlcli.config.shell.call import Call
    from verlcli.config.shell.expand import Expander

_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?$")
_PYTHON_NAME = re.compile(r"PY(THON)?\w*|\w*PYTHON(_\w+)?$")
_STARTERS = frozenset(("torchrun", "deepspeed", "accelerate"))
_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_OF_BASH = frozenset(("exec", "time", "command", "builtin", "eval"))
_WRAPPERS = _OF_BASH | frozenset(
    [
        "nohup",
        "stdbuf",
        "env",
        "numactl",
        "timeout",
        "srun",
        "mpirun",
        "mpiexec",
        "uv",
        "poetry",
        "conda",
        "micromamba",
        "ray",
        "docker",
        "podman",
        "singularity",
        "apptainer",
        "sudo",
        "nice",
        "ionice",
        "taskset",
        "nsys",
        "ncu",
        "setsid",
        "unbuffer",
        "script",
        "kubectl",
        "ssh",
        "pixi",
        "hatch",
        "xvfb-run",
        "flock",
    ]
)
_OF_INTEREST = {"ray": ("start", "stop", "job"), "pip": ("install",), "pip3": ("install",), "uv": ("pip", "sync")}
_QUIET = frozenset(["mkdir", "rm", "cp", "mv", "sleep", "touch", "kill", "pkill", "chmod", "ln"])


def run_program(call: Call) -> list[World]:
    """Runs something that is neither a function nor a builtin: a launch, a wrapper, a string for another shell."""
    world, words = call.world, call.words
    name = base_name(words[0])
    world.status = "likely"
    if name in ("source", "."):
        return _sourced(call)
    if name == "eval":
        return _evaluated(call)
    found = find_python(words)
    if found is not None:
        _launched(call, found)
    elif (string := _shell_string(words)) is not None:
        _inner_shell(call, *string)
    elif _of_interest(words):
        call.record()
    elif lint_assignment_with_spaces(call):
        return [world]
    if name == "exec" and len(words) > 1:
        world.flow = "exit"
    _print(call, name)
    return [world]


def base_name(word: Word) -> str:
    """Name of a program without its folder; `python3` for `$PYTHON` without a value."""
    text = word.text
    if text is None:
        named = any(gap.variable and _PYTHON_NAME.fullmatch(gap.variable) for gap in word.gaps)
        return "python3" if named and not word.text_as_run else word.text_as_run.rpartition("/")[2]
    return text.rpartition("/")[2]


def unset_python(expander: Expander, at: int) -> list[Word]:
    """The word of a `$PYTHON` without a value, which vanishes to bash but is python where the launch works."""
    gap = expander.dropped[0] if expander.dropped else None
    named = gap is not None and gap.variable is not None and _PYTHON_NAME.fullmatch(gap.variable)
    return [Word(expander.source.place(at), (gap,))] if gap and named else []


def find_python(words: tuple[Word, ...]) -> int | None:
    """Index of the word that is python, torchrun or the like and runs a module or file; None if there is none."""
    at = 0
    if base_name(words[0]) in _WRAPPERS:
        at = _behind_wrappers(words)
    if at >= len(words):
        return None
    name = base_name(words[at])
    if name in _STARTERS:
        return at if name != "accelerate" or (at + 1 < len(words) and words[at + 1].text == "launch") else None
    return at if _PYTHON.match(name) and _runs_something(words[at + 1 :]) else None


def _behind_wrappers(words: tuple[Word, ...]) -> int:
    start = 1
    if base_name(words[0]) == "ray":
        start = next((number + 1 for number, word in enumerate(words) if word.text == "--"), 3)
    for number in range(start, len(words)):
        name = base_name(words[number])
        if _PYTHON.match(name) or name in _STARTERS:
            return number
        if name in _SHELLS:
            return len(words)
    return len(words)


def _runs_something(arguments: tuple[Word, ...]) -> bool:
    skip = False
    for word in arguments:
        text = word.text_as_run
        if skip:
            skip = False
        elif text in ("-X", "-W"):
            skip = True
        elif text in ("-c", "-", "-V", "--version", "-h", "--help"):
            return False
        elif text.startswith("-m") or not text.startswith("-"):
            return True
    return False


def _shell_string(words: tuple[Word, ...]) -> tuple[int, int] | None:
    """Indexes of the shell and of the string of statements in `bash -c '…'`, also behind wrappers."""
    if base_name(words[0]) not in _WRAPPERS | _SHELLS:
        return None
    shell = next((number for number, word in enumerate(words) if base_name(word) in _SHELLS), None)
    if shell is None:
        return None
    for number in range(shell + 1, len(words) - 1):
        text = words[number].text_as_run
        if re.fullmatch(r"-\w*c", text):
            return shell, number + 1
        if not text.startswith("-"):
            return None
    return None


def _inner_shell(call: Call, shell: int, string: int) -> None:
    """Statements of `bash -c`, in a world with the exported variables alone."""
    from verlcli.config.shell.statements import run_text

    outer = call.world
    exported = {name: variable for name, variable in outer.variables.items() if variable.exported}
    positional = tuple(word.parts for word in call.words[string + 2 :])
    inner = World(exported, positional=positional, conditions=outer.conditions)
    for name, word in _assigned(call, call.words[:shell]).items():
        inner.variables[name] = Var(word.parts, exported=True)
    source = Source.of_word(call.words[string])
    run_text(call.run.shell, source, 0, len(source.text), inner)


def _evaluated(call: Call) -> list[World]:
    from verlcli.config.shell.statements import run_text

    text = joined([word.parts for word in call.words[1:]], " ")
    source = Source.of_word(Word(call.words[0].place, text))
    return run_text(call.run.shell, source, 0, len(source.text), call.world)


def _sourced(call: Call) -> list[World]:
    from verlcli.config.shell.sourcing import run_sourced

    call.record()
    return run_sourced(call)


def _of_interest(words: tuple[Word, ...]) -> bool:
    name = base_name(words[0])
    second = words[1].text if len(words) > 1 else ""
    modules = [word.text for word in words[1:4]]
    return second in _OF_INTEREST.get(name, ()) or (bool(_PYTHON.match(name)) and modules[:2] == ["-m", "pip"])


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
    return code is not None and bool(_PYTHON.match(base_name(words[0]))) and not re.search("print|write", code)


def _assigned(call: Call, wrapper: tuple[Word, ...]) -> dict[str, Word]:
    """`X=1` in front of the command, and behind `env`."""
    place = call.expander.source.place
    given = {each.name: Word(place(each.value_at), call.expander.text(each.value)) for each in call.command.assignments}
    if any(base_name(word) == "env" for word in wrapper):
        for word in wrapper:
            name, equals, _ = word.text_as_run.partition("=")
            if equals and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                given[name] = Word(word.place_of(len(name) + 1), _behind(word, len(name) + 1))
    return given


def _behind(word: Word, count: int) -> Parts:
    """Parts of a word without its first characters."""
    parts: list[Piece | Gap] = []
    for part in word.parts:
        if isinstance(part, Gap) or count <= 0:
            parts.append(part)
            continue
        if len(part.text) > count:
            parts.append(Piece(part.text[count:], word.place_of(count), part.variable, part.via))
        count -= len(part.text)
    return tuple(parts)


def _variables(world: World, exported: bool) -> dict[str, Word]:
    return {
        name: Word(parts[0].place, parts)
        for name, variable in world.variables.items()
        if (variable.exported or not exported) and (parts := variable.scalar())
    }


def _launched(call: Call, at: int) -> None:
    shell, world, words = call.run.shell, call.world, call.words
    wrapper = tuple(words[:at])
    environment: Mapping[str, Word] = {**_variables(world, exported=True), **_assigned(call, wrapper)}
    gaps = [*call.expander.dropped, *(gap for word in words for gap in word.gaps)]
    submitted = len(wrapper) > 2 and base_name(wrapper[0]) == "ray" and wrapper[1].text == "job"
    launch = Launch(
        words=words[at:],
        place=call.expander.source.place(call.command.start),
        environment=environment,
        variables=_variables(world, exported=False),
        submitted=submitted,
        runtime_env=_options(wrapper) if submitted else {},
        piped_to=shell.piped_to,
        pipefail="pipefail" in world.options,
        in_background=shell.in_background,
        takes_arguments=any(gap.kind == "arguments" for gap in gaps),
        wrapper=tuple(dropwhile(lambda word: base_name(word) in _OF_BASH, wrapper)),
    )
    shell.launches.append((world.conditions, launch))
    lint_launch(call, launch)
    lint_broken_lines(call)


def _options(words: tuple[Word, ...]) -> dict[str, Word]:
    """Long options of `ray job submit`, with the word that is the value of each."""
    options: dict[str, Word] = {}
    for number, word in enumerate(words):
        name, equals, _ = word.text_as_run.partition("=")
        if not name.startswith("--") or name == "--":
            continue
        if equals:
            options[name[2:]] = Word(word.place_of(len(name) + 1), _behind(word, len(name) + 1), word.quoted)
        elif number + 1 < len(words) and not words[number + 1].text_as_run.startswith("-"):
            options[name[2:]] = words[number + 1]
        else:
            options[name[2:]] = Word(word.place, ())
    return options
