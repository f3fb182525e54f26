"""The order in which a graph is told, node by node: breadth-first from the roots, so that parents come before children.

The order must follow from the image alone, or nobody could learn it: the children of a node are told from left to
right, and so are the plants of an image, each to its end before the next.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch import Tensor

from treeformer.nn.targets import Targets


def told_in_order(targets: Targets) -> Targets:
    """The same graphs with their nodes in the order of `breadth_first`; on CUDA it waits for the device."""
    arrays = (targets.points, targets.mask, targets.adjacency, targets.root)
    order = torch.from_numpy(breadth_first(*(array.cpu().numpy() for array in arrays))).to(targets.mask.device)
    return Targets(
        targets.points.gather(1, order[..., None].expand(-1, -1, 2)),
        targets.mask.gather(1, order),
        _gathered_square(targets.adjacency, order),
        targets.root.gather(1, order),
    )


def breadth_first(
    points: NDArray[np.float32], mask: NDArray[np.bool_], adjacency: NDArray[np.bool_], root: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The nodes of each graph of a batch in breadth-first order, padding last.

    A piece of a graph begins at its root; at the leftmost, where it has several; at its lowest node, where it has none.
    Nodes with the same x are ordered from top to bottom.

    Args:
        points: (B,M,2) px.
        mask: (B,M) bool, True for a real node.
        adjacency: (B,M,M) bool, symmetric, False for padding; cycles are allowed.
        root: (B,M) bool.

    Returns:
        (B,M) int64, a permutation of each graph's nodes.

    >>> points = np.array([[(5, 9), (8, 1), (5, 5), (2, 1)]], np.float32)
    >>> adjacency = np.zeros((1, 4, 4), bool)
    >>> adjacency[0, [0, 2, 2, 1, 2, 3], [2, 0, 1, 2, 3, 2]] = True
    >>> breadth_first(points, np.ones((1, 4), bool), adjacency, np.array([[True, False, False, False]])).tolist()
    [[0, 2, 3, 1]]
    """
    batch, size = mask.shape
    count = batch * size
    if count == 0:
        return np.zeros((batch, size), np.int64)
    # All graphs are one, with its nodes numbered image by image and from left to right: one search serves them all,
    # and neighbors come in the order of their numbers.
    rightwards = np.lexsort((points[..., 1], points[..., 0], ~mask), axis=-1)
    number = np.argsort(rightwards, axis=1) + size * np.arange(batch)[:, None]
    image, row, column = np.unravel_index(np.flatnonzero(adjacency), adjacency.shape)
    pairs = np.stack([number[image, row], number[image, column]])
    pairs = pairs[:, np.lexsort(pairs[::-1])]
    is_root = np.take_along_axis(root & mask, rightwards, axis=1).ravel()
    depth_px = np.take_along_axis(points[..., 1], rightwards, axis=1).ravel()

    _, component = connected_components(_graph(pairs, count), directed=False)
    by_claim = np.lexsort((np.arange(count), np.where(is_root, 0.0, -depth_px), ~is_root, component))
    component_root = by_claim[np.unique(component[by_claim], return_index=True)[1]]
    outside = np.stack(
        [np.full(len(component_root), count), component_root]
    )  # a virtual node from which every piece is reached
    found, _ = breadth_first_order(_graph(np.concatenate([pairs, outside], axis=1), count + 1), count)
    rank = np.empty(count, np.intp)
    rank[found[1:]] = np.arange(count)
    # A search restricted to one piece is the search of that piece; the pieces follow each other by their bases.
    told = np.lexsort((rank, component_root[component])).reshape(batch, size) - size * np.arange(batch)[:, None]
    return np.take_along_axis(rightwards, told, axis=1).astype(np.int64)


def _graph(pairs: NDArray[np.int64], count: int) -> csr_array:
    """Directed pairs (2,P), each row's in the order in which they are to be followed."""
    return csr_array((np.ones(pairs.shape[1], np.int8), (pairs[0], pairs[1])), shape=(count, count))


def _gathered_square(square: Tensor, order: Tensor) -> Tensor:
    """(B,M,M) with rows and columns in a new order (B,M)."""
    rows = square.gather(1, order[:, :, None].expand_as(square))
    return rows.gather(2, order[:, None, :].expand_as(square))
