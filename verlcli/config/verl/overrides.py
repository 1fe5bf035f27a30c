"""One word of Hydra's command line -> Override: `key=value`, `+key=value`, `~key`, `group@package=choice`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

from verlcli.config.quick import dataclass
from verlcli.config.verl.settings import Prefix
from verlcli.config.verl.values import ValueSyntaxError, parse_value

_ID = r"[A-Za-z_][A-Za-z0-9_-]*"
_PART = r"(?:[A-Za-z_$][A-Za-z0-9_$-]*|0|[1-9](?:_?[0-9])*)"
_DOTTED = rf"(?:{_PART}(?:\.{_PART})+|[A-Za-z_$][A-Za-z0-9_$-]*|)"
_KEY = re.compile(rf"(?P<prefix>\+\+?|~|)(?P<key>{_ID}(?:/{_ID})+|{_DOTTED})(?:@(?P<package>{_DOTTED}))?")


class OverrideSyntaxError(Exception):
    """Hydra cannot read an override.

    Attributes:
        message: what is wrong, without the place.
        fix: what to write instead, or None.
        offset: of the character that is to blame, in the text of the override.
        key: the key as far as it could be read.
    """

    def __init__(self, message: str, fix: str | None, offset: int, key: str = "") -> None:
        super().__init__(message)
        self.message, self.fix, self.offset, self.key = message, fix, offset, key


@dataclass(frozen=True, slots=True)
class Override:
    """One override as Hydra reads it.

    Attributes:
        key: dotted key, or a config group such as `model_engine` or `hydra/launcher`.
        value: parsed; a `Sweep` for several values; None for `~key` alone.
        prefix: `+` adds, `++` adds or changes, `~` removes.
        package: what stands behind `@`, None without one.
        raw: the text behind `=`.
        offset: of the value's first character in the override.
    """

    key: str
    value: Any
    prefix: Prefix = ""
    package: str | None = None
    raw: str = ""
    offset: int = 0

    @property
    def is_group(self) -> bool:
        """Whether its form alone says that it chooses a config of a group."""
        return self.package is not None or "/" in self.key


@lru_cache(maxsize=4096)  # launches in two branches of a script share their words
def parse_override(text: str) -> Override:
    """Read one override by the grammar of Hydra 1.3.

    Raises:
        OverrideSyntaxError: Hydra would stop with a lexer or parser error.
    """
    match = _KEY.match(text)
    assert match is not None  # every part of it may be empty
    prefix, key = cast(Prefix, match["prefix"]), match["key"]
    if match.end() == len(text) and prefix == "~":
        return Override(key, None, prefix, match["package"], "", len(text))
    if match.end() == len(text) or text[match.end()] != "=":
        raise _wrong_key(text, match.end(), key)
    raw = text[match.end() + 1 :]
    value_text = raw.lstrip(" \t")
    offset = len(text) - len(value_text)
    try:
        return Override(key, parse_value(value_text), prefix, match["package"], raw, offset)
    except ValueSyntaxError as error:
        raise OverrideSyntaxError(error.message, error.fix, offset + error.offset, key) from None


def _wrong_key(text: str, at: int, key: str) -> OverrideSyntaxError:
    name, equals, _ = text.partition("=")
    if not equals:
        return OverrideSyntaxError(f"'{text[:60]}' has no =", "write key=value", 0, key)
    if name.strip() != name or " " in name:
        return OverrideSyntaxError("there is a space before the =", "write key=value without spaces", at, key)
    if name.startswith("-"):
        return OverrideSyntaxError("an override starts without dashes", f"write {text.lstrip('-')[:60]}", 0, key)
    return OverrideSyntaxError(f"Hydra does not read {text[at]!r} in a key", None, at, key)
