"""What is left out of a predicted forest again: a spanning tree has to tie every node to something."""

from __future__ import annotations

import numpy as np

from treeformer.axes import IntArray
from treeformer.branches import BoolArray, components
from treeformer.skeleton import Skeleton

LEAST_EDGE_SCORE = 0.01  # of the edge that a piece hangs on
MOST_NODES = 30  # of a piece that is left out; a larger one is rather a plant whose root is not seen


def without_loose_pieces(skeleton: Skeleton) -> Skeleton:
    """The forest without the small pieces that hang on an edge which the network does not believe in.

    Where a rim or a scratch passes for a node, the nearest plant is tied to it across the picture. More than half of a
    tree never goes: it is rather its root that is wrong.

    >>> chain = Skeleton([(0, 0), (9, 0), (90, 0)], [(0, 1), (1, 2)], root=0, node_score=[1, 1, 1], edge_score=[1, 0])
    >>> without_loose_pieces(chain).nodes.tolist()
    [[0.0, 0.0], [9.0, 0.0]]
    """
    assert skeleton.edge_score is not None
    unlikely = skeleton.edge_score < LEAST_EDGE_SCORE
    if not unlikely.any():
        return skeleton
    walk = skeleton.walk
    parents, edge = walk.parents.tolist(), walk.edge.tolist()
    beyond = [1] * len(skeleton)  # nodes of what hangs on a node, itself included
    for node in reversed(walk.order):
        if parents[node] >= 0:
            beyond[parents[node]] += beyond[node]
    tree_size = np.bincount(skeleton.piece)[skeleton.piece]
    stays = np.ones(len(skeleton), dtype=bool)
    for node in walk.order:
        if parents[node] >= 0:
            is_small = beyond[node] <= MOST_NODES and 2 * beyond[node] <= tree_size[node]
            stays[node] = stays[parents[node]] and not (is_small and unlikely[edge[node]])
    both_stay: BoolArray = stays[skeleton.edges[:, 0]] & stays[skeleton.edges[:, 1]]
    return _among(skeleton, stays, both_stay, skeleton.bases)


def without_unlikely_edges(skeleton: Skeleton, least_score: float) -> Skeleton:
    """The forest without the edges below a confidence, and without the nodes that this leaves alone.

    A piece that comes off begins where it was cut off.
    """
    assert skeleton.edge_score is not None
    likely = skeleton.edge_score >= least_score
    edges = skeleton.edges[likely]
    degree = np.bincount(edges.ravel(), minlength=len(skeleton))
    stays = (degree > 0) | (skeleton.degree == 0)
    piece = components(edges, len(skeleton))
    first = np.lexsort((skeleton.depth, piece))
    base = first[np.unique(piece[first], return_index=True)[1]]
    return _among(skeleton, stays, likely, base[stays[base]])


def _among(skeleton: Skeleton, stays: BoolArray, edge_stays: BoolArray, bases: IntArray) -> Skeleton:
    """Some nodes and edges of a predicted skeleton, and where its trees begin then."""
    assert skeleton.edge_score is not None
    assert skeleton.node_score is not None
    number = np.cumsum(stays) - 1
    return Skeleton(
        skeleton.nodes[stays],
        number[skeleton.edges[edge_stays]],
        root=number[bases],
        node_score=skeleton.node_score[stays],
        edge_score=skeleton.edge_score[edge_stays],
        image_size=skeleton.image_size,
    )
