"""Compute the traits of all plants of an image at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.traits.axis_level import axis_table
from treeformer.traits.definitions import LOW_CONFIDENCE_THRESHOLD
from treeformer.traits.lines import ratio
from treeformer.traits.statistics import nine_statistics, sums

if TYPE_CHECKING:
    import pandas as pd

# Traits of axes that are summarized by nine statistics per plant.
SUMMARIZED = ("length", "emergence_angle", "tip_angle", "chord_angle", "curve_index")

# A node this close to a scan line counts as lying on it. The unit is the distance between two lines.
ON_LINE = 1e-9


def plant_table(skeleton: Skeleton, *, scanlines: int) -> pd.DataFrame:
    """Return one row per plant of a forest, in px and degrees. A plant without nodes has no row.

    `scanlines` is the number of horizontal lines on which crossings are counted.
    """
    import pandas as pd

    plants, row = np.unique(skeleton.plant_of_node, return_inverse=True)
    count = len(plants)
    axes = axis_table(skeleton)
    axes = axes[axes["plant"].isin(plants)]
    axes = axes.assign(row=np.searchsorted(plants, axes["plant"]))
    primary, lateral = axes[axes["order"] == 0], axes[axes["order"] > 0]

    columns: dict[str, Any] = {"plant": plants}
    columns["total_length"] = sums(skeleton.edge_length, row[skeleton.edges[:, 0]], count)
    columns["primary_length"] = sums(primary["length"], primary["row"].to_numpy(), count)
    columns["lateral_count"] = np.bincount(lateral["row"], minlength=count)
    columns["lateral_length"] = sums(lateral["length"], lateral["row"].to_numpy(), count)
    columns["lateral_density"] = ratio(columns["lateral_count"], columns["primary_length"])
    columns |= _topology(skeleton, row, count)
    columns |= _extent(skeleton.nodes, row, count)
    columns["solidity"] = ratio(columns["total_length"], columns["convex_hull_area"])
    columns |= _thickness(skeleton, row, count)
    low = _low_confidence_length(skeleton, row, count)
    columns["low_confidence_length_fraction"] = ratio(low, columns["total_length"])
    columns |= _orders(axes, count)
    columns |= _main_axis(primary, count)
    crossings = scanline_counts(skeleton, scanlines)
    columns |= _summary("scanline_counts", crossings.ravel(), np.repeat(np.arange(count), scanlines), count)
    for group, members in (("primary", primary), ("lateral", lateral)):
        for name in SUMMARIZED:
            columns |= _summary(f"{group}_{name}", members[name], members["row"].to_numpy(), count)
    return pd.DataFrame(columns)


def scanline_counts(skeleton: Skeleton, scanlines: int = 50) -> IntArray:
    """Count the edges of each plant that cross each of several horizontal lines.

    The lines are equally spaced from the highest to the lowest node of the plant. An edge crosses the lines at and
    below its upper end and above its lower end, so that a path through a node on a line counts once. On the last
    line, the edges that end there are counted. Horizontal edges are not counted.

    Args:
        skeleton: A forest, in px.
        scanlines: The number of lines, at least 2.

    Returns:
        (plants, scanlines), with the plants in the order of the plant table.

    Raises:
        TreeformerError: If `scanlines` is not an integer of at least 2.

    Example:
        >>> scanline_counts(Skeleton([(0, 0), (0, 2), (4, 4)], [(0, 1), (1, 2)]), 3).tolist()
        [[1, 1, 1]]
    """
    if isinstance(scanlines, bool) or not isinstance(scanlines, int | np.integer) or scanlines < 2:
        raise TreeformerError(f"scanlines must be an integer of at least 2, not {scanlines!r}")
    plants, row = np.unique(skeleton.plant_of_node, return_inverse=True)
    y = skeleton.nodes[:, 1]
    top, bottom = _extremes(y, row, len(plants))
    # The vertical position of each node in units of the line distance: line k is at k.
    height = ratio(y - top[row], (bottom - top)[row]) * (scanlines - 1)
    nearest = np.rint(height)
    height = np.where(np.abs(height - nearest) < ON_LINE, nearest, height)
    upper = height[skeleton.edges].min(axis=1)
    lower = height[skeleton.edges].max(axis=1)
    crossing = np.flatnonzero(lower > upper)
    plant = row[skeleton.edges[crossing, 0]]
    first = np.ceil(upper[crossing]).astype(np.intp)
    past = np.ceil(lower[crossing]).astype(np.intp) + (lower[crossing] == scanlines - 1)
    change = np.zeros((len(plants), scanlines + 1), dtype=np.intp)
    np.add.at(change, (plant, first), 1)
    np.add.at(change, (plant, past), -1)
    return np.cumsum(change, axis=1)[:, :-1]


def _topology(skeleton: Skeleton, row: IntArray, count: int) -> dict[str, Any]:
    """Count tips, branch points and Fitter's links, the unbranched paths between roots, branch points and tips."""
    parents, degree = skeleton.parents, skeleton.degree
    is_root = parents < 0
    tips = np.flatnonzero((degree == 1) & ~is_root)
    # An edge begins a link if its upper end is a root or a branch point. The sums along the paths to the roots are
    # computed by pointer doubling: after step k, each node has the sum over 2^k edges and points to the node above.
    ends_link = is_root | (degree >= 3)
    ancestor = np.where(is_root, np.arange(len(parents)), parents)
    links = np.where(is_root, 0, ends_link[ancestor])
    while not is_root[ancestor].all():
        links = links + links[ancestor]
        ancestor = ancestor[ancestor]
    altitude = np.zeros(count, dtype=np.intp)
    np.maximum.at(altitude, row[tips], links[tips])
    return {
        "tip_count": np.bincount(row[tips], minlength=count),
        "branch_point_count": np.bincount(row[degree >= 3], minlength=count),
        "altitude": altitude,
        "external_path_length": sums(links[tips], row[tips], count).astype(np.intp),
    }


def _thickness(skeleton: Skeleton, row: IntArray, count: int) -> dict[str, Any]:
    """Return diameter (px), surface (px²) and volume (px³) of each plant; NaN if no edge has two known radii."""
    names = ("mean_diameter", "surface_area", "volume")
    if skeleton.radius is None:
        return {name: np.full(count, np.nan) for name in names}
    radius = skeleton.radius[skeleton.edges]
    known = np.isfinite(radius).all(axis=1)
    first, second = radius[known].T
    length, plant = skeleton.edge_length[known], row[skeleton.edges[known, 0]]
    surface = np.pi * (first + second) * np.hypot(length, first - second)
    volume = np.pi / 3 * length * (first**2 + first * second + second**2)
    is_unknown = np.bincount(plant, minlength=count) == 0
    totals = [np.where(is_unknown, np.nan, sums(values, plant, count)) for values in (surface, volume)]
    # The mean over an edge of twice the radius is the sum of the radii at its ends.
    mean = ratio(sums((first + second) * length, plant, count), sums(length, plant, count))
    return dict(zip(names, (mean, *totals), strict=True))


def _low_confidence_length(skeleton: Skeleton, row: IntArray, count: int) -> FloatArray:
    """Return the length of each plant in edges with a low score, (count,) px, NaN if there are no scores."""
    threshold = skeleton.metadata.get("low_confidence_threshold")
    if threshold is None:
        threshold = LOW_CONFIDENCE_THRESHOLD
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise TreeformerError(f"low_confidence_threshold in the metadata must be a number, not {threshold!r}")
    if skeleton.edge_score is None:
        return np.full(count, np.nan)
    is_low = skeleton.edge_score < threshold
    return sums(skeleton.edge_length[is_low], row[skeleton.edges[is_low, 0]], count)


def _extent(nodes: FloatArray, row: IntArray, count: int) -> dict[str, Any]:
    left, right = _extremes(nodes[:, 0], row, count)
    top, bottom = _extremes(nodes[:, 1], row, count)
    by_plant = np.split(np.argsort(row, kind="stable"), np.cumsum(np.bincount(row, minlength=count))[:-1])
    return {
        "depth": bottom - top,
        "width": right - left,
        "width_depth_ratio": ratio(right - left, bottom - top),
        "convex_hull_area": np.asarray([_hull_area(nodes[members]) for members in by_plant[:count]], dtype=np.float64),
    }


def _summary(name: str, values: ArrayLike, row: IntArray, count: int) -> dict[str, FloatArray]:
    return {f"{name}_{statistic}": column for statistic, column in nine_statistics(values, row, count).items()}


def _extremes(values: FloatArray, row: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and the highest value of each plant, (count,) each."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, row, values)
    np.maximum.at(high, row, values)
    return low, high


def _hull_area(points: FloatArray) -> float:
    """Return the area of the convex hull of points (P,2), 0 if they lie on one line."""
    from scipy.spatial import ConvexHull, QhullError

    from_corner = points - points.min(axis=0)
    size = from_corner.max()
    if len(points) < 3 or size == 0:
        return 0.0
    try:
        # Qhull tests flatness with absolute tolerances, so the points are scaled to a box of size 1 at the origin.
        return float(ConvexHull(from_corner / size).volume * size**2)
    except QhullError:
        return 0.0


def _orders(axes: pd.DataFrame, count: int) -> dict[str, Any]:
    row, order = axes["row"].to_numpy(), axes["order"].to_numpy()
    max_order = np.zeros(count, dtype=np.intp)
    np.maximum.at(max_order, row, order)
    orders = int(max_order.max(initial=0)) + 1
    cell = row * orders + order
    number = np.bincount(cell, minlength=count * orders).reshape(count, orders)
    length = sums(axes["length"], cell, count * orders).reshape(count, orders)
    columns: dict[str, Any] = {"max_order": max_order}
    columns |= {f"axis_count_order_{k}": number[:, k] for k in range(orders)}
    columns |= {f"axis_length_order_{k}": length[:, k] for k in range(orders)}
    return columns


def _main_axis(primary: pd.DataFrame, count: int) -> dict[str, Any]:
    """Return the traits of the longest axis of order 0 of each plant, the first of several equal ones."""
    longest = primary.sort_values("length", ascending=False, kind="stable").drop_duplicates("row").set_index("row")
    longest = longest.reindex(range(count))
    names = ("emergence_angle", "tip_angle", "chord_angle", "curve_index")
    return {f"main_{name}": longest[name].to_numpy() for name in names}
