"""Whether vLLM can run here, and its start in this process."""

from __future__ import annotations

import logging
import os
from importlib import metadata
from typing import Any

import torch
from packaging.version import Version

from verlcli.errors import ConfigError, MissingDependencyError

OLDEST = "0.24"  # the first version whose weights are known to be reloaded in place from a stream
ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}  # the user's own values win
QUIET = (
    "vllm.model_executor.model_loader.reload.layerwise",  # layers without weights of their own, at each reload
    "vllm.v1.engine.input_processor",  # an adapter brings no tokenizer of its own
    "vllm.lora.ops.triton_ops.utils",  # no kernels were tuned for this GPU
)


def check_usable(device: torch.device, tensor_parallel_size: int = 1) -> None:
    """Whether vLLM can run here, beside the trainer.

    Raises:
        MissingDependencyError: vLLM is absent or too old, or `device` is no CUDA device.
        ConfigError: more than one GPU, or another than the first.
    """
    if tensor_parallel_size != 1:
        raise ConfigError(
            f"the vllm engine shares one GPU with the trainer, {tensor_parallel_size} are asked for",
            where="rollout.tensor_model_parallel_size",
            fix="set rollout.tensor_model_parallel_size: 1, or backend: verl for tensor parallelism",
        )
    try:
        version = metadata.version("vllm")
    except metadata.PackageNotFoundError:
        raise MissingDependencyError(
            "vLLM is not installed",
            where="rollout.name",
            fix=f"pip install 'vllm>={OLDEST}', or set rollout.name: graph",
        ) from None
    if Version(version) < Version(OLDEST):
        raise MissingDependencyError(
            f"vLLM {version} is too old",
            where="rollout.name",
            fix=f"pip install 'vllm>={OLDEST}', or set rollout.name: graph",
        )
    if device.type != "cuda":
        raise MissingDependencyError(
            f"the vllm engine needs a CUDA device, the trainer is on {device}",
            where="rollout.name",
            fix="set rollout.name: graph, which runs everywhere",
        )
    if device.index not in (None, 0):
        raise ConfigError(
            f"the vllm engine runs on the first visible GPU, the trainer is on {device}",
            where="rollout.name",
            fix=f"start the run with CUDA_VISIBLE_DEVICES={device.index}",
        )


def start(**arguments: Any) -> Any:
    """A `vllm.LLM` on one GPU, in this process.

    Raises:
        ConfigError: vLLM refuses the model or the memory.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # weights are handed over as tensors of this process
    from vllm import LLM

    for name in QUIET:  # what they warn of is as it should be
        logging.getLogger(name).setLevel(logging.ERROR)
    precision = torch.get_float32_matmul_precision()  # vLLM sets its own for the whole process
    try:
        return LLM(tensor_parallel_size=1, **arguments)
    except (ValueError, RuntimeError) as error:
        memory = "memory" in str(error).lower()
        raise ConfigError(
            f"vLLM does not start: {first_line(error)}",
            where="rollout.gpu_memory_utilization" if memory else "rollout.name",
            fix="change rollout.gpu_memory_utilization, or the lengths in data"
            if memory
            else "set rollout.name: graph, which runs any model the trainer trains",
        ) from error
    finally:
        torch.set_float32_matmul_precision(precision)


def first_line(error: BaseException) -> str:
    """What `error` says, without the lines that explain it."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
