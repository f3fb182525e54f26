"""Measure the traits of a skeleton or of many files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from treeformer._util.progress import ProgressCallback
from treeformer._util.text import as_unicode, short_repr
from treeformer.errors import TreeformerError
from treeformer.formats.rsml.metadata import PLAUSIBLE_PX_PER_MM, resolution_px_per_mm
from treeformer.skeleton import Skeleton
from treeformer.traits.axis_level import axis_table
from treeformer.traits.compact import compact, file_name, row_without_plant
from treeformer.traits.definitions import (
    IDENTIFYING,
    POWER_OF_SCALE,
    ColumnNames,
    Columns,
    Level,
    traits_at_level,
)
from treeformer.traits.names import rename_columns
from treeformer.traits.plant_level import plant_table
from treeformer.traits.segment_level import segment_table

if TYPE_CHECKING:
    import pandas as pd


def measure(
    skeleton: Skeleton,
    *,
    level: Level = "plant",
    px_per_mm: float | None = None,
    column_names: ColumnNames = "treeformer",
    columns: Columns = "all",
    scanlines: int = 50,
) -> pd.DataFrame:
    """Measure the traits of a skeleton. `TRAITS` defines the columns.

    Args:
        skeleton: A tree or a forest, in px.
        level: The entity of a row. A segment is a path between two keypoints (degree ≠ 2, roots, ends of axes).
        px_per_mm: Pixels per millimeter. None uses the RSML metadata of the skeleton; without them, values are in
            pixels. The column `unit` is "px" or "mm".
        column_names: The tool whose column names are used. Other tools give the traits that they have, as they
            define them.
        columns: "all", or "compact" for the main columns at plant level, rounded to 6 significant digits, with the
            image first and a column `note`. The columns of other tools are always complete.
        scanlines: The number of horizontal lines on which crossings are counted, at plant level.

    Returns:
        One row per plant, axis or segment. A compact plant table of an empty skeleton has one row with the note
        "no plant".

    Raises:
        TreeformerError: If the skeleton has a cycle or an option is invalid.

    Example:
        >>> y_shape = Skeleton([(5, 9), (5, 5), (2, 1), (8, 1)], [(0, 1), (1, 2), (1, 3)], root=0)
        >>> measure(y_shape, px_per_mm=2)[["unit", "total_length", "tip_count"]].to_dict("records")
        [{'unit': 'mm', 'total_length': 7.0, 'tip_count': 2}]
    """
    if not isinstance(skeleton, Skeleton):
        raise TreeformerError(f"measure takes one skeleton, not {type(skeleton).__name__}")
    _check_options(level, px_per_mm, column_names, columns)
    table = _measured(skeleton, level, px_per_mm, scanlines)
    if columns == "compact" and column_names == "treeformer":
        labels = {"image": as_unicode(file_name(skeleton.image_name or ""))}
        return _compact(_labeled(table, labels), skeleton, level, labels | {"unit": _unit(skeleton, px_per_mm)})
    return rename_columns(table, level, column_names)


def measure_files(
    paths: Iterable[str | os.PathLike[str]],
    *,
    level: Level = "plant",
    px_per_mm: float | None = None,
    column_names: ColumnNames = "treeformer",
    columns: Columns = "compact",
    scanlines: int = 50,
    read: Callable[[Path], Skeleton] | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Measure the traits of many files. A file that fails does not affect the others.

    Args:
        paths: The skeleton files.
        level: The entity of a row, as in `measure`.
        px_per_mm: Pixels per millimeter, as in `measure`.
        column_names: The tool whose column names are used, as in `measure`.
        columns: "compact" or "all", as in `measure`. Only a compact plant table has rows for images without a plant.
        scanlines: The number of horizontal lines on which crossings are counted, at plant level.
        read: A function that reads a file. None uses `treeformer.formats.read`.
        progress: Called after each file with the number of files done and the total number.

    Returns:
        One table with the additional columns `image`, which is the first, and `file`; and one line per file that
        failed. `image` is the name of the image, or that of the file if the skeleton does not know its image.

    Raises:
        TreeformerError: If an option is invalid, or `paths` is one path instead of several.
    """
    import pandas as pd

    if isinstance(paths, str | os.PathLike):  # its letters would be taken for files
        raise TreeformerError(f"measure_files takes several files, and {short_repr(os.fspath(paths))} is one path")
    # The table of an empty skeleton has all columns and no rows. Invalid options fail here, not once per file.
    _check_options(level, px_per_mm, column_names, columns)
    is_compact = columns == "compact" and column_names == "treeformer"
    empty_table = _measured(Skeleton([], []), level, px_per_mm, scanlines)
    rename_columns(empty_table, level, column_names)
    if read is None:
        from treeformer import formats

        read = formats.read
    tables: list[pd.DataFrame] = []
    failures: list[str] = []
    files = [Path(path) for path in paths]
    for done, path in enumerate(files, start=1):
        try:
            skeleton = read(path)
            table = _measured(skeleton, level, px_per_mm, scanlines)
        except TreeformerError as error:
            failures.append(f"{path}: {str(error).removeprefix(f'{path}: ').removeprefix(f'{path.name}: ')}")
        except OSError as error:
            failures.append(f"{path}: {error.strerror or error}")
        else:
            image_name = file_name(skeleton.image_name or "") or path.name
            labels = {"image": as_unicode(image_name), "file": as_unicode(str(path))}
            table = _labeled(table, labels)
            if is_compact:
                table = _compact(table, skeleton, level, labels | {"unit": _unit(skeleton, px_per_mm)})
            tables.append(table)
        if progress is not None:
            progress(done, len(files))
    tables = [table for table in tables if len(table)]
    if not tables:
        empty_table = _labeled(empty_table, {"image": "", "file": ""})
        return compact(empty_table, level) if is_compact else rename_columns(empty_table, level, column_names), failures
    if is_compact:
        return pd.concat(tables, ignore_index=True), failures
    return rename_columns(_concatenated(tables, level), level, column_names), failures


def _measured(skeleton: Skeleton, level: Level, px_per_mm: float | None, scanlines: int) -> pd.DataFrame:
    """Return the table with treeformer's column names, in mm if the scale is known."""
    import pandas as pd

    _ = skeleton.parents  # raises an error if there is a cycle
    if level == "plant":
        table = plant_table(skeleton, scanlines=scanlines)
    elif level == "axis":
        table = axis_table(skeleton)
    else:
        table = segment_table(skeleton)
    scale = _scale(skeleton, px_per_mm)
    if scale is not None:
        _to_millimeters(table, level, scale)
    table["unit"] = _unit(skeleton, px_per_mm)
    records = skeleton.plant_records
    for name in ("id", "label"):
        values = [getattr(records[plant], name) if plant < len(records) else "" for plant in table["plant"]]
        table[f"plant_{name}"] = pd.Series(values, dtype=str)
    return _arranged(table, level)


def _scale(skeleton: Skeleton, px_per_mm: float | None) -> float | None:
    """Return the pixels per millimeter: as given, otherwise from the RSML metadata, None if they are unknown."""
    if px_per_mm is not None:
        return px_per_mm
    return resolution_px_per_mm(skeleton)


def _unit(skeleton: Skeleton, px_per_mm: float | None) -> str:
    return "px" if _scale(skeleton, px_per_mm) is None else "mm"


def _labeled(table: pd.DataFrame, labels: dict[str, str]) -> pd.DataFrame:
    """Return a table with additional first columns, each with the same text in all rows."""
    import pandas as pd

    first = {name: pd.Series(text, index=table.index, dtype=str) for name, text in labels.items()}
    return pd.concat([pd.DataFrame(first), table], axis=1)


def _compact(table: pd.DataFrame, skeleton: Skeleton, level: Level, labels: dict[str, str]) -> pd.DataFrame:
    """Return the compact table of a skeleton. If it is empty, `labels` are the texts of its row at plant level."""
    if level == "plant" and len(skeleton) == 0:
        return row_without_plant(compact(table), **labels)
    return compact(table, level)


def _to_millimeters(table: pd.DataFrame, level: Level, px_per_mm: float) -> None:
    highest_order = _highest_order(table)
    for trait in traits_at_level(level):
        if power := POWER_OF_SCALE.get(trait.kind):
            for column in trait.columns(max_order=highest_order):
                table[column] *= px_per_mm**power


def _concatenated(tables: list[pd.DataFrame], level: Level) -> pd.DataFrame:
    """Concatenate tables. Orders of axes that a file does not have become 0."""
    import pandas as pd

    table = pd.concat(tables, ignore_index=True)
    for column in table:
        if "_order_" in str(column):
            kind = int if str(column).startswith("axis_count") else float
            table[column] = table[column].fillna(0).astype(kind)
    return _arranged(table, level)


def _highest_order(table: pd.DataFrame) -> int:
    """Return the highest order in the columns of a plant table, 0 for other tables."""
    return max(0, sum(str(column).startswith("axis_count_order_") for column in table) - 1)


def _arranged(table: pd.DataFrame, level: Level) -> pd.DataFrame:
    """Sort the columns: identifying columns first, then those of `TRAITS` in order."""
    highest_order = _highest_order(table)
    front = [column for column in IDENTIFYING if column in table]
    traits = [column for trait in traits_at_level(level) for column in trait.columns(max_order=highest_order)]
    return table[front + [column for column in traits if column not in front]]


def _check_options(level: str, px_per_mm: float | None, column_names: str, columns: str) -> None:
    for option, value, allowed in (
        ("level", level, get_args(Level)),
        ("column_names", column_names, get_args(ColumnNames)),
        ("columns", columns, get_args(Columns)),
    ):
        if value not in allowed:
            raise TreeformerError(f"{option} must be one of {', '.join(allowed)}, not {value!r}")
    check_px_per_mm(px_per_mm)


def check_px_per_mm(px_per_mm: float | None) -> None:
    """Check a resolution; None is valid.

    Raises:
        TreeformerError: If it is no positive number, or one that no camera or scanner has.
    """
    if px_per_mm is None:
        return
    if not isinstance(px_per_mm, int | float | np.number) or not (math.isfinite(px_per_mm) and px_per_mm > 0):
        raise TreeformerError(f"px_per_mm must be a positive number, not {short_repr(px_per_mm)}")
    least, greatest = PLAUSIBLE_PX_PER_MM
    if not least <= px_per_mm <= greatest:
        raise TreeformerError(f"px_per_mm must be between {least:g} and {greatest:g}, not {px_per_mm}")
