"""Write `docs/reference/config.md` from `schemas/config.schema.json`, so that the key reference cannot drift.

    python scripts/config_reference.py [--check]

`--check` writes nothing and exits 1 when the file is not current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "schemas" / "config.schema.json"
PAGE = ROOT / "docs" / "reference" / "config.md"
HEAD = """# Configuration keys

<!-- Written by scripts/config_reference.py from schemas/config.schema.json: edit the schema, then `make reference`. -->

Every key, its type, its default and what it does. `verl schema KEY` prints one of them;
[configuration.md](../configuration.md) says how files, presets and overrides come together.
"""

Schema = dict[str, Any]


def render(schema: Schema) -> str:
    """The whole page: a table of the top-level scalars, then one table a section."""
    parts = {key: _resolved(part, schema) for key, part in schema["properties"].items()}
    sections = {key: part for key, part in parts.items() if part.get("properties")}
    rows = [_row(key, part, schema) for key, part in parts.items() if key not in sections]
    text = [HEAD, "## Top level\n", _table(rows)]
    for key, part in sections.items():
        text += [f"## `{key}`\n", f"{part.get('description', '')}\n", _table(list(_rows(part, schema)))]
    return "\n".join(text)


def _rows(section: Schema, schema: Schema, prefix: str = "") -> Iterator[tuple[str, ...]]:
    for key, raw in section["properties"].items():
        part = _resolved(raw, schema)
        if part.get("properties"):
            yield from _rows(part, schema, f"{prefix}{key}.")
        else:
            yield _row(prefix + key, part, schema)


def _row(name: str, part: Schema, schema: Schema) -> tuple[str, ...]:
    default = f"`{json.dumps(part['default'])}`" if "default" in part else ""
    return f"`{name}`", _kind(part, schema), default, part.get("description", "").replace("\n", " ")


def _kind(part: Schema, schema: Schema) -> str:
    """Type, choices and range of a key, as people write them."""
    if "enum" in part:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in part["enum"]).replace('"', "")
    if alternatives := part.get("anyOf") or part.get("oneOf"):
        return " or ".join(_kind(_resolved(option, schema), schema) for option in alternatives)
    types = part.get("type", "any")
    name = types if isinstance(types, str) else " or ".join(types)
    if "array" in name and "items" in part:
        name = name.replace("array", f"list of {_kind(_resolved(part['items'], schema), schema)}")
    return name.replace("object", "map") + _range(part)


def _range(part: Schema) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = [f"{sign} {part[word]}" for word, sign in signs.items() if word in part]
    return f", {' and '.join(limits)}" if limits else ""


def _resolved(part: Schema, schema: Schema) -> Schema:
    """The part with its `$ref` followed; what stands beside the reference wins."""
    if "$ref" not in part:
        return part
    target: Any = schema
    for step in part["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**_resolved(target, schema), **{key: value for key, value in part.items() if key != "$ref"}}


def _table(rows: list[tuple[str, ...]]) -> str:
    lines = ["| key | type | default | what it does |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or with --check compare it."""
    page = render(json.loads(SCHEMA.read_text(encoding="utf-8")))
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
