"""Builds the roles of a run (actor, rollout, critic, reference, reward) from the plan, fresh or from a checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from verlcli.engine import models
from verlcli.engine.models import hugging_face
from verlcli.engine.prompts import check_vocabulary
from verlcli.engine.randomness import seed_all
from verlcli.engine.rewards.model import RewardModel
from verlcli.engine.rollout import RolloutEngine, build_rollout
from verlcli.engine.rollout.room import generate_with_room
from verlcli.engine.training import TorchEngine, policy_forward, value_forward
from verlcli.engine.training.linear_logprob import head_memory
from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from verlcli.config.types import Config, OptimConfig
    from verlcli.engine.batch import Batch
    from verlcli.engine.packing import Packed
    from verlcli.engine.rewards import Rewarder
    from verlcli.engine.rollout import Rollout, Sampling
    from verlcli.engine.training.blocks import Recompute
    from verlcli.engine.training.forwards import Forward
    from verlcli.plan.types import Plan, RolePlan

MakeEngine = Callable[..., TorchEngine]
"""(module, its forward pass, optim=) -> its training engine."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Everything that computes in a step. `reference` shares the actor's module under LoRA."""

    tokenizer: Any
    actor: TorchEngine
    rollout: RolloutEngine
    critic: TorchEngine | None
    reference: TorchEngine | None
    reward_model: RewardModel | None
    rewarder: Rewarder | None
    lora: bool
    on_notice: Callable[[str], None] = warnings.warn

    def generate(self, prompts: Sequence[Sequence[int]], n: int, sampling: Sampling) -> Rollout:
        """`n` responses for each prompt; see `generate_with_room`."""
        return generate_with_room(self.rollout, prompts, n, sampling, on_notice=self.on_notice)

    def save(self, folder: Path) -> None:
        """Weights and optimizer states as safetensors: `actor/` in Hugging Face (or PEFT) format."""
        # Adapters never resize the vocabulary; peft would look for the base's config to find out.
        _save_hf(
            self.actor.module,
            self.tokenizer,
            folder / "actor",
            **({"save_embedding_layers": False} if self.lora else {}),
        )
        _save_tensors(self.actor.optimizer_state(), folder / "actor_optimizer.safetensors")
        if self.critic is not None:
            _save_tensors(self.critic.state_dict(), folder / "critic.safetensors")
            _save_tensors(self.critic.optimizer_state(), folder / "critic_optimizer.safetensors")

    def load(self, folder: Path) -> None:
        """Inverse of `save`, into the storage that actor and rollout share."""
        self._load_actor(folder / "actor")
        self.actor.load_optimizer_state(_load_tensors(folder / "actor_optimizer.safetensors"))
        if self.critic is not None:
            self.critic.load_state_dict(_load_tensors(folder / "critic.safetensors"))
            self.critic.load_optimizer_state(_load_tensors(folder / "critic_optimizer.safetensors"))

    def _load_actor(self, folder: Path) -> None:
        module: Any = self.actor.module
        if self.lora:
            from peft import set_peft_model_state_dict

            set_peft_model_state_dict(module, _load_tensors(folder / "adapter_model.safetensors"))
            return
        # Through the loader of its class: the names in the file may differ from those of the parameters.
        saved = type(module).from_pretrained(folder, dtype=next(module.parameters()).dtype)
        self.actor.load_state_dict(dict(saved.named_parameters()))

    def export_merged(self, folder: Path) -> Path:
        """The policy of a LoRA run as a plain Hugging Face folder, the adapter merged into its base."""
        module: Any = self.actor.module
        module.merge_adapter()
        try:
            module.get_base_model().save_pretrained(folder, state_dict=_merged_state(module))
        finally:
            module.unmerge_adapter()
        self.tokenizer.save_pretrained(folder)
        return folder


def load_run_tokenizer(config: Config) -> Any:
    """The policy's tokenizer."""
    source = models.locate(_required_path(config))
    return models.load_tokenizer(source, trust_remote_code=config.model.trust_remote_code)


def build_roles(
    config: Config,
    plan: Plan,
    tokenizer: Any,
    rewarder: Rewarder | None,
    *,
    steps: int | None = None,
    on_notice: Callable[[str], None] = warnings.warn,
) -> Roles:
    """Load all models onto their devices; `on_notice` is told of slower paths that had to be taken.

    `steps` are those that the run has still to make; None: all of the plan's.

    Raises:
        ConfigError, MissingDependencyError: see `models.locate` and the loaders.
    """
    if plan.device == "cuda":
        # cuDNN's attention returns NaN gradients for masked batches of some widths (seen at 64, torch 2.11, H200).
        torch.backends.cuda.enable_cudnn_sdp(False)
    source = models.locate(_required_path(config))
    seed_all(config.trainer.seed, 0, "init/actor")
    actor_module: Any = _actor_module(config, _role(plan, "actor"), source)
    _check_positions(actor_module, config)
    lora = config.model.lora_rank > 0
    make_engine = _engines(config, plan, plan.total_steps if steps is None else steps, on_notice)
    device = _device(_role(plan, "actor"))
    actor = make_engine(
        actor_module,
        policy_forward(
            actor_module,
            config.rollout.temperature,
            entropy_gradient=config.algorithm.entropy_coef != 0,
            **head_memory(device, saving=_recompute(config) != "none"),
        ),
        optim=config.actor.optim,
    )
    check_vocabulary(tokenizer, actor_module.get_input_embeddings().weight.shape[0])
    rollout = build_rollout(
        _role(plan, "rollout"),
        actor_module,
        config,
        eos_ids=_eos_ids(actor_module, tokenizer),
        tokenizer=tokenizer,
        on_notice=on_notice,
    )
    return Roles(
        tokenizer=tokenizer,
        actor=actor,
        rollout=rollout,
        critic=_critic(config, plan, make_engine),
        reference=_reference(config, plan, actor, source, make_engine),
        reward_model=_reward_model(config, plan, on_notice),
        rewarder=rewarder,
        lora=lora,
        on_notice=on_notice,
    )


def _required_path(config: Config) -> str:
    if config.model.path is None:
        raise ConfigError("training needs weights", where="model.path", fix="set model.path (model.shape only plans)")
    return config.model.path


def _check_positions(module: Any, config: Config) -> None:
    """A sequence longer than the model's positions fails deep in a kernel, or silently extrapolates."""
    limit = getattr(module.config.get_text_config(), "max_position_embeddings", None)
    longest = config.data.max_prompt_length + config.data.max_response_length
    if limit is not None and longest > limit:
        raise ConfigError(
            f"data.max_prompt_length + data.max_response_length = {longest} tokens, the model has {limit} positions",
            where="data.max_response_length",
            fix=f"lower the two to {limit} in all, or take a model with a longer context",
        )


def _role(plan: Plan, name: str) -> RolePlan:
    role = plan.role(name)
    assert role is not None, f"the plan has no {name}"
    return role


def _device(role: RolePlan) -> torch.device:
    return torch.device(role.devices[0])


def _recompute(config: Config) -> Recompute:
    """`training.recompute`, which the older switches stand in for where it is not set."""
    if config.training.recompute is not None:
        return config.training.recompute
    return "full" if config.model.enable_gradient_checkpointing or config.model.use_recompute else "none"


def _engines(config: Config, plan: Plan, steps: int, on_notice: Callable[[str], None]) -> MakeEngine:
    """Makes training engines of a module, its forward pass and its optimizer, by what the config says for all."""
    training = config.training
    fixed = training.ppo_micro_batch_size_per_gpu is not None and not training.use_dynamic_bsz

    def make(module: nn.Module, forward: Forward, *, optim: OptimConfig | None) -> TorchEngine:
        return TorchEngine(
            module,
            forward,
            optim=optim,
            recompute=_recompute(config) if optim is not None else "none",
            compiled=training.compile,
            updates=steps * plan.batch.updates,
            tokens=None if fixed else training.max_token_len_per_gpu,
            sequences=plan.batch.micro_batch_sequences,
            on_notice=on_notice,
        )

    return make


def _actor_module(config: Config, role: RolePlan, source: models.ModelSource) -> nn.Module:
    """In the planned dtype, which rollout and training share; the optimizer holds masters where that is not fp32."""
    model = models.load_causal_lm(source, config.model, dtype=models.TORCH_DTYPES[role.dtype], device=_device(role))
    return model if config.model.lora_rank == 0 else models.add_lora(model, config.model)


def _critic(config: Config, plan: Plan, make_engine: MakeEngine) -> TorchEngine | None:
    role = plan.role("critic")
    if role is None:
        return None
    source = models.locate(config.critic.path or _required_path(config), key="critic.path")
    dtype = models.TORCH_DTYPES[role.dtype]
    body = models.load_causal_lm(source, config.model, dtype=dtype, device=_device(role), key="critic.path")
    seed_all(config.trainer.seed, 0, "init/critic")
    module = models.build_value_model(body, config.model)
    return make_engine(module, value_forward(module), optim=config.critic.optim)


def _reference(
    config: Config, plan: Plan, actor: TorchEngine, source: models.ModelSource, make_engine: MakeEngine
) -> TorchEngine | None:
    role = plan.role("reference")
    if role is None:
        return None
    temperature = config.rollout.temperature
    if config.model.lora_rank > 0 and config.reference.path is None:
        module: Any = actor.module
        plain = policy_forward(module, temperature)

        def without_adapter(batch: Batch, packed: Packed | None = None) -> Any:
            with module.disable_adapter():
                return plain(batch, packed)

        return make_engine(module, without_adapter, optim=None)
    if config.reference.path is not None:
        source = models.locate(config.reference.path, key="reference.path")
    frozen = models.load_causal_lm(
        source, config.model, dtype=models.TORCH_DTYPES[role.dtype], device=_device(role), key="reference.path"
    ).requires_grad_(False)
    return make_engine(frozen, policy_forward(frozen, temperature), optim=None)


def _reward_model(config: Config, plan: Plan, on_notice: Callable[[str], None]) -> RewardModel | None:
    role = plan.role("reward_model")
    if role is None or config.reward_model.path is None:
        return None
    source = models.locate(config.reward_model.path, key="reward_model.path")
    trust = config.model.trust_remote_code
    return RewardModel(
        models.load_reward_classifier(
            source, dtype=models.TORCH_DTYPES[role.dtype], device=_device(role), trust_remote_code=trust
        ),
        models.load_tokenizer(source, trust_remote_code=trust, key="reward_model.path"),
        on_notice=on_notice,
    )


def _eos_ids(module: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a response: the tokenizer's and those of the model's generation config that it can give."""
    base = hugging_face(module)
    own = base.generation_config.eos_token_id
    ids = own if isinstance(own, list) else [own]
    known = base.get_input_embeddings().weight.shape[0]
    return sorted({tokenizer.eos_token_id, *(i for i in ids if i is not None and i < known)})


def _save_hf(module: Any, tokenizer: Any, folder: Path, **kwargs: Any) -> None:
    module.save_pretrained(folder, **kwargs)
    tokenizer.save_pretrained(folder)


def _merged_state(module: Any) -> dict[str, torch.Tensor]:
    """Weights of a merged PEFT model under the base model's own names."""
    state = {}
    for name, value in module.get_base_model().state_dict().items():
        if "lora_" not in name:
            state[name.replace(".base_layer.", ".")] = value
    return state


def _save_tensors(tensors: dict[str, torch.Tensor], file: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, file)


def _load_tensors(file: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    # A copy of its own for each: views of the mapped file can be unaligned, which changes the order of summation.
    return {name: value.clone() for name, value in load_file(file).items()}
