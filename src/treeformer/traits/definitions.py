"""The one table of traits: name, level, unit, definition, and what other tools call the same thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["plant", "axis", "segment"]
ColumnNames = Literal["treeformer", "sleap-roots", "archidart", "rootnav"]
Kind = Literal["length", "area", "1/length", "length/time", "count", "angle", "ratio"]

# How arrays of values are summarized in one row a plant, the same nine numbers as in sleap-roots.
STATISTICS = ("min", "max", "mean", "median", "std", "p5", "p25", "p75", "p95")

# A value in pixels, times px_per_mm to this power, is the value in millimetres.
POWER_OF_SCALE: dict[Kind, int] = {"length": -1, "area": -2, "1/length": 1, "length/time": -1}

# The columns that say what a row is, in front of the traits; each table has those that apply.
IDENTIFYING = (
    "file", "plant", "plant_id", "plant_label", "segment", "axis", "axis_id", "axis_label", "parent_axis", "order",
    "start_node", "end_node", "external", "time_start", "time_end", "unit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trait:
    """One trait. `{statistic}` in a name stands for each of `STATISTICS`, `{order}` for each order of axes, from 0.

    `sleap_roots`, `archidart`, `rootnav`: the other tool's column, empty where it has none; `{rank}` in
    one is the order counted from 1. RhizoVision Explorer's name stands in where RootNav has none.
    """

    name: str
    level: Literal["plant", "axis", "segment", "series"]
    kind: Kind
    definition: str
    sleap_roots: str = ""
    archidart: str = ""
    rootnav: str = ""

    def columns(self, column_names: ColumnNames = "treeformer", max_order: int = 0) -> list[str]:
        """Every column the trait fills, under our names or another tool's; none where that tool does not have it.

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
    """The values of a plant's axes in nine numbers, for those of order 0 and for laterals."""
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
            f"{name} of the axes of order {orders}, summarized; NaN without any",
            sleap_roots=f"{theirs}_{{statistic}}" if theirs and group == "lateral" else "",
        )
        for group, orders in (("primary", "0"), ("lateral", "≥ 1"))
        for name, kind, theirs in measured
    )


TRAITS: tuple[Trait, ...] = (
    Trait(
        "total_length", "plant", "length", "sum of all edge lengths",
        sleap_roots="network_length", archidart="TRL", rootnav="Total Length",
    ),
    Trait(
        "primary_length", "plant", "length", "length of the axis of order 0; the sum where there are several",
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
        "lateral_density", "plant", "1/length", "lateral_count / primary_length; NaN where that is 0",
        sleap_roots="base_ct_density", archidart="D2LR",
    ),
    Trait(
        "tip_count", "plant", "count", "number of nodes of degree 1, roots excepted",
        archidart="Magnitude", rootnav="Number.of.Root.Tips",
    ),
    Trait(
        "branch_point_count", "plant", "count", "number of nodes of degree ≥ 3",
        rootnav="Number.of.Branch.Points",
    ),
    Trait("max_order", "plant", "count", "highest order of an axis; 0 also where there is none"),
    Trait("depth", "plant", "length", "height of the nodes' bounding box", archidart="Height", rootnav="Depth"),
    Trait("width", "plant", "length", "width of the nodes' bounding box", archidart="Width", rootnav="Maximum.Width"),
    Trait(
        "width_depth_ratio", "plant", "ratio", "width / depth; NaN where depth is 0",
        sleap_roots="network_width_depth_ratio",
    ),
    Trait(
        "convex_hull_area", "plant", "area", "area of the nodes' convex hull; 0 where they lie on one line",
        sleap_roots="chull_area", archidart="ConvexhullXY", rootnav="Convex Hull Area",
    ),
    Trait(
        "solidity", "plant", "1/length",
        "total_length / convex_hull_area, as odd in its unit as sleap-roots has it; NaN where the area is 0",
        sleap_roots="network_solidity",
    ),
    Trait(
        "altitude", "plant", "count", "links on the longest way from a tip to its root; 0 without tips",
        archidart="Altitude",
    ),
    Trait(
        "external_path_length", "plant", "count", "links on the way from a tip to its root, summed over all tips",
        archidart="ExtPathLength",
    ),
    Trait("main_emergence_angle", "plant", "angle", "emergence_angle of the main axis", "primary_angle_proximal"),
    Trait("main_tip_angle", "plant", "angle", "tip_angle of the main axis"),
    Trait("main_chord_angle", "plant", "angle", "chord_angle of the main axis", "primary_angle_distal"),
    Trait("main_curve_index", "plant", "ratio", "curve_index of the main axis", "curve_index"),
    Trait("axis_count_order_{order}", "plant", "count", "number of axes of this order", archidart="N{rank}LR"),
    Trait("axis_length_order_{order}", "plant", "length", "summed length of the axes of this order", "", "L{rank}LR"),
    Trait(
        "scanline_counts_{statistic}", "plant", "count",
        "crossings with each of 50 horizontal lines over the plant's own height, summarized",
        sleap_roots="scanline_intersection_counts_{statistic}",
    ),
    *_axis_summaries(),
    Trait("order", "axis", "count", "0 for an axis without a parent, else the parent's order + 1", archidart="order"),
    Trait(
        "length", "axis", "length", "length along the axis's own points; 0 for fewer than two",
        "lengths", "length", "Total Length",
    ),
    Trait("chord_length", "axis", "length", "straight distance from base to tip", sleap_roots="base_tip_dists"),
    Trait(
        "emergence_angle", "axis", "angle", "of the first step of the axis, from gravity; NaN where length is 0",
        "angles_proximal", "branching.angle", "Emergence Angle",
    ),
    Trait(
        "tip_angle", "axis", "angle", "of the last step of the axis, from gravity; NaN where length is 0",
        rootnav="Tip Angle",
    ),
    Trait(
        "chord_angle", "axis", "angle", "of the straight line from base to tip, from gravity; NaN where they coincide",
        sleap_roots="angles_distal",
    ),
    Trait(
        "branching_angle", "axis", "angle",
        "between the first step of the axis and the direction of its parent there; NaN without a parent",
    ),
    Trait(
        "curve_index", "axis", "ratio", "(length - chord_length) / length; NaN where length is 0",
        sleap_roots="curve_index",
    ),
    Trait(
        "tortuosity", "axis", "ratio", "length / chord_length; NaN where base and tip coincide",
        archidart="tortuosity", rootnav="Tortuosity",
    ),
    Trait(
        "lateral_count", "axis", "count", "number of axes whose parent this one is",
        archidart="nlat", rootnav="Lateral Root Count",
    ),
    Trait("length", "segment", "length", "length along the segment"),
    Trait("chord_length", "segment", "length", "straight distance between its ends"),
    Trait("chord_angle", "segment", "angle", "of the line between its ends, from gravity; NaN where they coincide"),
    Trait("curve_index", "segment", "ratio", "(length - chord_length) / length; NaN where length is 0"),
    Trait("tortuosity", "segment", "ratio", "length / chord_length; NaN where the ends coincide"),
    Trait("total_length_growth", "series", "length", "total_length at the end of the interval less that at its start"),
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


def traits_of(level: str) -> tuple[Trait, ...]:
    """The rows of `TRAITS` at one level."""
    return tuple(trait for trait in TRAITS if trait.level == level)


def markdown_table() -> str:
    """`TRAITS` as it stands in the documentation."""
    rows = [
        "| trait | level | unit | definition | sleap-roots | archiDART | RootNav / RhizoVision |",
        "| --- " * 7 + "|",
    ]
    for trait in TRAITS:
        others = (trait.sleap_roots, trait.archidart, trait.rootnav)
        cells = [f"`{trait.name}`", trait.level, trait.kind, trait.definition, *(f"`{o}`" if o else "" for o in others)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)
