"""Resolved values -> YAML text that loads to the same config anywhere on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from verlcli.config.scalars import resolve_plain
from verlcli.resources import schema_path


class _Dumper(yaml.SafeDumper):
    """Writes floats so that every YAML reader sees a float, and quotes text that some reader takes for another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML itself quotes what YAML 1.1 would misread (`on`, `1:30`); this adds what only YAML 1.2 would (`1e6`).
    style = None if isinstance(resolve_plain(text), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def to_yaml(values: Mapping[str, Any]) -> str:
    """Block YAML in the mapping's order; our loader reads the same values from it."""
    return str(yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def resolved_yaml(values: Mapping[str, Any]) -> str:
    """Complete `values` as a config file that loads to an equal `Config`; the same text each time."""
    return f"# yaml-language-server: $schema={schema_path('config')}\n{to_yaml(values)}"
