from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from verlcli.config import load_config
from verlcli.config.keys import SHORT_FORMS, default_at, known_keys, schema_at
from verlcli.config.types import Config
from verlcli.config.violations import violations
from verlcli.resources import load_schema, schema_path

SCHEMA = load_schema("config")
FREE_MAPS = {("verl",), ("model", "shape"), ("data", "source_args"), ("monitor", "alerts")}
KEYWORDS = {  # those that `verlcli.config.check` has words for
    *("type", "enum", "pattern", "minLength", "minItems", "maxItems", "properties", "additionalProperties", "items"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
ANNOTATIONS = {"$schema", "$id", "title", "description", "default", "examples"}
LEAVES = [path for path in known_keys() if "properties" not in (schema_at(path) or {})]


def nodes(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    yield path, node
    for key, child in node.get("properties", {}).items():
        yield from nodes(child, (*path, key))
    if "items" in node:
        yield from nodes(node["items"], (*path, "items"))


def test_fields_of_config_are_the_schemas_properties() -> None:
    def compare(kind: Any, node: dict[str, Any]) -> None:
        hints = get_type_hints(kind)
        short_forms = set(SHORT_FORMS) if kind is Config else set()
        assert {field.name for field in fields(kind)} == set(node["properties"]) - short_forms
        for name, hint in hints.items():
            assert is_dataclass(hint) == ("properties" in node["properties"][name])
            if isinstance(hint, type) and is_dataclass(hint):
                compare(hint, node["properties"][name])

    compare(Config, SCHEMA)


def test_schema_is_valid_and_is_found_by_its_id() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"] == "https://verlcli.dev/schemas/config.schema.json"
    assert json.loads(schema_path("config").read_text(encoding="utf-8")) == SCHEMA


@pytest.mark.parametrize(
    ("path", "node"), [pytest.param(path, node, id=".".join(path)) for path, node in nodes(SCHEMA)]
)
def test_every_key_is_described_closed_and_plain(path: tuple[str, ...], node: dict[str, Any]) -> None:
    assert node["title"]
    assert node["description"].endswith(".")
    assert set(node) <= KEYWORDS | ANNOTATIONS
    if "properties" in node:
        assert node["additionalProperties"] is False
    elif "object" in node["type"]:
        assert path in FREE_MAPS


def test_every_leaf_has_a_default_that_fits_it() -> None:
    for path in LEAVES:
        node = schema_at(path) or {}
        assert "default" in node, path
        assert list(violations(node, node["default"])) == [], path


def test_short_forms_have_no_defaults_of_their_own() -> None:
    for name in SHORT_FORMS:
        assert not any("default" in node for _, node in nodes(SCHEMA["properties"][name]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("algorithm.name", "grpo"),
        ("algorithm.gamma", 1.0),
        ("algorithm.lam", 0.95),
        ("algorithm.clip_ratio", 0.2),
        ("algorithm.clip_ratio_c", 3.0),
        ("algorithm.kl_coef", 0.001),
        ("algorithm.loss_agg_mode", "token-mean"),
        ("actor.optim.lr", 1e-6),
        ("critic.optim.lr", 1e-5),
        ("actor.optim.betas", [0.9, 0.999]),
        ("rollout.n", 8),
        ("rollout.gpu_memory_utilization", 0.5),
        ("distributed.timeout", 1800),
        ("trainer.keep_checkpoints", 3),
        ("reward.function", ["exact_match"]),
        ("model.trust_remote_code", False),
    ],
)
def test_defaults_that_users_know_from_verl(key: str, value: object) -> None:
    assert default_at(schema_at(key.split(".")) or {}) == value


def test_unknown_keys_are_reported_one_by_one_and_wrong_types_once() -> None:
    values = default_at(SCHEMA)
    values["data"] |= {"zonk": 1, "zink": 2, "truncation": 3}  # the last breaks `enum` as well as `type`
    found = {(each.keyword, each.path) for each in violations(SCHEMA, values)}
    assert found == {
        ("additionalProperties", ("data", "zonk")),
        ("additionalProperties", ("data", "zink")),
        ("type", ("data", "truncation")),
    }


def test_validate_report_fits_its_schema() -> None:
    from verlcli.config.report import json_report

    problems = load_config([], ["zonk=1", "rollout.n=x"], env={}).problems
    Draft202012Validator(load_schema("validate")).validate(json_report(problems))


def test_a_problem_has_one_shape_in_every_document() -> None:
    shapes = [load_schema(name)["properties"]["problems"]["items"] for name in ("validate", "error")]
    assert shapes[0] == shapes[1]
