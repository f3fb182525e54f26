"""Node, edge and tree metrics against brute force, and on graphs small enough to count by hand."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import forests, graphs
from treeformer import Skeleton, SkeletonError
from treeformer.errors import TreeformerError
from treeformer.metrics import differences, evaluate_pair, match_nodes, mean_metrics, structure, summarize

SIZE = (512, 512)
points = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=5)


@given(points, points, st.floats(0.5, 9))
def test_matching_agrees_with_brute_force(first, second, radius):
    """Try every injection of the smaller set into the larger."""
    a, b = (np.asarray(p, dtype=float).reshape(-1, 2) for p in (first, second))
    partner = match_nodes(a, b, radius)
    matched = partner[partner >= 0]
    assert len(set(matched.tolist())) == len(matched)
    distances = [math.dist(a[i], b[j]) for i, j in enumerate(partner.tolist()) if j >= 0]
    assert all(d <= radius for d in distances)
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    best = (0, 0.0)
    for chosen in itertools.permutations(range(len(large)), len(small)):
        inside = [d for k, j in enumerate(chosen) if (d := math.dist(small[k], large[j])) <= radius]
        for count in range(len(inside) + 1):
            best = max(best, *((len(subset), -sum(subset)) for subset in itertools.combinations(inside, count)))
    assert len(distances) == best[0]
    assert sum(distances) == pytest.approx(-best[1], abs=1e-9)


def test_counts_by_hand(comb):
    big = comb.transform([[10, 0, 0], [0, 10, 0]], image_size=SIZE)
    # One tooth is missing, the tip of another is off by 30 px, and an edge of the main axis skips a node.
    nodes = np.delete(big.nodes, 7, axis=0)
    nodes[5] += (30, 0)
    found = Skeleton(nodes, [(0, 1), (1, 3), (3, 4), (1, 5), (2, 6)], image_size=SIZE)
    result = structure(found, big)
    assert (result.nodes.precision, result.nodes.recall) == (6 / 7, 6 / 8)
    assert (result.edges.precision, result.edges.recall) == (3 / 5, 3 / 7)
    assert (result.tree, result.tree_of_edges, result.forest, result.exact) == (False, False, True, False)
    assert result.length_error == pytest.approx((100 + 200 + 100 + 130 + 100) / 700 - 1)


def test_the_two_tree_rates_differ_in_isolated_nodes(y_shape):
    with_isolated = Skeleton([*y_shape.nodes, (9, 9)], y_shape.edges, image_size=y_shape.image_size)
    result = structure(with_isolated, y_shape)
    assert (result.tree, result.tree_of_edges) == (False, True)


@given(graphs())
def test_tree_rates_agree_with_networkx(skeleton):
    result = structure(skeleton, skeleton, image_size=SIZE)
    graph = skeleton.to_networkx()
    assert result.tree == nx.is_tree(graph)
    graph.remove_nodes_from(list(nx.isolates(graph)))
    assert result.tree_of_edges == (len(graph) > 0 and nx.is_tree(graph))


@pytest.mark.slow
@given(forests())
def test_a_renumbered_graph_is_exact(skeleton):
    order = np.random.default_rng(0).permutation(len(skeleton))
    place = np.argsort(order)
    shuffled = Skeleton(skeleton.nodes[order], place[skeleton.edges][::-1, ::-1])
    result = structure(*arrays(shuffled, skeleton), radius_px=1e-6, image_size=SIZE)
    distinct = len(np.unique(skeleton.nodes, axis=0)) == len(skeleton)
    assert result.nodes.f1 == 1.0
    assert result.exact or not distinct  # coincident nodes may be matched crosswise


@pytest.mark.slow
@given(forests(), forests())
def test_swapping_swaps_precision_and_recall(first, second):
    forth, back = (structure(*order, image_size=SIZE) for order in (arrays(first, second), arrays(second, first)))
    assert (forth.nodes.precision, forth.nodes.recall) == (back.nodes.recall, back.nodes.precision)
    assert (forth.keypoints.precision, forth.keypoints.recall) == (back.keypoints.recall, back.keypoints.precision)


def arrays(*skeletons):
    return [(skeleton.nodes, skeleton.edges) for skeleton in skeletons]


def test_empty_graphs(y_shape):
    empty = Skeleton([], [], image_size=y_shape.image_size)
    assert structure(empty, empty).nodes.f1 == structure(empty, empty).edges.f1 == 1.0
    for pair in ((empty, y_shape), (y_shape, empty)):
        assert structure(*pair).nodes.f1 == structure(*pair).edges.f1 == 0.0
    assert math.isnan(structure(y_shape, empty).length_error)
    with pytest.raises(SkeletonError, match="image size"):
        structure(([(0, 0)], []), ([(0, 0)], []))
    with pytest.raises(SkeletonError, match="radius_px"):
        structure(empty, empty, radius_px=-1)


@pytest.mark.slow
def test_thousands_of_nodes():
    rng = np.random.default_rng(1)
    nodes = rng.uniform(0, 2000, (5000, 2))
    edges = [(k, k + 1) for k in range(4999)]
    moved = np.clip(nodes + rng.normal(size=nodes.shape), 0, 2000)
    assert structure((moved, edges), (nodes, edges), radius_px=5, image_size=(2000, 2000)).nodes.f1 > 0.99


# ---- tables --------------------------------------------------------------------------------------


def test_f1_over_a_set_is_computed_from_the_means():
    rows = [
        {"node_precision": 1.0, "node_recall": 0.0, "node_f1": 0.0, "length_error": math.nan},
        {"node_precision": 0.0, "node_recall": 1.0, "node_f1": 0.0, "length_error": 0.25},
    ]
    summary = summarize(rows)
    assert summary["node_f1"].value == 0.5
    assert summary["length_error"].value == 0.25
    assert mean_metrics(rows) == {name: estimate.value for name, estimate in summary.items()}
    with pytest.raises(TreeformerError, match="no images"):
        mean_metrics([])


def test_f1_is_unknown_if_precision_or_recall_is():
    scores = {"topo_f1": 0.5, "topo_precision": 1.0, "topo_recall": 0.5}
    unknown = scores | {"topo_precision": float("nan")}
    assert np.isnan(summarize([unknown])["topo_f1"].value)
    assert np.isnan(mean_metrics([unknown])["topo_f1"])
    estimate = summarize([scores, unknown])["topo_f1"]  # samples without the first image are left out
    assert (estimate.low, estimate.value, estimate.high) == (2 / 3, 2 / 3, 2 / 3)


def test_f1_without_precision_and_recall_is_a_mean():
    assert summarize([{"topo_f1": 0.5}, {"topo_f1": 1.0}])["topo_f1"].value == 0.75
    assert mean_metrics([{"topo_f1": 0.5, "topo_recall": 0.1}]) == {"topo_f1": 0.5, "topo_recall": 0.1}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"smd": 1.0, "topo_f1": 0.5}, {"smd": 1.0}], "row 1 has no 'topo_f1'"),
        ([{"smd": 1.0}, {"smd": 1.0}, {"smd": 1.0, "topo_f1": 0.5}], "row 0 has no 'topo_f1'"),
        ([{"smd": 1.0, "image": "a.png"}], "row 0: image must be a number, not 'a.png'"),  # records of images.csv
        ({"smd": 1.0}, "rows must be a list with one dictionary of numbers"),
        (iter([{"smd": 1.0}]), "rows must be a list with one dictionary of numbers"),
        (["smd"], "rows must be a list with one dictionary of numbers"),
    ],
)
def test_rows_that_cannot_be_summarized_are_one_line(rows, message):
    for function in (summarize, mean_metrics):
        with pytest.raises(TreeformerError, match=message):
            function(rows)
    with pytest.raises(TreeformerError, match=message):
        differences(rows, rows)


def test_rows_of_a_stored_report_have_none_for_nan():
    rows = [{"length_error": None}, {"length_error": 0.5}]
    assert summarize(rows)["length_error"].value == 0.5


def test_the_interval_agrees_with_a_plain_bootstrap():
    rng = np.random.default_rng(5)
    values = rng.normal(3, 1, 60)
    estimate = summarize([{"smd": float(v)} for v in values])["smd"]
    bootstrap = [rng.choice(values, 60).mean() for _ in range(4000)]
    assert estimate.value == pytest.approx(values.mean())
    assert (estimate.low, estimate.high) == pytest.approx(np.quantile(bootstrap, (0.025, 0.975)), abs=0.05)
    assert summarize([{"smd": float(v)} for v in values])["smd"] == estimate  # seeded


def test_differences_are_resampled_image_by_image():
    rng = np.random.default_rng(6)
    difficulty = rng.uniform(0.2, 0.8, 60)
    ours, theirs = (
        [{"topo_precision": p, "topo_recall": p, "topo_f1": 0.0} for p in difficulty + rng.normal(gain, 0.02, 60)]
        for gain in (0.01, 0.0)
    )
    found = differences(ours, theirs)["topo_f1"]
    gains = np.array([a["topo_precision"] - b["topo_precision"] for a, b in zip(ours, theirs, strict=True)])
    bootstrap = [rng.choice(gains, 60).mean() for _ in range(4000)]
    assert found.value == pytest.approx(gains.mean())
    assert (found.low, found.high) == pytest.approx(np.quantile(bootstrap, (0.025, 0.975)), abs=0.001)
    back = differences(theirs, ours)["topo_f1"]
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))
    alone = summarize(ours)["topo_f1"]
    assert alone.high - alone.low > 5 * (found.high - found.low)
    with pytest.raises(TreeformerError, match="60 images cannot be compared with 59"):
        differences(ours, theirs[1:])


def test_all_metrics_of_a_perfect_prediction(comb):
    row = evaluate_pair(comb, comb)
    assert all(value == 1.0 for name, value in row.items() if name.endswith(("_f1", "_rate")) and "paper" not in name)
    assert row["smd"] == row["length_error"] == 0.0
