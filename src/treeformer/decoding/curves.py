"""Edges become curves that follow the plant.

The curve between two nodes is found by dynamic programming: at equal steps along the straight edge it may lie at
integer offsets to either side. It has the least cost among all curves whose offset changes by at most `MAX_TURN` per
step. The cost per px is high where the map of center lines shows no line or a line of another direction, so that it is
the shortest way, which is straight, where there is no line at all. Offsets are then refined by a parabola through the
costs beside the curve, and points that are not needed for an accuracy of `TOLERANCE_PX` are left out.

All lengths are px of the image at its working size. There are E edges from `start` (E,2) to `end` (E,2), T inner points
of each curve and K offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from treeformer._util.arrays import BoolArray, Float32Array, FloatArray, IntArray
from treeformer.decoding.line_map import LineTile, sample_lines
from treeformer.skeleton import Skeleton
from treeformer.skeleton.attribute_transfer import apply_resampling
from treeformer.skeleton.branches import Branches
from treeformer.skeleton.resampling import Resampling, douglas_peucker

STEP_PX = 4.0  # longest step along an edge
SHORTEST_PX = 9.0  # shorter edges stay straight
REACH = 12  # largest offset, px
MAX_TURN = 2  # largest change of the offset per step, px
FLOOR = 0.05  # presence below which there is no line
LENGTH_COST, DIRECTION_COST = 0.3, 0.5  # per px: of the way itself, and of a line at a right angle to it
LEAST_PRESENCE = 0.3  # mean along a curve; an edge with less line stays straight
LEAST_BEND_PX = 1.0  # curves that stay closer to the straight edge are not worth further nodes
TOLERANCE_PX = 0.5


class Curves(NamedTuple):
    """Curves of E edges, each with T inner points at equal steps along the straight edge."""

    points: FloatArray  # (E,T,2) px
    presence: FloatArray  # (E,) mean probability of a line at these points


def bend(forest: Skeleton, tiles: Sequence[LineTile], scale: FloatArray) -> Skeleton:
    """Replace straight edges by curves along the predicted center lines, by further nodes of degree 2.

    The forest is in px of the original image, and `scale` (2,) is its px per px of the image at its working size, along
    x and y. `tiles` are all tiles of the image. Nodes, roots, scores and radii of the forest stay; those of new nodes
    are interpolated.
    """
    start, end = (forest.nodes[forest.edges] / scale).transpose(1, 0, 2)
    steps = step_counts(start, end)
    edge_of: list[IntArray] = [np.zeros(0, np.intp)]
    shares: list[FloatArray] = [np.zeros(0)]
    places: list[FloatArray] = [np.zeros((0, 2))]
    for tile in tiles:
        owned = np.flatnonzero(tile.owns((start + end) / 2) & (steps > 1))
        if not len(owned):
            continue
        lines = tile.dense()
        lines[..., 0] = likelihood(lines[..., 0])
        for count in np.unique(steps[owned]).tolist():
            edges = owned[steps[owned] == count]
            ends = start[edges] - tile.corner, end[edges] - tile.corner
            curves = trace(*ends, lines, count)
            edge, step = np.nonzero(needed(*ends, curves))
            edge_of.append(edges[edge])
            shares.append((step + 1) / count)
            places.append(curves.points[edge, step] + tile.corner)
    if len(edge_of) == 1:
        return forest
    place = np.concatenate(places) * scale
    return _with_inner_nodes(forest, np.concatenate(edge_of), np.concatenate(shares), place)


def step_counts(start: FloatArray, end: FloatArray) -> IntArray:
    """Return the numbers of steps (E,): powers of two, so that many edges can be traced together."""
    length = np.hypot(*(end - start).T)
    counts: IntArray = (2 ** np.ceil(np.log2(np.maximum(length / STEP_PX, 1)))).astype(np.intp)
    return np.where(length < SHORTEST_PX, 1, counts)


def trace(start: FloatArray, end: FloatArray, lines: Float32Array, steps: int) -> Curves:
    """Find the curves of least cost with `steps` − 1 inner points; `steps` is at least 2.

    `lines` (h+2,w+2,3) is as `LineTile.dense`, but with the likelihood instead of the presence.
    """
    offsets = np.arange(-REACH, REACH + 1, dtype=np.float64)
    along = end - start
    length = np.maximum(np.hypot(*along.T), 1e-9)
    along = along / length[:, None]
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    share = np.arange(1, steps) / steps
    base = start[:, None] + share[:, None] * (end - start)[:, None]
    x, y = (base[:, :, axis, None] + offsets * across[:, axis, None, None] for axis in (0, 1))  # (E,T,K)
    node, step = costs(sample_lines(lines, x, y), along, length / steps)
    chosen = cheapest(step)
    refined = chosen - REACH + _parabola(node, chosen)
    presence = (FLOOR ** np.take_along_axis(node, chosen[..., None], 2)).mean((1, 2))
    return Curves(base + refined[..., None] * across[:, None], presence)


def likelihood(presence: Float32Array) -> Float32Array:
    """Return logarithms of probabilities (…), scaled to 0 at `FLOOR` and below, and 1 at a probability of 1.

    Across a line this is a parabola. Interpolating it, instead of the probability, keeps the place of its top.
    """
    scaled: Float32Array = (1 - np.log(np.maximum(presence, FLOOR)) / np.log(FLOOR)).astype(np.float32)
    return scaled


def costs(lines: Float32Array, along: FloatArray, step_px: FloatArray) -> tuple[Float32Array, Float32Array]:
    """Return the costs of curves: `node` (E,T,K) and `step` (2·`MAX_TURN`+1,E,T,K).

    `lines` (E,T,K,3) has the likelihood, p·cos 2t and p·sin 2t at every step and offset. `along` (E,2) are unit vectors
    of the edges, `step_px` (E,) the lengths of a step along them. `node` is the cost per px of a place: 0 on a line, 1
    where there is none. `step` is the cost of a step to that place, for each change of the offset from the lowest to
    the highest.
    """
    likely, across_x, across_y = np.ascontiguousarray(np.moveaxis(lines, -1, 0))
    node = 1 - likely
    turns = np.arange(-MAX_TURN, MAX_TURN + 1)[:, None]
    # Twice the angle of each step against the x axis; positive offsets lie on the side of y for an edge along x.
    twice = 2 * (np.arctan2(along[:, 1], along[:, 0]) + np.arctan2(turns, step_px))  # (turns,E)
    cosine, sine, way = (
        part.astype(np.float32)[..., None, None] for part in (np.cos(twice), np.sin(twice), np.hypot(step_px, turns))
    )
    # A line at a right angle to the step has the full cost, one along it none.
    per_px = LENGTH_COST + node + DIRECTION_COST / 2 * np.hypot(across_x, across_y)
    step: Float32Array = (per_px - DIRECTION_COST / 2 * (across_x * cosine + across_y * sine)) * way
    return node, step


def cheapest(step: Float32Array) -> IntArray:
    """Return indices (E,T) of the offsets of least total cost, given `step` of `costs`. Both ends have the offset 0."""
    _, edges, count, width = step.shape
    turns = np.arange(-MAX_TURN, MAX_TURN + 1)
    total = np.full((edges, width + 2 * MAX_TURN), np.inf, np.float32)  # padded: offsets beyond the reach cost infinity
    total[:, REACH + MAX_TURN] = 0.0
    before = sliding_window_view(total, width, axis=1)[:, ::-1].swapaxes(0, 1)  # (turns,E,K): where a step comes from
    came_from = np.zeros((count, edges, width), np.int8)
    for index in range(count):
        candidates = before + step[:, :, index]
        came_from[index] = candidates.argmin(0)
        total[:, MAX_TURN:-MAX_TURN] = candidates.min(0)
    # The last step leads to the offset 0. Its cost is the same for each place but for its length, which is neglected.
    end = REACH + MAX_TURN - turns
    offset = end[total[:, end].argmin(-1)] - MAX_TURN
    chosen = np.zeros((edges, count), np.intp)
    row = np.arange(edges)
    for index in reversed(range(count)):
        chosen[:, index] = offset
        offset = offset - turns[came_from[index, row, offset]]
    return chosen


def _parabola(node: Float32Array, chosen: IntArray) -> FloatArray:
    """Return (E,T) the distance, at most half a px, to the lowest place of a parabola through three costs."""
    inner = np.clip(chosen, 1, node.shape[2] - 2)
    low, middle, high = (np.take_along_axis(node, (inner + k)[..., None], 2)[..., 0] for k in (-1, 0, 1))
    curvature = low - 2 * middle + high
    is_valley = (inner == chosen) & (curvature > 1e-3) & (middle < 1)
    shift: FloatArray = (low - high) / (2 * np.maximum(curvature, 1e-3))
    return np.where(is_valley, shift.clip(-0.5, 0.5), 0.0)


def needed(start: FloatArray, end: FloatArray, curves: Curves) -> BoolArray:
    """Return a mask (E,T) of the points of curves that a simplified curve needs.

    It is False for all points of a curve that is nearly straight, or shows too little line.
    """
    edges, count = curves.points.shape[:2]
    points = np.concatenate([start[:, None], curves.points, end[:, None]], axis=1)
    along = (end - start) / np.maximum(np.hypot(*(end - start).T), 1e-9)[:, None]
    away = points - start[:, None]
    distance = np.abs(away[..., 0] * along[:, None, 1] - away[..., 1] * along[:, None, 0]).max(1)
    size = count + 2
    branches = Branches(np.arange(edges * size), np.zeros(0, np.intp), np.arange(edges + 1) * size)
    keep = douglas_peucker(points.reshape(-1, 2), branches, TOLERANCE_PX).reshape(edges, size)[:, 1:-1]
    worthwhile: BoolArray = keep & ((distance >= LEAST_BEND_PX) & (curves.presence >= LEAST_PRESENCE))[:, None]
    return worthwhile


def _with_inner_nodes(forest: Skeleton, edge: IntArray, share: FloatArray, place: FloatArray) -> Skeleton:
    """Return a forest with new nodes at `place` (M,2) px that divide edges (M,) at shares (M,) of their length."""
    order = np.lexsort((share, edge))
    edge, share, place = edge[order], share[order], place[order]
    old, node = np.arange(len(forest)), len(forest) + np.arange(len(edge))
    inner = np.bincount(edge, minlength=len(forest.edges))
    # Along each edge: its first node, the new ones, and its second node.
    stops = np.insert(node, np.cumsum(inner) - inner, forest.edges[:, 0])
    last = np.cumsum(inner + 1) - 1
    ends = np.append(stops[1:], -1)
    ends[last] = forest.edges[:, 1]
    resampling = Resampling(
        np.concatenate([old, forest.edges[edge, 0]]),
        np.concatenate([old, forest.edges[edge, 1]]),
        np.concatenate([np.zeros(len(old)), share]),
        np.stack([stops, ends], axis=1),
        np.repeat(np.arange(len(forest.edges)), inner + 1),
    )
    divided = apply_resampling(forest, resampling)
    return divided.replace(nodes=np.concatenate([forest.nodes, place]))
