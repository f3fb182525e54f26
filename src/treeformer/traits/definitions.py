"""Define all traits: name, level, unit, definition, and the names of the same trait in other tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["plant", "axis", "segment"]
ColumnNames = Literal["treeformer", "sleap-roots", "archidart", "rootnav"]
Columns = Literal["all", "compact"]
Kind = Literal["length", "area", "volume", "1/length", "length/time", "count", "angle", "ratio"]

# The statistics that summarize the values of a plant, the same nine as in sleap-roots.
STATISTICS = ("min", "max", "mean", "median", "std", "p5", "p25", "p75", "p95")

# Edges with a lower score count as uncertain, unless the metadata of a skeleton give another threshold.
LOW_CONFIDENCE_THRESHOLD = 0.15

# A value in pixels times px_per_mm to this power is the value in millimeters.
POWER_OF_SCALE: dict[Kind, int] = {"length": -1, "area": -2, "volume": -3, "1/length": 1, "length/time": -1}

# The columns that identify a row. They precede the traits. Each table has those that apply.
IDENTIFYING = (
    "image", "file", "plant", "plant_id", "plant_label", "segment", "axis", "axis_id", "axis_label", "parent_axis",
    "order", "start_node", "end_node", "external", "time_start", "time_end", "unit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trait:
    """One trait, which fills one or more columns.

    Attributes:
        name: The column. `{statistic}` stands for each of `STATISTICS`, `{order}` for each order of axes, from 0.
        level: The table of the trait.
        kind: The physical dimension, which determines the unit.
        definition: The definition for the documentation.
        sleap_roots: The column in sleap-roots, "" if it has none.
        archidart: The column in archiDART, "" if it has none. `{rank}` is the order counted from 1.
        rootnav: The column in RootNav, or in RhizoVision Explorer if RootNav has none; "" if neither has it.
    """

    name: str
    level: Literal["plant", "axis", "segment", "series"]
    kind: Kind
    definition: str
    sleap_roots: str = ""
    archidart: str = ""
    rootnav: str = ""

    def columns(self, column_names: ColumnNames = "treeformer", max_order: int = 0) -> list[str]:
        """Return the names of all columns of the trait.

        Args:
            column_names: The tool whose names are returned.
            max_order: The highest order of axes in the table.

        Returns:
            The names, empty if the tool does not have the trait.

        Example:
            >>> Trait("axis_count_order_{order}", "plant", "count", "").columns(max_order=1)
            ['axis_count_order_0', 'axis_count_order_1']
        """
        template = self.name if column_names == "treeformer" else getattr(self, column_names.replace("-", "_"))
        if not template:
            return []
        if "{statistic}" in self.name:
            return [template.format(statistic=statistic) for statistic in STATISTICS]
        if "{order}" in self.name:
            return [template.format(order=order, rank=order + 1) for order in range(max_order + 1)]
        return [template]


def _axis_summaries() -> tuple[Trait, ...]:
    """Return the traits that summarize axis values per plant, for axes of order 0 and for laterals."""
    measured: tuple[tuple[str, Kind, str], ...] = (
        ("length", "length", "lateral_lengths"),
        ("emergence_angle", "angle", "lateral_angles_proximal"),
        ("tip_angle", "angle", ""),
        ("chord_angle", "angle", "lateral_angles_distal"),
        ("curve_index", "ratio", ""),
    )
    return tuple(
        Trait(
            f"{group}_{name}_{{statistic}}",
            "plant",
            kind,
            f"{name} of the axes of order {orders}, summarized; NaN if there are none",
            sleap_roots=f"{sleap_roots}_{{statistic}}" if sleap_roots and group == "lateral" else "",
        )
        for group, orders in (("primary", "0"), ("lateral", "≥ 1"))
        for name, kind, sleap_roots in measured
    )


TRAITS: tuple[Trait, ...] = (
    Trait(
        "total_length", "plant", "length", "sum of all edge lengths",
        sleap_roots="network_length", archidart="TRL", rootnav="Total Length",
    ),
    Trait(
        "primary_length", "plant", "length", "length of the axis of order 0; the sum if there are several",
        sleap_roots="primary_length", archidart="L1R",
    ),
    Trait(
        "lateral_count", "plant", "count", "number of axes of order ≥ 1",
        sleap_roots="lateral_count", archidart="TNLR", rootnav="Lateral Root Count",
    ),
    Trait(
        "lateral_length", "plant", "length", "summed length of the axes of order ≥ 1",
        sleap_roots="total_lateral_length", archidart="TLRL",
    ),
    Trait(
        "lateral_density", "plant", "1/length", "lateral_count / primary_length; NaN if that is 0",
        sleap_roots="base_ct_density", archidart="D2LR",
    ),
    Trait(
        "tip_count", "plant", "count", "number of nodes of degree 1 that are not roots",
        archidart="Magnitude", rootnav="Number.of.Root.Tips",
    ),
    Trait(
        "branch_point_count", "plant", "count", "number of nodes of degree ≥ 3",
        rootnav="Number.of.Branch.Points",
    ),
    Trait("max_order", "plant", "count", "highest order of an axis; 0 if there are no axes"),
    Trait("depth", "plant", "length", "height of the nodes' bounding box", archidart="Height", rootnav="Depth"),
    Trait("width", "plant", "length", "width of the nodes' bounding box", archidart="Width", rootnav="Maximum.Width"),
    Trait(
        "width_depth_ratio", "plant", "ratio", "width / depth; NaN if depth is 0",
        sleap_roots="network_width_depth_ratio",
    ),
    Trait(
        "convex_hull_area", "plant", "area", "area of the nodes' convex hull; 0 if they lie on one line",
        sleap_roots="chull_area", archidart="ConvexhullXY", rootnav="Convex Hull Area",
    ),
    Trait(
        "solidity", "plant", "1/length",
        "total_length / convex_hull_area, with the unit 1/length as in sleap-roots; NaN if the area is 0",
        sleap_roots="network_solidity",
    ),
    Trait(
        "altitude", "plant", "count",
        "number of links on the longest path from a tip to its root; 0 if there are no tips",
        archidart="Altitude",
    ),
    Trait(
        "external_path_length", "plant", "count",
        "number of links on the path from a tip to its root, summed over all tips",
        archidart="ExtPathLength",
    ),
    Trait("main_emergence_angle", "plant", "angle", "emergence_angle of the main axis", "primary_angle_proximal"),
    Trait("main_tip_angle", "plant", "angle", "tip_angle of the main axis"),
    Trait("main_chord_angle", "plant", "angle", "chord_angle of the main axis", "primary_angle_distal"),
    Trait("main_curve_index", "plant", "ratio", "curve_index of the main axis", "curve_index"),
    Trait(
        "mean_diameter", "plant", "length",
        "mean of 2 · radius along the edges whose two radii are known, weighted by length; NaN if there are none",
        rootnav="Average.Diameter",
    ),
    Trait(
        "surface_area", "plant", "area",
        "lateral surface of the edges whose two radii are known, as truncated cones; NaN if there are none",
        rootnav="Surface.Area",
    ),
    Trait(
        "volume", "plant", "volume",
        "volume of the edges whose two radii are known, as truncated cones; NaN if there are none",
        rootnav="Volume",
    ),
    Trait(
        "low_confidence_length_fraction", "plant", "ratio",
        "length of the edges with an edge_score below `metadata[\"low_confidence_threshold\"]`, by default "
        f"{LOW_CONFIDENCE_THRESHOLD}, / total_length; NaN without scores or if total_length is 0",
    ),
    Trait("axis_count_order_{order}", "plant", "count", "number of axes of this order", archidart="N{rank}LR"),
    Trait("axis_length_order_{order}", "plant", "length", "summed length of the axes of this order", "", "L{rank}LR"),
    Trait(
        "scanline_counts_{statistic}", "plant", "count",
        "crossings with each of 50 horizontal lines over the height of the plant, summarized",
        sleap_roots="scanline_intersection_counts_{statistic}",
    ),
    *_axis_summaries(),
    Trait(
        "order", "axis", "count", "0 for an axis without a parent, otherwise the order of the parent + 1",
        archidart="order",
    ),
    Trait(
        "length", "axis", "length", "length along the points of the axis; 0 for fewer than two points",
        "lengths", "length", "Total Length",
    ),
    Trait("chord_length", "axis", "length", "straight distance from base to tip", sleap_roots="base_tip_dists"),
    Trait(
        "emergence_angle", "axis", "angle", "angle of the first step of the axis from gravity; NaN if length is 0",
        "angles_proximal", "branching.angle", "Emergence Angle",
    ),
    Trait(
        "tip_angle", "axis", "angle", "angle of the last step of the axis from gravity; NaN if length is 0",
        rootnav="Tip Angle",
    ),
    Trait(
        "chord_angle", "axis", "angle", "angle of the line from base to tip from gravity; NaN if they coincide",
        sleap_roots="angles_distal",
    ),
    Trait(
        "branching_angle", "axis", "angle",
        "angle between the first step of the axis and the direction of its parent there; NaN without a parent",
    ),
    Trait(
        "curve_index", "axis", "ratio", "(length - chord_length) / length; NaN if length is 0",
        sleap_roots="curve_index",
    ),
    Trait(
        "tortuosity", "axis", "ratio", "length / chord_length; NaN if base and tip coincide",
        archidart="tortuosity", rootnav="Tortuosity",
    ),
    Trait(
        "lateral_count", "axis", "count", "number of axes whose parent is this axis",
        archidart="nlat", rootnav="Lateral Root Count",
    ),
    Trait("length", "segment", "length", "length along the segment"),
    Trait("chord_length", "segment", "length", "straight distance between its ends"),
    Trait("chord_angle", "segment", "angle", "angle of the line between its ends from gravity; NaN if they coincide"),
    Trait("curve_index", "segment", "ratio", "(length - chord_length) / length; NaN if length is 0"),
    Trait("tortuosity", "segment", "ratio", "length / chord_length; NaN if the ends coincide"),
    Trait("total_length_growth", "series", "length", "total_length at the end of the interval minus that at its start"),
    Trait("primary_length_growth", "series", "length", "the same for primary_length"),
    Trait(
        "total_length_growth_rate", "series", "length/time", "total_length_growth / length of the interval",
        archidart="GRTR",
    ),
    Trait(
        "primary_length_growth_rate", "series", "length/time", "primary_length_growth / length of the interval",
        archidart="GR1R",
    ),
)  # fmt: skip


def traits_at_level(level: str) -> tuple[Trait, ...]:
    """Return the traits of `TRAITS` at one level."""
    return tuple(trait for trait in TRAITS if trait.level == level)
