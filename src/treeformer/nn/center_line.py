"""A map of the center lines of all branches: probability of a line and its tangent, with cells of 2 px.

The probability falls with the distance d of a cell from the nearest line as exp(−d²/2s²). Its logarithm is a parabola
across the line, so the place of the line can be read from a few cells. The tangent has no direction. It is encoded as
(cos 2t, sin 2t) with the angle t between line and x axis. Its length is below 1 if the network is unsure.

The ground truth of an image is a list of short straight pieces of its curves, (x, y, u, v) px each: the middle, and the
vector from there to one end. They are drawn on the device of the network.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from treeformer._util.arrays import Float32Array
from treeformer.nn.fine_map import FineMap
from treeformer.skeleton import Skeleton

LINE_STRIDE = 2
"""Side of a cell, px."""
HIDDEN = 32
PRIOR = 0.02  # probability of a line in a cell before training
SPREAD = 0.75  # s, in cells
REACH = 2  # a piece is drawn in the cells up to so many rows and columns from its middle
PIECE_PX = 4.0  # the longest piece; with its width it fits into that reach
COHERENT = 0.9  # length of the mean tangent below which lines of several directions meet in a cell
SMOOTH_BELOW = 0.1  # errors of the tangent below this are penalized by their square


class CenterLineHead(FineMap):
    """Predict the map from the finest feature level, whose cells are `stride` px apart."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__(channels, HIDDEN, 3, stride // LINE_STRIDE, prior=PRIOR)

    def forward(self, fine: Tensor, stride: int = 4) -> Tensor:
        """Map the finest level (B,channels,h,w) to (B,3,H,W): log-odds of a line, cos 2t and sin 2t."""
        return self.predict(fine, stride)


def line_pieces(curves: Skeleton, limit: int) -> Float32Array:
    """Cut the edges of a skeleton into pieces of at most `PIECE_PX`: (limit,4) px, middle and half, NaN in unused rows.

    The edges of the skeleton follow the curves. If there are more pieces than `limit`, some are left out at equal
    intervals.

    Example:
        >>> line_pieces(Skeleton([(0, 1), (8, 1)], [(0, 1)]), 3).tolist()
        [[2.0, 1.0, 2.0, 0.0], [6.0, 1.0, 2.0, 0.0], [nan, nan, nan, nan]]
    """
    result = np.full((limit, 4), np.nan, np.float32)
    count = np.ceil(curves.edge_length / PIECE_PX).astype(np.intp)
    edge = np.repeat(np.arange(len(count)), count)
    rank = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count)
    if len(edge) > limit:
        chosen = np.linspace(0, len(edge) - 1, limit).astype(np.intp)
        edge, rank = edge[chosen], rank[chosen]
    start, end = curves.nodes[curves.edges[edge]].transpose(1, 0, 2)
    half = (end - start) / (2 * count[edge, None])
    result[: len(edge), :2] = start + half * (2 * rank[:, None] + 1)
    result[: len(edge), 2:] = half
    return result


def line_targets(pieces: Tensor, height: int, width: int, stride: int = LINE_STRIDE) -> tuple[Tensor, Tensor, Tensor]:
    """Draw pieces (B,K,4) px, see `line_pieces`, with NaN for padding, on cells with sides of `stride` px.

    Return the presence (B,height,width) in [0,1]; the tangent (B,2,height,width), the unit vector of the angle 2t or
    zero if no line is near; and `is_known` (B,height,width) bool, which is True near lines of one direction: not in
    crossings, bends and forks.
    """
    real = pieces[..., :1].isfinite()
    middle, half = torch.split(pieces.nan_to_num() / stride, 2, dim=-1)
    reach = half.square().sum(-1, keepdim=True).sqrt()  # (B,K,1)
    along_x, along_y = torch.split(half / reach.clamp(min=1e-6), 1, dim=-1)
    step = torch.arange(-REACH, REACH + 1, device=pieces.device)
    across_cells, down_cells = step.repeat(len(step)), step.repeat_interleave(len(step))
    column, row = middle[..., :1].floor().long() + across_cells, middle[..., 1:].floor().long() + down_cells
    x, y = column + 0.5 - middle[..., :1], row + 0.5 - middle[..., 1:]  # (B,K,cells), from the middle
    across = x * along_y - y * along_x
    beyond = ((x * along_x + y * along_y).abs() - reach).clamp(min=0)
    inside = real & (column >= 0) & (column < width) & (row >= 0) & (row < height)
    weight = torch.exp((across.square() + beyond.square()) / (-2 * SPREAD**2)) * inside
    cell = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).flatten(1)
    blank = weight.new_zeros(len(pieces), height * width)

    def total(part: Tensor) -> Tensor:
        drawn: Tensor = blank.scatter_add(1, cell, (weight * part).flatten(1))
        return drawn

    presence = blank.scatter_reduce(1, cell, weight.flatten(1), "amax")
    cosine, sine = total(along_x.square() - along_y.square()), total(2 * along_x * along_y)
    length = (cosine.square() + sine.square()).sqrt()
    is_known = length > COHERENT * total(real.float()).clamp(min=1e-6)
    tangent = torch.stack([cosine, sine], dim=1) / length.clamp(min=1e-6)[:, None]
    shape = (-1, height, width)
    return presence.view(shape), tangent.view(len(pieces), 2, height, width), is_known.view(shape)


def line_losses(lines: Tensor, pieces: Tensor) -> tuple[Tensor, Tensor]:
    """Compute two scalar losses of a map (B,3,H,W) against pieces (B,K,4) px, summed over the cells.

    The first is the cross entropy of the presence p, weighted by (p − target)², so that the many empty cells do not
    count once they are predicted. The second is the smooth L1 loss of the tangent, weighted by the target.
    """
    presence, tangent, is_known = line_targets(pieces, *lines.shape[-2:])
    logits = lines[:, 0]
    entropy = functional.binary_cross_entropy_with_logits(logits, presence, reduction="none")
    error = functional.smooth_l1_loss(lines[:, 1:], tangent, reduction="none", beta=SMOOTH_BELOW)
    found = (entropy * (logits.sigmoid() - presence).square()).sum()
    return found, (error * (presence * is_known)[:, None]).sum()


def in_bytes(lines: Tensor) -> Tensor:
    """Round a map (B,3,H,W) to bytes (B,H,W,3), to copy and keep it.

    They are 255 times the probability of a line, and 127.5 + 127.5 times cos 2t and sin 2t.
    """
    tangent = lines[:, 1:].clamp(-1, 1) / 2 + 0.5
    return (torch.cat([lines[:, :1].sigmoid(), tangent], dim=1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
