"""References in a value, `${trainer.experiment_name}`: does the key that they name exist in this launch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from verlcli.config.problems import Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.near_keys import meant_key
from verlcli.config.verl.run import Setting, VerlRun

# Resolvers have a colon behind their name, items of lists a bracket.
_REFERENCE = re.compile(r"(?<!\\)\$\{\s*(?P<name>\.*[A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}")


def reference_verdicts(run: VerlRun, setting: Setting) -> Iterator[Verdict]:
    """The first reference of a value to a key that nothing in this launch has.

    Nothing where a config that could not be read may have the key; a warning where more arguments may bring it.
    """
    from verlcli.facts.verl.interpolation import absolute

    if run.unseen or run.source == "config":
        return
    for name in _names(setting.value):
        full = absolute(name, setting.key)
        if not _exists(run, full):
            yield from _missing(run, setting, name, full)
            return


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, str) and "${" in value:
        yield from (match["name"] for match in _REFERENCE.finditer(value))
    elif isinstance(value, list):
        # Inside a list a leading dot means the list itself.
        yield from (name for item in value for name in _names(item) if not name.startswith("."))


def _exists(run: VerlRun, name: str) -> bool:
    """Whether the launch has the key, or it stands inside a value that is not looked into."""
    if run.has(name) or run.under(name) or run.tree.is_free_form(name):
        return True
    parts = name.split(".")
    return any(run.is_set(section) or section in run.tree.defaults for section in _sections(parts))


def _sections(parts: list[str]) -> Iterator[str]:
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _missing(run: VerlRun, setting: Setting, name: str, full: str) -> Iterator[Verdict]:
    near = meant_key(run, full)
    if run.takes_arguments and not (near and near.sure):
        return  # whoever starts it may well set that key
    severity: Severity = "warning" if run.takes_arguments or not run.is_of_verl else "error"
    message = f"${{{name}}} refers to a key that verl {run.version} does not have: the launch stops when it is read"
    advice = f"did you mean ${{{near.keys[0]}}}?" if near else f"name a key of this launch, or add +{full}=VALUE"
    yield Verdict("VRL267", (setting.key,), message, advice, severity)
