"""How weights change: parameter groups, learning rate, clipped updates, and the moving average that is kept."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from treeformer.training.config import OptimizerConfig


def parameter_groups(model: nn.Module, settings: OptimizerConfig) -> list[dict[str, Any]]:
    """Group the trained parameters by learning rate and weight decay, for any optimizer of torch."""
    factors = {"backbone": settings.backbone_factor, "neck": settings.neck_factor}
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        factor = factors.get(name.partition(".")[0], 1.0)
        if parameter.requires_grad and factor > 0:
            decay = settings.weight_decay if parameter.ndim > 1 else 0.0  # not for biases and norms
            groups.setdefault((factor, decay), []).append(parameter)
    return [
        {"params": parameters, "lr": settings.learning_rate * factor, "weight_decay": decay}
        for (factor, decay), parameters in groups.items()
    ]


def rate_factor(step: int, share: float, warmup_steps: int) -> float:
    """Return the learning rate of a step, from 0, relative to its peak: a linear rise times a cosine to zero.

    `share` is the used share of the run, which its steps or its time limit determine.

    Example:
        >>> rate_factor(0, 0.0, 10), rate_factor(9, 0.0, 10), round(rate_factor(50, 0.5, 10), 9)
        (0.1, 1.0, 0.5)
    """
    warm = min(1.0, (step + 1) / max(1, warmup_steps))
    return warm * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))


class ClippedUpdates:
    """Steps of any optimizer of torch with a limited norm of the gradient. One that is not finite changes nothing.

    Skipping a step must not wait for the GPU, because then the next batch is not launched in time. `GradScaler` is
    torch's interface for that: fused optimizers read its flag on the device, for others it waits. Its scale stays 1,
    because no gradient is float16.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, clip_norm: float, device: torch.device) -> None:
        self.optimizer, self.clip_norm = optimizer, clip_norm
        self.parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.scaler = torch.amp.GradScaler(device.type, init_scale=1.0)
        self.scaler.scale(torch.zeros((), device=device))  # it creates its tensors now

    def __call__(self) -> Tensor:
        """Update the weights by the gradients in `grad`. Return the norm of the gradient before clipping."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update(1.0)
        return norm


class WeightAverage:
    """The exponential moving average of all weights and buffers of a model, which never move in memory."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        weights = model.state_dict()
        self.decay = decay
        self.tensors = {name: tensor.detach().clone() for name, tensor in weights.items()}
        self._pairs = list(self.tensors.values()), list(weights.values())

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Include the weights after a step, counted from 0.

        The decay grows with the steps. Otherwise the start would dominate an early average.
        """
        averages, weights = self._pairs
        torch._foreach_lerp_(averages, weights, 1 - min(self.decay, (1 + step) / (10 + step)))
