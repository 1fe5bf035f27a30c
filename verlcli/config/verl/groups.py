"""Pairs of several keys: the KL term, resuming, the reward's file, the reward model, the training engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from verlcli.config.verl.pairs import Given, View, equal

if TYPE_CHECKING:
    from verlcli.facts.verl import KeyTree

_ACTOR = "actor_rollout_ref.actor"
# verl knows each estimator by two names; these are the ones of its own defaults and scripts.
_ESTIMATORS = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}
_SWITCHES = {"loss": f"{_ACTOR}.use_kl_loss", "reward": "algorithm.use_kl_in_reward"}
_COEFFICIENTS = {"loss": f"{_ACTOR}.kl_loss_coef", "reward": "algorithm.kl_ctrl.kl_coef"}
_KINDS = {"loss": f"{_ACTOR}.kl_loss_type", "reward": "algorithm.kl_penalty"}
_MODES = {"auto": "auto", "never": "disable"}
_ENGINES = {"fsdp": "dp", "mcore": "megatron"}
_STEP = "${trainer.default_local_dir}/global_step_"


class Kl:
    """`algorithm.kl_*`: verl has a switch, a coefficient and an estimator each for the loss and for the reward."""

    ours = ("algorithm.kl_coef", "algorithm.kl_in", "algorithm.kl_estimator")

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """Both switches, both coefficients, both estimators."""
        tables = (_SWITCHES, _COEFFICIENTS, _KINDS)
        return tuple(key for table in tables for key in table.values() if tree.has(key))

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """The switch that is on with what belongs to it, or the switches that somebody turned off."""
        coefficient, where, estimator = (view.value(key) for key in self.ours)
        if all(view.based(key) for key in self.ours) or where not in _SWITCHES:
            return []
        if not coefficient:
            off = {self.ours[0]: _SWITCHES["loss"], self.ours[1]: _SWITCHES["reward"]}
            return [Given(key, False, ours) for ours, key in off.items() if view.said(ours)]
        found = [Given(_SWITCHES[where], True, self.ours[1] if view.said(self.ours[1]) else self.ours[0])]
        if where == "loss" and view.said(self.ours[1]):
            found.append(Given(_SWITCHES["reward"], False, self.ours[1]))
        values = ((_COEFFICIENTS, coefficient, 0), (_KINDS, _ESTIMATORS.get(estimator, estimator), 2))
        return found + [
            Given(table[where], value, self.ours[index])
            for table, value, index in values
            if view.said(self.ours[index]) or not equal(view.tree.value(table[where], so_far), value)
        ]

    def carries(self, view: View) -> bool:
        """verl has all of it."""
        return True

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """The KL of the loss, else that of the reward, else that there is none."""
        kinds = [kind for kind, key in _SWITCHES.items() if said.get(key) is True]
        if not kinds:
            return self._off(said)
        kind = kinds[0]
        coefficient = _COEFFICIENTS[kind]
        found: dict[str, Any] = {self.ours[0]: said[coefficient]} if coefficient in said else {}
        if kind == "reward" or said.get(_SWITCHES["reward"]) is False:
            found[self.ours[1]] = kind
        names = {verl: name for name, verl in _ESTIMATORS.items()}
        named = said.get(_KINDS[kind])
        if isinstance(named, str) and named in names:
            found[self.ours[2]] = names[named]
        return found

    def _off(self, said: Mapping[str, Any]) -> dict[str, Any]:
        values = {self.ours[0]: ("loss", 0.0), self.ours[1]: ("reward", "loss")}
        return {ours: value for ours, (kind, value) in values.items() if said.get(_SWITCHES[kind]) is False}


class ChosenMicroBatch:
    """A micro batch that is left to the planner: under verl the token budget chooses it, sequence by sequence."""

    ours = ("training.ppo_micro_batch_size_per_gpu",)
    _dynamic, _sized = f"{_ACTOR}.use_dynamic_bsz", f"{_ACTOR}.ppo_micro_batch_size"

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """None of its own: the switch belongs to `training.use_dynamic_bsz`."""
        return ()

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """The switch, unless somebody chose a size or turned it."""
        key = self.ours[0]
        said = view.said("training.use_dynamic_bsz") or any(name.startswith(self._sized) for name in view.kept)
        if said or view.based(key) or view.value(key) is not None or view.value("training.use_dynamic_bsz"):
            return []
        return [Given(self._dynamic, True, key, True)]

    def carries(self, view: View) -> bool:
        """It says nothing that verl lacks."""
        return True

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """Nothing: a switch that was written is `training.use_dynamic_bsz`."""
        return {}


class Resume:
    """`trainer.resume`: `never` is `disable`; a step is `resume_path` with that step's folder of checkpoints."""

    ours = ("trainer.resume",)
    _mode, _path = "trainer.resume_mode", "trainer.resume_from_path"

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """The mode and the path."""
        return tuple(key for key in (self._mode, self._path) if tree.has(key))

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """The mode, and for a step its checkpoint below verl's checkpoint folder."""
        key, value = self.ours[0], view.value(self.ours[0])
        if view.based(key) or (value == "auto" and not view.said(key)):
            return []
        if isinstance(value, str) and value in _MODES:
            return [Given(self._mode, _MODES[value], key)]
        return [Given(self._mode, "resume_path", key), Given(self._path, f"{_STEP}{value}", key)]

    def carries(self, view: View) -> bool:
        """verl has all of it."""
        return True

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """`auto`, `never` or a step; other paths have no word here."""
        path = said.get(self._path)
        if said.get(self._mode) == "resume_path" and isinstance(path, str):
            step = path.removeprefix(_STEP)
            return {self.ours[0]: int(step)} if path.startswith(_STEP) and step.isdecimal() else {}
        names = {verl: name for name, verl in _MODES.items()}
        mode = said.get(self._mode)
        return {self.ours[0]: names[mode]} if isinstance(mode, str) and mode in names else {}


class RewardFile:
    """`reward.function` of one Python file; the built-in rewards are verlcli's own, which verl does not have."""

    ours = ("reward.function",)
    _sections = ("reward.custom_reward_function", "custom_reward_function")

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """The file and the function."""
        return next(((f"{name}.path", f"{name}.name") for name in self._sections if tree.has(f"{name}.path")), ())

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """File and function of the one reward that is a Python file; without a name verl's own default stands."""
        functions = view.value(self.ours[0])
        spec = functions[0] if isinstance(functions, list) and len(functions) == 1 else functions
        if view.based(self.ours[0]) or not isinstance(spec, str) or ".py" not in spec:
            return []
        path, colon, name = spec.rpartition(":")
        parts = (path, name) if colon and path.endswith(".py") else (spec,)
        return [Given(key, part, self.ours[0]) for key, part in zip(self.keys(view.tree), parts, strict=False)]

    def carries(self, view: View) -> bool:
        """Only the one Python file goes to verl."""
        functions = view.value(self.ours[0])
        return isinstance(functions, list) and len(functions) == 1 and ".py" in str(functions[0])

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """`FILE.py` or `FILE.py:FUNCTION`."""
        file, name = (said.get(key) for key in self.keys(tree) or ("", ""))
        if not isinstance(file, str) or not file.endswith(".py"):
            return {}
        return {self.ours[0]: [f"{file}:{name}" if isinstance(name, str) and name else file]}


class RewardModel:
    """`reward_model.path`: verl has a switch and the path."""

    ours = ("reward_model.path",)
    _enable, _path = "reward.reward_model.enable", "reward.reward_model.model_path"

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """The switch and the path."""
        return (self._enable, self._path) if tree.has(self._path) else ()

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """Both, where a path is set."""
        path = view.value(self.ours[0])
        if view.based(self.ours[0]) or path is None or not self.keys(view.tree):
            return []
        return [Given(self._enable, True, self.ours[0]), Given(self._path, path, self.ours[0])]

    def carries(self, view: View) -> bool:
        """Whether this version of verl has the keys."""
        return bool(self.keys(view.tree))

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """The path of a reward model that is switched on."""
        path = said.get(self._path)
        return {self.ours[0]: path} if said.get(self._enable) is True and isinstance(path, str) else {}


class Engine:
    """`actor.training_engine`: verl chooses a config group for all training roles at once."""

    ours = ("actor.training_engine",)
    _group = "model_engine"

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """The group."""
        return (self._group,)

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """The group, where somebody named the engine or it is another one than verl's own choice."""
        name = view.value(self.ours[0])
        wanted = view.said(self.ours[0]) or name == "mcore"
        if view.based(self.ours[0]) or name not in _ENGINES or not wanted:
            return []
        return [Given(self._group, _ENGINES[name], self.ours[0])]

    def carries(self, view: View) -> bool:
        """Whether verl has the engine."""
        return view.value(self.ours[0]) in _ENGINES

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """Our name of the engine; verl's further engines have none."""
        names = {verl: name for name, verl in _ENGINES.items()}
        named = said.get(self._group)
        return {self.ours[0]: names[named]} if isinstance(named, str) and named in names else {}
