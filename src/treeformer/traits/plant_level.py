"""Traits of plants: a row each, all plants of an image at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.traits.axis_level import axis_table
from treeformer.traits.lines import ratio
from treeformer.traits.statistics import nine_statistics, sums

if TYPE_CHECKING:
    import pandas as pd

# Of axes, one value each: these are summarized in nine numbers a plant.
SUMMARISED = ("length", "emergence_angle", "tip_angle", "chord_angle", "curve_index")

# How near a node must be to a scan line, in distances between two lines, to count as lying on it.
ON_LINE = 1e-9


def plant_table(skeleton: Skeleton, *, scanlines: int) -> pd.DataFrame:
    """A row a plant, in px and degrees, with `plant` in front. A plant without nodes has no row."""
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
    columns |= _orders(axes, count)
    columns |= _main_axis(primary, count)
    crossings = scanline_counts(skeleton, scanlines)
    columns |= _summary("scanline_counts", crossings.ravel(), np.repeat(np.arange(count), scanlines), count)
    for group, members in (("primary", primary), ("lateral", lateral)):
        for name in SUMMARISED:
            columns |= _summary(f"{group}_{name}", members[name], members["row"].to_numpy(), count)
    return pd.DataFrame(columns)


def scanline_counts(skeleton: Skeleton, scanlines: int = 50) -> IntArray:
    """(plants, scanlines) how many edges of each plant each horizontal line crosses; plants as in the plant table.

    The lines lie at equal distances, the first at the plant's topmost node, the last at its lowest. An
    edge counts on the lines at and below its upper end and above its lower end, so that a path through a
    node on a line counts once; on the last line the edges count that end there. Level edges count nowhere.

    >>> scanline_counts(Skeleton([(0, 0), (0, 2), (4, 4)], [(0, 1), (1, 2)]), 3).tolist()
    [[1, 1, 1]]
    """
    if isinstance(scanlines, bool) or not isinstance(scanlines, int | np.integer) or scanlines < 2:
        raise TreeformerError(f"scanlines must be a whole number from 2 on, not {scanlines!r}")
    plants, row = np.unique(skeleton.plant_of_node, return_inverse=True)
    y = skeleton.nodes[:, 1]
    top, bottom = _extremes(y, row, len(plants))
    # Each node's height in distances between lines: line k is at k.
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
    """Tips, branch points, and Fitter's links: stretches without a branch, from root or branch point to the next."""
    parents, degree = skeleton.parents, skeleton.degree
    is_base = parents < 0
    tips = np.flatnonzero((degree == 1) & ~is_base)
    # An edge begins a link where its upper end is a base or a branch point. Summing over the way up by doubling:
    # after step k each node holds the sum over 2^k edges, and points to the node above those.
    ends_link = is_base | (degree >= 3)
    up = np.where(is_base, np.arange(len(parents)), parents)
    links = np.where(is_base, 0, ends_link[up])
    while not is_base[up].all():
        links = links + links[up]
        up = up[up]
    altitude = np.zeros(count, dtype=np.intp)
    np.maximum.at(altitude, row[tips], links[tips])
    return {
        "tip_count": np.bincount(row[tips], minlength=count),
        "branch_point_count": np.bincount(row[degree >= 3], minlength=count),
        "altitude": altitude,
        "external_path_length": sums(links[tips], row[tips], count).astype(np.intp),
    }


def _extent(nodes: FloatArray, row: IntArray, count: int) -> dict[str, Any]:
    left, right = _extremes(nodes[:, 0], row, count)
    top, bottom = _extremes(nodes[:, 1], row, count)
    by_plant = np.split(np.argsort(row, kind="stable"), np.cumsum(np.bincount(row, minlength=count))[:-1])
    return {
        "depth": bottom - top,
        "width": right - left,
        "width_depth_ratio": ratio(right - left, bottom - top),
        "convex_hull_area": np.asarray(
            [_hull_area(nodes[of_plant]) for of_plant in by_plant[:count]], dtype=np.float64
        ),
    }


def _summary(name: str, values: ArrayLike, row: IntArray, count: int) -> dict[str, FloatArray]:
    return {f"{name}_{statistic}": found for statistic, found in nine_statistics(values, row, count).items()}


def _extremes(values: FloatArray, row: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    """(count,) the lowest and the highest value of each plant."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, row, values)
    np.maximum.at(high, row, values)
    return low, high


def _hull_area(points: FloatArray) -> float:
    """The area of the convex hull of (P,2) points, 0 where they lie on one line."""
    from scipy.spatial import ConvexHull, QhullError

    from_corner = points - points.min(axis=0)
    size = from_corner.max()
    if len(points) < 3 or size == 0:
        return 0.0
    try:
        # Qhull judges flatness by absolute numbers, so it gets the points in a box of size 1 at the origin.
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
    """Values of each plant's longest axis of order 0, the first of equals."""
    longest = primary.sort_values("length", ascending=False, kind="stable").drop_duplicates("row").set_index("row")
    longest = longest.reindex(range(count))
    names = ("emergence_angle", "tip_angle", "chord_angle", "curve_index")
    return {f"main_{name}": longest[name].to_numpy() for name in names}
