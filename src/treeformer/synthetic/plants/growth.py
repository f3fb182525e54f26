"""Growing curved axes and putting them together to a skeleton whose nodes stand at equal spacing."""

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

# Axes grow in steps of this length; nodes then stand about NODE_SPACING_PX apart, as in the paper's root set.
STEP_PX = 2.0
NODE_SPACING_PX = 8.0
# Side axes begin at every so many steps, so that no two junctions come closer together.
JUNCTION_STEPS = 2
# Shorter axes are left out, as are the parts of a plant beyond the frame.
SHORTEST_AXIS_STEPS = 3
FRAME_MARGIN_PX = 1.0
# The heading's random wander is drawn anew after every stretch of this many steps.
WANDER_STEPS = 12

DOWN, UP, RIGHT, LEFT = math.pi / 2, -math.pi / 2, 0.0, math.pi

Values = FloatArray | float  # one number for all axes or one for each


@dataclass(frozen=True, slots=True)
class GrownAxis:
    """One axis: points (M,2) every STEP_PX from its base, its radius at base and tip, and where on which axis it began.

    parent: index of an earlier axis of the same list, None at the base of a plant. at: the parent's point.
    grown: how many points it had before the frame cut it; the radius tapers over these.
    """

    points: FloatArray
    base_px: float
    tip_px: float
    parent: int | None = None
    at: int = 0
    label: str = ""
    plant: int = 0
    grown: int = 0


def curves(
    rng: Rng,
    start: FloatArray,
    heading: FloatArray,
    length: FloatArray,
    towards: Values,
    pull: Values,
    wander: Values,
) -> list[FloatArray]:
    """Smooth paths from K points (K,2), each (M,2) with M by its length, px.

    heading: (K,) of the first step, radians (0 to the right, π/2 down). A path bends towards the heading `towards`
    by the share `pull` of what is missing a px, and strays from this by about `wander` radians.
    """
    count = len(start)
    steps = np.maximum(np.floor(length / STEP_PX + 0.5).astype(np.intp), 1)
    longest = int(steps.max(initial=1))
    towards, pull, wander = ((np.zeros(count) + value)[:, None] for value in (towards, pull, wander))
    knots = rng.bell(count, longest // WANDER_STEPS + 2) * wander
    knots[:, 0] = 0.0
    step = np.arange(longest)
    before, part = step // WANDER_STEPS, (step % WANDER_STEPS) / WANDER_STEPS
    stray = knots[:, before] + part * (knots[:, before + 1] - knots[:, before])
    # The shorter way round to the direction of pull.
    turn = heading[:, None] - towards
    turn -= 2 * math.pi * np.floor(turn / (2 * math.pi) + 0.5)
    angle = towards + turn * np.exp(-pull * (step * STEP_PX)) + stray
    paths = np.empty((count, longest + 1, 2))
    paths[:, 0] = start
    for axis, component in enumerate((np.cos(angle), np.sin(angle))):
        np.cumsum(component, axis=1, out=paths[:, 1:, axis])
        paths[:, 1:, axis] *= STEP_PX
        paths[:, 1:, axis] += start[:, None, axis]
    return [path[: last + 1] for path, last in zip(paths, steps.tolist(), strict=True)]


def curve(
    rng: Rng, start: tuple[float, float], heading: float, length: float, towards: float, pull: float, wander: float
) -> FloatArray:
    """One smooth path (M,2), as in `curves`."""
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
    """Grow K axes from the sides of others, all at once.

    parents (K,) and shares (K,): from which axis, how far along it (0 to 1). turn (K,): radians off its direction
    there, positive to the right. Adds the new axes to `axes` and returns their indices.
    """
    first = len(axes)
    if len(parents) == 0:
        return range(first, first)
    places, starts, headings = [], [], []
    for parent, share in zip(parents, shares.tolist(), strict=True):
        points = axes[parent].points
        last = len(points) - 1
        at = min(int(share * last) // JUNCTION_STEPS * JUNCTION_STEPS, last)
        (x0, y0), (x1, y1) = points[max(at - 2, 0)].tolist(), points[min(at + 2, last)].tolist()
        places.append(at)
        starts.append(points[at].tolist())
        headings.append(math.atan2(y1 - y0, x1 - x0))
    paths = curves(rng, np.asarray(starts), np.asarray(headings) + turn, length, towards, pull, wander)
    base, tip = ((np.zeros(len(paths)) + value).tolist() for value in (base_px, tip_px))
    axes.extend(
        GrownAxis(path, thick, min(thin, thick), parent, place, label, axes[parent].plant, len(path))
        for path, thick, thin, parent, place in zip(paths, base, tip, parents, places, strict=True)
    )
    return range(first, len(axes))


def main_axis(axes: list[GrownAxis], points: FloatArray, base_px: float, tip_px: float, label: str, plant: int) -> int:
    """Add an axis that begins at a plant's base. Returns its index."""
    axes.append(GrownAxis(points, base_px, min(tip_px, base_px), None, 0, label, plant, len(points)))
    return len(axes) - 1


def assemble(axes: Sequence[GrownAxis], size: tuple[int, int], metadata: Mapping[str, Any]) -> Skeleton:
    """The skeleton of grown axes in a (width, height) image: cut at the frame, nodes at equal spacing.

    Between two keypoints (base, junctions, tip) the intervals are equal and as near to NODE_SPACING_PX as a
    whole number of them comes: what `Skeleton.resample` makes, without the detour over a dense skeleton.
    """
    axes = _inside_frame(axes, size)
    if not axes:
        return Skeleton([], [], image_size=size, metadata=metadata)
    junctions: list[set[int]] = [set() for _ in axes]
    for axis in axes:
        if axis.parent is not None:
            junctions[axis.parent].add(axis.at)
    places: list[float] = []  # of each node: how many steps along its axis
    axis_of_node: list[int] = []
    edges: list[tuple[int, int]] = []
    edge_axis: list[int] = []
    lines: list[list[int]] = []
    node_at: list[dict[int, int]] = []  # the node at each keypoint of each axis
    roots: dict[int, int] = {}  # the root node of each plant
    for number, axis in enumerate(axes):
        keys = sorted({0, *junctions[number], len(axis.points) - 1})
        own, key_position = _equal_intervals(keys)
        shared = roots.get(axis.plant) if axis.parent is None else node_at[axis.parent][axis.at]
        line = list(range(len(places), len(places) + len(own)))
        if shared is None:
            roots[axis.plant] = line[0]
        else:
            own, line = own[1:], [shared, *line[:-1]]
        places += own
        axis_of_node += [number] * len(own)
        edges += pairwise(line)
        edge_axis += [number] * (len(line) - 1)
        lines.append(line)
        node_at.append({key: line[position] for key, position in zip(keys, key_position, strict=True)})
    nodes, radius = _points_at(axes, np.asarray(axis_of_node, dtype=np.intp), np.asarray(places))
    plant = np.asarray([axis.plant for axis in axes], dtype=np.intp)
    return Skeleton(
        nodes,
        edges,
        root=list(roots.values()),
        radius=radius,
        axes=_records(axes, lines),
        edge_axis=edge_axis,
        plant=plant[axis_of_node],
        plant_records=[Plant() for _ in roots],
        image_size=size,
        metadata=metadata,
    )


def _records(axes: Sequence[GrownAxis], lines: Sequence[Sequence[int]]) -> list[Axis]:
    orders: list[int] = []
    for axis in axes:
        orders.append(0 if axis.parent is None else orders[axis.parent] + 1)
    return [
        Axis(tuple(line), "", axis.label, "", axis.parent, axis.plant, {"branch_order": str(order)})
        for axis, line, order in zip(axes, lines, orders, strict=True)
    ]


def _points_at(axes: Sequence[GrownAxis], axis: IntArray, place: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coordinates (N,2) and radii (N,) at places (in steps) along axes, on the coordinate grid."""
    lengths = np.asarray([len(a.points) for a in axes], dtype=np.intp)
    begin = np.cumsum(lengths) - lengths
    points = np.concatenate([a.points for a in axes])
    before = np.minimum(place.astype(np.intp), lengths[axis] - 2)
    t = (place - before)[:, None]
    before += begin[axis]
    base, tip, grown = (np.asarray(v)[axis] for v in zip(*((a.base_px, a.tip_px, a.grown) for a in axes), strict=True))
    radius = base + (tip - base) * place / (grown - 1)
    return on_grid(points[before] + t * (points[before + 1] - points[before])), on_grid(radius)


def _inside_frame(axes: Sequence[GrownAxis], size: tuple[int, int]) -> list[GrownAxis]:
    """The axes up to where each first leaves the frame, without those that begin outside or are left too short.

    Plants are numbered anew, from left to right by their base.
    """
    lengths = np.asarray([len(axis.points) for axis in axes], dtype=np.intp)
    begin = np.cumsum(lengths) - lengths
    points = np.concatenate([axis.points for axis in axes])
    x, y = points[:, 0], points[:, 1]
    low, right, bottom = FRAME_MARGIN_PX, size[0] - FRAME_MARGIN_PX, size[1] - FRAME_MARGIN_PX
    outside = (x < low) | (y < low) | (x > right) | (y > bottom)
    first_out = np.minimum.reduceat(np.where(outside, np.arange(len(points)), len(points)), begin) - begin
    kept_points = np.minimum(first_out, lengths).tolist()
    number: dict[int, int] = {}
    kept: list[GrownAxis] = []
    for index, axis in enumerate(axes):
        parent = None if axis.parent is None else number.get(axis.parent)
        lost = axis.parent is not None and (parent is None or axis.at >= kept_points[axis.parent])
        if lost or kept_points[index] <= SHORTEST_AXIS_STEPS:
            continue
        number[index] = len(kept)
        kept.append(
            GrownAxis(
                axis.points[: kept_points[index]],
                axis.base_px,
                axis.tip_px,
                parent,
                axis.at,
                axis.label,
                axis.plant,
                axis.grown,
            )
        )
    base = {axis.plant: axis.points[0, 0] for axis in kept if axis.parent is None}
    rank = {plant: place for place, plant in enumerate(sorted(base, key=lambda plant: (base[plant], plant)))}
    return [axis if rank[axis.plant] == axis.plant else replace(axis, plant=rank[axis.plant]) for axis in kept]


def _equal_intervals(keys: Sequence[int]) -> tuple[list[float], list[int]]:
    """Places along an axis (in steps) at equal intervals between its keypoints, and where the keypoints are in it."""
    places = [float(keys[0])]
    positions = [0]
    for begin, end in pairwise(keys):
        intervals = max(1, math.floor((end - begin) * STEP_PX / NODE_SPACING_PX + 0.5))
        step = (end - begin) / intervals
        places += [begin + step * k for k in range(1, intervals)]
        places.append(float(end))
        positions.append(len(places) - 1)
    return places, positions
