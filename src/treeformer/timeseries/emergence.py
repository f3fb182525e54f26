"""When axes emerged, and when each place along them appeared.

`times` (D,) are those of all dates of the series, ascending.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from treeformer._util.arrays import FloatArray

if TYPE_CHECKING:
    from treeformer.timeseries.series import AxisTrack

# A tip that is less than this before a place has reached it, px.
SAME_PLACE_PX = 0.5


def emergence(track: AxisTrack, times: FloatArray) -> tuple[float, float, float]:
    """Estimate when an axis emerged; return also the begin and end of the interval in which it did.

    The axis emerged between the last date before it was first seen and the date at which it was. Within this interval,
    its first growth rate is extended back to length 0; without a rate, the middle is taken. The begin and the estimate
    are NaN if the axis was there at the first date.
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


def appearance_times(track: AxisTrack, times: FloatArray, positions: FloatArray) -> FloatArray:
    """Return the first date (K,) at which the tip of an axis had passed places (K,) along it, px of the reference date.

    Places that the tip never reached appear at the last date of the axis.
    """
    index = np.searchsorted(track.monotone_length, positions - SAME_PLACE_PX)
    return np.asarray(times[track.dates[np.minimum(index, len(track.dates) - 1)]])
