"""Axes of a skeleton as sampled paths.

Polylines are (M,2) px, M at least 1, and `spacing_px` is the approximate distance between the points of a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton import Skeleton


def arc_length(points: FloatArray) -> FloatArray:
    """Return the path length from the first point of a polyline (M,2) to each of its points, (M,) px."""
    if len(points) == 0:
        return np.zeros(0)
    step = np.diff(points, axis=0)
    return np.concatenate([[0.0], np.cumsum(np.hypot(step[:, 0], step[:, 1]))])


def sample(points: FloatArray, spacing_px: float) -> FloatArray:
    """Place points at equal intervals along a polyline, first and last point included."""
    position = arc_length(points)
    count = max(int(np.ceil(position[-1] / spacing_px)), 1) + 1
    return at_positions(points, position, np.linspace(0.0, position[-1], count)) if position[-1] > 0 else points[:1]


def at_positions(points: FloatArray, position: FloatArray, places: FloatArray) -> FloatArray:
    """Return the points (K,2) of a polyline at path lengths (K,) from its first point; see `arc_length`.

    Places beyond the ends are moved to the ends.
    """
    return np.stack([np.interp(places, position, points[:, k]) for k in range(2)], axis=1)


@dataclass(frozen=True)
class Paths:
    """Axes as sampled paths, all in one array: path k is `points[start[k]:start[k + 1]]`, from base to tip."""

    points: FloatArray  # (P,2) px
    start: IntArray  # (A + 1,) index of the first point of each path, followed by P
    length: FloatArray  # (A,) length of each path, px
    parent: IntArray  # (A,) index of the parent's path, -1 for none
    plant: IntArray  # (A,) plant of each path

    def __len__(self) -> int:
        return len(self.length)

    def path(self, index: int) -> FloatArray:
        """Return the points of one path, (K,2) px."""
        return self.points[self.start[index] : self.start[index + 1]]

    @property
    def bases(self) -> FloatArray:
        """First point of each path, (A,2) px."""
        return self.points[self.start[:-1]]

    @property
    def tips(self) -> FloatArray:
        """Last point of each path, (A,2) px."""
        return self.points[self.start[1:] - 1]

    def moved(self, points: FloatArray) -> Paths:
        """Return the same paths with other coordinates (P,2). Lengths are measured again."""
        return paths_of_lines(
            [points[a:b] for a, b in zip(self.start[:-1], self.start[1:], strict=True)], self.parent, self.plant
        )


def paths_of_lines(lines: Sequence[FloatArray], parent: IntArray, plant: IntArray) -> Paths:
    """Collect A polylines with the index of the parent's line (A,), -1 for none, and the plant (A,) of each."""
    size = np.asarray([len(line) for line in lines], dtype=np.intp)
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.intp)
    points = np.concatenate(lines) if len(lines) else np.zeros((0, 2))
    length = np.asarray([float(arc_length(line)[-1]) for line in lines])
    return Paths(points, start, length, parent, plant)


def axis_paths(skeleton: Skeleton, spacing_px: float) -> tuple[Paths, IntArray]:
    """Return the axes of a forest as paths, and the index (A,) of each path's axis in `skeleton.axes`.

    Axes without nodes are left out.
    """
    axes = skeleton.axes
    kept = [index for index, axis in enumerate(axes) if axis.nodes]
    new_index = {index: rank for rank, index in enumerate(kept)}
    plant_of_node = skeleton.plant_of_node
    lines, parents, plants = [], [], []
    for index in kept:
        axis = axes[index]
        lines.append(sample(skeleton.nodes[list(axis.nodes)], spacing_px))
        parent = axis.parent
        while parent is not None and parent not in new_index:
            parent = axes[parent].parent
        parents.append(-1 if parent is None else new_index[parent])
        plants.append(int(plant_of_node[axis.nodes[0]]))
    paths = paths_of_lines(lines, np.asarray(parents, dtype=np.intp), np.asarray(plants, dtype=np.intp))
    return paths, np.asarray(kept, dtype=np.intp)


def path_distances(paths: Paths, targets: Paths, cap_px: float) -> FloatArray:
    """Return the mean distance (A,B), at most `cap_px`, from the points of each path to each of B target paths."""
    if len(paths) == 0 or len(targets) == 0:
        return np.zeros((len(paths), len(targets)))
    nearest = nearest_distances(paths.points, targets)
    mean = np.add.reduceat(np.minimum(nearest, cap_px), paths.start[:-1], axis=0)
    return np.asarray(mean / np.diff(paths.start)[:, None])


def nearest_distances(points: FloatArray, targets: Paths) -> FloatArray:
    """Return the distance (P,B) from each point (P,2) to the nearest sample of each of B target paths."""
    from scipy.spatial.distance import cdist

    return np.asarray(np.minimum.reduceat(cdist(points, targets.points), targets.start[:-1], axis=1))
