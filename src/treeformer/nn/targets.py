"""The ground truth of a batch, padded to one size so that every step has the same shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from treeformer._util.arrays import IntArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton

# Kinds of axes that an image shows, by the labels of the vine preset; an axis of another label counts by its order.
KINDS = {"trunk": 0, "arm": 1, "cane": 2, "side shoot": 3}


@dataclass
class Targets:
    """Skeletons as tensors; M is the padded number of nodes."""

    points: Tensor  # (B,M,2) px, float32
    mask: Tensor  # (B,M) bool, True = a real node
    adjacency: Tensor  # (B,M,M) bool, symmetric
    root: Tensor  # (B,M) bool; an image without any root says nothing about roots
    parent: Tensor | None = None  # (B,M) int64, the node's parent, −1 at the base of a plant, in padding and in cycles
    kind: Tensor | None = None  # (B,M) int64, from 0 on: the kind of axis on which the way from the parent runs

    @classmethod
    def from_skeletons(cls, skeletons: Sequence[Skeleton], size: int | None = None) -> Targets:
        """Pad to `size` nodes, by default to as many as the largest skeleton has.

        >>> line = Skeleton([(0, 0), (3, 4)], [(0, 1)], root=0)
        >>> Targets.from_skeletons([line], size=3).mask.tolist()
        [[True, True, False]]
        """
        largest = max((len(skeleton) for skeleton in skeletons), default=0)
        size = largest if size is None else size
        if largest > size:
            raise TreeformerError(f"a skeleton of {largest} nodes where at most {size} are provided for")
        points = np.zeros((len(skeletons), size, 2), np.float32)
        mask = np.zeros((len(skeletons), size), bool)
        adjacency = np.zeros((len(skeletons), size, size), bool)
        root = np.zeros((len(skeletons), size), bool)
        parent = np.full((len(skeletons), size), -1)
        kind = np.zeros((len(skeletons), size), np.int64)
        for index, skeleton in enumerate(skeletons):
            points[index, : len(skeleton)] = skeleton.nodes
            mask[index, : len(skeleton)] = True
            left, right = skeleton.edges.T
            adjacency[index, left, right] = adjacency[index, right, left] = True
            root[index, skeleton.roots] = True
            if skeleton.is_forest:
                parent[index, : len(skeleton)] = skeleton.parents
                kind[index, : len(skeleton)] = node_kinds(skeleton)
        return cls(*(torch.from_numpy(array) for array in (points, mask, adjacency, root, parent, kind)))

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Targets:
        """The same on another device."""
        return Targets(*(t if t is None else t.to(device, non_blocking=non_blocking) for t in self._tensors()))

    def pin_memory(self) -> Targets:
        """The same in page-locked memory, from which a GPU copies without waiting."""
        return Targets(*(t if t is None else t.pin_memory() for t in self._tensors()))

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Tell the allocator that another stream than the one of the copy uses the memory."""
        for tensor in self._tensors():
            if tensor is not None:
                tensor.record_stream(stream)

    def clone(self) -> Targets:
        """The same in memory of its own."""
        return Targets(*(t if t is None else t.clone() for t in self._tensors()))

    def copy_(self, other: Targets) -> None:
        """Take over the values of targets of the same shapes."""
        for own, given in zip(self._tensors(), other._tensors(), strict=True):
            if own is not None and given is not None:
                own.copy_(given)

    def _tensors(self) -> list[Tensor | None]:
        return [getattr(self, field.name) for field in fields(self)]


def node_kinds(skeleton: Skeleton) -> IntArray:
    """(N,) the kind of the axis that leads to each node of a forest, 0 at bases and where a file gave no axes.

    >>> from treeformer import synthetic
    >>> sorted(set(node_kinds(synthetic.generate("vine", 3)).tolist()))
    [0, 1, 2, 3]
    """
    if not skeleton.has_explicit_axes:
        return np.zeros(len(skeleton), np.intp)
    orders = skeleton.axis_order.tolist()
    kinds = [KINDS.get(axis.label, order) for axis, order in zip(skeleton.axes, orders, strict=True)]
    axis_of_edge = np.append(skeleton.edge_axis, -1)  # the last one is for nodes without an edge to a parent
    return np.asarray([*kinds, 0])[axis_of_edge[skeleton.walk.edge]]
