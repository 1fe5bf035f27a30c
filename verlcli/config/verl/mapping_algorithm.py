"""The third part of the table: pairs of several keys that belong to the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from verlcli.config.verl.pairs import Given, Pair, View

if TYPE_CHECKING:
    from verlcli.facts.verl import KeyTree


class KlControl:
    """`algorithm.kl_target`: verl's `adaptive` controller, which steers the KL of the reward alone."""

    ours = ("algorithm.kl_target", "algorithm.kl_horizon")
    _kind, _target, _horizon = (f"algorithm.kl_ctrl.{name}" for name in ("type", "target_kl", "horizon"))

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """The kind, the target, the horizon."""
        return tuple(key for key in (self._kind, self._target, self._horizon) if tree.has(key))

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """All three where a target is set; with none that verl's controller stays fixed, where somebody said so."""
        target, horizon = (view.value(key) for key in self.ours)
        if view.based(self.ours[0]) or not self.carries(view):
            return []
        if target is None:
            return [Given(self._kind, "fixed", self.ours[0])] if view.said(self.ours[0]) else []
        values = ((self._kind, "adaptive", 0), (self._target, target, 0), (self._horizon, horizon, 1))
        return [Given(key, value, self.ours[index]) for key, value, index in values]

    def carries(self, view: View) -> bool:
        """Whether it steers the reward's KL, or nothing."""
        in_reward = view.value("algorithm.kl_in") == "reward" and bool(view.value("algorithm.kl_coef"))
        return view.value(self.ours[0]) is None or in_reward

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """Target and horizon of an adaptive controller that names both."""
        if said.get(self._kind) == "fixed":
            return {self.ours[0]: None}
        if said.get(self._kind) != "adaptive" or self._target not in said or self._horizon not in said:
            return {}
        return {self.ours[0]: said[self._target], self.ours[1]: said[self._horizon]}


class FilterGroups:
    """`algorithm.filter_groups`: verl has a switch, a limit, and what is compared."""

    ours = ("algorithm.filter_groups", "algorithm.max_num_gen_batches")
    _switch, _limit, _metric = (
        f"algorithm.filter_groups.{name}" for name in ("enable", "max_num_gen_batches", "metric")
    )

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """Switch and limit."""
        return tuple(key for key in (self._switch, self._limit) if tree.has(key))

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """Switch and limit where it is on, and the accuracy as metric in versions that have no default for it."""
        on, limit = (view.value(key) for key in self.ours)
        if view.based(self.ours[0]) or not self.keys(view.tree):
            return []
        if not on:
            return [Given(self._switch, False, self.ours[0])] if view.said(self.ours[0]) else []
        found = [Given(self._switch, True, self.ours[0]), Given(self._limit, limit, self.ours[1])]
        named = view.tree.value(self._metric, so_far) is not None
        return found if named else [*found, Given(self._metric, "acc", self.ours[0], True)]

    def carries(self, view: View) -> bool:
        """Whether this version of verl has dynamic sampling, or none is wanted."""
        return bool(self.keys(view.tree)) or not view.value(self.ours[0])

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """Switch and limit."""
        on, limit = said.get(self._switch), said.get(self._limit)
        if on is False:
            return {self.ours[0]: False}
        return {self.ours[0]: True, self.ours[1]: limit} if on is True and limit is not None else {}


class RolloutWeights:
    """`algorithm.rollout_is`: verl's rollout correction, for which the engine has to hand in log-probabilities."""

    ours = ("algorithm.rollout_is", "algorithm.rollout_is_threshold")
    _level, _threshold = (f"algorithm.rollout_correction.{name}" for name in ("rollout_is", "rollout_is_threshold"))
    _logprobs = "actor_rollout_ref.rollout.calculate_log_probs"

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """Level and threshold."""
        return tuple(key for key in (self._level, self._threshold) if tree.has(key))

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """Level and threshold where it is on, and the switch of the engine in versions that have it off."""
        level, threshold = (view.value(key) for key in self.ours)
        if view.based(self.ours[0]) or not self.keys(view.tree):
            return []
        if level is None:
            return [Given(self._level, None, self.ours[0])] if view.said(self.ours[0]) else []
        found = [Given(self._level, level, self.ours[0]), Given(self._threshold, threshold, self.ours[1])]
        on = view.tree.value(self._logprobs, so_far) is True
        return found if on else [*found, Given(self._logprobs, True, self.ours[0], True)]

    def carries(self, view: View) -> bool:
        """Whether this version of verl has it, or it is off."""
        return bool(self.keys(view.tree)) or view.value(self.ours[0]) is None

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """Weights a token with their threshold; verl's other levels have no word here."""
        if self._level in said and said[self._level] is None:
            return {self.ours[0]: None}
        if said.get(self._level) != "token" or self._threshold not in said:
            return {}
        return {self.ours[0]: "token", self.ours[1]: said[self._threshold]}


class Overlong:
    """`algorithm.overlong_buffer`: arguments of verl's reward manager `dapo`, which stand in no tree."""

    ours = ("algorithm.overlong_buffer", "algorithm.overlong_penalty")
    _managers = ("reward.reward_manager.name", "reward_model.reward_manager")
    _buffer, _longest = "reward.reward_kwargs.overlong_buffer_cfg", "reward.reward_kwargs.max_resp_len"

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """The reward manager's name."""
        return next(((name,) for name in self._managers if tree.has(name)), ())

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """The manager with all its arguments, where there is a buffer."""
        buffer, penalty = (view.value(key) for key in self.ours)
        if view.based(self.ours[0]) or not buffer or not self.carries(view):
            return []
        return [
            Given(self._managers[0], "dapo", self.ours[0], True),
            Given(f"{self._buffer}.enable", True, self.ours[0]),
            Given(f"{self._buffer}.len", buffer, self.ours[0]),
            Given(f"{self._buffer}.penalty_factor", penalty, self.ours[1]),
            Given(f"{self._buffer}.log", False, self.ours[0], True),
            Given(self._longest, view.value("data.max_response_length"), self.ours[0], True),
        ]

    def carries(self, view: View) -> bool:
        """Whether this version of verl takes the arguments there, or none are wanted."""
        return self.keys(view.tree) == self._managers[:1] or not view.value(self.ours[0])

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """Length and penalty of a buffer that is on."""
        length, penalty = said.get(f"{self._buffer}.len"), said.get(f"{self._buffer}.penalty_factor")
        on = said.get(f"{self._buffer}.enable") is True and said.get(self._managers[0]) == "dapo"
        return {self.ours[0]: length, self.ours[1]: penalty} if on and length and penalty is not None else {}


ALGORITHM_GROUPS: tuple[Pair, ...] = (KlControl(), FilterGroups(), RolloutWeights(), Overlong())
