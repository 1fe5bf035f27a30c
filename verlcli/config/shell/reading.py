"""`read` and `mapfile`: variables filled from text that comes in while the script runs."""

from __future__ import annotations

import re
from dataclasses import replace

from verlcli.config.shell.call import Call
from verlcli.config.shell.parts import cut_parts, first_gap, joined, stripped, text_as_run
from verlcli.config.shell.types import Gap
from verlcli.config.shell.world import Parts, Var, World


def read(call: Call) -> list[World]:
    """`read` takes its text from a here-document or a here-string; from elsewhere it cannot be known."""
    world, arguments = call.world, call.arguments
    array, whole = "-a" in arguments, any(text.startswith("-d") for text in arguments)
    names = _read_names(arguments)
    given = next((each for each in call.command.redirects if each.op in ("<<", "<<<")), None)
    place = call.expander.source.place(call.command.start)
    if given is None or first_gap(text := call.expander.text(given.target)):
        for name in names or ["REPLY"]:
            store(call, name, (Gap("what the script reads while it runs", place, name, "runtime"),))
        world.status = "maybe"
        return [world]
    world.status = "no" if whole else "yes"
    fields = _read_fields(call, text if whole else cut_parts(text, 0, len(text_as_run(text).partition("\n")[0])))
    if array and names:
        world.put(names[0], Var(items=dict(enumerate(fields))))
        return [world]
    _share(call, names, fields, stripped(text))
    return [world]


def _read_names(arguments: list[str]) -> list[str]:
    names, skip = [], False
    for text in arguments:
        if skip:
            skip = False
        elif text.startswith("-"):
            skip = text[-1:] in "dnNptui" and not (len(text) > 2 and text[1] in "dnNptui")
        else:
            names.append(text)
    return names


def _read_fields(call: Call, text: Parts) -> list[Parts]:
    prefix = next((a for a in call.command.assignments if a.name == "IFS"), None)
    ifs = call.world.variables.get("IFS")
    separators = (
        text_as_run(call.expander.text(prefix.value)) if prefix else text_as_run(ifs.scalar()) if ifs else " \t\n"
    )
    if not separators:
        return [text]
    kind = re.escape(separators)
    return [cut_parts(text, found.start(), found.end()) for found in re.finditer(f"[^{kind}]+", text_as_run(text))]


def _share(call: Call, names: list[str], fields: list[Parts], text: Parts) -> None:
    """One field a name, the rest to the last name as it stands."""
    place = call.expander.source.place(call.command.start)
    if len(names) <= 1:
        whole = text_as_run(text)
        start = len(whole) - len(whole.lstrip())
        store(call, names[0] if names else "REPLY", cut_parts(text, start, len(whole.rstrip())))
        return
    for number, name in enumerate(names):
        rest = fields[number:] if number + 1 == len(names) else fields[number : number + 1]
        store(call, name, joined(rest, " ") if place else ())


def store(call: Call, name: str, parts: Parts) -> None:
    """Sets a variable; anything but a plain name is left alone."""
    match = re.fullmatch(r"([A-Za-z_]\w*)(?:\[.*\])?", name, re.ASCII)
    if match and match[0] == match[1]:
        call.world.put(name, replace(call.world.variables.get(name, Var()), parts=parts, items=None))


def mapfile(call: Call) -> list[World]:
    """An array of lines that only a run can tell."""
    names = [text for text in call.arguments if text[:1] != "-" and not text.isdigit()]
    place = call.expander.source.place(call.command.start)
    gap = Gap("what the script reads while it runs", place, names[-1] if names else "MAPFILE", "runtime")
    call.world.put(names[-1] if names else "MAPFILE", Var(items={0: (gap,)}))
    return [call.world]
