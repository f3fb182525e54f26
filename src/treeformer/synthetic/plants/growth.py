"""Curved axes, and their assembly into a skeleton with equally spaced nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton import Axis, Plant, Skeleton
from treeformer.synthetic.plants.lsystem import on_grid
from treeformer.synthetic.rng import Rng

# Axes grow in steps of STEP_PX. Nodes are then placed about NODE_SPACING_PX apart, as in the paper's root data set.
STEP_PX = 2.0
NODE_SPACING_PX = 8.0
# Side axes start at multiples of this many steps, which is the minimum distance between two junctions.
JUNCTION_STEPS = 2
# Shorter axes are dropped, as are the parts of a plant outside the frame.
MIN_AXIS_STEPS = 3
FRAME_MARGIN_PX = 1.0
# A new random deviation of the heading is drawn every WANDER_STEPS steps, with linear interpolation in between.
WANDER_STEPS = 12

DOWN, UP, RIGHT, LEFT = math.pi / 2, -math.pi / 2, 0.0, math.pi

Point = tuple[float, float]
Values = FloatArray | float  # one value for all axes, or (K,) one value per axis


@dataclass(frozen=True, slots=True)
class GrownAxis:
    """One axis of a plant."""

    points: FloatArray  # (M,2) px, from base to tip, STEP_PX apart
    base_px: float  # radius at the base, px
    tip_px: float  # radius at the tip, px
    # index of the axis it grows from, which comes earlier in the same list; None at the base of a plant
    parent: int | None = None
    at: int = 0  # index of the parent's point at which it starts
    label: str = ""  # kind of axis, such as "lateral" or "trunk"
    plant: int = 0
    grown: int = 0  # number of points before it was cut at the frame. The radius tapers over all of these.


def curves(
    rng: Rng,
    start: FloatArray,
    heading: FloatArray,
    length: FloatArray,
    towards: Values,
    pull: Values,
    wander: Values,
) -> list[FloatArray]:
    """Grow K smooth paths, (M,2) px each, from their first points (K,2), directions (K,) and lengths (K,).

    A path bends towards the direction `towards`: it completes the share `pull` of the remaining turn per px. `wander`
    is the standard deviation of random changes of direction, radians.
    """
    count = len(start)
    steps = np.maximum(np.floor(length / STEP_PX + 0.5).astype(np.intp), 1)
    longest = int(steps.max(initial=1))
    towards, pull, wander = ((np.zeros(count) + value)[:, None] for value in (towards, pull, wander))
    knots = rng.bell(count, longest // WANDER_STEPS + 2) * wander
    knots[:, 0] = 0.0
    step = np.arange(longest)
    before, t = step // WANDER_STEPS, (step % WANDER_STEPS) / WANDER_STEPS
    deviation = knots[:, before] + t * (knots[:, before + 1] - knots[:, before])
    # Turn in the shorter of the two directions.
    turn = heading[:, None] - towards
    turn -= 2 * math.pi * np.floor(turn / (2 * math.pi) + 0.5)
    angle = towards + turn * np.exp(-pull * (step * STEP_PX)) + deviation
    paths = np.empty((count, longest + 1, 2))
    paths[:, 0] = start
    for axis, component in enumerate((np.cos(angle), np.sin(angle))):
        np.cumsum(component, axis=1, out=paths[:, 1:, axis])
        paths[:, 1:, axis] *= STEP_PX
        paths[:, 1:, axis] += start[:, None, axis]
    return [path[: last + 1] for path, last in zip(paths, steps.tolist(), strict=True)]


def curve(
    rng: Rng, start: Point, heading: float, length: float, towards: float, pull: float, wander: float
) -> FloatArray:
    """Grow one smooth path (M,2), px; see `curves`."""
    return curves(rng, np.asarray([start]), np.asarray([heading]), np.asarray([length]), towards, pull, wander)[0]


def side_axes(
    rng: Rng,
    axes: list[GrownAxis],
    parents: Sequence[int],
    shares: FloatArray,
    *,
    turn: FloatArray,
    length: FloatArray,
    base_px: Values,
    tip_px: Values,
    label: str,
    towards: Values = DOWN,
    pull: Values = 0.0,
    wander: Values = 0.0,
) -> range:
    """Grow K side axes from the axes `parents` (K,), add them and return their indices; see `curves`.

    `shares` (K,) are positions along the parent, from 0 (base) to 1 (tip). `turn` (K,) is the angle to its direction
    there, radians, positive to the right. The radius at the tip is limited to that at the base.
    """
    first = len(axes)
    if len(parents) == 0:
        return range(first, first)
    positions, starts, headings = [], [], []
    for parent, share in zip(parents, shares.tolist(), strict=True):
        points = axes[parent].points
        last = len(points) - 1
        at = min(int(share * last) // JUNCTION_STEPS * JUNCTION_STEPS, last)
        (x0, y0), (x1, y1) = points[max(at - 2, 0)].tolist(), points[min(at + 2, last)].tolist()
        positions.append(at)
        starts.append(points[at].tolist())
        headings.append(math.atan2(y1 - y0, x1 - x0))
    paths = curves(rng, np.asarray(starts), np.asarray(headings) + turn, length, towards, pull, wander)
    base_radii, tip_radii = ((np.zeros(len(paths)) + value).tolist() for value in (base_px, tip_px))
    axes.extend(
        GrownAxis(path, base, min(tip, base), parent, at, label, axes[parent].plant, len(path))
        for path, base, tip, parent, at in zip(paths, base_radii, tip_radii, parents, positions, strict=True)
    )
    return range(first, len(axes))


def main_axis(axes: list[GrownAxis], points: FloatArray, base_px: float, tip_px: float, label: str, plant: int) -> int:
    """Add an axis that starts at the base of a plant and return its index; `points` (M,2) lie STEP_PX apart."""
    axes.append(GrownAxis(points, base_px, min(tip_px, base_px), None, 0, label, plant, len(points)))
    return len(axes) - 1


def assemble(axes: Sequence[GrownAxis], size: tuple[int, int], metadata: Mapping[str, Any]) -> Skeleton:
    """Assemble axes into a skeleton: cut them at the frame and place nodes at equal intervals.

    Between two keypoints (base, junctions, tip) the intervals are equal and as close to NODE_SPACING_PX as possible.
    The result is that of `Skeleton.resample`, without the cost of a dense skeleton.
    """
    axes = _cut_at_frame(axes, size)
    if not axes:
        return Skeleton([], [], image_size=size, metadata=metadata)
    junctions: list[set[int]] = [set() for _ in axes]
    for axis in axes:
        if axis.parent is not None:
            junctions[axis.parent].add(axis.at)
    positions: list[float] = []  # of each node: steps along its axis
    axis_of_node: list[int] = []
    edges: list[tuple[int, int]] = []
    edge_axis: list[int] = []
    axis_nodes: list[list[int]] = []
    node_at: list[dict[int, int]] = []  # of each axis: the node at each of its keypoints
    roots: dict[int, int] = {}  # the root node of each plant
    for index, axis in enumerate(axes):
        keypoints = sorted({0, *junctions[index], len(axis.points) - 1})
        new_positions, keypoint_ranks = _equal_intervals(keypoints)
        shared = roots.get(axis.plant) if axis.parent is None else node_at[axis.parent][axis.at]
        line = list(range(len(positions), len(positions) + len(new_positions)))
        if shared is None:
            roots[axis.plant] = line[0]
        else:
            new_positions, line = new_positions[1:], [shared, *line[:-1]]
        positions += new_positions
        axis_of_node += [index] * len(new_positions)
        edges += pairwise(line)
        edge_axis += [index] * (len(line) - 1)
        axis_nodes.append(line)
        node_at.append({keypoint: line[rank] for keypoint, rank in zip(keypoints, keypoint_ranks, strict=True)})
    nodes, radius = _points_at(axes, np.asarray(axis_of_node, dtype=np.intp), np.asarray(positions))
    plant = np.asarray([axis.plant for axis in axes], dtype=np.intp)
    return Skeleton(
        nodes,
        edges,
        root=list(roots.values()),
        radius=radius,
        axes=_axis_records(axes, axis_nodes),
        edge_axis=edge_axis,
        plant=plant[axis_of_node],
        plant_records=[Plant() for _ in roots],
        image_size=size,
        metadata=metadata,
    )


def _axis_records(axes: Sequence[GrownAxis], axis_nodes: Sequence[Sequence[int]]) -> list[Axis]:
    orders: list[int] = []
    for axis in axes:
        orders.append(0 if axis.parent is None else orders[axis.parent] + 1)
    return [
        Axis(tuple(nodes), "", axis.label, "", axis.parent, axis.plant, {"branch_order": str(order)})
        for axis, nodes, order in zip(axes, axis_nodes, orders, strict=True)
    ]


def _points_at(axes: Sequence[GrownAxis], axis: IntArray, position: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return coordinates (N,2) and radii (N,) at positions (in steps) along axes, on the coordinate grid."""
    lengths = np.asarray([len(a.points) for a in axes], dtype=np.intp)
    begin = np.cumsum(lengths) - lengths
    points = np.concatenate([a.points for a in axes])
    before = np.minimum(position.astype(np.intp), lengths[axis] - 2)
    t = (position - before)[:, None]
    before += begin[axis]
    base, tip, grown = (np.asarray(v)[axis] for v in zip(*((a.base_px, a.tip_px, a.grown) for a in axes), strict=True))
    radius = base + (tip - base) * position / (grown - 1)
    return on_grid(points[before] + t * (points[before + 1] - points[before])), on_grid(radius)


def _cut_at_frame(axes: Sequence[GrownAxis], size: tuple[int, int]) -> list[GrownAxis]:
    """Cut each axis where it first leaves the frame; drop axes that start outside or become too short.

    Plants are renumbered from left to right by their base.
    """
    lengths = np.asarray([len(axis.points) for axis in axes], dtype=np.intp)
    begin = np.cumsum(lengths) - lengths
    points = np.concatenate([axis.points for axis in axes])
    x, y = points[:, 0], points[:, 1]
    low, right, bottom = FRAME_MARGIN_PX, size[0] - FRAME_MARGIN_PX, size[1] - FRAME_MARGIN_PX
    outside = (x < low) | (y < low) | (x > right) | (y > bottom)
    first_out = np.minimum.reduceat(np.where(outside, np.arange(len(points)), len(points)), begin) - begin
    kept_points = np.minimum(first_out, lengths).tolist()
    new_index: dict[int, int] = {}
    kept: list[GrownAxis] = []
    for index, axis in enumerate(axes):
        parent = None if axis.parent is None else new_index.get(axis.parent)
        lost = axis.parent is not None and (parent is None or axis.at >= kept_points[axis.parent])
        if lost or kept_points[index] <= MIN_AXIS_STEPS:
            continue
        new_index[index] = len(kept)
        kept.append(replace(axis, points=axis.points[: kept_points[index]], parent=parent))
    base_x = {axis.plant: axis.points[0, 0] for axis in kept if axis.parent is None}
    rank = {plant: new for new, plant in enumerate(sorted(base_x, key=lambda plant: (base_x[plant], plant)))}
    return [axis if rank[axis.plant] == axis.plant else replace(axis, plant=rank[axis.plant]) for axis in kept]


def _equal_intervals(keypoints: Sequence[int]) -> tuple[list[float], list[int]]:
    """Divide an axis into equal intervals between its keypoints, given in ascending steps from the base.

    Return the positions of all nodes, in steps, and the index of each keypoint among them.
    """
    positions = [float(keypoints[0])]
    keypoint_ranks = [0]
    for begin, end in pairwise(keypoints):
        intervals = max(1, math.floor((end - begin) * STEP_PX / NODE_SPACING_PX + 0.5))
        step = (end - begin) / intervals
        positions += [begin + step * k for k in range(1, intervals)]
        positions.append(float(end))
        keypoint_ranks.append(len(positions) - 1)
    return positions, keypoint_ranks


def alternate_sides(rng: Rng, count: int) -> FloatArray:
    """Draw sides, -1 or 1, that mostly alternate."""
    repeats = rng.array(count) < 0.25
    side = np.where((np.arange(count) + np.cumsum(repeats)) % 2 == 0, 1.0, -1.0)
    return side if rng.chance(0.5) else -side


def radius_at(axes: Sequence[GrownAxis], indices: Sequence[int], shares: FloatArray) -> FloatArray:
    """Return the radii (K,) of the axes `indices` at positions from 0 (base) to 1 (tip)."""
    base = np.asarray([axes[index].base_px for index in indices])
    tip = np.asarray([axes[index].tip_px for index in indices])
    return np.asarray(base + (tip - base) * shares)
