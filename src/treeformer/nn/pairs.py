"""Gathers between nodes and pairs of nodes, whose gradients are gathers too.

The gradient of `index_select` adds rows by atomic operations: the gradients of about a hundred pairs into one node.
Here every row of a gradient collects the pairs that belong to it instead. This reads each number twice, but never
waits for another thread, and the order of the sum is fixed. `torch.compile` fuses the gather and the sum.

`first` and `second` (P,) are i and j > i of each pair. `pair_of` (N,N) is 1 + the index of the pair, 0 on the diagonal;
see `treeformer.nn.relation.node_pairs`. Values are (B,N,C) per node, (B,P,C) per pair and (B,N,N,C) as a matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def expand_pairs(pairs: Tensor, pair_of: Tensor) -> Tensor:
    """Expand values of unordered pairs to a symmetric matrix, 0 on the diagonal."""
    # Row 0 belongs to the diagonal.
    rows = functional.pad(pairs, (0, 0, 1, 0)).index_select(1, pair_of.flatten())
    return rows.view(pairs.shape[0], *pair_of.shape, pairs.shape[-1])


class _CombineEnds(torch.autograd.Function):
    """values[first] + sign · values[second]."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, first: Tensor, second: Tensor, pair_of: Tensor, sign: float) -> Tensor:
        ctx.save_for_backward(pair_of)
        ctx.sign = sign
        return values.index_select(1, first) + sign * values.index_select(1, second)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        (pair_of,) = ctx.saved_tensors
        matrix = expand_pairs(gradients[0], pair_of)  # [i, j]: the gradient of the pair of i and j
        if ctx.sign < 0:  # the pair counts as it is for its first node, the smaller one, and negative for the other
            node = torch.arange(pair_of.shape[0], device=pair_of.device)
            matrix = matrix * (1 - 2 * (node[:, None] > node).to(matrix.dtype))[..., None]
        return matrix.sum(2), None, None, None, None


class _BothDirections(torch.autograd.Function):
    """matrix[first, second] and matrix[second, first]."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, first: Tensor, second: Tensor, pair_of: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(pair_of)
        count = pair_of.shape[0]
        cells = matrix.flatten(1, 2)
        return cells.index_select(1, first * count + second), cells.index_select(1, second * count + first)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (pair_of,) = ctx.saved_tensors
        forward, backward = gradients
        node = torch.arange(pair_of.shape[0], device=pair_of.device)
        is_second = (node[:, None] > node).to(pair_of.dtype)
        # Rows: 0 for the diagonal, then the pairs from the smaller to the larger node, then the others.
        row = pair_of + is_second * forward.shape[1]
        rows = functional.pad(torch.cat([forward, backward], dim=1), (0, 0, 1, 0)).index_select(1, row.flatten())
        return rows.view(len(forward), *pair_of.shape, forward.shape[-1]), None, None, None


class _PairsToMatrix(torch.autograd.Function):
    """`expand_pairs`."""

    @staticmethod
    def forward(ctx: Any, pairs: Tensor, first: Tensor, second: Tensor, pair_of: Tensor) -> Tensor:
        ctx.save_for_backward(first, second)
        return expand_pairs(pairs, pair_of)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        first, second = ctx.saved_tensors
        count, cells = gradients[0].shape[1], gradients[0].flatten(1, 2)
        total = cells.index_select(1, first * count + second) + cells.index_select(1, second * count + first)
        return total, None, None, None


def combine_ends(values: Tensor, first: Tensor, second: Tensor, pair_of: Tensor, sign: float) -> Tensor:
    """Return the sum (sign 1) or the difference (sign −1) of the values of both nodes of each pair."""
    result: Tensor = _CombineEnds.apply(values, first, second, pair_of, sign)  # type: ignore[no-untyped-call]
    return result


def both_directions(matrix: Tensor, first: Tensor, second: Tensor, pair_of: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entries [i, j] and [j, i] of each pair."""
    result: tuple[Tensor, Tensor] = _BothDirections.apply(matrix, first, second, pair_of)  # type: ignore[no-untyped-call]
    return result


def pairs_to_matrix(pairs: Tensor, first: Tensor, second: Tensor, pair_of: Tensor) -> Tensor:
    """Expand values of unordered pairs to a symmetric matrix, as `expand_pairs`."""
    result: Tensor = _PairsToMatrix.apply(pairs, first, second, pair_of)  # type: ignore[no-untyped-call]
    return result
