"""Probes of Python and the installed packages, from their metadata alone: nothing is imported."""

from __future__ import annotations

import sys
from importlib import metadata, util
from pathlib import Path

from verlcli.diagnose.finding import Finding

TESTED_PYTHONS = ((3, 10), (3, 13))


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def is_installed(module: str) -> bool:
    """True when `import module` would find a top-level module; it is not imported."""
    spec = util.find_spec(module)
    # A mere folder of that name in the current folder is a namespace package, without an origin.
    return spec is not None and spec.origin is not None


def torch_cuda_build() -> str | None:
    """CUDA version torch was built with ("12.6"), read from the text of `torch/version.py`; None for a CPU build."""
    import re

    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    match = re.search(r"^cuda\b.*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return match.group(1) if match else None


def probe_python() -> Finding:
    """The interpreter is one of the tested versions."""
    version = ".".join(map(str, sys.version_info[:3]))
    low, high = TESTED_PYTHONS
    if low <= sys.version_info[:2] <= high:
        return Finding("python", "PASS", f"{version} ({sys.executable})")
    tested = f"{low[0]}.{low[1]} to {high[0]}.{high[1]}"
    return Finding(
        "python",
        "WARN",
        f"{version} ({sys.executable})",
        why=f"verlcli is tested on Python {tested}",
        fix=f"make a virtual environment with a Python from {tested}",
    )


def probe_requirement(distribution: str) -> Finding:
    """A core dependency is installed in the range that verlcli's own metadata asks for."""
    from packaging.requirements import Requirement

    asked = [Requirement(line) for line in _own_requirements()]
    wanted = next((r for r in asked if r.name == distribution and not r.marker), Requirement(distribution))
    version = installed_version(distribution)
    if version is not None and wanted.specifier.contains(version, prereleases=True):
        return Finding(distribution, "PASS", f"{version} (wanted: {wanted.specifier or 'any'})")
    return Finding(
        distribution,
        "FAIL",
        f"{version or 'not installed'} (wanted: {wanted.specifier or 'any'})",
        why="nothing can be trained without it" if version is None else "this version is not supported",
        fix=f"pip install '{wanted}'",
    )


def _own_requirements() -> list[str]:
    try:
        return metadata.requires("verlcli") or []
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return []
