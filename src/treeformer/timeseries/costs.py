"""Costs of giving an axis the identity of a track, and the assignment of least cost.

The geometric part of a cost is a sum, in units of the tolerance:

- path: mean distance of the axis from the template, and of the template's first part, as long as the axis, from it;
- base: distance of the bases;
- direction: 0 to 1 for the angle between the first parts.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from treeformer._util.arrays import FloatArray
from treeformer.timeseries.paths import Paths

# Costs above this are no match. A perfect match costs 0.
MAX_COST = 3.0
# Distances count up to this many tolerances.
CAP = 3.0
# Weights of the terms.
PATH_WEIGHT, BASE_WEIGHT, DIRECTION_WEIGHT = 1.0, 0.5, 0.5
# The direction of an axis is that of its first part, this many tolerances long.
DIRECTION_REACH = 2.0
# The weight of an axis in an assignment is the root of its length in tolerances, within these limits.
MIN_IMPORTANT, MAX_IMPORTANT = 0.1, 16.0


def pair_costs(paths: Paths, templates: Paths, tolerance_px: float, spacing_px: float) -> FloatArray:
    """Return the geometric part of the cost of each axis and template.

    Args:
        paths: A axes.
        templates: B templates, each at least as old as the axes.
        tolerance_px: Distance within which places agree, px.
        spacing_px: Distance between the points of all paths, px.

    Returns:
        (A,B) costs in tolerances: path, base and direction, weighted.
    """
    cap = CAP * tolerance_px
    distance = cdist(paths.points, templates.points)
    forward = np.minimum(np.minimum.reduceat(distance, templates.start[:-1], axis=1), cap)
    forward = np.add.reduceat(forward, paths.start[:-1], axis=0) / np.diff(paths.start)[:, None]
    backward = np.minimum(np.minimum.reduceat(distance, paths.start[:-1], axis=0), cap)  # (A, points of templates)
    total = np.concatenate([np.zeros((len(paths), 1)), np.cumsum(backward, axis=1)], axis=1)
    first = templates.start[:-1][None]
    # The part of each template that is as long as the axis.
    size = np.diff(templates.start)[None]
    step = templates.length[None] / np.maximum(size - 1, 1)
    covered = np.floor(paths.length[:, None] / np.maximum(step, 1e-9)).astype(np.intp) + 1
    covered = np.clip(covered, 1, size)
    rows = np.arange(len(paths))[:, None]
    backward = (total[rows, first + covered] - total[rows, first]) / covered
    base = np.minimum(cdist(paths.bases, templates.bases), 2 * cap)
    reach = DIRECTION_REACH * tolerance_px
    turn = 0.5 * (1 - _directions(paths, reach) @ _directions(templates, reach).T)
    path = (forward + backward) / 2
    return np.asarray(PATH_WEIGHT * path / tolerance_px + BASE_WEIGHT * base / tolerance_px + DIRECTION_WEIGHT * turn)


def _directions(paths: Paths, reach_px: float) -> FloatArray:
    """Return the unit vector of each path's first part, (A,2); 0 for a path of one point."""
    size = np.diff(paths.start)
    step = paths.length / np.maximum(size - 1, 1)
    ahead = np.clip(np.round(reach_px / np.maximum(step, 1e-9)).astype(np.intp), 0, size - 1)
    vector = paths.points[paths.start[:-1] + ahead] - paths.bases
    norm = np.hypot(vector[:, 0], vector[:, 1])
    return np.asarray(vector / np.where(norm > 0, norm, 1.0)[:, None])


def importance(length: FloatArray) -> FloatArray:
    """Return the weight (A,) of axes in an assignment from their lengths (A,) in tolerances."""
    return np.sqrt(np.clip(length, MIN_IMPORTANT, MAX_IMPORTANT))


def assign(cost: FloatArray, limit: float, weight: FloatArray | None = None) -> list[tuple[int, int]]:
    """Return the pairs that save most, where a pair saves `limit` less its cost, times its row's weight.

    Args:
        cost: (rows, columns) costs.
        limit: Pairs that cost this or more are left out.
        weight: (rows,) weights; None for 1.

    Returns:
        Pairs (row, column). Each row and each column is in at most one of them.
    """
    if cost.size == 0:
        return []
    saved = np.where(cost < limit, limit - cost, 0.0)
    if weight is not None:
        saved = saved * weight[:, None]
    rows, columns = linear_sum_assignment(-saved)
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if cost[i, j] < limit]
