"""Turn annotated lines into a forest: merge overlapping lines, snap laterals to their parents, and join them.

Annotators draw each axis as one line from base to tip. All lengths are in px of the prepared image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer._util.geometry import project_onto_segments
from treeformer.formats.junctions import join_axes
from treeformer.skeleton import Axis, Skeleton
from treeformer.skeleton.axes import axis_orders

# Two lines closer than this trace the same root, because roots are wider.
OVERLAP_PX = 2.0
# Within an overlap, lines may temporarily be this far apart, because annotations are imprecise.
LOOSEST_OVERLAP_PX = 4.0
# A shorter stretch is the beginning of a lateral at its parent, not an overlap.
SHORTEST_OVERLAP_PX = 8.0
# If the first point of a lateral is farther than this from its parent, the lateral gets an additional edge to the
# junction. Otherwise the first point is moved to the junction.
LONGEST_SNAP_PX = 8.0
# Junctions closer together than this are merged.
JUNCTION_PX = 1.0
# A shorter root is not visible.
SHORTEST_LINE_PX = 1.0


@dataclass(frozen=True)
class Line:
    """One axis as an annotator drew it."""

    points: FloatArray  # (P,2) from base to tip, px
    parent: int | None  # index of the parent line, None for an axis of order 0
    plant: int
    record: Axis  # annotated axis, for its identifiers and properties

    @property
    def length(self) -> float:
        """Length of the line, px."""
        return float(_steps(self.points).sum())


@dataclass(frozen=True)
class Overlaps:
    """What `merge_overlaps` removed."""

    merged_px: float  # total length that was merged with other lines, px
    vanished: int  # number of lines that were merged completely


def lines_of(skeleton: Skeleton) -> list[Line]:
    """Return the axes of a skeleton as lines, parents before their laterals."""
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
    """Join lines into a forest with one axis per line; laterals begin at a point of their parent.

    `like` provides plant records and image size.
    """
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


def without(lines: Sequence[Line], removed: set[int]) -> list[Line]:
    """Remove lines together with their laterals, which come after them."""
    new_index: dict[int, int] = {}
    kept: list[Line] = []
    for index, line in enumerate(lines):
        if index not in removed and (line.parent is None or line.parent in new_index):
            new_index[index] = len(kept)
            kept.append(replace(line, parent=None if line.parent is None else new_index[line.parent]))
    return kept


def merge_overlaps(lines: Sequence[Line]) -> tuple[list[Line], Overlaps]:
    """Merge lines of a plant where they trace the same root.

    Annotators draw each root from its base to its tip, over roots that are already drawn. Lines are processed by order,
    longer ones first. If a line begins with a stretch of at least `SHORTEST_OVERLAP_PX` along processed lines, the
    stretch is removed and the line becomes a lateral of the line from which it separates. Such a stretch at the tip is
    also removed. Lines that only touch or cross in between are not changed.
    """
    orders = axis_orders([replace(line.record, parent=line.parent) for line in lines])
    new_index: dict[int, int] = {}
    cut: set[int] = set()
    merged: list[Line] = []
    merged_px, vanished = 0.0, 0
    for old in sorted(range(len(lines)), key=lambda index: (orders[index], -lines[index].length)):
        line = lines[old]
        hosts = [index for index, host in enumerate(merged) if host.plant == line.plant]
        parent = new_index.get(line.parent) if line.parent is not None else None
        if hosts:
            places = _every_pixel(line.points)
            arc = np.concatenate([[0.0], np.cumsum(_steps(places))])
            distance, on_host = _nearest_on_each(places, [merged[index].points for index in hosts])
            nearest = distance.argmin(axis=0)
            # Every lateral is close to its parent at the base, so the parent is ignored for the overlap at the tip.
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
                separation = on_host[nearest[first - 1], first - 1]
                points = np.concatenate([separation[None], points[_points_within(points, arc[first - 1]) :]])
                cut.add(old)
                parent = hosts[int(nearest[first - 1])]
            elif line.parent is not None and (parent is None or line.parent in cut):
                # The parent was removed, or its line was cut and may no longer pass here: use the nearest line.
                parent = hosts[int(nearest[0])]
            line = replace(line, points=points)
        new_index[old] = len(merged)
        merged.append(replace(line, parent=parent))
    return merged, Overlaps(float(merged_px), vanished)


def _overlapping(distance: FloatArray, first_limit: float) -> int:
    """Return how many places at the beginning of a line overlap other lines, from their distances (Q,) to them, px.

    The first place may be up to `first_limit` away, later places up to `LOOSEST_OVERLAP_PX`, and the last one up to
    `OVERLAP_PX`.
    """
    if distance[0] > first_limit:
        return 0
    away = np.flatnonzero(distance > LOOSEST_OVERLAP_PX)
    near = np.flatnonzero(distance[: away[0] if len(away) else len(distance)] <= OVERLAP_PX)
    return int(near[-1]) + 1 if len(near) else 0


def snap(lines: Sequence[Line]) -> tuple[list[Line], FloatArray]:
    """Make every lateral begin at a point of its parent's line; return also its distance from the parent before, px."""
    points = [line.points for line in lines]
    fixed = [_ends(line.points) for line in lines]  # ends and junctions, which may serve as junctions for other lines
    distances = []
    for index, line in enumerate(lines):
        if line.parent is None:
            continue
        base, parent = points[index][0], points[line.parent]
        distance, segment, place = (values[0] for values in _nearest(base[None], parent))
        distances.append(distance)
        near = _nearest_point(fixed[line.parent], place)
        if near is not None:
            place = near
        else:
            fixed[line.parent].append(place)
            points[line.parent] = np.insert(parent, segment + 1, place, axis=0)
        rest = points[index] if distance > LONGEST_SNAP_PX else points[index][1:]
        points[index] = np.concatenate([place[None], rest])
        fixed[index] = _ends(points[index])
    snapped = [replace(line, points=line_points) for line, line_points in zip(lines, points, strict=True)]
    return snapped, np.asarray(distances)


def too_short(lines: Sequence[Line]) -> set[int]:
    """Return the indices of lines that are too short to be visible and have no laterals."""
    parents = {line.parent for line in lines}
    return {index for index, line in enumerate(lines) if line.length < SHORTEST_LINE_PX and index not in parents}


def _steps(points: FloatArray) -> FloatArray:
    step = np.diff(points, axis=0)
    return np.hypot(step[:, 0], step[:, 1])


def _every_pixel(points: FloatArray) -> FloatArray:
    """Return (Q,2) places along a line, one pixel apart, including both ends."""
    arc = np.concatenate([[0.0], np.cumsum(_steps(points))])
    at = np.append(np.arange(0.0, arc[-1], 1.0), arc[-1])
    return np.stack([np.interp(at, arc, points[:, 0]), np.interp(at, arc, points[:, 1])], axis=1)


def _points_within(points: FloatArray, distance: float) -> int:
    """Return how many points of a line are at most `distance` px from its base along the line, without the last one."""
    arc = np.concatenate([[0.0], np.cumsum(_steps(points))])
    return min(int(np.searchsorted(arc, distance, side="right")), len(points) - 1)


def _ends(points: FloatArray) -> list[FloatArray]:
    return [points[0], points[-1]]


def _nearest_point(points: Sequence[FloatArray], place: FloatArray) -> FloatArray | None:
    """Return the nearest of the points if it is within `JUNCTION_PX`, otherwise None."""
    distance = np.linalg.norm(np.asarray(points) - place, axis=1)
    best = int(distance.argmin())
    return points[best] if distance[best] <= JUNCTION_PX else None


def _nearest(places: FloatArray, line: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the distance (Q,), segment (Q,) and position (Q,2) of the point on a line (P,2) nearest to each place."""
    begin, end = (line[:-1], line[1:]) if len(line) > 1 else (line, line)
    t, distance = project_onto_segments(places[:, None], begin, end)
    segment = distance.argmin(axis=1)
    row = np.arange(len(places))
    position = begin[segment] + t[row, segment, None] * (end[segment] - begin[segment])
    return distance[row, segment], segment, position


def _nearest_on_each(places: FloatArray, lines: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the distance (L,Q) and position (L,Q,2) of the point on each of L lines nearest to each of Q places."""
    nearest = [_nearest(places, line) for line in lines]
    return np.stack([distance for distance, _, _ in nearest]), np.stack([position for _, _, position in nearest])
