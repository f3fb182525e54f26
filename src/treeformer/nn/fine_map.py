"""Maps that are predicted from the finest feature level, with smaller cells than that level."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.convolution import conv_add
from treeformer.nn.positions import cell_centers


class FineMap(nn.Module):
    """Two convolutions, 3×3 and 1×1, and the rearrangement of their outputs to a finer map.

    A cell of the finest level becomes `upsampling` × `upsampling` cells. The first channel of the map is a logit;
    `prior` is its probability before training. Nodes of curves lie on the lines of a grid with a spacing of `grid_px`
    (`Skeleton.sample_at_grid_crossings`): every cell gets its position relative to the grid as input. 0 disables it.
    """

    def __init__(
        self, channels: int, hidden: int, outputs: int, upsampling: int, *, prior: float, grid_px: float = 0.0
    ) -> None:
        super().__init__()
        self.upsampling, self.grid_px = upsampling, grid_px
        self.phase: nn.Linear | None = None
        if grid_px:
            # Zero at first, and without random numbers: the rest of the network is initialized as without a grid.
            self.phase = nn.utils.skip_init(  # type: ignore[no-untyped-call]  # torch does not annotate it
                nn.Linear, 4, hidden, bias=False
            )
            nn.init.zeros_(self.phase.weight)
        first = nn.Conv2d(channels, hidden, 3, padding=1)
        last = nn.Conv2d(hidden, outputs * upsampling**2, 1)
        self.layers = nn.Sequential(first, nn.ReLU(), last)
        nn.init.normal_(last.weight, std=0.01)
        assert last.bias is not None
        nn.init.zeros_(last.bias)
        nn.init.constant_(last.bias[: upsampling**2], torch.tensor(prior).logit().item())

    def predict(self, fine: Tensor, stride: int) -> Tensor:
        """Map the finest level (B,channels,h,w) to (B,outputs,upsampling · h,upsampling · w) float32.

        `stride` is the distance of two cells of the finest level in px.
        """
        first, last = cast(nn.Conv2d, self.layers[0]), cast(nn.Conv2d, self.layers[2])
        height, width = fine.shape[-2:]
        phase: Tensor | None = None
        if self.phase is not None:
            angles = cell_centers(height, width, stride, fine.device) * (2 * math.pi / self.grid_px)
            phase = self.phase(torch.cat([angles.sin(), angles.cos()], dim=-1)).view(height, width, -1)
        if fine.device.type == "cpu" and not self.training:
            # ONNX Runtime has the channels of 8-bit convolutions last, and copies the map to have them first.
            cells = first(fine).permute(0, 2, 3, 1)
            cells = functional.relu(cells if phase is None else cells + phase)
            rows = functional.linear(cells.flatten(0, 2), last.weight.flatten(1), last.bias)
            parts = rows.view(-1, height, width, rows.shape[1]).permute(0, 3, 1, 2)
        else:
            parts = last(conv_add(first, fine, shared=None if phase is None else phase.permute(2, 0, 1), relu=True))
        return functional.pixel_shuffle(parts.float(), self.upsampling)
