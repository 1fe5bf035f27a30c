"""Launches as we read them -> Hydra's verdict, word by word with its lines; see `verl_scripts_hydra.py`."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verl_scripts_sources import Sources

from verlcli.config.problems import Problem
from verlcli.config.shell import Gap, Launch, Script, Word
from verlcli.config.verl.command import program_of

MORE_KEYS = re.compile(r"the (\w+) engine.* more keys? of that engine")


@dataclass(frozen=True)
class Refused:
    """A word that Hydra refuses, or that sets what verl ignores.

    Attributes:
        key: of the override, without its prefix; empty for the launch as a whole.
        lines: where its parts stand in the script: the word, and the variables that it is made of.
        message: Hydra's own.
    """

    key: str
    lines: tuple[int, ...]
    message: str

    def matches(self, problem: Problem) -> bool:
        """Whether a problem speaks of this word: at its place, or as one of the keys that it stands for."""
        # What stands in a branch that only a switch of the user's reaches is said as a warning.
        doubted = problem.severity == "warning" and self.key and "(only " not in problem.message
        if problem.severity == "note" or doubted:
            return False
        key, path = self.key.partition("@")[0], problem.path.lstrip("+~").partition("@")[0]
        if problem.line in self.lines:
            return not key or not path or path == key or path.startswith(f"{key}.") or key.startswith(f"{path}.")
        # "(17 more keys of that engine)" names the first of them only.
        engine = MORE_KEYS.search(problem.message)
        return engine is not None and f".{engine[1]}." in f".{key}."


class Hydra:
    """The process with Hydra; its answers are kept beside the sources."""

    def __init__(self, python: Path, sources: Sources) -> None:
        self.sources, self.answers = sources, sources.work / "hydra.jsonl"
        self.known: dict[str, dict[str, Any]] = {}
        if self.answers.is_file():
            self.known = dict(map(json.loads, self.answers.read_text(encoding="utf-8").splitlines()))
        program = Path(__file__).with_name("verl_scripts_hydra.py")
        self.process = subprocess.Popen([python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Hydra:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, from an earlier run if there is one."""
        text = json.dumps(request)
        if text not in self.known:
            assert self.process.stdin
            assert self.process.stdout
            self.process.stdin.write(f"{text}\n")
            self.process.stdin.flush()
            self.known[text] = json.loads(self.process.stdout.readline())
            with self.answers.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps([text, self.known[text]])}\n")
        return self.known[text]

    def judge(self, script: Script, version: str, home: Path) -> tuple[int, list[Refused]]:
        """How many launches of verl a script holds, and what is refused in them; each word once."""
        launches, config = 0, self.sources.of_version(version)
        refused: dict[Refused, None] = {}
        for launch in script.launches:
            program = program_of(launch)
            # Words that bash does not hand over are checked as if it did, and so they are here.
            meant = (*program.arguments, *launch.lost)
            words = [(word, text) for word in meant if (text := _filled(word, home)) or word.quoted]
            request = {"root": str(config), "home": str(home), "module": program.module}
            answer = self.ask(request | {"argv": [text for _, text in words]})
            if answer["module"] is None:
                continue
            launches += 1
            dead = [(at, "verl never reads it") for at in answer["dead"]]
            for at, message in [*answer["refused"], *dead]:
                refused.setdefault(_refused(launch, words[at] if at >= 0 else None, message.splitlines()[0]))
        return launches, list(refused)


def _refused(launch: Launch, word: tuple[Word, str] | None, message: str) -> Refused:
    if word is None:
        return Refused("", (*_lines(launch.words[:4]), launch.place.line), message)
    return Refused(word[1].lstrip("+~").partition("=")[0], _lines((word[0],)), message)


def _lines(words: tuple[Word, ...]) -> tuple[int, ...]:
    places = [place for word in words for place in (word.place, *(part.place for part in word.parts))]
    return tuple(dict.fromkeys(place.line for place in places))


def _filled(word: Word, home: Path) -> str:
    """The word with something plain in the place of what only a run can tell."""
    return "".join(_guess(part, home) if isinstance(part, Gap) else part.text for part in word.parts)


def _guess(gap: Gap, home: Path) -> str:
    if gap.kind == "unset" or gap.kind == "arguments":
        return ""
    known = {"HOME": "/home/user", "PWD": str(home)}
    return known.get(gap.variable or "", "text")
