"""Several predictions of each image, and the choice among them by the other dates.

The network connects doubtful branches in another way if an image is mirrored, or shifted against its grid. Such errors
differ from date to date, but the plants stay the same. So every image is predicted in several views, and each date
keeps the prediction whose axes agree best with those of the dates around it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer.data.augmentation import warp
from treeformer.decoding.postprocess import with_plants_and_axes
from treeformer.skeleton import Skeleton
from treeformer.timeseries.costs import MAX_COST, assign, identity_costs, importance
from treeformer.timeseries.paths import Paths, axis_paths
from treeformer.timeseries.registration import default_tolerance, register_all

# The views of an image, in the order in which they are used.
VIEWS = ("as it is", "mirrored", "shifted", "mirrored and shifted")
# Shift to the right and upwards, as a share of the longer side. A strip of this width is lost; above the plants it
# matters least.
SHIFT_RIGHT, SHIFT_UP = 9 / 512, 13 / 512
# A date is compared with this many dates before and after it.
NEIGHBORS = 3
# The choice is repeated, because that of one date depends on that of others.
MAX_ROUNDS = 4


def view_transform(view: int, size: tuple[int, int]) -> FloatArray:
    """Return the (2,3) map from an image to a view in `VIEWS`, which has the same (width, height), px."""
    affine = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    if "mirrored" in VIEWS[view]:
        affine[0] = (-1.0, 0.0, size[0])
    if "shifted" in VIEWS[view]:
        longest = max(size)
        affine[:, 2] += (round(SHIFT_RIGHT * longest), -round(SHIFT_UP * longest))
    return affine


def view_of(image: ImageArray, view: int) -> ImageArray:
    """Return a view of an image.

    Args:
        image: (H,W,3) RGB.
        view: Index in `VIEWS`.

    Returns:
        (H,W,3) RGB.
    """
    size = (image.shape[1], image.shape[0])
    return warp(image, view_transform(view, size), size) if view else image


def from_view(skeleton: Skeleton, view: int) -> Skeleton:
    """Return what was predicted for a view, in px of the image. Plants are numbered from left to right again.

    Args:
        skeleton: The prediction. Its `image_size` is set.
        view: Index in `VIEWS`.

    Returns:
        The skeleton.
    """
    size = skeleton.image_size
    if view == 0 or size is None or len(skeleton) == 0:
        return skeleton
    there = np.vstack([view_transform(view, size), (0.0, 0.0, 1.0)])
    back = skeleton.transform(np.linalg.inv(there)[:2], image_size=size)
    return with_plants_and_axes(back.replace(nodes=np.clip(back.nodes, 0.0, size), plant=None))


def choose_views(
    dates: Sequence[Sequence[Skeleton]], *, tolerance_px: float | None = None, register: bool = True
) -> list[Skeleton]:
    """Choose one of several predictions of each date.

    Args:
        dates: The predictions of each date, in the order of time. A date that is known, such as a corrected one, has
            one only. The first ones are used to register the dates.
        tolerance_px: Distance within which two places are the same, px. None for 1.5 % of the longer side.
        register: False if neither plate nor camera moved.

    Returns:
        One prediction per date.
    """
    if all(len(views) == 1 for views in dates):
        return [views[0] for views in dates]
    first = [views[0] for views in dates]
    tolerance = default_tolerance(first) if tolerance_px is None else tolerance_px
    spacing = max(tolerance / 3, 2.0)
    placed: list[list[Paths]] = []
    for views, registration in zip(dates, register_all(first, tolerance, enabled=register)[0], strict=True):
        sampled = [axis_paths(skeleton, spacing)[0] for skeleton in views]
        placed.append([paths.moved(registration.transform.apply(paths.points)) for paths in sampled])
    chosen = _choose(placed, tolerance)
    return [views[view] for views, view in zip(dates, chosen, strict=True)]


def _choose(placed: Sequence[Sequence[Paths]], tolerance_px: float) -> list[int]:
    """Return the index of the prediction of each date that agrees best with the chosen ones around it."""
    known: dict[tuple[int, int, int, int], float] = {}

    def agreement_of(date: int, view: int, other: int, other_view: int) -> float:
        key = (date, view, other, other_view) if date < other else (other, other_view, date, view)
        if key not in known:
            known[key] = agreement(placed[key[0]][key[1]], placed[key[2]][key[3]], tolerance_px)
        return known[key] / abs(date - other)

    chosen = [0] * len(placed)
    for _ in range(MAX_ROUNDS):
        before = list(chosen)
        for date, views in enumerate(placed):
            around = [
                other
                for other in range(max(0, date - NEIGHBORS), min(len(placed), date + NEIGHBORS + 1))
                if other != date
            ]
            totals = [sum(agreement_of(date, view, one, chosen[one]) for one in around) for view in range(len(views))]
            chosen[date] = int(np.argmax(totals))
        if chosen == before:
            break
    return chosen


def agreement(earlier: Paths, later: Paths, tolerance_px: float) -> float:
    """Return how well the axes of two dates agree, in px of the reference date, from 0 for none to 1 for all.

    Long axes weigh more, see `treeformer.timeseries.costs.importance`.
    """
    if len(earlier) == 0 or len(later) == 0:
        return 0.0
    cost = identity_costs(earlier, later, tolerance_px)
    weight, other_weight = (importance(paths.length / tolerance_px) for paths in (earlier, later))
    saved = sum(weight[i] * (1 - cost[i, j] / MAX_COST) for i, j in assign(cost, MAX_COST, weight))
    return float(2 * saved / (weight.sum() + other_weight.sum()))
