"""Minimum spanning trees and forests of a batch of dense graphs, on the CPU and on CUDA.

The rules for directions, infinities, NaN and ties stand in `treeformer.decoding.spanning`, whose batched Prim is what runs on
the CPU. On CUDA two Triton kernels give the same trees without waiting for the device. Both are one operator to torch,
so `torch.compile` passes through it without a break. Nothing here has a gradient: a tree is a discrete choice.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from treeformer.decoding.spanning import spanning_trees
from treeformer.errors import TreeformerError
from treeformer.nn.kernels import spanning as spanning_triton


def minimum_spanning_tree(cost: Tensor, mask: Tensor | None = None) -> Tensor:
    """The minimum spanning tree of each graph of a batch, or a forest where +inf leaves several pieces.

    Args:
        cost: (B,N,N) floating point. An undirected edge costs the mean of both directions; +inf or NaN in either
            forbids it. float16 and bfloat16 are compared as float32.
        mask: (B,N) bool, True for a real node; padding gets no edge. None: all are real.

    Returns:
        (B,N,N) bool adjacency, symmetric. Equal costs are ordered by (lower node, higher node), on every device.

    float64 on CUDA, and CUDA without Triton, take the way over the CPU, which waits for the device.

    >>> cost = torch.tensor([[[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]]])
    >>> minimum_spanning_tree(cost).triu().nonzero()[:, 1:].tolist()
    [[0, 1], [1, 2]]
    """
    mask = _checked(cost, mask)
    tree: Tensor = torch.ops.treeformer.minimum_spanning_tree(cost.detach(), mask)
    return tree


def spanning_forest(cost: Tensor, root_cost: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The cheapest forest of each graph in which every tree has one root, and the roots.

    A virtual node, numbered N, is joined to every node at the cost of being a root; dropping it from the minimum
    spanning tree leaves one tree a plant. A further plant begins where a root costs less than the edge that would tie
    it to the rest.

    Args:
        cost: (B,N,N), mask: (B,N) as in `minimum_spanning_tree`.
        root_cost: (B,N); +inf or NaN for a node that may not be a root.

    Returns:
        adjacency (B,N,N) bool; roots (B,N) bool, one in each tree that has a possible root.

    >>> cost = torch.tensor([[[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]]])
    >>> adjacency, roots = spanning_forest(cost, torch.tensor([[4.0, 5.0, 6.0]]))
    >>> adjacency.triu().nonzero()[:, 1:].tolist(), roots.tolist()
    ([[0, 1]], [[True, False, True]])
    """
    mask = _checked(cost, mask)
    if root_cost.shape != cost.shape[:2]:
        raise TreeformerError(f"root_cost is {tuple(root_cost.shape)}, {tuple(cost.shape[:2])} is needed")
    root_cost = root_cost.to(cost.dtype)
    joined = torch.nn.functional.pad(cost.detach(), (0, 1, 0, 1))
    joined[:, :-1, -1] = joined[:, -1, :-1] = root_cost.detach()
    tree = minimum_spanning_tree(joined, torch.nn.functional.pad(mask, (0, 1), value=True))
    return tree[:, :-1, :-1].contiguous(), tree[:, :-1, -1].contiguous()


def need_bool(name: str, given: Tensor, shape: Sequence[int]) -> None:
    """An error where a tensor is not bool or not of this shape; `~` of whole numbers would pass, and be wrong."""
    if given.shape != torch.Size(shape) or given.dtype != torch.bool:
        raise TreeformerError(f"{name} is {given.dtype} {tuple(given.shape)}, bool {tuple(shape)} is needed")


def _checked(cost: Tensor, mask: Tensor | None) -> Tensor:
    """The mask (B,N), all True where none is given; an error where it or the cost (B,N,N) cannot be."""
    if cost.ndim != 3 or cost.shape[1] != cost.shape[2] or not cost.is_floating_point():
        raise TreeformerError(f"cost is {cost.dtype} {tuple(cost.shape)}, floating point (B, N, N) is needed")
    if mask is None:
        return torch.ones(cost.shape[:2], dtype=torch.bool, device=cost.device)
    need_bool("mask", mask, cost.shape[:2])
    return mask


# `torch.library.custom_op` would be shorter, but its first call imports the compiler, which takes seconds.
torch.library.define("treeformer::minimum_spanning_tree", "(Tensor cost, Tensor mask) -> Tensor")


@torch.library.impl("treeformer::minimum_spanning_tree", "default")
def _minimum_spanning_tree(cost: Tensor, mask: Tensor) -> Tensor:
    if cost.is_cuda and spanning_triton.can_span(cost):
        return spanning_triton.minimum_spanning_tree(cost, mask)
    wide = cost if cost.dtype == torch.float64 else cost.float()
    tree = spanning_trees(wide.cpu().numpy(), mask.cpu().numpy())
    return torch.from_numpy(tree).to(cost.device)


@torch.library.register_fake("treeformer::minimum_spanning_tree")
def _shape_of_the_trees(cost: Tensor, mask: Tensor) -> Tensor:
    return cost.new_empty(cost.shape, dtype=torch.bool)
