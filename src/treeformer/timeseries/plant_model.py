"""One model of the plants of a whole series, from which every predicted date is drawn.

The prediction of a single date has errors: an edge jumps to a neighbor, a fork continues along the wrong arm, an axis
is missing or false. Roots grow at their tips and do not vanish, so all dates together say what is there: a model axis
is one path in px of the reference date, with one length per date that never decreases.

The axes of all dates are candidates. A candidate is compared with each date, place by place: a place that the date
shows counts for it, a place that the date does not show counts against it if the axis has reached it at this date, and
a place that an axis of the model explains already counts nothing. The lengths that gain most are found by dynamic
programming over the dates. The candidate with the greatest gain becomes a part of the model, what it explains is marked
at each date, and the next one is chosen, until no candidate gains enough. Two candidates that show the same axis at
different dates thus become one axis, and an axis that one date shows and all later ones do not is left out.

Each axis of the model explains the axis of a date that lies along most of it, and those that lie along the rest. Of
other axes, it explains only what lies on it, so that a neighbor that is a few px apart stays.

A candidate that begins along the model is cut where it leaves it, and extends the axis at whose tip it does so. A model
axis begins at the nearest place of an axis that was chosen before, or at the seed of its plant. A parent is at
least long enough for its laterals.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from treeformer._util.arrays import FloatArray, IntArray
from treeformer._util.geometry import project_onto_segments
from treeformer.timeseries.paths import arc_length, at_positions, sample

# All distances are in tolerances.
# Distance between the compared places of a candidate, and between those of a date.
CANDIDATE_SPACING, DATE_SPACING = 0.26, 0.195
# A date shows a place if its skeleton is this near.
COVER = 0.5
# An axis of a date lies along a model axis within the first distance. The axis that does so most is explained within
# the second distance, and others within the third.
ALONG, EXPLAINED, SAME_PLACE = 0.4, 0.7, 0.15
# An axis of a date that lies along a part of this length, along which no other one lies, is explained like the first.
MIN_STRETCH = 1.5
# Places of a date among which one that is not explained is searched.
NEIGHBORS = 10
# What a place that a date does not show costs; one that it shows gains 1.
MISSING_COST = 1.0
# A candidate that gains less, in tolerances × dates, is left out.
MIN_GAIN = 0.75
# A model axis is at least this long.
MIN_LENGTH = 0.5
# A candidate that begins along the model, within the first distance, for more than the second is cut where it leaves.
ON_MODEL, MAX_OVERLAP = 0.3, 2.5
# If it leaves the model this near to the tip of an axis, it extends this axis.
AT_TIP = 1.0
# A main axis that begins within this distance of another one, but not of its base, is a lateral of it. Other axes begin
# on an axis within the second distance.
AT_SEED, MAX_REACH = 1.0, 3.0
# Weight of a date that a person has corrected.
CORRECTED_WEIGHT = 5.0
# Number of dates whose axes are candidates; those of longer series are spread over all dates.
MAX_CANDIDATE_DATES = 16
# A date shows a plant if it shows this share of what was there before. A plant that was shown this often, and then no
# more, ends with the last date that shows it.
VISIBLE_SHARE, MIN_VISIBLE_DATES = 0.2, 3


@dataclass(frozen=True)
class DateAxis:
    """An axis of a date.

    Attributes:
        line: (K,2) px of the reference date, from base to tip.
        plant: Identity of its plant.
        is_main: True for an axis without a parent.
    """

    line: FloatArray
    plant: int
    is_main: bool


@dataclass(frozen=True)
class ModelAxis:
    """An axis of the model.

    Attributes:
        line: (K,2) px of the reference date, from base to tip.
        length: (D,) px of the reference date, at each date; NaN if the axis is not there. Never decreases.
        plant: Identity of its plant.
        parent: Index of its parent, which is smaller than its own; -1 for a main axis.
        place: Path length on the parent at which it begins, px of the reference date.
    """

    line: FloatArray
    length: FloatArray
    plant: int
    parent: int = -1
    place: float = 0.0


def build_model(dates: Sequence[Sequence[DateAxis]], weights: FloatArray, tolerance_px: float) -> tuple[ModelAxis, ...]:
    """Build one model of all dates.

    Args:
        dates: The axes of each date, in the order of time, moved to the reference date.
        weights: (D,) weight of each date; 0 for a date that says nothing, whose axes are no candidates.
        tolerance_px: Distance within which places agree, px.

    Returns:
        The axes of the model, parents before laterals. No axis has a length at a date without axes.
    """
    builder = _Builder(dates, weights, tolerance_px)
    builder.choose()
    return builder.result()


class _Builder:
    def __init__(self, dates: Sequence[Sequence[DateAxis]], weights: FloatArray, tolerance_px: float) -> None:
        self.tolerance = tolerance_px
        self.weights = np.asarray([w if axes else 0.0 for w, axes in zip(weights.tolist(), dates, strict=True)])
        self.spacing = CANDIDATE_SPACING * tolerance_px
        self.is_empty = np.asarray([not axes for axes in dates])
        # Places of all dates in one array; the last entry of `explained` stands for "no place".
        shown = [[sample(axis.line, DATE_SPACING * tolerance_px) for axis in axes] for axes in dates]
        self.places = [np.concatenate(some) if some else np.zeros((0, 2)) for some in shown]
        self.axis_of_place = [
            np.repeat(np.arange(len(some)), [len(points) for points in some]).astype(np.intp) for some in shown
        ]
        self.first_place = np.concatenate([[0], np.cumsum([len(points) for points in self.places])]).astype(np.intp)
        self.explained = np.zeros(self.first_place[-1] + 1, dtype=bool)
        self.explained[-1] = True
        self.candidates, self.date_of_candidate = self._candidates(dates)
        self.samples = [sample(axis.line, self.spacing) for axis in self.candidates]
        self.start = np.concatenate([[0], np.cumsum([len(points) for points in self.samples])]).astype(np.intp)
        self.near = self._near_places()
        self.end_of_plant = self._ends_of_plants()
        self.chosen: list[ModelAxis] = []
        self.is_main: list[bool] = []

    def _candidates(self, dates: Sequence[Sequence[DateAxis]]) -> tuple[list[DateAxis], IntArray]:
        voting = np.flatnonzero(self.weights > 0)
        if len(voting) > MAX_CANDIDATE_DATES:
            voting = voting[np.linspace(0, len(voting) - 1, MAX_CANDIDATE_DATES).round().astype(np.intp)]
        pairs = [
            (axis, date)
            for date in voting.tolist()
            for axis in dates[date]
            if arc_length(axis.line)[-1] >= MIN_LENGTH * self.tolerance
        ]
        return [axis for axis, _ in pairs], np.asarray([date for _, date in pairs], dtype=np.intp)

    def _near_places(self) -> NDArray[np.int32]:
        """Return the nearest places of each date for each place of the candidates, (D,M,NEIGHBORS); -1 for none."""
        points = np.concatenate(self.samples) if self.samples else np.zeros((0, 2))
        near = np.full((len(self.places), len(points), NEIGHBORS), -1, dtype=np.int32)
        for date, places in enumerate(self.places):
            if len(places) and len(points):
                limit = COVER * self.tolerance
                index = cKDTree(places).query(points, k=NEIGHBORS, distance_upper_bound=limit)[1]
                near[date] = np.where(index < len(places), index + self.first_place[date], -1)
        return near

    def _ends_of_plants(self) -> dict[int, int]:
        """Return the last date that shows each plant, for plants that are gone afterwards."""
        ends: dict[int, int] = {}
        is_near = self.near[:, :, 0] >= 0
        plant = np.repeat([axis.plant for axis in self.candidates], np.diff(self.start)).astype(np.intp)
        date_of_point = np.repeat(self.date_of_candidate, np.diff(self.start))
        for number in np.unique(plant).tolist():
            visible = [
                date
                for date in range(len(self.places))
                if (before := (plant == number) & (date_of_point <= date)).any()
                and is_near[date, before].mean() >= VISIBLE_SHARE
            ]
            if len(visible) >= MIN_VISIBLE_DATES:
                ends[number] = visible[-1]
        return ends

    # ---- choice of axes -------------------------------------------------------------------------

    def choose(self) -> None:
        """Move the candidate with the greatest gain to the model until none gains enough.

        What a candidate gains decreases while the model grows, so a gain from before is an upper limit.
        """
        least = MIN_GAIN * self.tolerance
        heap = [(-self._best_lengths(k)[0], k) for k in range(len(self.candidates))]
        heapq.heapify(heap)
        while heap and -heap[0][0] >= least:
            _, candidate = heapq.heappop(heap)
            gain, count = self._best_lengths(candidate)
            if gain < least:
                continue
            if heap and -heap[0][0] > gain:
                heapq.heappush(heap, (-gain, candidate))
                continue
            self._accept(candidate, count)

    def _best_lengths(self, candidate: int) -> tuple[float, IntArray]:
        """Return what a candidate gains, px × dates, and how many of its places each date reaches, (D,)."""
        near = self.near[:, self.start[candidate] : self.start[candidate + 1]]
        is_shown = near[:, :, 0] >= 0
        is_new = ~self.explained[near].all(axis=2)
        gain = np.where(is_new, 1.0, np.where(is_shown, 0.0, -MISSING_COST))
        gain *= self.spacing * self.weights[:, None]
        gain[self.end_of_plant.get(self.candidates[candidate].plant, len(gain)) + 1 :] = 0.0
        return best_growth(gain)

    def _accept(self, candidate: int, count: IntArray) -> None:
        axis, points = self.candidates[candidate], self.samples[candidate]
        points = points[: max(int(count[-1]), 2)]
        first = self._overlap(points)
        self._explain(points, count)
        position = arc_length(points)
        length = np.where(count - 1 > first, position[np.clip(count - 1, 0, len(points) - 1)] - position[first], np.nan)
        length[self.is_empty] = np.nan
        if np.isnan(length).all() or position[-1] - position[first] < MIN_LENGTH * self.tolerance:
            return
        line = _part(axis.line, float(position[first]), float(position[-1]))
        if first > 0 and self._extend(line, length):
            return
        self.chosen.append(ModelAxis(line, length, axis.plant))
        self.is_main.append(axis.is_main and first == 0)

    def _overlap(self, points: FloatArray) -> int:
        """Return how many of the first points of a path lie along the model; 0 if this is but the place it begins."""
        if not self.chosen:
            return 0
        model = np.concatenate([sample(axis.line, self.spacing) for axis in self.chosen])
        is_near = cKDTree(model).query(points)[0] <= ON_MODEL * self.tolerance
        # Up to here, more points lie on the model than beside it by the greatest number.
        balance = np.concatenate([[0], np.cumsum(np.where(is_near, 1, -1))])
        count = int(np.flatnonzero(balance == balance.max())[-1])
        return count - 1 if count * self.spacing > MAX_OVERLAP * self.tolerance else 0

    def _extend(self, line: FloatArray, length: FloatArray) -> bool:
        """Extend an axis of the model by a line that begins at its tip. Return False if there is none."""
        index, place, distance = _nearest_axis(self.chosen, line[0])
        axis = self.chosen[index]
        end = float(arc_length(axis.line)[-1])
        if distance > ON_MODEL * self.tolerance or end - place > AT_TIP * self.tolerance:
            return False
        # The line replaces what of the axis lies beyond the place where it begins.
        joined = np.concatenate([_part(axis.line, 0.0, place), line]) if place > 0 else line
        start = float(arc_length(joined)[-1] - arc_length(line)[-1])
        before = np.minimum(axis.length, start)
        self.chosen[index] = replace(axis, line=joined, length=np.where(np.isnan(length), before, start + length))
        return True

    def _explain(self, points: FloatArray, count: IntArray) -> None:
        """Mark what a path explains at each date."""
        for date, places in enumerate(self.places):
            if len(places) == 0 or count[date] < 2:
                continue
            limit = EXPLAINED * self.tolerance
            distance, place = cKDTree(points[: count[date]]).query(places, distance_upper_bound=limit)
            axis = self.axis_of_place[date]
            is_along = distance <= ALONG * self.tolerance
            if is_along.any():
                shown = axes_along(axis[is_along], place[is_along], MIN_STRETCH * self.tolerance / self.spacing)
                marked = np.isfinite(distance) & np.isin(axis, shown) | (distance <= SAME_PLACE * self.tolerance)
                self.explained[self.first_place[date] : self.first_place[date + 1]] |= marked

    # ---- tree -----------------------------------------------------------------------------------

    def result(self) -> tuple[ModelAxis, ...]:
        """Return the chosen axes with parents, ends of plants, and parents long enough for their laterals."""
        axes: list[ModelAxis] = []
        for axis, is_main in zip(self.chosen, self.is_main, strict=True):
            parent, place, distance = _nearest_axis(axes, axis.line[0])
            at_seed = distance > AT_SEED * self.tolerance or place <= AT_SEED * self.tolerance
            if parent >= 0 and not (is_main and at_seed) and distance <= MAX_REACH * self.tolerance:
                axis = replace(axis, parent=parent, place=place, plant=axes[parent].plant)
            axes.append(axis)
        lengths = [axis.length.copy() for axis in axes]
        for axis, length in zip(axes, lengths, strict=True):
            length[self.end_of_plant.get(axis.plant, len(length)) + 1 :] = np.nan
        for index in range(len(axes) - 1, -1, -1):
            if axes[index].parent >= 0:
                parent_length = lengths[axes[index].parent]
                here = ~np.isnan(lengths[index])
                parent_length[here] = np.fmax(parent_length[here], axes[index].place)
        return tuple(replace(axis, length=length) for axis, length in zip(axes, lengths, strict=True))


def best_growth(gain: FloatArray) -> tuple[float, IntArray]:
    """Find the growth of a path that gains most.

    Args:
        gain: (D,K) what each date gains if the path has reached each of its places.

    Returns:
        The greatest sum over all dates of the gains of the places that are reached, and the number of reached places at
        each date, (D,), which never decreases. Of equal sums, the shortest lengths are taken.
    """
    total = np.concatenate([np.zeros((len(gain), 1)), np.cumsum(gain, axis=1)], axis=1)
    best = total.copy()
    for date in range(1, len(gain)):
        best[date] += np.maximum.accumulate(best[date - 1])
    count = np.zeros(len(gain), dtype=np.intp)
    reached = total.shape[1] - 1
    for date in range(len(gain) - 1, -1, -1):
        reached = int(best[date, : reached + 1].argmax())
        count[date] = reached
    return float(best[-1].max()), count


def axes_along(axis: IntArray, place: IntArray, min_stretch: float) -> list[int]:
    """Return which axes of a date a path explains: the one along most of it, and others along the rest.

    Args:
        axis: (N,) axes of places of a date that lie along the path.
        place: (N,) the index of the nearest place of the path.
        min_stretch: Number of places of the path that an axis must lie along, except for the first one.

    Returns:
        The axes, the first one first.
    """
    stretches = {number: np.unique(place[axis == number]) for number in np.unique(axis).tolist()}
    free = np.ones(int(place.max()) + 2, dtype=bool)
    chosen: list[int] = []
    while stretches:
        best = max(stretches, key=lambda number: int(free[stretches[number]].sum()))
        stretch = stretches.pop(best)
        if chosen and free[stretch].sum() < min_stretch:
            break
        chosen.append(best)
        free[np.concatenate([np.maximum(stretch - 1, 0), stretch, stretch + 1])] = False
    return chosen


def _part(line: FloatArray, first: float, last: float) -> FloatArray:
    """Return the part of a polyline between two path lengths from its first point."""
    position = arc_length(line)
    inner = position[(position > first + 1e-6) & (position < last - 1e-6)]
    return at_positions(line, position, np.concatenate([[first], inner, [last]]))


def _nearest_axis(axes: Sequence[ModelAxis], point: FloatArray) -> tuple[int, float, float]:
    """Return the axis nearest to a point, the path length of its nearest place, and the distance; -1 for no axis."""
    nearest = (-1, 0.0, np.inf)
    for index, axis in enumerate(axes):
        place, distance = _place_on(axis.line, point)
        if distance < nearest[2]:
            nearest = (index, place, distance)
    return nearest


def _place_on(line: FloatArray, point: FloatArray) -> tuple[float, float]:
    """Return the path length of the place of a polyline (K,2), K at least 2, nearest to a point, and the distance."""
    t, distance = project_onto_segments(np.repeat(point[None], len(line) - 1, axis=0), line[:-1], line[1:])
    k = int(distance.argmin())
    position = arc_length(line)
    return float(position[k] + t[k] * (position[k + 1] - position[k])), float(distance[k])
