"""How `verl validate` judges verl's own launch scripts, against what Hydra and bash themselves say.

    python3 -m venv hydra-venv && hydra-venv/bin/pip install hydra-core==1.3.2
    python benchmarks/verl_scripts.py --repo VERL.git --recipes VERL_RECIPE.git --wheel verl-0.9.1-py3-none-any.whl \\
        --hydra hydra-venv/bin/python --ref v0.9.0:0.9.0 --ref HEAD:main --ref v0.5.0:0.9.1 [--check]

`--ref REF:VERSION` takes every script of a git ref and checks it as a launch of that version. Hydra composes each
launch on the version's real config folders (what only a run can tell is filled in); bash runs the script with stubs.

A *false error* is an error that Hydra does not confirm at its line and that `verl_scripts_decisions.py` does not show
to be true. A *miss* is a word that Hydra refuses, or a reward key that verl ignores, with no error at its line and key.
`--check` exits 1 with any of either. `--work` keeps the unpacked sources and Hydra's answers for the next run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from verl_scripts_bash import Bash, given_to, same_overrides
from verl_scripts_decisions import decided
from verl_scripts_judge import Hydra, Refused
from verl_scripts_sources import Sources

from verlcli.config.check_file import check_file
from verlcli.config.context import Context
from verlcli.config.problems import Problem
from verlcli.config.shell import read_script

NOISE = 0.2  # a warning on more of the scripts than this tells nobody anything


@dataclass
class Outcome:
    """One script of one ref.

    Attributes:
        parsed: whether every line of it is bash to us.
        launches: of verl.
        refused: words that Hydra refuses or verl ignores.
        missed: those of them with no error at their place.
        false: errors that nothing confirms.
        overrides: bash's own, and how many of them were read exactly.
        milliseconds: of the whole check.
        crash: exception that the check ended with; empty without one.
    """

    ref: str
    version: str
    path: str
    parsed: bool = False
    launches: int = 0
    refused: list[Refused] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    missed: list[Refused] = field(default_factory=list)
    false: list[Problem] = field(default_factory=list)
    overrides: tuple[int, int] = (0, 0)
    milliseconds: float = 0
    crash: str = ""

    @property
    def hydra(self) -> str:
        return ("refused" if self.refused else "accepted") if self.launches else "no verl launch"

    @property
    def verdict(self) -> str:
        faults = (("crash", self.crash), ("false error", self.false), ("missed", self.missed))
        kinds = [name for name, found in faults if found]
        return ", ".join(kinds) or "agree"

    def to_json(self) -> dict[str, Any]:
        problems = [f"{each.severity} {each.code}:{each.line}" for each in self.problems if not each.unchecked]
        refused = [f"{each.key or 'launch'}:{each.lines[0]}" for each in self.refused]
        row = {"ref": self.ref, "version": self.version, "path": self.path, "launches": self.launches}
        row |= {"parsed": self.parsed, "hydra": self.hydra, "refused": refused, "ours": problems}
        return row | {"verdict": self.verdict}


def judged(outcome: Outcome) -> Outcome:
    """The outcome with its misses and false errors."""
    errors = [problem for problem in outcome.problems if problem.severity == "error"]
    outcome.missed = [each for each in outcome.refused if not any(map(each.matches, outcome.problems))]
    pair = f"{outcome.ref}:{outcome.version}"
    open_errors = [each for each in errors if not any(refused.matches(each) for refused in outcome.refused)]
    outcome.false = [each for each in open_errors if decided(each.code, outcome.path, pair) is None]
    return outcome


def check_script(root: Path, path: Path, ref: str, version: str, hydra: Hydra, bash: Bash) -> Outcome:
    """Read, check and judge one script; an exception is a finding of this benchmark, not its end."""
    file, outcome = root / path, Outcome(ref, version, str(path))
    try:
        script = read_script(file.read_text(encoding="utf-8", errors="replace"), str(file))
        outcome.parsed = not script.errors
        outcome.overrides = same_overrides(bash.launches(file, given_to(script)), script.launches)
        outcome.launches, outcome.refused = hydra.judge(script, version, root)
        start = time.perf_counter()
        outcome.problems = check_file(str(file), (), Context(verl_version=version))
        outcome.milliseconds = (time.perf_counter() - start) * 1000
    except Exception as error:
        outcome.crash = f"{type(error).__name__}: {error}"
    return judged(outcome)


def outcomes(sources: Sources, hydra: Hydra, pair: str) -> list[Outcome]:
    """All scripts of `REF:VERSION`."""
    ref, _, version = pair.partition(":")
    root, bash = sources.tree(ref), Bash(sources.tree(ref), sources.work / "stubs")
    return [check_script(root, path, ref, version, hydra, bash) for path in sources.scripts(ref)]


def report(title: str, found: Sequence[Outcome]) -> None:
    """Numbers of one ref, or of a part of it."""
    hydra = Counter(outcome.hydra for outcome in found)
    right, total = (sum(outcome.overrides[at] for outcome in found) for at in (1, 0))
    times = sorted(outcome.milliseconds for outcome in found)
    launches, started = sum(outcome.launches for outcome in found), len(found) - hydra["no verl launch"]
    refused, missed = (sum(map(len, each)) for each in ((o.refused for o in found), (o.missed for o in found)))
    false = [len(outcome.false) for outcome in found if outcome.false]
    print(f"\n{title}: {len(found)} scripts, {sum(outcome.parsed for outcome in found)} parsed in full")
    print(f"  launches of verl: {launches} in {started} scripts")
    print(f"  Hydra: accepts {hydra['accepted']} scripts, refuses {hydra['refused']}")
    print(f"  refused or ignored words: {refused}, missed: {missed}")
    print(f"  false errors: {sum(false)} in {len(false)} scripts")
    print(f"  overrides exactly as bash passes them: {right} of {total}")
    print(f"  milliseconds a script: median {statistics.median(times):.1f}, p99 {times[int(len(times) * 0.99)]:.1f}")


def report_codes(found: Sequence[Outcome]) -> None:
    """Warnings and notes by code: how often, and on which share of the scripts with a launch."""
    started = [outcome for outcome in found if outcome.launches]
    scripts: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    for outcome in started:
        names = [f"{each.severity} {each.code}{' unchecked' if each.unchecked else ''}" for each in outcome.problems]
        problems.update(names)
        scripts.update(set(names))
    for name, count in scripts.most_common(24):
        share = count / len(started)
        noise = "  <- noise" if share > NOISE and name.startswith("warning") else ""
        print(f"  {name:26} {problems[name]:5} in {count:4} scripts, {share:4.0%}{noise}")


def report_faults(found: Iterable[Outcome]) -> None:
    """Every crash, false error and miss, by script."""
    for outcome in found:
        where = f"{outcome.ref}:{outcome.version} {outcome.path}"
        if outcome.crash:
            print(f"CRASH {where} {outcome.crash}")
        for problem in outcome.false:
            print(f"FALSE {where}:{problem.line} {problem.code} {problem.path}: {problem.message}")
        for refused in outcome.missed:
            print(f"MISS {where}:{refused.lines[0]} {refused.key}: {refused.message}")


def main() -> int:
    """Run it; 1 with `--check` and any fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--recipes", type=Path, required=True)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--hydra", type=Path, required=True, help="python with hydra-core 1.3")
    parser.add_argument("--ref", action="append", required=True, metavar="REF:VERSION")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sources = Sources(options.repo, options.recipes, options.wheel, (options.work or Path(scratch)).resolve())
        sources.work.mkdir(parents=True, exist_ok=True)
        sources.work.chmod(0o755)
        with Hydra(options.hydra, sources) as hydra:
            found = {pair: outcomes(sources, hydra, pair) for pair in options.ref}
    for pair, of_pair in found.items():
        report(pair, of_pair)
        report_codes(of_pair)
        report(f"{pair} examples/", [outcome for outcome in of_pair if outcome.path.startswith("examples/")])
    every = [outcome for of_pair in found.values() for outcome in of_pair]
    print()
    report_faults(every)
    if options.out:
        options.out.write_text("".join(json.dumps(each.to_json()) + "\n" for each in every), encoding="utf-8")
    return int(options.check and any(outcome.verdict != "agree" for outcome in every))


if __name__ == "__main__":
    sys.exit(main())
