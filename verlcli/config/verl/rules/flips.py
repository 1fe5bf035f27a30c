"""What an older launch does differently now, although none of its keys changed."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.run import VerlRun
from verlcli.config.wording import shown


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
    changed = [change for key in DEFAULT_FLIPS for change in _change(run, key, since)]
    if changed:
        yield Verdict(
            "VRL265",
            tuple(key for key, _ in changed),
            f"keys of verl {since} in a launch for {run.version}; of what it leaves unsaid has changed since: "
            + "; ".join(text for _, text in changed),
            "write the old values to keep what it did",
            "note",
        )


def _change(run: VerlRun, key: str, since: str) -> Iterator[tuple[str, str]]:
    from verlcli.facts.verl.history import flips

    found = flips(key, since, run.version, run.engine) if run.tree.has(key) and not run.is_set(key) else ()
    if found and found[-1].new != "???":  # a key that must be named now is reported as missing
        old = "" if found[0].old is None else f", before {shown(found[0].old)}"
        yield key, f"{run.name(key)} is {shown(found[-1].new)} since {found[-1].version}{old} ({found[-1].effect})"


def _written_for(run: VerlRun) -> str | None:
    """The newest version that has the keys of the launch which this one lacks; None when it lacks none."""
    from verlcli.facts.verl import VERSIONS, which_versions

    age = VERSIONS.index(run.version)
    last: list[int] = []
    for setting in run.settings:
        if setting.prefix in ("", "~") and not run.tree.has(setting.key):
            having = [VERSIONS.index(version) for version in which_versions(setting.key, run.tree.entry)]
            if having and max(having) < age:
                last.append(max(having))
    return VERSIONS[min(last)] if last else None


RULES: tuple[VerlRule, ...] = (defaults_are_those_of_its_time,)
