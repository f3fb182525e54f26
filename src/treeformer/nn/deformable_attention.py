"""Deformable attention over several feature maps.

Bilinear sampling gathers four whole rows (the channels of a cell are contiguous) instead of calling `grid_sample`: the
rows are read and, in the backward pass, added as a whole. In training, torch.compile fuses the gathers, their weights
and the sum into one kernel. For inference on a GPU without Triton, `embedding_bag` is such a kernel. With Triton,
attention on a GPU has its own kernels, `treeformer.nn.kernels.deformable`.

Points are (…,2) px.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.inference_mode import is_inference_on_gpu
from treeformer.nn.kernels import deformable as deformable_triton

# Order of reading and projecting on a CPU: queries of a typical image, and the time to read one number and to add it,
# in multiplications of a matrix product.
TYPICAL_QUERIES = 60
ROW_COST = 128


class FeatureLevel(NamedTuple):
    """One feature map as a sequence of cells."""

    cells: Tensor  # (B,height·width,channels), row by row
    height: int
    width: int
    stride: int  # distance of two cells in px


def as_level(feature_map: Tensor, stride: int) -> FeatureLevel:
    """Return a feature map (B,C,h,w) as a sequence of cells, without a copy if its memory format is channels_last."""
    batch, channels, height, width = feature_map.shape
    return FeatureLevel(feature_map.permute(0, 2, 3, 1).reshape(batch, height * width, channels), height, width, stride)


def bilinear_corners(points: Tensor, level: FeatureLevel) -> tuple[Tensor, Tensor]:
    """Return the four cells around each point (…,4), int64, and their bilinear weights, 0 outside the map."""
    x, y = points.float().unbind(-1)
    cells, weights = _corners(x, y, level)
    return torch.stack(cells, dim=-1), torch.stack(weights, dim=-1)


def _corners(x: Tensor, y: Tensor, level: FeatureLevel) -> tuple[list[Tensor], list[Tensor]]:
    """Return the four cells around points (…) and their weights, (…) each; see `bilinear_corners`.

    On a CPU, operations on long rows are several times faster than those on pairs of coordinates.
    """
    (left, to_left), (right, to_right) = _adjacent_cells(x / level.stride - 0.5, level.width)
    (upper, to_upper), (lower, to_lower) = _adjacent_cells(y / level.stride - 0.5, level.height)
    above, below = upper * level.width, lower * level.width
    cells = [above + left, above + right, below + left, below + right]
    weights = [to_upper * to_left, to_upper * to_right, to_lower * to_left, to_lower * to_right]
    # Clamped again as integers: a NaN point gives NaN, but never reads outside the map.
    return [cell.long().clamp(0, level.height * level.width - 1) for cell in cells], weights


def _adjacent_cells(coordinate: Tensor, size: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The cells before and after a coordinate (…) along one axis, each with its weight; the shapes are (…)."""
    before = coordinate.floor()
    after = before + 1
    fraction = coordinate - before
    first, second = before.clamp(0, size - 1), after.clamp(0, size - 1)
    return (first, (1 - fraction) * (before == first)), (second, fraction * (after == second))


def sample(level: FeatureLevel, points: Tensor) -> Tensor:
    """Sample a feature map at points (B,…,2) by bilinear interpolation: (B,…,channels), 0 outside the map.

    The precision is that of `weighted_rows`.

    Example:
        >>> level = as_level(torch.tensor([[[[1.0, 3.0]]]]), stride=4)
        >>> sample(level, torch.tensor([[[2.0, 2.0], [4.0, 2.0]]])).tolist()
        [[[1.0], [2.0]]]
    """
    x, y = points.float().unbind(-1)
    return sample_at(level, x, y)


def sample_at(level: FeatureLevel, x: Tensor, y: Tensor) -> Tensor:
    """Sample a feature map at points given as x and y (B,…), px, float32; see `sample`."""
    batch, cell_count, channels = level.cells.shape
    cells, weights = _corners(x, y, level)
    first = (torch.arange(batch, device=x.device) * cell_count).view(batch, *[1] * (x.dim() - 1))
    table = level.cells.reshape(batch * cell_count, channels)
    if table.device.type != "cpu" or is_inference_on_gpu(table):
        return weighted_rows(table, torch.stack(cells, dim=-1) + first[..., None], torch.stack(weights, dim=-1))
    # One product of matrices for the four corners of each point would take most of its time to start.
    table = table.float()
    parts = [
        table.index_select(0, (cell + first).flatten()).view(*cell.shape, channels) * weight[..., None]
        for cell, weight in zip(cells, weights, strict=True)
    ]
    return parts[0] + parts[1] + parts[2] + parts[3]


def weighted_rows(table: Tensor, row: Tensor, weight: Tensor) -> Tensor:
    """Compute sums (…,C) of rows (…,K) of a table (V,C), weighted by (…,K), in float32.

    For inference on a GPU, the result has the precision of the table, although the sum is computed in float32:
    converting the table would take longer.
    """
    if is_inference_on_gpu(table):
        return weighted_rows_by_bags(table, row, weight.to(table.dtype))
    # float32 before the gather: its backward adds many rows into one, and bfloat16 would round small terms away.
    rows = table.float().index_select(0, row.flatten()).view(*row.shape, table.shape[1])
    if table.device.type == "cpu":  # a matrix product; on a GPU one kernel does all three operations
        return (weight[..., None, :] @ rows).squeeze(-2)
    return (rows * weight[..., None]).sum(-2)


def weighted_rows_by_bags(table: Tensor, row: Tensor, weight: Tensor) -> Tensor:
    """Compute `weighted_rows` without gathering the rows first; its gradient would need a sort of all rows.

    Weights and result have the precision of the table; shapes are those of `weighted_rows`.
    """
    bags = functional.embedding_bag(row.flatten(0, -2), table, per_sample_weights=weight.flatten(0, -2), mode="sum")
    return bags.view(*row.shape[:-1], table.shape[1])


class DeformableAttention(nn.Module):
    """Attention to a few sampling locations near the point of each query, on every level and in each head.

    `width` is a multiple of `heads`, and `points` is the number of sampling locations per head and level. Levels with
    the same number of channels share one value projection.
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
        """Let each head look in its own direction, at 1, 2, … cells distance, with equal weights."""
        for layer in [*self._value_layers().values(), self.output]:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        for layer in (self.offsets, self.weights):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        angle = torch.arange(self.heads) * (2 * math.pi / self.heads)
        direction = torch.stack([angle.cos(), angle.sin()], dim=-1)
        direction = direction / direction.abs().amax(-1, keepdim=True)
        offset = torch.arange(1, self.points + 1)[:, None] * direction[:, None, None, :]
        with torch.no_grad():
            self.offsets.bias.copy_(offset.expand(-1, self.levels, -1, -1).flatten())

    def forward(self, query: Tensor, points: Tensor, levels: Sequence[FeatureLevel]) -> Tensor:
        """Attend from queries (B,Q,width) at reference points (B,Q,2), px, to the feature levels."""
        batch, count, _ = query.shape
        grid = (batch, count, self.heads, self.levels, self.points)
        offsets = self.offsets(query).float().view(*grid, 2)
        weights = self.weights(query).float().view(batch, count, self.heads, -1).softmax(-1).view(grid)
        if deformable_triton.can_read(query):
            read = self._read_by_kernel
        elif query.device.type == "cpu" and not self.training:
            read = self._read_on_cpu
        else:
            read = self._project_then_read
        result: Tensor = self.output(read(points, offsets, weights, levels).flatten(2).to(query.dtype))
        return result

    def _read_by_kernel(
        self, points: Tensor, offsets: Tensor, weights: Tensor, levels: Sequence[FeatureLevel]
    ) -> Tensor:
        """`_project_then_read` without indices in memory: (B,Q,heads,width/heads)."""
        moves = [offset * level.stride for offset, level in zip(offsets.unbind(3), levels, strict=True)]
        locations = points[:, :, None, None, None, :] + torch.stack(moves, dim=3)
        shapes = [(level.height, level.width, level.stride) for level in levels]
        if is_inference_on_gpu(points):
            return deformable_triton.read_by_map(self._project_by_level(levels), locations, weights, shapes)
        values = torch.cat([self._project(level) for level in levels], dim=1)  # (B,S,width)
        return deformable_triton.read(torch.unflatten(values, -1, (self.heads, -1)), locations, weights, shapes)

    def _project(self, level: FeatureLevel) -> Tensor:
        """Values of the cells of a level: (B,S,width)."""
        values: Tensor = self.values[str(level.cells.shape[-1])](level.cells)
        return values

    def _project_by_level(self, levels: Sequence[FeatureLevel]) -> Tensor:
        """Values of all cells, (S·B,heads,width/heads): the first level of all images, then the next."""
        cells = [level.cells.flatten(0, 1) for level in levels]
        values = cells[0].new_empty(sum(map(len, cells)), self.output.in_features)
        for part, rows in zip(torch.split(values, [len(rows) for rows in cells]), cells, strict=True):
            layer = self._value_layers()[str(rows.shape[-1])]
            weight, bias = layer.weight.to(values.dtype), layer.bias.to(values.dtype)
            torch.addmm(bias, rows.to(values.dtype), weight.t(), out=part)
        return torch.unflatten(values, -1, (self.heads, -1))

    def _value_layers(self) -> dict[str, nn.Linear]:
        """The value projections by number of channels."""
        return {name: cast(nn.Linear, layer) for name, layer in self.values.items()}

    def _project_then_read(
        self, points: Tensor, offsets: Tensor, weights: Tensor, levels: Sequence[FeatureLevel]
    ) -> Tensor:
        """Project all cells, then sample the values: (B,Q,heads,width/heads)."""
        image = torch.arange(points.shape[0], device=points.device).view(-1, 1, 1, 1)
        head = torch.arange(self.heads, device=points.device).view(-1, 1)
        read: Tensor | float = 0.0
        for index, level in enumerate(levels):
            locations = points[:, :, None, None, :] + offsets[:, :, :, index] * level.stride
            cell, weight = bilinear_corners(locations, level)
            value = self._project(level)
            row = (image * value.shape[1] + cell.flatten(3)) * self.heads + head
            table = value.reshape(-1, value.shape[2] // self.heads)
            read = read + weighted_rows(table, row, (weight * weights[:, :, :, index, :, None]).flatten(3)).float()
        return cast(Tensor, read)

    def _read_on_cpu(self, points: Tensor, offsets: Tensor, weights: Tensor, levels: Sequence[FeatureLevel]) -> Tensor:
        """Levels of the same channels in one pass, in the faster order: (B,Q,heads,width/heads)."""
        image = torch.arange(points.shape[0], device=points.device).view(-1, 1, 1, 1)
        head = torch.arange(self.heads, device=points.device).view(-1, 1)
        read: Tensor | float = 0.0
        for name, layer in self._value_layers().items():
            chosen = [index for index, level in enumerate(levels) if str(level.cells.shape[2]) == name]
            group = [levels[index] for index in chosen]
            cell, weight = corners_on_levels(points, offsets[:, :, :, chosen], weights[:, :, :, chosen], group)
            cells = torch.cat([level.cells for level in group], dim=1)  # (B,S,C)
            row = image * cells.shape[1] + cell
            # The sum is linear, so its order is free.
            if self._projects_first(cells.shape[1], cell.shape[-1]):
                table = layer(cells.flatten(0, 1)).view(-1, layer.out_features // self.heads)
                read = read + weighted_rows(table, row * self.heads + head, weight)
            else:
                features = weighted_rows(cells.flatten(0, 1), row, weight).transpose(1, 2)  # (B,heads,Q,C)
                projected = features @ layer.weight.view(self.heads, -1, layer.in_features).transpose(1, 2)
                bias = weight.sum(-1, keepdim=True) * layer.bias.view(self.heads, -1)
                read = read + projected.transpose(1, 2) + bias
        return cast(Tensor, read)

    def _projects_first(self, cells: int, rows: int) -> bool:
        """Return True if projecting all cells of a level takes less time than reading whole rows of features.

        Both times are proportional to the channels of the level. A graph is exported once for any number of queries.
        """
        width = self.output.in_features
        return cells * width < TYPICAL_QUERIES * self.heads * rows * ROW_COST


def corners_on_levels(
    points: Tensor, offsets: Tensor, weights: Tensor, levels: Sequence[FeatureLevel]
) -> tuple[Tensor, Tensor]:
    """Return the cells that the heads read on several levels, and their weights: `bilinear_corners` in one pass.

    Points are (B,Q,2) px, offsets (B,Q,heads,L,points,2) in cells of the level, weights (B,Q,heads,L,points) those of
    the attention. The results are (B,Q,heads,4·L·points): indices into the concatenated cells of all levels, and
    products of both weights.

    It is written for a CPU, where an operation on a few numbers takes as long as one on thousands, and broadcasting
    over short rows takes longer than over long ones. Therefore axes and corners are the first dimensions.
    """
    sizes = torch.tensor([(level.width, level.height) for level in levels]).T  # (2,L)
    *first, total = accumulate((level.height * level.width for level in levels), initial=0)
    stride = points.new_tensor([level.stride for level in levels])
    location = points.movedim(-1, 0)[..., None, None, None] / stride[:, None] + offsets.movedim(-1, 0) - 0.5
    before = location.floor()
    cells = torch.stack([before, before + 1])  # (2 corners, 2 axes, B,Q,heads,L,points)
    nearest = cells.clamp(min=0).minimum((sizes - 1).to(location.dtype).view(2, 1, 1, 1, -1, 1))
    parts = torch.stack([before + 1 - location, location - before]) * (cells == nearest)
    (column, row), (across, down) = nearest.unbind(1), parts.unbind(1)
    cell = (row * sizes[0, :, None] + torch.tensor(first)[:, None])[:, None] + column  # (2,2,B,Q,heads,L,points)
    weight = (down * weights)[:, None] * across
    # As in `bilinear_corners`: NaN may give any cell, but one of this map.
    cell = cell.long().clamp(0, total - 1)
    return cell.movedim((0, 1), (3, 4)).flatten(3), weight.movedim((0, 1), (3, 4)).flatten(3)
