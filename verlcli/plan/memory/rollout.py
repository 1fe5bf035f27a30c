"""What generation holds beside the trainer's states: the cache, by the decode loop's own rule, and a step's work."""

from __future__ import annotations

import math
from dataclasses import dataclass

from verlcli.config.types import Config
from verlcli.facts import ModelShape
from verlcli.facts.parameters import parameter_counts
from verlcli.plan.memory.activations import LayerRun, forward_bytes
from verlcli.plan.memory.types import Part
from verlcli.plan.types import BatchPlan

MOST_ROWS, HEADROOM, PREFILL_TOKENS = 1024, 2**29, 32768  # of the decode loop on a GPU
FIRST_TOKENS = 512  # sequences whose first token is drawn at once
# fp32 tensors of the logits' size while top-k or top-p is applied: sorted, order (8 bytes), sums, ...
FILTER_COPIES = 7
DRAW_COPIES = 6  # likewise for drawing without kernels, half of them in fp64
CACHE_KEYS = ("rollout.batch_size", "data.max_response_length", "rollout.cpu_offload", "rollout.gpu_memory_utilization")


def prefill_numbers(shape: ModelShape) -> int:
    """Numbers a token that the decode loop leaves room for while it reads prompts."""
    heads = shape.num_attention_heads + shape.num_key_value_heads
    return 4 * shape.hidden_size + 4 * heads * shape.head_dim + 3 * shape.intermediate_size


@dataclass(frozen=True, slots=True)
class Generation:
    """The rollout of one step.

    Attributes:
        free: bytes that the device has left for it; None: not known.
        capacity: bytes of the device; None: not known.
        adapted: names of the layers whose merged weights it needs.
    """

    config: Config
    batch: BatchPlan
    run: LayerRun
    free: int | None
    capacity: int | None
    adapted: frozenset[str]

    def parts(self, engine: str, *, gpu: bool) -> list[Part]:
        """What `engine` holds at its worst moment."""
        if engine == "vllm":
            return self._vllm()
        if engine == "graph" and gpu:
            return [*self._merged(), *self._pool()]
        return [*(self._merged() if engine == "graph" else []), *self._plain(shared=engine == "graph")]

    def _vllm(self) -> list[Part]:
        """A copy of the weights; the rest of its share is cache."""
        weights = (self.run.shape.params or 0) * self.run.width
        keys = ("rollout.gpu_memory_utilization",)
        copy = Part("rollout", "weights", weights, "vLLM's own copy", ())
        rollout = self.config.rollout
        if self.capacity is None:
            tokens = rollout.max_num_seqs * self._longest
            equation = f"{rollout.max_num_seqs} sequences x {self._longest} tokens x {self._token_bytes} bytes"
            return [copy, Part("rollout", "kv cache", tokens * self._token_bytes, equation, keys)]
        share = int(rollout.gpu_memory_utilization * self.capacity)
        equation = f"{rollout.gpu_memory_utilization:g} of the GPU, less vLLM's weights"
        return [copy, Part("rollout", "kv cache", max(0, share - weights), equation, keys)]

    @property
    def _most(self) -> int:
        """Rows that are wanted."""
        sequences = self.batch.prompts * self.batch.samples_per_prompt
        return min(sequences, self.config.rollout.batch_size or sequences, MOST_ROWS)

    def rows(self, engine: str, *, gpu: bool) -> int:
        """Sequences that `engine` generates at once."""
        if engine == "vllm":
            return min(self.batch.sequences, self.config.rollout.max_num_seqs)
        if engine != "graph" or not gpu:
            return min(self.batch.sequences, self.config.rollout.batch_size or self.batch.sequences)
        prompts, prompt, response = self.batch.prompts, self.config.data.max_prompt_length, self._response
        fitting = self._fitting()
        if fitting is None:
            return self._most
        if prompts * (prompt + self.batch.samples_per_prompt * response) > fitting:  # prompts come in turns
            prompts = max(1, min(prompts, min(fitting // 2, fitting - response) // prompt))
        return max(1, min(self._most, (fitting - prompts * prompt) // response))

    def refusal(self, engine: str) -> str:
        """Why generation cannot run at all; empty where it can."""
        share = self.config.rollout.gpu_memory_utilization
        if engine == "vllm" and self.capacity is not None:
            weights = (self.run.shape.params or 0) * self.run.width
            if weights + self._longest * self._token_bytes > share * self.capacity:
                return f"vLLM's weights and one sequence do not fit in rollout.gpu_memory_utilization {share:g}"
        fitting = self._fitting() if engine == "graph" else None
        if fitting is not None and fitting < self._longest:
            share_key = f"rollout.gpu_memory_utilization {share:g}"
            return f"one sequence of {self._longest} tokens does not fit in the cache ({share_key})"
        return ""

    def graph_bytes(self) -> int:
        """Temporaries of a step, which the pool of its CUDA graph keeps."""
        return self._most * self._logits_bytes + int(self._most * forward_bytes(self.run))

    def _pool(self) -> list[Part]:
        """The decode loop of a GPU: prompts once, a slot a row."""
        prompts, prompt, most = self.batch.prompts, self.config.data.max_prompt_length, self._most
        prompt_tokens, each = prompts * prompt, self._on_device
        wanted = prompt_tokens + most * self._response
        tokens = wanted + prompt_tokens // 4  # room for a step whose prompts are longer
        numbers = f"{prompts} prompts x {prompt} + {most} rows x {self._response} tokens"
        why = f"({numbers}) x {each} bytes, and 1/4 of the prompts"
        fitting = self._fitting()
        if fitting is not None and fitting < tokens:
            tokens = max(fitting, self._longest)
            why = f"{tokens} of {wanted} tokens wanted x {each} bytes: what is surely left, so fewer rows at once"
        prefill = Part(
            "rollout",
            "working set",
            int(min(PREFILL_TOKENS, prompt_tokens) * forward_bytes(self.run)),
            f"{min(PREFILL_TOKENS, prompt_tokens)} tokens of prompts at once",
            ("data.max_prompt_length",),
        )
        rows = min(FIRST_TOKENS, most)
        first = Part("rollout", "logits", rows * self._logits_bytes, f"{rows} first tokens", ("rollout.batch_size",))
        step = Part("rollout", "graphs", self.graph_bytes(), f"a step of {most} rows", ("rollout.batch_size",))
        cache = Part("rollout", "kv cache", tokens * each, why, CACHE_KEYS)
        return [cache, max(prefill, first, step, key=lambda part: part.bytes)]

    def _plain(self, *, shared: bool) -> list[Part]:
        """The loop without graphs, and transformers' own: each row has its prompt and its response in the cache.

        `shared`: a prompt is read once for its samples.
        """
        sequences = self.batch.sequences
        rows = min(sequences, self.config.rollout.batch_size or sequences)
        # One layer at a time is copied when rows leave or columns come.
        tokens = rows * self._longest
        layers = self.run.shape.num_hidden_layers
        cache = math.ceil(tokens * self._token_bytes * (layers + 1) / layers)
        equation = f"{rows} rows x {self._longest} tokens x {self._token_bytes} bytes, one of {layers} layers twice"
        logits = rows * self.run.shape.vocab_size * 4 * DRAW_COPIES
        read = math.ceil(rows / self.batch.samples_per_prompt) if shared else rows
        prompts = read * self.config.data.max_prompt_length
        work = [
            Part("rollout", "logits", logits, f"{rows} rows, {DRAW_COPIES} times in fp32", ("rollout.batch_size",)),
            Part(
                "rollout",
                "working set",
                int(prompts * forward_bytes(self.run)),
                f"a layer over {prompts} tokens of prompts",
                ("rollout.batch_size", "data.max_prompt_length"),
            ),
        ]
        return [
            Part("rollout", "kv cache", cache, equation, ("rollout.batch_size", "data.max_response_length")),
            max(work, key=lambda part: part.bytes),
        ]

    def _merged(self) -> list[Part]:
        counts = parameter_counts(self.run.shape)
        if counts is None or not self.adapted:
            return []
        numbers = sum(x.count * x.inputs * x.outputs for x in counts.linears if x.module and x.name in self.adapted)
        equation = f"{numbers / 1e6:.1f}M x {self.run.width} bytes: adapted layers with their adapter in them"
        return [Part("rollout", "merged adapters", numbers * self.run.width, equation, ("model.lora_target_modules",))]

    def _fitting(self) -> int | None:
        """Tokens that fit, by the decode loop's own rule."""
        if self.free is None or self.capacity is None:
            return None
        merged = sum(part.bytes for part in self._merged())
        room = min(self.free - merged, int(self.config.rollout.gpu_memory_utilization * self.capacity))
        shape, prompts = self.run.shape, self.batch.prompts * self.config.data.max_prompt_length
        work = max(
            min(prompts, PREFILL_TOKENS) * prefill_numbers(shape) * self.run.width,
            2 * 4 * self._most * shape.vocab_size,
        )
        return max(0, room - HEADROOM - work) // max(1, self._on_device)

    @property
    def _logits_bytes(self) -> int:
        """Of one row."""
        rollout = self.config.rollout
        filters = rollout.temperature > 0 and (rollout.top_k > 0 or rollout.top_p < 1)
        return 4 * self.run.shape.vocab_size * (FILTER_COPIES if filters else 1)

    @property
    def _longest(self) -> int:
        return self.config.data.max_prompt_length + self.config.data.max_response_length

    @property
    def _response(self) -> int:
        return self.config.data.max_response_length

    @property
    def _token_bytes(self) -> int:
        return self.run.shape.kv_numbers_per_token * self.run.width

    @property
    def _on_device(self) -> int:
        """Bytes of a token in the layers whose cache is not in host memory."""
        rollout, layers = self.config.rollout, self.run.shape.num_hidden_layers
        host = math.ceil(rollout.cpu_offload_ratio * layers) if rollout.cpu_offload else 0
        return self._token_bytes * (layers - host) // layers
