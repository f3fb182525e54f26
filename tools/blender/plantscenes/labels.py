"""The skeleton of a plant in the image: projection, visibility, frame, junctions, equal intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plantscenes.camera import Camera, Tubes, hidden
from plantscenes.growth import Axis3
from treeformer._util.arrays import BoolArray, FloatArray
from treeformer.skeleton import Axis, Plant, Skeleton

NODE_SPACING_PX = 8.0
FRAME_MARGIN_PX = 1.0
# Two junctions of an axis are at least this far apart in the image; nearer ones become one.
MIN_JUNCTION_PX = 4.0
# A side axis is labeled if it extends at least this far beyond the outline of its parent.
MIN_REACH_PX = 3.0
# Coordinates are multiples of 1/64 px, as in the other synthetic images.
GRID = 64.0

Lines = list[tuple[FloatArray, FloatArray]]
"""Points (M,3) and radii (M,) of several polylines, m."""


@dataclass
class _Seen:
    """One axis in the image: its points, radii, what is visible, and the part [first, end) that is labeled."""

    points: FloatArray
    radius: FloatArray
    visible: BoolArray
    first: int
    end: int
    parent: int | None
    at: int


def project_plant(
    axes: Sequence[Axis3], camera: Camera, metadata: Mapping[str, Any], obstacles: Lines | None = None
) -> Skeleton:
    """Return the skeleton of a plant in the image.

    Axes are cut where they leave the frame, or where everything beyond is hidden by the plant or by an obstacle. Hidden
    parts between visible ones stay. Side axes that do not extend beyond the outline of their parent are dropped.
    """
    seen = _look(axes, camera, obstacles or [])
    _cut_at_frame(seen, camera.size)
    _cut_hidden(seen)
    kept: list[int] = []
    for index, axis in enumerate(seen):  # an axis at the first point of its parent does not lengthen it
        if axis.end - axis.first > 1 and (axis.parent is None or axis.parent in kept):
            kept.append(index)
    if not kept or axes[kept[0]].parent is not None:
        return Skeleton([], [], radius=[], image_size=camera.size, metadata=metadata)
    _merge_junctions(seen, kept)
    extra = {"foot": "outside"} if seen[kept[0]].first > 0 else {}
    dense = _assemble(axes, seen, kept, camera.size, {**metadata, **extra})
    even = dense.resample(NODE_SPACING_PX)
    radius = even.radius if even.radius is not None else np.ones(len(even))
    return even.replace(nodes=_on_grid(even.nodes), radius=_on_grid(radius))


def _on_grid(values: FloatArray) -> FloatArray:
    return np.asarray(np.round(values * GRID) / GRID)


def _look(axes: Sequence[Axis3], camera: Camera, obstacles: Lines) -> list[_Seen]:
    lines = [(axis.points, axis.radius) for axis in axes]
    image, depth = camera.project(np.concatenate([points for points, _ in lines]))
    radius = camera.focal_px * np.concatenate([radius for _, radius in lines]) / np.maximum(depth, 1e-3)
    covered = hidden(image, depth, radius, Tubes.of(camera, [*lines, *obstacles]))
    result, begin = [], 0
    for axis in axes:
        part = slice(begin, begin + len(axis.points))
        begin += len(axis.points)
        result.append(_Seen(image[part], radius[part], ~covered[part], 0, len(axis.points), axis.parent, axis.at))
    return result


def _cut_at_frame(seen: list[_Seen], size: tuple[int, int]) -> None:
    """Limit each axis to the part before it leaves the frame; a base axis may enter the frame first."""
    for axis in seen:
        low, high = FRAME_MARGIN_PX, np.asarray(size) - FRAME_MARGIN_PX
        inside = ((axis.points >= low) & (axis.points <= high)).all(axis=1)
        if axis.parent is None:
            axis.first = int(np.argmax(inside)) if inside.any() else len(inside)
        elif not seen[axis.parent].first <= axis.at < seen[axis.parent].end:
            axis.end = 0
            continue
        outside = np.flatnonzero(~inside[axis.first :])
        axis.end = axis.first + int(outside[0]) if len(outside) else len(inside)


def _cut_hidden(seen: list[_Seen]) -> None:
    """Shorten each axis to its last point that is visible or carries a labeled side axis, children first."""
    needed = [axis.first for axis in seen]
    for index in range(len(seen) - 1, -1, -1):
        axis = seen[index]
        shown = np.flatnonzero(axis.visible[axis.first : axis.end])
        last = max(needed[index], axis.first + int(shown[-1]) if len(shown) else axis.first)
        axis.end = min(axis.end, last + 1)
        if axis.parent is None or axis.end <= 1:
            continue
        if needed[index] == 0 and _reach(axis, seen[axis.parent]) < MIN_REACH_PX:
            axis.end = 0
            continue
        needed[axis.parent] = max(needed[axis.parent], axis.at)


def _reach(axis: _Seen, parent: _Seen) -> float:
    """Return how far a side axis extends beyond the outline of its parent, px."""
    points = axis.points[1 : axis.end]
    outline = parent.points[parent.first : parent.end]
    distance = np.linalg.norm(points[:, None] - outline[None], axis=2)
    return float((distance - parent.radius[parent.first : parent.end]).min(axis=1).max(initial=0.0))


def _merge_junctions(seen: list[_Seen], kept: list[int]) -> None:
    """Move side axes along their parents so that junctions are far enough apart."""
    children: dict[int, list[int]] = {}
    for index in kept:
        parent = seen[index].parent
        if parent is not None:
            children.setdefault(parent, []).append(index)
    for parent, group in children.items():
        axis = seen[parent]
        along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(axis.points, axis=0), axis=1))])
        junction = axis.first
        for index in sorted(group, key=lambda child: seen[child].at):
            if along[seen[index].at] - along[junction] >= MIN_JUNCTION_PX:
                junction = seen[index].at
            seen[index].at = junction


def _assemble(
    axes: Sequence[Axis3], seen: list[_Seen], kept: list[int], size: tuple[int, int], metadata: Mapping[str, Any]
) -> Skeleton:
    """Build the skeleton with all projected points as nodes."""
    nodes: list[FloatArray] = []
    radius: list[FloatArray] = []
    edges: list[FloatArray] = []
    edge_axis: list[int] = []
    records: list[Axis] = []
    line_of: dict[int, FloatArray] = {}  # the node at each point of an axis
    number = {index: rank for rank, index in enumerate(kept)}
    order: dict[int, int] = {}
    count = 0
    root: int | None = None
    for index in kept:
        axis, parent = seen[index], seen[index].parent
        if parent is None and root is None:
            line, new = np.arange(count, count + axis.end - axis.first), slice(axis.first, axis.end)
            root = count
        else:
            shared = root if parent is None else int(line_of[parent][axis.at - seen[parent].first])
            line = np.concatenate([[shared], np.arange(count, count + axis.end - axis.first - 1)])
            new = slice(axis.first + 1, axis.end)
        nodes.append(axis.points[new])
        radius.append(axis.radius[new])
        count += len(nodes[-1])
        line_of[index] = line
        edges.append(np.stack([line[:-1], line[1:]], axis=1))
        edge_axis += [number[index]] * (len(line) - 1)
        order[index] = 0 if parent is None else order[parent] + 1
        records.append(
            Axis(
                tuple(line.tolist()),
                "",
                axes[index].label,
                "",
                None if parent is None else number[parent],
                0,
                {"branch_order": str(order[index])},
            )
        )
    return Skeleton(
        np.concatenate(nodes),
        np.concatenate(edges),
        root=[root],
        radius=np.concatenate(radius),
        axes=records,
        edge_axis=edge_axis,
        plant=np.zeros(count, dtype=np.intp),
        plant_records=[Plant()],
        image_size=size,
        metadata=metadata,
    )
