"""Batch arithmetic: prompts -> sequences -> ranks -> mini batches -> micro batches -> updates, with verl's meanings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from verlcli.config.types import Config
from verlcli.errors import DoesNotFitError
from verlcli.plan.types import BatchPlan

MINI = "training.ppo_mini_batch_size"
MICRO = "training.ppo_micro_batch_size_per_gpu"
TRAIN = "data.train_batch_size"


@dataclass(frozen=True, slots=True)
class _Micro:
    sequences: int
    why: str  # how it was chosen, "" when the user's value is used as it is


def plan_batch(config: Config, ranks: int) -> BatchPlan:
    """Work out one training step on `ranks` data-parallel ranks.

    `train_batch_size` and `ppo_mini_batch_size` are prompts over all ranks; the micro batch is sequences of one rank in
    one forward pass.

    Raises:
        DoesNotFitError: something does not divide; the message has the numbers, the fix the nearest values that do.
    """
    prompts, n, epochs = config.data.train_batch_size, config.rollout.n, config.training.ppo_epochs
    mini = config.training.ppo_mini_batch_size or prompts
    _check_mini(prompts, mini, n, ranks, mini_is_set=config.training.ppo_mini_batch_size is not None)
    mini_sequences = mini * n // ranks
    micro = _micro(config, mini_sequences)
    mini_batches = prompts // mini
    accumulation = -(-mini_sequences // micro.sequences)
    return BatchPlan(
        prompts=prompts,
        samples_per_prompt=n,
        sequences=prompts * n,
        ranks=ranks,
        sequences_per_rank=prompts * n // ranks,
        mini_batch_prompts=mini,
        mini_batch_sequences_per_rank=mini_sequences,
        mini_batches=mini_batches,
        micro_batch_sequences=micro.sequences,
        accumulation_steps=accumulation,
        ppo_epochs=epochs,
        updates=mini_batches * epochs,
        equation=(
            f"{_count(prompts, 'prompt')} x {_count(n, 'sample')} = {_count(prompts * n, 'sequence')}",
            f"{_count(prompts * n, 'sequence')} / {_count(ranks, 'rank')} = {prompts * n // ranks} a rank",
            f"{_count(prompts, 'prompt')} / {mini} a mini batch = {_count(mini_batches, 'mini batch')}"
            f" of {_count(mini_sequences, 'sequence')} a rank",
            _micro_line(mini_sequences, micro, accumulation),
            f"{_count(mini_batches, 'mini batch')} x {_count(epochs, 'epoch')}"
            f" = {_count(mini_batches * epochs, 'update')} a step",
        ),
    )


def _check_mini(prompts: int, mini: int, n: int, ranks: int, *, mini_is_set: bool) -> None:
    if mini > prompts:
        message = f"a mini batch of {mini} prompts is larger than the batch of {prompts}"
    elif prompts % mini:
        message = f"{prompts} prompts over mini batches of {mini} leaves {prompts % mini}"
    elif (mini * n) % ranks:
        message = f"{mini * n} sequences over {ranks} ranks leaves {(mini * n) % ranks}"
        message += f" (a mini batch of {mini} prompts x {n} samples)"
    else:
        return
    step = ranks // math.gcd(n, ranks)  # the ranks divide the mini batches that are multiples of this
    fix = _fix_mini(prompts, mini, step) if mini_is_set else f"{TRAIN} to {_either(_nearest_multiples(prompts, step))}"
    if mini % step:
        fix += ", or change the number of GPUs"
    raise DoesNotFitError(message, where=MINI if mini_is_set else TRAIN, fix=f"set {fix}")


def _fix_mini(prompts: int, mini: int, step: int) -> str:
    ways = []
    fitting = [value for value in _divisors(prompts) if value % step == 0]
    if fitting:
        ways.append(f"{MINI} to {_either(_nearest(mini, fitting))}")
    if mini % step == 0:
        ways.append(f"{TRAIN} to {_either(_nearest_multiples(prompts, mini))}")
    elif not fitting:
        ways.append(f"{TRAIN} to {_either(_nearest_multiples(prompts, step))} and {MINI} to a multiple of {step}")
    return ", or ".join(ways)


def _micro(config: Config, mini_sequences: int) -> _Micro:
    """The user's micro batch, checked; or one that fits `max_token_len_per_gpu`, in equal parts.

    The local backend fills micro batches with real tokens; where sequences stay below their longest, it makes fewer.
    """
    asked = config.training.ppo_micro_batch_size_per_gpu
    verl = config.backend == "verl"
    if asked is None or config.training.use_dynamic_bsz:
        return _micro_by_tokens(config, mini_sequences)
    if verl and mini_sequences % asked:
        raise DoesNotFitError(
            f"{mini_sequences} sequences a rank and mini batch over micro batches of {asked} leaves"
            f" {mini_sequences % asked}, which verl refuses",
            where=MICRO,
            fix=f"set {MICRO} to {_either(_nearest(asked, _divisors(mini_sequences)))}"
            ", or training.use_dynamic_bsz: true",
        )
    if asked > mini_sequences:
        return _Micro(mini_sequences, f"{asked} asked for, the mini batch has no more")
    return _Micro(asked, "")


def _micro_by_tokens(config: Config, mini_sequences: int) -> _Micro:
    tokens = config.data.max_prompt_length + config.data.max_response_length
    budget = config.training.max_token_len_per_gpu
    limit = min(max(1, budget // tokens), mini_sequences)
    if config.backend == "verl":
        size = max(value for value in _divisors(mini_sequences) if value <= limit)
    else:
        size = -(-mini_sequences // -(-mini_sequences // limit))
    how = "dynamic, about" if config.training.use_dynamic_bsz else "chosen"
    return _Micro(size, f"{how}: {budget} tokens a forward pass / {tokens} a sequence")


def _micro_line(mini_sequences: int, micro: _Micro, accumulation: int) -> str:
    head = f"{_count(mini_sequences, 'sequence')} / {micro.sequences} a micro batch"
    head += f" = {_count(accumulation, 'micro batch')} an update"
    last = mini_sequences % micro.sequences
    notes = [note for note in (f"the last one has {last}" if last else "", micro.why) if note]
    return f"{head} ({'; '.join(notes)})" if notes else head


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('batch') else 's'}"


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def _nearest(value: int, choices: Iterable[int]) -> list[int]:
    """The nearest choice on either side of `value`."""
    choices = sorted(choices)
    return [*[c for c in choices if c < value][-1:], *[c for c in choices if c > value][:1]]


def _nearest_multiples(value: int, step: int) -> list[int]:
    below = value // step * step
    return [v for v in (below, below + step) if v > 0]


def _either(values: list[int]) -> str:
    return " or ".join(str(value) for value in values)
