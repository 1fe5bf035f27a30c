"""Code or key -> what `verl explain` says about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from verlcli.config.codes import Code, all_codes
from verlcli.config.keys import accepts, schema_at
from verlcli.config.verl.about import about_key, near_key, verl_keys_of
from verlcli.config.wording import TYPES, any_of, better_key
from verlcli.errors import ConfigError

SCHEMA_VERSION = 1
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def explain(topic: str) -> dict[str, Any]:
    """Document of `schemas/explain.schema.json`: a code, a key of ours, a key of verl's, or both keys of one name.

    Raises:
        ConfigError: neither a code nor a key.
    """
    topic = topic.partition("=")[0].strip()  # pasted from a command line
    codes = all_codes().get(topic.upper())
    if codes is not None:
        return _document(topic, codes=[code.to_json() for code in codes])
    key = _our_key(topic)
    verl_key = about_key(topic.lstrip("+~"), trainer_only=key is not None)
    if key or verl_key:
        return _document(topic, key=key, verl_key=verl_key)
    raise ConfigError(f"'{topic}' is no code and no key", fix=_advice(topic))


def _document(topic: str, **parts: Any) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "topic": topic, "codes": [], "key": None, "verl_key": None, **parts}


def _advice(topic: str) -> str:
    if topic.upper().startswith("VRL"):
        close = get_close_matches(topic.upper(), all_codes(), n=3)
        return f"near: {', '.join(close)}" if close else "`verl validate` prints the codes"
    verl = near_key(topic.lstrip("+~"))
    if verl is not None:
        return f"did you mean {verl}?"
    better = better_key(tuple(topic.split(".")))
    return better or "see the keys with `verl schema config`, verl's own in its documentation"


def _our_key(topic: str) -> dict[str, Any] | None:
    node = schema_at(tuple(topic.split(".")))
    if node is None:
        return None
    return {
        "key": topic,
        "description": node.get("description", ""),
        "takes": takes(node),
        "default": node.get("default"),
        "children": list(node.get("properties", ())),
        "verl": list(verl_keys_of(topic)),
    }


def takes(node: dict[str, Any]) -> str:
    """Type, choices and range of a schema node, in words."""
    if "properties" in node:
        return "a section"
    if "enum" in node:
        return any_of("null" if choice is None else str(choice) for choice in node["enum"])
    kinds = [name for kind, name in TYPES.items() if accepts(node, kind)]
    limits = [f"{words} {node[word]}" for word, words in _LIMITS.items() if word in node]
    return ", ".join([any_of(kinds) if kinds else "anything", *limits])


def explanation(document: dict[str, Any]) -> str:
    """The document as text."""
    parts = [
        "\n".join(lines)
        for lines in (
            *(list(_code_lines(Code(**code))) for code in document["codes"]),
            list(_key_lines(document["key"])) if document["key"] else [],
            list(_verl_lines(document["verl_key"])) if document["verl_key"] else [],
        )
        if lines
    ]
    return "\n\n".join(parts)


def _code_lines(code: Code) -> Iterator[str]:
    yield f"{code.code}: {code.title}"
    yield f"about    {code.holds}"
    fields = (("why", code.why), ("example", code.example), ("instead", code.instead), ("source", code.source))
    for name, text in fields:
        if text:
            first, *rest = _wrapped(text) if name in ("why", "source") else text.split("\n")
            yield f"{name:<9}{first}"
            yield from (f"{'':<9}{line}" for line in rest)


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def _key_lines(key: dict[str, Any]) -> Iterator[str]:
    yield f"{key['key']}: {key['description']}" if key["description"] else key["key"]
    yield f"takes    {key['takes']}"
    if key["children"]:
        yield f"keys     {', '.join(key['children'])}"
    else:
        yield f"default  {json.dumps(key['default'])}"
    if key["verl"]:
        yield f"verl     {', '.join(key['verl'])}"


def _verl_lines(key: dict[str, Any]) -> Iterator[str]:
    known = any(name == "versions" for name, _ in key["facts"])
    yield f"{key['key']}: {'key' if known else 'no key'} of verl"
    yield from (f"{name:<9}{text}" for name, text in key["facts"])
