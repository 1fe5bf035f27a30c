"""Explanations of the codes that the loader and the schema report; see `codes.parse_code` for the form."""

from __future__ import annotations

GENERAL: tuple[str, ...] = (
    """VRL000: the input cannot be read.

    Why: the file is missing, is not UTF-8, is no YAML, or holds what a config never needs (object tags, aliases that
        expand without end). Nothing of it was checked; the exit code is 2.
    Example: indenting with a tab
    Instead: correct the place that the message names, then check again
    """,
    """VRL001: no such key.

    Why: a key that nothing reads is nearly always a misspelling, and the run would go on with the default.
    Example:
        algorithm:
          clip_rato: 0.2
    Instead:
        algorithm:
          clip_ratio: 0.2
    """,
    """VRL002: the value has another type than the key takes.

    Why: a number in quotes, a word for a switch or a list for one value would fail later, or be read as another thing.
    Example: `rollout: {n: "8"}`
    Instead: `rollout: {n: 8}`
    """,
    """VRL003: the value is out of range.

    Why: outside the range the key has no meaning: a share above 1, a batch of 0, a number that is not finite.
    Example: `rollout: {gpu_memory_utilization: 1.7}`
    Instead: `rollout: {gpu_memory_utilization: 0.6}`
    """,
    """VRL004: the value is not one of the choices.

    Why: the key takes a fixed set of names; `verl schema KEY` lists them.
    Example: `algorithm: {name: grop}`
    Instead: `algorithm: {name: grpo}`
    """,
    """VRL006: a key is set twice in the same place.

    Why: YAML readers disagree on which one holds; here the first one counts and the second is refused.
    Example:
        trainer:
          total_steps: 100
          total_steps: 200
    Instead: keep the one that is meant
    """,
    """VRL135: a key and its counterpart under `verl:` contradict each other.

    Why: what stands under `verl:` is handed to verl as it is, and wins over the key that is translated to the same; the
        plan would show the one, and verl run with the other.
    Example: `rollout: {n: 8}` with `verl: {actor_rollout_ref: {rollout: {n: 4}}}`
    Instead: `rollout: {n: 4}`
    """,
    """VRL007: `${...}` is not expanded.

    Why: configs hold values, not shell variables; the text would be taken as it stands, as a path or a name.
    Example: `model: {path: ${MODEL}}`
    Instead: `verl train config.yaml -o model.path=$MODEL`
    """,
)
