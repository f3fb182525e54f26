"""Correct edges and the calibration of scores, against slow references."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from treeformer import Skeleton
from treeformer.errors import SkeletonError, TreeformerError
from treeformer.metrics import correct_edges, expected_calibration_error, reliability
from treeformer.metrics.calibration import MAX_DETOUR, MIN_COVERED

SIZE = (512, 512)
RADIUS = 8.0


def slow_correct_edges(predicted: Skeleton, true: Skeleton, step: float = 0.5) -> list[tuple[float, float]]:
    """Return covered fraction and shortest path minus the longest allowed, from a graph of many short edges."""
    fine = networkx.Graph()
    for number, (i, j) in enumerate(true.edges.tolist()):
        a, b = true.nodes[i], true.nodes[j]
        count = max(1, int(np.ceil(np.hypot(*(b - a)) / step)))
        names = [("node", i), *((number, k) for k in range(1, count)), ("node", j)]
        places = [a + k / count * (b - a) for k in range(count + 1)]
        for name, place in zip(names, places, strict=True):
            fine.add_node(name, place=place)
        for (one, p), (other, q) in zip(
            zip(names, places, strict=True), zip(names[1:], places[1:], strict=True), strict=False
        ):
            fine.add_edge(one, other, weight=float(np.hypot(*(q - p))))
    names = list(fine)
    places = np.array([fine.nodes[name]["place"] for name in names])
    results = []
    for i, j in predicted.edges.tolist():
        a, b = predicted.nodes[i], predicted.nodes[j]
        samples = [a + t * (b - a) for t in np.linspace(0.0025, 0.9975, 200)]
        covered = np.mean([np.hypot(*(places - s).T).min() <= RADIUS for s in samples])
        near_a, near_b = (
            [n for n, p in zip(names, places, strict=True) if np.hypot(*(p - end)) <= RADIUS] for end in (a, b)
        )
        shortest = np.inf
        if near_a and near_b:
            length = networkx.multi_source_dijkstra_path_length(fine, set(near_a), weight="weight")
            shortest = min((length.get(n, np.inf) for n in near_b), default=np.inf)
        results.append((float(covered), shortest - MAX_DETOUR * np.hypot(*(b - a)) - 2 * RADIUS))
    return results


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 10**6))
def test_correct_edges_agree_with_a_slow_reference(seed):
    """The reference lets a path begin anywhere within the radius, the fast one at the nearest place of each edge."""
    random = np.random.default_rng(seed)
    true = Skeleton.from_parents(
        random.uniform(0, 60, (8, 2)), [-1, *(int(random.integers(0, k)) for k in range(1, 8))], image_size=SIZE
    )
    nodes = true.nodes + random.normal(0, 5, true.nodes.shape)
    predicted = Skeleton.from_parents(nodes, [-1, *(int(random.integers(0, k)) for k in range(1, 8))], image_size=SIZE)
    expected = slow_correct_edges(predicted, true)
    for is_correct, (covered, excess) in zip(correct_edges(predicted, true), expected, strict=True):
        if abs(covered - MIN_COVERED) < 0.06 or -2 * RADIUS < excess < 2 * RADIUS:
            continue  # too close to call with the reference's sampling
        assert is_correct == (covered > MIN_COVERED and excess < 0)


def two_roots(gap: float) -> Skeleton:
    """Return two long parallel lines that are joined at their left ends."""
    return Skeleton(
        [(0, 100), (400, 100), (400, 100 + gap), (0, 100 + gap)], [(0, 1), (2, 3), (3, 0)], root=0, image_size=SIZE
    )


def test_a_link_between_parallel_lines_is_wrong_but_along_them_is_right():
    predicted = Skeleton(
        [(300, 100), (300, 112), (340, 99), (300, 113)], [(0, 1), (0, 2), (1, 3)], root=0, image_size=SIZE
    )
    assert correct_edges(predicted, two_roots(12)).tolist() == [False, True, True]
    # Near the joint the same link is a path of similar length.
    assert correct_edges(([(3, 100), (3, 112)], [(0, 1)]), two_roots(12)).tolist() == [True]


def test_an_edge_may_span_nodes_and_bends():
    bent = Skeleton.from_parents([(0, 0), (50, 5), (100, 0), (150, 90)], [-1, 0, 1, 2], image_size=SIZE)
    predicted = [(2, 0), (98, 0), (150, 85)], [(0, 1), (1, 2), (0, 2)]
    assert correct_edges(predicted, bent).tolist() == [True, True, False]


@pytest.mark.parametrize(("uncovered_px", "expected"), [(16, True), (24, False)])
def test_nine_tenths_of_the_edge_decide(uncovered_px, expected):
    """The ground truth makes a detour, so that a part of the straight edge of 200 px is far from it."""
    left, right = 90, 90 + 2 * RADIUS + uncovered_px
    detour = [(0, 100), (left, 100), (left, 115), (right, 115), (right, 100), (200, 100)]
    true = Skeleton.from_parents(detour, [-1, 0, 1, 2, 3, 4], image_size=SIZE)
    assert correct_edges(([(0, 100), (200, 100)], [(0, 1)]), true).tolist() == [expected]


def test_degenerate_graphs():
    line = [(0, 0), (9, 0)], [(0, 1)]
    empty = np.zeros((0, 2)), np.zeros((0, 2), dtype=int)
    assert correct_edges(empty, line, image_size=SIZE).tolist() == []
    assert correct_edges(line, empty, image_size=SIZE).tolist() == [False]
    assert correct_edges(line, ([(0, 0)], empty[1]), image_size=SIZE).tolist() == [False]
    assert correct_edges(([(1e6, 0), (9, 0)], [(0, 1)]), line, image_size=SIZE).tolist() == [False]
    point = [(3, 0), (3, 0)], [(0, 1)]
    assert correct_edges(point, line, image_size=SIZE).tolist() == [True]
    with pytest.raises(SkeletonError, match="radius_px"):
        correct_edges(line, line, radius_px=0, image_size=SIZE)


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(0, 60))
def test_calibration_error_agrees_with_a_loop(seed, bins, count):
    random = np.random.default_rng(seed)
    score, correct = random.uniform(size=count).round(1), random.uniform(size=count) < 0.6
    # Edges of equal score cannot be told apart: each counts with the share of them that is correct.
    share = [np.mean([c for s, c in zip(score, correct, strict=True) if s == one]) for one in score]
    pairs = sorted(zip(score.tolist(), range(count), share, strict=True))
    total = 0.0
    base, extra = divmod(count, bins)
    begin = 0
    for k in range(bins):
        part = pairs[begin : begin + base + (k < extra)]
        begin += len(part)
        if part:
            total += abs(sum(s for s, _, _ in part) - sum(c for _, _, c in part)) / count
    found = expected_calibration_error(score, correct, bins=bins)
    assert np.isnan(found) if count == 0 else found == pytest.approx(total)
    assert sum(one.edges for one in reliability(score, correct, bins=bins)) == count


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_the_order_of_ties_does_not_matter(seed, bins):
    random = np.random.default_rng(seed)
    score, correct = random.uniform(size=50).round(1), random.uniform(size=50) < 0.6
    found, order = reliability(score, correct, bins=bins), random.permutation(50)
    for one, other in zip(found, reliability(score[order], correct[order], bins=bins), strict=True):
        assert one == pytest.approx(other)
    # All correct edges of a tie first, and all of them last: the error is the same, where it was 0 and 1 before.
    first, last = [True, True, False, False], [False, False, True, True]
    for outcomes in (first, last):
        assert expected_calibration_error([0.5] * 4, outcomes, bins=2) == 0.0


def test_perfect_and_worst_calibration():
    assert expected_calibration_error([0.0, 0.0, 1.0], [False, False, True]) == 0
    assert expected_calibration_error([0.0, 1.0], [True, False]) == 1
    with pytest.raises(TreeformerError, match="do not match"):
        expected_calibration_error([0.5], [True, False])
    with pytest.raises(TreeformerError, match="bins"):
        expected_calibration_error([0.5], [True], bins=0)
