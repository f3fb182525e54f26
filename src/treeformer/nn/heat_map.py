"""A heat map of nodes (as in CenterNet), whose peaks are where the object tokens begin."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

PRIOR = 0.02  # probability of a node in a cell before training: about 300 cells of a 512×512 picture


class HeatMapHead(nn.Module):
    """A heat value and an offset for each cell of the finest level."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 3, 1))
        last = self.layers[-1]
        nn.init.normal_(last.weight, std=0.01)
        nn.init.zeros_(last.bias)
        nn.init.constant_(last.bias[:1], torch.tensor(PRIOR).logit().item())

    def forward(self, fine: Tensor) -> tuple[Tensor, Tensor]:
        """(B,channels,h,w) → heat logits (B,h,w); offsets (B,h·w,2), in cells from a cell's centre to its node."""
        heat, offsets = self.layers(fine).float().split([1, 2], dim=1)
        return heat[:, 0], offsets.permute(0, 2, 3, 1).flatten(1, 2)


def peaks(heat: Tensor, count: int) -> Tensor:
    """The cells where tokens begin: (B,count) indices, the hottest first.

    A peak is no colder than its neighbours above, below, left and right. Around a lone node the diagonal cells are
    colder than these anyway; not comparing with them lets two nodes in diagonal cells both be peaks.
    """
    probability = heat.sigmoid()[:, None]
    beside = functional.max_pool2d(probability, (1, 3), 1, (0, 1)).maximum(
        functional.max_pool2d(probability, (3, 1), 1, (1, 0))
    )
    rank = probability * (probability == beside)  # `where` with a number would wait for the device
    return rank.flatten(1).topk(count, dim=1).indices


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
