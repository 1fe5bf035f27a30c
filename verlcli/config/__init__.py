"""Config: YAML text -> typed, checked `Config`. No torch here."""

from __future__ import annotations

from verlcli.config.dump import resolved_yaml
from verlcli.config.layers import Origin
from verlcli.config.load import Loaded, as_loaded, load_config
from verlcli.config.loader import load_document
from verlcli.config.problems import Problem
from verlcli.config.types import Config

__all__ = ["Config", "Loaded", "Origin", "Problem", "as_loaded", "load_config", "load_document", "resolved_yaml"]
