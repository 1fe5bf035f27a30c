"""`source other.sh`: read too when the file is there, else said so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from verlcli.config.shell.source import Source
from verlcli.config.shell.world import World

if TYPE_CHECKING:
    from verlcli.config.shell.call import Call

_LARGEST = 1_000_000  # bytes


def run_sourced(call: Call) -> list[World]:
    """Runs the file in the same world; all that is in it has the place of the `source` command."""
    from verlcli.config.shell.statements import run_text

    shell, world = call.run.shell, call.world
    place = call.expander.source.place(call.command.start)
    path = _path(call)
    text = _text(path) if path else None
    if path is None or text is None or path in shell.sourced:
        named = " ".join(word.text_as_run for word in call.words[1:2]) or "another file"
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
