"""Deformable attention over several feature maps, in plain torch.

Reading a map between its cells is four gathers of whole rows (all channels of a cell lie together) rather than
`grid_sample`: the rows are read and, in the backward pass, added in one piece each. In training torch.compile makes one
kernel of the gathers, their weights and the sum; for use on a GPU, `embedding_bag` is such a kernel. Attention in
training on a GPU has kernels of its own, `treeformer.nn.kernels.deformable`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.in_use import is_inference_on_gpu
from treeformer.nn.kernels import deformable as deformable_triton


class FeatureLevel(NamedTuple):
    """One feature map as a sequence of cells."""

    cells: Tensor  # (B, height·width, channels), row by row
    height: int
    width: int
    stride: int  # px between two cells


def as_level(feature_map: Tensor, stride: int) -> FeatureLevel:
    """(B,C,h,w) → its cells; no copy where the memory format is channels_last."""
    batch, channels, height, width = feature_map.shape
    return FeatureLevel(feature_map.permute(0, 2, 3, 1).reshape(batch, height * width, channels), height, width, stride)


def bilinear_corners(points: Tensor, level: FeatureLevel) -> tuple[Tensor, Tensor]:
    """The four cells around each point and their weights, zero where a cell lies outside the map.

    Args:
        points: (…,2) px.

    Returns:
        cell (…,4) int64, an index into the level's cells; weight (…,4) float32.
    """
    column = points[..., 0].float() / level.stride - 0.5
    row = points[..., 1].float() / level.stride - 0.5
    columns, across = _two_cells(column, level.width)
    rows, down = _two_cells(row, level.height)
    cell = ((rows * level.width)[..., :, None] + columns[..., None, :]).flatten(-2)
    # Clamped once more as integers: a point that is NaN gives NaN, but never reads outside the map.
    return cell.long().clamp(0, level.height * level.width - 1), (down[..., :, None] * across[..., None, :]).flatten(-2)


def _two_cells(place: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The cells before and after a place (…) along one axis, and their weights: (…,2) each."""
    before = place.floor()
    beyond = torch.arange(2, device=place.device)  # 0 for the cell before, 1 for the one after
    cells = before[..., None] + beyond
    weights = (1 - beyond) + (2 * beyond - 1) * (place - before)[..., None]
    nearest = cells.clamp(0, size - 1)
    return nearest, weights * (cells == nearest)


def sample(level: FeatureLevel, points: Tensor) -> Tensor:
    """Features between the cells: points (B,…,2) px → (B,…,channels), zero outside the map.

    In float32, or as `weighted_rows` gives them.
    """
    batch, cell_count, channels = level.cells.shape
    cell, weight = bilinear_corners(points, level)
    first = torch.arange(batch, device=points.device) * cell_count
    row = cell + first.view(batch, *[1] * (cell.dim() - 1))
    return weighted_rows(level.cells.reshape(batch * cell_count, channels), row, weight)


def weighted_rows(table: Tensor, row: Tensor, weight: Tensor) -> Tensor:
    """Some rows of a table (V,C), each times its weight, added: row (…,K) int64, weight (…,K) → (…,C) float32.

    In use on a GPU in the table's own precision, though added in float32: a copy of the table would take longer.
    """
    if is_inference_on_gpu(table):
        return rows_in_bags(table, row, weight.to(table.dtype))
    # float32 before the gather: its backward adds many rows into one, which bfloat16 would round away.
    rows = table.float().index_select(0, row.flatten()).view(*row.shape, table.shape[1])
    return (rows * weight[..., None]).sum(-2)


def rows_in_bags(table: Tensor, row: Tensor, weight: Tensor) -> Tensor:
    """`weighted_rows` without the rows in between; its gradient would take a sort of all rows."""
    bags = functional.embedding_bag(row.flatten(0, -2), table, per_sample_weights=weight.flatten(0, -2), mode="sum")
    return bags.view(*row.shape[:-1], table.shape[1])


class DeformableAttention(nn.Module):
    """Each query reads a few places near its point, on every level, in each head, and mixes what it finds.

    Args:
        width: channels of queries and output.
        heads: attention heads; width is a multiple of them.
        points: places a head reads on each level.
        channels: channels of each level. Levels with the same number share one value projection.
    """

    def __init__(self, width: int, heads: int, points: int, channels: Sequence[int]) -> None:
        super().__init__()
        self.heads, self.points, self.levels = heads, points, len(channels)
        self.offsets = nn.Linear(width, heads * self.levels * points * 2)
        self.weights = nn.Linear(width, heads * self.levels * points)
        self.values = nn.ModuleDict({str(count): nn.Linear(count, width) for count in sorted(set(channels))})
        self.output = nn.Linear(width, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """At first each head looks in a direction of its own, one, two, … cells away, all weighing the same."""
        for layer in [*self.values.values(), self.output]:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        for layer in (self.offsets, self.weights):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        angle = torch.arange(self.heads) * (2 * math.pi / self.heads)
        direction = torch.stack([angle.cos(), angle.sin()], dim=-1)
        direction = direction / direction.abs().amax(-1, keepdim=True)
        away = torch.arange(1, self.points + 1)[:, None] * direction[:, None, None, :]
        with torch.no_grad():
            self.offsets.bias.copy_(away.expand(-1, self.levels, -1, -1).flatten())

    def forward(self, query: Tensor, points: Tensor, levels: Sequence[FeatureLevel]) -> Tensor:
        """Query (B,Q,width) at points (B,Q,2) px → (B,Q,width)."""
        batch, count, _ = query.shape
        grid = (batch, count, self.heads, self.levels, self.points)
        offsets = self.offsets(query).float().view(*grid, 2)
        weights = self.weights(query).float().view(batch, count, self.heads, -1).softmax(-1).view(grid)
        if self.training and deformable_triton.can_read(query):
            return self.output(self._read_by_kernel(points, offsets, weights, levels).flatten(2).to(query.dtype))
        # The sum is linear, so its order is free. A GPU would rather multiply than read, a CPU the other way round.
        few = count * self.heads < sum(level.height * level.width for level in levels)
        reading_first = few and query.device.type == "cpu" and not self.training
        read = self._read_then_project if reading_first else self._project_then_read
        return self.output(read(points, offsets, weights, levels).flatten(2).to(query.dtype))

    def _read_by_kernel(
        self, points: Tensor, offsets: Tensor, weights: Tensor, levels: Sequence[FeatureLevel]
    ) -> Tensor:
        """`_project_then_read` without indices in memory: (B,Q,heads,width/heads)."""
        moves = [offset * level.stride for offset, level in zip(offsets.unbind(3), levels, strict=True)]
        places = points[:, :, None, None, None, :] + torch.stack(moves, dim=3)
        shapes = [(level.height, level.width, level.stride) for level in levels]
        return deformable_triton.read(self._project(levels).unflatten(-1, (self.heads, -1)), places, weights, shapes)

    def _project(self, levels: Sequence[FeatureLevel]) -> Tensor:
        """Values of the cells of all levels: (B,S,width)."""
        return torch.cat([self._values_of(level) for level in levels], dim=1)

    def _values_of(self, level: FeatureLevel) -> Tensor:
        return self.values[str(level.cells.shape[-1])](level.cells)

    def _project_then_read(
        self, points: Tensor, offsets: Tensor, weights: Tensor, levels: Sequence[FeatureLevel]
    ) -> Tensor:
        """Values of all cells, read where the heads look: (B,Q,heads,width/heads)."""
        image = torch.arange(points.shape[0], device=points.device).view(-1, 1, 1, 1)
        head = torch.arange(self.heads, device=points.device).view(-1, 1)
        read: Tensor | float = 0.0
        for index, level in enumerate(levels):
            places = points[:, :, None, None, :] + offsets[:, :, :, index] * level.stride
            cell, weight = bilinear_corners(places, level)
            value = self._values_of(level)
            row = (image * value.shape[1] + cell.flatten(3)) * self.heads + head
            table = value.reshape(-1, value.shape[2] // self.heads)
            read = read + weighted_rows(table, row, (weight * weights[:, :, :, index, :, None]).flatten(3)).float()
        return read

    def _read_then_project(
        self, points: Tensor, offsets: Tensor, weights: Tensor, levels: Sequence[FeatureLevel]
    ) -> Tensor:
        """Features where the heads look, and the values of those alone: (B,Q,heads,width/heads)."""
        image = torch.arange(points.shape[0], device=points.device).view(-1, 1, 1, 1)
        read: Tensor | float = 0.0
        for name, layer in self.values.items():
            chosen = [index for index, level in enumerate(levels) if str(level.cells.shape[2]) == name]
            group = [levels[index] for index in chosen]
            cell, weight = corners_on_levels(points, offsets[:, :, :, chosen], weights[:, :, :, chosen], group)
            cells = torch.cat([level.cells for level in group], dim=1)  # (B,S,C)
            row = image * cells.shape[1] + cell
            rows = cells.flatten(0, 1).float().index_select(0, row.flatten()).view(*row.shape, layer.in_features)
            seen = (weight[..., None, :] @ rows).squeeze(-2).transpose(1, 2)  # (B,heads,Q,C)
            projected = seen @ layer.weight.view(self.heads, -1, layer.in_features).transpose(1, 2)
            bias = weight.sum(-1, keepdim=True) * layer.bias.view(self.heads, -1)
            read = read + projected.transpose(1, 2) + bias
        return read


def corners_on_levels(
    points: Tensor, offsets: Tensor, weights: Tensor, levels: Sequence[FeatureLevel]
) -> tuple[Tensor, Tensor]:
    """The cells that heads read on several levels, and what each counts: `bilinear_corners` of all places at once.

    For a CPU, where an operation on a few numbers takes as long as one on thousands, and one that pairs up short rows
    longer than on long ones: axes and corners come first.

    Args:
        points: (B,Q,2) px.
        offsets: (B,Q,heads,L,places,2), in cells of the level.
        weights: (B,Q,heads,L,places).

    Returns:
        cell (B,Q,heads,4·L·places) int64, an index into the cells of all levels one after the other; weight, likewise.
    """
    sizes = torch.tensor([(level.width, level.height) for level in levels]).T  # (2,L)
    *first, total = accumulate((level.height * level.width for level in levels), initial=0)
    stride = points.new_tensor([level.stride for level in levels])
    place = points.movedim(-1, 0)[..., None, None, None] / stride[:, None] + offsets.movedim(-1, 0) - 0.5
    before = place.floor()
    cells = torch.stack([before, before + 1])  # (2 corners, 2 axes, B,Q,heads,L,places)
    nearest = cells.clamp(min=0).minimum((sizes - 1).to(place.dtype).view(2, 1, 1, 1, -1, 1))
    parts = torch.stack([before + 1 - place, place - before]) * (cells == nearest)
    (column, row), (across, down) = nearest.unbind(1), parts.unbind(1)
    cell = (row * sizes[0, :, None] + torch.tensor(first)[:, None])[:, None] + column  # (2,2,B,Q,heads,L,places)
    weight = (down * weights)[:, None] * across
    # As in `bilinear_corners`, NaN may be any cell, but of this map.
    cell = cell.long().clamp(0, total - 1)
    return cell.movedim((0, 1), (3, 4)).flatten(3), weight.movedim((0, 1), (3, 4)).flatten(3)
