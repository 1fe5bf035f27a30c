"""argv of a launch -> which program it starts and Hydra's own options, apart from the overrides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from verlcli.config.problems import Problem
from verlcli.config.shell import Gap, Launch, Piece, Word
from verlcli.config.verl.words import place_at, text_with_gaps

# Options of Hydra's command line that take a value, by every way to write them.
_VALUES = {
    "--config-name": "name",
    "-cn": "name",
    "--config-path": "path",
    "-cp": "path",
    "--config-dir": "dir",
    "-cd": "dir",
    "--cfg": "",
    "-c": "",
    "--package": "",
    "-p": "",
    "--experimental-rerun": "",
}
_FLAGS = {"--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m", "--"}
_FLAGS |= {"--shell-completion", "-sc", "--info", "-i"}
_NAME = re.compile(r"(?:\+\+?)?[A-Za-z_][\w.-]*")
_OVERRIDE = re.compile(r"(?:\+\+?|~)?[A-Za-z_][\w-]*(?:\.[\w-]+)+=")
_BLANKS = re.compile(r" *, *")
_MODULE = re.compile(r"verl(?:\.\w+)+")
_LONGEST = 64  # words of one list


@dataclass(frozen=True, slots=True)
class Program:
    """What a launch starts.

    Attributes:
        module: after `-m`, or the path of a Python file; empty when the text does not tell.
        arguments: words behind it.
        at: the word that names it.
        is_file: whether python gets it as a file, without `-m`.
    """

    module: str
    arguments: tuple[Word, ...]
    at: Word | None = None
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class HydraLine:
    """The arguments of a Hydra program.

    Attributes:
        overrides: words that are no option.
        config_name, config_path, config_dir: values of these options; None without them.
        multirun: whether sweeps are allowed.
        problems: options that Hydra does not have, and overrides that it does not see.
    """

    overrides: tuple[Word, ...]
    config_name: Word | None = None
    config_path: Word | None = None
    config_dir: Word | None = None
    multirun: bool = False
    problems: tuple[Problem, ...] = ()


def program_of(launch: Launch) -> Program:
    """The Python module or file that a launch starts, whatever stands before it: python, torchrun, accelerate."""
    words = launch.words
    for at, word in enumerate(words):
        text = word.text_as_run
        if text in ("-m", "--module") and at + 1 < len(words):
            return Program(words[at + 1].text_as_run, words[at + 2 :], words[at + 1])
        if at and (text.endswith(".py") or (at == 1 and _MODULE.fullmatch(text))):
            return Program(text, words[at + 1 :], word, is_file=True)
        if text == "-c":
            break
    return Program("", ())


def hydra_line(arguments: Sequence[Word], file: str) -> HydraLine:
    """Split the arguments of a Hydra program as its argument parser does."""
    overrides: list[Word] = []
    options: dict[str, Word] = {}
    problems: list[Problem] = []
    multirun, closed = False, False
    for word, name, value in _items(_joined(arguments, file, problems)):
        if not name:
            if closed:
                problems.append(_unseen(word, file))
            overrides.append(word)
            continue
        # Python's argparse takes the first run of overrides alone; `--` is no option.
        closed = closed or (bool(overrides) and name != "--")
        multirun = multirun or name in ("-m", "--multirun")
        if name in _VALUES and value is not None:
            options[_VALUES[name]] = value
        elif name not in _FLAGS:
            problems.append(_foreign(word, file))
    return HydraLine(
        tuple(overrides), options.get("name"), options.get("path"), options.get("dir"), multirun, tuple(problems)
    )


def _joined(arguments: Sequence[Word], file: str, problems: list[Problem]) -> list[Word]:
    """The arguments with lists that the shell split at their blanks made whole again, as they were meant."""
    joined: list[Word] = []
    at = 0
    while at < len(arguments):
        end = _end_of_list(arguments, at)
        joined.append(arguments[at] if end == at else _as_one(arguments[at : end + 1]))
        if end > at:
            problems.append(_split(joined[-1], file))
        at = end + 1
    return joined


def _end_of_list(arguments: Sequence[Word], start: int) -> int:
    """Index of the word that closes the list which the value of a word opens; `start` itself when there is none."""
    name, _, value = arguments[start].text_as_run.partition("=")
    if value[:1] not in ("[", "{") or not _NAME.fullmatch(name):
        return start
    opener, closer = ("[", "]") if value[0] == "[" else ("{", "}")
    depth = 0
    for at in range(start, min(start + _LONGEST, len(arguments))):
        text = arguments[at].text_as_run if at > start else value
        if at > start and (_OVERRIDE.match(text) or text.startswith("-")):
            return start
        depth += text.count(opener) - text.count(closer)
        if depth <= 0:
            return at if depth == 0 and text.endswith(closer) else start
    return start


def _as_one(words: Sequence[Word]) -> Word:
    parts = list(words[0].parts)
    for word in words[1:]:
        parts += [Piece(" ", word.place), *word.parts]
    return Word(words[0].place, tuple(parts), words[0].quoted)


def _split(word: Word, file: str) -> Problem:
    text = text_with_gaps(word)
    key = text.partition("=")[0].lstrip("+~")
    message = "the shell splits this value at its blanks, so that Hydra gets a list that does not end"
    quote = '"' if word.gaps or "'" in text else "'"
    advice = f"put quotes around the whole word: {quote}{_BLANKS.sub(',', text)}{quote}"
    return Problem("VRL333", "error", key, message, suggestion=advice).at(place_at(word, 0, file))


def _items(arguments: Sequence[Word]) -> Iterator[tuple[Word, str, Word | None]]:
    """Each word with the option's name and its value; overrides have no name."""
    at = 0
    while at < len(arguments):
        word = arguments[at]
        at += 1
        text = word.text_as_run
        if not text.startswith("-"):
            yield word, "", None
            continue
        name, equals, _ = text.partition("=")
        if equals:
            yield word, name, behind(word, len(name) + 1)
        elif name in _VALUES and at < len(arguments):
            yield word, name, arguments[at]
            at += 1
        else:
            yield word, name, None


def behind(word: Word, offset: int) -> Word:
    """The rest of a word from `offset` of `text_as_run` on."""
    parts: list[Piece | Gap] = []
    for part in word.parts:
        length = len(part.text) if isinstance(part, Piece) else 0
        if isinstance(part, Piece) and 0 < offset < length:
            place = replace(part.place, column=part.place.column + offset)
            parts.append(replace(part, text=part.text[offset:], place=place))
        elif offset <= 0:
            parts.append(part)
        offset -= length
    return Word(parts[0].place if parts else word.place, tuple(parts), word.quoted)


def _unseen(word: Word, file: str) -> Problem:
    text = word.text_as_run
    message = f"'{text[:60]}' stands behind an option, where Hydra's parser stops with 'unrecognized arguments'"
    key, advice = text.partition("=")[0].lstrip("+~"), "put all options before the first key=value"
    return Problem("VRL336", "error", key, message, suggestion=advice).at(place_at(word, 0, file))


def _foreign(word: Word, file: str) -> Problem:
    text = word.text_as_run
    message = f"Hydra has no option {text.partition('=')[0][:60]} and stops with 'unrecognized arguments'"
    name, equals, value = text.lstrip("-").partition("=")
    option = f"--{name.lower().replace('_', '-')}"
    if option in _VALUES or option in _FLAGS:
        advice = f"write {option}{equals}{value[:60]}"
    else:
        advice = f"write {name[:60]}={value[:60]}" if equals else "remove it, or write key=value"
    return Problem("VRL335", "error", "", message, suggestion=advice).at(place_at(word, 0, file))
