"""A key that the tree does not have -> why, and which one is meant: moved, of another engine, of a fork, misspelt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from verlcli.config.context import NotKnown
from verlcli.config.problems import Fix, Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.legacy import moved_name
from verlcli.config.verl.near_keys import meant_key
from verlcli.config.verl.run import Setting, VerlRun

_OTHER_MEANING = ("grad_offload", "torch_dtype", "dtype")  # what is near them does more than they asked for
_KL_COEF, _KL_LOSS_COEF = "algorithm.kl_coef", "actor_rollout_ref.actor.kl_loss_coef"
_USE_KL_LOSS = "actor_rollout_ref.actor.use_kl_loss"
# These read keys that their YAML does not have.
_LOOSE = ("generation_server", "generation", "eval", "r1_eval", "vla_ppo", "vla_sac")


@dataclass(frozen=True, slots=True)
class _Advice:
    """Why a key is unknown, and what to write; `sure` advice holds whatever config the user brings."""

    code: str
    why: str
    suggestion: str | None = None
    fix: Fix | None = None
    sure: bool = True


def unknown_verdict(run: VerlRun, setting: Setting) -> Iterator[Verdict]:
    """What to say about a key that is in no tree of this launch; nothing when the user's own config may have it."""
    advice = next(_advice(run, setting), None)
    refused = run.source == "script" and not setting.prefix and not run.unseen
    section = setting.key.rpartition(".")[0]
    made = None if run.unseen else run.tree.target(section)
    if not (refused or made or (advice and advice.sure and run.entry not in _LOOSE)):
        return  # it may be for code of the user's own
    why = advice.why if advice else f"verl {run.version} has no such key"
    suggestion = advice.suggestion if advice else _names(run, setting.key)
    code, what = advice.code if advice else "VRL240", ""
    severity: Severity = "error"
    if refused:
        what = ": the launch stops at once"
    elif made:
        code = "VRL252" if code == "VRL240" else code
        name = made.rpartition(".")[2]
        article = "an" if name[0] in "AEIOU" else "a"
        what = f": making {article} {name} of {section} fails in a worker"
    else:
        severity, what = "error" if run.source == "hydra" and not run.unseen else "warning", ": nothing reads it"
    yield Verdict(code, (setting.key,), f"{why}{what}", suggestion, severity, fix=advice.fix if advice else None)


def _advice(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    yield from _of_engine(run, setting)
    yield from _renamed(run, setting)
    yield from _removed(run, setting)
    yield from _never_there(run, setting)
    yield from _moved_reward(run, setting)
    yield from _of_other_version(run, setting)
    yield from _of_fork(run, setting)
    # A config of the user's own may well have a key that looks misspelt.
    if not run.unseen:
        yield from _misspelt(run, setting)


def _of_engine(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    from verlcli.facts.verl import which_trees

    trees = (name.partition("/") for name in which_trees(setting.key, run.version))
    engine = next((engine for entry, _, engine in trees if entry == run.tree.entry), None)
    if engine is None:
        return
    why = f"{run.name(setting.key)} belongs to the {engine} engine, and this launch trains with {run.engine}"
    twin = _twin(run, setting.key)
    instead = f", or use {run.name(twin)}" if twin else ""
    if engine == "dp":
        advice = "remove it"
    elif run.is_set("model_engine"):
        advice = f"remove it, or choose model_engine={engine}"
    else:
        old = run.version in ("0.5.0", "0.6.1", "0.7.1")
        advice = f"add {'--config-name=ppo_megatron_trainer' if old else f'model_engine={engine}'}"
    yield _Advice("VRL262", why, f"{advice}{instead}")


def _twin(run: VerlRun, key: str) -> str | None:
    """The same name in the section of this launch's engine: `actor.megatron.x` is `actor.fsdp_config.x` for FSDP."""
    section, _, leaf = key.rpartition(".")
    role, _, engine = section.rpartition(".")
    if engine not in ("megatron", "fsdp_config", "fsdp", "veomni", "torchtitan"):
        return None
    found = [f"{role}.{name}.{leaf}" for name in ("fsdp_config", "fsdp", "megatron", "veomni") if name != engine]
    return next((other for other in found if run.tree.has(other)), None)


def _renamed(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    from verlcli.facts.verl.history import rename_of

    rename = rename_of(setting.key, run.version)
    if rename is None:
        return
    why = f"since verl {rename.since} this is {rename.new}"
    note = f" ({rename.note})" if rename.note else ""
    value = rename.value_map.get(str(setting.value))
    written = f"{rename.new}={value}" if value is not None else rename.new
    engine = f", and add model_engine={rename.engine}" if rename.engine not in ("dp", run.engine) else ""
    # The same value under the new name, unless the meaning changed with it.
    same = not rename.note and not rename.value_map and not engine and run.tree.has(rename.new)
    fix = Fix("rename", setting.key, rename.new) if same and not run.is_set(rename.new) else None
    yield _Advice("VRL263", why, f"write {written}{note}{engine}", fix)


def _removed(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    from verlcli.facts.verl.history import removal_reason, removed_in
    from verlcli.facts.verl.needless import is_needless

    gone = removed_in(setting.key, run.version)
    if gone is None:
        return
    reason = removal_reason(setting.key)
    why = f"verl {gone} no longer has this key{f' ({reason})' if reason else ''}"
    # What else it did has to be asked for in another way, or given up: its user has to say.
    fix = Fix("remove", setting.key) if is_needless(setting.key, setting.value) else None
    yield _Advice("VRL263", why, "remove it", fix)


def _never_there(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    from verlcli.facts.verl.renames import NEVER_EXISTED

    meant = NEVER_EXISTED.get(setting.key)
    added = meant is not None and not run.tree.has(meant) and run.tree.is_free_form(meant)
    if meant is None or not (added or run.tree.has(meant)):
        return
    if setting.key == _KL_COEF:
        yield from _coefficient(run, setting, meant)
        return
    plus = "++" if added and run.source == "script" else ""
    why = f"verl {run.version} has no such key"
    if run.is_set(meant):
        yield _Advice("VRL240", why, f"remove it: {run.name(meant)} is set already", Fix("remove", setting.key))
    else:
        yield _Advice("VRL240", why, f"did you mean {plus}{run.name(meant)}?", _near_fix(setting, meant, plus))


def _coefficient(run: VerlRun, setting: Setting, meant: str) -> Iterator[_Advice]:
    """A KL coefficient of no section: which one is meant says the place where the KL goes."""
    why = f"verl {run.version} has no such key"
    try:
        in_reward, in_loss = run.flag("algorithm.use_kl_in_reward"), run.flag(_USE_KL_LOSS)
    except NotKnown:
        in_reward = in_loss = False
    if in_reward == in_loss:
        both = f"{run.name(meant)} for a KL in the reward, {run.name(_KL_LOSS_COEF)} for one in the loss"
        yield _Advice("VRL240", why, both)
        return
    meant = meant if in_reward else _KL_LOSS_COEF
    fix = None if run.is_set(meant) else Fix("rename", setting.key, meant)
    yield _Advice("VRL240", why, f"did you mean {run.name(meant)}?", fix)


def _near_fix(setting: Setting, meant: str, plus: str) -> Fix | None:
    """A rename, where the value means the same there; what asks for nothing can go."""
    if setting.key.rpartition(".")[2] in _OTHER_MEANING:
        return Fix("remove", setting.key) if setting.value is False else None
    return Fix("rename", setting.key, meant) if not plus or setting.prefix == "++" else None


def _moved_reward(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    """A key of rewards that never stood in this tree under its old section, and goes below `reward` now."""
    from verlcli.facts.verl.removals import SILENTLY_IGNORED

    names = setting.key.split(".")
    sections = (".".join(names[:count]) for count in range(len(names), 0, -1))
    found = next((SILENTLY_IGNORED[name] for name in sections if name in SILENTLY_IGNORED), None)
    meant = moved_name(setting.key, found.new) if found else None
    if meant is None or run.version in ("0.5.0", "0.6.1"):
        return
    plus = "" if run.tree.has(meant) or run.source != "script" else "+"
    yield _Advice("VRL263", f"since verl 0.7 this is {meant}", f"write {plus}{meant}={setting.raw}")


def _of_other_version(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    from verlcli.facts.verl import VERSIONS, which_trees, which_versions

    here = [name.partition("/")[0] for name in which_trees(setting.key, run.version)]
    if here:
        why = f"only the entry point {here[0]} has this key, not {run.entry or run.tree.entry}"
        yield _Advice("VRL240", why, sure=False)
        return
    age = VERSIONS.index(run.version)
    newer = [version for version in which_versions(setting.key, run.tree.entry) if VERSIONS.index(version) > age]
    if newer:
        why = f"verl {newer[0]} is the first with this key, and this launch is checked for {run.version}"
        # Some keys were read before the YAML had them.
        yield _Advice("VRL263", why, f"check it with --verl-version {newer[0]}, or remove the key", sure=False)


def _of_fork(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    from verlcli.facts.verl.forks import fork_of

    fork = fork_of(setting.key)
    if fork is None:
        return
    why = f"{setting.key} is a key of {fork.name}, not of verl {run.version}"
    note = f" ({fork.note})" if fork.note else ""
    if fork.upstream is None or not run.tree.has(fork.upstream):
        yield _Advice("VRL264", why, fork.note or f"remove it, or start it with {fork.name}")
        return
    same = not fork.note and not run.is_set(fork.upstream)
    fix = Fix("rename", setting.key, fork.upstream) if same else None
    yield _Advice("VRL264", why, f"verl calls it {fork.upstream}{note}", fix)


def _misspelt(run: VerlRun, setting: Setting) -> Iterator[_Advice]:
    near = meant_key(run, setting.key)
    if near is None:
        return
    why = f"verl {run.version} has no such key"
    plus = "+" if run.source == "script" and run.tree.is_extra(near.keys[0]) and not setting.prefix else ""
    if len(near.keys) > 1:
        yield _Advice("VRL240", why, f"keys of that name: {', '.join(near.keys)}", sure=False)
        return
    fix = Fix("rename", setting.key, near.keys[0]) if near.sure and not plus and not run.is_set(near.keys[0]) else None
    advice = _Advice("VRL240", why, f"did you mean {plus}{near.keys[0]}?", fix, near.sure)
    yield replace(advice, fix=None) if setting.inside else advice


def _names(run: VerlRun, key: str) -> str | None:
    section = key.rpartition(".")[0]
    names = [name for name in run.tree.children(section) if name != "_target_"] if section else []
    return f"keys of {section}: {', '.join(names)}" if 0 < len(names) <= 16 else None
