"""Rules about lengths in tokens: budgets of dynamic batches, the engine's context."""

from __future__ import annotations

import re
from collections.abc import Iterator

from verlcli.config.context import NotKnown
from verlcli.config.problems import Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import (
    ACTOR,
    CONTEXT,
    CRITIC,
    MODEL,
    PROMPT,
    REF,
    RESPONSE,
    ROLLOUT,
    Role,
    at_least,
    has_ref_copy,
    longest,
    sequence_parallel,
    shape_at,
    size,
    uses_critic,
)
from verlcli.config.verl.run import VerlRun

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_POSITIONS = f"{MODEL}.override_config.max_position_embeddings"
_EVERY_MODEL = 2048  # positions that every model in use has: below, its config.json need not be asked for


@rule()
def token_budgets_hold_a_sequence(run: VerlRun) -> Iterator[Verdict]:
    """VRL208: the token budget of dynamic batches is smaller than one sequence.

    Why: with use_dynamic_bsz a micro-batch holds at most this many tokens per GPU, times sequence (or context)
        parallel ranks, and one sequence must fit. Otherwise verl stops with "max_token_len must be greater than the
        sequence length" when the first long response arrives, maybe after hours; before 0.8, where batches were
        padded to their full length, at the first step. Twice the longest sequence is a good start.
    Example: data.max_response_length=8192 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096
    Instead: actor_rollout_ref.actor.ppo_max_token_len_per_gpu=17408
    Source: verl/utils/seqlen_balancing.py; verl issues 3088, 3415
    """
    tokens, first = longest(run), None
    for key, role in _budgets(run):
        ranks, budget = _context_ranks(run, role), run.integer(key)
        # One that only follows the actor's has nothing of its own to change.
        if budget * ranks >= tokens or (not run.is_set(key) and (budget, ranks) == first):
            continue
        first = (budget, ranks)
        always = budget * ranks <= run.integer(RESPONSE) or not at_least(run, "0.8")
        total = f"{budget} × {ranks} ranks = {budget * ranks}" if ranks > 1 else str(budget)
        yield Verdict(
            "VRL208",
            (key, RESPONSE, PROMPT),
            f"a micro-batch of the {_who(key)} holds {total} tokens, less than the longest sequence of {tokens}"
            f" (prompt {run.integer(PROMPT)} + response {run.integer(RESPONSE)})",
            f"set {run.name(key)} to {-(-tokens // ranks)} or more; {-(-2 * tokens // ranks)} is a good start",
            "error" if always else "warning",
        )


def _budgets(run: VerlRun) -> Iterator[tuple[str, Role]]:
    """Keys of the budgets that are read, with the role whose engine reads them."""
    dynamic = run.flag(f"{ACTOR}.use_dynamic_bsz")
    if dynamic:
        yield f"{ACTOR}.ppo_max_token_len_per_gpu", "actor"
    bypass = run.has("algorithm.rollout_correction.bypass_mode") and run.flag(
        "algorithm.rollout_correction.bypass_mode"
    )
    if (dynamic if at_least(run, "0.8") else run.flag(f"{ROLLOUT}.log_prob_use_dynamic_bsz")) and not bypass:
        yield f"{ROLLOUT}.log_prob_max_token_len_per_gpu", "actor"
    if has_ref_copy(run) and run.flag(f"{REF}.log_prob_use_dynamic_bsz"):
        yield f"{REF}.log_prob_max_token_len_per_gpu", "ref"
    if uses_critic(run) and run.flag(f"{CRITIC}.use_dynamic_bsz"):
        yield f"{CRITIC}.ppo_max_token_len_per_gpu", "critic"


def _who(key: str) -> str:
    if key.startswith(ROLLOUT):
        return "log-prob pass"
    return {REF: "reference", CRITIC: "critic"}.get(key.rpartition(".")[0], "actor")


def _context_ranks(run: VerlRun, role: Role) -> int:
    """GPUs over which one sequence is split."""
    root = {"actor": ACTOR, "ref": REF, "critic": CRITIC}[role]
    if run.engine == "dp":
        return sequence_parallel(run, role)[1]
    if run.engine == "megatron":
        return size(run, f"{root}.megatron.context_parallel_size")
    if run.engine == "veomni":
        return size(run, f"{root}.veomni.ulysses_parallel_size")
    raise NotKnown


def positions(run: VerlRun) -> int:
    """Positions of the model as verl reads them: `max_position_embeddings`, without a rope factor.

    Raises:
        NotKnown: the model's shape is not known.
    """
    for key in ("override_config.max_position_embeddings", "override_config.model_config.max_position_embeddings"):
        if run.is_set(f"{MODEL}.{key}"):
            return run.integer(f"{MODEL}.{key}")
    return shape_at(run).max_position_embeddings


def _severity(run: VerlRun) -> Severity:
    """Of what the model's positions rule out: a copy of a published model may have been given more."""
    path = run.text(f"{MODEL}.path") or ""
    published = _HUB_ID.fullmatch(path) is not None or shape_at(run).source.startswith("config.json")
    return "error" if published else "warning"


def _checks_positions(run: VerlRun) -> bool:
    return run.get(f"{ROLLOUT}.name") in ("vllm", "sglang", "trtllm")


@rule(versions=">=0.7")
def sequences_fit_the_engine(run: VerlRun) -> Iterator[Verdict]:
    """VRL211: the rollout engine's context is shorter than prompt plus response.

    Why: the engine stops generating at max_model_len (unset: at the model's positions), and raises for a prompt that
        leaves no room. So long prompts get shorter responses than max_response_length, without a word, or the rollout
        dies at the first prompt of full length.
    Example: data.max_prompt_length=512 data.max_response_length=512 actor_rollout_ref.rollout.max_model_len=512
    Instead: actor_rollout_ref.rollout.max_model_len=1024
    Source: verl/workers/rollout/vllm_rollout/vllm_async_server.py; verl issue 1873
    """
    tokens, prompt, response = longest(run), run.integer(PROMPT), run.integer(RESPONSE)
    said = run.get(CONTEXT) is not None
    if not _checks_positions(run) or (not said and tokens <= _EVERY_MODEL):
        return
    limit = run.integer(CONTEXT) if said else positions(run)
    if limit >= tokens:
        return
    if limit <= prompt:
        what = f"a prompt of {prompt} leaves no room to answer, and the rollout stops there"
    elif limit <= response:
        what = f"no response can reach max_response_length={response}"
    else:
        what = f"a prompt of {prompt} gets at most {limit - prompt} tokens of response"
    yield Verdict(
        "VRL211",
        (CONTEXT, RESPONSE, PROMPT) if said else (RESPONSE, PROMPT, f"{MODEL}.path"),
        f"prompt {prompt} + response {response} is {tokens} tokens, but"
        f" {run.shown(CONTEXT) if said else f'the model has {limit} positions'}: {what}",
        _room(run, tokens, limit, said),
        ("error" if said else _severity(run)) if limit <= max(prompt, response) else "warning",
    )


def _room(run: VerlRun, tokens: int, limit: int, said: bool) -> str:
    """What makes prompt and response fit into a context of `limit` tokens: a longer context, where the model has it."""
    if said and good_values(run, "VRL211", CONTEXT, [tokens]):
        return f"set {run.name(CONTEXT)}={tokens}"
    left = limit - run.integer(PROMPT)
    if left > 0:
        return f"lower {run.name(RESPONSE)} to {left}"
    return f"shorten {run.name(PROMPT)} and {run.name(RESPONSE)} to {limit} tokens together"


@rule(versions=">=0.7")
def engine_fits_the_model(run: VerlRun) -> Iterator[Verdict]:
    """VRL211: max_model_len is larger than the model's positions.

    Why: the rollout server compares it with max_position_embeddings of config.json and refuses to start. A rope
        factor beside it does not count.
    Example: actor_rollout_ref.rollout.max_model_len=40000 with a model of 32768 positions
    Instead: actor_rollout_ref.rollout.max_model_len=32768
    Source: verl/workers/rollout/vllm_rollout/vllm_async_server.py
    """
    if not _checks_positions(run) or run.get(CONTEXT) is None or run.integer(CONTEXT) <= _EVERY_MODEL:
        return
    limit, tokens = positions(run), longest(run)
    if run.integer(CONTEXT) > limit:
        yield Verdict(
            "VRL211",
            (CONTEXT, f"{MODEL}.path"),
            f"{run.shown(CONTEXT)} is more than the model's {limit} positions (max_position_embeddings)",
            f"set it to {limit} or less"
            if tokens <= limit
            else f"shorten prompt and response to {limit} tokens together, or, with YaRN (rope_scaling), set"
            f" ++{_POSITIONS}={run.integer(CONTEXT)}",
            _severity(run),
        )


@rule(versions="<0.7")
def sequences_fit_the_model(run: VerlRun) -> Iterator[Verdict]:
    """VRL211: prompt plus response is longer than the model's context.

    Why: the vLLM rollout of verl before 0.7 asserts that prompt plus response fit into the model's positions, with
        its rope factor, when it starts.
    Example: data.max_prompt_length=8192 data.max_response_length=32768 with a model of 32768 positions
    Instead: data.max_response_length=24576
    Source: verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py (0.6.1); verl issue 1873
    """
    tokens = longest(run)
    if run.get(f"{ROLLOUT}.name") != "vllm" or run.get(f"{ROLLOUT}.mode") != "sync" or tokens <= _EVERY_MODEL:
        return
    shape = shape_at(run)
    limit = int(shape.max_position_embeddings * shape.rope_factor)
    if limit < tokens:
        yield Verdict(
            "VRL211",
            (RESPONSE, PROMPT, f"{MODEL}.path"),
            f"prompt {run.integer(PROMPT)} + response {run.integer(RESPONSE)} is {tokens} tokens, more than the"
            f" model's {limit} positions",
            _room(run, tokens, limit, said=False),
            _severity(run),
        )


RULES: tuple[VerlRule, ...] = (
    token_budgets_hold_a_sequence,
    sequences_fit_the_engine,
    engine_fits_the_model,
    sequences_fit_the_model,
)
