"""Target maps of the two-stage method, drawn on the device: node confidence and branch direction.

Maps have `size` (h, w) in cells of `stride` px.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from treeformer.errors import TreeformerError
from treeformer.nn.heat_map import heat_targets
from treeformer.nn.targets import Targets

# Standard deviation of a Gaussian whose full width at half maximum is 1.
SIGMA_OF_DIAMETER = 1 / (2 * math.sqrt(2 * math.log(2)))


class Maps(NamedTuple):
    """Maps of C classes, predicted or target."""

    nodes: Tensor  # (B,C,h,w) node confidence
    directions: Tensor  # (B,C,2,h,w) x and y of the branch direction, which points away from the root


@torch.no_grad()
def target_maps(
    targets: Targets, classes: int, size: tuple[int, int], stride: int, node_diameter_px: float, edge_width_px: float
) -> Maps:
    """Draw the target maps of a batch whose targets have `parent` and `kind`.

    Kinds from classes − 1 on form one class. The diameter is that of the disc around a node in which the confidence is
    at least 1/2, the width the full one of the band around an edge in which the direction is given.
    """
    if targets.parent is None or targets.kind is None:
        raise TreeformerError("the targets have no parents and kinds: make them with Targets.from_skeletons")
    kind = targets.kind.clamp(max=classes - 1)
    sigma = max(node_diameter_px / stride, 1.0) * SIGMA_OF_DIAMETER
    nodes = [heat_targets(targets.points, targets.mask & (kind == c), *size, stride, sigma) for c in range(classes)]
    directions = direction_targets(targets.points, targets.parent, kind, classes, size, stride, edge_width_px)
    return Maps(torch.stack(nodes, dim=1), directions)


def direction_targets(
    points: Tensor,
    parent: Tensor,
    kind: Tensor,
    classes: int,
    size: tuple[int, int],
    stride: int,
    edge_width_px: float,
) -> Tensor:
    """Draw unit vectors that point away from the root in a band around each edge, (B,classes,2,h,w).

    Points are (B,M,2) px, parents (B,M), −1 for none, and kinds (B,M) the class of the edge from the parent.
    Overlapping bands are averaged, and all other cells are 0. A cell belongs to an edge if the distance of its center
    from the segment is at most half the width, and at least half a cell, so that no edge falls between the cells. Only
    cells near an edge are visited: at every step along the axis on which the edge is longer, a row of cells across it.
    The number of steps differs between edges, so the host waits once for the device to read their sum.
    """
    height, width = size
    above = parent.clamp(min=0)[..., None].expand(-1, -1, 2)
    start, end = points.gather(1, above).flatten(0, 1) / stride, points.flatten(0, 1) / stride
    layer = (torch.arange(len(points), device=points.device)[:, None] * classes + kind).flatten()
    half = max(edge_width_px / stride / 2, 0.5)

    # u is the axis along which an edge is longer, v the other one. v changes by at most 1 per step of u.
    step = end - start
    steep = step[:, 1].abs() > step[:, 0].abs()
    u0, v0 = torch.where(steep[:, None], start.flip(-1), start).unbind(-1)
    du, dv = torch.where(steep[:, None], step.flip(-1), step).unbind(-1)
    low, high = torch.minimum(u0, u0 + du), torch.maximum(u0, u0 + du)
    limit = torch.where(steep, height, width)
    first = (low - half).floor().clamp(min=0)
    last = torch.minimum((high + half).floor(), limit - 1)
    counts = torch.where(parent.flatten() >= 0, (last - first + 1).clamp(min=0), 0).long()
    edge = torch.repeat_interleave(torch.arange(len(counts), device=points.device), counts)
    before = counts.cumsum(0) - counts
    column = first[edge].long() + torch.arange(len(edge), device=points.device) - before[edge]

    slope = dv / torch.where(du == 0, 1.0, du)
    center = (column + 0.5).clamp(low[edge], high[edge])
    line = v0[edge] + slope[edge] * (center - u0[edge])
    reach = math.ceil(half * math.sqrt(2)) + 1
    across = torch.arange(-reach, reach + 1, device=points.device)
    row = line.floor().long()[:, None] + across
    x = torch.where(steep[edge, None], row, column[:, None])
    y = torch.where(steep[edge, None], column[:, None], row)

    along = step[edge, None]
    offset = torch.stack([x, y], dim=-1) + 0.5 - start[edge, None]
    length = along.square().sum(-1)
    share = ((offset * along).sum(-1) / length.clamp(min=1e-12)).clamp(0, 1)
    distance = (offset - share[..., None] * along).square().sum(-1)
    inside = (distance <= half**2) & (x >= 0) & (x < width) & (y >= 0) & (y < height) & (length > 0)
    cell = (layer[edge, None] * height + y.clamp(0, height - 1)) * width + x.clamp(0, width - 1)
    unit = functional.pad(along / length.clamp(min=1e-12).sqrt()[..., None], (0, 1), value=1.0)
    total = points.new_zeros(len(points) * classes * height * width, 3)
    total.index_add_(0, cell.flatten(), (unit * inside[..., None]).flatten(0, 1))
    mean = total[:, :2] / total[:, 2:].clamp(min=1)
    return mean.view(len(points), classes, height, width, 2).movedim(-1, 2).contiguous()


def map_errors(predicted: Maps, target: Maps) -> tuple[Tensor, Tensor]:
    """Compute the mean squared errors of both maps over all cells, channels and images."""
    nodes, directions = ((ours.float() - true).square().mean() for ours, true in zip(predicted, target, strict=True))
    return nodes, directions
