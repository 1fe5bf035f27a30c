"""The memory of a plan as people and programs see it, and the verdict."""

from __future__ import annotations

import pytest
from rich.console import Console

from verlcli.plan.memory import DeviceMemory, Part, PhaseMemory
from verlcli.plan.memory.report import memory_document, memory_report, verdict

GIB = 2**30


def memory(capacity: int | None, *, outside: tuple[int, int] = (GIB, 2 * GIB), scale: int = GIB) -> DeviceMemory:
    load = PhaseMemory("load", (Part("actor", "weights", 3 * scale, "3 x 1"),))
    backward = PhaseMemory(
        "backward",
        (
            Part("actor", "weights", 3 * scale, "3 x 1"),
            Part("critic", "weights", 3 * scale, "3 x 1"),
            Part("actor", "activations", 12 * scale, "12 x 1", ("training.recompute",)),
        ),
    )
    return DeviceMemory("cuda:0", (load, backward), outside, capacity)


def text(found: DeviceMemory) -> str:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for each in memory_report(found):
        console.print(each)
    return console.export_text()


def test_the_table_sums_components_over_roles_and_names_what_lowers_the_worst_phase() -> None:
    shown = text(memory(80 * GIB))
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.startswith("  ")}
    assert rows["weights"] == ["3.00", "6.00"]
    assert rows["activations"] == ["12.0"]
    assert rows["sum"] == ["3.00", "18.0"]
    assert "actor activations 12.0: 12 x 1; less by training.recompute" in shown


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        (80 * GIB, "fits in 80.0 GiB: 18.0 allocated in backward, 19.0 to 20.0 shown by the device"),
        (20 * GIB, "fits in 20.0 GiB: "),
        (19 * GIB, "may not fit in 19.0 GiB: "),
        (18 * GIB, "does not fit in 18.0 GiB: "),
        (None, "18.0 allocated in backward, 19.0 to 20.0 shown by the device"),
    ],
)
def test_the_verdict_counts_what_the_device_shows(capacity: int | None, expected: str) -> None:
    assert verdict(memory(capacity)).startswith(expected)


def test_small_sums_are_shown_in_mib() -> None:
    assert verdict(memory(None, outside=(2**20, 2**21), scale=2**20)).startswith("18.0 allocated")
    assert "cuda:0 in MiB" in text(memory(None, scale=2**20))


def test_the_document_has_every_part() -> None:
    document = memory_document(memory(19 * GIB))
    assert (document["worst"], document["fits"], document["outside"]) == ("backward", False, [GIB, 2 * GIB])
    assert [phase["bytes"] for phase in document["phases"]] == [3 * GIB, 18 * GIB]
    assert document["phases"][1]["parts"][2] == {
        "role": "actor",
        "component": "activations",
        "bytes": 12 * GIB,
        "equation": "12 x 1",
        "shrunk_by": ["training.recompute"],
    }
