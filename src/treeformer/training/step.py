"""One training step: forward and loss, called directly or replayed as a CUDA graph.

With a graph, Python starts one replay instead of about two thousand kernels. Nothing inside the graph may wait for the
device: no `item`, no `nonzero`, no `torch.where` with a Python number, which would be copied to the device first. The
Hungarian matching therefore also runs on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from treeformer.data.loader import Batch
from treeformer.models.distillation import Teacher, distillation_losses
from treeformer.models.outputs import TeacherOutput
from treeformer.nn.targets import Targets

# Steps before the capture. Whatever is compiled, selected or allocated on first use must exist by then.
WARM_UP_STEPS = 3


class Distillation(NamedTuple):
    """A teacher and the factors on the two kinds of losses.

    Attributes:
        teacher: the teacher, on the device of the model.
        weight: factor on the losses against the teacher.
        label_weight: factor on the losses against the ground truth; 0 does not compute them.
    """

    teacher: Teacher
    weight: float = 1.0
    label_weight: float = 1.0


def pixels_of(images: Tensor) -> Tensor:
    """Return (B,3,H,W) uint8 images as float32 in [0,1], channels last: convolutions on a GPU are fastest so."""
    return (images.float() / 255.0).contiguous(memory_format=torch.channels_last)


class TrainingStep(nn.Module):
    """Forward pass and loss of a model as one module, so that DDP sees a single call.

    Autocast is entered here and not by Fabric, which would also round the target nodes to bfloat16, that is by whole
    pixels. Inside a CUDA graph, `cache_casts` must be False: the graph would capture the cast weights.
    """

    def __init__(
        self, model: Any, *, bf16: bool, cache_casts: bool = True, distillation: Distillation | None = None
    ) -> None:
        super().__init__()
        self.model, self.bf16, self.cache_casts = model, bf16, cache_casts
        self.distillation = distillation  # not a submodule: its weights are neither trained nor synchronized

    def forward(
        self,
        images: Tensor,
        targets: Targets,
        node_count: Tensor,
        tokens: int | None = None,
        guide: TeacherOutput | None = None,
    ) -> dict[str, Tensor]:
        """Compute the losses of a batch, (B,3,H,W) uint8 images; `loss` is their sum.

        Sums over nodes are divided by `node_count`. `tokens` is the number of object tokens, None for the configured.
        """
        with torch.autocast(
            images.device.type, dtype=torch.bfloat16, enabled=self.bf16, cache_enabled=self.cache_casts
        ):
            pixels = pixels_of(images)
            if self.distillation is not None:
                assert guide is not None, "a step with a teacher needs its predictions"
                parts = self._distill(pixels, targets, node_count, tokens, guide, self.distillation)
            else:
                output = self.model(pixels, targets) if tokens is None else self.model(pixels, targets, tokens)
                parts = self.model.loss(output, targets, node_count)
            return {"loss": torch.stack(list(parts.values())).sum(), **parts}

    def _distill(
        self,
        pixels: Tensor,
        targets: Targets,
        node_count: Tensor,
        tokens: int | None,
        guide: TeacherOutput,
        distillation: Distillation,
    ) -> dict[str, Tensor]:
        """Compute the losses against the teacher and, if they have a weight, those against the ground truth."""
        _, weight, label_weight = distillation
        output = self.model(pixels, targets if label_weight else None, tokens, guide)
        parts = {name: weight * value for name, value in distillation_losses(self.model.config, output, guide).items()}
        if label_weight:
            labels = self.model.loss(output, targets, node_count)
            parts |= {name: label_weight * value for name, value in labels.items()}
        return parts


class CudaGraphStep:
    """Forward, loss and backward of one model as a CUDA graph, for batches of one shape.

    After a call, every parameter's `grad` contains the gradient of that batch. Each graph has gradients of its own, in
    memory that its replays overwrite, so several graphs of one model can be used in turn. A replay may overwrite the
    results of graphs of `share_with` that were captured later.
    """

    def __init__(
        self,
        model: Any,
        example: Batch,
        *,
        bf16: bool,
        tokens: int | None = None,
        share_with: CudaGraphStep | None = None,
        distillation: Distillation | None = None,
        guide: TeacherOutput | None = None,
    ) -> None:
        self.step = TrainingStep(model, bf16=bf16, cache_casts=False, distillation=distillation)
        self.tokens = tokens
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        model.zero_grad(set_to_none=True)  # the gradients of another graph stay with it
        self.images = example.images.clone()
        self.targets = example.targets.clone()
        self.guide = None if guide is None else guide.clone()
        self.node_count = example.targets.mask.sum().clamp(min=1).float()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._forward_backward()
                model.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        # Other threads may continue to pin memory for the next batches during the capture.
        pool = share_with.graph.pool() if share_with else None
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.losses = self._forward_backward()
        self.gradients = [parameter.grad for parameter in self.parameters]

    def __call__(self, batch: Batch, node_count: Tensor, guide: TeacherOutput | None = None) -> dict[str, Tensor]:
        """Replay the graph on a batch of the example's shapes. The next call overwrites the losses."""
        self.images.copy_(batch.images)
        self.targets.copy_(batch.targets)
        self.node_count.copy_(node_count)
        if self.guide is not None and guide is not None:
            self.guide.copy_(guide)
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        return self.losses

    def _forward_backward(self) -> dict[str, Tensor]:
        losses = self.step(self.images, self.targets, self.node_count, self.tokens, self.guide)
        losses["loss"].backward()
        return {name: value.detach() for name, value in losses.items()}


class CudaGraphSteps:
    """One graph per shape of batches, captured at the first batch of that shape."""

    def __init__(
        self,
        model: Any,
        *,
        bf16: bool,
        capture: Callable[..., Any] = CudaGraphStep,
        distillation: Distillation | None = None,
    ) -> None:
        self.model, self.bf16, self.capture, self.distillation = model, bf16, capture, distillation
        self.graphs: dict[tuple[Any, ...], Any] = {}

    def __call__(
        self, batch: Batch, node_count: Tensor, tokens: int | None = None, guide: TeacherOutput | None = None
    ) -> dict[str, Tensor]:
        """Replay the graph of the batch's shape; capture it first if there is none. See `CudaGraphStep`."""
        shape = (batch.images.shape, batch.targets.points.shape, tokens)
        if shape not in self.graphs:
            first = next(iter(self.graphs.values()), None)
            self.graphs[shape] = self.capture(
                self.model,
                batch,
                bf16=self.bf16,
                tokens=tokens,
                share_with=first,
                distillation=self.distillation,
                guide=guide,
            )
        losses: dict[str, Tensor] = self.graphs[shape](batch, node_count, guide)
        return losses
