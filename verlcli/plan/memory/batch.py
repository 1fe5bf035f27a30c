"""Tokens of a step and of its largest micro batch, and the tensors that hold them."""

from __future__ import annotations

from dataclasses import dataclass

from verlcli.config.types import Config
from verlcli.plan.types import BatchPlan

INTEGER, FLOAT = 8, 4  # bytes of token ids and masks, of log-probabilities and the like


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The largest micro batch of a pass.

    Attributes:
        tokens: real ones, of prompts and responses.
        predicted: at most, of responses.
        several: the pass has more than one micro batch.
    """

    tokens: int
    predicted: int
    sequences: int
    several: bool
    equation: str


def micro_batch(config: Config, batch: BatchPlan, sequences: int) -> MicroBatch:
    """The largest micro batch of a pass over so many sequences, all as long as the config allows.

    Shorter sequences fill a micro batch up to the token budget too; a sequence longer than the budget is alone.
    """
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    training, longest = config.training, prompt + response
    if training.ppo_micro_batch_size_per_gpu is not None and not training.use_dynamic_bsz:
        size = min(batch.micro_batch_sequences, sequences)
        equation = f"{size} sequences x {longest} tokens"
        return MicroBatch(size * longest, size * response, size, sequences > size, equation)
    whole, budget = sequences * longest, training.max_token_len_per_gpu
    tokens = max(longest, min(budget, whole))
    size = min(sequences, max(1, budget // longest))
    names = {longest: "the longest sequence", whole: "all sequences", budget: "training.max_token_len_per_gpu"}
    predicted = min(tokens, sequences * response)
    return MicroBatch(tokens, predicted, size, whole > tokens, f"{tokens} tokens ({names[tokens]})")


def step_bytes(config: Config, batch: BatchPlan, *, per_token: int) -> int:
    """Bytes of a step's batch: ids and masks twice (as generated, and side by side), `per_token` numbers of a response.

    Dynamic sampling keeps the batches that it draws beside each other.
    """
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    ids = 2 * INTEGER * (prompt + response)
    generated = INTEGER * (2 * prompt + response) + 2 * FLOAT * response  # and the decoder's own tokens and log-probs
    row = ids + generated + response * (1 + FLOAT * per_token)
    drawn = max(1, config.algorithm.max_num_gen_batches) if config.algorithm.filter_groups else 1
    return batch.sequences_per_rank * row * drawn


def pass_bytes(config: Config, sequences: int, *, per_token: int) -> int:
    """Bytes of the micro batches of a pass, all made before the first: rows, packed ids, positions and places."""
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    rows = 2 * INTEGER * (prompt + response) + response * (1 + FLOAT * per_token)
    packed = INTEGER * (2 * (prompt + response) + 3 * response)
    return sequences * (rows + packed)
