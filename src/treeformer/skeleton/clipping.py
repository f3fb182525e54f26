"""Clip a graph to a rectangular frame.

Nodes are (N,2) px, edges (E,2). The border of the frame is inside.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer.skeleton.resampling import Resampling


def inside(nodes: FloatArray, left: float, top: float, right: float, bottom: float) -> BoolArray:
    """Return which nodes (N,) are inside a frame."""
    x, y = nodes[:, 0], nodes[:, 1]
    is_inside: BoolArray = (x >= left) & (x <= right) & (y >= top) & (y <= bottom)
    return is_inside


def clip(nodes: FloatArray, edges: IntArray, left: float, top: float, right: float, bottom: float) -> Resampling:
    """Clip a graph to a frame, with a new node wherever an edge crosses it: first the nodes inside, then the new ones.

    This is the Liang-Barsky algorithm on all edges at once.
    """
    a, b = nodes[edges[:, 0]], nodes[edges[:, 1]]
    along = b - a
    enter, leave = np.zeros(len(edges)), np.ones(len(edges))
    for axis, (low, high) in enumerate(((left, right), (top, bottom))):
        for sign, bound in ((1.0, low), (-1.0, -high)):
            slope = sign * along[:, axis]
            gap = bound - sign * a[:, axis]  # inside if sign·x >= bound
            with np.errstate(divide="ignore", invalid="ignore"):
                t = gap / slope
            enter = np.where(slope > 0, np.maximum(enter, t), enter)
            leave = np.where(slope < 0, np.minimum(leave, t), leave)
            enter = np.where((slope == 0) & (gap > 0), np.inf, enter)
    is_inside = inside(nodes, left, top, right, bottom)
    # Rounding must not move an end that is inside, nor keep one that is outside.
    enter = np.where(is_inside[edges[:, 0]], 0.0, enter)
    leave = np.where(is_inside[edges[:, 1]], 1.0, leave)
    kept = np.flatnonzero(enter < leave)
    old = np.flatnonzero(is_inside)
    new_index = np.full(len(nodes), -1, dtype=np.intp)
    new_index[old] = np.arange(len(old))
    tail, head = new_index[edges[kept, 0]], new_index[edges[kept, 1]]
    cut_tail, cut_head = kept[tail < 0], kept[head < 0]
    tail[tail < 0] = len(old) + np.arange(len(cut_tail))
    head[head < 0] = len(old) + len(cut_tail) + np.arange(len(cut_head))
    return Resampling(
        np.concatenate([old, edges[cut_tail, 0], edges[cut_head, 0]]),
        np.concatenate([old, edges[cut_tail, 1], edges[cut_head, 1]]),
        np.concatenate([np.zeros(len(old)), enter[cut_tail], leave[cut_head]]),
        np.stack([tail, head], axis=1),
        kept,
    )
