"""Branches: the paths between a graph's keypoints.

Edges are (E,2) node indices, `count` is the number of nodes, and masks of nodes are (N,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import BoolArray, IntArray
from treeformer.skeleton.connectivity import adjacency


@dataclass(frozen=True)
class Branches:
    """All branches of a graph, stored one after another. P is the number of points of all branches, B of branches."""

    nodes: IntArray  # (P,) along each branch, both end nodes included; branch k is `nodes[start[k]:start[k + 1]]`
    edges: IntArray  # (P,) edge between `nodes[p]` and `nodes[p + 1]`, -1 at the last point of each branch
    start: IntArray  # (B+1,) position of each branch's first point; the last entry is P

    @property
    def first(self) -> IntArray:
        """Position of each branch's first point, (B,)."""
        return self.start[:-1]

    @property
    def last(self) -> IntArray:
        """Position of each branch's last point, (B,)."""
        return self.start[1:] - 1


def changes_at(value: IntArray, edges: IntArray, count: int) -> BoolArray:
    """Return True (N,) for the nodes whose edges (E,2) do not all have the same value (E,)."""
    low = np.full(count, np.iinfo(np.intp).max)
    high = np.full(count, np.iinfo(np.intp).min)
    for side in (0, 1):
        np.minimum.at(low, edges[:, side], value)
        np.maximum.at(high, edges[:, side], value)
    differ: BoolArray = low < high
    return differ


def trace(edges: IntArray, count: int, is_keypoint: BoolArray, traversal: list[int] | None = None) -> Branches:
    """Trace every branch from keypoint to keypoint, each edge once. All nodes but keypoints have degree 2.

    Branches begin at the nodes in the order of `traversal`, by default ascending, and so run away from the first ones.
    Components without a keypoint (closed rings) are cut open at their lowest node.
    """
    row_, to_, at_ = adjacency(edges, count)
    row, to, at = row_.tolist(), to_.tolist(), at_.tolist()
    ends_branch = is_keypoint.tolist()
    used = [False] * len(edges)
    nodes: list[int] = []
    branch_edges: list[int] = []
    start = [0]

    def follow(origin: int) -> None:
        for slot in range(row[origin], row[origin + 1]):
            if used[at[slot]]:
                continue
            node, step = origin, slot
            while True:
                nodes.append(node)
                branch_edges.append(at[step])
                used[at[step]] = True
                node = to[step]
                if ends_branch[node] or node == origin:
                    break
                # An inner node has two edges: leave by the one it was not entered by.
                step = row[node] if at[row[node]] != at[step] else row[node] + 1
            nodes.append(node)
            branch_edges.append(-1)
            start.append(len(nodes))

    for node in traversal if traversal is not None else range(count):
        if ends_branch[node]:
            follow(node)
    for node in np.unique(edges[~np.asarray(used, dtype=bool)]).tolist():
        follow(node)
    return Branches(*(np.asarray(a, dtype=np.intp) for a in (nodes, branch_edges, start)))


def cycle_breakers(branches: Branches) -> IntArray:
    """Return the inner nodes that must be kept so that no branch shrinks to a loop or to a duplicate edge."""
    first, last = branches.nodes[branches.first], branches.nodes[branches.last]
    steps = branches.last - branches.first
    loop = np.flatnonzero(first == last)
    origin = branches.first[loop]
    keep = [branches.nodes[origin + third * steps[loop] // 3] for third in range(3)]
    pair = np.stack([np.minimum(first, last), np.maximum(first, last)], axis=1)
    _, index, size = np.unique(pair, axis=0, return_inverse=True, return_counts=True)
    parallel = np.flatnonzero((size[index.ravel()] > 1) & (steps > 1) & (first != last))
    keep.append(branches.nodes[branches.first[parallel] + steps[parallel] // 2])
    return np.unique(np.concatenate(keep))
