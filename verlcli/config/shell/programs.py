"""Which of a command's words is the program that counts: python or a shell, behind whatever wraps it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from verlcli.config.shell.parts import Parts
from verlcli.config.shell.types import Gap, Piece, Word

if TYPE_CHECKING:
    from verlcli.config.shell.expand import Expander
    from verlcli.config.shell.shell import Call

PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?$")
_PYTHON_NAME = re.compile(r"PY(THON)?\w*|\w*PYTHON(_\w+)?$")
_STARTERS = frozenset(("torchrun", "deepspeed", "accelerate"))
SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
OF_BASH = frozenset(("exec", "time", "command", "builtin", "eval"))
_WRAPPERS = OF_BASH | frozenset(
    (
        "nohup", "stdbuf", "env", "numactl", "timeout", "srun", "mpirun", "mpiexec", "uv", "poetry", "conda",
        "micromamba", "ray", "docker", "podman", "singularity", "apptainer", "sudo", "nice", "ionice", "taskset",
        "nsys", "ncu", "setsid", "unbuffer", "script", "kubectl", "ssh", "pixi", "hatch", "xvfb-run", "flock", "xargs",
    )
)  # fmt: skip


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
    return at if PYTHON.match(name) and _runs_something(words[at + 1 :]) else None


def _behind_wrappers(words: tuple[Word, ...]) -> int:
    start = 1
    if base_name(words[0]) == "ray":
        start = next((number + 1 for number, word in enumerate(words) if word.text == "--"), 3)
    for number in range(start, len(words)):
        name = base_name(words[number])
        if PYTHON.match(name) or name in _STARTERS:
            return number
        if name in SHELLS:
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


def shell_string(words: tuple[Word, ...]) -> tuple[int, int] | None:
    """Indexes of the shell and of the string of statements in `bash -c '…'`, also behind wrappers."""
    if base_name(words[0]) not in _WRAPPERS | SHELLS:
        return None
    shell = next((number for number, word in enumerate(words) if base_name(word) in SHELLS), None)
    if shell is None:
        return None
    for number in range(shell + 1, len(words) - 1):
        text = words[number].text_as_run
        if re.fullmatch(r"-\w*c", text):
            return shell, number + 1
        if not text.startswith("-"):
            return None
    return None


def assigned(call: Call, wrapper: Sequence[Word]) -> dict[str, Word]:
    """`X=1` in front of the command, and behind `env`."""
    place = call.expander.source.place
    given = {each.name: Word(place(each.value_at), call.expander.text(each.value)) for each in call.command.assignments}
    if any(base_name(word) == "env" for word in wrapper):
        for word in wrapper:
            name, equals, _ = word.text_as_run.partition("=")
            if equals and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                given[name] = Word(word.place_of(len(name) + 1), behind(word, len(name) + 1))
    return given


def behind(word: Word, count: int) -> Parts:
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


def with_input(words: tuple[Word, ...], at: int) -> tuple[Word, ...]:
    """The words behind `at`, where the mark of `xargs -I {}` stands for what xargs reads."""
    texts = [word.text_as_run for word in words[:at]]
    marks = [(text[2:] or follower) for text, follower in pairwise([*texts, ""]) if text.startswith("-I")]
    if not marks or not any(base_name(word) == "xargs" for word in words[:at]):
        return words[at:]
    return tuple(Word(word.place, _without(word.parts, marks[0] or "{}"), word.quoted) for word in words[at:])


def _without(parts: Parts, mark: str) -> Parts:
    """The parts with a gap in the place of every `mark`."""
    out: list[Piece | Gap] = []
    for part in parts:
        texts = part.text.split(mark) if isinstance(part, Piece) else []
        if len(texts) < 2 or not isinstance(part, Piece):
            out.append(part)
            continue
        for number, text in enumerate(texts):
            out += [Gap("what xargs reads", part.place, None, "command")] if number else []
            out += [replace(part, text=text)] if text else []
    return tuple(out)
