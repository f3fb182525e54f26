"""The times of a series: numbers, or dates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.errors import TreeformerError

Time = float | int | datetime | date

SECONDS_PER_DAY = 86_400.0


def times_in_days(times: Sequence[Any]) -> FloatArray:
    """Return dates as days (D,) since the first of them, and numbers as they are; both together are an error."""
    is_date = [isinstance(time, date) for time in times]  # a datetime is a date, too
    if any(is_date) and not all(is_date):
        raise TreeformerError("the times of a series must be all numbers or all dates")
    if all(is_date):
        moments = [time if isinstance(time, datetime) else datetime(time.year, time.month, time.day) for time in times]
        try:
            first = min(moments)
            return np.asarray([(moment - first).total_seconds() / SECONDS_PER_DAY for moment in moments])
        except TypeError:
            raise TreeformerError("some times of the series have a time zone and others have none") from None
    try:
        values = np.asarray([float(time) for time in times])
    except (TypeError, ValueError):
        raise TreeformerError("the times of a series must be numbers or dates") from None
    if not np.isfinite(values).all():
        raise TreeformerError(f"the time {values[~np.isfinite(values)][0]} of the series is not a finite number")
    return values


def check_distinct(times: FloatArray) -> None:
    """Raise `TreeformerError` if two of the ascending times are the same."""
    same = np.flatnonzero(np.diff(times) == 0)
    if len(same):
        raise TreeformerError(f"two skeletons of the series have the time {times[same[0]]:g}")
