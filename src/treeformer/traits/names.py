"""Convert tables to the column names of other tools, including traits that those tools define differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from treeformer.errors import TreeformerError
from treeformer.traits.definitions import IDENTIFYING, ColumnNames, traits_at_level

if TYPE_CHECKING:
    import pandas as pd

# archiDART counts orders from 1 and has special names for the first order.
ARCHIDART_FIRST_ORDER = {"N1LR": "TN1R", "L1LR": "L1R"}


def _summed_axes(table: pd.DataFrame) -> pd.Series[float]:
    return table["primary_length"] + table["lateral_length"]


def _positive(values: pd.Series[float]) -> pd.Series[float]:
    return values.where(values > 0)


def _from_parent_or_gravity(table: pd.DataFrame) -> pd.Series[float]:
    return table["emergence_angle"].where(table["order"] == 0, table["branching_angle"])


# (tool, level, column of the tool): the conversion from the treeformer table, and the definition for the docs.
CONVERTED: dict[tuple[ColumnNames, str, str], tuple[Callable[[pd.DataFrame], pd.Series[float]], str]] = {
    ("sleap-roots", "plant", "network_length"): (
        _summed_axes,
        "sum of the axis lengths, without the short edges that join a lateral's first point to its parent's line",
    ),
    ("sleap-roots", "plant", "primary_length"): (
        lambda table: table["primary_length_max"],
        "length of the longest axis of order 0",
    ),
    ("sleap-roots", "plant", "base_ct_density"): (
        lambda table: table["lateral_count"] / _positive(table["primary_length_max"]),
        "lateral_count / length of the longest axis of order 0",
    ),
    ("sleap-roots", "plant", "chull_area"): (
        lambda table: _positive(table["convex_hull_area"]),
        "NaN, not 0, if the nodes lie on one line",
    ),
    ("sleap-roots", "plant", "network_solidity"): (
        lambda table: _summed_axes(table) / _positive(table["convex_hull_area"]),
        "network_length / chull_area",
    ),
    ("sleap-roots", "plant", "network_width_depth_ratio"): (
        lambda table: _positive(table["width_depth_ratio"]),
        "NaN, not 0, if width is 0",
    ),
    ("archidart", "plant", "D2LR"): (
        lambda table: table.get("axis_count_order_1", 0) / _positive(table["primary_length"]),
        "number of axes of order 1 (alone) / primary_length",
    ),
    ("archidart", "axis", "order"): (lambda table: table["order"] + 1, "counted from 1"),
    ("archidart", "axis", "branching.angle"): (
        _from_parent_or_gravity,
        "branching_angle for laterals, emergence_angle for axes of order 0",
    ),
    ("rootnav", "axis", "Emergence Angle"): (
        _from_parent_or_gravity,
        "branching_angle for laterals, emergence_angle for axes of order 0",
    ),
}


def rename_columns(table: pd.DataFrame, level: str, column_names: ColumnNames) -> pd.DataFrame:
    """Return a table with the columns of another tool; "treeformer" returns the table unchanged.

    Identifying columns are followed by the traits that the tool has, as the tool defines them. The level is "plant",
    "axis", "segment" or "series"; a tool without traits at this level is an error.
    """
    import pandas as pd

    if column_names == "treeformer":
        return table
    columns = {name: table[name] for name in IDENTIFYING if name in table}
    identifying_count = len(columns)
    max_order = int(table["max_order"].max()) if "max_order" in table and len(table) else 0
    for trait in traits_at_level(level):
        tool_columns = trait.columns(column_names, max_order)
        own_columns = trait.columns(max_order=max_order) if tool_columns else []
        for own_column, tool_column in zip(own_columns, tool_columns, strict=True):
            convert, _ = CONVERTED.get((column_names, level, tool_column), (None, ""))
            values = table[own_column] if convert is None else convert(table)
            columns[ARCHIDART_FIRST_ORDER.get(tool_column, tool_column)] = values
    if len(columns) == identifying_count:
        raise TreeformerError(f"{column_names} has no column names for {level} traits: use column_names=treeformer")
    return pd.DataFrame(columns)
