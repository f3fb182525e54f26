"""Traits of plants: on small skeletons, and compared with slow reference implementations."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely import MultiPoint

import treeformer
from tests.strategies import examples
from tests.traits.figures import forests, row
from treeformer import Skeleton, TreeformerError
from treeformer.traits import STATISTICS, measure
from treeformer.traits.statistics import nine_statistics


def test_comb(comb: Skeleton) -> None:
    found = row(comb)
    expected = {
        "plant": 0,
        "unit": "px",
        "total_length": 70.0,
        "primary_length": 40.0,
        "lateral_count": 3,
        "lateral_length": 30.0,
        "lateral_density": 3 / 40,
        "tip_count": 4,
        "branch_point_count": 3,
        "max_order": 1,
        "depth": 40.0,
        "width": 10.0,
        "width_depth_ratio": 0.25,
        "convex_hull_area": 300.0,  # a trapezium: 10 wide, its sides 40 and 20 high
        "solidity": 70 / 300,
        "altitude": 4,  # the tip of the main axis, and that of the last tooth
        "external_path_length": 4 + 2 + 3 + 4,
        "axis_count_order_0": 1,
        "axis_count_order_1": 3,
        "axis_length_order_0": 40.0,
        "axis_length_order_1": 30.0,
        "main_emergence_angle": 0.0,
        "main_tip_angle": 0.0,
        "main_chord_angle": 0.0,
        "main_curve_index": 0.0,
        "lateral_length_mean": 10.0,
        "lateral_emergence_angle_median": 90.0,
        "lateral_curve_index_max": 0.0,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert treeformer.measure(comb).equals(measure(comb))


def test_axes_of_several_orders(nested: Skeleton) -> None:
    found = row(nested)
    assert found["max_order"] == 2
    assert [found[f"axis_count_order_{k}"] for k in range(3)] == [1, 1, 1]
    assert [found[f"axis_length_order_{k}"] for k in range(3)] == [8.0, 6.0, 2.0]
    assert (found["lateral_count"], found["lateral_length"]) == (2, 8.0)
    assert (found["altitude"], found["external_path_length"]) == (3, 2 + 3 + 3)


def test_star_of_axes_of_order_0(star: Skeleton) -> None:
    found = row(star)
    assert (found["primary_length"], found["primary_length_max"], found["primary_length_min"]) == (18.0, 10.0, 3.0)
    assert (found["lateral_count"], found["lateral_density"], found["axis_count_order_0"]) == (0, 0.0, 3)
    assert (found["altitude"], found["external_path_length"], found["tip_count"]) == (1, 3, 3)
    assert found["main_emergence_angle"] == 0.0
    assert found["primary_emergence_angle_max"] == 90.0
    assert math.isnan(found["lateral_length_mean"])


def test_statistics_are_those_of_numpy(star: Skeleton) -> None:
    lengths = np.array([10.0, 5.0, 3.0])
    percentiles = {f"p{p}": np.percentile(lengths, p) for p in (5, 25, 75, 95)}
    expected = percentiles | {name: getattr(np, name)(lengths) for name in ("min", "max", "mean", "median", "std")}
    assert {name: row(star)[f"primary_length_{name}"] for name in STATISTICS} == pytest.approx(expected)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3) | st.just(math.nan), st.integers(0, 2)), max_size=20))
def test_statistics_of_groups_against_numpy(pairs: list[tuple[float, int]]) -> None:
    values, group = np.array([v for v, _ in pairs]), np.array([g for _, g in pairs], dtype=np.intp)
    found = nine_statistics(values, group, 3)
    assert tuple(found) == STATISTICS
    for k in range(3):
        known = values[(group == k) & ~np.isnan(values)]
        for name in STATISTICS:
            if len(known) == 0:
                assert math.isnan(found[name][k])
                continue
            by_numpy = np.percentile(known, int(name[1:])) if name[0] == "p" else getattr(np, name)(known)
            assert found[name][k] == pytest.approx(by_numpy, rel=1e-9, abs=1e-9)


def test_a_branching_tree_is_lower_than_a_herringbone_of_as_many_tips() -> None:
    fork = Skeleton.from_parents(
        [(0, 0), (0, 1), (-2, 2), (2, 2), (-3, 3), (-1, 3), (1, 3), (3, 3)], [-1, 0, 1, 1, 2, 2, 3, 3]
    )
    assert (row(fork)["altitude"], row(fork)["external_path_length"]) == (3, 4 * 3)


def test_a_root_at_a_branch_point_begins_links_but_is_not_one() -> None:
    three_arms = Skeleton([(0, 0), (0, 5), (5, 5), (-5, 5), (5, 9)], [(0, 1), (0, 2), (0, 3), (2, 4)], root=0)
    found = row(three_arms)
    assert (found["branch_point_count"], found["tip_count"]) == (1, 3)
    assert (found["altitude"], found["external_path_length"]) == (1, 3)


def test_one_row_per_plant(comb: Skeleton) -> None:
    moved = comb.nodes + np.array([100, 5])
    two = Skeleton(
        np.concatenate([moved, comb.nodes]), np.concatenate([comb.edges, comb.edges + len(comb)]), root=[0, len(comb)]
    )
    table = measure(two)
    assert table["plant"].tolist() == [0, 1]
    assert table["total_length"].tolist() == [70.0, 70.0]
    assert table.drop(columns="plant").iloc[0].equals(table.drop(columns="plant").iloc[1])
    pd.testing.assert_frame_equal(table.iloc[[0]], measure(comb))


def test_a_plant_of_several_components() -> None:
    apart = Skeleton([(0, 0), (0, 4), (9, 0), (9, 4)], [(0, 1), (2, 3)], root=[0, 2], plant=[3, 3, 3, 3])
    found = row(apart)
    assert (found["plant"], found["total_length"], found["tip_count"], found["width"]) == (3, 8.0, 2, 9.0)


def two_scored_plants(**options: Any) -> Skeleton:
    """Two plants: edges of 4, 3 and 1 px with scores 0.9, 0.15 and 0.1, and one of 5 px with the score 0.5."""
    nodes = [(0, 0), (0, 4), (3, 4), (0, 5), (50, 0), (50, 5)]
    edges = [(0, 1), (1, 2), (1, 3), (4, 5)]
    return Skeleton(nodes, edges, root=[0, 4], **({"edge_score": [0.9, 0.15, 0.1, 0.5]} | options))


def test_low_confidence_length_fraction() -> None:
    name = "low_confidence_length_fraction"
    assert measure(two_scored_plants())[name].tolist() == [1 / 8, 0.0]  # a score at the threshold is not below it
    for threshold, expected in ((0.2, [4 / 8, 0.0]), (0.6, [4 / 8, 1.0]), (1, [1.0, 1.0]), (0, [0.0, 0.0])):
        metadata = {"low_confidence_threshold": threshold}
        assert measure(two_scored_plants(metadata=metadata))[name].tolist() == expected
    assert measure(two_scored_plants(metadata={"low_confidence_threshold": None}))[name].tolist() == [1 / 8, 0.0]
    assert measure(two_scored_plants(), px_per_mm=2)[name].tolist() == [1 / 8, 0.0]
    assert measure(two_scored_plants(edge_score=None, node_score=[0.1] * 6))[name].isna().all()
    assert math.isnan(row(Skeleton([(1, 1)], [], edge_score=[]))[name])
    for wrong in ("0.2", True, math.nan):
        with pytest.raises(TreeformerError, match="low_confidence_threshold in the metadata must be a number"):
            measure(two_scored_plants(metadata={"low_confidence_threshold": wrong}))


def test_mean_diameter_weights_edges_by_length() -> None:
    radius = [2, 1, 0, math.nan, 3, math.nan]
    found = measure(two_scored_plants(radius=radius))["mean_diameter"]
    assert found[0] == pytest.approx((4 * 3 + 3 * 1) / 7)  # the edge with an unknown radius does not count
    assert math.isnan(found[1])
    assert measure(two_scored_plants(radius=radius), px_per_mm=2)["mean_diameter"][0] == pytest.approx(15 / 14)
    assert measure(two_scored_plants())["mean_diameter"].isna().all()


def test_surface_and_volume_are_those_of_truncated_cones() -> None:
    """Cut each edge into thin cylinders. The surface of a cone is steeper than that of its cylinders."""
    radius = [2, 1, 0, math.nan, 3, math.nan]
    found = measure(two_scored_plants(radius=radius))
    surface = volume = 0.0
    for length, first, second in ((4, 2, 1), (3, 1, 0)):
        thin = [first + (second - first) * (k + 0.5) / 5000 for k in range(5000)]
        slope = math.hypot(length, second - first) / length
        surface += sum(2 * math.pi * r * slope * length / 5000 for r in thin)
        volume += sum(math.pi * r**2 * length / 5000 for r in thin)
    assert found["surface_area"][0] == pytest.approx(surface)
    assert found["volume"][0] == pytest.approx(volume, rel=1e-6)
    in_mm = measure(two_scored_plants(radius=radius), px_per_mm=2)
    assert in_mm["surface_area"][0] == pytest.approx(surface / 4)
    assert in_mm["volume"][0] == pytest.approx(volume / 8, rel=1e-6)
    for name in ("surface_area", "volume"):
        assert math.isnan(found[name][1])
        assert measure(two_scored_plants())[name].isna().all()


def slow_plant(skeleton: Skeleton) -> dict[str, float]:
    """Measure one rooted plant with NetworkX, shapely and plain loops."""
    graph = skeleton.to_networkx()
    root = int(skeleton.component_root[0])
    tips = [n for n in graph if graph.degree(n) == 1 and n != root]
    links = []
    for tip in tips:
        path = nx.shortest_path(graph, tip, root)
        links.append(1 + sum(graph.degree(n) >= 3 for n in path[1:-1]))
    x, y = skeleton.nodes[:, 0], skeleton.nodes[:, 1]
    axis_length = [
        sum(math.dist(skeleton.nodes[u], skeleton.nodes[v]) for u, v in pairwise(a.nodes)) for a in skeleton.axes
    ]
    return {
        "total_length": sum(length for _, _, length in graph.edges(data="length")),
        "primary_length": sum(c for c, order in zip(axis_length, skeleton.axis_order, strict=True) if order == 0),
        "lateral_length": sum(c for c, order in zip(axis_length, skeleton.axis_order, strict=True) if order > 0),
        "lateral_count": sum(order > 0 for order in skeleton.axis_order),
        "max_order": max(skeleton.axis_order, default=0),
        "tip_count": len(tips),
        "branch_point_count": sum(graph.degree(n) >= 3 for n in graph),
        "altitude": max(links, default=0),
        "external_path_length": sum(links),
        "depth": max(y) - min(y),
        "width": max(x) - min(x),
        "convex_hull_area": MultiPoint(skeleton.nodes).convex_hull.area,
    }


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(30))
@given(forests)
def test_plants_against_slow_reference(forest: Skeleton) -> None:
    table = measure(forest)
    assert len(table) == len(forest.plants)
    for found, plant in zip(table.to_dict("records"), forest.plants, strict=True):
        expected = slow_plant(plant)
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-9)
