"""Axes as lines, the way annotators draw them, made fit for a tree: overlaps merged, laterals snapped to parents.

All lengths are in pixels of the training scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.formats.junctions import join_axes
from treeformer.skeleton import Axis, Skeleton
from treeformer.skeleton.axes import axis_orders

# Two lines closer than this show as one root: its two edges are farther apart.
OVERLAP_PX = 2.0
# On the way of an overlap they may part so far for a while: hands differ.
LOOSEST_OVERLAP_PX = 4.0
# A stretch shorter than this is how a lateral leaves its parent, not an overlap.
SHORTEST_OVERLAP_PX = 8.0
# A first point farther than this from its parent's line stays, with an edge to the junction; a nearer one moves there.
LONGEST_SNAP_PX = 8.0
# Junctions closer together than this are one.
JUNCTION_PX = 1.0
# A root shorter than this is not to be seen.
SHORTEST_LINE_PX = 1.0


@dataclass(frozen=True)
class Line:
    """One axis: points (P,2) from base to tip; `parent` is the index of its parent line, None for order 0."""

    points: FloatArray
    parent: int | None
    plant: int
    record: Axis

    @property
    def length(self) -> float:
        """In px."""
        return float(_steps(self.points).sum())


@dataclass(frozen=True)
class Overlaps:
    """What `merge_overlaps` took away: the stretches that lay on other lines, px, and the lines that did altogether."""

    merged_px: float
    vanished: int


def lines_of(skeleton: Skeleton) -> list[Line]:
    """The axes of a skeleton, as the file drew them, parents before their laterals."""
    axes = skeleton.axes
    orders = axis_orders(axes)
    in_order = sorted(range(len(axes)), key=lambda axis: orders[axis])
    number = {axis: position for position, axis in enumerate(in_order)}
    return [
        Line(
            points=skeleton.nodes[list(axes[axis].nodes)],
            parent=None if (parent := axes[axis].parent) is None else number[parent],
            plant=axes[axis].plant,
            record=axes[axis],
        )
        for axis in in_order
    ]


def skeleton_of(lines: Sequence[Line], like: Skeleton) -> Skeleton:
    """The lines joined into one forest, with the plants and the image of `like`."""
    joined = join_axes([line.points for line in lines], [line.parent for line in lines], [line.plant for line in lines])
    axes = [
        Axis(
            nodes=nodes,
            id=line.record.id,
            label=line.record.label,
            accession=line.record.accession,
            parent=line.parent,
            plant=line.plant,
            properties=line.record.properties,
        )
        for line, nodes in zip(lines, joined.axis_nodes, strict=True)
    ]
    return Skeleton(
        joined.nodes,
        joined.edges,
        root=joined.roots,
        axes=axes,
        edge_axis=joined.edge_axis,
        plant=joined.plant,
        plant_records=like.plant_records,
        image_size=like.image_size,
    )


def without(lines: Sequence[Line], gone: set[int]) -> list[Line]:
    """The lines without some of them, and without the laterals of those."""
    number: dict[int, int] = {}
    kept: list[Line] = []
    for index, line in enumerate(lines):
        if index not in gone and (line.parent is None or line.parent in number):
            number[index] = len(kept)
            kept.append(replace(line, parent=None if line.parent is None else number[line.parent]))
    return kept


def merge_overlaps(lines: Sequence[Line]) -> tuple[list[Line], Overlaps]:
    """Where several lines of a plant show as one root, one of them stands for all.

    Annotators draw each root from its base to its tip, over what others have drawn. Here lines are taken by order, the
    longer first. A stretch from a line's base that lies on lines already taken, if it is `SHORTEST_OVERLAP_PX` long or
    more, is left to those, and the line becomes a lateral of the one it parts from; a stretch to its tip that does
    is left out. Lines that meet only on their way, or cross, stay as they are: a tree has no other way to hold them.
    """
    orders = axis_orders([replace(line.record, parent=line.parent) for line in lines])
    number: dict[int, int] = {}  # of the old lines that stay, in the new list
    cut: set[int] = set()
    taken: list[Line] = []
    merged_px, vanished = 0.0, 0
    for old in sorted(range(len(lines)), key=lambda index: (orders[index], -lines[index].length)):
        line = lines[old]
        hosts = [index for index, host in enumerate(taken) if host.plant == line.plant]
        parent = number.get(line.parent) if line.parent is not None else None
        if hosts:
            places = _every_pixel(line.points)
            arc = np.concatenate([[0.0], np.cumsum(_steps(places))])
            distance, on_host = _nearest_on_each(places, [taken[index].points for index in hosts])
            nearest = distance.argmin(axis=0)
            # Every lateral is near its parent at the base, so that only other lines tell of its tip.
            others = distance[[index != parent for index in hosts]].min(axis=0, initial=np.inf)
            first = _overlapping(distance.min(axis=0), OVERLAP_PX)
            last = len(places) - 1 - _overlapping(others[::-1], LOOSEST_OVERLAP_PX)
            if first > last and arc[-1] > 0:
                merged_px, vanished = merged_px + arc[-1], vanished + 1
                continue
            points = line.points
            if last < len(places) - 1 and arc[-1] - arc[last] >= SHORTEST_OVERLAP_PX:
                merged_px += arc[-1] - arc[last]
                points = np.concatenate([points[: _points_within(points, arc[last])], places[last : last + 1]])
                cut.add(old)
            if first and arc[first - 1] >= SHORTEST_OVERLAP_PX:
                merged_px += arc[first - 1]
                parting = on_host[nearest[first - 1], first - 1]
                points = np.concatenate([parting[None], points[_points_within(points, arc[first - 1]) :]])
                cut.add(old)
                parent = hosts[int(nearest[first - 1])]
            elif line.parent is not None and (parent is None or line.parent in cut):
                # The parent's line no longer passes here, or there is none: hold on to the nearest one.
                parent = hosts[int(nearest[0])]
            line = replace(line, points=points)
        number[old] = len(taken)
        taken.append(replace(line, parent=parent))
    return taken, Overlaps(float(merged_px), vanished)


def _overlapping(distance: FloatArray, at_the_end: float) -> int:
    """How many places, from the first on, lie on other lines, given how far they are from them (Q,).

    at_the_end: how far the first may be. What follows may part for a while, but not at the last.
    """
    if distance[0] > at_the_end:
        return 0
    away = np.flatnonzero(distance > LOOSEST_OVERLAP_PX)
    near = np.flatnonzero(distance[: away[0] if len(away) else len(distance)] <= OVERLAP_PX)
    return int(near[-1]) + 1 if len(near) else 0


def snap(lines: Sequence[Line]) -> tuple[list[Line], FloatArray]:
    """Every lateral begins at a point of its parent's line; also how far each was from it, px."""
    points = [line.points for line in lines]
    fixed = [_ends(line.points) for line in lines]  # ends and junctions: places that a junction may join
    hooks = []
    for index, line in enumerate(lines):
        if line.parent is None:
            continue
        base, parent = points[index][0], points[line.parent]
        distance, segment, place = (found[0] for found in _nearest(base[None], parent))
        hooks.append(distance)
        near = _nearest_point(fixed[line.parent], place)
        if near is not None:
            place = near
        else:
            fixed[line.parent].append(place)
            points[line.parent] = np.insert(parent, segment + 1, place, axis=0)
        rest = points[index] if distance > LONGEST_SNAP_PX else points[index][1:]
        points[index] = np.concatenate([place[None], rest])
        fixed[index] = _ends(points[index])
    snapped = [replace(line, points=of_line) for line, of_line in zip(lines, points, strict=True)]
    return snapped, np.asarray(hooks)


def too_short(lines: Sequence[Line]) -> set[int]:
    """The lines nobody could see, unless others hang on them."""
    parents = {line.parent for line in lines}
    return {index for index, line in enumerate(lines) if line.length < SHORTEST_LINE_PX and index not in parents}


def _steps(points: FloatArray) -> FloatArray:
    step = np.diff(points, axis=0)
    return np.hypot(step[:, 0], step[:, 1])


def _every_pixel(points: FloatArray) -> FloatArray:
    """Places (Q,2) along a line, a pixel apart, its two ends included."""
    arc = np.concatenate([[0.0], np.cumsum(_steps(points))])
    at = np.append(np.arange(0.0, arc[-1], 1.0), arc[-1])
    return np.stack([np.interp(at, arc, points[:, 0]), np.interp(at, arc, points[:, 1])], axis=1)


def _points_within(points: FloatArray, distance: float) -> int:
    """How many points of a line, from its base on, are at most so far along it; never the last one."""
    arc = np.concatenate([[0.0], np.cumsum(_steps(points))])
    return min(int(np.searchsorted(arc, distance, side="right")), len(points) - 1)


def _ends(points: FloatArray) -> list[FloatArray]:
    return [points[0], points[-1]]


def _nearest_point(points: Sequence[FloatArray], place: FloatArray) -> FloatArray | None:
    """The nearest of the points, if any is within `JUNCTION_PX`."""
    distance = np.linalg.norm(np.asarray(points) - place, axis=1)
    best = int(distance.argmin())
    return points[best] if distance[best] <= JUNCTION_PX else None


def _nearest(places: FloatArray, line: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """For each of Q places the nearest one on a line (P,2): the distance (Q,), the segment (Q,), the place (Q,2)."""
    start, step = line[:-1], np.diff(line, axis=0)
    if len(start) == 0:
        start, step = line, np.zeros_like(line)
    square = (step**2).sum(axis=1)
    offset = places[:, None] - start
    t = np.clip((offset * step).sum(axis=2) / np.where(square > 0, square, 1.0), 0.0, 1.0)
    away = offset - t[..., None] * step
    distance = np.hypot(away[..., 0], away[..., 1])
    segment = distance.argmin(axis=1)
    row = np.arange(len(places))
    return distance[row, segment], segment, start[segment] + t[row, segment, None] * step[segment]


def _nearest_on_each(places: FloatArray, lines: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """For each of L lines and Q places the nearest place on the line: the distance (L,Q) and where (L,Q,2)."""
    found = [_nearest(places, line) for line in lines]
    return np.stack([of_line[0] for of_line in found]), np.stack([of_line[2] for of_line in found])
