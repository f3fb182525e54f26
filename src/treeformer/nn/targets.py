"""The ground truth of a batch as tensors, padded to one size so that every training step has the same shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import TreeformerError
from treeformer.nn.center_line import line_pieces
from treeformer.skeleton import Skeleton

# Kinds of axes by the labels of the vine preset; for other labels the order of the axis is its kind.
KINDS = {"trunk": 0, "arm": 1, "cane": 2, "side shoot": 3}
FRAME_PX = 1.0  # a node nearer to the frame lies on it
MIN_PIECES, PIECES_PER_NODE = 256, 8  # rows for the pieces of curves: 32 px per node, and some more


@dataclass
class Targets:
    """Skeletons as tensors; M is the padded number of nodes.

    Attributes:
        points: (B,M,2) px, float32.
        mask: (B,M) bool, True for a real node.
        adjacency: (B,M,M) bool, symmetric.
        root: (B,M) bool. An image without any root gives no information about roots.
        parent: (B,M) int64, the parent of each node; −1 for the root of a component, in padding and in cycles.
        kind: (B,M) int64, from 0: the kind of the axis that leads from the parent to the node.
        radius: (B,M) px, float32; NaN if unknown and in padding.
        direction: (B,M,2) float32, unit vector from each node to its parent; NaN at a root, in padding, and in a
            component without a root.
        at_frame: (B,M) bool, True for a node at the frame of the view, where a branch may have been cut.
        lines: (B,K,4) px, float32: pieces of the curves, see `treeformer.nn.center_line`; NaN in padding.
    """

    points: Tensor
    mask: Tensor
    adjacency: Tensor
    root: Tensor
    parent: Tensor | None = None
    kind: Tensor | None = None
    radius: Tensor | None = None
    direction: Tensor | None = None
    at_frame: Tensor | None = None
    lines: Tensor | None = None

    @classmethod
    def from_skeletons(
        cls, skeletons: Sequence[Skeleton], size: int | None = None, curves: Sequence[Skeleton | None] = ()
    ) -> Targets:
        """Build the targets of a batch.

        Args:
            skeletons: one skeleton per image.
            size: number of nodes after padding. None: that of the largest skeleton.
            curves: the skeletons before nodes between keypoints were left out, so that their edges follow the curves;
                none or None if they are the same.

        Returns:
            The targets.

        Raises:
            TreeformerError: if a skeleton has more than `size` nodes.

        Example:
            >>> line = Skeleton([(0, 0), (3, 4)], [(0, 1)], root=0)
            >>> Targets.from_skeletons([line], size=3).mask.tolist()
            [[True, True, False]]
        """
        largest = max((len(skeleton) for skeleton in skeletons), default=0)
        size = largest if size is None else size
        if largest > size:
            raise TreeformerError(f"a skeleton has {largest} nodes, expected at most {size}")
        points = np.zeros((len(skeletons), size, 2), np.float32)
        mask = np.zeros((len(skeletons), size), bool)
        adjacency = np.zeros((len(skeletons), size, size), bool)
        root = np.zeros((len(skeletons), size), bool)
        parent = np.full((len(skeletons), size), -1)
        kind = np.zeros((len(skeletons), size), np.int64)
        radius = np.full((len(skeletons), size), np.nan, np.float32)
        direction = np.full((len(skeletons), size, 2), np.nan, np.float32)
        at_frame = np.zeros((len(skeletons), size), bool)
        limit = MIN_PIECES + PIECES_PER_NODE * size
        lines = np.empty((len(skeletons), limit, 4), np.float32)
        for index, skeleton in enumerate(skeletons):
            points[index, : len(skeleton)] = skeleton.nodes
            mask[index, : len(skeleton)] = True
            left, right = skeleton.edges.T
            adjacency[index, left, right] = adjacency[index, right, left] = True
            root[index, skeleton.roots] = True
            if skeleton.is_forest:
                parent[index, : len(skeleton)] = skeleton.parents
                kind[index, : len(skeleton)] = node_kinds(skeleton)
                direction[index, : len(skeleton)] = parent_directions(skeleton)
            if skeleton.radius is not None:
                radius[index, : len(skeleton)] = skeleton.radius
            if skeleton.image_size is not None:
                inner = np.minimum(skeleton.nodes, skeleton.image_size - skeleton.nodes)
                at_frame[index, : len(skeleton)] = (inner < FRAME_PX).any(axis=1)
            curve = curves[index] if curves else None
            lines[index] = line_pieces(skeleton if curve is None else curve, limit)
        arrays = (points, mask, adjacency, root, parent, kind, radius, direction, at_frame, lines)
        return cls(*(torch.from_numpy(array) for array in arrays))

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Targets:
        """Return a copy on another device.

        Args:
            device: the device.
            non_blocking: do not wait for the copy, as in `torch.Tensor.to`.

        Returns:
            The targets on that device.
        """
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Targets:
        """Return a copy in page-locked memory, from which a GPU copies without waiting."""
        return self._map(lambda tensor: tensor.pin_memory())

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Mark the memory as used by another stream than the one that copied it, for the allocator."""
        for tensor in self._tensors():
            if tensor is not None:
                tensor.record_stream(stream)

    def clone(self) -> Targets:
        """Return a copy."""
        return self._map(lambda tensor: tensor.clone())

    def copy_(self, other: Targets) -> None:
        """Copy the values of targets of the same shapes into these tensors."""
        for own, given in zip(self._tensors(), other._tensors(), strict=True):
            if own is not None and given is not None:
                own.copy_(given)

    def _map(self, function: Callable[[Tensor], Tensor]) -> Targets:
        """Apply a function to every tensor."""
        changed: list[Any] = [None if tensor is None else function(tensor) for tensor in self._tensors()]
        return Targets(*changed)

    def _tensors(self) -> list[Tensor | None]:
        return [getattr(self, field.name) for field in fields(self)]


def parent_directions(forest: Skeleton) -> FloatArray:
    """Return the unit vector from each node of a forest to its parent, (N,2).

    It is NaN at component roots, for nodes at the place of their parent, and in components without a root, because the
    side from which they grow is unknown.

    Example:
        >>> parent_directions(Skeleton([(0, 0), (3, 4)], [(0, 1)], root=0)).round(3).tolist()
        [[nan, nan], [-0.6, -0.8]]
    """
    parents = forest.parents
    has_root = np.isin(forest.component_root, forest.roots)[forest.component]
    step = np.where(((parents >= 0) & has_root)[:, None], forest.nodes[parents] - forest.nodes, np.nan)
    length = np.hypot(step[:, 0], step[:, 1])[:, None]
    direction: FloatArray = step / np.where(length > 0, length, np.nan)
    return direction


def node_kinds(skeleton: Skeleton) -> IntArray:
    """Return the kind of the axis that leads to each node of a forest, (N,).

    It is 0 at component roots and if the skeleton has no explicit axes.

    Example:
        >>> from treeformer import synthetic
        >>> sorted(set(node_kinds(synthetic.generate("vine", 3)).tolist()))
        [0, 1, 2, 3]
    """
    if not skeleton.has_explicit_axes:
        return np.zeros(len(skeleton), np.intp)
    orders = skeleton.axis_order.tolist()
    kinds = [KINDS.get(axis.label, order) for axis, order in zip(skeleton.axes, orders, strict=True)]
    axis_of_edge = np.append(skeleton.edge_axis, -1)  # the last one is for nodes without an edge to a parent
    result: IntArray = np.asarray([*kinds, 0])[axis_of_edge[skeleton.traversal.edge]]
    return result
