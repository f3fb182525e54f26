"""Tables of a series: axes over time, axes, plants over time. Lengths are measured in the reference date's scale.

`px_per_mm` is the resolution of the reference date, by default that in its RSML metadata. If it is unknown, lengths are
in px.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.errors import TreeformerError
from treeformer.timeseries.emergence import emergence
from treeformer.timeseries.isotonic import isotonic_median
from treeformer.traits.growth import growth
from treeformer.traits.lines import angle_from_gravity
from treeformer.traits.measure import measure

if TYPE_CHECKING:
    import pandas as pd

    from treeformer.timeseries.series import AxisTrack, Series

AXES_OVER_TIME = (
    "plant", "axis", "parent", "order", "time", "image", "length", "monotone_length", "growth_rate", "tip_x", "tip_y",
    "tip_angle", "unit",
)  # fmt: skip
AXES = (
    "plant", "axis", "parent", "order", "first_seen", "last_seen", "dates_seen", "emergence_time", "emergence_from",
    "emergence_to", "base_x", "base_y", "base_position", "final_length", "max_growth_rate", "max_growth_from",
    "max_growth_to", "unit",
)  # fmt: skip


def series_scale(series: Series, px_per_mm: float | None) -> float | None:
    """Return the pixels per millimeter of the reference date: as given, or else from its RSML metadata."""
    if px_per_mm is None:
        from treeformer.formats.rsml.reader import resolution_px_per_mm

        return resolution_px_per_mm(series.skeletons[series.reference])
    if not (math.isfinite(px_per_mm) and px_per_mm > 0):
        raise TreeformerError(f"px_per_mm must be a positive number, not {px_per_mm}")
    return px_per_mm


def growth_rates(track: AxisTrack, times: FloatArray) -> FloatArray:
    """Return the growth rate of an axis since the date before at which it was seen, px of the reference date per time.

    There is one rate per date of the track, NaN at the first. Rates are those of the monotone lengths and never
    negative.
    """
    rates = np.full(len(track.dates), np.nan)
    rates[1:] = np.diff(track.monotone_length) / np.diff(times[track.dates])
    return rates


def axes_over_time(series: Series, px_per_mm: float | None = None) -> pd.DataFrame:
    """Return one row per axis and date at which it was found, with the columns `AXES_OVER_TIME`.

    Tips are in px of the image; angles are from gravity, in degrees, in the orientation of the reference date.
    """
    import pandas as pd

    scale = series_scale(series, px_per_mm)
    unit, factor = ("px", 1.0) if scale is None else ("mm", 1 / scale)
    rows: list[tuple[object, ...]] = []
    for track in series.tracks:
        rates = growth_rates(track, series.times)
        for k, (date, axis) in enumerate(zip(track.dates.tolist(), track.axes.tolist(), strict=True)):
            skeleton = series.skeletons[date]
            line = skeleton.nodes[list(skeleton.axes[axis].nodes)]
            step = np.diff(series.registrations[date].transform.apply(line), axis=0)
            step = step[np.hypot(step[:, 0], step[:, 1]) > 0]
            angle = float(angle_from_gravity(step[-1:])[0]) if len(step) else math.nan
            rows.append(
                (
                    track.plant, track.id, track.parent, track.order, float(series.times[date]),
                    skeleton.image_name or "", factor * float(track.length[k]),
                    factor * float(track.monotone_length[k]), factor * float(rates[k]), float(line[-1, 0]),
                    float(line[-1, 1]), angle, unit,
                )
            )  # fmt: skip
    return pd.DataFrame(rows, columns=list(AXES_OVER_TIME))


def axis_summary(series: Series, px_per_mm: float | None = None) -> pd.DataFrame:
    """Return one row per axis with the columns `AXES`. Bases are in px of the reference image."""
    import pandas as pd

    scale = series_scale(series, px_per_mm)
    unit, factor = ("px", 1.0) if scale is None else ("mm", 1 / scale)
    rows: list[tuple[object, ...]] = []
    for track in series.tracks:
        seen = series.times[track.dates]
        rates = growth_rates(track, series.times)
        fastest = int(np.nanargmax(rates)) if len(rates) > 1 else 0
        estimate, begin, end = emergence(track, series.times)
        rows.append(
            (
                track.plant, track.id, track.parent, track.order, float(seen[0]), float(seen[-1]), len(seen),
                estimate, begin, end, float(track.template[0, 0]), float(track.template[0, 1]),
                factor * track.base_position, factor * float(track.monotone_length[-1]), factor * float(rates[fastest]),
                float(seen[fastest - 1]) if fastest else math.nan, float(seen[fastest]) if fastest else math.nan, unit,
            )
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(AXES))


def plants_over_time(series: Series, px_per_mm: float | None = None) -> pd.DataFrame:
    """Return one row per plant and date.

    The columns are `time`, the traits of `treeformer.measure`, and the growth of the total and primary length since the
    date before at which the plant was found, as in `treeformer.traits.growth`. `monotone_total_length` is the
    non-decreasing sequence nearest to the total length of the plant, by absolute error, so that a date at which a plant
    was found in part, or together with its neighbor, does not count.
    """
    import pandas as pd

    scale = series_scale(series, px_per_mm)
    tables = []
    for index, (time, skeleton) in enumerate(zip(series.times.tolist(), series.skeletons, strict=True)):
        moved = skeleton.transform(series.registrations[index].transform.matrix)
        if scale is None:  # the dates have no common scale
            moved = moved.replace(metadata={name: value for name, value in moved.metadata.items() if name != "rsml"})
        table = measure(moved, px_per_mm=scale)
        table.insert(0, "time", time)
        table.insert(1, "image", pd.Series(skeleton.image_name or "", index=table.index, dtype=str))
        tables.append(table)
    table = pd.concat([one for one in tables if len(one)] or tables[:1], ignore_index=True)
    for column in table:
        if "_order_" in str(column):
            table[column] = table[column].fillna(0)
    # Single nodes have no identity, and there may be several per date: their growth is left empty.
    rates = growth(table[table["plant_id"] != ""]).rename(columns={"time_end": "time"})
    kept = ["plant_id", "time", *(name for name in rates if str(name).endswith(("_growth", "_growth_rate")))]
    table = table.merge(rates[kept], on=["plant_id", "time"], how="left")
    return _with_monotone_length(table)


def _with_monotone_length(table: pd.DataFrame) -> pd.DataFrame:
    """Add the non-decreasing total length of each plant and its growth rate. Rows are in the order of time.

    Plants without axes have no identity: several of them may be found at one date. Their length is 0.
    """
    length = np.zeros(len(table))
    rate = np.full(len(table), np.nan)
    total, time, plant = (table[name].to_numpy() for name in ("total_length", "time", "plant_id"))
    for one in dict.fromkeys(name for name in plant.tolist() if name != ""):
        rows = np.flatnonzero(plant == one)
        length[rows] = isotonic_median(total[rows].astype(np.float64))
        rate[rows[1:]] = np.diff(length[rows]) / np.diff(time[rows].astype(np.float64))
    return table.copy().assign(monotone_total_length=length, monotone_total_length_growth_rate=rate)
