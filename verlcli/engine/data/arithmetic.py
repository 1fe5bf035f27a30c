"""Where generated rows come from, first kind: small arithmetic problems, split once into training and held-out ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from verlcli.engine.data.arguments import Arguments
from verlcli.engine.types import PromptRow
from verlcli.errors import ConfigError

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
DEFAULTS: dict[str, Any] = {
    "operations": ["+"],
    "max_operand": 99,
    "train_size": 2000,
    "val_size": 200,
    "template": "{a}{op}{b}=",
    "chat": False,
    "data_source": "arithmetic",
    "split_seed": 0,
}
LARGEST_OPERAND = 10**9


@dataclass(frozen=True, slots=True)
class ArithmeticDataset:
    """Problems `a op b` by their numbers; a row is made when it is asked for."""

    numbers: Sequence[int]  # of all (max_operand + 1)^2 problems of each operation
    operations: tuple[str, ...]
    max_operand: int
    template: str
    chat: bool
    data_source: str

    def __len__(self) -> int:
        return len(self.numbers)

    def problem(self, index: int) -> tuple[int, str, int]:
        """Operands and operation `(a, op, b)` of one row."""
        rest, b = divmod(self.numbers[index], self.max_operand + 1)
        operation, a = divmod(rest, self.max_operand + 1)
        return a, self.operations[operation], b

    def __getitem__(self, index: int) -> PromptRow:
        a, op, b = self.problem(index)
        text = self.template.format(a=a, op=op, b=b)
        return PromptRow(
            prompt=({"role": "user", "content": text},) if self.chat else text,
            data_source=self.data_source,
            ground_truth=str(OPERATIONS[op](a, b)),
            extra_info={"index": index, "a": a, "op": op, "b": b},
        )


def arithmetic_datasets(source_args: Mapping[str, Any]) -> tuple[ArithmeticDataset, ArithmeticDataset]:
    """Training and held-out problems, disjoint and the same for every run: only `split_seed` moves the split.

    Args:
        source_args: `operations` (list of + - *), `max_operand`, `train_size`, `val_size` (rows), `template` (of {a},
            {op}, {b}), `chat` (one user message instead of plain text), `data_source`, `split_seed`.

    Raises:
        ConfigError: an argument is unknown, of the wrong type or asks for more problems than there are.
    """
    args = Arguments("arithmetic", source_args, DEFAULTS)
    operations = _operations(args)
    max_operand = args.integer("max_operand", least=1, most=LARGEST_OPERAND)
    sizes = args.integer("train_size", least=1), args.integer("val_size", least=0)
    total = len(operations) * (max_operand + 1) ** 2
    if sum(sizes) > total:
        raise ConfigError(
            f"train_size {sizes[0]} + val_size {sizes[1]} is more than the {total} distinct problems",
            where="data.source_args",
            fix="lower the sizes, or raise max_operand or add operations",
        )
    # Not the run's seed: every run on these arguments holds out the same problems.
    numbers = shuffled_prefix(total, sum(sizes), args.integer("split_seed", least=0))
    template, chat, source = _template(args, operations), args.boolean("chat"), args.text("data_source")
    train, held_out = (
        ArithmeticDataset(part, operations, max_operand, template, chat, source)
        for part in (numbers[sizes[1] :], numbers[: sizes[1]])
    )
    return train, held_out


def shuffled_prefix(total: int, count: int, seed: int) -> list[int]:
    """The first `count` numbers of a random order of 0 .. total-1; the order depends on `total` and `seed` alone.

    So a larger `train_size` adds problems and never brings held-out ones into training. Fisher and Yates's shuffle,
    with only the moved numbers held.
    """
    draw, moved, order = random.Random(seed).randrange, dict[int, int](), list[int]()
    for position in range(count):
        chosen = draw(position, total)
        order.append(moved.get(chosen, chosen))
        moved[chosen] = moved.get(position, position)
    return order


def _operations(args: Arguments) -> tuple[str, ...]:
    names = args.texts("operations")
    unknown = [name for name in names if name not in OPERATIONS]
    if unknown or len(set(names)) != len(names):
        raise args.wrong("operations", f"a list of different ones of {' '.join(OPERATIONS)}")
    return names


def _template(args: Arguments, operations: Sequence[str]) -> str:
    template = args.text("template")
    needed = {"a", "b"} | ({"op"} if len(operations) > 1 else set())
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise args.wrong("template", f"a text with {{a}}, {{op}} and {{b}} ({error})") from error
    fields = {name for _, name, _, _ in parts if name is not None}
    # A format or conversion could fail on some problems only: plain fields never do.
    plain = not any(spec or conversion for _, _, spec, conversion in parts)
    if not plain or not needed <= fields <= {"a", "b", "op"}:
        wanted = " and ".join(f"{{{name}}}" for name in sorted(needed))
        raise args.wrong("template", f"a text with {wanted} and no other {{fields}}")
    return template
