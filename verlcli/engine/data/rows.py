"""Second step of the data's road: a raw row of verl's format, checked, as a `PromptRow`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from verlcli.engine.types import Message, PromptRow
from verlcli.errors import ConfigError

ROW_COLUMNS = ("data_source", "reward_model", "extra_info")  # besides the prompt's


def to_row(raw: Any, place: str, prompt_key: str = "prompt") -> PromptRow:
    """Check one raw row of verl's format: prompt, `data_source`, `reward_model.ground_truth`, `extra_info`.

    Raises:
        ConfigError: the row is bad; the message begins with `place` and says what to write.
    """
    if not isinstance(raw, Mapping):
        raise _bad(place, f"is {_kind(raw)}, wanted an object with the row's columns", "write one {...} a row")
    source = _column(raw, "data_source", place)
    if not isinstance(source, str) or not source:
        raise _bad(place, f"data_source is {_kind(source)}, wanted a name", 'write a text such as "openai/gsm8k"')
    extra = raw.get("extra_info")
    if extra is not None and not isinstance(extra, Mapping):
        raise _bad(place, f"extra_info is {_kind(extra)}, wanted an object", "write {...} or leave it out")
    return PromptRow(
        prompt=_prompt(_column(raw, prompt_key, place), prompt_key, place),
        data_source=source,
        ground_truth=_ground_truth(_column(raw, "reward_model", place), place),
        extra_info=extra or {},
    )


def _bad(place: str, message: str, fix: str) -> ConfigError:
    return ConfigError(message, where=place, fix=fix)


def _kind(value: Any) -> str:
    """A value as people read it: `empty text`, `null`, `the list [1, 2]`."""
    names = {str: "the text", bool: "the boolean", int: "the number", float: "the number", list: "the list"}
    if value is None:
        return "null"
    if isinstance(value, (str, list, Mapping)) and not value:
        return (
            "empty text"
            if isinstance(value, str)
            else "an empty list"
            if isinstance(value, list)
            else "an empty object"
        )
    shown = repr(value)
    return f"{names.get(type(value), 'the object')} {shown if len(shown) <= 40 else shown[:37] + '...'}"


def _column(raw: Mapping[str, Any], name: str, place: str) -> Any:
    if name not in raw:
        hint = "set data.prompt_key to the prompt's column, or " if name not in ROW_COLUMNS else ""
        have = ", ".join(map(str, raw)) or "no columns"
        fix = f"{hint}bring the file into verl's rows with `verl data convert`"
        raise _bad(place, f"has no column {name!r}; it has {have}", fix)
    return raw[name]


def _prompt(value: Any, key: str, place: str) -> str | tuple[Message, ...]:
    if isinstance(value, str) and value.strip():
        return _unicode(value, key, place)
    if not isinstance(value, list) or not value:
        fix = 'write [{"role": "user", "content": "..."}]'
        raise _bad(place, f"{key} is {_kind(value)}, wanted text or chat messages", fix)
    return tuple(_message(message, f"{key}[{number}]", place) for number, message in enumerate(value))


def _message(value: Any, name: str, place: str) -> Message:
    if not isinstance(value, Mapping):
        raise _bad(place, f"{name} is {_kind(value)}, wanted a message", 'write {"role": "user", "content": "..."}')
    for key in ("role", "content"):
        text = value.get(key)
        if not isinstance(text, str):
            problem = f"is {_kind(text)}, wanted text" if key in value else "is missing"
            raise _bad(place, f"{name}.{key} {problem}", 'write {"role": "user", "content": "..."}')
    if not value["role"] or not value["content"].strip():
        raise _bad(place, f"{name} has an empty role or content", "write the message's text or remove the message")
    return {key: _unicode(value[key], f"{name}.{key}", place) for key in ("role", "content")}


def _unicode(text: str, name: str, place: str) -> str:
    """The text itself, if tokenizers can read it: JSON's escapes can write half a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fix = "write the whole character or remove it"
        raise _bad(place, f"{name} has half a character ({text[error.start]!a})", fix) from error
    return text


def _ground_truth(reward_model: Any, place: str) -> str:
    fix = 'write "reward_model": {"style": "rule", "ground_truth": "42"}'
    if not isinstance(reward_model, Mapping):
        raise _bad(place, f"reward_model is {_kind(reward_model)}, wanted an object", fix)
    if reward_model.get("ground_truth") is None:
        raise _bad(place, "reward_model has no ground_truth", fix)
    truth = reward_model["ground_truth"]
    if isinstance(truth, str) and truth.strip():
        return truth
    if isinstance(truth, int) and not isinstance(truth, bool):
        return str(truth)
    if isinstance(truth, float) and math.isfinite(truth):
        # Columns of whole numbers turn into floats on the way through other tools: 18.0 was 18.
        return str(int(truth)) if truth.is_integer() else repr(truth)
    raise _bad(place, f"reward_model.ground_truth is {_kind(truth)}, wanted text or a number", fix)
