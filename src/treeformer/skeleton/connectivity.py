"""Adjacency and connected components of an undirected graph, given as pairs of node indices."""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import IntArray


def adjacency(edges: IntArray, count: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the adjacency of a graph of N nodes in compressed sparse rows (row, to, at), (N+1,), (2E,) and (2E,).

    Node u has the neighbors `to[row[u]:row[u + 1]]` over the edges `at[row[u]:row[u + 1]]`.
    """
    tails = np.concatenate([edges[:, 0], edges[:, 1]])
    heads = np.concatenate([edges[:, 1], edges[:, 0]])
    order = np.argsort(tails, kind="stable")
    row = np.zeros(count + 1, dtype=np.intp)
    np.cumsum(np.bincount(tails, minlength=count), out=row[1:])
    edge = np.concatenate([np.arange(len(edges)), np.arange(len(edges))])
    return row, heads[order], edge[order]


def components(edges: IntArray, count: int) -> IntArray:
    """Return the connected component (N,) of each node, numbered by lowest node index."""
    # Each component takes over the lowest label next to it until none is lower. SciPy's connected_components takes four
    # times as long for the few hundred nodes of a plant, because it builds a sparse matrix.
    label = np.arange(count)
    tail, head = edges[:, 0], edges[:, 1]
    while True:
        tail_label, head_label = label[tail], label[head]
        if (tail_label == head_label).all():
            break
        for side in (tail_label, head_label):
            np.minimum.at(label, side, np.minimum(tail_label, head_label))
        while ((higher := label[label]) != label).any():
            label = higher
    numbers: IntArray = (np.cumsum(label == np.arange(count)) - 1)[label]
    return numbers
