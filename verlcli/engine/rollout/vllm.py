"""Rollout engine `vllm`: vLLM in this process, with the trainer's weights, asleep while the trainer works."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from verlcli.engine.rollout._base import Rollout, Sampling
from verlcli.engine.rollout._vllm_adapter import WITH_GRAPH, VllmAdapter, adapter_arguments
from verlcli.engine.rollout._vllm_requests import sampling_arguments, to_rollout, write_skeleton
from verlcli.engine.rollout._vllm_start import check_usable, first_line, start
from verlcli.engine.rollout.stopping import StopStrings
from verlcli.engine.rollout.weights import base_weights
from verlcli.errors import ConfigError, TrainingFailedError

if TYPE_CHECKING:
    from torch import nn


class VllmRollout:
    """Generates with vLLM beside the trainer on one GPU.

    vLLM keeps a copy of the weights of its own, in `dtype`; LoRA is an adapter beside them there too. Asleep, as it
    starts, it holds neither weights nor cache; the first `generate` after a `sleep` wakes it and loads what `model`
    holds then. So the trainer must let it sleep before each update of the weights, or call `load_weights` after.

    Args:
        model: the trainer's causal language model, or its PEFT wrapper.
        tokenizer: finds stop strings.
        eos_ids: tokens that end a response.
        max_model_len: most tokens of a prompt and its response together.
        dtype: "bfloat16", "float16" or "float32".
        gpu_memory_utilization: share of the GPU's memory that vLLM may take while awake, weights included.
        max_num_batched_tokens: tokens of one forward pass.
        max_num_seqs: sequences generated at once.
        enforce_eager: no compilation and no CUDA graphs: starts in seconds, generates slower.

    Raises:
        MissingDependencyError: vLLM is absent or too old, or there is no CUDA device.
        ConfigError: several GPUs are asked for, or vLLM refuses the model, its LoRA or the memory.
    """

    name = "vllm"

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        eos_ids: Sequence[int],
        pad_id: int,
        max_model_len: int,
        dtype: str = "bfloat16",
        gpu_memory_utilization: float = 0.5,
        max_num_batched_tokens: int = 8192,
        max_num_seqs: int = 256,
        tensor_parallel_size: int = 1,
        enforce_eager: bool = False,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._device = next(model.parameters()).device
        self.eos_ids = tuple(eos_ids)
        self._pad_id = pad_id
        check_usable(self._device, tensor_parallel_size)
        for_adapter = adapter_arguments(model, dtype)
        self._adapter = VllmAdapter(model) if for_adapter else None
        with tempfile.TemporaryDirectory(prefix="verlcli-vllm-") as folder:
            write_skeleton(model, tokenizer, self.eos_ids, folder)
            self._llm = start(
                model=folder,
                load_format="dummy",  # the trainer's weights come by `load_weights`, never over the disk
                generation_config="vllm",  # a folder's own top_k and penalties must not bend the policy
                max_model_len=max_model_len,
                dtype=dtype,
                gpu_memory_utilization=gpu_memory_utilization,
                max_num_batched_tokens=max_num_batched_tokens,
                max_num_seqs=max_num_seqs,
                enforce_eager=enforce_eager,
                enable_prefix_caching=True,
                enable_sleep_mode=True,
                logprobs_mode="processed_logprobs",  # of the distribution sampled from, not of the raw logits
                **for_adapter,
            )
        self._awake, self._loaded = True, False
        if self._adapter is not None:
            self._adapter.load(self._llm)  # what vLLM cannot adapt is said before the first step
        self.sleep()

    def generate(self, prompts: Sequence[Sequence[int]], n: int, sampling: Sampling) -> Rollout:
        """Draw `n` responses for each prompt; see `RolloutEngine.generate`.

        Raises:
            ConfigError: a temperature that vLLM would change.
            TrainingFailedError: the policy diverged, vLLM gave a request up, or it cannot wake.
        """
        from vllm import SamplingParams

        if not self._loaded:
            self.load_weights(base_weights(self._model))
        # Greedy samples are equal, and vLLM refuses to draw more than one.
        distinct = n if sampling.temperature > 0 else 1
        parameters = SamplingParams(**sampling_arguments(sampling, distinct, self.eos_ids))
        requests = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        with _numpy_from_torch():
            lora = None if self._adapter is None else self._adapter.request
            outputs = self._llm.generate(requests, parameters, use_tqdm=False, lora_request=lora)
        answers = [
            answer
            for output in outputs
            for answer in sorted(output.outputs, key=lambda each: each.index)
            for _ in range(n // distinct)
        ]
        stops = StopStrings(self._decoded, sampling.stop) if sampling.stop else None
        return to_rollout(prompts, answers, pad_id=self._pad_id, device=self._device, stops=stops)

    def _decoded(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))

    def load_weights(self, stream: Iterable[tuple[str, Tensor]]) -> None:
        """Copy weights (see `base_weights`) into vLLM's own, cast to its dtype, and forget what was cached.

        With LoRA, the adapter that the trainer's module holds now comes beside them.

        Raises:
            ConfigError: vLLM's implementation of the model has other weights, or cannot adapt a layer of it.
            TrainingFailedError: cached prompts of the old weights could not be dropped, or vLLM cannot wake.
        """
        self.wake()
        bare = nullcontext() if self._adapter is None else self._adapter.taken_off(self._llm)
        try:
            with bare:
                self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": stream})
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"vLLM's implementation of this model does not take its weights: {first_line(error)}",
                where="rollout.name",
                fix=WITH_GRAPH,
            ) from error
        if self._adapter is not None:
            self._adapter.load(self._llm)
        if not self._llm.reset_prefix_cache():
            raise TrainingFailedError(
                "vLLM did not drop the cached prompts of the old weights",
                where="rollout",
                fix="go on from the last checkpoint, or set rollout.name: graph",
            )
        self._loaded = True

    def shrink(self, sequences: int) -> bool:
        """vLLM plans its own memory: there is nothing to halve."""
        return False

    def sleep(self) -> None:
        """Give the memory of weights and cache back; both are gone."""
        if self._awake:
            self._llm.sleep(level=2)
        self._awake = self._loaded = False

    def wake(self) -> None:
        """Take the memory of weights and cache again, with nothing in it yet.

        Raises:
            TrainingFailedError: the trainer left too little memory.
        """
        if self._awake:
            return
        # vLLM allocates beside torch's allocator, so what that one only keeps for later must be free.
        torch.cuda.empty_cache()
        try:
            self._llm.wake_up()
        except RuntimeError as error:
            raise TrainingFailedError(
                f"vLLM cannot have its memory again beside the trainer: {first_line(error)}",
                where="rollout.gpu_memory_utilization",
                fix="lower rollout.gpu_memory_utilization, or the trainer's micro batches",
            ) from error
        self._awake = True


@contextmanager
def _numpy_from_torch() -> Iterator[None]:
    """vLLM draws its requests' seeds from numpy or their noise from torch, as the model decides: both follow torch."""
    state = np.random.get_state()
    np.random.seed(int(torch.randint(2**32, ())))
    try:
        yield
    finally:
        np.random.set_state(state)
