"""One launch of the real verl, whatever it was read from: every Hydra key with its value and its place."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from verlcli.config.context import Context, NotKnown
from verlcli.config.problems import Place
from verlcli.config.quick import cached_property
from verlcli.config.verl.answers import Answers
from verlcli.config.verl.settings import (
    UNKNOWN,
    CommandLine,
    Prefix,
    ScriptFacts,
    Setting,
    Source,
    Variable,
    leaves,
)
from verlcli.config.wording import shown

if TYPE_CHECKING:
    from verlcli.facts import Cluster, ModelShape
    from verlcli.facts.verl import KeyTree

__all__ = ["UNKNOWN", "CommandLine", "Prefix", "ScriptFacts", "Setting", "Source", "Variable", "VerlRun"]

_Said = TypeVar("_Said")
# Entry points that run verl's own trainers; DAPO's recipe changes the sampling alone.
_OF_VERL = {"main_ppo", "fully_async", "one_step_off", "dapo", "sft", "sft_legacy"}


@dataclass(frozen=True)
class VerlRun:
    """A launch of verl.

    Attributes:
        source: what it was read from.
        tree: every key of this verl version, entry point and engine, with its default.
        settings: in the order that Hydra applies them; the last one of a key holds.
        place: of the launch itself, for what nobody wrote.
        environment: variables that the launched process gets.
        context: facts beside the text.
        directives: of the batch scheduler (`#SBATCH --nodes=2` is `nodes`).
        takes_arguments: more overrides may follow, so that any key may still change: the script hands its own arguments
            on, or words that were meant for the launch got lost.
        condition: branch of the script in which the launch stands; empty when it always runs.
        script: what stands around the launch in its script; None without one.
        entry: entry point, where several share the tree, or the module of somebody's own program; empty: the tree's.
        unseen: config file between verl's defaults and the settings that could not be read; empty without one.
        names: of a config of ours: key of verl -> key of ours that means it.
        answers: what checks said about launches beside this one.
    """

    source: Source
    tree: KeyTree
    settings: tuple[Setting, ...]
    place: Place
    environment: Mapping[str, Variable] = field(default_factory=dict)
    context: Context = field(default_factory=Context)
    directives: Mapping[str, Variable] = field(default_factory=dict)
    takes_arguments: bool = False
    condition: str = ""
    script: ScriptFacts | None = None
    entry: str = ""
    unseen: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers, compare=False, repr=False)

    @property
    def version(self) -> str:
        """Version of verl whose keys and rules hold."""
        return self.tree.version

    @property
    def engine(self) -> str:
        """Training engine of the key tree: `dp` (FSDP), `megatron`, `veomni` or `torchtitan`."""
        return self.tree.engine

    @cached_property
    def _last(self) -> dict[str, Setting]:
        last: dict[str, Setting] = {}
        for setting in self.settings:
            if setting.prefix == "~":
                last.pop(setting.key, None)
            elif isinstance(setting.value, dict):
                last.update((leaf.key, leaf) for leaf in leaves(setting))
            else:
                last[setting.key] = setting
        return last

    @cached_property
    def ground(self) -> int:
        """Number of all that it is but its settings, among the launches that share its answers."""
        others = (field.name for field in fields(self) if field.name not in ("settings", "condition", "answers"))
        return self.answers.ground((type(self), *(getattr(self, name) for name in others)))

    def once(self, check: Hashable, make: Callable[[], _Said]) -> _Said:
        """What `make` says, which asks nothing but this launch: once for all launches that answer it alike."""
        return self.answers.once(self, check, make)

    def answer(self, question: str) -> Any:
        """The setting of a key; for `section.*` those below it, for `*` all of them."""
        if question[-1:] != "*":
            return self._last.get(question)
        return self._under(question[:-1]) if question != "*" else self.settings

    def gives(self, answers: Mapping[str, Any]) -> bool:
        """Whether it gives the same answers."""
        last = self._last
        for question, answer in answers.items():
            mine = self.answer(question) if question[-1:] == "*" else last.get(question)
            if mine is not answer and mine != answer:
                return False
        return True

    def every_setting(self) -> tuple[Setting, ...]:
        """All settings in order, for a check that looks at every one; `settings` is for those who hold the launch."""
        self.answers.asked.add("*")
        return self.settings

    def setting(self, key: str) -> Setting | None:
        """The setting of `key` that holds, None when nobody set it."""
        self.answers.asked.add(key)
        return self._last.get(key)

    def is_set(self, key: str) -> bool:
        """Whether somebody set `key`."""
        return self.setting(key) is not None

    def has(self, key: str) -> bool:
        """Whether `key` exists in this verl version, or somebody set it."""
        return self.is_set(key) or self.tree.has(key)

    def under(self, section: str) -> dict[str, Setting]:
        """Settings of every key below `section`, by the rest of their names."""
        self.answers.asked.add(f"{section}.*")
        return self._under(f"{section}.")

    def _under(self, start: str) -> dict[str, Setting]:
        return {key[len(start) :]: setting for key, setting in self._last.items() if key.startswith(start)}

    def get(self, key: str) -> Any:
        """Value of `key`: the last setting, else verl's default, with its references resolved; None when there is none.

        Raises:
            NotKnown: the text does not decide it.
        """
        return self._get(key, ())

    def _get(self, key: str, seen: tuple[str, ...]) -> Any:
        self.answers.asked.add(key)
        setting = self._last.get(key)
        if setting is None and self.unseen:
            raise NotKnown(f"{self.unseen}, which may set {key}")
        raw = self.tree.defaults.get(key) if setting is None else setting.value
        if key in seen:
            return None
        if raw is UNKNOWN:
            raise NotKnown(f"{self.name(key)} ({(setting and setting.reason) or 'known at run time only'})")
        # Most values refer to nothing.
        if ("${" not in raw and raw != "???") if isinstance(raw, str) else not isinstance(raw, (list, dict)):
            return raw

        from verlcli.facts.verl.interpolation import UNRESOLVED, resolve

        def lookup(other: str) -> Any:
            return self._get(other, (*seen, key)) if self.has(other) else UNRESOLVED

        value = resolve(raw, key, lookup, self._known_environment)
        if value is UNRESOLVED:
            # `???` that nobody filled in is reported as such.
            raise NotKnown("" if raw == "???" else f"{self.name(key)}, which verl works out at run time")
        return value

    @property
    def is_of_verl(self) -> bool:
        """Whether verl's own trainers run: recipes and other people's programs bring code that may do otherwise."""
        return (self.entry or self.tree.entry).partition(":")[0] in _OF_VERL

    @cached_property
    def _known_environment(self) -> dict[str, str]:
        return {name: found.value for name, found in self.environment.items() if found.value is not None}

    def integer(self, key: str) -> int:
        """Whole number at `key`.

        Raises:
            NotKnown: it is not known, or no whole number (which is reported elsewhere).
        """
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise NotKnown
        return value

    def number(self, key: str) -> float:
        """Number at `key`; raises as `integer`."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise NotKnown
        return value

    def flag(self, key: str) -> bool:
        """Truth at `key`, None counting as False; raises as `integer`."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise NotKnown
        return bool(value)

    def text(self, key: str) -> str | None:
        """Text at `key`, or None; raises as `integer`."""
        value = self.get(key)
        if value is not None and not isinstance(value, str):
            raise NotKnown
        return value

    def name(self, key: str) -> str:
        """`key` as the user of this input writes it: verl's own spelling, or the key of ours that it came from."""
        setting = self.setting(key)
        if setting is not None:
            return setting.written or key
        return self.names.get(key, f"verl.{key}") if self.source == "config" else key

    def shown(self, key: str) -> str:
        """`key=value` for a sentence, with `(verl's default)` behind what nobody set."""
        try:
            value = shown(self.get(key))
        except NotKnown:
            value = "?"
        text = f"{self.name(key)}={value}"
        return text if self.is_set(key) else f"{text} (verl's default)"

    def value_place(self, key: str) -> Place:
        """Where the value of `key` was written; without a file when nobody set it."""
        setting = self.setting(key)
        return setting.value_place if setting else Place(origin=f"verl {self.version} default")

    @property
    def cluster(self) -> Cluster:
        """The cluster it is going to run on.

        Raises:
            NotKnown: nobody named it.
        """
        if self.context.cluster is None:
            raise NotKnown("the cluster: add --cluster 8xA100-80G,nodes=1,cpus=64,ram=512G")
        return self.context.cluster

    def shape(self, key: str = "actor_rollout_ref.model.path") -> ModelShape:
        """Shape of the model whose path stands at `key`.

        Raises:
            NotKnown: neither its folder, nor the hub cache, nor the table of known models tells it.
        """
        from verlcli.facts import model_shape

        path = self.text(key)
        found = self.once(("shape", path), lambda: model_shape(path)) if path else None
        if found is None:
            raise NotKnown(f"the config.json of {path or 'the model'}, which is not on this machine")
        return found

    @property
    def gpus(self) -> int:
        """GPUs of the trainer: nodes × GPUs a node; raises as `integer`."""
        nodes, per_node = self.integer("trainer.nnodes"), self.integer("trainer.n_gpus_per_node")
        if nodes < 1 or per_node < 1:
            raise NotKnown
        return nodes * per_node
