"""Value of one setting -> what is wrong with it: empty, of a wrong type, no choice of verl's, out of range."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from verlcli.config.context import NotKnown
from verlcli.config.problems import Fix, Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.run import Setting, VerlRun
from verlcli.config.verl.values import ValueSyntaxError, parse_value
from verlcli.config.wording import any_of, closest, shown

_TRUTH = {"yes": True, "on": True, "y": True, "t": True, "1": True, "no": False, "off": False, "n": False, "f": False}
_STRATEGIES = ("actor_rollout_ref.actor.strategy", "actor_rollout_ref.ref.strategy", "critic.strategy")
_ANY = ("algorithm.rollout_correction.rollout_is_threshold", "algorithm.rollout_correction.rollout_rs_threshold")
_LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"  # CISPO takes 10 for "no lower bound"
_MANAGER, _MANAGER_FROM = "reward.reward_manager.name", "reward.reward_manager.source"
_WORDS = ("after_each_epoch",)  # for trainer.save_freq and test_freq of the SFT trainer
_LONGEST = 40  # characters of a number that are worth quoting
_PLUGINS = "VERL_USE_EXTERNAL_MODULES"  # imported by verl/__init__.py
_OWN_CODE = re.compile(r"external_lib|custom|module\.path|_target_|agent_loop|class_path|plugin|tool_config")
_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "list": "a list",
    "map": "a mapping",
    "null": "null",
}


def value_verdicts(run: VerlRun, setting: Setting) -> Iterator[Verdict]:
    """The first thing that is wrong with a value, or doubtful about it.

    Hydra itself checks none of it: the launch starts, and stops or goes wrong where verl first uses the value.
    """
    from verlcli.facts.verl.types import expected_type

    key, value = setting.key, setting.value
    kind = "" if key in _ANY or value in _WORDS else expected_type(key, run.version) or ""
    if value == "" and not setting.raw.strip():
        yield from _empty(run, setting, kind)
    elif isinstance(value, str) and "${" in value:
        return
    else:
        found = _choice(run, setting) or _type(run, setting, kind) or _known_range(run, setting)
        if found:
            yield found


def _empty(run: VerlRun, setting: Setting, kind: str) -> Iterator[Verdict]:
    if run.tree.defaults.get(setting.key) == "":
        return
    plain = set(kind.split("|")) & {"integer", "number", "boolean", "list", "map"}
    variable = setting.variable if setting.variable != setting.via else None
    through = f": ${variable} is empty here" if variable else ""
    advice = f"set {variable or 'a value'}, or leave the key out"
    message = f"nothing stands behind {run.name(setting.key)}=, so that verl gets an empty text{through}"
    yield Verdict("VRL258", (setting.key,), message, advice, "error" if plain else "warning")


def _choice(run: VerlRun, setting: Setting) -> Verdict | None:
    from verlcli.facts.verl.types import choices, strategies

    key, value = setting.key, setting.value
    known = choices(key, run.version)
    names: tuple[str, ...] = known.values if known else ()
    if key in _STRATEGIES and not known:
        names = strategies(run.engine, run.version)
    if not names or value is None or isinstance(value, dict) or run.entry.startswith("vla") or _is_own(run, key):
        return None
    # Some take several names in one text: `token_k1,seq_max_k2`.
    items = value if isinstance(value, list) else _names_in(value)
    wrong = next((item for item in items if str(item) not in names), None)
    if wrong is None or (isinstance(wrong, str) and wrong.lstrip().startswith("[")):
        return None
    return _no_choice(run, setting, wrong, names, known is not None and known.open)


def _is_own(run: VerlRun, key: str) -> bool:
    """Whether the value names a class of the user's own; also where that is not known."""
    try:
        return key == _MANAGER and run.get(_MANAGER_FROM) == "importlib"
    except NotKnown:
        return True


def _names_in(value: Any) -> list[Any]:
    return value.split(",") if isinstance(value, str) and not value.lstrip().startswith("[") else [value]


def _no_choice(run: VerlRun, setting: Setting, wrong: Any, names: tuple[str, ...], is_open: bool) -> Verdict:
    from verlcli.facts.verl.history import choice_removed

    engine = _engine_of(run, setting)
    if engine:
        message = f"{shown(wrong)} is a strategy of the {engine} engine, and this launch trains with {run.engine}"
        return Verdict("VRL262", (setting.key,), message, f"add model_engine={engine}")
    gone, successor = choice_removed(setting.key, str(wrong), run.version)
    close = successor or (closest(wrong, names) if isinstance(wrong, str) else None)
    listed = f"{run.name(setting.key)} is one of: {', '.join(names)}"
    slip = close is not None and not brings_code(run)
    message = f"{shown(wrong)} is no {'known ' if is_open and not slip else ''}choice of verl {run.version}"
    fix = Fix("set", setting.key, close) if close and wrong is setting.value else None
    advice = f"did you mean '{close}'? {listed}" if close else listed
    if gone:
        message = f"{shown(wrong)} was removed in {gone}"
        advice = f"write {successor}" if successor else listed
    severity: Severity = "error" if run.is_of_verl and (slip or not is_open) else "warning"
    return Verdict("VRL255", (setting.key,), message, advice, severity, fix=fix)


def brings_code(run: VerlRun) -> bool:
    """Whether the launch may load code of the user's own, which can register names that verl does not have."""
    if run.unseen or run.takes_arguments or _PLUGINS in run.environment:
        return True
    keys = [setting.key for setting in run.every_setting() if setting.value is not None]
    return any(_OWN_CODE.search(key) for key in keys)


def _engine_of(run: VerlRun, setting: Setting) -> str | None:
    """Another engine of this version whose strategy the value is."""
    from verlcli.facts.verl import engines
    from verlcli.facts.verl.types import strategies

    if setting.key not in _STRATEGIES or run.is_set("model_engine"):
        return None
    others = [engine for engine in engines(run.version, run.tree.entry) if engine != run.engine]
    return next((engine for engine in others if setting.value in strategies(engine, run.version)), None)


def _type(run: VerlRun, setting: Setting, kind: str) -> Verdict | None:
    from verlcli.facts.verl.types import is_of_type

    value, kinds = setting.value, set(kind.split("|"))
    if not kind or ("string" in kinds and not isinstance(value, (list, dict))):
        return None
    if "integer" in kinds and "number" not in kinds and isinstance(value, float) and value.is_integer():
        return _whole_float(run, setting)
    if is_of_type(value, kind) or _harmless(value, kinds):
        return None
    plain = _meant(value, kinds)
    wanted = any_of(_KINDS[name] for name in kind.split("|"))
    what = (
        "is text, which counts as true whatever it says" if kinds & {"boolean"} and isinstance(value, str) else "fits"
    )
    message = f"{shown(value)} {what}" if what != "fits" else f"{shown(value)} is not {wanted}"
    advice = f"write {shown(plain)}" if plain is not None else f"{run.name(setting.key)} takes {wanted}"
    fix = Fix("set", setting.key, plain) if plain is not None and not isinstance(plain, list) else None
    # Python counts with True and False, so that `trainer.test_freq=False` does what it looks like.
    severity: Severity = "warning" if isinstance(value, bool) and "integer" in kinds else "error"
    return Verdict("VRL254", (setting.key,), message, advice, severity, fix=fix)


def _harmless(value: Any, kinds: set[str]) -> bool:
    """What verl's own code takes although no type says so."""
    if "boolean" in kinds:
        return value is None or (isinstance(value, int) and value in (0, 1))
    if "list" in kinds:
        # A name alone, or one file.
        return value is None or (isinstance(value, str) and not value.lstrip().startswith("["))
    return "map" in kinds and value is None


def _meant(value: Any, kinds: set[str]) -> Any:
    """The value that a text in quotes, a `yes` or a number with a unit stands for; None when that is not sure."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if "list" in kinds:
        return _list_in(text)
    if "boolean" in kinds:
        return {"true": True, "false": False, **_TRUTH}.get(text.lower())
    if not kinds & {"integer", "number"}:
        return None
    try:
        number = float(text.replace("_", "").replace(",", ""))
    except ValueError:
        return None
    return int(number) if number.is_integer() and "integer" in kinds else number if "number" in kinds else None


def _list_in(text: str) -> Any:
    try:
        found = parse_value(text)
    except ValueSyntaxError:
        return None
    return found if isinstance(found, list) else None


def _unused(run: VerlRun, key: str) -> bool:
    """Whether a setting of LoRA stands beside a rank of 0, which leaves it off."""
    rank = key.removesuffix("alpha") + "rank"
    return key.endswith(("lora_alpha", "lora.alpha")) and run.has(rank) and not run.get(rank)


def _said(setting: Setting) -> str:
    """The value as somebody wrote it."""
    raw = setting.raw
    return raw if raw and len(raw) <= _LONGEST and not setting.inside else shown(setting.value)


def _whole_float(run: VerlRun, setting: Setting) -> Verdict:
    number = int(setting.value)
    message = (
        f"{setting.raw or shown(setting.value)} is a floating-point number for Hydra, and verl counts in whole ones"
    )
    fix = Fix("set", setting.key, number)
    return Verdict("VRL254", (setting.key,), message, f"write {run.name(setting.key)}={number}", "warning", fix=fix)


def _known_range(run: VerlRun, setting: Setting) -> Verdict | None:
    try:
        return _range(run, setting)
    except NotKnown:
        return None  # what it depends on is known at run time only


def _range(run: VerlRun, setting: Setting) -> Verdict | None:
    from verlcli.facts.verl.types import bounds

    key, value = setting.key, setting.value
    limits = bounds(key, run.tree.entry)
    if limits is None or isinstance(value, bool) or not isinstance(value, (int, float)) or _unused(run, key):
        return None
    if not limits.allows(value):
        return Verdict("VRL256", (key,), f"{_said(setting)} is out of range", f"{run.name(key)} is {limits.text()}")
    if limits.plausible(value) or (".clip_ratio" in key and run.get(_LOSS) == "cispo"):
        return None
    low, high = limits.plausible_minimum, limits.plausible_maximum
    usual = " and ".join(
        text
        for text in (f"at least {low:g}" if low is not None else "", f"at most {high:g}" if high is not None else "")
        if text
    )
    return Verdict(
        "VRL257", (key,), f"{_said(setting)} is legal, but hardly meant", f"usual values are {usual}", "warning"
    )
