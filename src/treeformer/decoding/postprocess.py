"""What is done to a decoded forest: cut unlikely edges, drop unsure plants, round, number plants, state axes."""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import BoolArray
from treeformer.skeleton import Skeleton
from treeformer.skeleton.branches import components
from treeformer.skeleton.resampling import subgraph

# Places are given to a hundredth of a pixel and confidences to four digits: batches, which the network adds up in
# different orders, differ below, and so at most in the last of them.
PLACE_DIGITS, SCORE_DIGITS = 2, 4
# The axis of a root goes on along the straightest way that leads at least this share as far as the farthest: a
# predicted main root would otherwise end at the first lateral that is better in line (benchmarks/predicted_axes.py).
LEAST_REACH_OF_ROOTS = 1 / 3


def postprocess(
    found: Skeleton,
    *,
    edge_threshold: float = 0.0,
    unsure_plants: bool = False,
    image_name: str | None = None,
    model_name: str = "",
) -> Skeleton:
    """Turn a decoded forest into the skeleton that users get.

    Args:
        found: the forest, with scores, in px of the original image.
        edge_threshold: edges of a lower score are cut; 0 keeps the spanning tree whole.
        unsure_plants: whether a plant may stay without a single node of a score of at least 0.5.
        image_name: file name of the image.
        model_name: for the metadata.

    Returns:
        The forest with rounded scores, plants numbered from left to right, and stated axes.
    """
    if edge_threshold:
        found = cut_unlikely_edges(found, edge_threshold)
    if not unsure_plants:
        found = drop_unsure_plants(found)
    assert found.node_score is not None
    assert found.edge_score is not None
    stated = found.replace(
        node_score=found.node_score.round(SCORE_DIGITS),
        edge_score=found.edge_score.round(SCORE_DIGITS),
        plant=found.plant_of_node,
        image_name=image_name,
        metadata={"model": model_name},
    )
    return stated.infer_axes(np.where(is_below_base(stated), LEAST_REACH_OF_ROOTS, 0.0))


def is_below_base(skeleton: Skeleton) -> BoolArray:
    """(N,) whether the tree of each node lies, by its length, below the base: whether it is of roots, not of shoots."""
    base = skeleton.nodes[skeleton.component_root, 1][skeleton.component]
    below = (skeleton.nodes[:, 1] - base)[skeleton.edges].mean(axis=1) * skeleton.edge_length
    down: BoolArray = np.bincount(skeleton.component[skeleton.edges[:, 0]], below, len(skeleton.component_root)) > 0
    return down[skeleton.component]


def cut_unlikely_edges(skeleton: Skeleton, min_score: float) -> Skeleton:
    """The forest without the edges below a confidence, and without the nodes that this leaves alone.

    A piece that comes off begins where it was cut off.
    """
    assert skeleton.edge_score is not None
    assert skeleton.node_score is not None
    likely = skeleton.edge_score >= min_score
    edges = skeleton.edges[likely]
    degree = np.bincount(edges.ravel(), minlength=len(skeleton))
    stays = (degree > 0) | (skeleton.degree == 0)
    component = components(edges, len(skeleton))
    first = np.lexsort((skeleton.depth, component))
    base = first[np.unique(component[first], return_index=True)[1]]
    number = np.cumsum(stays) - 1
    return Skeleton(
        skeleton.nodes[stays],
        number[edges],
        root=number[base[stays[base]]],
        node_score=skeleton.node_score[stays],
        edge_score=skeleton.edge_score[likely],
        image_size=skeleton.image_size,
    )


def drop_unsure_plants(skeleton: Skeleton) -> Skeleton:
    """The forest without the trees of which no node is likelier than not: darkness and noise give such trees."""
    assert skeleton.node_score is not None
    return subgraph(skeleton, np.isin(skeleton.component, skeleton.component[skeleton.node_score >= 0.5]))
