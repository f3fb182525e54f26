"""A training step as a CUDA graph, so that Python starts one recording instead of some two thousand kernels.

Nothing that is recorded may wait for the device: no `item`, no `nonzero`, no `torch.where` with a number, which is
first copied there; and the Hungarian matching has to be done by the device, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from treeformer.training.stream import Batch

# Steps before the recording: what is compiled, chosen or allocated on first use has to be there.
WARM_UP_STEPS = 3


class GraphedStep:
    """Forward, loss and backward of one model for batches of one shape.

    Args:
        model: its forward pass and `loss` wait for nothing; on a GPU.
        example: a batch, on the same GPU.
        precision: makes the context of the forward pass, autocast without its cache or none.

    After a call, every parameter's `grad` holds the gradient of that batch. They must not be set to None.
    """

    def __init__(self, model: Any, example: Batch, precision: Callable[[], AbstractContextManager[Any]]) -> None:
        self.model, self.precision = model, precision
        self.images = example.images.clone()
        self.targets = example.targets.clone()
        self.node_count = example.targets.mask.sum().clamp(min=1).float()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._step()
                model.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        # Other threads, which lock memory for the batches to come, may go on meanwhile.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.figures = self._step()

    def __call__(self, batch: Batch, node_count: Tensor) -> dict[str, Tensor]:
        """Losses by name, `loss` their sum; the tensors are overwritten by the next call."""
        self.images.copy_(batch.images)
        self.targets.copy_(batch.targets)
        self.node_count.copy_(node_count)
        self.graph.replay()
        return self.figures

    def _step(self) -> dict[str, Tensor]:
        with self.precision():
            pixels = (self.images.float() / 255.0).contiguous(memory_format=torch.channels_last)
            parts = self.model.loss(self.model(pixels, self.targets), self.targets, self.node_count)
            loss = torch.stack(list(parts.values())).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return {name: value.detach() for name, value in ({"loss": loss} | parts).items()}
