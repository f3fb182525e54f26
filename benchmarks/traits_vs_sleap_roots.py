"""Compare our traits with those of sleap-roots on every plant of the real RSML files; prints a Markdown table.

sleap-roots is not a dependency of this project. Install it into a separate environment:

    python3 -m venv sleap-venv
    sleap-venv/bin/pip install sleap-roots==0.1.4 defusedxml
    PYTHONPATH=src sleap-venv/bin/python benchmarks/traits_vs_sleap_roots.py

sleap-roots measures the same lines: the points of each axis as stored in the file. It takes all roots of a plant as one
array with the same number of points per root. The last step of each line is therefore subdivided, which changes no
base, first step, tip, length or hull (except for rounding). Plants with laterals use its DicotPipeline. If every axis
has order 0 (barley), its OlderMonocotPipeline treats them as crown roots. Its scan lines run from 0 to the height of
the image; the plant is moved to 0 and its own height is passed, so that the scan lines are the same.
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
# Crown roots: sleap-roots' name -> our column.
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
# Reasons for differences beyond rounding.
ROUNDING = 1e-9
REASONS = {
    ("osr-roots", "scanline_intersection_counts"): (
        "we also count the edges that join laterals to their parent; sleap-roots counts a path through a point on a "
        "line twice and may miss the lowest point by rounding"
    ),
    ("barley-roots", "scanline_intersection_counts"): (
        "sleap-roots counts a path through a point on a line twice and may miss the lowest point by rounding"
    ),
    ("barley-roots", "chull_area"): "plants of one straight step: 0 here, NaN in sleap-roots",
    ("barley-roots", "crown_curve_indices"): (
        "straight roots: 0 here; NaN (ignored) or about 1e-16 (rounding) in sleap-roots"
    ),
}


def relative_difference(a: float, b: float) -> float:
    """Return |a - b| over the larger absolute value; 0 if both are NaN, infinite if one is."""
    if np.isnan(a) or np.isnan(b):
        return 0.0 if np.isnan(a) and np.isnan(b) else float("inf")
    largest = max(abs(a), abs(b))
    return abs(a - b) / largest if largest > 0 else 0.0


def equally_many_points(lines: list[FloatArray], count: int) -> FloatArray:
    """Return (lines,count,2): the last step of each line is divided unevenly, so no new point is on a scan line."""
    points = np.zeros((len(lines), count, 2))
    for row, line in enumerate(lines):
        parts = count - len(line) + 1
        points[row, : len(line) - 1] = line[:-1]
        along = (np.arange(1, parts + 1) / parts) ** 0.9
        points[row, len(line) - 1 :] = line[-2] + (line[-1] - line[-2]) * along[:, None]
        points[row, -1] = line[-1]
    return points


def sleap_roots_traits(plant: Skeleton, pipeline: Any, *, crown: bool) -> dict[str, Any]:
    """Return all traits of a sleap-roots pipeline for one plant, including its nine statistics of arrays."""
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
    """Compare all traits of some plants.

    Args:
        plants: the plants.
        crown: True for plants with crown roots only.

    Returns:
        The relative differences per plant, by trait (the largest of the nine statistics of an array), and the number
        of scan lines of all plants whose counts differ.
    """
    make: Callable[..., Any] = OlderMonocotPipeline if crown else DicotPipeline
    columns = CROWN if crown else {name: name for name in SCALARS} | {name: f"{name}_{{statistic}}" for name in ARRAYS}
    differences: dict[str, list[float]] = {name: [] for name in columns}
    lines_apart = 0
    for plant in plants:
        depth = float(np.ptp(plant.nodes[:, 1]))
        with contextlib.redirect_stdout(None):  # sleap-roots prints a message if a plant has too few roots for a trait
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
    parser.add_argument("--data", type=Path, default=Path(default), help="folder with osr-roots and barley-roots")
    data: Path = parser.parse_args().data
    warnings.simplefilter("ignore")
    print("| set | sleap-roots' trait | plants | largest relative difference | median | plants that differ | reason |")
    print("| --- " * 7 + "|")
    summary = []
    for folder, crown in (("osr-roots", False), ("barley-roots", True)):
        files = sorted((data / folder).rglob("*.rsml"))
        plants = [plant for file in files for plant in rsml.read(file).plants]
        differences, lines_apart = compare(plants, crown=crown)
        for name, values in differences.items():
            found = np.asarray(values)
            differ = int((found > ROUNDING).sum())
            reason = REASONS.get((folder, name), "unknown") if differ else ""
            figures = f"{len(found)} | {found.max():.1e} | {np.median(found):.1e} | {differ}"
            print(f"| {folder} | `{name}` | {figures} | {reason} |")
        summary.append(f"{folder}: {lines_apart} of {50 * len(plants)} scan lines have different counts.")
    print("", *summary, sep="\n")


if __name__ == "__main__":
    main()
