"""Cut tracks between two dates, and join their parts again.

If two axes exchange their identities at one date and keep them from then on, the assignment of a single date does not
correct it: the dates on its side agree with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.timeseries.costs import NEIGHBOR_DATES, assign, importance
from treeformer.timeseries.paths import Paths
from treeformer.timeseries.plants import NONE

if TYPE_CHECKING:
    from treeformer.timeseries.matching import Track

# Parts of tracks with a mean cost above the limit are not joined. Cuts that save less than the margin are not made.
REJOIN_LIMIT, REJOIN_MARGIN = 2.0, 0.1


class _Solver(Protocol):
    """What rejoining needs of the tracks of a series."""

    dates: Sequence[Paths]  # axes of each date
    tracks: list[Track]
    assigned: list[IntArray]  # one (A,) array per date, the track of each of its axes
    tolerance: float  # distance within which places agree, px

    def costs_between(self, date: int, other: int) -> FloatArray:
        """Return the cost of one identity for the axes of two dates."""

    def new_track(self) -> int:
        """Add a track without axes, and return its index."""

    def observe(self, date: int, axis: int, track: int) -> None:
        """Give an axis of a date to a track."""


def rejoin_tracks(solver: _Solver) -> None:
    """Cut all tracks between two dates, and join their parts again by the axes around, where this saves most."""
    saved = {cut: _best_joints(solver, cut)[0] for cut in range(1, len(solver.dates))}
    for cut in sorted(saved, key=lambda cut: -saved[cut]):
        now, after, joined = _best_joints(solver, cut)  # other cuts may have changed it
        if now > REJOIN_MARGIN:
            _relabel(solver, cut, after, joined)


def _best_joints(solver: _Solver, cut: int) -> tuple[float, IntArray, dict[int, int]]:
    """Return what it saves to cut all tracks before a date and to join them again.

    Return also the tracks seen from the date on, and the track with which each of them is joined.
    """
    before, after, cost = _costs_across(solver, cut)
    if cost.size == 0:
        return 0.0, after, {}
    is_joined = before[:, None] == after[None]
    # A track stays whole unless its parts fit others better.
    cost = np.where(is_joined, np.minimum(cost, REJOIN_LIMIT - 1e-6), cost)
    weight = importance(
        np.asarray([_length_before(solver, track, cut) for track in before.tolist()]) / solver.tolerance
    )
    pairs = assign(cost, REJOIN_LIMIT, weight)
    gain = np.maximum(REJOIN_LIMIT - cost, 0.0) * weight[:, None]
    saved = sum(float(gain[pair]) for pair in pairs) - float(gain[is_joined].sum())
    return saved, after, {int(after[j]): int(before[i]) for i, j in pairs}


def _costs_across(solver: _Solver, cut: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the tracks seen before a date (A,), those seen from it on (B,), and the mean cost of their axes (A,B).

    Pairs of axes are weighted by the inverse of the number of dates between them. The cost of tracks without axes
    at the dates around is infinite.
    """
    first, last = max(cut - NEIGHBOR_DATES, 0), min(cut + NEIGHBOR_DATES, len(solver.dates))
    around = np.unique(np.concatenate(solver.assigned[first:last])).tolist()
    before = np.asarray([track for track in around if min(solver.tracks[track].observed) < cut], dtype=np.intp)
    after = np.asarray([track for track in around if max(solver.tracks[track].observed) >= cut], dtype=np.intp)
    total, weight = np.zeros((len(before), len(after))), np.zeros((len(before), len(after)))
    for a in range(first, cut):
        for b in range(cut, min(a + NEIGHBOR_DATES + 1, last)):
            if len(solver.dates[a]) and len(solver.dates[b]):
                place = np.ix_(np.searchsorted(before, solver.assigned[a]), np.searchsorted(after, solver.assigned[b]))
                total[place] += solver.costs_between(a, b) / (b - a)
                weight[place] += 1 / (b - a)
    return before, after, np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), np.inf)


def _length_before(solver: _Solver, track: int, cut: int) -> float:
    observed = solver.tracks[track].observed
    date = max(date for date in observed if date < cut)
    return float(solver.dates[date].length[observed[date]])


def _relabel(solver: _Solver, cut: int, after: IntArray, joined: dict[int, int]) -> None:
    """Move what tracks show from a date on to the tracks that they are joined with, or to new ones."""
    moved: list[tuple[int, dict[int, int]]] = []
    for track in after.tolist():
        observed = solver.tracks[track].observed
        into = joined.get(track, NONE)
        if into == track or (into == NONE and min(observed) >= cut):
            continue
        late = {date: axis for date, axis in observed.items() if date >= cut}
        for date in late:
            del observed[date]
        moved.append((into, late))
    for into, late in moved:
        if into == NONE:
            into = solver.new_track()
        for date, axis in late.items():
            solver.observe(date, axis, into)
