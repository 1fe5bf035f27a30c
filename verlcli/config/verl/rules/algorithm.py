"""Rules about the algorithm: its critic, its samples, its clipping and its KL term."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import trains_v1, uses_critic
from verlcli.config.verl.rules.files import is_ours
from verlcli.config.verl.run import VerlRun

_ESTIMATOR, _N = "algorithm.adv_estimator", "actor_rollout_ref.rollout.n"
_CRITIC = "critic.model.path"
_TEMPERATURE = "actor_rollout_ref.rollout.temperature"
_VAL_TEMPERATURE = "actor_rollout_ref.rollout.val_kwargs.temperature"
_VAL_SAMPLE = "actor_rollout_ref.rollout.val_kwargs.do_sample"
_CLIP = "actor_rollout_ref.actor.clip_ratio"
_KL_LOSS, _KL_COEF = "actor_rollout_ref.actor.use_kl_loss", "actor_rollout_ref.actor.kl_loss_coef"
_KL_REWARD = "algorithm.use_kl_in_reward"
_FILTER, _METRIC = "algorithm.filter_groups.enable", "algorithm.filter_groups.metric"

# Estimators that take the other samples of a prompt for a baseline.
GROUPED = ("grpo", "grpo_passk", "grpo_vectorized", "rloo", "rloo_vectorized", "opo", "gpg", "gdpo")
_ACTOR_CRITIC = ("main_ppo", "fully_async", "one_step_off", "dapo")  # entry points with a PPO trainer
# Losses that read clip_ratio only where clip_ratio_low and clip_ratio_high are null, which by default they are not.
_LOW_AND_HIGH = ("vanilla", "dppo_tv", "dppo_kl", "gspo", "clip_cov", "geo_mean", "cispo")


@rule()
def critic_has_a_model(run: VerlRun) -> Iterator[Verdict]:
    """VRL232: a critic is trained, but its model is verl's placeholder.

    Why: adv_estimator=gae, the default, trains a critic. Its path is not the actor's: unless set it is a folder of
        verl's authors, and loading it stops with "Repo id must be in the form ...".
    Example: algorithm.adv_estimator=gae, and nothing about critic.model.path
    Instead: critic.model.path=Qwen/Qwen2.5-7B-Instruct, or algorithm.adv_estimator=grpo, which has no critic
    Source: verl/trainer/config/critic/critic.yaml, verl/trainer/ppo/utils.py
    """
    if (run.entry or run.tree.entry) not in _ACTOR_CRITIC or run.is_set(_CRITIC) or not uses_critic(run):
        return
    # `--config-dir` and others may give a default of their own.
    if (run.text(_CRITIC) or "").startswith("~/models/"):
        cause = _ESTIMATOR if run.get("critic.enable") is None else "critic.enable"
        yield Verdict(
            "VRL232",
            (_CRITIC, cause),
            f"{run.shown(cause)} trains a critic, but {_CRITIC} is verl's placeholder {run.text(_CRITIC)}",
            f"set {run.name(_CRITIC)} to the actor's model, or {run.name(_ESTIMATOR)}=grpo, which trains none",
        )


@rule()
def groups_have_company(run: VerlRun) -> Iterator[Verdict]:
    """VRL233: there is nothing to compare: one sample a prompt, or samples at temperature 0.

    Why: GRPO and its kin compare the samples of a prompt. With a single one the group's mean counts as 0, so the
        advantage is the bare reward: every right answer is pushed and no wrong one is held back. verl's default for
        rollout.n is 1. At temperature 0 all samples are the same, in training and in validation.
    Example: algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=1
    Instead: actor_rollout_ref.rollout.n=8
    Source: verl/trainer/ppo/core_algos.py
    """
    # A teacher's distillation learns from single samples.
    if run.text(_ESTIMATOR) in GROUPED and run.integer(_N) == 1 and not run.flag("distillation.enabled"):
        yield Verdict(
            "VRL233",
            (_N, _ESTIMATOR),
            f"{run.text(_ESTIMATOR)} compares the samples of a prompt, and {run.shown(_N)} leaves nothing to compare",
            f"set {run.name(_N)} to 4 or more",
            "warning",
        )


@rule()
def rollouts_are_sampled(run: VerlRun) -> Iterator[Verdict]:
    """VRL233: training rollouts are greedy.

    Why: at temperature 0 all samples of a prompt are the same, so there is nothing to learn from. The trainer divides
        the logits by the temperature too: old versions by 0, which gives NaN; new ones by 1e-8, which makes every
        gradient 0.
    Example: actor_rollout_ref.rollout.temperature=0
    Instead: actor_rollout_ref.rollout.temperature=1.0
    Source: verl/workers/engine/fsdp/transformer_impl.py, verl/utils/config.py
    """
    if run.has(_ESTIMATOR) and run.number(_TEMPERATURE) == 0:
        yield Verdict(
            "VRL233",
            (_TEMPERATURE, _N),
            f"{run.shown(_TEMPERATURE)} makes all samples of a prompt the same and the gradient 0 or NaN",
            f"set {run.name(_TEMPERATURE)}=1.0; for greedy validation set {run.name(_VAL_TEMPERATURE)}=0",
        )


@rule()
def validation_samples(run: VerlRun) -> Iterator[Verdict]:
    """VRL233: validation is told to sample, at a temperature of 0.

    Why: the engine decodes greedily at temperature 0, whatever do_sample says, and several samples of a prompt are then
        the same. verl checks the temperature of training instead of this one.
    Example: actor_rollout_ref.rollout.val_kwargs.do_sample=True, and val_kwargs.temperature at its default 0
    Instead: actor_rollout_ref.rollout.val_kwargs.temperature=1.0
    Source: verl/utils/config.py
    """
    if run.flag(_VAL_SAMPLE) and run.number(_VAL_TEMPERATURE) == 0:
        yield Verdict(
            "VRL233",
            (_VAL_TEMPERATURE, _VAL_SAMPLE),
            f"{run.shown(_VAL_SAMPLE)}, but {run.shown(_VAL_TEMPERATURE)}: validation decodes greedily",
            f"set {run.name(_VAL_TEMPERATURE)} above 0, or {run.name(_VAL_SAMPLE)}=False",
            "warning",
        )


@rule()
def clip_ratio_is_read(run: VerlRun) -> Iterator[Verdict]:
    """VRL278: `clip_ratio` alone changes nothing, or its lower bound is wider than the upper one.

    Why: the losses read clip_ratio_low and clip_ratio_high, and clip_ratio only where these are null. verl's defaults
        for them are 0.2, not null, so the range stays 0.2 on both sides. A lower bound that is wider than the upper one
        is nearly always a swap.
    Example: actor_rollout_ref.actor.clip_ratio=0.28
    Instead: actor_rollout_ref.actor.clip_ratio_low=0.28 actor_rollout_ref.actor.clip_ratio_high=0.28
    Source: verl/trainer/ppo/core_algos.py, verl/trainer/config/actor/actor.yaml
    """
    if not run.is_set(_CLIP) or is_ours(run, _CLIP, f"{_CLIP}_low", f"{_CLIP}_high"):
        return
    if run.text("actor_rollout_ref.actor.policy_loss.loss_mode") not in (None, *_LOW_AND_HIGH):
        return
    asked, low, high = run.number(_CLIP), run.get(f"{_CLIP}_low"), run.get(f"{_CLIP}_high")
    ignored = [key for key, value in ((f"{_CLIP}_low", low), (f"{_CLIP}_high", high)) if value not in (None, asked)]
    if len(ignored) == 2:
        yield Verdict(
            "VRL278",
            (_CLIP, *ignored),
            f"{run.shown(_CLIP)} has no effect: {' and '.join(run.shown(key) for key in ignored)} are read instead",
            f"set {' and '.join(run.name(key) for key in ignored)}",
            "warning",
        )


@rule()
def clip_bounds_are_in_order(run: VerlRun) -> Iterator[Verdict]:
    """VRL278: the lower clip range is wider than the upper one.

    Why: DAPO's "clip higher" widens the upper side; the other way round is nearly always a swap, and entropy collapses
        sooner.
    Example: actor_rollout_ref.actor.clip_ratio_low=0.28 actor_rollout_ref.actor.clip_ratio_high=0.2
    Instead: actor_rollout_ref.actor.clip_ratio_low=0.2 actor_rollout_ref.actor.clip_ratio_high=0.28
    Source: verl/trainer/ppo/core_algos.py; arXiv 2503.14476, section 3.1
    """
    low, high = f"{_CLIP}_low", f"{_CLIP}_high"
    if is_ours(run, low, high):
        return
    # CISPO writes 10 for "no lower bound".
    if (run.is_set(low) or run.is_set(high)) and run.number(high) < run.number(low) < 1:
        ratio = f"{1 - run.number(low):g} ... {1 + run.number(high):g}"
        yield Verdict(
            "VRL278",
            (low, high),
            f"the ratio is clipped to {ratio}: wider below than above",
            f"swap {run.name(low)} and {run.name(high)} if that is not meant",
            "warning",
        )


@rule()
def kl_is_said_once(run: VerlRun) -> Iterator[Verdict]:
    """VRL275: the KL divergence to the reference counts twice, or costs a reference model for nothing.

    Why: use_kl_in_reward takes it off the rewards, use_kl_loss adds it to the loss; both together are legal, but
        seldom meant. use_kl_loss with a coefficient of 0 loads and runs the reference model and then ignores it.
    Example: algorithm.use_kl_in_reward=True actor_rollout_ref.actor.use_kl_loss=True
    Instead: algorithm.use_kl_in_reward=False
    Source: verl/utils/config.py, verl/workers/utils/losses.py
    """
    if not run.flag(_KL_LOSS):
        return
    if run.flag(_KL_REWARD):
        message = f"{run.shown(_KL_REWARD)} and {run.shown(_KL_LOSS)}: the KL divergence counts in rewards and loss"
        yield Verdict("VRL275", (_KL_REWARD, _KL_LOSS), message, "keep one of them if that is not meant", "note")
    elif run.number(_KL_COEF) == 0:
        message = f"{run.shown(_KL_COEF)}: the reference model runs each step and its result counts nothing"
        fix = Fix("set", _KL_LOSS, False)
        yield Verdict("VRL275", (_KL_COEF, _KL_LOSS), message, f"set {run.name(_KL_LOSS)}=False", "note", fix=fix)


@rule(versions=">=0.9", entries=("main_ppo",))
def filtered_groups_have_a_metric(run: VerlRun) -> Iterator[Verdict]:
    """VRL272: groups are filtered without a metric, by one that is not known in time, or by a program that cannot.

    Why: DAPO drops a prompt whose samples all have the same metric. The metric must be named, and known when samples
        are taken: a reward model that shares the trainer's GPUs scores later, and verl stops. Before 0.9 main_ppo does
        not filter at all.
    Example: algorithm.filter_groups.enable=True algorithm.filter_groups.metric=null
    Instead: algorithm.filter_groups.metric=acc
    Source: verl/trainer/ppo/v1/trainer_base.py
    """
    if not trains_v1(run) or not run.flag(_FILTER):
        return
    if not run.get(_METRIC):
        advice = f"set {run.name(_METRIC)} to a value of the reward function, such as acc"
        yield Verdict("VRL272", (_METRIC, _FILTER), f"{run.shown(_FILTER)} needs a metric to compare", advice)
    pool = "reward.reward_model.enable_resource_pool"
    if run.flag("reward.reward_model.enable") and not run.flag(pool):
        message = f"{run.shown(_FILTER)} needs rewards at sampling time; {run.shown(pool)} gives them later"
        yield Verdict("VRL272", (pool, _FILTER), message, f"set {run.name(pool)}=True")


@rule(versions="<0.9", entries=("main_ppo",))
def groups_are_filtered_at_all(run: VerlRun) -> Iterator[Verdict]:
    """VRL272: the launched program does not filter groups.

    Why: up to 0.8 only DAPO's own entry point reads algorithm.filter_groups; main_ppo takes the key and trains on all
        groups, also those without any signal.
    Example: verl.trainer.main_ppo algorithm.filter_groups.enable=True, with verl 0.7
    Instead: recipe.dapo.main_dapo, or verl 0.9
    Source: verl/trainer/ppo/ray_trainer.py
    """
    if run.flag(_FILTER):
        message = f"{run.shown(_FILTER)} has no effect: main_ppo of verl {run.version} does not read it"
        yield Verdict("VRL272", (_FILTER,), message, "launch recipe.dapo.main_dapo, or take verl 0.9")


RULES: tuple[VerlRule, ...] = (
    critic_has_a_model,
    groups_have_company,
    rollouts_are_sampled,
    validation_samples,
    clip_ratio_is_read,
    clip_bounds_are_in_order,
    kl_is_said_once,
    filtered_groups_have_a_metric,
    groups_are_filtered_at_all,
)
