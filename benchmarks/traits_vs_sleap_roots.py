"""Our traits beside those of sleap-roots, on every plant of the real RSML files; prints a table in Markdown.

sleap-roots is no dependency of this project. To run this, give it an environment of its own:

    python3 -m venv sleap-venv
    sleap-venv/bin/pip install sleap-roots==0.1.4 defusedxml
    PYTHONPATH=src sleap-venv/bin/python benchmarks/traits_vs_sleap_roots.py

sleap-roots measures the same lines: the points of each axis as the file has them. It takes all roots of a plant
as one array with equally many points a root, so the last step of each line is divided until that holds, which
moves no base, first step, tip, length or hull (save for the last digit). Plants with laterals go through its
DicotPipeline. Where every axis is of order 0 (barley) its OlderMonocotPipeline knows them as crown roots. Its scan
lines run from 0 to the image's height; the plant is moved up to 0 and its own height given, so that they are ours.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sleap_roots import DicotPipeline, OlderMonocotPipeline
from sleap_roots.summary import get_summary

from treeformer import Skeleton
from treeformer.formats.rsml import reader as rsml
from treeformer.traits import STATISTICS, measure, scanline_counts

FloatArray = NDArray[np.float64]

SCALARS = (
    "network_length",
    "primary_length",
    "lateral_count",
    "base_ct_density",
    "network_width_depth_ratio",
    "chull_area",
    "network_solidity",
    "primary_angle_proximal",
    "primary_angle_distal",
    "curve_index",
)
ARRAYS = ("lateral_lengths", "lateral_angles_proximal", "lateral_angles_distal", "scanline_intersection_counts")
# Crown roots: sleap-roots' name -> our column, under our own names.
CROWN = {
    "crown_count": "axis_count_order_0",
    "network_length": "primary_length",
    "network_width_depth_ratio": "width_depth_ratio",
    "chull_area": "convex_hull_area",
    "network_solidity": "solidity",
    "crown_lengths": "primary_length_{statistic}",
    "crown_angles_proximal": "primary_emergence_angle_{statistic}",
    "crown_angles_distal": "primary_chord_angle_{statistic}",
    "crown_curve_indices": "primary_curve_index_{statistic}",
    "scanline_intersection_counts": "scanline_counts_{statistic}",
}
# Why a trait differs by more than rounding, where it does.
ROUNDING = 1e-9
REASONS = {
    ("osr-roots", "scanline_intersection_counts"): (
        "we also count the edges that join laterals to their parent; sleap-roots counts a path through a point on a "
        "line twice, and may miss the lowest point by rounding"
    ),
    ("barley-roots", "scanline_intersection_counts"): (
        "sleap-roots counts a path through a point on a line twice, and may miss the lowest point by rounding"
    ),
    ("barley-roots", "chull_area"): "plants of one straight step: we say 0, sleap-roots NaN",
    ("barley-roots", "crown_curve_indices"): (
        "straight roots: we say 0; sleap-roots NaN, which does not count, or 1e-16, as rounding has it"
    ),
}


def relative_difference(one: float, other: float) -> float:
    """|one - other| over the greater of the two; 0 where both are NaN, infinite where one is."""
    if np.isnan(one) or np.isnan(other):
        return 0.0 if np.isnan(one) and np.isnan(other) else float("inf")
    greater = max(abs(one), abs(other))
    return abs(one - other) / greater if greater > 0 else 0.0


def equally_many_points(lines: list[FloatArray], count: int) -> FloatArray:
    """(lines, count, 2): each line with its last step divided, unequally so that no new point falls on a scan line."""
    made = np.zeros((len(lines), count, 2))
    for row, line in enumerate(lines):
        parts = count - len(line) + 1
        made[row, : len(line) - 1] = line[:-1]
        along = (np.arange(1, parts + 1) / parts) ** 0.9
        made[row, len(line) - 1 :] = line[-2] + (line[-1] - line[-2]) * along[:, None]
        made[row, -1] = line[-1]
    return made


def sleap_roots_traits(plant: Skeleton, pipeline: Any, *, crown: bool) -> dict[str, Any]:
    """Every trait of a pipeline of sleap-roots for one plant, arrays also summarized in its nine numbers."""
    lines = [plant.nodes[list(axis.nodes)] for axis in plant.axes]
    count = max(3, *(len(line) + 1 for line in lines))
    points = equally_many_points(lines, count)
    points[..., 1] -= plant.nodes[:, 1].min()
    primary = plant.axis_order == 0
    given = {"crown_pts": points} if crown else {"primary_pts": points[primary], "lateral_pts": points[~primary]}
    traits: dict[str, Any] = pipeline.compute_frame_traits(given)
    for name in pipeline.summary_traits:
        traits.update(get_summary(traits[name], prefix=f"{name}_"))
    return traits


def compare(plants: list[Skeleton], *, crown: bool) -> tuple[dict[str, list[float]], int]:
    """For each trait its relative difference in each plant, the greatest of nine for one summarized in nine numbers.

    And the number of scan lines, over all plants, whose counts differ.
    """
    make: Callable[..., Any] = OlderMonocotPipeline if crown else DicotPipeline
    columns = CROWN if crown else {name: name for name in SCALARS} | {name: f"{name}_{{statistic}}" for name in ARRAYS}
    differences: dict[str, list[float]] = {name: [] for name in columns}
    lines_apart = 0
    for plant in plants:
        depth = float(np.ptp(plant.nodes[:, 1]))
        with contextlib.redirect_stdout(None):  # it prints where a plant has too few roots for a trait
            theirs = sleap_roots_traits(plant, make(img_height=depth), crown=crown)
        ours = measure(plant, column_names="treeformer" if crown else "sleap-roots").iloc[0]
        lines_apart += int((scanline_counts(plant)[0] != theirs["scanline_intersection_counts"]).sum())
        for name, column in columns.items():
            pairs = (
                (float(ours[column.format(statistic=kind)]), float(theirs[f"{name}_{kind}" if kind else name]))
                for kind in (STATISTICS if "{statistic}" in column else ("",))
            )
            differences[name].append(max(relative_difference(*pair) for pair in pairs))
    return differences, lines_apart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("TREEFORMER_DATA", Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(default), help="the folder with osr-roots and barley-roots")
    data: Path = parser.parse_args().data
    warnings.simplefilter("ignore")
    print("| set | sleap-roots' trait | plants | greatest relative difference | median | plants that differ | why |")
    print("| --- " * 7 + "|")
    summary = []
    for folder, crown in (("osr-roots", False), ("barley-roots", True)):
        files = sorted((data / folder).rglob("*.rsml"))
        plants = [plant for file in files for plant in rsml.read(file).plants]
        differences, lines_apart = compare(plants, crown=crown)
        for name, values in differences.items():
            found = np.asarray(values)
            differ = int((found > ROUNDING).sum())
            why = REASONS.get((folder, name), "not known") if differ else ""
            figures = f"{len(found)} | {found.max():.1e} | {np.median(found):.1e} | {differ}"
            print(f"| {folder} | `{name}` | {figures} | {why} |")
        summary.append(f"{folder}: {lines_apart} of {50 * len(plants)} scan lines have different counts.")
    print("", *summary, sep="\n")


if __name__ == "__main__":
    main()
