"""How well `verl validate` finds one fault in a config: mutants of every preset, each with the line and the advice due.

    python benchmarks/mutations.py [--per-kind 22] [--seed 7] [--check] [--list-misses]

Columns: cases; share whose problem stands on the right line (or override); share of those with something to propose
whose text proposes it; share of conflicts and duplicates that show the other place too; tracebacks; false problems
beside the right one. The last row is the clean presets. `--check` exits 1 below 99 % lines, 97 % suggestions, or with
a traceback or a false problem on a clean preset.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutants import Case, cases, preset
from mutants.base import REFUSED, ROOT, text_of

from verlcli.config import load_config
from verlcli.config.problems import Problem
from verlcli.errors import ConfigError

RIGHT_LINES, RIGHT_SUGGESTIONS = 0.99, 0.97
DATA = ("data/gsm8k/train.parquet", "data/gsm8k/test.parquet", "gsm8k/train.parquet", "gsm8k/test.parquet", "a.jsonl")


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said: code, line in the file (0: `-o #1`, -1: elsewhere), text, key, lines of other keys."""

    code: str
    line: int
    text: str
    key: str = ""
    others: tuple[int, ...] = ()

    def names(self, wants: tuple[str, ...]) -> bool:
        """Whether one of `wants` is said: in the text, or as the key itself."""
        return any(want in self.text or want == self.key for want in wants)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case and what was said; `crash` is the exception's text, or empty."""

    case: Case
    said: tuple[Said, ...]
    crash: str = ""

    @property
    def hit(self) -> Said | None:
        """What was said of the fault, where it stands."""
        right = [each for each in self.said if each.code in self.case.codes and each.line == self.case.line]
        return next((each for each in right if each.names(self.case.wants)), *right[:1] or [None])

    @property
    def suggested(self) -> bool:
        return self.hit is not None and self.hit.names(self.case.wants)

    @property
    def both_places(self) -> bool:
        hit = self.hit
        return hit is not None and (self.case.other in hit.others or f"line {self.case.other}" in hit.text)

    @property
    def extra(self) -> int:
        return len(self.said) - (self.hit is not None)


def prepare(folder: Path) -> None:
    """What the presets name by path: their data (empty files) and the quickstart's model."""
    for name in DATA:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    os.symlink(ROOT / "presets" / "quickstart-model", folder / "quickstart-model")


def run(case: Case, folder: Path) -> Outcome:
    """Load the case's text and overrides; every exception but ConfigError is a crash."""
    file = folder / "config.yaml"
    file.write_text(case.text, encoding="utf-8")
    try:
        problems = load_config([file], case.overrides, env={}).problems
    except ConfigError as error:
        return Outcome(case, (_refusal(error, str(file)),))
    except Exception as error:
        return Outcome(case, (), f"{type(error).__name__}: {error}")
    return Outcome(case, tuple(_said(problem) for problem in problems if problem.severity != "note"))


def _refusal(error: ConfigError, file: str) -> Said:
    where = error.where or ""
    place = where.removeprefix(f"{file}:").split(":")[0]
    line = 0 if where.startswith("-o #1") else int(place) if place.isdecimal() else -1
    return Said(REFUSED, line, f"{error.message}; {error.fix}")


def _said(problem: Problem) -> Said:
    line = problem.line if problem.file else 0 if problem.origin == "-o #1" else -1
    others = tuple(other.place.line for other in problem.related)
    return Said(problem.code, line, problem.sentence, problem.path.rpartition(".")[2], others)


def clean_outcomes(folder: Path) -> list[Outcome]:
    """The presets as they are."""
    bases = [preset(path) for path in sorted((ROOT / "presets").glob("*.yaml"))]
    return [run(Case("clean presets", base.name, text_of(list(base.lines)), ()), folder) for base in bases]


def outcomes(corpus: Iterable[Case]) -> tuple[list[Outcome], list[Outcome]]:
    """All cases run in a folder of their own: of the corpus, and of the clean presets."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        return [run(case, folder) for case in corpus], clean_outcomes(folder)


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares over some outcomes; `suggestions` over those with something to propose, `places` over conflicts."""

    cases: int
    lines: float
    suggestions: float
    places: float
    crashes: int
    extra: int


def rates(done: list[Outcome]) -> Rates:
    """Sum up; a share of nothing is 1."""
    advised = [each.suggested for each in done if each.case.wants]
    paired = [each.both_places for each in done if each.case.other]
    return Rates(
        len(done),
        _share([each.hit is not None for each in done]),
        _share(advised),
        _share(paired),
        sum(bool(each.crash) for each in done),
        sum(each.extra for each in done),
    )


def _share(flags: list[bool]) -> float:
    return sum(flags) / len(flags) if flags else 1.0


def table(done: list[Outcome], clean: list[Outcome]) -> str:
    """One row a kind, their sum, the clean presets."""
    rows = [f"{'':20} cases  line %  advice %  places %  tracebacks  false"]
    for kind in dict.fromkeys(each.case.kind for each in done):
        rows.append(_row(kind, rates([each for each in done if each.case.kind == kind])))
    rows.append(_row("all", rates(done)))
    false = sum(len(each.said) for each in clean)
    rows.append(f"{'clean presets':20} {len(clean):5} {'':25} {sum(bool(each.crash) for each in clean):13} {false:6}")
    return "\n".join(rows)


def _row(name: str, sums: Rates) -> str:
    shares = f"{sums.lines:7.1%} {sums.suggestions:9.1%} {sums.places:9.1%}"
    return f"{name:20} {sums.cases:5} {shares} {sums.crashes:11} {sums.extra:6}"


def misses(done: list[Outcome]) -> list[str]:
    """Cases with a wrong line, no advice, a crash or false problems, and what was said."""
    found = []
    for each in done:
        lacks = [] if each.hit else ["line"]
        lacks += ["advice"] if each.hit and each.case.wants and not each.suggested else []
        lacks += ["place"] if each.hit and each.case.other and not each.both_places else []
        lacks += ["false"] if each.extra else []
        lacks += ["crash"] if each.crash else []
        if lacks:
            said = "".join(f"\n    {said.line} {said.code} {said.text}" for said in each.said) or f"\n    {each.crash}"
            due = f"due: line {each.case.line} {' or '.join(each.case.wants)} {each.case.overrides or ''}"
            found.append(f"{'+'.join(lacks)} [{each.case.kind}] {each.case.name}; {due}{said}")
    return found


def holds(done: list[Outcome], clean: list[Outcome]) -> bool:
    """Whether the bars of `--check` are met."""
    sums = rates(done)
    good = sums.lines >= RIGHT_LINES and sums.suggestions >= RIGHT_SUGGESTIONS and not sums.crashes
    return good and not any(each.said or each.crash for each in clean)


def main() -> int:
    """Print the table; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-kind", type=int, default=22, help="most mutants of one kind from one preset")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list-misses", action="store_true")
    arguments = parser.parse_args()
    done, clean = outcomes(cases(arguments.per_kind, arguments.seed))
    if arguments.list_misses:
        print("\n".join(misses(done)))
    print(table(done, clean))
    return int(arguments.check and not holds(done, clean))


if __name__ == "__main__":
    sys.exit(main())
