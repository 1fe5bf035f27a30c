"""The whole road of a config in one call: sources -> Loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from verlcli.config.build import build_config
from verlcli.config.check import check
from verlcli.config.context import Context
from verlcli.config.derive import as_written
from verlcli.config.dump import resolved_yaml
from verlcli.config.keys import dotted
from verlcli.config.layers import Origin
from verlcli.config.problems import Problem
from verlcli.config.report import count, has_errors
from verlcli.config.resolve import ConfigSource, resolve
from verlcli.config.types import Config
from verlcli.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Loaded:
    """A config with all that is known about it.

    Attributes:
        name: of the run: stem of the last file, or the preset's name.
        values: every key as plain data, paths absolute.
        origins: history of every leaf by dotted key, lowest layer first; the last one holds.
        problems: all of them, sorted.
    """

    name: str
    values: dict[str, Any]
    origins: Mapping[str, tuple[Origin, ...]]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error (warnings may be there)."""
        return not has_errors(self.problems)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    @property
    def set_by_user(self) -> frozenset[str]:
        """Dotted keys whose value comes from a layer above the defaults."""
        return frozenset(key for key, history in self.origins.items() if history[-1].kind != "default")

    def to_yaml(self) -> str:
        """See `resolved_yaml`."""
        return resolved_yaml(self.values)

    def origins_json(self) -> dict[str, list[dict[str, Any]]]:
        """History of every key that somebody set, as plain data: `{key: [{kind, origin, value}, ...]}`."""
        return {
            key: [{"kind": origin.kind, "origin": origin.label, "value": origin.value} for origin in self.origins[key]]
            for key in self.origins
            if len(self.origins[key]) > 1
        }

    def require(self) -> Config:
        """The typed config.

        Raises:
            ConfigError: the config has errors; it carries all problems.
        """
        if not self.ok:
            raise ConfigError(
                f"the config has {count([problem for problem in self.problems if problem.severity == 'error'])}",
                fix="correct the lines above; `verl schema KEY` shows what a key takes",
                problems=tuple(problem for problem in self.problems if problem.severity != "note"),
            )
        return build_config(self.values)

    @property
    def config(self) -> Config:
        """The typed config; see `require`."""
        return self.require()


def load_config(
    sources: Sequence[ConfigSource],
    overrides: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    context: Context | None = None,
) -> Loaded:
    """Read, merge and check a config.

    Args:
        sources: preset names, YAML files, or mappings of config keys; later ones win.
        overrides: `KEY=VALUE` or `~KEY`, as after `-o`.
        env: variables to read `VERL_CFG__A__B` from; None: the process's environment.
        flags: values of a command's own flags by dotted key; None values are ignored.
        context: facts for the checks, such as the cluster.

    Raises:
        ConfigError: something cannot be read at all. Problems of a readable config are returned, not raised.
    """
    resolved = resolve(sources, overrides, env, flags)
    origins = {dotted(path): history for path, history in resolved.origins.items()}
    return Loaded(resolved.name, resolved.values, origins, tuple(check(resolved, context)))


def as_loaded(config: ConfigSource | Loaded, overrides: Sequence[str] = ()) -> Loaded:
    """`load_config` of one source; a `Loaded` stays as it is, or gets `overrides` on top.

    Raises:
        ConfigError: see `load_config`.
    """
    if not isinstance(config, Loaded):
        return load_config([config], overrides)
    if not overrides:
        return config
    return replace(load_config([as_written(config.values, config.origins)], overrides, env={}), name=config.name)
