"""A heat map of nodes, as in CenterNet; its peaks are the starting points of the object tokens.

H and W are the rows and columns of the map, and `stride` is the distance of two of its cells in px. Cells have int64
indices, row by row.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from treeformer.nn.fine_map import FineMap

PRIOR = 0.02  # probability of a node in a cell before training


class HeatMapHead(FineMap):
    """Predict heat and offset for each cell of a map that is `upsampling` times as fine as the finest level.

    Neighbors of a peak cannot be peaks. The cell size therefore limits how close two nodes may be so that both get a
    token. The features of the finest level contain positions within their cells, so the map can be finer than that.

    With `grid_px`, the spacing of the grid on whose lines nodes of curves lie (`Skeleton.sample_at_grid_crossings`),
    every cell gets its position relative to the grid as input.
    """

    def __init__(self, channels: int, upsampling: int = 1, grid_px: float = 0.0) -> None:
        super().__init__(channels, channels, 3, upsampling, prior=PRIOR, grid_px=grid_px)

    def forward(self, fine: Tensor, stride: int = 4) -> tuple[Tensor, Tensor]:
        """Predict heat (B,H,W), logits, and offsets (B,H·W,2) from the finest level (B,channels,h,w).

        An offset leads from the center of a cell to its node, in cells of the map; `stride` is that of the finest
        level.
        """
        parts = self.predict(fine, stride)
        return parts[:, 0], parts[:, 1:].permute(0, 2, 3, 1).flatten(1, 2)


def peaks(heat: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the cells (B,count) with the hottest peaks of logits (B,H,W), the hottest first, and their heat in [0,1].

    A peak is at least as hot as its neighbors above, below, left and right. Diagonal neighbors are not compared: around
    a single node they are colder than the other four, and two nodes in diagonal cells can both be peaks. If there are
    fewer peaks, the rest are arbitrary cells with a heat of 0.
    """
    probability = heat.sigmoid()[:, None]
    hottest_neighbor = functional.max_pool2d(probability, (1, 3), 1, (0, 1)).maximum(
        functional.max_pool2d(probability, (3, 1), 1, (1, 0))
    )
    rank = probability * (probability == hottest_neighbor)  # `where` with a number would wait for the device
    hottest = rank.flatten(1).topk(count, dim=1)
    return hottest.indices, hottest.values


def cell_points(cell: Tensor, offsets: Tensor, width: int, stride: int) -> Tensor:
    """Return the points (B,K,2), px, of the nodes in cells (B,K), with the offsets (B,H·W,2) of all cells."""
    corner = torch.stack([cell % width, torch.div(cell, width, rounding_mode="floor")], dim=-1)
    return (corner + 0.5 + offsets.gather(1, cell[..., None].expand(-1, -1, 2))) * stride


def cells_of(points: Tensor, height: int, width: int, stride: int) -> tuple[Tensor, Tensor]:
    """Return column and row of the cell that contains each point (…,2), px, or of the nearest cell."""
    cell = (points / stride).floor().long()
    return cell[..., 0].clamp(0, width - 1), cell[..., 1].clamp(0, height - 1)


def heat_targets(points: Tensor, mask: Tensor, height: int, width: int, stride: int, sigma: float) -> Tensor:
    """Return the target of the heat map (B,H,W): 1 in the cell of each node, surrounded by a Gaussian.

    Points are (B,M,2) px; their mask (B,M) is True for real nodes; `sigma` is in cells. Of nodes that overlap, the
    maximum counts.
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
