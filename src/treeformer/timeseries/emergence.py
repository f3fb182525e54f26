"""When axes emerged, and when their tips passed each place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from treeformer._util.arrays import FloatArray

if TYPE_CHECKING:
    from treeformer.timeseries.series import AxisTrack


def emergence(track: AxisTrack, times: FloatArray) -> tuple[float, float, float]:
    """Estimate when an axis emerged.

    The axis emerged between the last date before it was first seen and the date at which it was. Within this interval,
    its first growth rate is extended back to length 0; without a rate, the middle is taken.

    Args:
        track: The axis.
        times: (D,) times of all dates of the series, ascending.

    Returns:
        The estimated time, and the interval's begin and end. The begin and the estimate are NaN if the axis was there
        at the first date.
    """
    first = int(track.dates[0])
    seen = float(times[first])
    if first == 0:
        return math.nan, math.nan, seen
    before = float(times[first - 1])
    estimate = (before + seen) / 2
    growth = np.diff(track.monotone_length)
    rising = np.flatnonzero(growth > 0)
    if len(rising):
        step = int(rising[0])
        rate = growth[step] / (times[track.dates[step + 1]] - times[track.dates[step]])
        estimate = seen - float(track.monotone_length[0] / rate)
    return min(max(estimate, before), seen), before, seen


def passing_times(track: AxisTrack, times: FloatArray, positions: FloatArray) -> FloatArray:
    """Return when the tip of an axis passed places along it.

    Between two dates the tip moves evenly. The part that was there when the axis was first seen grew since its
    emergence, or was there at that date if nothing earlier is known.

    Args:
        track: The axis.
        times: (D,) times of all dates of the series, ascending.
        positions: (K,) distance from the base, px of the reference date, ascending.

    Returns:
        (K,) times, ascending.
    """
    begin, _, seen = emergence(track, times)
    lengths = np.concatenate([[0.0], track.monotone_length])
    moments = np.concatenate([[seen if math.isnan(begin) else begin], times[track.dates]])
    # At a length that the axis kept for several dates, the first of them counts.
    kept = np.concatenate([[True], np.diff(lengths) > 0])
    return np.asarray(np.interp(positions, lengths[kept], moments[kept]))
