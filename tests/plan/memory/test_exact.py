"""The model against the real trainer: bytes of all tensors that live during an update, on a CPU."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from verlcli.config import Loaded
from verlcli.engine.batch import Batch
from verlcli.engine.models import TORCH_DTYPES, add_lora, build_value_model
from verlcli.engine.training import TorchEngine, policy_forward, value_forward
from verlcli.engine.training.linear_logprob import head_memory
from verlcli.facts import shape_from_config
from verlcli.plan import Machine, Plan
from verlcli.plan.memory.models import models_on
from verlcli.plan.memory.passes import Passes
from verlcli.plan.memory.types import Part

Load = Callable[..., Loaded]
PlanOf = Callable[..., Plan]

PROMPT, RESPONSE, SEQUENCES = 48, 80, 8
SIZES: dict[str, dict[str, Any]] = {
    "Llama": {"hidden_size": 64, "intermediate_size": 176, "num_attention_heads": 4, "head_dim": 16},
    "Qwen3": {"hidden_size": 96, "intermediate_size": 128, "num_attention_heads": 4, "head_dim": 32},
    "Qwen2": {"hidden_size": 64, "intermediate_size": 320, "num_attention_heads": 2},
}
EXPERTS = {"moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2}
SIZES["Qwen3Moe"] = SIZES["Qwen3"] | EXPERTS
TYPES = {"Qwen3Moe": "qwen3_moe"}
COMMON = {"vocab_size": 199, "num_hidden_layers": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
QV = ("model.lora_rank=4", "model.lora_target_modules=[q_proj, v_proj]")
ALL = ("model.lora_rank=4", "model.lora_target_modules=all-linear")


class LiveBytes(TorchDispatchMode):
    """Storages that operators return, from their making to their end; what a C++ kernel takes and gives back inside of
    one operator is not seen."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()
        for module in modules:
            for tensor in (*module.parameters(), *module.buffers()):
                self._meet(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._meet(leaf)
        return out

    def _meet(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._part, key, size).atexit = False

    def _part(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


@dataclass
class Traced:
    """Bytes of the second update, when moments exist."""

    weights: int
    optimizer: int
    gradients: int = 0
    activations: int = 0
    peak: int = 0
    inference: int = 0  # beside what is held, in a pass without gradients


def trace(role: str, kind: str, loaded: Loaded) -> Traced:
    config = loaded.config
    torch.manual_seed(0)
    model_config = getattr(transformers, f"{kind}Config")(**COMMON, **SIZES[kind], **tied(kind))
    dtype = TORCH_DTYPES[config.model.dtype]
    language_model: Any = getattr(transformers, f"{kind}ForCausalLM")(model_config).to(dtype).eval()
    module: nn.Module
    if role == "critic":
        module = build_value_model(language_model, config.model)
        forward = value_forward(module)
        del language_model
    else:
        module = language_model if not config.model.lora_rank else add_lora(language_model, config.model)
        saving = config.training.recompute != "none"
        forward = policy_forward(module, 1.0, **head_memory(torch.device("cpu"), saving=saving))
    engine = TorchEngine(
        module,
        forward,
        optim=config.actor.optim,
        recompute=config.training.recompute or "none",
        tokens=config.training.max_token_len_per_gpu,
        sequences=SEQUENCES,
    )
    live, own, start = LiveBytes(module), engine._forward, 0
    found = Traced(weights=sum(p.numel() * p.element_size() for p in module.parameters()), optimizer=0)

    def marked(*args: Any) -> Any:
        nonlocal start
        start = live.now
        return own(*args)

    def loss(out: Any, micro: Batch) -> Any:
        found.activations = live.now - start
        logprobs = out[0] if isinstance(out, tuple) else out
        return (logprobs * micro.advantages).sum(), {}

    engine._forward = marked
    assert engine.optimizer is not None
    step = engine.optimizer.step

    def stepped(lr: float) -> None:
        masters = engine.optimizer._masters.values()  # type: ignore[union-attr]
        found.gradients = sum(p.grad.numel() * p.grad.element_size() for p in masters if p.grad is not None)
        step(lr)

    engine.optimizer.step = stepped  # type: ignore[method-assign]
    batch = full_batch()
    with live:
        micro_batches = engine.plan_micro_batches(batch)
        base = live.peak = live.now
        engine.infer(micro_batches, width=RESPONSE)
        found.inference = live.peak - base
        del micro_batches
        for _ in range(2):
            live.peak = live.now
            assert engine.update(engine.plan_micro_batches(batch), loss, lr=1e-3).applied
    found.optimizer = sum(v.numel() * v.element_size() for v in engine.optimizer_state().values() if v.dim() > 0)
    found.peak = live.peak
    return found


def full_batch() -> Batch:
    """All sequences as long as the config allows."""
    ids = torch.randint(3, 190, (SEQUENCES, PROMPT + RESPONSE))
    return Batch(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        response_mask=torch.ones(SEQUENCES, RESPONSE, dtype=torch.bool),
        groups=torch.arange(SEQUENCES),
        advantages=torch.randn(SEQUENCES, RESPONSE),
    )


def predict(role: str, kind: str, load: Load, plan_of: PlanOf, cpu: Machine, overrides: tuple[str, ...]) -> Passes:
    shape = shape_from_config(
        {**COMMON, **SIZES[kind], "model_type": TYPES.get(kind, kind.lower()), **tied(kind)}, "test"
    )
    config, plan = load(*overrides).config, plan_of(cpu, *overrides)
    models = models_on("cpu", config, plan, {"actor": shape, "critic": shape}, "eager")
    assert models is not None
    return Passes(role, models[role], config, plan.batch, "cpu", None)


def tied(kind: str) -> dict[str, bool]:
    return {"tie_word_embeddings": kind == "Qwen2"}


def bytes_of(parts: list[Part], component: str | None = None) -> int:
    return sum(part.bytes for part in parts if component in (None, part.component))


def overrides_of(*more: str) -> tuple[str, ...]:
    return (
        f"data.max_prompt_length={PROMPT}",
        f"data.max_response_length={RESPONSE}",
        "data.train_batch_size=4",
        "rollout.n=2",
        "algorithm.kl_coef=0",
        "training.recompute=none",
        "model.dtype=fp32",
        *more,
    )


CASES = [
    ("actor", "Llama", ()),
    ("actor", "Qwen3", ()),
    ("actor", "Qwen2", ()),
    ("actor", "Llama", ("training.recompute=full",)),
    ("actor", "Qwen3", ("training.recompute=full",)),
    ("actor", "Llama", ("training.recompute=selective",)),
    ("actor", "Qwen3", ("training.recompute=selective",)),
    ("actor", "Llama", QV),
    ("actor", "Qwen3", ALL),
    ("actor", "Llama", ("training.recompute=full", *ALL)),
    ("actor", "Qwen3", ("training.recompute=selective", *QV)),
    ("actor", "Llama", ("model.dtype=bf16",)),
    ("actor", "Qwen3", ("model.dtype=bf16", "actor.optim.master_dtype=bf16")),
    ("actor", "Qwen2", ("model.dtype=bf16", *ALL)),
    ("actor", "Qwen3Moe", ()),
    ("actor", "Qwen3Moe", ("training.recompute=full",)),
    ("actor", "Llama", ("training.max_token_len_per_gpu=512",)),
    ("critic", "Llama", ("algorithm.name=ppo",)),
    ("critic", "Qwen3", ("algorithm.name=ppo", *QV)),
]


@pytest.mark.parametrize(("role", "kind", "more"), CASES)
def test_predicted_bytes_are_those_of_the_trainer(
    load: Load, plan_of: PlanOf, cpu: Machine, role: str, kind: str, more: tuple[str, ...]
) -> None:
    overrides = overrides_of(*more)
    loaded = load(*overrides)
    traced, passes = trace(role, kind, loaded), predict(role, kind, load, plan_of, cpu, overrides)
    held = passes.model.states.held(updated=True)
    assert bytes_of(held, "weights") == traced.weights
    assert bytes_of(held, "optimizer") == traced.optimizer
    assert passes.model.states.gradient_part().bytes == traced.gradients
    kept = bytes_of(passes.forward(), "activations") + probabilities(role, loaded)
    assert kept == pytest.approx(traced.activations, rel=0.01)
    peak = bytes_of(held) + max(bytes_of(passes.forward()), bytes_of(passes.backward()))
    assert 0.97 < peak / traced.peak < 1.08
    assert 0.85 < bytes_of(passes.inference()) / traced.inference < 1.15


def probabilities(role: str, loaded: Loaded) -> int:
    """Bytes that the policy's head keeps, which are counted with its logits: here there is room for all."""
    if role == "critic" or loaded.config.training.recompute != "none":
        return 0
    tokens = min(SEQUENCES * RESPONSE, loaded.config.training.max_token_len_per_gpu * RESPONSE // (PROMPT + RESPONSE))
    return tokens * COMMON["vocab_size"] * (4 if loaded.config.model.dtype == "fp32" else 2)
