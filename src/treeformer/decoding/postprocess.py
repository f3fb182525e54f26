"""Post-process a decoded forest: calibrate scores, cut edges, drop what is unsure, number plants, infer axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from treeformer._util.arrays import BoolArray
from treeformer.decoding.calibration import EdgeCalibration, calibrate
from treeformer.decoding.doubtful import SURE, revise_doubtful_branches
from treeformer.skeleton import Skeleton
from treeformer.skeleton.attribute_transfer import subgraph
from treeformer.skeleton.connectivity import components

# Coordinates are rounded to a hundredth of a pixel and scores to four digits: the network sums batches in different
# orders, and the results differ by less than that.
PLACE_DIGITS, SCORE_DIGITS = 2, 4
# `min_reach_fraction` for root systems: without it, a predicted main root would end at the first lateral that is better
# aligned with it (benchmarks/predicted_axes.py).
MIN_REACH_FRACTION_OF_ROOTS = 1 / 3


def postprocess(
    found: Skeleton,  # with scores, in px of the original image
    *,
    edge_threshold: float = 0.0,  # edges with a lower score, after calibration, are cut; 0 keeps all
    unsure_plants: bool = False,  # keep plants and doubtful branches without any node of score 0.5 or higher
    single_plant: bool = False,  # do not separate doubtful branches from a plant
    calibration: EdgeCalibration | None = None,  # None keeps the network's scores
    low_confidence: float | None = None,  # edges with a lower score, after calibration, are doubtful; None if unknown
    bend: Callable[[Skeleton], Skeleton] | None = None,  # replaces straight edges by curves; None keeps them
    image_name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Skeleton:
    """Turn a decoded forest into the skeleton that users get.

    It has rounded scores, plants numbered from left to right, and explicit axes.
    """
    if calibration is not None:
        found = calibrate_edges(found, calibration)
    if edge_threshold:
        found = cut_unlikely_edges(found, edge_threshold)
    if not unsure_plants:
        if calibration is not None and low_confidence is not None:
            found = revise_doubtful_branches(found, low_confidence, single_plant=single_plant)
        found = drop_unsure_plants(found)
    if bend is not None:
        found = bend(found)
    assert found.node_score is not None
    assert found.edge_score is not None
    rounded = found.replace(
        node_score=found.node_score.round(SCORE_DIGITS),
        edge_score=found.edge_score.round(SCORE_DIGITS),
        radius=None if found.radius is None else found.radius.round(PLACE_DIGITS),
        image_name=image_name,
        metadata=metadata,
    )
    return with_plants_and_axes(rounded)


def with_plants_and_axes(forest: Skeleton) -> Skeleton:
    """Give a predicted forest explicit axes and one plant per component.

    Plants that it has keep their numbers, others are numbered from left to right.
    """
    numbered = forest.replace(plant=forest.plant_of_node)
    return numbered.infer_axes(np.where(is_below_base(numbered), MIN_REACH_FRACTION_OF_ROOTS, 0.0))


def calibrate_edges(skeleton: Skeleton, coefficients: EdgeCalibration) -> Skeleton:
    """Replace the network's edge scores of a forest by calibrated ones."""
    assert skeleton.edge_score is not None
    assert skeleton.node_score is not None
    least = skeleton.node_score[skeleton.edges].min(axis=1)
    return skeleton.replace(edge_score=calibrate(skeleton.edge_score, least, coefficients))


def is_below_base(skeleton: Skeleton) -> BoolArray:
    """Return (N,) True for the nodes of components that lie mostly, by length, below their root: roots, not shoots."""
    base = skeleton.nodes[skeleton.component_root, 1][skeleton.component]
    height = skeleton.nodes[:, 1] - base
    below = (height[skeleton.edges[:, 0]] + height[skeleton.edges[:, 1]]) / 2 * skeleton.edge_length
    component_of_edge = skeleton.component[skeleton.edges[:, 0]]
    points_down: BoolArray = np.bincount(component_of_edge, below, len(skeleton.component_root)) > 0
    return points_down[skeleton.component]


def cut_unlikely_edges(skeleton: Skeleton, min_score: float) -> Skeleton:
    """Remove edges of a forest with a score below `min_score`, and the nodes that this leaves without an edge.

    The root of a component that is cut off is the node where it was cut.
    """
    assert skeleton.edge_score is not None
    assert skeleton.node_score is not None
    is_likely = skeleton.edge_score >= min_score
    edges = skeleton.edges[is_likely]
    degree = np.bincount(edges.ravel(), minlength=len(skeleton))
    keep = (degree > 0) | (skeleton.degree == 0)
    component = components(edges, len(skeleton))
    by_depth = np.lexsort((skeleton.depth, component))
    root = by_depth[np.unique(component[by_depth], return_index=True)[1]]
    new_index = np.cumsum(keep) - 1
    return Skeleton(
        skeleton.nodes[keep],
        new_index[edges],
        root=new_index[root[keep[root]]],
        node_score=skeleton.node_score[keep],
        edge_score=skeleton.edge_score[is_likely],
        radius=None if skeleton.radius is None else skeleton.radius[keep],
        image_size=skeleton.image_size,
    )


def drop_unsure_plants(skeleton: Skeleton) -> Skeleton:
    """Remove components without any node of score 0.5 or higher; dark and noisy images yield such components."""
    assert skeleton.node_score is not None
    is_sure = np.zeros(len(skeleton.component_root), dtype=bool)
    is_sure[skeleton.component[skeleton.node_score >= SURE]] = True
    return subgraph(skeleton, is_sure[skeleton.component])
