"""A heat map of nodes (as in CenterNet), whose peaks are where the object tokens begin."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.positions import cell_centers

PRIOR = 0.02  # probability of a node in a cell before training


class HeatMapHead(nn.Module):
    """A heat value and an offset for each cell of a map that is as fine as the finest level, or finer.

    A peak needs a cell of its own, and its neighbors cannot be peaks: the map's cells bound how close two nodes may be
    so that both begin a token. The finest level's features know where within their cell something is.

    Args:
        channels: of the finest level.
        parts: along each side of a cell of the finest level there are so many cells of the map.
        grid_px: spacing of the grid on whose lines nodes of curves lie (`Skeleton.sample_at_grid_crossings`): every cell is told
            where in the grid it is; 0: it is not.
    """

    def __init__(self, channels: int, parts: int = 1, grid_px: float = 0.0) -> None:
        super().__init__()
        self.parts, self.grid_px = parts, grid_px
        self.phase: nn.Linear | None = None
        if grid_px:
            # Zero at first, and drawn from no random numbers: the rest of a network begins as it would without it.
            self.phase = nn.utils.skip_init(nn.Linear, 4, channels, bias=False)
            nn.init.zeros_(self.phase.weight)
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 3 * parts**2, 1)
        )
        last = self.layers[-1]
        nn.init.normal_(last.weight, std=0.01)
        nn.init.zeros_(last.bias)
        nn.init.constant_(last.bias[: parts**2], torch.tensor(PRIOR).logit().item())

    def forward(self, fine: Tensor, stride: int = 4) -> tuple[Tensor, Tensor]:
        """The map: (B,channels,h,w) at a stride in px → heat logits (B,H,W), H = parts · h; offsets (B,H·W,2).

        Offsets are in cells of the map, from a cell's center to its node.
        """
        first, *rest = self.layers
        hidden = first(fine)
        if self.phase is not None:
            height, width = fine.shape[-2:]
            angles = cell_centers(height, width, stride, fine.device) * (2 * math.pi / self.grid_px)
            phase = self.phase(torch.cat([angles.sin(), angles.cos()], dim=-1))
            hidden = hidden + phase.view(1, height, width, -1).permute(0, 3, 1, 2)
        for layer in rest:
            hidden = layer(hidden)
        heat, offsets = functional.pixel_shuffle(hidden.float(), self.parts).split([1, 2], dim=1)
        return heat[:, 0], offsets.permute(0, 2, 3, 1).flatten(1, 2)


def peaks(heat: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The cells where tokens begin: (B,count) indices, the hottest first, and their heat (B,count) in [0,1].

    Where there are fewer peaks, the rest are any cells, at a heat of 0.

    A peak is no colder than its neighbors above, below, left and right. Around a lone node the diagonal cells are
    colder than these anyway; not comparing with them lets two nodes in diagonal cells both be peaks.
    """
    probability = heat.sigmoid()[:, None]
    parallel = functional.max_pool2d(probability, (1, 3), 1, (0, 1)).maximum(
        functional.max_pool2d(probability, (3, 1), 1, (1, 0))
    )
    rank = probability * (probability == parallel)  # `where` with a number would wait for the device
    hottest = rank.flatten(1).topk(count, dim=1)
    return hottest.indices, hottest.values


def cell_points(cell: Tensor, offsets: Tensor, width: int, stride: int) -> Tensor:
    """Where the nodes of some cells are: cell (B,K), offsets (B,h·w,2) in cells → (B,K,2) px."""
    corner = torch.stack([cell % width, torch.div(cell, width, rounding_mode="floor")], dim=-1)
    return (corner + 0.5 + offsets.gather(1, cell[..., None].expand(-1, -1, 2))) * stride


def cells_of(points: Tensor, height: int, width: int, stride: int) -> tuple[Tensor, Tensor]:
    """The cell each point lies in: column and row (…), int64; points outside count to the nearest cell."""
    place = (points / stride).floor().long()
    return place[..., 0].clamp(0, width - 1), place[..., 1].clamp(0, height - 1)


def heat_targets(points: Tensor, mask: Tensor, height: int, width: int, stride: int, sigma: float) -> Tensor:
    """The map to learn: 1 in each node's cell, a Gaussian of `sigma` cells around it, the highest where they overlap.

    Args:
        points: (B,M,2) px.
        mask: (B,M) bool, True = a real node.

    Returns:
        (B,height,width) in [0,1].
    """
    reach = max(1, round(3 * sigma))
    step = torch.arange(-reach, reach + 1, device=points.device)
    column, row = cells_of(points, height, width, stride)
    columns = (column[..., None, None] + step[None, :]).expand(-1, -1, len(step), -1)
    rows = (row[..., None, None] + step[:, None]).expand(-1, -1, -1, len(step))
    value = torch.exp(-(step[:, None] ** 2 + step[None, :] ** 2) / (2 * sigma**2)).to(points.dtype)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height) & mask[..., None, None]
    cell = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    blank = points.new_zeros(points.shape[0], height * width)
    heat = blank.scatter_reduce(1, cell.flatten(1), (value * inside).flatten(1), "amax")
    return heat.view(-1, height, width)
