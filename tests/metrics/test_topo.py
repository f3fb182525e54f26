"""The corrected TOPO score against a reference implementation, and its properties."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from tests.metrics.test_smd import curves_of, length_of, point_at
from tests.metrics.trees import SIZE, faulty_pairs, jittered, random_tree, renumbered, subdivided, without_subtree
from tests.strategies import examples, graphs
from treeformer import Skeleton, SkeletonError
from treeformer.metrics import Scores, topo

STEP, SPACING, RADIUS, REACH = 5.55555, 55.5555, 11.1111, 166.6665

# ---- reference implementation ----------------------------------------------------------------------


def direction_at(curve, distance):
    end = point_at(curve, min(distance + RADIUS, length_of(curve)))
    return unit(end - point_at(curve, max(distance - RADIUS, 0.0)))


def unit(vector):
    return vector / np.hypot(*vector)


def path_lengths(graph: Skeleton, places, start) -> list[float]:
    """Return the path length from a start to each place; both are (curve, distance along it)."""
    network = nx.Graph()
    curves = curves_of(graph)
    for number, curve in enumerate(curves):
        stops = [(0.0, tuple(curve[0])), (length_of(curve), tuple(curve[-1]))]
        stops += [(d, ("place", k)) for k, (on, d) in enumerate(places) if on == number]
        stops += [(start[1], "start")] if start[0] == number else []
        stops.sort(key=lambda stop: stop[0])
        for (a, node), (b, next_node) in itertools.pairwise(stops):
            network.add_edge(node, next_node, length=b - a)
    found = nx.single_source_dijkstra_path_length(network, "start", weight="length")
    return [found.get(("place", k), math.inf) for k in range(len(places))]


def nearest_place(point, direction, curves):
    best = (RADIUS, None)
    for number, curve in enumerate(curves):
        before_segment = 0.0
        for a, b in itertools.pairwise(curve):
            t = min(max(float((point - a) @ (b - a) / ((b - a) @ (b - a))), 0.0), 1.0)
            away = math.dist(point, a + t * (b - a))
            at = before_segment + t * math.dist(a, b)
            if away < best[0] and 1 - abs(direction @ direction_at(curve, at)) < 0.04:
                best = (away, (number, at))
            before_segment += math.dist(a, b)
    return best[1]


def covered(graph: Skeleton, other: Skeleton) -> float:
    """Return the fraction of the walks on `graph` that the walks on `other` cover."""
    sides = []
    for side in (graph, other):
        curves = curves_of(side)
        places, weights = [], []
        for number, curve in enumerate(curves):
            count = max(math.floor(length_of(curve) / STEP + 0.5), 1)
            places += [(number, (k + 0.5) * length_of(curve) / count) for k in range(count)]
            weights += [length_of(curve) / count] * count
        points = [point_at(curves[n], d) for n, d in places]
        sides.append((curves, places, weights, points, [direction_at(curves[n], d) for n, d in places]))
    curves, places, weights, points, directions = sides[0]
    other_curves, other_places, other_weights, other_points, other_directions = sides[1]
    fractions = []
    for number, curve in enumerate(curves):
        count = max(int(length_of(curve) / SPACING), 1)
        for k in range(count):
            at = (k + 1) / (count + 1) * length_of(curve)
            partner = nearest_place(point_at(curve, at), direction_at(curve, at), other_curves)
            if partner is None:
                fractions.append(0.0)
                continue
            reached = [p <= REACH for p in path_lengths(graph, places, (number, at))]
            other_reached = [p <= REACH for p in path_lengths(other, other_places, partner)]
            near = [
                (i, j)
                for i, j in itertools.product(np.flatnonzero(reached), np.flatnonzero(other_reached))
                if math.dist(points[i], other_points[j]) <= RADIUS
                and 1 - abs(directions[i] @ other_directions[j]) < 0.29
            ]
            length, other_length = (
                sum(weights[i] for i in {i for i, _ in near}),
                sum(other_weights[j] for j in {j for _, j in near}),
            )
            fractions.append(min(length, other_length) / sum(itertools.compress(weights, reached)))
    return float(np.mean(fractions))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_reference(seed):
    for prediction, ground_truth in faulty_pairs(10, seed):
        scores = topo(prediction, ground_truth)
        assert scores.precision == pytest.approx(covered(prediction, ground_truth), abs=1e-9)
        assert scores.recall == pytest.approx(covered(ground_truth, prediction), abs=1e-9)


# ---- properties ------------------------------------------------------------------------------------


def bare(graph: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    return graph.nodes, graph.edges


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(graphs())
def test_identical_graphs_score_one(graph):
    """This includes curves that cross, coincide or have no length."""
    scores = topo(bare(graph), bare(graph), image_size=SIZE)
    assert (scores.precision, scores.recall) == (1.0, 1.0)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(graphs(), graphs())
def test_exchange_and_numbering(first, second):
    forth, back = (topo(bare(a), bare(b), image_size=SIZE) for a, b in ((first, second), (second, first)))
    assert (forth.precision, forth.recall) == (back.recall, back.precision)
    if len(np.unique(first.nodes, axis=0)) == len(first):
        assert topo(bare(renumbered(first, 3)), bare(second), image_size=SIZE) == forth


@pytest.mark.parametrize("seed", range(4))
def test_invariance(seed):
    prediction, ground_truth = faulty_pairs(30, seed)[4]
    reference = topo(prediction, ground_truth)
    for affine, size in (
        ([[1, 0, 7.3], [0, 1, -2.9]], SIZE),
        ([[3, 0, 0], [0, 3, 0]], (1536, 1536)),
        ([[0, -1, 512], [1, 0, 0]], SIZE),
    ):
        moved = topo(*(graph.transform(affine, image_size=size) for graph in (prediction, ground_truth)))
        assert (moved.precision, moved.recall) == pytest.approx((reference.precision, reference.recall), abs=1e-9)
    finer = topo(subdivided(prediction), subdivided(ground_truth))
    assert (finer.precision, finer.recall) == pytest.approx((reference.precision, reference.recall), abs=1e-9)


@pytest.mark.slow
def test_it_falls_with_jitter():
    trees = [random_tree(40, seed) for seed in range(4)]
    means = [
        np.mean([topo(jittered(tree, sigma, seed), tree).f1 for tree in trees for seed in range(3)])
        for sigma in (0, 0.5, 1, 2, 4, 8, 16)
    ]
    assert means[0] == 1.0
    assert (np.diff(means) < 0).all()


def test_missing_branches_cost_recall_and_spurious_ones_precision():
    tree = random_tree(60, 1)
    cut = without_subtree(tree, 30)
    missing, spurious = topo(cut, tree), topo(tree, cut)
    assert missing.precision > 0.98
    assert missing.recall < 0.95
    assert (spurious.precision, spurious.recall) == (missing.recall, missing.precision)


def test_curves_are_compared_not_chords():
    """An arc and a straight line have the same keypoints but different curves."""
    bend = np.stack([np.linspace(100, 400, 31), 256 + 80 * np.sin(np.linspace(0, np.pi, 31))], axis=1)
    edges = [(k, k + 1) for k in range(30)]
    arc, straight = Skeleton(bend, edges, image_size=SIZE), Skeleton(bend[[0, -1]], [(0, 1)], image_size=SIZE)
    assert topo(arc, straight).f1 < 0.3


def test_cutting_a_curve_into_branches_does_not_matter():
    """A twig every 17 px cuts the axis into branches whose length is not a multiple of the step."""
    axis = [(40 + 17 * k, 256) for k in range(26)]
    twigs = [(x, 259) for x, _ in axis[1:-1]]
    edges = [(k, k + 1) for k in range(25)]
    with_twigs = Skeleton(axis + twigs, edges + [(k + 1, 26 + k) for k in range(24)], image_size=SIZE)
    without = Skeleton(axis, edges, image_size=SIZE)
    assert topo(without, with_twigs).precision > 0.97


def test_branch_points_at_one_place_are_one_place():
    crossing = [(100, 100), (200, 100), (300, 100), (200, 200), (200, 0)], [(0, 1), (1, 2), (1, 3), (1, 4)]
    two_points = [*crossing[0], (200, 100)], [(0, 1), (1, 5), (5, 2), (1, 3), (5, 4)]
    assert topo(two_points, crossing, image_size=(512, 512)) == Scores(1.0, 1.0)
    assert topo(crossing, two_points, image_size=(512, 512)) == Scores(1.0, 1.0)


def test_one_branch_does_not_cover_two():
    two = Skeleton([(50, 250), (150, 250), (50, 256), (150, 256)], [(0, 1), (2, 3)], image_size=SIZE)
    one = Skeleton([(50, 253), (150, 253)], [(0, 1)], image_size=SIZE)
    assert topo(one, two).recall == topo(one, two).precision == 1.0  # each walk is on a single branch
    joined = Skeleton([*two.nodes, (40, 253)], [*two.edges, (4, 0), (4, 2)], image_size=SIZE)
    assert topo(one, joined).recall < 0.6


def test_the_unit_is_an_argument():
    prediction, ground_truth = faulty_pairs(30, 2)[1]
    assert topo(prediction, ground_truth, unit_px=1.0) == topo(prediction, ground_truth)  # 512 px are 512 units
    assert topo(prediction, ground_truth, unit_px=3.0).f1 > topo(prediction, ground_truth).f1
    with pytest.raises(SkeletonError, match="unit_px must be a positive number"):
        topo(prediction, ground_truth, unit_px=0)


@pytest.mark.parametrize("small", [([], []), ([(5, 5)], []), ([(5, 5), (9, 9)], []), ([(5, 5), (5, 5)], [(0, 1)])])
def test_a_graph_without_length(small):
    line = ([(0, 0), (400, 0)], [(0, 1)])
    for pair in ((small, line), (line, small)):
        assert topo(*pair, image_size=SIZE).f1 == 0.0
    assert topo(small, small, image_size=SIZE).f1 == 1.0


@pytest.mark.slow
def test_two_thousand_nodes():
    tree = random_tree(2000, 1, size=(2500, 2500))
    scores = topo(jittered(tree, 4), tree)
    assert scores.f1 > 0.9
