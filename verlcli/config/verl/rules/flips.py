"""What an older launch does differently now, although none of its keys changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from verlcli.config.context import NotKnown
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import REF, at_least, uses_critic, uses_ref
from verlcli.config.verl.run import VerlRun
from verlcli.config.wording import shown

if TYPE_CHECKING:
    from verlcli.facts.verl.history import Flip

_RAW_CHAT, _V1, _GROUPS = "data.return_raw_chat", "trainer.use_v1", "algorithm.filter_groups"


@rule()
def defaults_are_those_of_its_time(run: VerlRun) -> Iterator[Verdict]:
    """VRL265: a default changed since the launch was written.

    Why: a launch with keys that a newer verl has renamed or removed was written for an older one. What it leaves unsaid
        changed without a word, too: CUDA graphs went on in 0.6, removal of padding in 0.7, max_num_seqs fell in 0.9.
    Example: actor_rollout_ref.rollout.update_weights_bucket_megabytes=512 (an old key), and nothing about max_num_seqs
    Instead: actor_rollout_ref.rollout.max_num_seqs=1024 to keep what the launch did, or the new default knowingly
    Source: verl/trainer/config, each version
    """
    from verlcli.facts.verl.history import DEFAULT_FLIPS

    since = _written_for(run)
    if since is None:
        return
    flipped = [(key, flip) for key in DEFAULT_FLIPS for flip in _flip(run, key, since)]
    changed = [(key, _told(run, key, flip)) for key, flip in flipped]
    back = [text for key, flip in flipped for text in _back(run, key, flip)]
    if changed:
        yield Verdict(
            "VRL265",
            tuple(key for key, _ in changed),
            f"keys of verl {since} in a launch for {run.version}; of what it leaves unsaid has changed since: "
            + "; ".join(text for _, text in changed),
            f"to keep what it did, write {', '.join(back)}" if back else None,
            "note",
        )


def _flip(run: VerlRun, key: str, since: str) -> Iterator[Flip]:
    """The change of a default that this launch leaves unsaid, from what it was to what it is."""
    from verlcli.facts.verl.history import flips

    found = flips(key, since, run.version, run.engine) if run.tree.has(key) and not run.is_set(key) else ()
    # A key that must be named now is reported as missing.
    if found and found[-1].new != "???" and _is_on(run, key):
        flip = replace(found[-1], old=found[0].old)
        if not _is_refused(run, key, flip):
            yield flip


def _is_on(run: VerlRun, key: str) -> bool:
    """Whether what the key is about is part of the launch, and read at all."""
    try:
        if key == _RAW_CHAT:
            return not at_least(run, "0.9")  # agent loops get the messages in any case
        if key.startswith("critic."):
            return uses_critic(run)
        if key.startswith(f"{REF}."):
            return uses_ref(run)
        return not key.startswith(f"{_GROUPS}.") or run.flag(f"{_GROUPS}.enable")
    except NotKnown:
        return True


def _told(run: VerlRun, key: str, flip: Flip) -> str:
    before = "" if flip.old is None else f", before {shown(flip.old)}"
    return f"{run.name(key)} is {shown(flip.new)} since {flip.version}{before} ({flip.effect})"


def _is_refused(run: VerlRun, key: str, flip: Flip) -> bool:
    """Whether this version does not take the old default any more: other rules then say what it wants."""
    from verlcli.facts.verl.types import choices

    if key.endswith(".use_mbridge"):
        return at_least(run, "0.8")
    known = choices(key, run.version)
    return known is not None and not known.open and flip.old is not None and str(flip.old) not in known.values


def _back(run: VerlRun, key: str, flip: Flip) -> Iterator[str]:
    """What to write to get the old default back; nothing for a key that did not exist."""
    if flip.old is not None or key == _V1:
        yield f"{run.name(key)}={shown(False if key == _V1 else flip.old)}"


def _written_for(run: VerlRun) -> str | None:
    """The newest version that has the keys of the launch which this one lacks; None when it lacks none."""
    from verlcli.facts.verl import VERSIONS, which_versions

    age = VERSIONS.index(run.version)
    last: list[int] = []
    for setting in run.every_setting():
        if setting.prefix in ("", "~") and not run.tree.has(setting.key):
            having = [VERSIONS.index(version) for version in which_versions(setting.key, run.tree.entry)]
            if having and max(having) < age:
                last.append(max(having))
    return VERSIONS[min(last)] if last else None


RULES: tuple[VerlRule, ...] = (defaults_are_those_of_its_time,)
