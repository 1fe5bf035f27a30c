"""Facts that checks and estimates stand on: models' shapes, GPUs' figures, what a cluster has. No torch here."""

from __future__ import annotations

from verlcli.facts.cluster import Cluster, parse_cluster
from verlcli.facts.gpus import GPUS, GpuModel, find_gpu
from verlcli.facts.model_config import shape_from_config
from verlcli.facts.models import cached_snapshot, known_models, model_shape
from verlcli.facts.parameters import Linear, Parameters, lora_params, parameter_counts
from verlcli.facts.shapes import DeltaNet, LatentAttention, ModelShape

__all__ = [
    "GPUS",
    "Cluster",
    "DeltaNet",
    "GpuModel",
    "LatentAttention",
    "Linear",
    "ModelShape",
    "Parameters",
    "cached_snapshot",
    "find_gpu",
    "known_models",
    "lora_params",
    "model_shape",
    "parameter_counts",
    "parse_cluster",
    "shape_from_config",
]
