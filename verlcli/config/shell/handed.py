"""Statements that a command hands to another shell: `bash -c`, `eval`, `sbatch <<EOF`, `ssh host "…"`, a new file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from verlcli.config.shell.items import Redirect
from verlcli.config.shell.parts import Parts, joined, text_as_run
from verlcli.config.shell.programs import SHELLS, assigned, base_name, behind, shell_string
from verlcli.config.shell.slurm import read_directives, slurm_variables
from verlcli.config.shell.source import Source
from verlcli.config.shell.types import Word
from verlcli.config.shell.world import Var, World

if TYPE_CHECKING:
    from verlcli.config.shell.shell import Call, Shell

_SCRIPT = re.compile(r"\.(?:sh|bash|slurm|sbatch|job|zsh)$")
_SHEBANG = re.compile(r"#!.*sh\b")
_STARTS = re.compile(r"\bpython[\d.]*\s|\b(?:torchrun|accelerate|deepspeed)\s")
_SSH_VALUES = frozenset("BbcDEeFIiJLlmOopQRSWw")  # options of ssh that take a value
# What hands its own input on to the shell behind it.
_HANDING = frozenset(("ssh", "srun", "sudo", "env", "nohup", "exec", "docker", "podman", "kubectl"))
_INPUT = ("<<", "<<<")


def run_handed(call: Call) -> bool:
    """Reads what the command hands to another shell, in a world with the exported variables; False if it does not."""
    words, name = call.words, base_name(call.words[0])
    if (string := shell_string(words)) is not None:
        shell, at = string
        _run(call, words[at], words[:shell], words[at + 2 :])
    elif name == "sbatch" and (wrapped := _wrapped(words)) is not None:
        _run(call, wrapped, words[:1])
    elif (given := _given(call.command.redirects)) and _reads_input(call, name):
        _run(call, _body(call, given), words, _behind_dashes(words), job="sbatch" in (name, call.run.shell.piped_to))
    elif given and (file := _written_to(call, name)):
        _remember(call, file, _body(call, given))
    elif name == "ssh" and (rest := _behind_host(words)):
        said = Word(rest[0].place, joined([word.parts for word in rest], " "))
        if not _STARTS.search(said.text_as_run):
            return False
        _run(call, said, words[: len(words) - len(rest)], remote=True)
    else:
        return _run_written(call, name)
    return True


def run_evaluated(call: Call) -> list[World]:
    """`eval`: the words, joined, are statements of this very shell."""
    from verlcli.config.shell.statements import run_text

    text = joined([word.parts for word in call.words[1:]], " ")
    source = Source.of_word(Word(call.words[0].place, text))
    return run_text(call.run.shell, source, 0, len(source.text), call.world)


def run_unstarted(shell: Shell) -> None:
    """Reads the scripts that this one wrote and did not start itself: somebody will."""
    for file, (word, world) in list(shell.written.items()):
        if file not in shell.started:
            _start(shell, file, word, world, positional=None)


def _run(
    call: Call,
    word: Word,
    around: Sequence[Word],
    arguments: Sequence[Word] = (),
    remote: bool = False,
    job: bool = False,
) -> None:
    """Runs a word as statements; `remote` where the exported variables do not reach, `job` where Slurm sets some."""
    inner = _exported(call.world, remote)
    inner.positional = tuple(each.parts for each in arguments)
    for name, value in assigned(call, around).items():
        inner.variables[name] = Var(value.parts, exported=True)
    _run_in(call.run.shell, word, inner, () if base_name(call.words[0]) == "cat" else around, job)


def _run_in(shell: Shell, word: Word, world: World, around: Sequence[Word], job: bool) -> None:
    from verlcli.config.shell.statements import run_text

    source = Source.of_word(word)
    before = shell.around, shell.directives
    shell.around = (*shell.around, *around)
    if job and (directives := read_directives(source)):
        shell.directives = directives
        world.variables.update(slurm_variables(directives))
    run_text(shell, source, 0, len(source.text), world)
    shell.around, shell.directives = before


def _exported(world: World, remote: bool = False) -> World:
    exported = {name: variable for name, variable in world.variables.items() if variable.exported and not remote}
    return World(exported, positional=(), conditions=world.conditions, unread=world.unread)


def _given(redirects: Sequence[Redirect]) -> Redirect | None:
    return next((each for each in redirects if each.op in _INPUT), None)


def _body(call: Call, given: Redirect) -> Word:
    return Word(call.expander.source.place(given.at), call.expander.text(given.target))


def _wrapped(words: Sequence[Word]) -> Word | None:
    """The text behind `sbatch --wrap`."""
    for number, word in enumerate(words):
        text = word.text_as_run
        if text.startswith("--wrap="):
            return Word(word.place_of(len("--wrap=")), behind(word, len("--wrap=")), word.quoted)
        if text == "--wrap" and number + 1 < len(words):
            return words[number + 1]
    return None


def _reads_input(call: Call, name: str) -> bool:
    """Whether the command takes its statements from what is given to it: `bash`, `srun bash -s`, `ssh host`."""
    words = call.words
    if name == "cat":
        return len(words) == 1 and (call.run.shell.piped_to or "") in SHELLS | {"sbatch", "ssh"}
    if name == "sbatch":
        return all(word.text_as_run.startswith("-") for word in words[1:])
    if name == "ssh" and not _behind_host(words):
        return True
    shell = next((number for number, word in enumerate(words) if base_name(word) in SHELLS), None)
    if shell is None or (shell and name not in _HANDING):
        return False
    rest = [word.text_as_run for word in words[shell + 1 :]]
    return "-s" in rest or all(text.startswith("-") for text in rest)


def _behind_dashes(words: Sequence[Word]) -> Sequence[Word]:
    """Arguments in `bash -s -- a b`."""
    at = next((number for number, word in enumerate(words) if word.text_as_run == "-s"), len(words))
    rest = words[at + 1 :]
    return rest[1:] if rest and rest[0].text_as_run == "--" else rest


def _behind_host(words: Sequence[Word]) -> Sequence[Word]:
    """Words of `ssh` behind the host."""
    at = 1
    while at < len(words) and (text := words[at].text_as_run).startswith("-"):
        at += 2 if len(text) == 2 and text[1] in _SSH_VALUES else 1
    return words[at + 1 :]


def _written_to(call: Call, name: str) -> str:
    """The file that a here-document is written to by `cat > FILE` or `tee FILE`; empty for other commands."""
    if name == "tee" and len(call.words) > 1:
        return call.words[-1].text_as_run
    target = next((each.target for each in call.command.redirects if each.op in (">", ">|")), None)
    if name != "cat" or len(call.words) > 1 or target is None:
        return ""
    return text_as_run(call.expander.text(target))


def _remember(call: Call, file: str, word: Word) -> None:
    if _SCRIPT.search(file) or _SHEBANG.match(word.text_as_run):
        call.run.shell.written[_plain(file)] = (word, _exported(call.world))


def _plain(file: str) -> str:
    return file.rpartition("/")[2]


def _run_written(call: Call, name: str) -> bool:
    """Runs a file that this script wrote: `sbatch job.sh`, `bash job.sh`, `./job.sh`."""
    starts = name in SHELLS | {"sbatch", "srun", "exec", "nohup", "chmod"}
    written = call.run.shell.written
    for number, word in enumerate(call.words if starts else call.words[:1]):
        file = _plain(word.text_as_run)
        if file in written and name != "chmod":
            said, _ = written[file]
            arguments = tuple(each.parts for each in call.words[number + 1 :])
            _start(call.run.shell, file, said, _exported(call.world), arguments)
            return True
    return False


def _start(shell: Shell, file: str, word: Word, world: World, positional: tuple[Parts, ...] | None) -> None:
    shell.started.add(file)
    world.positional = positional
    _run_in(shell, word, world, (), job=True)
