"""One role's passes over a micro batch: without gradients, forward, backward; beside what it holds anyway."""

from __future__ import annotations

from dataclasses import dataclass

from verlcli.config.types import Config
from verlcli.plan.memory.activations import (
    Recompute,
    backward_bytes,
    forward_bytes,
    kept_tensors,
    last_forward_bytes,
    last_norm_bytes,
    layers_bytes,
    rotary_bytes,
)
from verlcli.plan.memory.batch import MicroBatch, micro_batch
from verlcli.plan.memory.head import CPU_COPIES, HeadRun, ValueHead, chunk_and_kept
from verlcli.plan.memory.models import Model, recompute_of, shares_actor
from verlcli.plan.memory.types import Component, Part
from verlcli.plan.types import BatchPlan

ASSUMED_GPU_BYTES = 80 * 2**30  # which decides how many probabilities are kept, where the GPU is not known
ACTIVATION_KEYS = ("training.max_token_len_per_gpu", "training.recompute", "data.max_response_length")
HEAD_KEYS = ("training.max_token_len_per_gpu", "training.recompute")


@dataclass(frozen=True, slots=True)
class Passes:
    """Of one role's model on one device.

    Attributes:
        micro: the largest micro batch of an update; None: the config and the plan say.
    """

    role: str
    model: Model
    config: Config
    batch: BatchPlan
    device: str
    capacity: int | None
    micro: MicroBatch | None = None

    def inference(self, *, budget: int | None = None) -> list[Part]:
        """Largest set of parts of a pass without gradients: in a layer, or in the head.

        Args:
            budget: tokens of a forward pass; None: those of a micro batch.
        """
        run, shape = self.model.run, self.model.shape
        micro = micro_batch(self.config, self.batch, self.batch.sequences_per_rank)
        whole = self.batch.sequences_per_rank * self._longest
        tokens = micro.tokens if budget is None else max(self._longest, min(budget, whole))
        equation = micro.equation if budget is None else f"{tokens} tokens"
        layer = self._part("working set", tokens * forward_bytes(run), f"a layer over {equation}", HEAD_KEYS[:1])
        if self.role in ("critic", "reward_model"):
            return [layer]
        # The reference's chunks are large whatever the update saves.
        saving = self.role == "actor" and self._recompute != "none" and not shares_actor(self.config)
        head = self._head(micro.predicted, saving=saving)
        states = (tokens + micro.predicted) * shape.hidden_size * run.width
        hidden = self._part("working set", states, "last hidden states", HEAD_KEYS[:1])
        chunk = self._part("logits", head.chunk(), "a chunk of logits in fp32", ())
        return max([layer], [hidden, chunk], key=_bytes)

    def forward(self) -> list[Part]:
        """At the end of the forward pass: what is kept, and the work of the head or of the last layer."""
        micro, run = self._update, self.model.run
        head = self._training_head(micro)
        logits = self._part("logits", head.forward(), "logits of a chunk, probabilities kept", HEAD_KEYS)
        each = last_forward_bytes(run) if self._recompute == "none" else forward_bytes(run)
        layer = self._part("working set", micro.tokens * each, "a layer", HEAD_KEYS[:1])
        gradients = [self.model.states.gradient_part()] if micro.several else []
        return [*gradients, self._activations(micro), max(logits, layer, key=lambda part: part.bytes)]

    def backward(self) -> list[Part]:
        """The worst moment of the backward pass: in the head, in the last layer, or where all gradients are there."""
        micro, run, states = self._update, self.model.run, self.model.states
        head = self._training_head(micro)
        gradients = [states.gradient_part()] if micro.several else []
        kept, of_layers = self._activations(micro), self._activations(micro, layers_alone=True)
        logits = self._part("logits", head.backward(), "logits of a chunk, the head's gradient", HEAD_KEYS)
        work = micro.tokens * backward_bytes(run, self._recompute) + self._waiting(head, several=micro.several)
        if run.adapted is None:
            work += run.mlp_width * self.model.shape.hidden_size * run.width  # gradient of one weight
        layer = self._part("working set", work, "gradients of a layer's tensors and of the head", ACTIVATION_KEYS)
        last = self._part("activations", self._one_layer(micro), "one layer's", ACTIVATION_KEYS)
        embedding = self._part("working set", 2 * head.gradient(), "gradients of the embedding and of the head", ())
        at_the_end = [states.gradient_part(), *max([last, layer], [embedding], key=_bytes)]
        return max(
            [*gradients, kept, logits],
            [*gradients, of_layers, layer],
            at_the_end,
            key=_bytes,
        )

    @property
    def _update(self) -> MicroBatch:
        return self.micro or micro_batch(self.config, self.batch, self.batch.mini_batch_sequences_per_rank)

    @property
    def _recompute(self) -> Recompute:
        return recompute_of(self.config)

    @property
    def _longest(self) -> int:
        return self.config.data.max_prompt_length + self.config.data.max_response_length

    def _activations(self, micro: MicroBatch, *, layers_alone: bool = False) -> Part:
        """What is kept for the backward pass; with `layers_alone`, once last norm and head are through."""
        run = self.model.run
        each = layers_bytes(run, self._recompute, offloads=self.device != "cpu") + rotary_bytes(run)
        size = micro.tokens * each
        if not layers_alone:
            size += micro.tokens * last_norm_bytes(run) + self._training_head(micro).saved()
        equation = f"{micro.equation} x {each / 1024:.1f} KiB in {self.model.shape.num_hidden_layers} layers"
        equation += f" ({run.kernels}, recompute {self._recompute}){'' if layers_alone else ', and the head input'}"
        return self._part("activations", size, equation, ACTIVATION_KEYS)

    def _one_layer(self, micro: MicroBatch) -> float:
        """Bytes that are still kept when the first layer's turn comes."""
        if self._recompute != "none":
            return micro.tokens * self.model.shape.hidden_size * self.model.run.width
        return micro.tokens * sum(kept_tensors(self.model.run, experts=self.model.shape.moe_layers > 0).values())

    def _waiting(self, head: HeadRun | ValueHead, *, several: bool) -> int:
        """Bytes of the head's gradient in the layers' backward pass: a tied weight's waits for the embedding's, any
        other has joined the sum."""
        if self.model.shape.tie_word_embeddings:
            return head.gradient()
        return 0 if several else head.gradient() * self.model.states.gradient_bytes // self.model.run.width

    def _training_head(self, micro: MicroBatch) -> HeadRun | ValueHead:
        if self.role == "critic":
            return ValueHead(micro.predicted, self.model.shape.hidden_size, self.model.run.width)
        return self._head(micro.predicted, saving=self._recompute != "none")

    def _head(self, tokens: int, *, saving: bool) -> HeadRun:
        gpu_bytes = None if self.device == "cpu" else self.capacity or ASSUMED_GPU_BYTES
        chunk, kept = chunk_and_kept(saving=saving, gpu_bytes=gpu_bytes)
        shape, run = self.model.shape, self.model.run
        copies = CPU_COPIES if self.device == "cpu" else 1.0
        return HeadRun(tokens, shape.hidden_size, shape.vocab_size, run.width, run.adapted is None, chunk, kept, copies)

    def _part(self, component: Component, size: float, equation: str, keys: tuple[str, ...]) -> Part:
        return Part(self.role, component, int(size), equation, keys)


def _bytes(parts: list[Part]) -> int:
    return sum(part.bytes for part in parts)
