"""Write `docs/reference/verl-keys.md` from the table of our keys and verl's, so that the page cannot drift.

    python scripts/verl_keys_reference.py [--check]

`--check` writes nothing and exits 1 when the file is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from verlcli.config.verl.mapping import PAIRS
from verlcli.config.verl.pairs import Field, Pair
from verlcli.facts.verl import DEFAULT_VERSION, key_tree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "verl-keys.md"
HEAD = f"""# Our keys and verl's

<!-- Written by scripts/verl_keys_reference.py from verlcli/config/verl/mapping.py: edit the table, then run it. -->

Keys of a config that mean the same as a Hydra key of verl {DEFAULT_VERSION}. `verl import` reads them from a launch
script, `verl plan --emit verl` writes them back, and the checks of a config with `backend: verl` go by them. Every
other key of verl goes under `verl:` as it is, and wins over the key here that means the same, unless a higher layer
sets that one.

A key is handed on when somebody sets it, or when its value is not verl's own default. `verl-defaults` is a preset with
verl's defaults: what it says is never handed on.

| key | verl, FSDP | verl, Megatron | values |
|---|---|---|---|
"""


def render() -> str:
    """The whole page."""
    return HEAD + "".join(f"| {' | '.join(cells)} |\n" for pair in PAIRS for cells in _rows(pair))


def _rows(pair: Pair) -> Iterator[tuple[str, ...]]:
    trees = [key_tree(DEFAULT_VERSION, "main_ppo", engine) for engine in ("dp", "megatron")]
    names = [pair.keys(tree) for tree in trees]
    note = pair.note if isinstance(pair, Field) else (type(pair).__doc__ or "").partition(": ")[2].rstrip(".")
    shown = [_cell(names[0]), "the same" if names[0] == names[1] else _cell(names[1])]
    yield _cell(pair.ours if not isinstance(pair, Field) else (pair.key,)), *shown, note.replace("|", "\\|")


def _cell(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def main() -> int:
    """Write the page, or with --check compare it."""
    page = render()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
