"""What bash itself passes to python in a launch script, for `verl_scripts.py`.

Bash runs the script with nothing but stubs on its PATH: `python3`, `torchrun`, `ray`, `srun` write down their words
and do nothing; harmless text tools are real. It runs as `nobody` where this process is root, for five seconds at most.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from verlcli.config.shell import Gap, Launch, Piece, Script, Word
from verlcli.config.shell.parts import text_as_run
from verlcli.config.shell.slurm import slurm_variables

RECORDED = ("python3", "python", "python3.10", "torchrun", "accelerate", "ray", "srun", "nsys", "numactl", "deepspeed")
REAL = ("dirname", "basename", "realpath", "readlink", "cat", "date", "seq", "expr", "tr", "sed", "grep", "egrep")
REAL += ("head", "tail", "wc", "cut", "sort", "uniq", "awk", "env", "nohup", "timeout", "stdbuf", "mktemp")
SILENT = ("sleep", "tee", "mkdir", "rm", "cp", "mv", "pip", "pip3", "git", "curl", "wget", "nvidia-smi", "hf", "ls")
SILENT += ("huggingface-cli", "nproc", "hostname", "chmod", "ssh", "scp", "kill", "pkill", "docker", "scontrol", "ln")
SILENT += ("npu-smi", "uv", "conda", "wandb", "apt", "apt-get", "lsof", "find", "touch", "which", "df", "free", "ps")
SECONDS = 5
NOBODY = 65534


class Bash:
    """Runs scripts of one tree; its folders become writable to all, so that redirections work."""

    def __init__(self, tree: Path, stubs: Path) -> None:
        self.tree, self.stubs, self.record = tree, stubs, stubs / "record"
        stubs.mkdir(parents=True, exist_ok=True)
        for name in RECORDED:
            self._stub(name, f'printf "%s\\0" $(($# + 1)) {name} "$@" >> "{self.record}"')
        for name in REAL:
            (stubs / name).unlink(missing_ok=True)
            (stubs / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
        for name in SILENT:
            self._stub(name, "exit 0")
        for name in ("bash", "sh"):
            self._stub(name, 'case "$1" in -c|-lc) exec /bin/bash "$@";; esac')  # other scripts are read on their own
        for folder, _, _ in os.walk(tree):
            os.chmod(folder, 0o777)

    def _stub(self, name: str, text: str) -> None:
        file = self.stubs / name
        file.unlink(missing_ok=True)
        file.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        file.chmod(0o755)

    def launches(self, script: Path, given: Mapping[str, str]) -> list[tuple[str, ...]]:
        """Words of every recorded command, in the order in which they ran; of a script that hangs, those before.

        `given` are variables beside those of any shell, such as what Slurm sets.
        """
        self.record.write_bytes(b"")
        self.record.chmod(0o666)
        environment = {**given, "PATH": str(self.stubs), "HOME": "/home/user", "USER": "user"}
        user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
        command = ["/bin/bash", str(script)]
        process = subprocess.Popen(
            command,
            cwd=self.tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **user,
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        return list(_records(self.record.read_bytes().decode(errors="replace").split("\0")))


def _records(parts: Sequence[str]) -> list[tuple[str, ...]]:
    found, at = [], 0
    while at < len(parts) - 1:
        count = int(parts[at])
        found.append(tuple(parts[at + 1 : at + 1 + count]))
        at += 1 + count
    return found


def given_to(read: Script) -> dict[str, str]:
    """Variables to run a script with: what Slurm sets because of its directives, and nothing for what nobody sets.

    Bash reads the latter alike, except that `set -u` does not stop there.
    """
    gaps = (gap for launch in read.launches for word in launch.words for gap in word.gaps)
    unset = {gap.variable: "" for gap in gaps if gap.kind == "unset" and (gap.variable or "").isidentifier()}
    slurm = {name: text_as_run(variable.parts) for name, variable in slurm_variables(read.directives).items()}
    return {name: text for name, text in (unset | slurm).items() if name}


def same_overrides(real: Sequence[tuple[str, ...]], read: Sequence[Launch]) -> tuple[int, int]:
    """Overrides (`key=value`) in the python launches that bash made, and how many of them were read exactly.

    A launch of bash is compared with the one of `read` that agrees best, word by word at the same positions; what only
    a run can tell, such as today's date, agrees with anything.
    """
    patterns = [[_pattern(word) for word in launch.words] for launch in read]
    total = right = 0
    for words in filter(None, map(_from_python, real)):
        total += sum("=" in word for word in words)
        right += max((_shared(words, mine) for mine in patterns), default=0)
    return total, right


def _from_python(words: Sequence[str]) -> Sequence[str]:
    """The launch itself, without `srun …` or `ray job submit … --` before it; empty when there is none."""
    starts = ("python", "torchrun", "accelerate", "deepspeed")
    return next((words[at:] for at, word in enumerate(words) if word.rpartition("/")[2].startswith(starts)), ())


def _pattern(word: Word) -> re.Pattern[str]:
    return re.compile("".join(map(_part, word.parts)), re.DOTALL)


def _part(part: Piece | Gap) -> str:
    if isinstance(part, Piece):
        return re.escape(part.text)
    return "" if part.kind in ("unset", "arguments") else ".*"  # bash was given neither


def _shared(real: Sequence[str], mine: Sequence[re.Pattern[str]]) -> int:
    if len(real) != len(mine):
        return 0
    return sum("=" in word and bool(pattern.fullmatch(word)) for word, pattern in zip(real, mine, strict=True))
