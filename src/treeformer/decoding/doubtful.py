"""What hangs on an edge of low confidence: it is dropped, becomes a plant of its own, or stays.

A spanning tree connects every node that the network accepts, also one in the background far from the plant. Such an
edge has a low calibrated score. Whether the branch behind it exists shows in its nodes: on validation images, three of
four branches without a node more likely than not were false, and seven of eight others were true
(docs/lab/model-ingredients.md).
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import BoolArray
from treeformer.skeleton import Skeleton
from treeformer.skeleton.connectivity import components

# A plant, or a branch behind a doubtful edge, exists if it has a node with at least this score.
SURE = 0.5
# An edge with a lower score does not belong to a plant. What it holds becomes one if it has enough nodes.
PLANT_SCORE, MIN_PLANT_NODES = 0.1, 3


def revise_doubtful_branches(forest: Skeleton, low_confidence: float, *, single_plant: bool = False) -> Skeleton:
    """Drop branches that do not exist, and separate those that belong to no plant.

    Edges with a calibrated score below `low_confidence` are doubtful. The root of a new plant is the node where it was
    cut off. With `single_plant`, nothing is separated.
    """
    assert forest.edge_score is not None
    assert forest.node_score is not None
    doubtful = forest.edge_score < low_confidence
    if not doubtful.any():
        return forest
    traversal = forest.traversal
    order = np.asarray(traversal.order)
    order = order[traversal.edge[order] >= 0]
    heads = order[doubtful[traversal.edge[order]]]  # the first node of each branch; of nested ones, the outer one first
    # Without the doubtful edges the forest falls into pieces: the head's own piece hangs on that of its parent.
    piece = components(forest.edges[~doubtful], len(forest))
    own, parent = piece[heads], piece[traversal.parents[heads]]
    best = np.zeros(piece.max() + 1)
    np.maximum.at(best, piece, forest.node_score)
    for inner, outer in zip(own[::-1], parent[::-1], strict=True):
        best[outer] = max(best[outer], best[inner])
    exists = np.ones(len(best), dtype=bool)
    for inner, outer in zip(own, parent, strict=True):
        exists[inner] = exists[outer] and best[inner] >= SURE
    is_plant = exists[own] & (forest.edge_score[traversal.edge[heads]] < PLANT_SCORE)
    is_plant &= (np.bincount(piece)[own] >= MIN_PLANT_NODES) & (not single_plant)
    keep = exists[piece]
    is_kept: BoolArray = keep[forest.edges[:, 0]] & keep[forest.edges[:, 1]]
    is_kept[traversal.edge[heads[is_plant]]] = False
    roots = np.concatenate([forest.roots[keep[forest.roots]], heads[is_plant]])
    new_index = np.cumsum(keep) - 1
    return Skeleton(
        forest.nodes[keep],
        new_index[forest.edges[is_kept]],
        root=new_index[np.sort(roots)],
        node_score=forest.node_score[keep],
        edge_score=forest.edge_score[is_kept],
        radius=None if forest.radius is None else forest.radius[keep],
        image_size=forest.image_size,
    )
