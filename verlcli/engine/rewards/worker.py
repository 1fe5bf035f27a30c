"""The reward's own process: loads one function of a Python file, then scores one sample a line until its input ends.

Run as `python -m verlcli.engine.rewards.worker FILE NAME`. Protocol, one JSON object a line: first it writes
`{"ready": true}` or `{"problem": ..., "where": ..., "fix": ...}`, then for each request `{"seed", "sample"}` an answer
`{"value", "extra"}` or `{"error"}`.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from verlcli.engine.rewards._base import RewardFunction, read_result
from verlcli.errors import ConfigError

SIGNATURE = "(data_source, solution_str, ground_truth, extra_info=None)"


def main(file: str, name: str) -> None:
    """Serve `name` of `file` over the standard streams' pipes."""
    requests, answers = _take_pipes()
    _ignore_signals()
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        function = load_function(Path(file), name)
    except ConfigError as error:
        _send(answers, _line({"problem": error.message, "where": error.where, "fix": error.fix}))
        return
    _send(answers, _line({"ready": True}))
    for line in requests:
        request = json.loads(line)
        _seed(request["seed"])
        _send(answers, _answer(function, file, request["sample"]))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the pipes to ourselves: the function reads nothing, and what it prints goes to stderr."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return requests, answers


def _ignore_signals() -> None:
    # The parent finishes its step on Ctrl-C and SIGTERM and needs us for it. Handlers, unlike SIG_IGN, are not
    # inherited by programs that the function starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)


def _leave_with_parent(parent: int) -> None:
    """Do not outlive a killed parent, even while the function hangs."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def _send(answers: BinaryIO, line: bytes) -> None:
    answers.write(line)
    answers.flush()


def _line(message: dict[str, Any]) -> bytes:
    # Whatever is not JSON goes by its `repr`: it is for people to read.
    return json.dumps(message, default=repr, skipkeys=True).encode() + b"\n"


def _seed(seed: int) -> None:
    """Same random state for a sample whether or not the process was restarted before it."""
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def _answer(function: RewardFunction, file: str, sample: dict[str, Any]) -> bytes:
    try:
        scored = read_result(function(**sample))
        if scored.error is None:
            return _line({"value": scored.value, "extra": scored.extra})
        return _line({"error": f"{file}: {getattr(function, '__name__', 'the function')} {scored.error}"})
    except (Exception, SystemExit) as error:
        return _line({"error": f"{_place(error, file)}: {_text(error)}"})


def load_function(file: Path, name: str) -> RewardFunction:
    """Import `file` and return its function `name`.

    Raises:
        ConfigError: the import fails (with its line), or there is no such function, or not with verl's signature.
    """
    module_name = f"verl_reward_{file.stem}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise ConfigError("is not a Python file", where=str(file), fix="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(file.parent))  # as for a script: files beside it can be imported
    sys.path.append(os.getcwd())
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        raise ConfigError(
            f"the import fails: {_text(error)}",
            where=_place(error, str(file)),
            fix=f"install {missing!r} or correct the import" if missing else "correct the file; `python FILE` must run",
        ) from error
    return _checked(module, file, name)


def _checked(module: Any, file: Path, name: str) -> RewardFunction:
    found = [
        key for key, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    function = getattr(module, name, None)
    if function is None:
        have = f"it has {', '.join(found)}" if found else "it has no functions"
        fix = f"name one of them: {file.name}:{found[0]}" if found else f"write `def {name}{SIGNATURE}:`"
        raise ConfigError(f"has no function {name!r}; {have}", where=str(file), fix=fix)
    if not callable(function):
        raise ConfigError(
            f"{name!r} is not a function but {type(function).__name__}",
            where=str(file),
            fix=f"write `def {name}{SIGNATURE}:`",
        )
    try:
        inspect.signature(function).bind(data_source="", solution_str="", ground_truth="", extra_info=None)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name}{_signature(function)} cannot be called as a reward: {error}",
            where=str(file),
            fix=f"write `def {name}{SIGNATURE}:`",
        ) from error
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"{name} is async", where=str(file), fix=f"write a plain `def {name}{SIGNATURE}:`")
    return function  # type: ignore[no-any-return]


def _signature(function: Any) -> str:
    try:
        return str(inspect.signature(function))
    except ValueError:  # of some functions written in C
        return "(...)"


def _place(error: BaseException, file: str) -> str:
    """`file:line` of the last frame in the user's file; else where the error was raised."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == str(file)]
    frame = (own or list(frames))[-1]
    return f"{frame.filename}:{frame.lineno}"


def _text(error: BaseException) -> str:
    # The line of the type; a SyntaxError's source comes before it, notes come after.
    lines = "".join(traceback.format_exception_only(error)).splitlines()
    text = next(line for line in lines if line and not line.startswith(" "))
    return text if len(text) <= 300 else text[:297] + "..."


if __name__ == "__main__":
    main(*sys.argv[1:3])
