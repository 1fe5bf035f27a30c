"""The host names of a Slurm job in one array element, as `nodes_array=("$nodes")` puts them."""

from __future__ import annotations

import re

from verlcli.config.shell.shell import Shell
from verlcli.config.shell.source import Source

_HOSTS = r"\$\(\s*scontrol\s+show\s+hostnames?\b[^\n()]*\)"
_LISTED = re.compile(rf"^[ \t]*(?:export[ \t]+)?(\w+)=\"?{_HOSTS}", re.MULTILINE | re.ASCII)
_ARRAY = re.compile(rf"^[ \t]*(\w+)=\(\s*\"(?:\$(\w+)|\$\{{(\w+)\}}|{_HOSTS})\"\s*\)", re.MULTILINE | re.ASCII)


def lint_host_arrays(shell: Shell, source: Source) -> None:
    """Adds a finding for each array of host names that has one element, and is used as if it had one a host."""
    if "scontrol" not in source.text:
        return
    nodes = shell.directives.get("nodes")
    if nodes is not None and nodes.text == "1":
        return
    listed = {match[1] for match in _LISTED.finditer(source.text)}
    for match in _ARRAY.finditer(source.text):
        name, inner = match[1], match[2] or match[3]
        used = re.compile(rf"\$\{{[#!]?{name}\[", re.ASCII).search(source.text, match.end())
        if used and (inner is None or inner in listed):
            message = f"{name} gets one element with all host names in it: behind the first, ${{{name}[i]}} is empty"
            advice = f"write {name}=(${inner})" if inner else f"leave out the quotes in {name}=(...)"
            shell.find("host_array", source.place(match.start(1)), message, advice)
