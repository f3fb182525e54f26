"""Finite scores, without warnings, for skeletons far outside their image or in the wrong unit."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from tests.metrics.trees import SIZE, random_tree
from treeformer import Skeleton
from treeformer.metrics import (
    evaluate_pair,
    match_nodes,
    street_mover_distance,
    street_mover_distance_paper,
    structure,
    topo,
    topo_paper,
)
from treeformer.metrics._curves import Curves

TREE = random_tree(30, 1)


def with_node_at(x: float, y: float) -> Skeleton:
    nodes = TREE.nodes.copy()
    nodes[7] = (x, y)
    return TREE.replace(nodes=nodes)


ODD = {
    "right": with_node_at(10_000, 100),
    "very far": with_node_at(1e7, -1e7),
    "scale 20": TREE.replace(nodes=20 * TREE.nodes),
    "mirrored": TREE.replace(nodes=-300 * TREE.nodes),
    "tiny": TREE.replace(nodes=1e-9 * TREE.nodes),
    "almost nothing": TREE.replace(nodes=1e-300 * TREE.nodes),
    "short branch": Skeleton([(-100, 0), (-50, 0), (0, 0), (0, 1e-20)], [(0, 1), (2, 3)], image_size=SIZE),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_every_metric_is_finite_and_without_warnings(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for prediction, ground_truth in ((ODD[name], TREE), (TREE, ODD[name])):
            row = evaluate_pair(prediction, ground_truth)
            # Nothing may be near, or a graph may have no length within the limit: distances of lines are then NaN.
            assert all(math.isfinite(value) or "_line_" in name for name, value in row.items())
            assert all(math.isnan(value) or value <= 3 * max(SIZE) for name, value in row.items() if "_line_" in name)
            assert 0 < row["smd"] <= 18
            assert 0 < row["smd_paper"] <= 18
            assert row["length_error"] <= 1e6
        row = evaluate_pair(ODD[name], ODD[name])
        assert row["smd"] == 0.0
        assert row["smd_paper"] < 1e-6
        assert row["topo_f1"] == row["node_f1"] == row["exact_rate"] == 1.0


def test_a_farther_node_is_not_worse_than_one_at_the_limit():
    limit, far = with_node_at(2 * SIZE[0], -SIZE[1]), with_node_at(1e7, -1e7)
    for metric in (street_mover_distance, street_mover_distance_paper, topo, topo_paper):
        assert metric(limit, TREE) == metric(far, TREE)
    assert street_mover_distance(limit, TREE) > street_mover_distance(with_node_at(2 * SIZE[0] - 9, 0), TREE)


def test_the_limit_is_one_width_and_one_height():
    """A node within the limit keeps its place, also beside a narrow image."""
    line = Skeleton([(5, 10), (5, 90)], [(0, 1)], image_size=(10, 100))
    for x, expected in ((19.0, 14.0), (20.0, 15.0), (99.0, 15.0), (-10.0, -15.0), (-99.0, -15.0)):
        moved = line.replace(nodes=[(x, 10), (x, 90)])
        assert street_mover_distance(moved, line) == pytest.approx((expected / 100) ** 2)


def test_graphs_at_the_wrong_scale_have_nothing_in_common():
    scores = structure(ODD["scale 20"], TREE)
    assert scores.nodes.f1 == 0.0
    assert scores.length_error == pytest.approx(19.0)
    assert topo(ODD["scale 20"], TREE).f1 == topo_paper(ODD["scale 20"], TREE).f1 == 0.0


def test_nodes_are_matched_at_any_distance():
    points = np.array([[1e308, -1e308], [0.0, 3.0]])
    assert match_nodes(points, points[::-1], 8.0).tolist() == [1, 0]
    assert match_nodes(points[:1], points[1:], 1e308).tolist() == [0]


def test_a_branch_shorter_than_the_rounding_error_is_omitted():
    curves = Curves.from_graph(ODD["short branch"].nodes, ODD["short branch"].edges)
    assert len(curves) == 1
    assert (curves.length > 0).all()
