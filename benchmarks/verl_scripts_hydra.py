"""Hydra's own verdict on launches of verl, for `verl_scripts.py`; runs where hydra-core 1.3 is installed, without verl.

Reads one JSON request a line from stdin and answers each with one line. A request has `root` (sources whose config
folders count), `home` (folder in which the script would be started), `module` and `argv` (what follows the module).
The answer has `module` (null: no Hydra program of verl), `refused` (one entry per refused word: its index in `argv`,
-1 for the launch as a whole, and Hydra's message), `dead` (indices of words that set a key verl never reads), and
`open` (nothing can be said: its config folder or package is not here, or the config alone does not compose).
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

HYDRA_MAIN = re.compile(r'^@hydra\.main\(\s*config_path="([^"]*)",\s*config_name="([^"]*)"', re.MULTILINE)
# How Hydra names the override that it cannot apply.
CULPRIT = re.compile(r"(?:Could not override|already at|Could not delete from config\.|In) '([^']+)'")
MERGING = re.compile(r"Error merging override (.*)")
REFERENCE = re.compile(r"Interpolation key '([^']+)' not found|Environment variable '([^']+)' not found")
Refusal = tuple[int, str]
Compose = Callable[[Sequence[str]], "str | None"]  # overrides -> Hydra's message, None when it composes them


@cache
def modules(root: Path) -> dict[str, tuple[Path, str]]:
    """Every Hydra program of a source tree: its config folder and the config's name."""
    found = {}
    for file in sorted([*root.glob("verl/**/*.py"), *root.glob("recipe/**/*.py")]):
        if match := HYDRA_MAIN.search(file.read_text(encoding="utf-8")):
            found[".".join(file.relative_to(root).with_suffix("").parts)] = (file.parent / match[1], match[2])
    return found


def module_named(root: Path, written: str) -> str | None:
    """The module behind `-m a.b`, or behind a file `./x/a/b.py`."""
    dotted = written.removesuffix(".py").replace("/", ".").lstrip(".") if written.endswith(".py") else written
    known = modules(root)
    if dotted in known:
        return dotted
    return next((name for name in known if written.endswith(".py") and dotted.endswith(f".{name}")), None)


class OpenError(Exception):
    """Nothing can be said about the launch."""


def refusals(root: Path, home: Path, module: str, argv: Sequence[str]) -> list[Refusal]:
    """Every word that Hydra refuses: it names one at a time, so that each is taken out before the next try.

    Raises:
        OpenError: its config is not here, or does not compose even without overrides.
    """
    if any(word.startswith("hydra.searchpath=") for word in argv):
        raise OpenError
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            options = get_args_parser().parse_args(list(argv))
    except SystemExit:
        return [(_unrecognized(argv, errors.getvalue()), errors.getvalue().strip().splitlines()[-1])]
    folder, name = modules(root)[module]
    given = options.config_path or options.config_dir
    folder = _folder(given, home, folder) if given else folder.resolve()
    name = (options.config_name or name).removesuffix(".yaml")
    if not folder.is_dir() or _broken(root, folder, name):
        raise OpenError
    compose_with = partial(_composed, root, folder, name)
    left = _indexed(argv, options.overrides)
    found: list[Refusal] = []
    while (message := compose_with([text for _, text in left])) is not None:
        at = _culprit(message, left)
        at = _by_trial(message, left, compose_with) if at is None else at
        found.append((left[at][0] if at is not None else -1, message))
        if at is None:
            break
        del left[at]
    return found


@cache
def _broken(root: Path, folder: Path, name: str) -> bool:
    return (folder / f"{name}.yaml").is_file() and _composed(root, folder, name, []) is not None


def _folder(written: str, home: Path, beside: Path) -> Path:
    """`--config-path` is relative to the program's own folder; most people mean the one they start in."""
    return next((path.resolve() for path in (beside.parent / written, home / written) if path.is_dir()), Path(written))


def _indexed(argv: Sequence[str], overrides: Sequence[str]) -> list[Refusal]:
    """Each override with its index in `argv`."""
    indexed, start = [], 0
    for text in overrides:
        start = argv.index(text, start)
        indexed.append((start, text))
        start += 1
    return indexed


def _unrecognized(argv: Sequence[str], message: str) -> int:
    words = message.partition("unrecognized arguments: ")[2].split(" ")
    return next((number for number, word in enumerate(argv) if words[0] and word.startswith(words[0])), -1)


@cache
def _one(text: str) -> str | None:
    """What Hydra's grammar says against one override."""
    try:
        OverridesParser.create().parse_overrides([text])
    except Exception as error:
        return str(error)
    return None


def _composed(root: Path, folder: Path, name: str, overrides: Sequence[str]) -> str | None:
    """Hydra's message when it does not compose these; None when it does.

    Its own steps one by one, so that the tree which thousands of launches share is put together once.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, run_mode=RunMode.RUN, from_shell=False)
    except Exception as error:
        return str(error)
    groups = [each for each in parsed if _is_group(root, folder, each)]
    config = _tree(root, folder, name, tuple(each.input_line for each in groups))
    if isinstance(config, str):
        return config
    config = copy.deepcopy(config)
    try:
        ConfigLoaderImpl._apply_overrides_to_config([each for each in parsed if each not in groups], config)
    except Exception as error:
        return str(error) or type(error).__name__
    return _unresolved(config, overrides)


def _is_group(root: Path, folder: Path, override: Override) -> bool:
    name = override.key_or_group
    known = any((place / name).is_dir() for place in (folder, root / "verl/trainer/config"))
    return (known or name.startswith("hydra/")) and not isinstance(override.value(), dict)


@cache
def _tree(root: Path, folder: Path, name: str, groups: tuple[str, ...]) -> DictConfig | str:
    """The config with its groups chosen and nothing else, or Hydra's message."""
    os.chdir(root)  # overlays name verl's folder relative to the working one
    search = f"hydra.searchpath=[file://{root / 'verl/trainer/config'}]"  # pkg:// would import verl
    try:
        with initialize_config_dir(str(folder), version_base=None):
            return compose(name, overrides=[search, *groups], return_hydra_config=True)
    except Exception as error:
        return str(error) or type(error).__name__


def _unresolved(config: DictConfig, overrides: Sequence[str]) -> str | None:
    """OmegaConf's message about a reference that an override brought in; verl resolves the whole config first."""
    if not any("${" in text for text in overrides):
        return None
    with open_dict(config):
        del config["hydra"]
    try:
        OmegaConf.resolve(config)
    except Exception as error:
        missing = next(filter(None, REFERENCE.search(str(error)).groups())) if REFERENCE.search(str(error)) else None
        return str(error) if missing and any(f"{missing}}}" in text for text in overrides) else None
    return None


def _culprit(message: str, overrides: Sequence[Refusal]) -> int | None:
    """Position of the override that `message` is about."""
    for at, (_, text) in enumerate(overrides):
        if (said := _one(text)) is not None and said.splitlines()[0] == message.splitlines()[0]:
            return at
    if merging := MERGING.search(message):
        return next((at for at, (_, text) in enumerate(overrides) if text == merging[1].strip()), None)
    if reference := REFERENCE.search(message):
        missing = next(filter(None, reference.groups()))
        return next((at for at, (_, text) in enumerate(overrides) if f"{missing}}}" in text), None)
    names = {match[1] for match in CULPRIT.finditer(message)} | set(re.findall(r"full_key: (\S+)", message))
    names |= {match[1].partition("/")[0] for match in re.finditer(r"Could not find '([^']+)'", message)}
    for at, (_, text) in enumerate(overrides):
        if text.lstrip("+~").partition("=")[0] in names:
            return at
    return None


def _by_trial(message: str, overrides: Sequence[Refusal], compose_with: Compose) -> int | None:
    """Position of the override without which Hydra no longer says `message`: a group, or a choice of several values."""
    for at in range(len(overrides)):
        others = [other for _, other in (*overrides[:at], *overrides[at + 1 :])]
        if compose_with(others) != message:
            return at
    return None


def dead(root: Path, module: str, argv: Sequence[str]) -> list[int]:
    """Words that set one of the top-level reward keys kept for old scripts, where the program does not move them."""
    folder, name = modules(root)[module]
    config, program = folder / f"{name}.yaml", root / f"{module.replace('.', '/')}.py"
    kept = config.is_file() and "legacy_reward_impl" in config.read_text(encoding="utf-8")
    if not kept or "migrate_legacy_reward_impl" in program.read_text(encoding="utf-8"):
        return []
    legacy: Any = OmegaConf.to_container(OmegaConf.load(root / "verl/trainer/config/legacy_reward_impl.yaml"))
    pairs = [word.lstrip("+").partition("=") for word in argv]
    return [
        at for at, (key, _, value) in enumerate(pairs) if key.partition(".")[0] in legacy and value not in ("", "null")
    ]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request."""
    root, home = Path(request["root"]), Path(request["home"])
    module = module_named(root, request["module"])
    if module is None:
        # Gone since: python itself stops.
        known = module_named(home, request["module"]) is not None
        refused = [(-1, f"No module named {request['module']}")] if known else []
        return {"module": request["module"] if known else None, "refused": refused, "dead": [], "open": False}
    argv = request["argv"]
    try:
        refused = refusals(root, home, module, argv)
    except OpenError:
        return {"module": module, "refused": [], "dead": [], "open": True}
    return {"module": module, "refused": refused, "dead": dead(root, module, argv), "open": False}


def main() -> int:
    """Answer until stdin ends."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
