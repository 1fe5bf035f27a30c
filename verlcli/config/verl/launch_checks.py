"""How a launch is started: by which program, as a module or a file, and where Hydra looks for its config."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from verlcli.config.problems import Place, Problem, Severity
from verlcli.config.shell import Launch, Word
from verlcli.config.verl.command import HydraLine, Program, program_of
from verlcli.config.verl.entry import Chosen
from verlcli.config.verl.read_script_config import config_folders
from verlcli.config.verl.words import place_at

_BY_RAY = frozenset(("main_ppo", "dapo", "fully_async", "one_step_off"))  # they start their workers themselves
_STARTERS = {
    "torchrun": ("--nproc_per_node", "--nproc-per-node"),
    "accelerate": ("--num_processes", "--num-processes"),
    "deepspeed": ("--num_gpus",),
}


def launch_problems(path: str, launch: Launch, line: HydraLine, chosen: Chosen) -> Iterator[Problem]:
    """What is wrong with the words before the overrides of a launch.

    Args:
        path: of the script.
        launch: as bash runs it.
        line: its arguments, apart.
        chosen: the program that it starts.
    """
    program = program_of(launch)
    yield from _as_module(path, program)
    if chosen.entry is not None and chosen.entry.entry in _BY_RAY:
        yield from _many_times(path, launch, program)
    if chosen.code == "VRL337" and program.module.startswith("verl."):
        yield from _beside_the_script(path, line, program)


def _as_module(path: str, program: Program) -> Iterator[Problem]:
    """`python3 verl.trainer.main_ppo` and `-m verl.trainer.main_ppo.py`."""
    module = program.module.removesuffix(".py")
    is_dotted = re.fullmatch(r"verl(\.\w+)+", module) is not None
    if program.at is None or not is_dotted or program.is_file != (module == program.module):
        return
    if program.is_file:
        message = f"python takes {module} for the name of a file, which does not exist"
    else:
        message = f"behind -m stands a module, without .py: there is no module {program.module}"
    problem = Problem("VRL332", "error", "", message, suggestion=f"write -m {module}")
    yield problem.at(place_at(program.at, 0, path))


def _many_times(path: str, launch: Launch, program: Program) -> Iterator[Problem]:
    """A launcher that starts one process for each GPU."""
    before = launch.words[: launch.words.index(program.at)] if program.at in launch.words else launch.words
    names = [word.text_as_run.rpartition("/")[2] for word in before]
    starter = next((name for name in names if name in _STARTERS), None)
    if starter is None:
        return
    count = _count(before, _STARTERS[starter])
    if count == "1" or (count is None and starter == "torchrun"):
        return
    severity: Severity = "error" if count and count.isdecimal() else "warning"
    times = f"{count} times" if severity == "error" else "once for each GPU"
    message = f"{starter} starts it {times}, and each one wants a Ray cluster and all GPUs of its own"
    advice = f"start it once, with python3 -m {program.module}: Ray starts a worker for each GPU"
    place = Place(path, launch.place.line, launch.place.column)
    yield Problem("VRL339", severity, "", message, suggestion=advice).at(place)


def _count(words: Sequence[Word], names: tuple[str, ...]) -> str | None:
    """Value of an option, empty when it is known at run time only; None without the option."""
    for at, word in enumerate(words):
        name, equals, value = word.text_as_run.partition("=")
        if name in names:
            known = word if equals else words[at + 1] if at + 1 < len(words) else None
            return "" if known is None or known.text is None else (value if equals else known.text)
    return None


def _beside_the_script(path: str, line: HydraLine, program: Program) -> Iterator[Problem]:
    """A relative `--config-path`, which Hydra takes as relative to the folder of the program."""
    word = line.config_path
    text = word.text if word else None
    if word is None or not text or text.startswith("/") or "://" in text or not any(_folders(path, line, program)):
        return
    folder = program.module.rpartition(".")[0].replace(".", "/")
    message = f"Hydra looks for --config-path={text} in verl's folder {folder}, and not where the script is started"
    advice = f"write --config-path=$PWD/{text.removeprefix('./')}"
    yield Problem("VRL337", "error", "", message, suggestion=advice).at(place_at(word, 0, path))


def _folders(path: str, line: HydraLine, program: Program) -> Iterator[object]:
    """Folders of that name beside the script, or above it, that hold the config."""
    name = ((line.config_name.text if line.config_name else None) or "").removesuffix(".yaml")
    package = program.module.rpartition(".")[0].replace(".", "/")
    for folder in config_folders(path, line, program.module):
        # A script inside verl's own folder has that one beside it.
        if (folder / f"{name}.yaml").is_file() and not folder.parent.as_posix().endswith(f"/{package}"):
            yield folder
