"""Rules about what steers an algorithm: dynamic sampling, the length penalty, the KL term."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config


def groups_can_differ(config: Config) -> Iterator[Verdict]:
    """VRL113: dynamic sampling with one answer a prompt.

    Why: filter_groups leaves out prompts whose answers have equal rewards; one answer is always equal to itself, so
        every prompt would be left out.
    Example: `algorithm: {name: ppo, filter_groups: true}` with `rollout: {n: 1}`
    Instead: `rollout: {n: 8}`, or `algorithm: {filter_groups: false}`
    Source: DAPO (arXiv 2503.14476), section 3.2
    """
    if config.algorithm.filter_groups and config.rollout.n == 1:
        yield Verdict(
            "VRL113",
            ("algorithm.filter_groups", "rollout.n"),
            "filter_groups compares the answers of one prompt; with rollout.n = 1 it would leave out every prompt",
            "raise rollout.n to 4 or more, or set it to false",
        )


def overlong_buffer_fits(config: Config) -> Iterator[Verdict]:
    """VRL114: the overlong buffer is longer than an answer can be.

    Why: the buffer is the last part of max_response_length, in which an answer's reward falls.
    Example: `algorithm: {overlong_buffer: 4096}` with `data: {max_response_length: 1024}`
    Instead: `algorithm: {overlong_buffer: 204}`
    Source: DAPO (arXiv 2503.14476), section 3.4
    """
    buffer, longest = config.algorithm.overlong_buffer, config.data.max_response_length
    if buffer > longest:
        yield Verdict(
            "VRL114",
            ("algorithm.overlong_buffer", "data.max_response_length"),
            f"a buffer of {buffer} tokens does not lie within answers of at most {longest}",
            f"set it to {max(1, longest // 5)}, a fifth of data.max_response_length, as DAPO does",
        )


def kl_target_has_a_term(config: Config) -> Iterator[Verdict]:
    """VRL115: a KL target without a KL term.

    Why: kl_target steers kl_coef from step to step by a factor; a coefficient of 0 stays 0, and no reference model is
        there to measure the distance.
    Example: `algorithm: {kl_coef: 0, kl_target: 0.1}`
    Instead: `algorithm: {kl_coef: 0.001, kl_target: 0.1}`
    Source: Fine-Tuning Language Models from Human Preferences (arXiv 1909.08593), section 2.2
    """
    if config.algorithm.kl_target is not None and config.algorithm.kl_coef == 0:
        yield Verdict(
            "VRL115",
            ("algorithm.kl_target", "algorithm.kl_coef"),
            f"{config.algorithm.kl_target:g} has no effect: algorithm.kl_coef is 0",
            "set algorithm.kl_coef: 0.001, or remove it",
            "warning",
        )


def kl_loss_has_a_gradient(config: Config) -> Iterator[Verdict]:
    """VRL116: the KL term of the loss is estimated by k1.

    Why: the expected gradient of k1, the plain log ratio, is zero: as a term of the loss it adds noise and holds the
        policy nowhere. In the reward it is right.
    Example: `algorithm: {kl_in: loss, kl_estimator: k1}`
    Instead: `algorithm: {kl_in: loss, kl_estimator: k2}`, or `kl_in: reward`
    Source: On a few pitfalls in KL divergence gradient estimation for RL (arXiv 2506.09477)
    """
    algorithm = config.algorithm
    if algorithm.kl_coef > 0 and algorithm.kl_in == "loss" and algorithm.kl_estimator == "k1":
        yield Verdict(
            "VRL116",
            ("algorithm.kl_estimator", "algorithm.kl_in"),
            "k1 has no gradient on average, so as a term of the loss it holds the policy nowhere",
            "set k2 or k3, or algorithm.kl_in: reward",
            "warning",
        )
