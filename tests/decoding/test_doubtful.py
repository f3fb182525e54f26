"""Branches behind edges of low confidence, compared with a slow reference that follows every path."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.decoding.doubtful import MIN_PLANT_NODES, PLANT_SCORE, SURE, revise_doubtful_branches
from treeformer.decoding.postprocess import postprocess

LOW = 0.5


def chain(node_score, edge_score, **changes):
    """A plant whose nodes lie in a row, with the root at the left."""
    count = len(node_score)
    nodes = [(10 * k, 0) for k in range(count)]
    edges = [(k, k + 1) for k in range(count - 1)]
    given = {"root": 0, "node_score": node_score, "edge_score": edge_score, "image_size": (200, 50)} | changes
    return Skeleton(nodes, edges, **given)


def places(skeleton):
    return skeleton.nodes[:, 0].astype(int).tolist()


def test_a_branch_without_a_sure_node_is_dropped():
    found = revise_doubtful_branches(chain([0.9, 0.9, 0.4, 0.45], [0.9, 0.3, 0.9]), LOW)
    assert places(found) == [0, 10]
    assert found.edges.tolist() == [[0, 1]]
    assert found.edge_score.tolist() == [0.9]


def test_a_branch_with_a_sure_node_behind_another_doubtful_edge_stays():
    forest = chain([0.9, 0.9, 0.4, 0.4, 0.9], [0.9, 0.3, 0.9, 0.3])
    assert revise_doubtful_branches(forest, LOW) == forest
    assert places(revise_doubtful_branches(forest.replace(node_score=[0.9, 0.9, 0.4, 0.4, 0.4]), LOW)) == [0, 10]


def test_a_sure_branch_behind_a_very_doubtful_edge_becomes_a_plant():
    forest = chain([0.9] * 5, [0.9, 0.05, 0.9, 0.9], radius=[1, 2, 3, 4, 5])
    found = revise_doubtful_branches(forest, LOW)
    assert places(found) == [0, 10, 20, 30, 40]
    assert found.edges.tolist() == [[0, 1], [2, 3], [3, 4]]
    assert found.roots.tolist() == [0, 2]
    assert found.radius.tolist() == [1, 2, 3, 4, 5]
    assert revise_doubtful_branches(forest, LOW, single_plant=True) == forest
    short = chain([0.9] * 4, [0.9, 0.05, 0.9])
    assert revise_doubtful_branches(short, LOW) == short, "two nodes are no plant"


def test_confident_edges_and_empty_forests_change_nothing():
    forest = chain([0.4, 0.4, 0.4], [0.5, 0.9])
    assert revise_doubtful_branches(forest, LOW) is forest
    empty = Skeleton(np.zeros((0, 2)), [], node_score=[], edge_score=[], image_size=(20, 20))
    assert revise_doubtful_branches(empty, LOW) is empty


@pytest.mark.parametrize("seed", range(60))
def test_random_forests_equal_the_reference(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 25))
    parent = [int(rng.integers(0, node)) if node and rng.random() < 0.9 else -1 for node in range(count)]
    renamed = rng.permutation(count)
    edges = [(renamed[node], renamed[above]) for node, above in enumerate(parent) if above >= 0]
    roots = [renamed[node] for node, above in enumerate(parent) if above < 0]
    forest = Skeleton(
        rng.uniform(0, 99, (count, 2)),
        edges,
        root=sorted(roots),
        node_score=rng.uniform(0.3, 0.7, count),
        edge_score=rng.choice([0.02, 0.3, 0.8, 0.95], len(edges)),
        image_size=(100, 100),
    )
    found = revise_doubtful_branches(forest, LOW)
    expected_edges, expected_roots = reference(forest)
    place = {tuple(node): k for k, node in enumerate(forest.nodes.tolist())}
    name = [place[tuple(node)] for node in found.nodes.tolist()]
    assert {frozenset((name[a], name[b])) for a, b in found.edges} == expected_edges
    assert {name[root] for root in found.roots} == expected_roots
    assert found.is_forest


def reference(forest):
    """Edges as sets of nodes, and roots, of the revised forest."""
    score = {frozenset(edge): value for edge, value in zip(forest.edges.tolist(), forest.edge_score, strict=True)}
    near: dict[int, list[int]] = {node: [] for node in range(len(forest))}
    for first, second in forest.edges.tolist():
        near[first].append(second)
        near[second].append(first)

    def below(node, above, across=lambda value: True):
        """The nodes that hang on a node, itself included, as far as edges with such scores lead."""
        found = {node}
        for other in near[node]:
            if other != above and across(score[frozenset((node, other))]):
                found |= below(other, node, across)
        return found

    edges, roots = set(), set()

    def follow(node, above):
        for other in near[node]:
            if other == above:
                continue
            edge = frozenset((node, other))
            if score[edge] < LOW:
                if forest.node_score[sorted(below(other, node))].max() < SURE:
                    continue
                own = below(other, node, lambda value: value >= LOW)
                if score[edge] < PLANT_SCORE and len(own) >= MIN_PLANT_NODES:
                    roots.add(other)
                    follow(other, node)
                    continue
            edges.add(edge)
            follow(other, node)

    for root in forest.roots.tolist():
        roots.add(root)
        follow(root, -1)
    return edges, roots


def test_post_processing_revises_only_calibrated_scores_of_a_model_that_says_what_is_low():
    forest = chain([0.9, 0.9, 0.4], [0.99, 0.01])
    calibration = (0.0, 1.0, 1.0, 0.0)  # scores stay as they are
    assert len(postprocess(forest, calibration=calibration, low_confidence=LOW)) == 2
    assert len(postprocess(forest, calibration=calibration, low_confidence=LOW, unsure_plants=True)) == 3
    assert len(postprocess(forest, calibration=calibration)) == 3
    assert len(postprocess(forest, low_confidence=LOW)) == 3
