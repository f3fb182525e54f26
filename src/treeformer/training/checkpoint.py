"""Checkpoints: everything that is needed to resume a run, in one safetensors file that is written atomically."""

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
    """A checkpoint is missing or damaged, does not fit the model, or cannot be written."""


@dataclass
class RunState:
    """How far a training run has come.

    Attributes:
        step: number of completed steps.
        position: number of images of the stream that have been used.
        seconds: time since the start, over all calls of the run, s.
        training_seconds: time of the steps alone, without compiling, validating and writing, s.
        best_score: highest validation score, -1 before the first validation.
        best_step: step of the highest validation score.
        validated_step: step of the last validation. A run that is killed during a validation repeats it.
    """

    step: int = 0
    position: int = 0
    seconds: float = 0.0
    training_seconds: float = 0.0
    best_score: float = -1.0
    best_step: int = 0
    validated_step: int = 0


def save(
    path: Path,
    model: nn.Module,
    average: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
    state: RunState,
    config: Any,
) -> None:
    """Write a checkpoint. An older file is kept until the new one is complete."""
    arrays = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    arrays |= {f"average/{name}": tensor for name, tensor in average.items()}
    for name, parameter_state in _optimizer_state(model, optimizer).items():
        arrays |= {f"optimizer/{name}/{key}": torch.as_tensor(value) for key, value in parameter_state.items()}
    metadata = {"progress": json.dumps(asdict(state)), "config": json.dumps(asdict(config))}
    write_tensors(path, arrays, metadata)


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file atomically."""
    try:
        safetensors.write(path, {name: _numpy(tensor) for name, tensor in tensors.items()}, metadata)
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be written ({error.strerror or error}); the previous file is kept"
        ) from None


def restore(path: Path, model: nn.Module, average: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> RunState:
    """Load a checkpoint into a model, its averages and its optimizer, in place. Return how far the run has come."""
    if not path.exists():
        raise CheckpointError(f"{path}: no checkpoint to resume from")
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
    states = {
        index: _parameter_state(name, parameter, parts["optimizer"], path)
        for index, (name, parameter) in enumerate(_parameters_in_order(model, optimizer))
    }
    groups = optimizer.state_dict()["param_groups"]
    trained = {index: state for index, state in states.items() if state}
    optimizer.load_state_dict({"state": trained, "param_groups": groups})
    return _parse_run_state(metadata, path)


def load_weights(model: nn.Module, weights: dict[str, Tensor], path: Path, *, may_miss: tuple[str, ...] = ()) -> None:
    """Load weights strictly: names and shapes must be those of the model. Names may miss if they begin so."""
    expected = model.state_dict()
    for name, tensor in expected.items():
        if name not in weights:
            if name.startswith(may_miss):
                continue
            raise CheckpointError(f"{path}: of another architecture ({name} is missing)")
        if weights[name].shape != tensor.shape:
            shapes = f"{tuple(weights[name].shape)} instead of {tuple(tensor.shape)}"
            raise CheckpointError(f"{path}: of another architecture ({name} is {shapes})")
    for name in weights:
        if name not in expected:
            raise CheckpointError(f"{path}: of another architecture (the model has no {name})")
    model.load_state_dict(expected | weights)


def _parameters_in_order(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[str, Tensor]]:
    """Return the optimizer's parameters in its own order, with their names in the model."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [(names[id(p)], p) for group in optimizer.param_groups for p in group["params"]]


def _optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    return {name: optimizer.state[p] for name, p in _parameters_in_order(model, optimizer) if p in optimizer.state}


def _parameter_state(name: str, parameter: Tensor, stored: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return AdamW's state of a parameter, empty if the parameter was not trained before.

    Shapes are checked here, because the fused optimizer does not: it would write beyond the end of a smaller tensor.
    """
    shapes = {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
    state = {key: stored[f"{name}/{key}"] for key in shapes if f"{name}/{key}" in stored}
    if state and any(key not in state or state[key].shape != shape for key, shape in shapes.items()):
        raise CheckpointError(f"{path}: of another architecture (the optimizer's state of {name} does not fit)")
    return {key: value if key == "step" else _with_layout_of(parameter, value) for key, value in state.items()}


def _with_layout_of(parameter: Tensor, state: Tensor) -> Tensor:
    """Return the same values in the parameter's memory layout, which the fused optimizer requires."""
    return torch.empty_like(parameter, device=state.device).copy_(state)


def _numpy(tensor: Tensor) -> Any:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def averaged_weights(path: Path) -> dict[str, Any]:
    """Return the averaged weights of a checkpoint, or all weights if the file contains nothing else, by name."""
    if not path.exists():
        raise CheckpointError(f"{path}: no such file")
    arrays = safetensors.read(path)
    average = {name.removeprefix("average/"): array for name, array in arrays.items() if name.startswith("average/")}
    return average or arrays


def read_run_state(path: Path) -> RunState | None:
    """Return how far the run that wrote a checkpoint has come, None if there is no checkpoint yet."""
    return _parse_run_state(safetensors.read_header(path)[1], path) if path.exists() else None


def _parse_run_state(metadata: dict[str, str], path: Path) -> RunState:
    try:
        state = RunState(**json.loads(metadata["progress"]))
        is_valid = all(type(value) in (int, float) for value in asdict(state).values())
    except (KeyError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise CheckpointError(f"{path}: the state of the run cannot be read")
    return state
