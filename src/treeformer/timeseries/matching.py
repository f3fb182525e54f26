"""Give axes and plants one identity over all dates.

A track is one axis over time. It has a template: the path that it follows at the last date at which it was seen well.
Plants and axes of a date are assigned to templates, backwards from the reference date, which shows most. Then all
dates are assigned again, each with what all others say: templates, lengths before and after, parents. Between two
dates, all tracks are cut and joined again by the axes on both sides. This alternates until nothing changes, so that an
error on one date is corrected by the others instead of being passed on.

The cost of an axis and a track is a sum, in units of the tolerance:

- path and direction: see `treeformer.timeseries.costs`; half against the template, and half against the axes that the
  track has at the dates around, whose mean is less sensitive to an error on one of them;
- length: how far the length lies outside what the dates before and after allow, because axes do not shrink, and how
  far it is from the value interpolated between them;
- parent and plant: a penalty if they differ.

One assignment per date minimizes the sum (Hungarian algorithm). Pairs above a limit are not matched. What a pair saves
below the limit is weighted by the length of the axis, so that a short stub does not take the place of a long axis.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.timeseries.costs import (
    CAP,
    LENGTH_SLACK,
    LENGTH_SLACK_TOLERANCES,
    MAX_COST,
    NEIGHBOR_DATES,
    assign,
    identity_costs,
    importance,
    pair_costs,
)
from treeformer.timeseries.isotonic import isotonic
from treeformer.timeseries.paths import Paths, paths_of_lines
from treeformer.timeseries.plants import NONE, match_plants, with_plant_shifts
from treeformer.timeseries.rejoining import rejoin_tracks
from treeformer.timeseries.similarity import Similarity

# Weights of the terms of the cost in addition to those of `treeformer.timeseries.costs`.
LENGTH_WEIGHT, PARENT_WEIGHT, PLANT_WEIGHT = 0.3, 0.4, 0.8
# Weight of the distance from the interpolated length.
INTERPOLATION_WEIGHT = 0.2
# Share of the observations in the geometric part of the cost.
OBSERVATION_SHARE = 0.5
MAX_ROUNDS = 6


@dataclass
class Track:
    """One axis over time."""

    observed: dict[int, int] = field(default_factory=dict)  # index of its axis per date at which it was seen
    # (K,2) px of the reference, from base to tip
    template: FloatArray = field(default_factory=lambda: np.zeros((1, 2)))
    parent: int = NONE  # index of its parent's track, -1 for an axis without one
    plant: int = NONE  # index of its plant


@dataclass(frozen=True)
class Matching:
    """The identities of all axes and plants."""

    track_of_axis: tuple[IntArray, ...]  # one (A,) array per date, the track of each of its axes
    plant_of_axis: tuple[IntArray, ...]  # one (A,) array per date, the identity of the plant of each of its axes
    # one (P,) array per date, the identity of each of its plants, -1 for a plant without axes
    plant_of_date: tuple[IntArray, ...]
    tracks: tuple[Track, ...]  # tracks, parents before laterals
    plant_count: int  # number of plants over all dates
    # one dictionary per date: how each plant moved in addition to its plate
    plant_shift: tuple[dict[int, Similarity], ...]
    rounds: int  # assignments of all dates until nothing changed


def match_axes(
    dates: Sequence[Paths],
    seeds: Sequence[FloatArray],
    times: FloatArray,
    reference: int,
    tolerance_px: float,
    spacing_px: float,
) -> Matching:
    """Match the axes of all dates, which are registered, in px of the reference.

    `Paths.plant` numbers the plants of a date from 0. `seeds` (S,2) per date are the places where its plants begin, px
    of the reference, `times` (D,) are ascending, and `reference` is the index of the date that shows most. All paths
    have the same spacing.
    """
    plants = match_plants(dates, seeds, reference, tolerance_px)
    placed = [
        with_plant_shifts(paths, ids, shifts)
        for paths, ids, shifts in zip(dates, plants.identity, plants.shift, strict=True)
    ]
    solver = _Solver(placed, plants.identity, times, reference, tolerance_px, spacing_px)
    rounds = solver.solve()
    tracks, track_of_axis = solver.result()
    return Matching(
        tuple(track_of_axis),
        tuple(_plants_of_axes(t, tracks) for t in track_of_axis),
        tuple(plants.identity),
        tuple(tracks),
        plants.count,
        tuple(plants.shift),
        rounds,
    )


def _plants_of_axes(track_of_axis: IntArray, tracks: Sequence[Track]) -> IntArray:
    return np.asarray([tracks[track].plant for track in track_of_axis.tolist()], dtype=np.intp)


# ---- axes ---------------------------------------------------------------------------------------


class _Solver:
    def __init__(
        self,
        dates: Sequence[Paths],
        plant_identity: Sequence[IntArray],
        times: FloatArray,
        reference: int,
        tolerance_px: float,
        spacing_px: float,
    ) -> None:
        self.dates = dates
        self.plant = [ids[paths.plant] for ids, paths in zip(plant_identity, dates, strict=True)]
        self.times = times
        self.tolerance, self.spacing = tolerance_px, spacing_px
        self.order = [*range(reference, -1, -1), *range(reference + 1, len(dates))]
        self.tracks: list[Track] = []
        self._between: dict[tuple[int, int], FloatArray] = {}
        self.assigned = [np.full(len(paths), NONE, dtype=np.intp) for paths in dates]

    def solve(self) -> int:
        for date in self.order:
            self._assign_date(date, first=True)
        rounds = 1
        while rounds < MAX_ROUNDS:
            before = [assigned.copy() for assigned in self.assigned]
            self._merge_tracks()
            rejoin_tracks(self)
            self._update_tracks()
            for date in self.order:
                self._assign_date(date, first=False)
            rounds += 1
            if all(np.array_equal(a, b) for a, b in zip(before, self.assigned, strict=True)):
                break
        self._merge_tracks()
        rejoin_tracks(self)
        self._update_tracks()
        return rounds

    def _assign_date(self, date: int, *, first: bool) -> None:
        """Assign the axes of one date to tracks. Axes without a track begin one."""
        paths, assigned = self.dates[date], self.assigned[date]
        if not first:  # what the date itself said before must not speak for it
            for track in self.tracks:
                track.observed.pop(date, None)
        known = assigned.copy()
        assigned[:] = NONE
        cost = self._costs(date, known)
        for axis, found in assign(cost, MAX_COST, importance(paths.length / self.tolerance)):
            self.observe(date, axis, found)
        for axis in np.flatnonzero(assigned == NONE).tolist():
            reuse = int(known[axis])
            if reuse == NONE or self.tracks[reuse].observed:
                reuse = self.new_track()
            self.tracks[reuse].template = paths.path(axis)
            self.tracks[reuse].plant = int(self.plant[date][axis])
            self.observe(date, axis, reuse)
        for axis in range(len(paths)):
            parent = int(paths.parent[axis])
            track = self.tracks[assigned[axis]]
            if len(track.observed) == 1:
                track.parent = NONE if parent < 0 else int(assigned[parent])

    def new_track(self) -> int:
        self.tracks.append(Track())
        return len(self.tracks) - 1

    def observe(self, date: int, axis: int, track: int) -> None:
        self.assigned[date][axis] = track
        self.tracks[track].observed[date] = axis

    def _costs(self, date: int, known: IntArray) -> FloatArray:
        paths = self.dates[date]
        if len(paths) == 0 or not self.tracks:
            return np.zeros((len(paths), len(self.tracks)))
        template = paths_of_lines(
            [track.template for track in self.tracks],
            np.asarray([track.parent for track in self.tracks], dtype=np.intp),
            np.asarray([track.plant for track in self.tracks], dtype=np.intp),
        )
        cost = pair_costs(paths, template, self.tolerance, self.spacing)
        cost = (1 - OBSERVATION_SHARE) * cost + OBSERVATION_SHARE * self._costs_of_observations(date, cost)
        parent_track = np.where(paths.parent >= 0, known[np.maximum(paths.parent, 0)], NONE)
        unknown = (paths.parent >= 0) & (parent_track == NONE)
        cost += PARENT_WEIGHT * ((parent_track[:, None] != template.parent[None]) & ~unknown[:, None])
        cost += PLANT_WEIGHT * (self.plant[date][:, None] != template.plant[None])
        low, high, middle = self._length_limits(date)
        slack = LENGTH_SLACK_TOLERANCES * self.tolerance
        length = paths.length[:, None]
        over = np.maximum(length - (1 + LENGTH_SLACK) * high[None] - slack, 0.0)
        under = np.maximum((1 - LENGTH_SLACK) * low[None] - slack - length, 0.0)
        cost += LENGTH_WEIGHT * np.minimum((over + under) / self.tolerance, 2 * CAP)
        off = np.nan_to_num(np.abs(length - middle[None]), nan=0.0)
        cost += INTERPOLATION_WEIGHT * np.minimum(off / self.tolerance, CAP)
        empty = np.asarray([not track.observed for track in self.tracks])
        cost[:, empty] = np.inf
        return cost

    def _costs_of_observations(self, date: int, default: FloatArray) -> FloatArray:
        """Return the mean cost of each axis of a date and the observations of each track at the dates around it, (A,T).

        A track without observations at these dates has the costs `default` (A,T).
        """
        total, count = np.zeros(default.shape), np.zeros(default.shape[1])
        for other in range(max(date - NEIGHBOR_DATES, 0), min(date + NEIGHBOR_DATES + 1, len(self.dates))):
            axes = np.flatnonzero(self.assigned[other] != NONE)
            if other == date or len(axes) == 0:
                continue
            tracks = self.assigned[other][axes]
            total[:, tracks] += self.costs_between(date, other)[:, axes]
            count[tracks] += 1
        return np.where(count > 0, total / np.maximum(count, 1), default)

    def costs_between(self, date: int, other: int) -> FloatArray:
        """Return the cost of one identity for the axes of two dates, with a penalty between plants if one has ended."""
        if (date, other) not in self._between:
            first, last = sorted((date, other))
            cost = identity_costs(self.dates[first], self.dates[last], self.tolerance)
            has_ended = ~np.isin(self.plant[first], np.concatenate(self.plant[last:]))
            cost += PLANT_WEIGHT * has_ended[:, None]
            cost = np.minimum(cost, 2 * MAX_COST)
            self._between[first, last], self._between[last, first] = cost, cost.T
        return self._between[date, other]

    def _length_limits(self, date: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the least and greatest length (T,) px that the other dates allow each track, and the expected one.

        The expected length is interpolated between the dates before and after, NaN if one of them is missing.
        """
        low, high = np.zeros(len(self.tracks)), np.full(len(self.tracks), np.inf)
        middle = np.full(len(self.tracks), np.nan)
        for index, track in enumerate(self.tracks):
            if not track.observed:
                continue
            dates = sorted(track.observed)
            place = bisect_left(dates, date)
            first = max(place - NEIGHBOR_DATES, 0)
            dates, place = dates[first : place + NEIGHBOR_DATES], place - first
            lengths = isotonic(np.asarray([self.dates[d].length[track.observed[d]] for d in dates]))
            if place > 0:
                low[index] = lengths[place - 1]
            if place < len(dates):
                high[index] = lengths[place]
            if 0 < place < len(dates):
                known = self.times[[dates[place - 1], dates[place]]]
                middle[index] = np.interp(self.times[date], known, lengths[place - 1 : place + 1])
        return low, high, middle

    def _merge_tracks(self) -> None:
        """Join tracks that are never seen on the same date and whose templates agree."""
        used = [index for index, track in enumerate(self.tracks) if track.observed]
        if len(used) < 2:
            return
        tracks = [self.tracks[index] for index in used]
        template = paths_of_lines(
            [track.template for track in tracks],
            np.asarray([track.parent for track in tracks], dtype=np.intp),
            np.asarray([track.plant for track in tracks], dtype=np.intp),
        )
        cost = pair_costs(template, template, self.tolerance, self.spacing)
        cost += PLANT_WEIGHT * (template.plant[:, None] != template.plant[None])
        cost += PARENT_WEIGHT * (template.parent[:, None] != template.parent[None])
        # The shorter template is compared with the longer one.
        cost[template.length[:, None] > template.length[None]] = np.inf
        np.fill_diagonal(cost, np.inf)
        target = {index: index for index in used}
        for a, b in zip(*np.unravel_index(np.argsort(cost, axis=None), cost.shape), strict=True):
            if not cost[a, b] <= MAX_COST / 2:
                break
            source, into = _find(target, used[a]), _find(target, used[b])
            if source == into or self.tracks[source].observed.keys() & self.tracks[into].observed.keys():
                continue
            for date, axis in self.tracks[source].observed.items():
                self.observe(date, axis, into)
            self.tracks[source].observed = {}
            target[source] = into
        for track in self.tracks:
            if track.parent != NONE:
                track.parent = _find(target, track.parent) if track.parent in target else track.parent

    def _update_tracks(self) -> None:
        """Choose the template, the parent and the plant of each track from all its dates."""
        for track in self.tracks:
            if not track.observed:
                continue
            dates = sorted(track.observed)
            lengths = np.asarray([self.dates[d].length[track.observed[d]] for d in dates])
            fitted = isotonic(lengths)
            # The latest of the dates whose length is about the fitted final one.
            good = np.flatnonzero(np.abs(lengths - fitted[-1]) <= np.abs(lengths - fitted[-1]).min() + self.tolerance)
            best = dates[int(good[-1])]
            track.template = self.dates[best].path(track.observed[best])
            parents = [self._parent_track(d, track.observed[d]) for d in dates]
            track.parent = _most_common(parents)
            track.plant = _most_common([int(self.plant[d][track.observed[d]]) for d in dates])

    def _parent_track(self, date: int, axis: int) -> int:
        parent = int(self.dates[date].parent[axis])
        return NONE if parent < 0 else int(self.assigned[date][parent])

    def result(self) -> tuple[list[Track], list[IntArray]]:
        """Return the tracks, parents before laterals and those of one plant together, and the track of each axis."""
        self._break_cycles()
        used = [index for index, track in enumerate(self.tracks) if track.observed]
        order = {index: self._order(index) for index in used}
        used.sort(key=lambda index: (order[index], self.tracks[index].plant, self.tracks[index].template[0].tolist()))
        new_index = {index: rank for rank, index in enumerate(used)}
        tracks = [self.tracks[index] for index in used]
        for track in tracks:
            track.parent = new_index.get(track.parent, NONE)
        renumbered = [
            np.asarray([new_index[track] for track in assigned.tolist()], dtype=np.intp) for assigned in self.assigned
        ]
        return tracks, renumbered

    def _order(self, index: int) -> int:
        order = 0
        while self.tracks[index].parent != NONE and order <= len(self.tracks):
            index, order = self.tracks[index].parent, order + 1
        return order

    def _break_cycles(self) -> None:
        """Two tracks may be each other's parent at different dates. The longer one then has no parent."""
        for index, track in enumerate(self.tracks):
            if track.parent != NONE and not self.tracks[track.parent].observed:
                track.parent = NONE
            chain = [index]
            while (parent := self.tracks[chain[-1]].parent) != NONE:
                if parent in chain:
                    cycle = chain[chain.index(parent) :]
                    longest = max(cycle, key=lambda i: len(self.tracks[i].template))
                    self.tracks[longest].parent = NONE
                    break
                chain.append(parent)


def _find(target: dict[int, int], index: int) -> int:
    while target[index] != index:
        index = target[index]
    return index


def _most_common(values: Sequence[int]) -> int:
    """Return the most frequent value; of equally frequent ones, the last."""
    return max(reversed(values), key=values.count)
