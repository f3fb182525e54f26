"""The scores of a predicted skeleton in RSML, which knows a confidence per axis only."""

from __future__ import annotations

from treeformer.skeleton import Skeleton

CONFIDENCE = "software-confidence"
"""Property of an axis: the mean score of its edges or nodes."""


def has_scores(skeleton: Skeleton) -> bool:
    """Return True if a skeleton has scores, of its nodes or edges or, from RSML, of its axes. Predictions have."""
    if skeleton.edge_score is not None or skeleton.node_score is not None:
        return True
    return any(CONFIDENCE in axis.properties for axis in skeleton.axes)
