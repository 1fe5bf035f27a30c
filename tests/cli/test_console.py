"""What every command does when its streams fail, when it is interrupted, and when it fails under `--json`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from jsonschema import Draft202012Validator

from verlcli.cli.console import Stream, figure, guarded, log
from verlcli.config.problems import Problem
from verlcli.errors import ConfigError, DoesNotFitError
from verlcli.resources import load_schema

VERL = [sys.executable, "-m", "verlcli"]


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ConfigError("bad", where="a.yaml:1:2", problems=[Problem("VRL001", "error", "a.b", "unknown key")]), 2),
        (DoesNotFitError("too large", fix="buy more"), 3),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("a bug"), 1),
        (PermissionError(13, "Permission denied", "/x"), 1),
    ],
)
def test_under_json_every_failure_is_a_document_on_stdout_and_a_message_on_stderr(
    raised: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    @guarded
    def command(*, json_output: bool) -> None:
        raise raised

    for json_output in (True, False):
        with pytest.raises(typer.Exit) as caught:
            command(json_output=json_output)
        assert caught.value.exit_code == code
        out, err = capsys.readouterr()
        assert err
        assert "Traceback" not in err
        if not json_output:
            assert out == ""
            continue
        document = json.loads(out)
        Draft202012Validator(load_schema("error")).validate(document)
        assert document["error"]["exit_code"] == code
        assert document["error"]["message"] in err
        assert [p["path"] for p in document["problems"]] == (["a.b"] if code == 2 else [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "arguments", ["--version", "--help", "plan quickstart", "plan quickstart --json", "schema", "data --help"]
)
def test_a_full_stdout_is_one_message_and_exit_1(arguments: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*VERL, *arguments.split()], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert "bug" not in done.stderr


@pytest.mark.parametrize("arguments", ["plan quickstart", "schema", "plan quickstart --json"])
def test_a_reader_that_has_gone_is_no_error(arguments: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*VERL, *arguments.split()], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_messages_nobody_reads_are_dropped_and_the_next_ones_too() -> None:
    program = "import sys; from verlcli.cli.console import warn; warn('a'); warn('b'); print('on', file=sys.stderr)"
    reader, writer = os.pipe()
    os.close(reader)
    assert subprocess.run([sys.executable, "-c", program], stderr=writer).returncode == 0
    os.close(writer)
    assert subprocess.run(f'{sys.executable} -c "{program}" 2>&-', shell=True).returncode in (0, 1)


def test_a_stream_tells_why_it_fell_silent() -> None:
    lost: list[OSError] = []
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        stream = Stream(file, lost.append)
        assert stream.write("a") == 1
        stream.write("b")
    assert [type(error) for error in lost] == [BrokenPipeError]


def test_messages_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    log("a [bold]b[/bold] " + "x" * 300)
    assert capsys.readouterr().err == "a [bold]b[/bold] " + "x" * 300 + "\n"


@pytest.mark.parametrize("after", [0.0, 0.02, 0.05, 0.1, 0.3])
def test_ctrl_c_while_the_program_is_still_starting_is_one_line_and_130(after: float, tmp_path: Path) -> None:
    # From the moment that the entry point is reached; before it Python itself is starting.
    program = "import sys; from verlcli.cli.entry import main; print('on', flush=True); main()"
    command = [sys.executable, "-c", program, "train", "quickstart"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout
        started.stdout.readline()
        time.sleep(after)
        started.send_signal(signal.SIGINT)
        _, stderr = started.communicate(timeout=60)
    assert started.returncode == 130, stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(("value", "shown"), [(0.5, "0.500"), (-1234567.0, "-1234567.000"), (1e308, "1.00e+308")])
def test_huge_figures_stay_short(value: float, shown: str) -> None:
    assert figure(value, ".3f") == shown


def test_places_are_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    log("a.yaml:100:5 is the place")
    assert capsys.readouterr().err == "a.yaml:100:5 is the place\n"
