"""From a skeleton, or from many files, to one table of traits."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from treeformer._util.progress import ProgressCallback
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.traits.axis_level import axis_table
from treeformer.traits.definitions import IDENTIFYING, POWER_OF_SCALE, ColumnNames, Level, traits_of
from treeformer.traits.names import renamed
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
    scanlines: int = 50,
) -> pd.DataFrame:
    """The traits of a skeleton, a row a plant, an axis or a segment; `TRAITS` has what each column means.

    Args:
        skeleton: a tree or a forest; an error where there is a cycle.
        level: what a row is. A segment is the stretch between two keypoints (degree ≠ 2, roots, ends of axes).
        px_per_mm: pixels a millimetre. None: as the skeleton's RSML metadata says; without that, values stay in
            pixels. The column `unit` says "px" or "mm".
        column_names: whose column names. Another tool's give the traits that tool has, as it defines them.
        scanlines: the number of horizontal lines to count crossings with, at plant level.

    Example:
        >>> y_shape = Skeleton([(5, 9), (5, 5), (2, 1), (8, 1)], [(0, 1), (1, 2), (1, 3)], root=0)
        >>> measure(y_shape, px_per_mm=2)[["unit", "total_length", "tip_count"]].to_dict("records")
        [{'unit': 'mm', 'total_length': 7.0, 'tip_count': 2}]
    """
    _check_options(level, px_per_mm, column_names)
    return renamed(_measured(skeleton, level, px_per_mm, scanlines), level, column_names)


def measure_files(
    paths: Iterable[str | os.PathLike[str]],
    *,
    level: Level = "plant",
    px_per_mm: float | None = None,
    column_names: ColumnNames = "treeformer",
    scanlines: int = 50,
    read: Callable[[Path], Skeleton] | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """The traits of many files in one table, `file` in front, and one line for each file that failed.

    A file that cannot be read or measured leaves the others as they are. Options as in `measure`;
    read: how to get a skeleton from a file, `treeformer.formats.read` unless given;
    progress: called with the number of files done and of all files, after each.
    """
    import pandas as pd

    # An empty skeleton's table has every column and no row; wrong options are an error here, not one a file.
    nothing = measure(
        Skeleton([], []), level=level, px_per_mm=px_per_mm, column_names=column_names, scanlines=scanlines
    )
    if read is None:
        from treeformer import formats

        read = formats.read
    tables: list[pd.DataFrame] = []
    failures: list[str] = []
    files = [Path(path) for path in paths]
    for done, path in enumerate(files, start=1):
        try:
            table = _measured(read(path), level, px_per_mm, scanlines)
        except TreeformerError as error:
            failures.append(f"{path}: {str(error).removeprefix(f'{path}: ').removeprefix(f'{path.name}: ')}")
        except OSError as error:
            failures.append(f"{path}: {error.strerror or error}")
        else:
            table.insert(0, "file", str(path))
            tables.append(table)
        if progress is not None:
            progress(done, len(files))
    tables = [table for table in tables if len(table)]
    if not tables:
        nothing.insert(0, "file", pd.Series([], dtype=str))
        return nothing, failures
    return renamed(_joined(tables, level), level, column_names), failures


def _measured(skeleton: Skeleton, level: Level, px_per_mm: float | None, scanlines: int) -> pd.DataFrame:
    """The table under our names, in mm where the scale is known."""
    import pandas as pd

    _ = skeleton.parents  # an error that names the node where there is a cycle
    if level == "plant":
        table = plant_table(skeleton, scanlines=scanlines)
    elif level == "axis":
        table = axis_table(skeleton)
    else:
        table = segment_table(skeleton)
    if px_per_mm is None:
        from treeformer.formats.rsml.reader import resolution_px_per_mm

        px_per_mm = resolution_px_per_mm(skeleton)
    if px_per_mm is not None:
        _to_millimetres(table, level, px_per_mm)
    table["unit"] = "px" if px_per_mm is None else "mm"
    records = skeleton.plant_records
    for name in ("id", "label"):
        values = [getattr(records[plant], name) if plant < len(records) else "" for plant in table["plant"]]
        table[f"plant_{name}"] = pd.Series(values, dtype=str)
    return _arranged(table, level)


def _to_millimetres(table: pd.DataFrame, level: Level, px_per_mm: float) -> None:
    highest_order = _highest_order(table)
    for trait in traits_of(level):
        if power := POWER_OF_SCALE.get(trait.kind):
            for column in trait.columns(max_order=highest_order):
                table[column] *= px_per_mm**power


def _joined(tables: list[pd.DataFrame], level: Level) -> pd.DataFrame:
    """One table of several, with 0 for the orders of axes that a file does not have."""
    import pandas as pd

    table = pd.concat(tables, ignore_index=True)
    for column in table:
        if "_order_" in str(column):
            kind = int if str(column).startswith("axis_count") else float
            table[column] = table[column].fillna(0).astype(kind)
    return _arranged(table, level)


def _highest_order(table: pd.DataFrame) -> int:
    """Of a plant table, the order up to which it has columns; 0 of others, whose columns do not depend on it."""
    return max(0, sum(str(column).startswith("axis_count_order_") for column in table) - 1)


def _arranged(table: pd.DataFrame, level: Level) -> pd.DataFrame:
    """Columns in the order of `TRAITS`, after those that say what a row is."""
    highest_order = _highest_order(table)
    front = [column for column in IDENTIFYING if column in table]
    traits = [column for trait in traits_of(level) for column in trait.columns(max_order=highest_order)]
    return table[front + [column for column in traits if column not in front]]


def _check_options(level: str, px_per_mm: float | None, column_names: str) -> None:
    for option, value, allowed in (
        ("level", level, get_args(Level)),
        ("column_names", column_names, get_args(ColumnNames)),
    ):
        if value not in allowed:
            raise TreeformerError(f"{option} must be one of {', '.join(allowed)}, not {value!r}")
    if px_per_mm is not None and not (math.isfinite(px_per_mm) and px_per_mm > 0):
        raise TreeformerError(f"px_per_mm must be a positive number, not {px_per_mm}")
