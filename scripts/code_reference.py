"""Write `docs/reference/codes.md` and `docs/reference/codes/*.md` from what `verl explain CODE` prints.

    python scripts/code_reference.py [--check]

`--check` writes nothing and exits 1 when a page is not current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from verlcli.config.codes import Code, all_codes

INDEX = Path(__file__).parents[1] / "docs" / "reference" / "codes.md"
FOLDER = INDEX.with_suffix("")
MADE = "<!-- Written by scripts/code_reference.py from the rules' docstrings: edit those, then `make reference`. -->"


def pages() -> dict[Path, str]:
    """Every page with its text."""
    codes = all_codes()
    rows = [_row(code) for found in codes.values() for code in found]
    head = "Every code that `verl validate` reports. `verl explain CODE` prints the same text as its page."
    index = "\n".join(
        ["# Codes\n", f"{MADE}\n", f"{head}\n", "| code | what is wrong | about |", "|---|---|---|", *rows, ""]
    )
    return {INDEX: index} | {FOLDER / f"{name}.md": _page(found) for name, found in codes.items()}


def _row(code: Code) -> str:
    return f"| [{code.code}](codes/{code.code}.md) | {_cell(code.title)} | {_cell(code.holds)} |"


def _page(codes: tuple[Code, ...]) -> str:
    first = codes[0]
    title = f"# {first.code}" + (f": {first.title}" if len(codes) == 1 else "")
    return "\n".join([f"{title}\n", f"{MADE}\n", *(part for code in codes for part in _parts(code, len(codes) > 1))])


def _parts(code: Code, several: bool) -> list[str]:
    level = "###" if several else "##"
    parts = [f"## {code.title}\n"] if several else []
    parts += [f"About: {code.holds}.\n"]
    parts += [f"{code.why}\n"] if code.why else []
    parts += [f"{level} Example\n\n```text\n{code.example}\n```\n"] if code.example else []
    parts += [f"{level} Instead\n\n```text\n{code.instead}\n```\n"] if code.instead else []
    return parts + ([f"Source: {code.source}.\n"] if code.source.strip("-") else [])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the pages, or with --check compare them."""
    wanted = pages()
    stale = [path for path in FOLDER.glob("*.md") if path not in wanted]
    if "--check" in sys.argv[1:]:
        return int(bool(stale) or any(not p.is_file() or p.read_text("utf-8") != text for p, text in wanted.items()))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
