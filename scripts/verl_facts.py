"""Write `verlcli/facts/verl/keys.json`: the Hydra keys of every supported verl version, composed from its own YAML.

    python3 -m venv hydra-venv && hydra-venv/bin/pip install hydra-core==1.3.2
    hydra-venv/bin/python scripts/verl_facts.py --repo PATH --recipes PATH --wheel verl-0.9.1-py3-none-any.whl

`--repo` and `--recipes` are clones (or git directories) of verl with its tags and of verl-recipe, its submodule since
0.7; `--wheel` stands in for a version that has no tag. verl is never imported: Hydra reads its YAML, `ast` its
dataclasses (`verl_facts_source.py`). Two minutes on one core.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl_facts_file import Facts, Launch
from verl_facts_source import Dataclasses

OUTPUT = Path(__file__).parents[1] / "verlcli" / "facts" / "verl" / "keys.json"
TAGS = {"0.5.0": "v0.5.0", "0.6.1": "v0.6.1", "0.7.1": "v0.7.1", "0.8.0": "v0.8.0", "0.9.0": "v0.9.0"}
WHEEL, MAIN = "0.9.1", "main"
OWN_RECIPES = ("0.5.0", "0.6.1")  # later ones have them in a submodule
FOLDERS = ("verl", "recipe", "examples")  # what an archive of a tag is cut down to
HYDRA_MAIN = re.compile(r'^@hydra\.main\(config_path="([^"]*)", config_name="([^"]*)"', re.MULTILINE)
# Part of a module's path -> our name of the entry point; the first that matches wins.
ENTRIES = (
    ("fully_async_policy", "fully_async"),
    ("one_step_off_policy", "one_step_off"),
    ("vla.main_ppo", "vla_ppo"),
    ("vla.main_sac", "vla_sac"),
    ("recipe.transfer_queue", "transfer_queue"),
    ("recipe.r1.main_eval", "r1_eval"),
    ("fsdp_sft_trainer", "sft_legacy"),
    ("sft_trainer", "sft"),
    ("verl.trainer.main_generation_server", "generation_server"),
    ("verl.trainer.main_generation", "generation"),
    ("verl.trainer.main_eval", "eval"),
    ("verl.trainer.main_ppo", "main_ppo"),
)
SHARED = {"generation_server": "main_ppo"}  # entries that start on another one's config
ENGINE_NAMES = {"fsdp": "dp"}  # what the SFT trainer calls model_engine=dp
MULTITURN = Path("examples/sglang_multiturn/config")  # overlays of main_ppo that many scripts name by --config-name


@dataclass(frozen=True)
class Sources:
    """Where the sources of all versions come from."""

    repo: Path
    recipes: Path
    wheel: Path

    def unpack(self, version: str, root: Path) -> None:
        """Sources of one version into `root`."""
        revision = TAGS.get(version, "HEAD")
        present = dict(reversed(line.split()[2:]) for line in git(self.repo, "ls-tree", revision).decode().splitlines())
        if version == WHEEL:
            with zipfile.ZipFile(self.wheel) as wheel:
                wheel.extractall(root)
        else:
            self._archive(self.repo, root, revision, *[folder for folder in FOLDERS if folder in present])
        if version not in OWN_RECIPES:
            self._archive(self.recipes, root / "recipe", present["recipe"])  # the commit that verl pins

    @staticmethod
    def _archive(repo: Path, root: Path, revision: str, *folders: str) -> None:
        archive = git(repo, "archive", revision, *folders)
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(root, filter="data")


def git(repo: Path, *arguments: str) -> bytes:
    """Output of a git command in `repo`."""
    return subprocess.run(["git", "-C", str(repo), *arguments], check=True, capture_output=True).stdout


def launches(root: Path) -> Iterator[Launch]:
    """Every entry point with a Hydra config, once per engine that it can run."""
    for file in sorted([*root.glob("verl/**/*.py"), *root.glob("recipe/*/*.py")]):
        if found := HYDRA_MAIN.search(file.read_text(encoding="utf-8")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            entry = next((name for part, name in ENTRIES if part in module), module.split(".")[1])
            folder = file.parent / found[1]
            for config in _configs(folder, found[2]):
                yield from _engines(root, entry, module, folder, config, config == found[2])
            if entry == "main_ppo" and module.endswith("main_ppo"):
                for overlay in sorted((root / MULTITURN).glob("*.yaml")):
                    yield from _overlay(root, f"main_ppo:{overlay.stem}", module, overlay)


def _configs(folder: Path, config: str) -> list[str]:
    """The config a module names, and the older way to choose Megatron: `ppo_trainer` -> `ppo_megatron_trainer`."""
    if not (folder / f"{config}.yaml").is_file():
        return sorted(file.stem for file in folder.glob("*_trainer.yaml"))  # its users must name one
    megatron = config.replace("_trainer", "_megatron_trainer")
    return [config, megatron] if megatron != config and (folder / f"{megatron}.yaml").is_file() else [config]


def _overlay(root: Path, entry: str, module: str, file: Path) -> Iterator[Launch]:
    engine = "megatron" if "megatron" in file.stem else "dp"
    yield Launch("main_ppo", entry, module, root / MULTITURN, file.stem, engine, (), False)


def _engines(root: Path, entry: str, module: str, folder: Path, config: str, default: bool) -> Iterator[Launch]:
    try:
        choices = composed(root, folder, config, ())[1]
    except Exception as error:  # a config that verl itself cannot compose is no tree
        print(f"left out {module} {config}: {str(error).splitlines()[0]}", file=sys.stderr)
        return
    current = "megatron" if "megatron" in config else choices.get("model_engine", choices.get("engine", "dp"))
    yield Launch(
        entry, SHARED.get(entry, entry), module, folder, config, ENGINE_NAMES.get(current, current), (), default
    )
    group = "model_engine" if "model_engine" in choices else "engine" if "engine" in choices else None
    if group is None or module.startswith("recipe") or config.endswith("_megatron_trainer"):
        return
    for choice in group_choices(root, group):
        if choice != current:
            optim = choice if choice in group_choices(root, "optim") else "megatron"  # mindspeed has none of its own
            overrides = (f"{group}={choice}", *([f"optim={optim}"] if group == "engine" else []))
            yield Launch(
                entry,
                SHARED.get(entry, entry),
                module,
                folder,
                config,
                ENGINE_NAMES.get(choice, choice),
                overrides,
                False,
            )


def group_choices(root: Path, group: str) -> list[str]:
    """Files of one config group in verl's own config folder."""
    return sorted(file.stem for file in (root / "verl/trainer/config" / group).glob("*.yaml"))


def composed(
    root: Path, folder: Path, config: str, overrides: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The tree as Hydra composes it (interpolations as written), and its config groups with their choice."""
    os.chdir(root)
    search = f"hydra.searchpath=[file://{root / 'verl/trainer/config'}]"  # pkg:// would import verl
    with initialize_config_dir(str(folder), version_base=None):
        cfg = compose(config, overrides=[search, *overrides], return_hydra_config=True)
        OmegaConf.set_struct(cfg, False)
        choices = {key: value for key, value in cfg.hydra.runtime.choices.items() if not key.startswith("hydra/")}
        del cfg["hydra"]
        return OmegaConf.to_container(cfg, resolve=False), choices


def main() -> int:
    """Write the file; report configs that Hydra cannot compose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--recipes", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    sources = Sources(options.repo.resolve(), options.recipes.resolve(), options.wheel.resolve())
    output = options.output.resolve()  # Hydra's search path makes us change the working folder
    facts, choices = Facts(), {}
    with tempfile.TemporaryDirectory() as folder:
        for version in [*TAGS, WHEEL, MAIN]:
            root = Path(folder) / version
            sources.unpack(version, root)
            groups = sorted(path.name for path in (root / "verl/trainer/config").iterdir() if path.is_dir())
            choices[version] = {group: group_choices(root, group) for group in groups}
            collect(facts, version, root)
    facts.write(choices, output)
    print(f"{output}: {len(facts.trees)} trees, {len(facts.tables['default'])} keys, {output.stat().st_size} bytes")
    return 0


def collect(facts: Facts, version: str, root: Path) -> None:
    """Add every launch of one version; modules that share a tree add it once."""
    classes = Dataclasses(root, ("verl", "recipe"))
    for launch in launches(root):
        name = f"{version}/{launch.tree}/{launch.engine}"
        try:
            if name not in facts.trees:
                facts.add_tree(name, *composed(root, launch.folder, launch.config, launch.overrides), classes)
        except Exception as error:  # a config that verl itself cannot compose is no tree
            print(f"left out {version} {launch.module} {launch.engine}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        if not launch.overrides:
            facts.add_module(version, launch)


if __name__ == "__main__":
    sys.exit(main())
