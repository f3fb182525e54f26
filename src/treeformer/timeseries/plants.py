"""Match the plants of all dates: which are the same, and how each moved in addition to its plate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer.timeseries.costs import CAP, MAX_COST, assign
from treeformer.timeseries.paths import Paths
from treeformer.timeseries.similarity import Similarity, fit_similarity

# A plant whose mean distance from its template is less than this many tolerances has not moved.
STILL = 0.1
# A plant may move by this many tolerances in addition to its plate.
PLANT_REACH = 4.0
# A plant whose length falls below this share of what it was has not moved: another one stands there.
LEAST_GROWTH = 0.7
# Two plants with a mean distance of this many tolerances or more are different ones.
APART = 2.5
# No identity.
NONE = -1


@dataclass
class PlantMatching:
    """The identities of all plants."""

    identity: list[IntArray]  # one (P,) array per date, the identity of each of its plants, -1 for a plant without axes
    # one dictionary per date: how the plant of each identity moved in addition to its plate
    shift: list[dict[int, Similarity]]
    count: int  # number of identities


def match_plants(
    dates: Sequence[Paths], seeds: Sequence[FloatArray], reference: int, tolerance_px: float
) -> PlantMatching:
    """Match the plants of all dates, backwards from the reference date; see `match_axes`."""
    identity = [np.full(len(s), NONE, dtype=np.intp) for s in seeds]
    shift: list[dict[int, Similarity]] = [{} for _ in dates]
    templates: list[cKDTree] = []  # points of each plant, from the date that shows most of it
    template_seeds: list[FloatArray] = []
    sizes: list[dict[int, int]] = []  # number of points of each plant by date
    order = [*range(reference, -1, -1), *range(reference + 1, len(dates))]
    cap = CAP * tolerance_px
    for date in order:
        paths = dates[date]
        clouds = [paths.points[_points_of_plant(paths, plant)] for plant in range(len(seeds[date]))]
        cost = np.full((len(clouds), len(templates)), np.inf)
        for i, cloud in enumerate(clouds):
            if len(cloud) == 0:
                continue
            for j, template in enumerate(templates):
                offset = template_seeds[j] - seeds[date][i]
                apart = float(np.hypot(*offset))
                if apart > 3 * PLANT_REACH * tolerance_px:
                    continue
                # As it is, and with its seed on the seed, unless it would shrink.
                moves = (np.zeros(2),) if _shrinks(sizes[j], date, len(cloud)) else (np.zeros(2), offset)
                distance = min(float(np.minimum(template.query(cloud + move)[0], cap).mean()) for move in moves)
                if distance < APART * tolerance_px:
                    cost[i, j] = distance / tolerance_px + 0.25 * apart / tolerance_px
        for i, j in assign(cost, 2 * MAX_COST):
            identity[date][i], sizes[j][date] = j, len(clouds[i])
            move = _plant_motion(clouds[i], templates[j], seeds[date][i], template_seeds[j], tolerance_px)
            shift[date][j] = move
            if len(clouds[i]) > templates[j].n:
                templates[j], template_seeds[j] = cKDTree(move.apply(clouds[i])), move.apply(seeds[date][i])
        for i in np.flatnonzero(identity[date] == NONE).tolist():
            if len(clouds[i]):
                identity[date][i] = len(templates)
                shift[date][len(templates)] = Similarity()
                templates.append(cKDTree(clouds[i]))
                template_seeds.append(seeds[date][i])
                sizes.append({date: len(clouds[i])})
    return PlantMatching(identity, shift, len(templates))


def _shrinks(sizes: dict[int, int], date: int, size: int) -> bool:
    """Return True if a plant of this size at a date would be much shorter than it was, compared with the nearest date.

    Sizes are numbers of points; `sizes` has at least one other date.
    """
    nearest = min(sizes, key=lambda other: abs(other - date))
    earlier, later = (sizes[nearest], size) if nearest < date else (size, sizes[nearest])
    return later < LEAST_GROWTH * earlier


def _points_of_plant(paths: Paths, plant: int) -> BoolArray:
    return np.repeat(paths.plant == plant, np.diff(paths.start))


def _plant_motion(
    cloud: FloatArray, tree: cKDTree, seed: FloatArray, template_seed: FloatArray, tolerance_px: float
) -> Similarity:
    """Find how a plant moved in addition to its plate: a small shift and rotation, by iterated closest points."""
    template = np.asarray(tree.data)
    starts = [Similarity(), Similarity(1.0, 0.0, tuple((template_seed - seed).tolist()))]
    best, best_distance = starts[0], float(np.minimum(tree.query(cloud)[0], CAP * tolerance_px).mean())
    for start in starts if best_distance > STILL * tolerance_px else ():
        found = start
        for step in range(10):
            distance, nearest = tree.query(found.apply(cloud))
            limit = tolerance_px * max(3.0 * 0.75**step, 0.7)
            weight = np.square(np.clip(1 - np.square(distance / (2 * limit)), 0.0, None))
            if weight.sum() <= 1e-9:
                break
            found = fit_similarity(
                np.vstack([cloud, seed]),
                np.vstack([template[nearest], template_seed]),
                np.append(weight, 0.1 * weight.sum()),
                rotation_prior_px=5 * tolerance_px,
                scale_prior_px=1e6,
            )
        distance = np.minimum(tree.query(found.apply(cloud))[0], CAP * tolerance_px).mean()
        moved = float(np.hypot(*(found.apply(seed) - seed)))
        if distance < best_distance - 0.05 * tolerance_px and moved <= 2 * PLANT_REACH * tolerance_px:
            best, best_distance = found, float(distance)
    return best


def with_plant_shifts(paths: Paths, identity: IntArray, shifts: dict[int, Similarity]) -> Paths:
    """Return the paths of a date, each moved with its plant; `identity` (P,) is that of each plant of the date."""
    points = paths.points.copy()
    for plant, known in enumerate(identity.tolist()):
        if known == NONE:  # a plant without axes
            continue
        selected = _points_of_plant(paths, plant)
        points[selected] = shifts[known].apply(points[selected])
    return paths.moved(points)
