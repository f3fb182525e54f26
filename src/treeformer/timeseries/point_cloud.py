"""The points of a skeleton that registration uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.timeseries.similarity import Similarity


@dataclass(frozen=True)
class PointCloud:
    """What registration uses of a skeleton."""

    points: FloatArray  # (P,2) px, at equal intervals along all edges
    seeds: FloatArray  # (S,2) px, where the plants begin
    forks: FloatArray  # (F,2) px, where axes branch

    def moved(self, transform: Similarity) -> PointCloud:
        """Return the moved points."""
        return PointCloud(*(transform.apply(one) for one in (self.points, self.seeds, self.forks)))


def point_cloud(skeleton: Skeleton, spacing_px: float) -> PointCloud:
    """Sample a skeleton for registration; points along edges have a distance of `spacing_px`."""
    if len(skeleton.edges) == 0:
        return PointCloud(skeleton.nodes, skeleton.nodes[skeleton.component_root], np.zeros((0, 2)))
    begin, end = (skeleton.nodes[skeleton.edges[:, k]] for k in range(2))
    count = np.maximum(np.ceil(skeleton.edge_length / spacing_px).astype(np.intp), 1)
    edge = np.repeat(np.arange(len(count)), count)
    t = (np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count) + 0.5) / count[edge]
    points = begin[edge] + t[:, None] * (end[edge] - begin[edge])
    is_fork = skeleton.degree >= 3
    is_fork[skeleton.component_root] = False
    return PointCloud(points, skeleton.nodes[skeleton.component_root], skeleton.nodes[is_fork])


def union(clouds: Sequence[PointCloud]) -> PointCloud:
    """Return all points of several clouds."""
    return PointCloud(
        np.concatenate([cloud.points for cloud in clouds]),
        np.concatenate([cloud.seeds for cloud in clouds]),
        np.concatenate([cloud.forks for cloud in clouds]),
    )


def random_subset(points: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw at most `count` of the points (P,2), without repetition and in their order."""
    return points if len(points) <= count else points[np.sort(rng.choice(len(points), count, replace=False))]
