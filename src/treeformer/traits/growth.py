"""Growth: what changes from one image of the same plants to the next."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.traits.definitions import ColumnNames
from treeformer.traits.measure import measure
from treeformer.traits.names import renamed

if TYPE_CHECKING:
    import pandas as pd

GROWING = ("total_length", "primary_length")


def growth(
    series: pd.DataFrame | Iterable[Skeleton | tuple[float, Skeleton]],
    *,
    px_per_mm: float | None = None,
    column_names: ColumnNames = "treeformer",
) -> pd.DataFrame:
    """The growth of the same plants over a series of images: a row a plant and interval, none for a single image.

    series: (time, skeleton) pairs in any order; or skeletons alone, whose time is the index in their
    RSML time-sequence; or a plant table of `measure` with a column `time` added. Plants are the same where
    their ids are; where some plant has no id, or shares it with another in one image, where their numbers are.
    px_per_mm: as in `measure`; without effect on a table, which is in its own unit.
    column_names: "archidart" gives GRTR and GR1R; the others have no names for growth.

    >>> young, old = Skeleton([(0, 0), (0, 4)], [(0, 1)]), Skeleton([(0, 0), (0, 10)], [(0, 1)])
    >>> growth([(1.0, young), (3.0, old)])[["time_start", "time_end", "total_length_growth_rate"]].values.tolist()
    [[1.0, 3.0, 3.0]]
    """
    import pandas as pd

    table = _checked(series) if isinstance(series, pd.DataFrame) else _measured_series(series, px_per_mm)
    same = _same_plant(table)
    table = table.sort_values([same, "time"], kind="stable")
    start = table.groupby(same, sort=False).shift()
    later = start["time"].notna()
    start, end = start[later], table[later]
    interval = end["time"] - start["time"]
    if (interval == 0).any():
        at = end[interval == 0].iloc[0]
        raise TreeformerError(f"plant {at[same]} is measured twice at time {at['time']}")
    columns: dict[str, Any] = {name: end[name] for name in ("plant", "plant_id", "plant_label") if name in end}
    columns |= {"time_start": start["time"], "time_end": end["time"], "unit": end["unit"]}
    columns |= {f"{name}_growth": end[name] - start[name] for name in GROWING}
    columns |= {f"{name}_growth_rate": columns[f"{name}_growth"] / interval for name in GROWING}
    return renamed(pd.DataFrame(columns).reset_index(drop=True), "series", column_names)


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
            time, skeleton = item
        if not math.isfinite(time):
            raise TreeformerError(f"the time of image {number} of the series is {time}")
        tables.append(measure(skeleton, px_per_mm=px_per_mm).assign(time=float(time)))
    if len(labels) > 1:
        raise TreeformerError(f"images of several time-sequences: {', '.join(sorted(labels))}")
    if not tables:
        tables.append(measure(Skeleton([], [])).assign(time=0.0))
    return _checked(pd.concat([table for table in tables if len(table)] or tables, ignore_index=True))


def _time_sequence(skeleton: Skeleton, number: int) -> Mapping[str, Any]:
    """The skeleton's RSML time-sequence, whose index is a number."""
    try:
        sequence: Mapping[str, Any] = skeleton.metadata["rsml"]["time-sequence"]
        float(sequence["index"])
    except (KeyError, TypeError, ValueError):
        raise TreeformerError(f"image {number} of the series has no time: give (time, skeleton) pairs") from None
    return sequence


def _checked(table: pd.DataFrame) -> pd.DataFrame:
    missing = [name for name in ("time", "plant", "unit", *GROWING) if name not in table]
    if missing:
        raise TreeformerError(f"growth needs a plant table with a column {missing[0]}")
    if table["unit"].nunique() > 1:
        raise TreeformerError("the series is partly in px and partly in mm: give px_per_mm")
    return table


def _same_plant(table: pd.DataFrame) -> str:
    """The column by which plants are known again."""
    if "plant_id" not in table or table.duplicated(["time", "plant_id"]).any():
        return "plant"
    # In a table that was read from CSV, what was empty is NaN.
    nameless = table["plant_id"].isna() | (table["plant_id"] == "")
    return "plant" if nameless.any() else "plant_id"
