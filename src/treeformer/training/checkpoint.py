"""Checkpoints: everything a run needs to go on, in one safetensors file that appears whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from treeformer.errors import TreeformerError
from treeformer.hub import safetensors


class CheckpointError(TreeformerError):
    """A checkpoint that is missing, broken or of another architecture."""


@dataclass
class RunState:
    """Where a run stands."""

    step: int = 0
    position: int = 0
    """Images of the stream that were used."""
    seconds: float = 0.0
    """Time since the start, over all pieces of the run."""
    training_seconds: float = 0.0
    """Time of the steps alone: without compiling, validating and writing."""
    best_score: float = -1.0
    best_step: int = 0
    validated_step: int = 0
    """The step of the last validation; a run that was killed in one makes up for it."""


def save(
    path: Path,
    model: nn.Module,
    average: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
    progress: RunState,
    config: Any,
) -> None:
    """Write model, averaged weights, optimizer state and progress; an old file stays until the new one is whole."""
    arrays = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    arrays |= {f"average/{name}": tensor for name, tensor in average.items()}
    for name, state in _optimizer_state(model, optimizer).items():
        arrays |= {f"optimizer/{name}/{key}": torch.as_tensor(value) for key, value in state.items()}
    metadata = {"progress": json.dumps(asdict(progress)), "config": json.dumps(asdict(config))}
    write_tensors(path, arrays, metadata)


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """A safetensors file; one line where there is no room for it."""
    try:
        safetensors.write(path, {name: _numpy(tensor) for name, tensor in tensors.items()}, metadata)
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be written ({error.strerror or error}); the one before is kept"
        ) from None


def restore(path: Path, model: nn.Module, average: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> RunState:
    """Load a checkpoint into a model, its average and its optimizer, in place."""
    if not path.exists():
        raise CheckpointError(f"{path}: no checkpoint to go on from")
    arrays = safetensors.read(path)
    _, metadata = safetensors.read_header(path)
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "optimizer": {}}
    for name, array in arrays.items():
        part, _, rest = name.partition("/")
        if part not in parts:
            raise CheckpointError(f"{path}: not a checkpoint of a training run")
        parts[part][rest] = torch.from_numpy(np.array(array))
    load_weights(model, parts["model"], path)
    for name, tensor in average.items():
        if name not in parts["average"] or parts["average"][name].shape != tensor.shape:
            raise CheckpointError(f"{path}: of another architecture ({name} does not fit)")
        tensor.copy_(parts["average"][name])
    state = {
        index: _state_of(name, parameter, parts["optimizer"], path)
        for index, (name, parameter) in enumerate(_parameters_in_order(model, optimizer))
    }
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": {i: s for i, s in state.items() if s}, "param_groups": groups})
    return _parse_progress(metadata, path)


def load_weights(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Load strictly: every weight is there, none is left over, every shape fits; else one line names the misfit."""
    own = model.state_dict()
    for name, tensor in own.items():
        if name not in weights:
            raise CheckpointError(f"{path}: of another architecture ({name} is missing)")
        if weights[name].shape != tensor.shape:
            shapes = f"{tuple(weights[name].shape)} instead of {tuple(tensor.shape)}"
            raise CheckpointError(f"{path}: of another architecture ({name} is {shapes})")
    for name in weights:
        if name not in own:
            raise CheckpointError(f"{path}: of another architecture ({name} is left over)")
    model.load_state_dict(weights)


def _parameters_in_order(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[str, Tensor]]:
    """The optimizer's parameters in its own order, with the names the model gives them."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [(names[id(p)], p) for group in optimizer.param_groups for p in group["params"]]


def _optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    return {name: optimizer.state[p] for name, p in _parameters_in_order(model, optimizer) if p in optimizer.state}


def _state_of(name: str, parameter: Tensor, stored: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """What AdamW remembers of a parameter; nothing where it was not trained before.

    Checked, for the fused optimizer is not: what does not fit would be written to beyond its end.
    """
    shapes = {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
    state = {key: stored[f"{name}/{key}"] for key in shapes if f"{name}/{key}" in stored}
    if state and any(key not in state or state[key].shape != shape for key, shape in shapes.items()):
        raise CheckpointError(f"{path}: of another architecture (the optimizer's state of {name} does not fit)")
    return {key: value if key == "step" else _laid_out_as(parameter, value) for key, value in state.items()}


def _laid_out_as(parameter: Tensor, state: Tensor) -> Tensor:
    """The same numbers in the parameter's order in memory, which the fused optimizer asks for."""
    return torch.empty_like(parameter, device=state.device).copy_(state)


def _numpy(tensor: Tensor) -> Any:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def averaged_weights(path: Path) -> dict[str, Any]:
    """The averaged weights of a checkpoint of a run, or the weights of a file that holds nothing else."""
    if not path.exists():
        raise CheckpointError(f"{path}: no such file")
    arrays = safetensors.read(path)
    average = {name.removeprefix("average/"): array for name, array in arrays.items() if name.startswith("average/")}
    return average or arrays


def read_progress(path: Path) -> RunState | None:
    """Where the run that wrote a checkpoint stands; None where there is no checkpoint yet."""
    return _parse_progress(safetensors.read_header(path)[1], path) if path.exists() else None


def _parse_progress(metadata: dict[str, str], path: Path) -> RunState:
    try:
        progress = RunState(**json.loads(metadata["progress"]))
        readable = all(type(value) in (int, float) for value in asdict(progress).values())
    except (KeyError, TypeError, ValueError):
        readable = False
    if not readable:
        raise CheckpointError(f"{path}: its progress cannot be read")
    return progress
