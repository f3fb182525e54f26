"""Distances between lines, against brute force over places and segments, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.trees import jittered, random_tree, renumbered, subdivided
from tests.strategies import forests
from treeformer import Skeleton, SkeletonError
from treeformer._util.geometry import project_onto_segments
from treeformer.metrics import evaluate_pair, line_distance, summarize

SIZE = (512, 512)


def reference(origin, target, gate, step=0.02):
    """Measure every place on the origin to every segment of the target, one segment at a time."""
    distances = []
    for a, b in origin.nodes[origin.edges]:
        count = max(1, round(math.dist(a, b) / step))
        places = a + (np.arange(count)[:, None] + 0.5) / count * (b - a)
        weight = math.dist(a, b) / count
        nearest = np.full(count, np.inf)
        for c, d in target.nodes[target.edges]:
            nearest = np.minimum(nearest, project_onto_segments(places, c, d)[1])
        distances += [(float(distance), weight) for distance in nearest]
    distances.sort()

    def quantile(pairs, q):
        total, passed = sum(weight for _, weight in pairs), 0.0
        for distance, weight in pairs:
            passed += weight
            if passed >= q * total:
                return distance
        return pairs[-1][0]

    near = [pair for pair in distances if pair[0] <= gate]
    within = sum(weight for _, weight in near) / sum(weight for _, weight in distances)
    return within, quantile(distances, 0.5), quantile(distances, 0.95), quantile(near, 0.95) if near else math.nan


@pytest.mark.parametrize(("seed", "sigma"), [(0, 1.0), (1, 4.0), (2, 12.0)])
def test_distances_agree_with_brute_force(seed, sigma):
    tree, gate = random_tree(12, seed), 200 / 18
    found = jittered(tree, sigma, seed)
    for pair in ((found, tree), (tree, found)):
        result = line_distance(*pair)
        expected = reference(*pair, gate)
        assert result.within == pytest.approx(expected[0], abs=0.003)
        assert (result.median, result.p95, result.near_p95) == pytest.approx(expected[1:], abs=0.1)


@pytest.mark.slow
@given(forests(max_nodes=6), forests(max_nodes=6), st.floats(1, 100))
def test_any_two_graphs_agree_with_brute_force(first, second, gate):
    if not min(first.length, second.length) > 0:
        return
    first, second = first.replace(image_size=SIZE), second.replace(image_size=SIZE)
    result = line_distance(first, second, gate_px=gate)
    within, median, p95, _ = reference(first, second, gate, step=0.25)
    assert (result.median, result.p95) == pytest.approx((median, p95), abs=0.6)
    assert result.within == pytest.approx(within, abs=0.01) or result.within == pytest.approx(
        reference(first, second, gate + 0.2, step=0.25)[0], abs=0.01
    )  # where a line runs along the border of the gate


def test_by_hand():
    line = Skeleton([(100, 100), (200, 100)], [(0, 1)], image_size=SIZE)
    both = Skeleton([(100, 104), (200, 104), (300, 300), (400, 300)], [(0, 1), (2, 3)], image_size=SIZE)
    forth, back = line_distance(both, line), line_distance(line, both)
    assert (forth.within, back.within) == (0.5, 1.0)
    assert forth.near_p95 == back.median == back.p95 == pytest.approx(4.0)
    assert forth.p95 == pytest.approx(math.hypot(190, 200), abs=1.0)  # 95 % of 200 px: 10 px before the far end
    row = evaluate_pair(both, line)
    assert row["predicted_line_p95_px"] == forth.p95
    assert row["true_line_p95"] == back.p95 / 512
    assert (row["predicted_line_within"], row["true_line_within"]) == (0.5, 1.0)


def test_a_corner_that_is_cut():
    """The chord of a right angle with legs of 30 px is at most 21.2 px away; the legs reach it at their ends only."""
    corner = Skeleton([(100, 100), (130, 100), (130, 130)], [(0, 1), (1, 2)], image_size=SIZE)
    chord = Skeleton([(100, 100), (130, 130)], [(0, 1)], image_size=SIZE)
    assert line_distance(corner, chord).p95 == pytest.approx(0.95 * 30 / math.sqrt(2), abs=0.25)
    assert line_distance(chord, corner).p95 == pytest.approx(0.95 * 15, abs=0.25)


def test_only_the_curves_matter():
    tree = random_tree(30, 4)
    found = jittered(tree, 3.0)
    expected = line_distance(found, tree)
    for pair in ((renumbered(found), renumbered(tree)), (subdivided(found), subdivided(tree))):
        result = line_distance(*pair)
        assert result.within == pytest.approx(expected.within, abs=1e-3)
        assert (result.median, result.p95) == pytest.approx((expected.median, expected.p95), abs=0.05)


def test_graphs_without_length():
    line, seed = (Skeleton([(9, 9), (99, 9)], edges, image_size=SIZE) for edges in ([(0, 1)], []))
    assert line_distance(line, seed).within == 0.0
    assert math.isnan(line_distance(line, seed).p95)
    assert math.isnan(line_distance(seed, line).within)
    point = Skeleton([(9, 9), (9, 9)], [(0, 1)], image_size=SIZE)
    assert math.isnan(line_distance(point, line).median)
    with pytest.raises(SkeletonError, match="gate_px"):
        line_distance(line, line, gate_px=0)


def test_the_gate_limits_a_mean_that_a_single_absurd_prediction_moves():
    tree = random_tree(40, 5)
    absurd = tree.replace(nodes=1.5 * tree.nodes + 200)
    rows = [evaluate_pair(jittered(tree, 1.0, seed), tree) for seed in range(9)]
    good, summary = summarize(rows), summarize([*rows, evaluate_pair(absurd, tree)])
    assert summary["smd"].value > 1000 * good["smd"].value
    for metric in ("smd", "predicted_line_p95_px", "true_line_near_p95_px"):
        assert summary[metric].median < 1.5 * good[metric].median
    assert summary["predicted_line_p95_px"].value > 10 * good["predicted_line_p95_px"].value
    assert summary["predicted_line_near_p95_px"].value < 200 / 18
