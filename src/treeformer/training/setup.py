"""What a run is made of before its first step: devices, a model with its first weights, parameters and their rates."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.fabric import Fabric
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor, nn

from treeformer._util.config import ConfigError, build
from treeformer.hub import safetensors
from treeformer.hub.model_folder import DEFAULT, open_model
from treeformer.nn.backbone import load_backbone
from treeformer.training import checkpoint
from treeformer.training.config import OptimizerConfig, TrainingConfig
from treeformer.training.registry import MODELS


def make_fabric(accelerator: str, devices: int, machines: int) -> Fabric:
    """The devices to train on, and how their processes find each other."""
    _check_processes(devices * machines)
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no GPU: CUDA is asked for, but torch sees no CUDA device")
    strategy = "ddp" if devices * machines > 1 else "auto"
    try:
        return Fabric(accelerator=accelerator, devices=devices, num_nodes=machines, strategy=strategy)
    except (ValueError, RuntimeError, MisconfigurationException) as error:  # an unknown accelerator, no or too few GPUs
        asked = f"{accelerator}, {devices} devices, {machines} machines"
        raise ConfigError(f"cannot train on {asked}: {' '.join(str(error).split())}") from None


def _check_processes(expected: int) -> None:
    """Those that torchrun or srun has started must know of each other, else each trains alone, into the same folder."""
    started = next((os.environ[name] for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS") if name in os.environ), "1")
    if started.isdigit() and int(started) > 1 and int(started) != expected:
        raise ConfigError(f"{started} processes were started, but devices times machines is {expected}: let them agree")


def _weights_file(name: str) -> Path:
    """What `start_from` names: a file of weights, or the one in a model folder."""
    return Path(name) if Path(name).suffix == ".safetensors" else open_model(name).weights


def model_folder_of(start_from: str) -> str:
    """The model folder that `start_from` names, as it is found from any working directory; empty for anything else."""
    if not start_from or Path(start_from).suffix == ".safetensors":
        return ""
    return str(Path(start_from).resolve()) if start_from != DEFAULT and Path(start_from).is_dir() else start_from


def make_model(config: TrainingConfig, *, with_weights: bool = True) -> Any:
    """The model of a run; `with_weights`: those that it starts from, which a run that goes on does not need."""
    if config.model not in MODELS:
        raise ConfigError(f"model must be one of {', '.join(MODELS)}, not {config.model!r}")
    settings = MODELS[config.model].settings()
    chosen = build(type(settings), asdict(settings) | config.model_options, "model_options")
    model = MODELS[config.model].module(chosen)
    if not with_weights:
        return model
    if config.start_from:
        path = _weights_file(config.start_from)
        weights = {name: torch.from_numpy(np.array(array)) for name, array in safetensors.read(path).items()}
        checkpoint.load_weights(model, weights, path)
    elif config.backbone_weights:
        if not hasattr(model, "backbone"):
            raise ConfigError(f"backbone_weights: the model {config.model!r} has no backbone that takes them")
        load_backbone(model.backbone, config.backbone_weights)
    return model


def parameter_groups(model: nn.Module, settings: OptimizerConfig) -> list[dict[str, Any]]:
    """Backbone and the rest at their own rates; no decay for biases, norms and embeddings."""
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            factor = settings.backbone_factor if name.startswith("backbone.") else 1.0
            decay = settings.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((factor, decay), []).append(parameter)
    return [
        {"params": parameters, "lr": settings.learning_rate * factor, "weight_decay": decay}
        for (factor, decay), parameters in groups.items()
    ]
