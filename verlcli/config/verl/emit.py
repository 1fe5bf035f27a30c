"""What verl is told -> Hydra overrides and the command that starts it, so that bash and Hydra read back the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

from verlcli.config.verl.translate import GROUP, Told, Translation, is_group
from verlcli.config.verl.values import ValueSyntaxError, parse_value

MODULE = "verl.trainer.main_ppo"
_PLAIN = re.compile(r"(?:[\w/.+%@?-]|://|\$\{[^}'\"\s]+\})+(?: (?:[\w/.+%@?-])+)*", re.ASCII)
_NO_GROUPS = ("0.5.0", "0.6.1", "0.7.1")  # versions in which a config file chooses the engine


def hydra_overrides(translation: Translation) -> list[str]:
    """One argument a key, as Hydra takes it (unquoted for the shell): groups first, then `++key=value`."""
    groups = [_group(each, translation.tree.version) for each in translation.told if is_group(each.key)]
    return [*groups, *(_override(each) for each in translation.told if not is_group(each.key))]


def launch_command(overrides: Iterable[str]) -> str:
    """The whole shell command, one override a line."""
    return " \\\n    ".join([f"python3 -m {MODULE}", *map(shell_word, overrides)])


def hydra_text(value: Any) -> str:
    """A plain value as Hydra's override grammar writes it."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_name(key)}:{hydra_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(hydra_text, value)) + "]"
    if isinstance(value, str):
        return value if _reads_back(value) else _quoted(value)
    return str(value)


def shell_word(text: str) -> str:
    """`text` as one word of a POSIX shell, in double quotes where it has single ones."""
    return f'"{text}"' if "'" in text and not re.search(r'[$`"\\!]', text) else shlex.quote(text)


def _group(told: Told, version: str) -> str:
    if told.key == GROUP and told.value == "megatron" and version in _NO_GROUPS:
        return "--config-name=ppo_megatron_trainer.yaml"
    return f"{told.key}={hydra_text(told.value)}"


def _override(told: Told) -> str:
    return told.key if told.key.startswith("~") else f"++{told.key}={hydra_text(told.value)}"


def _reads_back(text: str) -> bool:
    try:
        return _PLAIN.fullmatch(text) is not None and parse_value(text) == text
    except ValueSyntaxError:
        return False


def _quoted(text: str) -> str:
    """In single quotes; backslashes count double only where they stand before a quote."""
    inside = re.sub(r"(\\*)'", lambda match: rf"{match[1] * 2}\'", text)
    ending = "\\" * (len(inside) - len(inside.rstrip("\\")))
    return f"'{inside}{ending}'"


def _name(key: str) -> str:
    return re.sub(r"([\\()\[\]{}:=, \t])", r"\\\1", key)
