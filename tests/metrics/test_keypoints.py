"""Tips, branch points and bases: definitions by hand, matching against every possible one, and sets of images."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.trees import random_tree, renumbered
from tests.strategies import forests, graphs
from treeformer import Skeleton, SkeletonError
from treeformer.metrics import Counts, evaluate_pair, keypoint_nodes, keypoints, mean_metrics, summarize

SIZE = (512, 512)
KINDS = ("tip", "branch_point", "base")


def reference(prediction, ground_truth, radius_px, margin_px=0.0, size=SIZE):
    """Count with NetworkX, and match by trying every assignment."""

    def points(skeleton, kind):
        graph = skeleton.to_networkx()
        bases = {int(skeleton.component_root[skeleton.component[node]]) for node in graph}
        kinds = {
            "tip": [n for n in graph if graph.degree(n) == 1 and n not in bases],
            "branch_point": [n for n in graph if graph.degree(n) > 2],
            "base": sorted(bases),
        }
        return [tuple(skeleton.nodes[n].tolist()) for n in kinds[kind]]

    def is_cut(kind, point):
        frame = min(*point, size[0] - point[0], size[1] - point[1])
        return kind == "tip" and margin_px > 0 and frame < margin_px

    def matchings(ours, theirs):
        """Yield all lists of pairs within the radius."""
        if not ours:
            yield []
            return
        for partner in [None, *theirs]:
            for rest in matchings(ours[1:], [j for j in theirs if j != partner]):
                if partner is None:
                    yield rest
                elif math.dist(one[ours[0]], other[partner]) <= radius_px:
                    yield [(ours[0], partner), *rest]

    counts = {}
    for kind in KINDS:
        one, other = points(prediction, kind), points(ground_truth, kind)
        all_pairs = matchings(list(range(len(one))), list(range(len(other))))
        pairs = max(all_pairs, key=lambda p: (len(p), -sum(math.dist(one[i], other[j]) for i, j in p)))
        kept = [(i, j) for i, j in pairs if not (is_cut(kind, one[i]) or is_cut(kind, other[j]))]
        extra = set(range(len(one))) - {i for i, _ in pairs}
        missed = set(range(len(other))) - {j for _, j in pairs}
        extra = [i for i in extra if not is_cut(kind, one[i])]
        missed = [j for j in missed if not is_cut(kind, other[j])]
        counts[kind] = Counts(len(kept), len(kept) + len(extra), len(kept) + len(missed))
    return counts


def as_dict(found):
    return {kind: getattr(found, kind) for kind in KINDS}


@given(forests(max_nodes=8), forests(max_nodes=8), st.floats(1, 300))
def test_counts_agree_with_every_possible_assignment(first, second, radius):
    found = keypoints(first.replace(image_size=SIZE), second.replace(image_size=SIZE), radius_px=radius)
    assert as_dict(found) == reference(first, second, radius)


@given(graphs(max_nodes=6), graphs(max_nodes=6))
def test_graphs_with_cycles(first, second):
    assert as_dict(keypoints(first, second, radius_px=50, image_size=SIZE)) == reference(first, second, 50)


@given(st.integers(0, 9), st.integers(0, 9), st.floats(1, 200))
def test_ends_on_the_frame_may_be_left_out_with_their_partners(seed, other, margin):
    rng = np.random.default_rng(seed)
    first, second = (
        Skeleton(np.vstack([(256, 256), rng.uniform(0, 512, (3, 2))]), [(0, 1), (0, 2), (0, 3)], image_size=SIZE)
        for rng in (rng, np.random.default_rng(other))
    )
    found = keypoints(first, second, radius_px=150, margin_px=margin)
    assert as_dict(found) == reference(first, second, 150, margin)


@pytest.mark.slow
@given(forests(), forests())
def test_exchanged_graphs_exchange_precision_and_recall(first, second):
    forth, back = (keypoints(*pair, radius_px=20, image_size=(200, 200)) for pair in ((first, second), (second, first)))
    for kind in KINDS:
        one, other = getattr(forth, kind), getattr(back, kind)
        assert (one.precision, one.recall) == (other.recall, other.precision)
        if one.matched:
            assert one.f1 == pytest.approx(2 / (1 / one.precision + 1 / one.recall))


def test_numbering_and_nodes_along_branches_do_not_matter():
    tree = random_tree(60, 3)
    shuffled = renumbered(tree)
    root = int(np.flatnonzero((shuffled.nodes == tree.nodes[tree.root]).all(axis=1))[0])
    found = keypoints(shuffled.replace(root=root), tree.resample(5))
    for kind in KINDS:
        assert getattr(found, kind).f1 == 1.0
        assert getattr(found, kind).true > 0


def test_the_base_is_no_tip_and_may_be_a_branch_point():
    star = Skeleton([(50, 0), (0, 50), (50, 50), (99, 50)], [(0, 1), (0, 2), (0, 3)], root=0, image_size=SIZE)
    assert {kind: nodes.tolist() for kind, nodes in keypoint_nodes(star).items()} == {
        "tip": [1, 2, 3], "branch_point": [0], "base": [0],
    }  # fmt: skip
    line = Skeleton([(0, 0), (9, 0)], [(0, 1)], root=1, image_size=SIZE)
    assert {kind: nodes.tolist() for kind, nodes in keypoint_nodes(line).items()} == {
        "tip": [0], "branch_point": [], "base": [1],
    }  # fmt: skip
    # The same line with its base at the other end: both points are there, but each is of the wrong kind.
    found = keypoints(line.replace(root=0), line)
    assert found.tip == found.base == Counts(0, 1, 1)


def test_plants_of_a_single_node_have_a_base_only():
    seeds = Skeleton([(10, 10), (90, 10)], [], image_size=SIZE)
    found = keypoints(seeds, Skeleton([(11, 10)], [], image_size=SIZE))
    assert found.base == Counts(1, 2, 1)
    assert found.tip == found.branch_point == Counts(0, 0, 0)
    assert found.tip.f1 == 1.0
    empty = Skeleton([], [], image_size=SIZE)
    assert keypoints(empty, empty).base.f1 == 1.0
    assert keypoints(seeds, empty).base.precision == keypoints(empty, seeds).base.recall == 0.0


def test_an_end_on_the_frame_is_a_tip_unless_a_margin_is_given():
    leaving = Skeleton([(256, 256), (512, 256)], [(0, 1)], root=0, image_size=SIZE)
    short = leaving.replace(nodes=[(256, 256), (506, 256)])
    assert keypoints(short, leaving).tip == Counts(1, 1, 1)
    assert keypoints(short, leaving, margin_px=1).tip == Counts(0, 0, 0)
    assert keypoints(Skeleton([], [], image_size=SIZE), leaving, margin_px=1).tip == Counts(0, 0, 0)
    with pytest.raises(SkeletonError, match="margin_px must be 0"):
        keypoints(short, leaving, margin_px=-1)


def test_tolerance_grows_with_the_image():
    line = Skeleton([(0, 0), (100, 0)], [(0, 1)], root=0, image_size=(512, 100))
    moved = line.replace(nodes=[(0, 0), (110, 0)])
    assert keypoints(moved, line).tip.matched == 0
    large = [one.replace(image_size=(100, 1024)) for one in (moved, line)]
    assert keypoints(*large).tip.matched == 1


def test_a_set_is_pooled():
    """Over a set, precision is the sum of the matched divided by the sum of the predicted points, not a mean."""
    tree, empty = random_tree(40, 1), Skeleton([], [], image_size=SIZE)
    few = Skeleton([(10, 10), (90, 10)], [(0, 1)], root=0, image_size=SIZE)
    rows = [evaluate_pair(few, tree), evaluate_pair(tree, tree), evaluate_pair(empty, few)]
    total = keypoints(few, tree).tip + keypoints(tree, tree).tip + keypoints(empty, few).tip
    summary = summarize(rows)
    assert summary["tip_precision"].value == pytest.approx(total.precision)
    assert summary["tip_recall"].value == pytest.approx(total.recall)
    assert summary["tip_f1"].value == mean_metrics(rows)["tip_f1"] == pytest.approx(total.f1)
    assert summary["tip_f1"].low < total.f1 < summary["tip_f1"].high
    assert rows[0]["tip_matched"] == 0.0
    assert rows[1]["tip_true"] == keypoints(tree, tree).tip.true
    nothing = summarize([evaluate_pair(empty, empty)])
    assert nothing["tip_precision"].value == nothing["tip_f1"].value == 1.0
