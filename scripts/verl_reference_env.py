"""A cached environment with verl 0.9.1's own functions, to compare ours with; prints its interpreter.

verl comes without its dependencies, beside it only the few packages that `core_algos` imports; torch, transformers and
numpy are those of the environment that runs this. Some 200 MB, installed in about 30 seconds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PACKAGES = (
    "verl==0.9.1",
    "antlr4-python3-runtime==4.9.3",
    "cloudpickle==3.1.3",
    "codetiming==1.4.0",
    "hydra-core==1.3.8",
    "msgpack==1.2.4",
    "omegaconf==2.4.0",
    "orjson==3.13.0",
    "protobuf==7.36.2",
    "pyvers==0.2.3",
    "ray==2.60.0",
    "tensordict==0.15.3",
)


def ensure(cache: Path | None = None) -> Path:
    """Interpreter of the environment, made at the first call; `cache` None: the user's cache folder.

    Raises:
        subprocess.CalledProcessError: pip could not install it; its output says why.
    """
    home = (cache or _cache()) / f"verl-reference-{_fingerprint()}"
    python = home / "bin" / "python"
    if (home / ".complete").is_file():
        return python
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", *PACKAGES]
    subprocess.run(pip, check=True)
    (site,) = home.glob("lib/python*/site-packages")
    # A path in a .pth file stands behind the environment's own packages, so that verl and its own come first.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    (home / ".complete").touch()
    return python


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verlcli"


def _fingerprint() -> str:
    """Other packages, another Python or another borrowed environment make another environment."""
    text = "\n".join((*PACKAGES, sys.version, sysconfig.get_path("purelib")))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


if __name__ == "__main__":
    print(ensure())
