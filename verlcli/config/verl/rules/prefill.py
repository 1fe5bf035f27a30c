"""Rules about how vLLM takes prompts in: tokens of one batch, chunks, cached prefixes."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import CONTEXT, PROMPT, RESPONSE, ROLLOUT, longest
from verlcli.config.verl.rules.tokens import positions
from verlcli.config.verl.run import VerlRun

_BATCHED = f"{ROLLOUT}.max_num_batched_tokens"
_CHUNKED, _CACHING = f"{ROLLOUT}.enable_chunked_prefill", f"{ROLLOUT}.enable_prefix_caching"


@rule(versions=">=0.9.1")
def whole_prefill_fits_a_batch(run: VerlRun) -> Iterator[Verdict]:
    """VRL212: without chunked prefill the batched tokens are raised to the context.

    Why: a prompt that is not cut into chunks must fit into one batch, so verl raises max_num_batched_tokens to
        max_model_len, which takes more memory for activations than the config says.
    Example: enable_chunked_prefill=False max_num_batched_tokens=4096 max_model_len=32768
    Instead: leave enable_chunked_prefill at True, or lower max_model_len
    Source: verl/workers/rollout/vllm_rollout/vllm_async_server.py; verl issues 189, 7624
    """
    if run.get(f"{ROLLOUT}.name") != "vllm" or run.get(_CHUNKED) is not False:
        return
    limit = positions(run) if run.get(CONTEXT) is None else run.integer(CONTEXT)
    if run.integer(_BATCHED) < limit:
        shorter = good_values(run, "VRL212", CONTEXT, [longest(run)], at=_BATCHED)
        yield Verdict(
            "VRL212",
            (_BATCHED, _CHUNKED, CONTEXT),
            f"{run.shown(_BATCHED)} is raised to the context of {limit}, because {run.shown(_CHUNKED)}",
            f"remove {run.name(_CHUNKED)}" + (f", or set {run.name(CONTEXT)}={shorter[0]}" if shorter else ""),
            "warning",
        )


@rule(versions="<0.7")
def prefill_fits_a_batch(run: VerlRun) -> Iterator[Verdict]:
    """VRL212: the batched tokens are fewer than the context.

    Why: the vLLM rollout of verl before 0.7 refuses max_num_batched_tokens below max_model_len (unset: prompt plus
        response), with chunked prefill by a check of its own and without it by vLLM's.
    Example: data.max_response_length=16384, and max_num_batched_tokens left at 8192
    Instead: actor_rollout_ref.rollout.max_num_batched_tokens=17408
    Source: verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py (0.6.1)
    """
    if run.get(f"{ROLLOUT}.name") != "vllm" or run.get(f"{ROLLOUT}.mode") != "sync":
        return
    limit = longest(run) if run.get(CONTEXT) is None else run.integer(CONTEXT)
    if run.integer(_BATCHED) < limit:
        yield Verdict(
            "VRL212",
            (_BATCHED, CONTEXT, RESPONSE, PROMPT),
            f"{run.shown(_BATCHED)} is less than the context of {limit} tokens",
            f"set {run.name(_BATCHED)}={limit} or more",
        )


@rule(versions=">=0.7,<0.9.1")
def switches_reach_the_engine(run: VerlRun) -> Iterator[Verdict]:
    """VRL213: a switch that is off does not reach vLLM.

    Why: these versions hand settings on as command-line flags and leave out those that are False, so vLLM keeps its
        own default, which is on. Chunked prefill and prefix caching stay on.
    Example: actor_rollout_ref.rollout.enable_prefix_caching=False
    Instead: verl 0.9.1 or newer, or leave it out
    Source: verl/workers/rollout/vllm_rollout/utils.py; verl pull request 7508
    """
    if run.get(f"{ROLLOUT}.name") != "vllm":
        return
    for key in (_CHUNKED, _CACHING):
        if run.is_set(key) and run.get(key) is False:
            message = f"{run.shown(key)} does nothing: verl {run.version} does not hand it on, and vLLM leaves it on"
            yield Verdict("VRL213", (key,), message, "remove it, or use verl 0.9.1 or newer", "warning")


RULES: tuple[VerlRule, ...] = (whole_prefill_fits_a_batch, prefill_fits_a_batch, switches_reach_the_engine)
