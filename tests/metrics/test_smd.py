"""Both street mover's distances against reference implementations, and their invariances."""

from __future__ import annotations

import itertools
import math

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from tests.metrics.trees import SIZE, faulty_pairs, jittered, random_tree, renumbered, subdivided, without_subtree
from tests.strategies import examples, graphs
from treeformer import Skeleton
from treeformer.metrics import street_mover_distance, street_mover_distance_paper

# ---- reference implementations ---------------------------------------------------------------------


def curves_of(graph: Skeleton) -> list[np.ndarray]:
    """Return the branches between nodes of degree ≠ 2, as arrays of points."""
    neighbors: dict[int, list[int]] = {}
    for u, v in graph.edges.tolist():
        neighbors.setdefault(u, []).append(v)
        neighbors.setdefault(v, []).append(u)
    curves, visited = [], set()
    for start in (n for n in neighbors if len(neighbors[n]) != 2):
        for first in neighbors[start]:
            if (start, first) in visited:
                continue
            line = [start, first]
            while len(neighbors[line[-1]]) == 2:
                line.append(next(n for n in neighbors[line[-1]] if n != line[-2]))
            visited |= {(line[0], line[1]), (line[-1], line[-2])}
            curves.append(graph.nodes[line])
    return curves


def length_of(curve: np.ndarray) -> float:
    return float(sum(math.dist(a, b) for a, b in itertools.pairwise(curve)))


def point_at(curve: np.ndarray, distance: float) -> np.ndarray:
    for a, b in itertools.pairwise(curve):
        step = math.dist(a, b)
        if distance <= step:
            return a + (b - a) * distance / step
        distance -= step
    return curve[-1]


def finely_cut(graph: Skeleton, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut the graph into parts of nearly equal length. Return their centers and their fractions of the total length."""
    curves = curves_of(graph)
    total = sum(map(length_of, curves))
    points, weights = [], []
    for curve in curves:
        count = math.ceil(length_of(curve) / total * parts)
        points += [point_at(curve, (k + 0.5) / count * length_of(curve)) for k in range(count)]
        weights += [length_of(curve) / total / count] * count
    return np.asarray(points), np.asarray(weights) / sum(weights)


def transport_cost(prediction: Skeleton, ground_truth: Skeleton, parts: int) -> float:
    """Compute the transport cost by the network simplex of POT, for many parts with exact weights."""
    a, wa = finely_cut(prediction, parts)
    b, wb = finely_cut(ground_truth, parts)
    side = max(ground_truth.image_size)
    return float(ot.emd2(wa, wb, cdist(a / side, b / side, "sqeuclidean"), numItermax=1_000_000))


def paper_reference(prediction: Skeleton, ground_truth: Skeleton) -> float:
    """Sample edge by edge with a running phase, then run a plain Sinkhorn iteration."""

    def points(graph: Skeleton) -> np.ndarray:
        nodes = graph.nodes / graph.image_size
        edges = sorted((tuple(sorted(e)) for e in graph.edges.tolist()), key=lambda e: (e[1], e[0]))
        total = sum(math.dist(nodes[u], nodes[v]) for u, v in edges)
        step, found, next_at = total / (499 + 0.01), [], 0.0
        for u, v in edges:
            length = math.dist(nodes[u], nodes[v])
            while next_at <= length and len(found) < 500:
                found.append(nodes[u] + (nodes[v] - nodes[u]) * next_at / length)
                next_at += step
            next_at -= length
        return np.asarray(found + [nodes[-1]] * (500 - len(found)), dtype=np.float32)

    y, x = points(ground_truth), points(prediction)
    cost = np.sum((y[:, None] - x) ** 2, axis=-1)
    epsilon, weight = np.float32(1e-7), np.log(np.float32(1 / 500 + 1e-8))
    u = v = np.zeros(500, dtype=np.float32)
    for _ in range(100):
        previous = u
        u = epsilon * (weight - logsumexp((-cost + u[:, None] + v) / epsilon, axis=1)) + u
        v = epsilon * (weight - logsumexp((-cost + u[:, None] + v) / epsilon, axis=0)) + v
        if np.abs(u - previous).sum() < 0.1:
            break
    return float((np.exp((-cost + u[:, None] + v) / epsilon) * cost).sum())


def moved(graph: Skeleton, offset: tuple[float, float]) -> Skeleton:
    return graph.replace(nodes=graph.nodes + np.asarray(offset))


# ---- the exact distance ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_transport_cost(seed):
    """400 points represent the whole length: their error is about the square of their spacing."""
    for prediction, ground_truth in faulty_pairs(40, seed):
        spacing = ground_truth.length / max(SIZE) / 400
        expected = transport_cost(prediction, ground_truth, 900)
        assert street_mover_distance(prediction, ground_truth) == pytest.approx(
            expected, rel=0.02, abs=1.5 * spacing**2
        )


def test_a_moved_line_costs_the_squared_displacement():
    line = Skeleton([(10, 10), (90, 10), (90, 60)], [(0, 1), (1, 2)], image_size=(100, 80))
    assert street_mover_distance(moved(line, (3, 4)), line) == pytest.approx((5 / 100) ** 2, rel=1e-9)


def test_units_are_the_same_along_both_axes():
    """Per-axis units would make a step along the short side of an image count more."""
    wide = Skeleton([(100, 50), (900, 50)], [(0, 1)], image_size=(1000, 100))
    right = street_mover_distance(moved(wide, (8, 0)), wide)
    down = street_mover_distance(moved(wide, (0, 8)), wide)
    assert right == pytest.approx(down)
    turned = Skeleton(wide.nodes[:, ::-1], wide.edges, image_size=(100, 1000))
    assert street_mover_distance(moved(turned, (0, 8)), turned) == pytest.approx(right)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(graphs(), graphs())
def test_exchange_and_numbering_do_not_matter(first, second):
    forth = street_mover_distance(bare(first), bare(second), image_size=SIZE)
    assert street_mover_distance(bare(second), bare(first), image_size=SIZE) == forth
    if len(np.unique(first.nodes, axis=0)) == len(first):
        assert street_mover_distance(bare(renumbered(first, 3)), bare(second), image_size=SIZE) == forth


@pytest.mark.parametrize("seed", range(4))
def test_invariance(seed):
    prediction, ground_truth = faulty_pairs(30, seed)[4]
    reference = street_mover_distance(prediction, ground_truth)
    shift, scale, turn = [[1, 0, 7.3], [0, 1, -2.9]], [[3, 0, 0], [0, 3, 0]], [[0, -1, 512], [1, 0, 0]]
    assert distance_of_moved(prediction, ground_truth, shift, SIZE) == pytest.approx(reference, rel=1e-6)
    assert distance_of_moved(prediction, ground_truth, scale, (1536, 1536)) == pytest.approx(reference, rel=1e-6)
    assert distance_of_moved(prediction, ground_truth, turn, SIZE) == pytest.approx(reference, rel=1e-6)
    assert street_mover_distance(subdivided(prediction), ground_truth) == pytest.approx(reference, rel=1e-6)
    assert street_mover_distance(prediction, subdivided(ground_truth)) == pytest.approx(reference, rel=1e-6)


def distance_of_moved(prediction, ground_truth, affine, size):
    return street_mover_distance(*(graph.transform(affine, image_size=size) for graph in (prediction, ground_truth)))


@settings(max_examples=examples(40))
@given(graphs())
def test_identity(graph):
    assert street_mover_distance(bare(graph), bare(graph), image_size=SIZE) == 0.0


@pytest.mark.slow
def test_it_grows_with_jitter():
    trees = [random_tree(40, seed) for seed in range(4)]
    means = [
        np.mean([street_mover_distance(jittered(tree, sigma, seed), tree) for tree in trees for seed in range(3)])
        for sigma in (0, 0.5, 1, 2, 4, 8, 16)
    ]
    assert (np.diff(means) > 0).all()


# ---- the paper's distance --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_paper_s_distance_agrees_with_reference(seed):
    for prediction, ground_truth in faulty_pairs(25, seed):
        assert street_mover_distance_paper(prediction, ground_truth) == pytest.approx(
            paper_reference(prediction, ground_truth), rel=0.01
        )


def test_edge_direction_and_order_do_not_change_the_paper_s_distance():
    prediction, ground_truth = faulty_pairs(30, 5)[4]
    flipped = Skeleton(prediction.nodes, prediction.edges[::-1, ::-1], image_size=SIZE)
    assert street_mover_distance_paper(flipped, ground_truth) == street_mover_distance_paper(prediction, ground_truth)


def test_the_paper_s_distance_of_a_renumbered_tree_is_not_zero():
    ground_truth = random_tree(60, 1)
    assert street_mover_distance_paper(ground_truth, ground_truth) < 1e-9
    assert street_mover_distance_paper(renumbered(ground_truth), ground_truth) > 1e-6
    assert street_mover_distance(renumbered(ground_truth), ground_truth) < 1e-12


def test_peculiarities_of_the_paper_s_distance():
    tree = random_tree(60, 1)
    cut = without_subtree(tree, 30)
    assert len(cut) == 56
    shaken = jittered(tree, 3.0)
    # A missing branch costs almost nothing, because not all points of the ground truth must be covered.
    assert street_mover_distance_paper(cut, tree) < 0.2 * street_mover_distance(cut, tree)
    assert street_mover_distance_paper(cut, tree) < 0.5 * street_mover_distance_paper(tree, cut)
    # Renumbering the nodes changes the distance slightly.
    values = [street_mover_distance_paper(renumbered(shaken, seed), tree) for seed in range(5)]
    assert len(set(values)) == 5
    assert np.std(values) < 0.2 * np.mean(values)
    # Pixels are not square if the image is not square.
    wide = Skeleton([(100, 50), (900, 50)], [(0, 1)], image_size=(1000, 100))
    right, down = (street_mover_distance_paper(moved(wide, s), wide) for s in ((8, 0), (0, 8)))
    assert down > 50 * right


# ---- degenerate graphs -----------------------------------------------------------------------------


def bare(graph: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    return graph.nodes, graph.edges


EMPTY, POINT = ([], []), ([(5, 5)], [])
POINTS = ([(5, 5), (9, 9)], [])
SAME_PLACE = ([(5, 5), (5, 5)], [(0, 1)])
LINE = ([(0, 0), (10, 0)], [(0, 1)])


@pytest.mark.parametrize("small", [EMPTY, POINT, POINTS, SAME_PLACE])
def test_a_graph_without_length(small):
    assert street_mover_distance(small, LINE, image_size=SIZE) == 1.0
    assert street_mover_distance(LINE, small, image_size=SIZE) == 1.0
    assert street_mover_distance(small, small, image_size=SIZE) == 0.0


@pytest.mark.parametrize("small", [EMPTY, POINT, POINTS])
def test_a_graph_without_edges_for_the_paper_s_distance(small):
    for pair in ((small, LINE), (LINE, small), (small, small)):
        assert street_mover_distance_paper(*pair, image_size=SIZE) == 1.0


def test_identical_points_for_the_paper_s_distance():
    assert street_mover_distance_paper(SAME_PLACE, SAME_PLACE, image_size=SIZE) == 0.0


def test_five_thousand_nodes():
    tree = random_tree(5000, 1)
    assert 0 < street_mover_distance(jittered(tree, 2), tree) < 1e-3
    assert 0 < street_mover_distance_paper(jittered(tree, 2), tree) < 1e-3
