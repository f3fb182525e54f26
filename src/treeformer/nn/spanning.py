"""Minimum spanning trees and forests of a batch of dense graphs, on the CPU and on CUDA.

`treeformer.decoding.spanning` defines the rules for directions, infinities, NaN and ties; its batched Prim algorithm
runs on the CPU. On CUDA, two Triton kernels return the same trees without waiting for the device. Both are one torch
operator, so `torch.compile` needs no graph break. Nothing here has a gradient: a tree is a discrete choice.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from treeformer.decoding.spanning import spanning_trees
from treeformer.errors import TreeformerError
from treeformer.nn.kernels import spanning as spanning_triton


def minimum_spanning_tree(cost: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the minimum spanning tree of each graph of a batch, or a forest if +inf leaves several components.

    float64 costs on CUDA, and CUDA without Triton, are computed on the CPU, which waits for the device.

    Args:
        cost: (B,N,N) floating point. An undirected edge costs the mean of both directions; +inf or NaN in either
            forbids it. float16 and bfloat16 are compared as float32.
        mask: (B,N) bool, True for a real node; padding gets no edge. None: all nodes are real.

    Returns:
        (B,N,N) bool adjacency, symmetric. Equal costs are ordered by (lower node, higher node), on every device.

    Raises:
        TreeformerError: if a tensor has the wrong shape or type.

    Example:
        >>> cost = torch.tensor([[[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]]])
        >>> minimum_spanning_tree(cost).triu().nonzero()[:, 1:].tolist()
        [[0, 1], [1, 2]]
    """
    mask = _checked_mask(cost, mask)
    tree: Tensor = torch.ops.treeformer.minimum_spanning_tree(cost.detach(), mask)
    return tree


def spanning_forest(cost: Tensor, root_cost: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the cheapest forest of each graph in which every tree has one root, and the roots.

    A virtual node N is connected to every node at the cost of being a root. Removing it from the minimum spanning tree
    leaves one tree per plant. A further plant starts if its root costs less than the edge that would connect it to the
    rest.

    Args:
        cost: (B,N,N), as in `minimum_spanning_tree`.
        root_cost: (B,N); +inf or NaN for a node that may not be a root.
        mask: (B,N) bool, as in `minimum_spanning_tree`.

    Returns:
        adjacency: (B,N,N) bool, symmetric.
        roots: (B,N) bool, one in each tree that has a possible root.

    Raises:
        TreeformerError: if a tensor has the wrong shape or type.

    Example:
        >>> cost = torch.tensor([[[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]]])
        >>> adjacency, roots = spanning_forest(cost, torch.tensor([[4.0, 5.0, 6.0]]))
        >>> adjacency.triu().nonzero()[:, 1:].tolist(), roots.tolist()
        ([[0, 1]], [[True, False, True]])
    """
    mask = _checked_mask(cost, mask)
    if root_cost.shape != cost.shape[:2]:
        raise TreeformerError(f"root_cost has shape {tuple(root_cost.shape)}, expected {tuple(cost.shape[:2])}")
    root_cost = root_cost.to(cost.dtype)
    with_root = torch.nn.functional.pad(cost.detach(), (0, 1, 0, 1))
    with_root[:, :-1, -1] = with_root[:, -1, :-1] = root_cost.detach()
    tree = minimum_spanning_tree(with_root, torch.nn.functional.pad(mask, (0, 1), value=True))
    return tree[:, :-1, :-1].contiguous(), tree[:, :-1, -1].contiguous()


def check_bool(name: str, tensor: Tensor, shape: Sequence[int]) -> None:
    """Raise `TreeformerError` if a mask is not bool or has another shape.

    Integers would pass silently: `~` of an integer is another integer.
    """
    if tensor.shape != torch.Size(shape) or tensor.dtype != torch.bool:
        raise TreeformerError(f"{name} is {tensor.dtype} {tuple(tensor.shape)}, expected torch.bool {tuple(shape)}")


def _checked_mask(cost: Tensor, mask: Tensor | None) -> Tensor:
    """Check cost (B,N,N) and mask (B,N); return the mask, all True if it is None."""
    if cost.ndim != 3 or cost.shape[1] != cost.shape[2] or not cost.is_floating_point():
        raise TreeformerError(f"cost is {cost.dtype} {tuple(cost.shape)}, expected floating point (B, N, N)")
    if mask is None:
        return torch.ones(cost.shape[:2], dtype=torch.bool, device=cost.device)
    check_bool("mask", mask, cost.shape[:2])
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


def _fake_minimum_spanning_tree(cost: Tensor, mask: Tensor) -> Tensor:
    return cost.new_empty(cost.shape, dtype=torch.bool)


torch.library.register_fake("treeformer::minimum_spanning_tree", _fake_minimum_spanning_tree)
