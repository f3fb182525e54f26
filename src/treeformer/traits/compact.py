"""Select the compact table: about 20 columns, rounded, with one row per image without a plant."""

from __future__ import annotations

from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from treeformer.traits.definitions import Level

if TYPE_CHECKING:
    import pandas as pd

# The columns at plant level. `file` is only in tables of files.
COMPACT_COLUMNS = (
    "image", "plant", "unit", "total_length", "primary_length", "lateral_count", "lateral_length",
    "lateral_length_mean", "tip_count", "branch_point_count", "max_order", "depth", "width", "convex_hull_area",
    "mean_diameter", "surface_area", "volume", "main_curve_index", "lateral_emergence_angle_mean",
    "low_confidence_length_fraction", "note", "file",
)  # fmt: skip

# The traits that are 0 if there is no plant. Means, angles and ratios are then unknown.
ZERO_WITHOUT_PLANT = (
    "total_length", "primary_length", "lateral_count", "lateral_length", "tip_count", "branch_point_count",
    "max_order", "depth", "width", "convex_hull_area", "surface_area", "volume",
)  # fmt: skip

NO_PLANT = "no plant"
SIGNIFICANT_DIGITS = 6


def compact(table: pd.DataFrame, level: Level = "plant") -> pd.DataFrame:
    """Return the main columns of a table, with numbers rounded to 6 significant digits.

    Args:
        table: A table with treeformer's column names. It may have the columns `image` and `file`.
        level: The level of the table. At plant level, `COMPACT_COLUMNS` are selected and a column `note` is added,
            which is empty. At other levels all columns are kept.

    Returns:
        A new table.

    Example:
        >>> import pandas as pd
        >>> compact(pd.DataFrame({"plant": [0], "total_length": [1234.56789], "altitude": [3]})).to_dict("list")
        {'plant': [0], 'total_length': [1234.57], 'note': ['']}
    """
    import pandas as pd

    if level == "plant":
        table = table.assign(note=pd.Series("", index=table.index, dtype=str))
        table = table[[column for column in COMPACT_COLUMNS if column in table]]
        table = table.astype({"plant": "Int64"})  # the number is missing if there is no plant
    rounded = {str(name): _rounded(table[name]) for name in table if pd.api.types.is_float_dtype(table[name])}
    return table.assign(**rounded)


def row_without_plant(empty_table: pd.DataFrame, **labels: str) -> pd.DataFrame:
    """Return the row of an image without a plant: counts and lengths are 0, other values are unknown.

    `empty_table` has the columns; `labels` are the values of text columns, except `note`, which is "no plant".
    """
    import pandas as pd

    known = dict.fromkeys(ZERO_WITHOUT_PLANT, 0) | labels | {"note": NO_PLANT}
    columns = {}
    for name, column in empty_table.items():
        missing = pd.NA if name == "plant" else float("nan")
        columns[name] = pd.Series([known.get(str(name), missing)], dtype=column.dtype)
    return pd.DataFrame(columns)


def file_name(path: str) -> str:
    """Return the last part of a path with slashes or backslashes.

    >>> file_name("plates/a b.png"), file_name("C:\\\\plates\\\\a.tif")
    ('a b.png', 'a.tif')
    """
    return PureWindowsPath(path).name


def _rounded(values: pd.Series[float]) -> pd.Series[float]:
    return values.map(lambda value: float(f"{value:.{SIGNIFICANT_DIGITS}g}"))
