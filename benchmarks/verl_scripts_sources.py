"""Sources of verl for `verl_scripts.py`: whole trees of a git ref, and the config folders of a version."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

# Versions that `verl validate` knows -> git ref; one without a tag comes from its wheel.
REFS = {version: f"v{version}" for version in ("0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.0")} | {"main": "HEAD"}
SUFFIXES = (".sh", ".slurm", ".sbatch", ".bash")


@dataclass(frozen=True)
class Sources:
    """Where the sources come from, and the folder in which they are unpacked once.

    Attributes:
        repo, recipes: git directories of verl and of verl-recipe, its submodule since 0.7.
        wheel: of a version that has no tag; None: not needed.
        work: folder for the unpacked trees; nothing else may stand in it.
    """

    repo: Path
    recipes: Path
    wheel: Path | None
    work: Path

    def tree(self, ref: str) -> Path:
        """The whole tree of a git ref, with the recipes that it pins."""
        root = self.work / ref
        if not root.is_dir():
            _unpack(self.repo, ref, root)
            pinned = _git(self.repo, "ls-tree", ref, "recipe").decode().split()
            if pinned[1:2] == ["commit"]:
                _unpack(self.recipes, pinned[2], root / "recipe")
            (root / "recipe").mkdir(exist_ok=True)
        return root

    def of_version(self, version: str) -> Path:
        """The tree whose config folders a version has."""
        if version in REFS:
            return self.tree(REFS[version])
        root = self.work / f"wheel-{version}"
        if not root.is_dir():
            if self.wheel is None:
                raise SystemExit(f"verl {version} has no tag: add --wheel verl-{version}-py3-none-any.whl")
            zipfile.ZipFile(self.wheel).extractall(root)
            pinned = _git(self.repo, "ls-tree", "HEAD", "recipe").decode().split()
            _unpack(self.recipes, pinned[2], root / "recipe")
        return root

    def scripts(self, ref: str) -> list[Path]:
        """Every shell script of a ref, relative to its tree, sorted."""
        root = self.tree(ref)
        return sorted(file.relative_to(root) for file in root.rglob("*") if file.suffix in SUFFIXES and file.is_file())


def _git(repo: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(repo), *arguments], check=True, capture_output=True).stdout


def _unpack(repo: Path, ref: str, root: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(_git(repo, "archive", ref))) as archive:
        archive.extractall(root, filter="data")
