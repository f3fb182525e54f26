"""Costs of giving an axis the identity of a track, and the assignment of least cost.

`pair_costs` compares an axis with a template, which is at least as old. Its cost is a sum, in units of the tolerance:

- path: mean distance of the axis from the template, and of the template's first part, as long as the axis, from it;
- base: distance of the bases;
- direction: 0 to 1 for the angle between the first parts.

`identity_costs` compares the axes of two dates. Its cost is a sum, too:

- path: mean distance of the shorter axis from the longer one, and that of its second half;
- tip: distance from the shorter axis to the place where the longer one is as long as it;
- direction: 0 to 1 for the angle between the straight lines from base to tip;
- shrinkage: by how much the later axis is shorter;
- order: a penalty if only one of them is a main axis.

Bases do not count here: in predictions, axes often begin at a wrong place, or on another axis. The ratio of the weights
is that of a logistic regression, which `benchmarks/identity_errors.py --fit` fits to predicted series.

A and B are the numbers of the axes or templates that are compared.
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
# Weights of the terms of `pair_costs`.
PATH_WEIGHT, BASE_WEIGHT, DIRECTION_WEIGHT = 1.0, 0.25, 0.5
# Weights of the terms of `identity_costs`.
WHOLE_WEIGHT, DISTAL_WEIGHT, TIP_WEIGHT = 0.5, 1.2, 0.15
TURN_WEIGHT, SHRINKAGE_WEIGHT, MAIN_WEIGHT = 1.4, 0.37, 0.4
# A length may lie outside its limits by this fraction, and this many tolerances, without a cost.
LENGTH_SLACK, LENGTH_SLACK_TOLERANCES = 0.1, 0.5
# The direction of an axis is that of its first part, this many tolerances long.
DIRECTION_REACH = 2.0
# Number of dates before and after a date whose axes are compared with its own.
NEIGHBOR_DATES = 8
# The weight of an axis in an assignment is the root of its length in tolerances, within these limits.
MIN_IMPORTANT, MAX_IMPORTANT = 0.1, 16.0


def pair_costs(paths: Paths, templates: Paths, tolerance_px: float, spacing_px: float) -> FloatArray:
    """Return the cost (A,B) of each axis and template, which is at least as old; all paths have the same spacing."""
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


def identity_costs(earlier: Paths, later: Paths, tolerance_px: float) -> FloatArray:
    """Return the cost (A,B) of one identity for each pair of axes of two dates."""
    distance = cdist(earlier.points, later.points)
    is_shorter = earlier.length[:, None] <= later.length[None]
    path = np.where(
        is_shorter,
        _path_costs(earlier, later, distance, tolerance_px),
        _path_costs(later, earlier, distance.T, tolerance_px).T,
    )
    turn = 0.5 * (1 - _directions(earlier, np.inf) @ _directions(later, np.inf).T)
    shrunk = earlier.length[:, None] - (1 + LENGTH_SLACK) * later.length[None] - LENGTH_SLACK_TOLERANCES * tolerance_px
    shrunk = np.clip(shrunk / tolerance_px, 0.0, 2 * CAP)
    is_main = (earlier.parent < 0)[:, None] != (later.parent < 0)[None]
    return np.asarray(path + TURN_WEIGHT * turn + SHRINKAGE_WEIGHT * shrunk + MAIN_WEIGHT * is_main)


def _path_costs(shorter: Paths, longer: Paths, distance: FloatArray, tolerance_px: float) -> FloatArray:
    """Return the terms path and tip of `identity_costs`, (A,B), for A axes that are shorter than B others."""
    cap = CAP * tolerance_px
    near = np.minimum(np.minimum.reduceat(distance, longer.start[:-1], axis=1), cap)
    total = np.concatenate([np.zeros((1, len(longer))), np.cumsum(near, axis=0)])
    first, last = shorter.start[:-1], shorter.start[1:]
    middle = (first + last) // 2
    whole = (total[last] - total[first]) / (last - first)[:, None]
    distal = (total[last] - total[middle]) / (last - middle)[:, None]
    # Where the longer axis was when it was as long as the shorter one.
    size = np.diff(longer.start)[None]
    step = longer.length[None] / np.maximum(size - 1, 1)
    ahead = np.clip(np.floor(shorter.length[:, None] / np.maximum(step, 1e-9)).astype(np.intp), 0, size - 1)
    backward = np.minimum(np.minimum.reduceat(distance, shorter.start[:-1], axis=0), cap)
    tip = backward[np.arange(len(shorter))[:, None], longer.start[:-1][None] + ahead]
    return np.asarray((WHOLE_WEIGHT * whole + DISTAL_WEIGHT * distal + TIP_WEIGHT * tip) / tolerance_px)


def _directions(paths: Paths, reach_px: float) -> FloatArray:
    """Return the unit vector of each path's first part, (A,2); 0 for a path of one point."""
    size = np.diff(paths.start)
    step = paths.length / np.maximum(size - 1, 1)
    ahead = np.minimum(np.round(reach_px / np.maximum(step, 1e-9)), size - 1).astype(np.intp)
    vector = paths.points[paths.start[:-1] + ahead] - paths.bases
    norm = np.hypot(vector[:, 0], vector[:, 1])
    return np.asarray(vector / np.where(norm > 0, norm, 1.0)[:, None])


def importance(length: FloatArray) -> FloatArray:
    """Return the weight (A,) of axes in an assignment from their lengths (A,) in tolerances."""
    return np.sqrt(np.clip(length, MIN_IMPORTANT, MAX_IMPORTANT))


def assign(cost: FloatArray, limit: float, weight: FloatArray | None = None) -> list[tuple[int, int]]:
    """Return the pairs (row, column) that save most, where a pair saves `limit` less its cost, times its row's weight.

    Each row and each column is in at most one of them. Pairs that cost the limit or more are left out.
    """
    if cost.size == 0:
        return []
    saved = np.where(cost < limit, limit - cost, 0.0)
    if weight is not None:
        saved = saved * weight[:, None]
    rows, columns = linear_sum_assignment(-saved)
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if cost[i, j] < limit]
