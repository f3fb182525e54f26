"""The paper's TOPO score against a reference implementation, and the peculiarities of the released code."""

from __future__ import annotations

import numpy as np
import pytest

from tests.metrics.reference import topo_paper_reference
from tests.metrics.trees import SIZE, faulty_pairs, jittered, random_tree, subdivided
from treeformer import Skeleton
from treeformer.metrics import topo, topo_paper


@pytest.mark.slow
@pytest.mark.parametrize("keypoints", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_reference(seed, keypoints):
    for prediction, ground_truth in faulty_pairs(9, seed)[1:]:
        scores = topo_paper(prediction, ground_truth, keypoints=keypoints)
        assert (scores.precision, scores.recall) == pytest.approx(
            topo_paper_reference(prediction, ground_truth, keypoints), abs=1e-9
        )


@pytest.mark.slow
def test_agrees_with_reference_for_poor_predictions():
    """Most starts have low precision, so many are dropped next to others."""
    ground_truth = random_tree(14, 3)
    prediction = jittered(ground_truth, 9.0, 4)
    scores = topo_paper(prediction, ground_truth, keypoints=False)
    assert (scores.precision, scores.recall) == pytest.approx(
        topo_paper_reference(prediction, ground_truth, False), abs=1e-9
    )


def test_direction_and_order_of_edges_do_not_matter():
    prediction, ground_truth = faulty_pairs(30, 7)[4]
    flipped = [Skeleton(g.nodes, g.edges[::-1, ::-1], image_size=SIZE) for g in (prediction, ground_truth)]
    assert topo_paper(*flipped) == topo_paper(prediction, ground_truth)


def test_explicit_roots_and_other_image_sizes_do_not_matter():
    prediction, ground_truth = faulty_pairs(30, 8)[4]
    bent = subdivided(ground_truth)
    assert topo_paper(prediction, bent.replace(root=len(bent) - 1)) == topo_paper(prediction, bent)
    stretched = [g.transform([[2, 0, 0], [0, 0.5, 0]], image_size=(1024, 256)) for g in (prediction, ground_truth)]
    assert topo_paper(*stretched) == topo_paper(prediction, ground_truth)


def big_comb(teeth: int) -> Skeleton:
    """Return a vertical main axis with teeth of 90 px to the right, 30 px apart."""
    axis = [(150, 40 + 30 * k) for k in range(teeth + 2)]
    tips = [(240, y) for _, y in axis[1:-1]]
    edges = [(k, k + 1) for k in range(teeth + 1)] + [(k + 1, teeth + 2 + k) for k in range(teeth)]
    return Skeleton(axis + tips, edges, image_size=SIZE)


def test_recall_ignores_what_is_not_covered():
    comb = big_comb(12)
    axis = Skeleton(comb.nodes[:14], comb.edges[:13], image_size=SIZE)
    paper, corrected = topo_paper(axis, comb, keypoints=False), topo(axis, comb)
    assert paper.precision == 1.0
    assert corrected.precision > 0.98
    assert corrected.recall < 0.6 * paper.recall


def test_small_branches_are_skipped_and_score_zero():
    angles = np.arange(8) * 2 * np.pi / 8
    star = [(256, 256), *((256 + 27 * np.cos(a), 256 + 27 * np.sin(a)) for a in angles)], [(0, k) for k in range(1, 9)]
    scores = topo_paper(star, star, image_size=SIZE)
    assert (scores.precision, scores.recall) == (0.0, 0.0)
    assert topo(star, star, image_size=SIZE).f1 == 1.0


@pytest.mark.slow
def test_identical_graphs_may_miss_one():
    """Two branches nearly coincide: on the grid of single precision, a start may be paired with the wrong one."""
    scores = [topo_paper(tree, tree, keypoints=False) for tree in (random_tree(60, seed) for seed in range(12))]
    assert all(s.precision > 0.97 and s.recall > 0.97 for s in scores)
    assert any(s.recall < 1.0 for s in scores)


def test_there_is_no_state():
    (first, ground_truth), (second, other) = faulty_pairs(30, 1)[1], faulty_pairs(30, 2)[4]
    before = topo_paper(first, ground_truth)
    topo_paper(second, other)
    assert topo_paper(first, ground_truth) == before


@pytest.mark.parametrize("small", [([], []), ([(5, 5)], []), ([(5, 5), (9, 9)], []), ([(5, 5), (5, 5)], [(0, 1)])])
def test_a_graph_without_length(small):
    line = ([(0, 0), (400, 0)], [(0, 1)])
    for pair in ((small, line), (line, small), (small, small)):
        scores = topo_paper(*pair, image_size=SIZE)
        assert (scores.precision, scores.recall, scores.f1) == (0.0, 0.0, 0.0)


def test_cycles_and_edges_without_length():
    ring = [(100, 100), (400, 100), (400, 400), (100, 400), (480, 480), (480, 480)]
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 5)]
    assert topo_paper((ring, edges), (ring, edges), image_size=SIZE).f1 > 0.95
    lone_ring = (ring[:4], edges[:4])
    assert topo_paper(lone_ring, lone_ring, image_size=SIZE, keypoints=False).f1 == 0.0  # no keypoint to start from


@pytest.mark.slow
def test_five_thousand_nodes():
    tree = random_tree(100, 1).resample(0.5)
    assert len(tree) > 4000
    assert topo_paper(jittered(tree, 0.05), tree, keypoints=False).recall > 0.9
    assert topo_paper(jittered(tree, 0.5), tree).recall > 0.9
