"""The truth of a batch, padded to one size so that every step has the same shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton


@dataclass
class Targets:
    """Skeletons as tensors; M is the padded number of nodes."""

    points: Tensor  # (B,M,2) px, float32
    mask: Tensor  # (B,M) bool, True = a real node
    adjacency: Tensor  # (B,M,M) bool, symmetric
    root: Tensor  # (B,M) bool; a picture without any root says nothing about roots

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
        for index, skeleton in enumerate(skeletons):
            points[index, : len(skeleton)] = skeleton.nodes
            mask[index, : len(skeleton)] = True
            left, right = skeleton.edges.T
            adjacency[index, left, right] = adjacency[index, right, left] = True
            root[index, skeleton.roots] = True
        return cls(*(torch.from_numpy(array) for array in (points, mask, adjacency, root)))

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Targets:
        """The same on another device."""
        return Targets(*(tensor.to(device, non_blocking=non_blocking) for tensor in self._tensors()))

    def pin_memory(self) -> Targets:
        """The same in page-locked memory, from which a GPU copies without waiting."""
        return Targets(*(tensor.pin_memory() for tensor in self._tensors()))

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Tell the allocator that another stream than the one of the copy uses the memory."""
        for tensor in self._tensors():
            tensor.record_stream(stream)

    def _tensors(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]
