"""Find plants that became a part of another plant, as when their tips touch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from treeformer.timeseries.series import Series

# A plant is suspected to have merged if another gains this share of its length beyond its usual growth, and if it was
# this many tolerances long: growth varies by the length of a seedling.
MERGED_SHARE, MIN_TOLERANCES = 0.7, 2.0


def merged_plants(series: Series) -> Iterator[tuple[str, str, int]]:
    """Yield (plant, other plant, date index): a plant that ends, and the one whose length rises by its length then."""
    lengths: dict[str, dict[int, float]] = {}
    for track in series.tracks:
        total = lengths.setdefault(track.plant, {})
        for date, length in zip(track.dates.tolist(), track.length.tolist(), strict=True):
            total[date] = total.get(date, 0.0) + length
    for plant, length_at in lengths.items():
        last = max(length_at)
        lost = length_at[last]
        if last + 1 >= len(series) or lost < MIN_TOLERANCES * series.tolerance_px:
            continue
        gains = {other: _gain(lengths[other], last + 1, series) for other in lengths if other != plant}
        best = max(gains, key=lambda other: gains[other], default=None)
        if best is not None and gains[best] >= MERGED_SHARE * lost:
            yield plant, best, last + 1


def _gain(length_at: dict[int, float], date: int, series: Series) -> float:
    """Return by how much a plant grew until a date beyond its median rate, px of the reference date; 0 if unknown."""
    dates = sorted(length_at)
    if date not in length_at or date == dates[0]:
        return 0.0
    growth = np.diff([length_at[one] for one in dates])
    interval = np.diff(series.times[dates])
    now = dates.index(date) - 1
    usual = np.delete(growth / interval, now)
    return float(growth[now] - interval[now] * (max(np.median(usual), 0.0) if len(usual) else 0.0))
