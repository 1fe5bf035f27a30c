"""State of a shell at one point of the script; several worlds live side by side while a branch is undecided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

from verlcli.config.quick import dataclass
from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.parts import Parts, first_gap, known_text, text_as_run
from verlcli.config.shell.types import Gap, Piece, Place

if TYPE_CHECKING:
    from tree_sitter import Node

    from verlcli.config.shell.shell import Shell
    from verlcli.config.shell.source import Source

Status = Literal["yes", "no", "likely", "maybe"]  # of a command: success, failure, assumed success, undecided
Flow = Literal["", "exit", "return", "break", "continue"]
ALWAYS_SET = frozenset(
    (
        "HOME", "PATH", "PWD", "OLDPWD", "HOSTNAME", "UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO",
        "BASH_VERSION", "OSTYPE", "SHLVL", "BASHPID", "BASH", "HOSTTYPE", "MACHTYPE", "EPOCHSECONDS",
        "EPOCHREALTIME", "SRANDOM", "FUNCNAME", "BASH_SOURCE", "_",
    )
)  # fmt: skip
_MAY_BE_SET = frozenset(
    (
        "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LC_ALL", "TERM", "PYTHONPATH", "LD_LIBRARY_PATH",
        "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
        "RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
        "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
        "ASCEND_RT_VISIBLE_DEVICES", "HF_HOME", "HF_TOKEN", "HF_ENDPOINT", "WANDB_API_KEY", "RAY_ADDRESS", "NNODES",
        "SCRATCH", "WORK", "XDG_CACHE_HOME",
    )
)  # fmt: skip
_MACHINE_PREFIXES = ("SLURM_", "PBS_", "LSB_", "OMPI_", "PMI_", "KUBERNETES_", "MLP_", "ARNOLD_", "PET_")


def at_run_time(name: str) -> bool:
    """Whether the machine, its scheduler or bash itself sets the variable, so that no default is to be assumed."""
    return name in ALWAYS_SET or name in _MAY_BE_SET or name.startswith(_MACHINE_PREFIXES)


@dataclass(frozen=True, slots=True)
class Var:
    """Value of a variable: a scalar's parts, or an array's by index or key."""

    parts: Parts = ()
    items: Mapping[int | str, Parts] | None = None
    exported: bool = False
    integer: bool = False
    keyed: bool = False  # `declare -A`

    def scalar(self) -> Parts:
        """What `$name` gives: of an array the item 0."""
        return self.parts if self.items is None else self.items.get("0" if self.keyed else 0, ())

    def listed(self) -> dict[int | str, Parts]:
        """A copy of an array's items, numbers in order; a scalar is the item 0."""
        if self.items is not None:
            return dict(self.items)
        return {0: self.parts} if self.parts else {}

    def reads_like(self, other: Var) -> bool:
        """Whether both are the same text, or the same items; never where only a run can tell."""
        mine, theirs = self.listed(), other.listed()
        return (
            (self.items is None, self.exported, self.integer) == (other.items is None, other.exported, other.integer)
            and mine.keys() == theirs.keys()
            and all(
                parts == theirs[key] or ((text := known_text(parts)) is not None and text == known_text(theirs[key]))
                for key, parts in mine.items()
            )
        )

    def with_item(self, key: int | str, parts: Parts) -> Var:
        """The array with one item set."""
        items = self.listed()
        between = isinstance(key, int) and key not in items and key < last_index(items)
        items[key] = parts
        return replace(self, items=dict(sorted(items.items(), key=_order)) if between else items)


def last_index(items: Mapping[int | str, Parts]) -> int:
    """The highest number among an array's items, which are in order; -1 when there is none."""
    last = next(reversed(items), None) if items else None
    return last if isinstance(last, int) else -1


def _order(item: tuple[int | str, Parts]) -> int:
    return item[0] if isinstance(item[0], int) else -1


@dataclass(slots=True)
class World:
    """One possible state. Copies share what no command changes in place."""

    variables: dict[str, Var] = field(default_factory=dict)
    functions: dict[str, tuple[Source, Node]] = field(default_factory=dict)
    positional: tuple[Parts, ...] | None = None  # None: the script's own, which nobody knows
    options: frozenset[str] = frozenset()
    flow: Flow = ""
    levels: int = 1  # loops that a `break` or `continue` is for
    status: Status = "yes"
    conditions: tuple[str, ...] = ()
    output: Parts | None = None  # what was printed so far, inside `$(…)`
    saved: tuple[dict[str, Var | None], ...] = ()  # of `local` variables, one a running function
    touched_unset: bool = False  # the last test looked at a variable that nobody sets
    asked: frozenset[str] = frozenset()  # variables in the last test that whoever starts the script may set
    settled: frozenset[str] = frozenset()  # those of them whose other values have worlds of their own already
    switched: bool = False  # one of them is chosen otherwise here than without any word about it
    unread: str = ""  # a file that was read in and is not here: it may set any variable

    def copy(self) -> World:
        """An independent world with the same state."""
        saved = tuple(dict(level) for level in self.saved)
        return replace(self, variables=dict(self.variables), functions=dict(self.functions), saved=saved)

    def same(self, other: World, but: str = "") -> bool:
        """Whether nothing that follows could tell the two apart, the variable `but` left aside."""
        if but and but in self.variables and but in other.variables:
            return self.same(replace(other, variables={**other.variables, but: self.variables[but]}))
        return (
            self.flow == other.flow
            and self.levels == other.levels
            and self.options == other.options
            and self.unread == other.unread
            and self.positional == other.positional
            and self.output == other.output
            and self.variables == other.variables
            and self.functions.keys() == other.functions.keys()
        )

    def reads_like(self, other: World) -> bool:
        """Whether the two hold the same texts, wherever each was written."""
        alike = self.variables.keys() == other.variables.keys() and all(
            variable is (twin := other.variables[name]) or variable == twin or variable.reads_like(twin)
            for name, variable in self.variables.items()
        )
        return alike and self.same(replace(other, variables=self.variables))

    def put(self, name: str, value: Var) -> None:
        """Sets a variable; `set -a` exports it."""
        exported = value.exported or "allexport" in self.options
        self.variables[name] = replace(value, exported=True) if exported and not value.exported else value

    def printed(self, parts: Parts) -> None:
        """Adds to the output, where somebody collects it."""
        if self.output is not None:
            self.output += parts


def merged(worlds: Iterable[World], base: tuple[str, ...] | None = None, but: str = "") -> list[World]:
    """Worlds that differ, each with the conditions that its twins share.

    `base` are the conditions from before the branch: the only world left alive keeps those alone. The value of the
    variable `but` is of no account, such as that of a loop which some worlds have left early.
    """
    kept: list[World] = []
    for world in worlds:
        twin = next((other for other in kept if other.same(world, but)), None)
        if twin is None:
            kept.append(world)
            continue
        twin.settled |= world.settled
        twin.switched = twin.switched and world.switched
        twin.conditions = shared(twin.conditions, world.conditions)
        twin.status = twin.status if twin.status == world.status else "maybe"
    alive = [world for world in kept if world.flow != "exit"]
    if len(alive) == 1 and base is not None:
        alive[0].conditions = base
    return kept


def without_echoes(worlds: list[World]) -> list[World]:
    """The worlds without those in which somebody chose what another one has without any choice."""
    usual = [world for world in worlds if not world.switched]
    if not usual or len(usual) == len(worlds):
        return worlds
    return [world for world in worlds if not world.switched or not any(each.reads_like(world) for each in usual)]


def shared(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Conditions that two worlds have in common."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return first[:length]


class UnknownNumberError(BadArithmeticError):
    """A number that only a run can tell."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(gap.reason)
        self.gap = gap


class Numbers:
    """Reads and sets the variables of one world; a variable that is not set counts as 0."""

    def __init__(self, world: World, place: Place, shell: Shell | None = None) -> None:
        self.world, self.place, self.shell = world, place, shell

    def get(self, name: str) -> str:
        """Text of a variable or an array's item. Raises `UnknownNumberError` when only a run can tell it."""
        base, _, index = name.rstrip("]").partition("[")
        variable = self.world.variables.get(base)
        if variable is None:
            return self._missing(base)
        parts = variable.scalar()
        if index:
            key = index if variable.keyed else evaluate(index, self)
            parts = (variable.items or {0: variable.parts}).get(key, ())
        gap = first_gap(parts)
        if gap and gap.kind != "unset":
            raise UnknownNumberError(gap)
        return text_as_run(parts)

    def _missing(self, name: str) -> str:
        if at_run_time(name):
            raise UnknownNumberError(Gap(f"${name} is set by the machine", self.place, name, "runtime"))
        if self.world.unread:
            raise UnknownNumberError(Gap(f"${name} may be set by {self.world.unread}", self.place, name, "runtime"))
        if self.shell:
            self.shell.unset(self.place, name, "it counts as 0", self.world)
        return ""

    def put(self, name: str, value: int) -> None:
        """Sets a variable or an array's item to a number."""
        base, _, index = name.rstrip("]").partition("[")
        old = self.world.variables.get(base, Var())
        parts: Parts = (Piece(str(value), self.place),)
        if index:
            self.world.put(base, old.with_item(index if old.keyed else evaluate(index, self), parts))
        else:
            self.world.put(base, Var(parts, None, old.exported, old.integer))
