"""A reward function of a Python file, run in a process of its own: it may print, hang, crash or be killed."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
import weakref
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Any

import verlcli
from verlcli.engine.rewards._base import RewardInput, Scored
from verlcli.errors import ConfigError

DEFAULT_NAME = "compute_score"
LOAD_SECONDS = 120.0  # a reward's imports may be heavy
GRACE_SECONDS = 1.0  # to end by itself before it is killed


class _DiedError(Exception):
    """The process ended before it answered."""


class _TimedOutError(Exception):
    """No answer in time."""


def split_spec(spec: str) -> tuple[Path, str]:
    """`folder/file.py:name` as path and name; the name is `compute_score` when left out."""
    path, colon, name = spec.rpartition(":")
    return (Path(path), name) if colon and path.endswith(".py") else (Path(spec.removesuffix(":")), DEFAULT_NAME)


class FileScorer:
    """Scores samples by a function of a Python file.

    Args:
        spec: `file.py:name`.
        timeout: seconds for one sample.
        log: file that the function's prints are appended to; None: stderr.
        name: how messages and metrics call it; None: `file.py:name` without the folder.

    Raises:
        ConfigError: no such file, its import fails, or no such function with verl's signature in it.
    """

    def __init__(self, spec: str, timeout: float, *, log: Path | None = None, name: str | None = None) -> None:
        self._file, self._function = split_spec(spec)
        self.name = name or f"{self._file.name}:{self._function}"
        self._timeout = timeout
        self._log = log
        if not self._file.is_file():
            fix = "check the path: one in a config is relative to the config's file, one in -o to where you are"
            raise ConfigError("no such reward file", where=str(self._file), fix=fix)
        self._process = _Process([str(self._file), self._function], log)
        self._process.ensure()

    def score(self, sample: RewardInput, seed: int) -> Scored:
        """The function's score of one sample; an error in place of a score when it raises, hangs or dies."""
        request = _encode(sample, seed)
        try:
            answer = self._ask(request)
        except _TimedOutError:
            return Scored(error=f"{self.name}: no result within {self._timeout:g} s (reward.timeout)", timed_out=True)
        except _DiedError as death:
            return Scored(error=f"{self.name}: its process died while scoring ({death})")
        if "error" in answer:
            return Scored(error=str(answer["error"]))
        value = float(answer["value"])
        return Scored(value, answer["extra"], first=value)

    def _ask(self, request: bytes) -> dict[str, Any]:
        try:
            return self._process.ask(request, self._timeout)
        except _DiedError:
            # Killed from outside, then: a second try costs nothing and keeps the run's numbers. A sample that kills
            # its process does so again.
            return self._process.ask(request, self._timeout)

    def close(self) -> None:
        """End the process; a later `score` starts it again."""
        self._process.end(GRACE_SECONDS)


def _encode(sample: RewardInput, seed: int) -> bytes:
    fields = {
        "data_source": sample.data_source,
        "solution_str": sample.solution,
        "ground_truth": sample.ground_truth,
        "extra_info": dict(sample.extra_info),
    }
    return json.dumps({"seed": seed, "sample": fields}, default=str).encode() + b"\n"


class _Process:
    """The worker as a child that is started when needed and answers one line a line."""

    def __init__(self, arguments: list[str], log: Path | None) -> None:
        # -P: no file of the working directory may stand in for a module that the worker imports.
        safe_path = ["-P"] if sys.version_info >= (3, 11) else []
        self._command = [sys.executable, *safe_path, "-m", "verlcli.engine.rewards.worker", *arguments]
        self._log = log
        self._children: list[subprocess.Popen[bytes]] = []  # at most one; shared with the finalizer
        self._finalizer = weakref.finalize(self, _end_all, self._children, os.getpid(), GRACE_SECONDS)

    def ensure(self) -> None:
        """Start the worker unless it runs. Raises ConfigError when it cannot load the function."""
        if self._children and self._children[0].poll() is None:
            return
        self.end()
        self._children.append(self._start())
        try:
            self._greet()
        except BaseException:
            self.end()
            raise

    def _greet(self) -> None:
        """Wait for the worker to have loaded the function."""
        file, fix = self._command[-2], "move slow or exiting code out of the module's top level"
        try:
            hello = self._read(LOAD_SECONDS)
        except _TimedOutError as error:
            raise ConfigError(f"the import takes more than {LOAD_SECONDS:g} s", where=file, fix=fix) from error
        except _DiedError as error:
            raise ConfigError(f"the import ends its process ({error})", where=file, fix=fix) from error
        if "problem" in hello:
            raise ConfigError(hello["problem"], where=hello["where"], fix=hello["fix"])

    def _start(self) -> subprocess.Popen[bytes]:
        home = str(Path(verlcli.__file__).parent.parent)
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        # A fixed hash seed: the order of sets must not depend on restarts.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
        with nullcontext() if self._log is None else self._log.open("ab") as stderr:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                start_new_session=True,  # out of reach of the terminal's Ctrl-C; killed with all that it started
            )

    def ask(self, request: bytes, seconds: float) -> dict[str, Any]:
        """Send one line, wait for one. After an error the worker is gone; the next call starts another."""
        self.ensure()
        try:
            stdin = self._stream("stdin")
            stdin.write(request)
            stdin.flush()
            return self._read(seconds)
        except BrokenPipeError as error:
            death = _DiedError(self._fate())
            self.end()
            raise death from error
        except BaseException:
            self.end()  # or the next request would read this one's answer
            raise

    def _read(self, seconds: float) -> dict[str, Any]:
        deadline, line, stream = time.monotonic() + seconds, b"", self._stream("stdout")
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise _TimedOutError
                chunk = os.read(stream.fileno(), 65536)
                if not chunk:
                    raise _DiedError(self._fate())
                line += chunk
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _stream(self, name: str) -> IO[bytes]:
        stream: IO[bytes] = getattr(self._children[0], name)
        return stream

    def _fate(self) -> str:
        try:
            code = self._children[0].wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def end(self, grace: float = 0.0) -> None:
        """End the worker and all that it started, and wait for it."""
        _end_all(self._children, os.getpid(), grace)


def _end_all(children: list[subprocess.Popen[bytes]], owner: int, grace: float) -> None:
    if os.getpid() != owner:  # a fork of the owner that exits: the children are not its own
        return
    while children:
        child = children.pop()
        with suppress(BrokenPipeError), child:  # closes the pipes and waits
            _ask_to_end(child, grace)
            with suppress(ProcessLookupError, PermissionError):  # nothing of it is left
                os.killpg(child.pid, signal.SIGKILL)


def _ask_to_end(child: subprocess.Popen[bytes], grace: float) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        if grace and child.stdin:
            child.stdin.close()  # the worker leaves at the end of its input
            child.wait(grace)
