"""Rules about rewards: that one exists for the data, and that a user's function can be loaded."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from functools import cache

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import at_least
from verlcli.config.verl.rules.files import is_absent, is_ours
from verlcli.config.verl.run import VerlRun
from verlcli.config.wording import closest

_NEW, _OLD = "reward.custom_reward_function", "custom_reward_function"
_MANAGER, _SOURCE = "reward.reward_manager.name", "reward.reward_manager.source"
_MODEL = "reward.reward_model.enable"
# Managers that take `default_compute_score` when nobody gives a function.
_BY_SOURCE = ("naive", "dapo", "gdpo", "rate_limited", "batch", "prime", "remote")


def _section(run: VerlRun) -> str:
    """Section of the custom function that this version reads."""
    return _OLD if not at_least(run, "0.9") and run.get(f"{_OLD}.path") is not None else _NEW


@rule()
def sources_have_a_reward(run: VerlRun) -> Iterator[Verdict]:
    """VRL226: verl has no reward for the `data_source` of some rows.

    Why: without a function of yours the column `data_source` decides how a response is scored. An unknown value raises
        NotImplementedError "Reward function is not implemented" once the first rollout is done.
    Example: rows with data_source "my/set", and nothing about reward.custom_reward_function
    Instead: reward.custom_reward_function.path=reward.py (a function `compute_score`)
    Source: verl/utils/reward_score/__init__.py; verl issues 3450, 446
    """
    data = run.context.data
    if data is None or run.get(f"{_NEW}.path") is not None or run.get(f"{_OLD}.path") is not None:
        return
    manager = run.text(_MANAGER) or run.text("reward_model.reward_manager") or "naive"
    if run.text(_SOURCE) == "importlib" or manager not in _BY_SOURCE or run.flag(_MODEL):
        return
    from verlcli.facts.verl.versions import scores_source

    unknown = sorted(source for source in data.sources if not scores_source(source, run.version))
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        yield Verdict(
            "VRL226",
            (f"{_NEW}.path", "data.train_files"),
            f"verl {run.version} has no reward for data_source '{unknown[0]}'{more}",
            f"set {run.name(f'{_section(run)}.path')} to a file with a function compute_score",
        )


@rule()
def reward_file_is_here(run: VerlRun) -> Iterator[Verdict]:
    """VRL247: the file of the reward function is not there.

    Why: verl loads it when the workers start, after Ray and the models. Only a warning, as a script may be checked on
        another machine than the one that trains.
    Example: reward.custom_reward_function.path=/nope.py
    Instead: the path of a file that is there
    Source: verl/trainer/ppo/reward.py
    """
    key = f"{_section(run)}.path"
    path = run.text(key)
    if path is not None and is_absent(path) and not is_ours(run, key):
        yield Verdict("VRL247", (key,), f"no such reward file here: {path}", "correct the path", "warning")


@rule()
def reward_function_is_defined(run: VerlRun) -> Iterator[Verdict]:
    """VRL271: the reward file does not define the function that is asked for.

    Why: verl takes the name from custom_reward_function.name, `compute_score` unless set. A name that the file does not
        define is an AttributeError when the workers start.
    Example: reward.custom_reward_function.name=score, and a file that defines `compute_score`
    Instead: reward.custom_reward_function.name=compute_score
    Source: verl/trainer/ppo/reward.py, verl/utils/import_utils.py
    """
    section = _section(run)
    path, name = run.text(f"{section}.path"), run.text(f"{section}.name")
    if path is None or name is None or not path.endswith(".py") or not os.path.isfile(path):
        return
    names = _names_in(path, os.stat(path).st_mtime_ns)
    if isinstance(names, str):
        yield Verdict("VRL271", (f"{section}.path",), f"{path} is no Python that can be loaded: {names}", "correct it")
    elif names is not None and name not in names:
        close = closest(name, names)
        yield Verdict(
            "VRL271",
            (f"{section}.name", f"{section}.path"),
            f"{path} defines no '{name}'",
            f"did you mean '{close}'?" if close else f"set {run.name(f'{section}.name')} to a function of that file",
        )


@cache
def _names_in(path: str, _changed: int) -> tuple[str, ...] | str | None:
    """Names that a module defines at its top level; what is wrong with its syntax; None when that cannot be told."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except OSError:
        return None
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else "it cannot be parsed"
    names = tuple(_bound(tree.body))
    return None if "*" in names or "__getattr__" in names else names


def _bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        else:
            # Assignments, also those inside if, try and with.
            yield from (
                name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            )
            yield from _bound(child for child in ast.walk(node) if child is not node and isinstance(child, _DEFINES))


_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)

RULES: tuple[VerlRule, ...] = (sources_have_a_reward, reward_file_is_here, reward_function_is_defined)
