"""Compute the growth of plants over a series of images."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from treeformer._util.text import short_repr
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.traits.definitions import ColumnNames
from treeformer.traits.measure import measure
from treeformer.traits.names import rename_columns

if TYPE_CHECKING:
    import pandas as pd

GROWING = ("total_length", "primary_length")


def growth(
    series: pd.DataFrame | Iterable[Skeleton | tuple[float, Skeleton]],
    *,
    px_per_mm: float | None = None,
    column_names: ColumnNames = "treeformer",
) -> pd.DataFrame:
    """Compute the growth of the same plants over a series of images.

    Plants are matched by id. If a plant has no id, or shares it with another plant of the same image, plants are
    matched by number. Plants of length 0 without an id, such as single nodes, are left out if the others have ids.

    Args:
        series: (time, skeleton) pairs in any order; or skeletons whose time is the index in their RSML
            time-sequence; or a plant table of `measure` with an additional column `time`.
        px_per_mm: Pixels per millimeter, as in `measure`. It has no effect on a table.
        column_names: "archidart" gives GRTR and GR1R. Other tools have no names for growth.

    Returns:
        One row per plant and interval; no rows for a single image.

    Raises:
        TreeformerError: If a time is missing or a plant is measured twice at the same time.

    Example:
        >>> young, old = Skeleton([(0, 0), (0, 4)], [(0, 1)]), Skeleton([(0, 0), (0, 10)], [(0, 1)])
        >>> table = growth([(1.0, young), (3.0, old)])
        >>> table[["time_start", "time_end", "total_length_growth_rate"]].values.tolist()
        [[1.0, 3.0, 3.0]]
    """
    import pandas as pd

    table = _checked(series) if isinstance(series, pd.DataFrame) else _measured_series(series, px_per_mm)
    plant_column, table = _matched_by(table)
    table = table.sort_values([plant_column, "time"], kind="stable")
    start = table.groupby(plant_column, sort=False).shift()
    has_start = start["time"].notna()
    start, end = start[has_start], table[has_start]
    interval = end["time"] - start["time"]
    if (interval == 0).any():
        repeated = end[interval == 0].iloc[0]
        raise TreeformerError(f"plant {repeated[plant_column]} is measured twice at time {repeated['time']}")
    columns: dict[str, Any] = {name: end[name] for name in ("plant", "plant_id", "plant_label") if name in end}
    columns |= {"time_start": start["time"], "time_end": end["time"], "unit": end["unit"]}
    columns |= {f"{name}_growth": end[name] - start[name] for name in GROWING}
    columns |= {f"{name}_growth_rate": columns[f"{name}_growth"] / interval for name in GROWING}
    return rename_columns(pd.DataFrame(columns).reset_index(drop=True), "series", column_names)


def _measured_series(series: Iterable[Skeleton | tuple[float, Skeleton]], px_per_mm: float | None) -> pd.DataFrame:
    import pandas as pd

    tables = []
    labels: set[str] = set()
    for number, item in enumerate(series):
        if isinstance(item, Skeleton):
            skeleton, sequence = item, _time_sequence(item, number)
            time = float(sequence["index"])
            labels.add(str(sequence.get("label", "")))
        else:
            time, skeleton = _pair(item, number)
        if not isinstance(time, int | float | np.number) or not math.isfinite(time):
            raise TreeformerError(
                f"the time of image {number} of the series is {short_repr(time)}, not a finite number"
            )
        tables.append(measure(skeleton, px_per_mm=px_per_mm).assign(time=float(time)))
    if len(labels) > 1:
        raise TreeformerError(f"the series mixes several time-sequences: {', '.join(sorted(labels))}")
    if not tables:
        tables.append(measure(Skeleton([], [])).assign(time=0.0))
    return _checked(pd.concat([table for table in tables if len(table)] or tables, ignore_index=True))


def _pair(item: Any, number: int) -> tuple[float, Skeleton]:
    try:
        time, skeleton = item
    except (TypeError, ValueError):
        raise TreeformerError(
            f"image {number} of the series must be a skeleton or a pair (time, skeleton), not {short_repr(item)}"
        ) from None
    return time, skeleton


def _time_sequence(skeleton: Skeleton, number: int) -> Mapping[str, Any]:
    """Return the RSML time-sequence of a skeleton. Its index is a number."""
    try:
        sequence: Mapping[str, Any] = skeleton.metadata["rsml"]["time-sequence"]
        float(sequence["index"])
    except (KeyError, TypeError, ValueError):
        raise TreeformerError(f"image {number} of the series has no time: give (time, skeleton) pairs") from None
    return sequence


def _checked(table: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    missing = [name for name in ("time", "plant", "unit", *GROWING) if name not in table]
    if missing:
        raise TreeformerError(f"growth requires a plant table with a column {missing[0]}")
    times = pd.to_numeric(table["time"], errors="coerce")
    if not np.isfinite(times).all():
        wrong = table["time"][~np.isfinite(times)].iloc[0]
        raise TreeformerError(f"a time is {short_repr(wrong)}, not a finite number")
    if table["unit"].nunique() > 1:
        raise TreeformerError("the series is partly in px and partly in mm: give px_per_mm")
    return table.assign(time=times)


def _matched_by(table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return the column by which plants are matched, and the rows of the plants that it identifies."""
    if "plant_id" not in table:
        return "plant", table
    # Empty ids become NaN in a table that was read from CSV.
    has_id = table["plant_id"].notna() & (table["plant_id"] != "")
    with_id = table[has_id]
    needs_id = table["total_length"] > 0
    if not has_id.any() or (needs_id & ~has_id).any() or with_id.duplicated(["time", "plant_id"]).any():
        return "plant", table
    return "plant_id", with_id
