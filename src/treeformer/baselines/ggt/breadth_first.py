"""Breadth-first node order of a graph, in which parents precede their children.

A network can only learn an order that follows from the image alone. The children of a node are therefore sorted from
left to right, and so are the plants of an image, each of which is complete before the next begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch import Tensor

from treeformer.nn.targets import Targets


def sort_breadth_first(targets: Targets) -> Targets:
    """Return the same graphs with their nodes in the order of `breadth_first`. On CUDA this waits for the device."""
    arrays = (targets.points, targets.mask, targets.adjacency, targets.root)
    order = torch.from_numpy(breadth_first(*(array.cpu().numpy() for array in arrays))).to(targets.mask.device)
    return Targets(
        targets.points.gather(1, order[..., None].expand(-1, -1, 2)),
        targets.mask.gather(1, order),
        _permute_square(targets.adjacency, order),
        targets.root.gather(1, order),
    )


def breadth_first(
    points: NDArray[np.float32], mask: NDArray[np.bool_], adjacency: NDArray[np.bool_], root: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the breadth-first order of the nodes of each graph in a batch, (B,M) int64, padding last.

    A component starts at its root: at the leftmost root if it has several, otherwise at its lowest node. Nodes with the
    same x are sorted from top to bottom. Points are (B,M,2) px; `adjacency` (B,M,M) is symmetric and may have cycles;
    padding is False in `mask` (B,M) and `adjacency`.

    Example:
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
    # All graphs are searched as one graph. Its nodes are numbered image by image and from left to right, and neighbors
    # are visited in the order of their numbers.
    left_to_right = np.lexsort((points[..., 1], points[..., 0], ~mask), axis=-1)
    number = np.argsort(left_to_right, axis=1) + size * np.arange(batch)[:, None]
    image, row, column = np.unravel_index(np.flatnonzero(adjacency), adjacency.shape)
    pairs = np.stack([number[image, row], number[image, column]])
    pairs = pairs[:, np.lexsort(pairs[::-1])]
    is_root = np.take_along_axis(root & mask, left_to_right, axis=1).ravel()
    y = np.take_along_axis(points[..., 1], left_to_right, axis=1).ravel()

    _, component = connected_components(_graph(pairs, count), directed=False)
    by_precedence = np.lexsort((np.arange(count), np.where(is_root, 0.0, -y), ~is_root, component))
    component_root = by_precedence[np.unique(component[by_precedence], return_index=True)[1]]
    # A virtual node, from which every component is reached.
    virtual = np.stack([np.full(len(component_root), count), component_root])
    found, _ = breadth_first_order(_graph(np.concatenate([pairs, virtual], axis=1), count + 1), count)
    rank = np.empty(count, np.intp)
    rank[found[1:]] = np.arange(count)
    # Within one component this search visits the nodes in the order of a search of the component alone. The components
    # are sorted by their roots.
    order = np.lexsort((rank, component_root[component])).reshape(batch, size) - size * np.arange(batch)[:, None]
    return np.take_along_axis(left_to_right, order, axis=1).astype(np.int64)


def _graph(pairs: NDArray[np.integer[Any]], count: int) -> csr_array:
    """Return directed pairs (2,P) as a sparse matrix. The pairs of a row are visited in the given order."""
    return csr_array((np.ones(pairs.shape[1], np.int8), (pairs[0], pairs[1])), shape=(count, count))


def _permute_square(square: Tensor, order: Tensor) -> Tensor:
    """Return (B,M,M) with rows and columns in the order (B,M)."""
    rows = square.gather(1, order[:, :, None].expand_as(square))
    return rows.gather(2, order[:, None, :].expand_as(square))
