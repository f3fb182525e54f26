"""Traits of degenerate skeletons: 0 or NaN as documented, without warnings or errors."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from tests.traits.figures import row
from treeformer import Axis, Skeleton, SkeletonError
from treeformer.traits import measure
from treeformer.traits.lines import ratio

LEVELS = ("plant", "axis", "segment")


@pytest.mark.parametrize("level", LEVELS)
def test_an_empty_skeleton_has_every_column_and_no_row(level: Any, nested: Skeleton) -> None:
    empty = measure(Skeleton([], []), level=level)
    assert len(empty) == 0
    assert set(measure(nested, level=level)) - set(empty) <= {
        f"axis_{w}_order_{k}" for w in ("count", "length") for k in (1, 2)
    }


def test_a_plant_of_one_node() -> None:
    found = row(Skeleton([(4, 7)], []))
    for name in ("total_length", "primary_length", "lateral_count", "tip_count", "max_order", "depth", "width"):
        assert found[name] == 0, name
    for name in ("convex_hull_area", "altitude", "external_path_length", "scanline_counts_max", "axis_count_order_0"):
        assert found[name] == 0, name
    for name in ("width_depth_ratio", "solidity", "lateral_density", "main_chord_angle", "primary_length_mean"):
        assert math.isnan(found[name]), name
    assert len(measure(Skeleton([(4, 7)], []), level="axis")) == 0
    assert len(measure(Skeleton([(4, 7)], []), level="segment")) == 0


def test_an_axis_without_length() -> None:
    point = Skeleton([(1, 1), (1, 1)], [(0, 1)], root=0)
    (axis,) = measure(point, level="axis").to_dict("records")
    assert (axis["length"], axis["chord_length"]) == (0.0, 0.0)
    for name in ("emergence_angle", "tip_angle", "chord_angle", "curve_index", "tortuosity"):
        assert math.isnan(axis[name]), name
    assert (row(point)["tip_count"], row(point)["altitude"]) == (1, 1)
    assert math.isnan(row(point)["lateral_density"])


def test_an_axis_that_returns_to_its_base() -> None:
    loop = Skeleton([(0, 0), (3, 0), (0, 0)], [(0, 1), (1, 2)], root=0)
    (axis,) = measure(loop, level="axis").to_dict("records")
    assert (axis["length"], axis["curve_index"]) == (6.0, 1.0)
    assert math.isnan(axis["tortuosity"])
    assert math.isnan(axis["chord_angle"])


def test_explicit_axes_without_points() -> None:
    axes = [Axis(nodes=(0, 1)), Axis(nodes=(), parent=0), Axis(nodes=(1,), parent=0), Axis(nodes=(), plant=5)]
    skeleton = Skeleton([(0, 0), (0, 6)], [(0, 1)], root=0, axes=axes, edge_axis=[0])
    table = measure(skeleton, level="axis")
    assert table["length"].tolist() == [6.0, 0.0, 0.0, 0.0]
    assert table["branching_angle"].isna().all()
    assert (row(skeleton)["lateral_count"], row(skeleton)["axis_count_order_0"]) == (2, 1)


def test_nodes_on_one_line_have_no_hull() -> None:
    slanted = Skeleton([(0.1 * k, 0.3 * k) for k in range(20)], [(k, k + 1) for k in range(19)], root=0)
    assert row(slanted)["convex_hull_area"] == pytest.approx(0.0, abs=1e-12)
    level = Skeleton([(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 2)], root=0)
    assert row(level)["convex_hull_area"] == 0.0
    assert math.isnan(row(level)["solidity"])
    assert math.isnan(row(level)["width_depth_ratio"])


@pytest.mark.parametrize("level", LEVELS)
def test_a_cycle_is_an_error(ring: Skeleton, level: Any) -> None:
    with pytest.raises(SkeletonError, match="node 0 lies on a cycle"):
        measure(ring, level=level)


def test_a_ratio_to_a_tiny_extent_is_infinite_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ratio(np.array([10.0, 1.0, 6.0]), np.array([1e-310, 0.0, 2.0]))
    assert found[0] == np.inf
    assert np.isnan(found[1])
    assert found[2] == 3.0
