"""Builds the roles of a run (actor, rollout, critic, reference, reward) from the plan, fresh or from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from verlcli.engine import models
from verlcli.engine.randomness import seed_all
from verlcli.engine.rewards.model import RewardModel
from verlcli.engine.rollout import HfRollout, RolloutEngine
from verlcli.engine.training import TorchEngine, policy_forward, value_forward
from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from verlcli.config.types import Config
    from verlcli.engine.rewards import Rewarder
    from verlcli.plan.types import Plan, RolePlan


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
        saved = type(module).from_pretrained(folder, dtype=torch.float32)
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


def build_roles(config: Config, plan: Plan, tokenizer: Any, rewarder: Rewarder | None) -> Roles:
    """Load all models onto their devices.

    Raises:
        ConfigError, MissingDependencyError: see `models.locate` and the loaders.
    """
    if plan.device == "cuda":
        # cuDNN's attention returns NaN gradients for masked batches of some widths (seen at 64, torch 2.11, H200).
        torch.backends.cuda.enable_cudnn_sdp(False)
    source = models.locate(_required_path(config))
    seed_all(config.trainer.seed, 0, "init/actor")
    actor_module = _actor_module(config, _role(plan, "actor"), source)
    _check_positions(actor_module, config)
    lora = config.model.lora_rank > 0
    recompute = config.model.enable_gradient_checkpointing or config.model.use_recompute
    temperature = config.rollout.temperature
    actor = TorchEngine(
        actor_module,
        policy_forward(actor_module, temperature, entropy_gradient=config.algorithm.entropy_coef != 0),
        optim=config.actor.optim,
        autocast_dtype=_autocast(_role(plan, "actor")),
        recompute=recompute,
    )
    rollout = HfRollout(
        actor_module,
        eos_ids=_eos_ids(actor_module, tokenizer),
        pad_id=tokenizer.pad_token_id,
        batch_size=config.rollout.batch_size,
        autocast=actor.autocast,
    )
    return Roles(
        tokenizer=tokenizer,
        actor=actor,
        rollout=rollout,
        critic=_critic(config, plan, recompute),
        reference=_reference(config, plan, actor, source),
        reward_model=_reward_model(config, plan),
        rewarder=rewarder,
        lora=lora,
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


def _autocast(role: RolePlan) -> torch.dtype | None:
    return None if role.dtype == "fp32" else models.TORCH_DTYPES[role.dtype]


def _actor_module(config: Config, role: RolePlan, source: models.ModelSource) -> nn.Module:
    device = _device(role)
    if config.model.lora_rank == 0:
        return models.load_causal_lm(source, config.model, dtype=torch.float32, device=device)
    # The frozen base needs no fp32 master; the adapter is always fp32.
    base = models.load_causal_lm(source, config.model, dtype=models.TORCH_DTYPES[role.dtype], device=device)
    return models.add_lora(base, config.model)


def _critic(config: Config, plan: Plan, recompute: bool) -> TorchEngine | None:
    role = plan.role("critic")
    if role is None:
        return None
    source = models.locate(config.critic.path or _required_path(config), key="critic.path")
    dtype = models.TORCH_DTYPES[role.dtype] if config.model.lora_rank > 0 else torch.float32
    body = models.load_causal_lm(source, config.model, dtype=dtype, device=_device(role), key="critic.path")
    seed_all(config.trainer.seed, 0, "init/critic")
    module = models.build_value_model(body, config.model)
    return TorchEngine(
        module,
        value_forward(module),
        optim=config.critic.optim,
        autocast_dtype=_autocast(role),
        recompute=recompute,
    )


def _reference(config: Config, plan: Plan, actor: TorchEngine, source: models.ModelSource) -> TorchEngine | None:
    role = plan.role("reference")
    if role is None:
        return None
    temperature = config.rollout.temperature
    if config.model.lora_rank > 0 and config.reference.path is None:
        module: Any = actor.module
        plain = policy_forward(module, temperature)

        def without_adapter(batch: Any) -> Any:
            with module.disable_adapter():
                return plain(batch)

        return TorchEngine(module, without_adapter, optim=None, autocast_dtype=_autocast(role))
    if config.reference.path is not None:
        source = models.locate(config.reference.path, key="reference.path")
    frozen = models.load_causal_lm(
        source, config.model, dtype=models.TORCH_DTYPES[role.dtype], device=_device(role), key="reference.path"
    ).requires_grad_(False)
    return TorchEngine(frozen, policy_forward(frozen, temperature), optim=None, autocast_dtype=_autocast(role))


def _reward_model(config: Config, plan: Plan) -> RewardModel | None:
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
    )


def _eos_ids(module: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a response: the tokenizer's and those of the model's generation config."""
    base = module.get_base_model() if hasattr(module, "get_base_model") else module
    own = base.generation_config.eos_token_id
    ids = own if isinstance(own, list) else [own]
    return sorted({tokenizer.eos_token_id, *(i for i in ids if i is not None)})


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
