"""Hypotheses of a registration: transforms from pairs of anchors (RANSAC), and from single seeds.

Anchors are the seeds and the branch points of a skeleton.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.timeseries.point_cloud import PointCloud, random_subset
from treeformer.timeseries.similarity import Similarity, wrap

# More cost time and hardly change the result.
MAX_ANCHORS, MAX_PAIRS, MAX_HYPOTHESES = 40, 80, 6000
# Weight of the penalties for motion.
MOTION_PENALTY = 0.05


def make_hypotheses(source: PointCloud, target: PointCloud, rng: np.random.Generator) -> list[Similarity]:
    """Return transforms that map two anchors to two anchors of the same kind, or one seed to one seed.

    `rng` selects anchors and pairs if there are too many.
    """
    found: list[Similarity] = []
    kinds = ((source.seeds, target.seeds), (source.forks, target.forks))
    a = [random_subset(one, MAX_ANCHORS, rng) for one, _ in kinds]
    b = [random_subset(other, MAX_ANCHORS, rng) for _, other in kinds]
    kind_a = np.repeat([0, 1], [len(one) for one in a])
    kind_b = np.repeat([0, 1], [len(one) for one in b])
    points_a, points_b = np.concatenate(a), np.concatenate(b)
    pairs_a = _pairs(points_a, MAX_PAIRS, rng)
    pairs_b = _pairs(points_b, 4 * MAX_ANCHORS**2, rng)
    if len(pairs_a) and len(pairs_b):
        va, vb = (
            points[pairs[:, 1]] - points[pairs[:, 0]] for points, pairs in ((points_a, pairs_a), (points_b, pairs_b))
        )
        la, lb = np.hypot(*va.T), np.hypot(*vb.T)
        ratio = lb[None] / np.maximum(la[:, None], 1e-9)
        same_kind = (kind_a[pairs_a][:, None] == kind_b[pairs_b][None]).all(axis=2)
        fits = same_kind & (np.abs(np.log(np.maximum(ratio, 1e-9))) <= math.log(1.08))
        first, second = np.nonzero(fits)
        if len(first) > MAX_HYPOTHESES:
            kept = rng.choice(len(first), MAX_HYPOTHESES, replace=False)
            first, second = first[kept], second[kept]
        angle = np.arctan2(vb[:, 1], vb[:, 0])[second] - np.arctan2(va[:, 1], va[:, 0])[first]
        # Two anchors give a noisy scale, and the scale of a series hardly changes: halve its logarithm.
        scale = np.sqrt(ratio[first, second])
        middle_a = points_a[pairs_a].mean(axis=1)[first]
        middle_b = points_b[pairs_b].mean(axis=1)[second]
        for k in range(len(first)):
            turned = Similarity(float(scale[k]), wrap(float(angle[k])))
            x, y = (middle_b[k] - turned.apply(middle_a[k])).tolist()
            found.append(Similarity(turned.scale, turned.rotation, (x, y)))
    few = len(source.seeds) * len(target.seeds) <= 16
    angles = np.radians(np.arange(-180, 180, 3) if few else np.arange(-6, 7, 3))
    for seed_a in a[0][:MAX_ANCHORS]:
        for seed_b in b[0][:MAX_ANCHORS]:
            for angle_ in angles.tolist():
                turned = Similarity(1.0, angle_)
                x, y = (seed_b - turned.apply(seed_a)).tolist()
                found.append(Similarity(1.0, angle_, (x, y)))
    return found


def motion_penalties(hypotheses: Sequence[Similarity], guess: Similarity, source: PointCloud) -> FloatArray:
    """Return small penalties (H,) that decide between equally good hypotheses: the smaller motion wins.

    The motion is measured from the transform `guess`.
    """
    center = source.points.mean(axis=0)
    extent = float(np.ptp(source.points, axis=0).max()) + 1.0
    home = guess.apply(center)
    turn = np.asarray([abs(wrap(h.rotation - guess.rotation)) / math.pi for h in hypotheses])
    zoom = np.asarray([abs(math.log(h.scale / guess.scale)) for h in hypotheses])
    matrices = np.stack([h.matrix for h in hypotheses])
    move = np.hypot(*((matrices[:, :, :2] @ center + matrices[:, :, 2]) - home).T) / extent
    return np.asarray(MOTION_PENALTY * (turn + zoom + np.minimum(move, 1.0)))


def _pairs(points: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return ordered pairs of points that are not close together, at most `count` of them, (K,2)."""
    if len(points) < 2:
        return np.zeros((0, 2), dtype=np.intp)
    i, j = np.nonzero(~np.eye(len(points), dtype=bool))
    distance = np.hypot(*(points[i] - points[j]).T)
    far = np.flatnonzero(distance >= 0.2 * distance.max())
    far = far[distance[far] > 0]
    if len(far) > count:
        far = rng.choice(far, count, replace=False)
    return np.stack([i[far], j[far]], axis=1)
