"""Compute the traits of segments, the paths between keypoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeformer.skeleton import Skeleton
from treeformer.traits.lines import Lines

if TYPE_CHECKING:
    import pandas as pd


def segment_table(skeleton: Skeleton) -> pd.DataFrame:
    """Return one row per segment, in px and degrees. `plant`, `axis` (-1 for none) and the end nodes come first.

    A segment is a branch of `Skeleton.branches`. It leads from one keypoint to the next, away from the root.
    Keypoints are nodes of degree ≠ 2, roots, and nodes between two axes. `external` is True if the segment ends in
    a tip.
    """
    import pandas as pd

    branches = skeleton.branches
    start_node, end_node = branches.nodes[branches.first], branches.nodes[branches.last]
    axis = skeleton.edge_axis[branches.edges[branches.first]]
    order = np.full(len(axis), -1, dtype=np.intp)
    order[axis >= 0] = skeleton.axis_order[axis[axis >= 0]]
    lines = Lines(skeleton.nodes[branches.nodes], branches.start)
    return pd.DataFrame(
        {
            "plant": skeleton.plant_of_node[start_node],
            "segment": np.arange(len(axis)),
            "axis": axis,
            "order": order,
            "start_node": start_node,
            "end_node": end_node,
            "external": skeleton.degree[end_node] == 1,
            "length": lines.length,
            "chord_length": lines.chord_length,
            "chord_angle": lines.chord_angle,
            "curve_index": lines.curve_index,
            "tortuosity": lines.tortuosity,
        }
    )
