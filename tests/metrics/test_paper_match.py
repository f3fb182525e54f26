"""Matchings of samples, compared with a brute-force computation over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from tests.metrics.trees import SIZE, jittered, random_tree
from treeformer import Skeleton
from treeformer.metrics._geographic import GeographicGraph, distance
from treeformer.metrics._paper_match import COPY_SHIFT, MATCH_ANGLE, MATCH_RADIUS, matched, near_edges
from treeformer.metrics._paper_walk import Starts, Walked, walk


def crowded(seed: int) -> tuple[Skeleton, Skeleton]:
    """Return a tree on a quarter of the image, and a jittered copy: branches overlap and run side by side."""
    tree = random_tree(60, seed)
    tree = tree.replace(nodes=128 + tree.nodes / 2)
    return jittered(tree, 3.0, seed), tree


def walks(graph: GeographicGraph, edges: np.ndarray) -> Walked:
    """Walk from the middle of some edges."""
    first, second = graph.edges[edges].T
    half = distance(graph.place[first], graph.place[second]) / np.float32(2)
    return walk(graph.place, graph.edges, Starts(edges, first, second, half, half))


def brute_force_matched(
    holes: Walked, marbles: Walked, ground_truth: GeographicGraph, prediction: GeographicGraph
) -> list[tuple[int, int]]:
    hole_edge, marble_edge = (np.repeat(w.edge, np.diff(w.begin)) for w in (holes, marbles))
    sizes = []
    for number in range(len(holes.start) - 1):
        h, m = (slice(*w.start[number : number + 2]) for w in (holes, marbles))
        angle = 1 - np.abs(prediction.direction[marble_edge[m]] @ ground_truth.direction[hole_edge[h]].T)
        near = [
            (distance(marbles.place[m][:, None], place[h]) < np.float32(MATCH_RADIUS)) & (angle < MATCH_ANGLE)
            for place in (holes.place, holes.place + np.float32(COPY_SHIFT))
        ]
        both = (np.concatenate(near, axis=1), near[0])
        sizes.append(tuple(int((maximum_bipartite_matching(csr_array(n)) >= 0).sum()) for n in both))
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize("keypoints", [True, False])
@pytest.mark.parametrize("seed", [3, 8, 9])  # with these seeds, copies change the matching of other marbles
def test_agrees_with_brute_force(seed, keypoints):
    prediction, ground_truth = (GeographicGraph.from_skeleton(graph, keypoints, SIZE) for graph in crowded(seed))
    edges = np.arange(min(len(ground_truth.edges), len(prediction.edges)))
    holes, marbles = walks(ground_truth, edges), walks(prediction, edges)
    with_copies, without = matched(holes, marbles, near_edges(ground_truth, prediction))
    assert list(zip(with_copies.tolist(), without.tolist(), strict=True)) == brute_force_matched(
        holes, marbles, ground_truth, prediction
    )
    assert (with_copies > without).any()


def test_nothing_is_near():
    left, right = (
        GeographicGraph.from_skeleton(Skeleton([(x, 50), (x, 450)], [(0, 1)], image_size=SIZE), True, SIZE)
        for x in (20, 480)
    )
    edges = np.zeros(1, dtype=np.intp)
    sizes = matched(walks(left, edges), walks(right, edges), near_edges(left, right))
    assert [size.tolist() for size in sizes] == [[0], [0]]
