"""Register the skeletons of several dates: a similarity transform from each date to one reference date.

Earlier plants are a part of later ones, as far as they only grow. A transform is therefore good if the points of the
earlier skeleton lie on the later one, and its seeds on seeds; what the later skeleton has in addition does not count.

1. Hypotheses come from pairs of seeds or branch points in both skeletons whose distances agree (RANSAC), from single
   seeds with several rotations, and from the transforms of neighboring dates.
2. The best ones are refined by iterated closest points, a residual shift by phase correlation, and closest points
   again.
3. The registration has failed if too few points lie on the target. The date then keeps the transform of its neighbor,
   and `Registration.succeeded` is False.

The target of a date is the union of the reference and of the nearest dates that are registered already. An occluded or
missed root on one date therefore does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.timeseries.hypotheses import make_hypotheses, motion_penalties
from treeformer.timeseries.phase import residual_shift
from treeformer.timeseries.point_cloud import PointCloud, point_cloud, random_subset, union
from treeformer.timeseries.similarity import IDENTITY, Similarity, fit_similarity

# Default tolerance, as a share of the longer side of the images.
TOLERANCE_SHARE = 0.015
MIN_TOLERANCE_PX = 3.0
# Limits of a transform between two dates.
MAX_SCALE = 1.25
# Numbers of points, and of hypotheses that are refined. More cost time and hardly change the result.
MAX_POINTS, REFINED = 400, 8
# A transform is good enough to need no search if this share of the points lies within half of the tolerance.
SURE_SHARE = 0.9
# A registration has failed if fewer points lie within the tolerance, or hardly more than by chance.
MIN_SHARE, MIN_ABOVE_CHANCE = 0.5, 0.15
# Number of registered dates, in addition to the reference, that make up the target.
TARGET_DATES = 3
# Strength of the priors on rotation and scale for a skeleton with one anchor (seed or branch point), in tolerances: the
# error of an anchor's position, about 0.2, divided by the usual rotation (0.05 rad) and change of scale (0.01). With
# more anchors, the priors are weaker by the square root of their number.
ROTATION_PRIOR, SCALE_PRIOR = 4.0, 20.0
# Seeds that agree are this close, in tolerances.
CLOSE_SEEDS = 0.35
# Closest points end with pairs within twice this many tolerances.
LEAST_REACH = 0.7


@dataclass(frozen=True, slots=True)
class Registration:
    """The result of registering one date."""

    transform: Similarity  # from px of the date to px of the reference date
    succeeded: bool  # False if the transform is a guess, because too few points agree
    agreement: float  # share of the skeleton's points within the tolerance of the target, 0 to 1; NaN for an empty one
    residual_px: float  # median distance of these points from the target, px; NaN without such points
    method: str  # "reference", "neighbor" (the transform of a neighboring date, refined), "search" (RANSAC) or "none"


def default_tolerance(skeletons: Sequence[Skeleton]) -> float:
    """Return the tolerance in px for skeletons of one series: a share of their images' longer side, or else extent.

    One image of another size does not change it for all others, so the median counts. Plants grow: the largest counts.
    """
    sides = [max(s.image_size) for s in skeletons if s.image_size is not None]
    extents = [float(np.ptp(s.nodes, axis=0).max()) for s in skeletons if len(s)]
    side = float(np.median(sides)) if sides else max(extents, default=0.0)
    return max(MIN_TOLERANCE_PX, TOLERANCE_SHARE * side)


class Target:
    """Points to which others are registered, at least one, with fast distances."""

    def __init__(self, cloud: PointCloud, tolerance_px: float) -> None:
        self.cloud = cloud
        self.tolerance_px = tolerance_px
        self.tree = cKDTree(cloud.points)
        self.seed_tree = cKDTree(cloud.seeds) if len(cloud.seeds) else None
        margin = 4 * tolerance_px
        self._low = cloud.points.min(axis=0) - margin
        extent = cloud.points.max(axis=0) + margin - self._low
        self._cell_px = max(tolerance_px / 4, float(extent.max()) / 1024)
        columns, rows = (int(side / self._cell_px) + 1 for side in extent.tolist())
        empty = np.ones((rows, columns), dtype=bool)
        column, row = ((cloud.points - self._low) / self._cell_px).astype(np.intp).T
        empty[row, column] = False
        self._distance = np.asarray(distance_transform_edt(empty)) * self._cell_px
        self.chance = float((self._distance <= tolerance_px).mean())

    def rough_distance(self, points: FloatArray) -> FloatArray:
        """Return the distance to the nearest point of the target, to about half a cell; (...,) px."""
        place = ((points - self._low) / self._cell_px).astype(np.intp)
        rows, columns = self._distance.shape
        inside = (place >= 0).all(axis=-1) & (place[..., 0] < columns) & (place[..., 1] < rows)
        inside &= (points >= self._low).all(axis=-1)
        place = np.where(inside[..., None], place, 0)
        return np.where(inside, self._distance[place[..., 1], place[..., 0]], np.inf)

    def score(self, source: PointCloud, transforms: FloatArray) -> FloatArray:
        """Return how well transforms (H,2,3) move a cloud to the target: 0 to 1 for points, plus as much for seeds."""
        scores = np.empty(len(transforms))
        for first in range(0, len(transforms), 500):
            part = transforms[first : first + 500]
            moved = np.einsum("hij,pj->hpi", part[:, :, :2], source.points) + part[:, None, :, 2]
            scores[first : first + 500] = _closeness(self.rough_distance(moved), self.tolerance_px).mean(axis=1)
            if self.seed_tree is not None and len(source.seeds):
                seeds = np.einsum("hij,pj->hpi", part[:, :, :2], source.seeds) + part[:, None, :, 2]
                distance = self.seed_tree.query(seeds)[0]
                scores[first : first + 500] += _closeness(distance, 2 * self.tolerance_px).mean(axis=1)
        return scores


def _closeness(distance: FloatArray, tolerance_px: float) -> FloatArray:
    """Return 1 at distance 0, falling linearly to 0 at twice the tolerance."""
    return np.clip(1 - distance / (2 * tolerance_px), 0.0, 1.0)


def register(
    source: PointCloud, target: Target, guesses: Sequence[Similarity] = (IDENTITY,), *, seed: int = 0
) -> Registration:
    """Find the transform from one cloud to another; if this fails, it is the first of the guesses, the likeliest."""
    guess = guesses[0] if guesses else IDENTITY
    if len(source.points) == 0:
        return Registration(guess, False, math.nan, math.nan, "none")
    rng = np.random.default_rng(seed)
    source = replace(source, points=random_subset(source.points, MAX_POINTS, rng))
    best: Registration | None = None
    starts = [start for guess_ in guesses for start in (_with_seeds_aligned(source, target, guess_), guess_)]
    for improve in (_closest_points, refine):  # the second takes longer, and is seldom needed
        for start in starts:
            result = _judged(improve(source, target, start), source, target, "neighbor")
            if _is_sure(result, source, target):
                return result
            best = _better(best, result, source, target)
    hypotheses = make_hypotheses(source, target.cloud, rng)
    matrices = np.stack([h.matrix for h in hypotheses]) if hypotheses else np.zeros((0, 2, 3))
    if hypotheses:
        value = target.score(source, matrices) - motion_penalties(hypotheses, guess, source)
        for index in np.argsort(-value, kind="stable")[:REFINED].tolist():
            result = _judged(refine(source, target, hypotheses[index]), source, target, "search")
            best = _better(best, result, source, target)
    assert best is not None
    return best if best.succeeded else replace(best, transform=guess, method="none")


def refine(source: PointCloud, target: Target, start: Similarity) -> Similarity:
    """Refine a transform: closest points, the residual shift by phase correlation, and closest points again.

    The shift is used only if it brings more points to the target.
    """
    found = _closest_points(source, target, start)
    moved = source.moved(found)
    shift, _ = residual_shift(moved.points, target.cloud.points, 3 * target.tolerance_px)
    shifted = Similarity(1.0, 0.0, (float(shift[0]), float(shift[1]))).after(found)
    candidates = np.stack([found.matrix, shifted.matrix])
    if np.diff(target.score(source, candidates))[0] > 0:
        found = shifted
    return _closest_points(source, target, found, reach=2.0)


def _closest_points(source: PointCloud, target: Target, start: Similarity, reach: float = 4.0) -> Similarity:
    """Iterate closest points. Pairs farther apart than twice the reach (in tolerances), which shrinks, do not count.

    The priors of `fit_similarity` keep the rotation near that of the start and the scale near 1, as far as the points
    do not determine them.
    """
    tolerance = target.tolerance_px
    turn = Similarity(1.0, start.rotation)
    turned = source.moved(turn)
    rest = start.after(turn.inverse())  # what follows the rotation
    anchors = max(math.sqrt(len(source.seeds) + len(source.forks)), 1.0)
    for step in range(20):
        limit = tolerance * max(reach * 0.7**step, LEAST_REACH)
        moved = turned.moved(rest)
        distance, nearest = target.tree.query(moved.points)
        pairs = [(turned.points, target.cloud.points[nearest], _pair_weight(distance, limit))]
        if target.seed_tree is not None and len(source.seeds):
            distance, nearest = target.seed_tree.query(moved.seeds)
            # All seeds together weigh as much as a fifth of the points.
            share = 0.2 * len(source.points) / len(source.seeds)
            pairs.append((turned.seeds, target.cloud.seeds[nearest], share * _pair_weight(distance, limit)))
        a, b, w = (np.concatenate(one) for one in zip(*pairs, strict=True))
        if w.sum() <= 1e-9:
            break
        previous = rest
        rest = fit_similarity(
            a,
            b,
            w,
            rotation_prior_px=ROTATION_PRIOR * tolerance / anchors,
            scale_prior_px=SCALE_PRIOR * tolerance / anchors,
        )
        if np.abs(rest.apply(a) - previous.apply(a)).max() < 0.01 and limit == tolerance * LEAST_REACH:
            break
    return rest.after(turn)


def _with_seeds_aligned(source: PointCloud, target: Target, start: Similarity) -> Similarity:
    """Return a transform with the shift that moves most seeds near seeds, so that no plant slides along itself."""
    if target.seed_tree is None or len(source.seeds) == 0:
        return start
    moved = start.apply(source.seeds)
    distance, nearest = target.seed_tree.query(moved)
    near = distance <= 6 * target.tolerance_px
    if not near.any():
        return start
    x, y = np.median((target.cloud.seeds[nearest] - moved)[near], axis=0).tolist()
    return Similarity(1.0, 0.0, (x, y)).after(start)


def _pair_weight(distance: FloatArray, limit: float) -> FloatArray:
    """Return Tukey's weight: 1 at distance 0, 0 from twice the limit on."""
    return np.asarray(np.square(np.clip(1 - np.square(distance / (2 * limit)), 0.0, None)))


def _judged(transform: Similarity, source: PointCloud, target: Target, method: str) -> Registration:
    distance = target.tree.query(transform.apply(source.points))[0]
    agrees = distance <= target.tolerance_px
    share = float(agrees.mean())
    is_valid = 1 / MAX_SCALE <= transform.scale <= MAX_SCALE
    succeeded = is_valid and share >= max(MIN_SHARE, min(target.chance + MIN_ABOVE_CHANCE, 0.95))
    return Registration(
        transform, succeeded, share, float(np.median(distance[agrees])) if agrees.any() else math.nan, method
    )


def _quality(result: Registration, source: PointCloud, target: Target) -> float:
    return float(target.score(source, result.transform.matrix[None])[0]) + result.agreement


def _is_sure(result: Registration, source: PointCloud, target: Target) -> bool:
    """True if nearly all points and seeds agree closely, so that no search is needed."""
    if not result.succeeded:
        return False
    distance = target.tree.query(result.transform.apply(source.points))[0]
    if float((distance <= target.tolerance_px / 2).mean()) < SURE_SHARE:
        return False
    if target.seed_tree is None or len(source.seeds) == 0:
        return True
    seed_distance = target.seed_tree.query(result.transform.apply(source.seeds))[0]
    closest = float(np.median(seed_distance)) <= CLOSE_SEEDS * target.tolerance_px
    return closest and bool((seed_distance <= target.tolerance_px).mean() >= SURE_SHARE)


def _better(best: Registration | None, other: Registration, source: PointCloud, target: Target) -> Registration:
    """Return the better of two registrations; the first, unless the other is clearly better."""
    if best is None or (other.succeeded and not best.succeeded):
        return other
    if best.succeeded and not other.succeeded:
        return best
    return other if _quality(other, source, target) > _quality(best, source, target) + 0.02 else best


def reference_date(skeletons: Sequence[Skeleton]) -> int:
    """Return the date to which all others are registered: the last that is not much shorter than most.

    Its length is at least half of the median over the dates that are not empty.
    """
    length = np.asarray([skeleton.length for skeleton in skeletons])
    known = length[length > 0]
    return int(np.flatnonzero(length >= 0.5 * np.median(known))[-1]) if len(known) else len(skeletons) - 1


def register_all(
    skeletons: Sequence[Skeleton], tolerance_px: float, *, enabled: bool = True
) -> tuple[list[Registration], int]:
    """Register all dates of a series, in the order of time, to its reference date, whose index is returned as well.

    If disabled, all dates keep their coordinates; agreements are measured nevertheless.
    """
    reference = reference_date(skeletons)
    clouds = [point_cloud(skeleton, max(tolerance_px / 4, 1.0)) for skeleton in skeletons]
    results: list[Registration] = [Registration(IDENTITY, False, math.nan, math.nan, "none")] * len(skeletons)
    if len(clouds[reference].points) == 0:
        return results, reference
    results[reference] = Registration(IDENTITY, True, 1.0, 0.0, "reference")
    for order in (range(reference - 1, -1, -1), range(reference + 1, len(skeletons))):
        placed = [clouds[reference]]
        guess = IDENTITY
        for date in order:
            target = Target(union([placed[0], *placed[1:][-TARGET_DATES:]]), tolerance_px)
            if enabled:
                results[date] = register(clouds[date], target, tuple(dict.fromkeys((guess, IDENTITY))), seed=date)
            elif len(clouds[date].points):
                results[date] = _judged(IDENTITY, clouds[date], target, "none")
            if results[date].succeeded:
                guess = results[date].transform
                placed.append(clouds[date].moved(guess))
    return results, reference
