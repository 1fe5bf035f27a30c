"""README and docs are true: marked snippets run, YAML loads, links lead somewhere, the key reference is current."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A bash block runs when the line before it says `<!-- run -->`, or `<!-- run exit=N -->` for one that ends with N.
BLOCK = re.compile(
    r"^(?:<!-- (?P<run>run)(?: exit=(?P<exit>\d+))? -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    kind: str
    text: str
    run: bool
    exit_code: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        yield Block(page, line, match["kind"], match["text"], match["run"] is not None, int(match["exit"] or 0))


ALL = [block for page in PAGES for block in blocks(page)]


def place(value: Block | Path) -> str:
    page, line = (value.page, f":{value.line}") if isinstance(value, Block) else (value, "")
    return f"{page.relative_to(ROOT)}{line}"


@pytest.mark.parametrize("page", [p for p in PAGES if any(b.run for b in blocks(p))], ids=place)
def test_marked_snippets_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    for block in (b for b in blocks(page) if b.run):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == block.exit_code, f"{place(block)}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("block", [b for b in ALL if b.kind == "yaml"], ids=place)
def test_yaml_in_the_docs_is_a_valid_config(block: Block, tmp_path: Path) -> None:
    from verlcli.config import load_config

    file = tmp_path / "snippet.yaml"
    file.write_text(block.text, encoding="utf-8")
    load_config([file], env={}).require()


@pytest.mark.parametrize("block", [b for b in ALL if b.kind == "python"], ids=place)
def test_python_in_the_docs_compiles(block: Block) -> None:
    compile(block.text, place(block), "exec")


def test_every_command_the_docs_name_exists() -> None:
    import typer

    from verlcli.cli.app import app

    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    shown = {
        word for block in ALL if block.kind == "bash" for word in re.findall(r"^verl ([a-z]\S*)", block.text, re.M)
    }
    table = {word for page in PAGES for word in re.findall(r"`verl ([a-z][a-z-]*)", page.read_text(encoding="utf-8"))}
    assert shown | table <= known


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_relative_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("script", ["config_reference", "code_reference", "verl_keys_reference"])
def test_reference_pages_are_current(script: str) -> None:
    done = subprocess.run([sys.executable, f"scripts/{script}.py", "--check"], cwd=ROOT)
    assert done.returncode == 0, "run `make reference`"


def test_functions_the_architecture_page_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`(verlcli/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 15
    absent = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^(?:def|class) {name}\b|\bimport\b.*\b{name}\b", (ROOT / file).read_text("utf-8"), re.M)
    ]
    assert absent == []


def test_files_and_folders_the_architecture_page_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:verlcli|schemas|presets)/[\w/.]*)(?:::\w+)?`", text))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
