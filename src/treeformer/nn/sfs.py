"""Selective feature suppression (SFS), Sec. 3 of the paper: turn the edge logits of any graph generator into a tree.

Class 0 is the background ("no edge", the paper's f⁻); every other class is a kind of edge. With two classes, class 1
is the paper's f⁺; with more, f⁺ is the logsumexp of all of them, so that softmax gives y⁺ = 1 - y⁻ as in Eq. (2).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.errors import TreeformerError
from treeformer.nn.spanning import check_bool, minimum_spanning_tree

LARGEST_SUPPRESSION = 1e4  # representable in half precision, whose largest number is 65504


class ConstrainedEdges(NamedTuple):
    """The output of SFS for edge logits (..., C)."""

    logits: Tensor  # (..., C), constrained: y = softmax(logits) is Eq. (9).
    tree: Tensor  # (...) bool, the edges E of the projection, Eq. (3).
    added: Tensor  # (...) bool, E⁺ = E - Ê, in the tree but not predicted by the logits
    removed: Tensor  # (...) bool, E⁻ = Ê - E, predicted but not in the tree


class SFS(nn.Module):
    """Project the graph that edge logits describe onto a tree, and suppress the features that contradict it.

    The projection is the minimum spanning tree at the cost f⁻ - f⁺, without gradient; the logits keep theirs, Eq. (10).

    Args:
        suppression: Λ; suppressed features become -Λ, Eq. (8).
        relative: subtract Λ from the kept feature if that is negative. The paper's constant suppresses nothing if the
            kept feature is below -Λ: an added edge is then lost and a removed one stays. With `relative` the output is
            the tree for any finite logits. If the kept feature is at least 0, nothing changes.

    Raises:
        TreeformerError: if the suppression is not positive or too large for half precision.

    Example:
        >>> logits = torch.zeros(1, 3, 3, 2)  # a triangle: all three edges are predicted, 0-2 is the least certain
        >>> logits[..., 1] = torch.tensor([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
        >>> edges = SFS()(logits)
        >>> edges.removed.triu().nonzero()[:, 1:].tolist()
        [[0, 2]]
        >>> bool(((edge_margin(edges.logits) < 0) == edges.tree).all())
        True
    """

    def __init__(self, suppression: float = 10.0, *, relative: bool = False) -> None:
        super().__init__()
        if not (0 < suppression <= LARGEST_SUPPRESSION):
            raise TreeformerError(
                f"suppression is {suppression}, expected a positive number of at most {LARGEST_SUPPRESSION:g}"
            )
        self.suppression = suppression
        self.relative = relative

    def forward(self, logits: Tensor, mask: Tensor | None = None, tree: Tensor | None = None) -> ConstrainedEdges:
        """Constrain a batch of dense graphs.

        Args:
            logits: (B,N,N,C) floating point. The tree is built on the mean margin of both directions.
            mask: (B,N) bool, True for a real node. None: all nodes are real.
            tree: (B,N,N) bool, another projection (for example a forest with roots) instead of the spanning tree.

        Returns:
            The constrained logits, the tree, and the edges that were added and removed.

        Raises:
            TreeformerError: if a tensor has the wrong shape or type.
        """
        if logits.ndim != 4 or logits.shape[1] != logits.shape[2]:
            raise TreeformerError(f"logits have shape {tuple(logits.shape)}, expected (B, N, N, classes)")
        if tree is None:
            tree = minimum_spanning_tree(edge_margin(logits.detach()), mask)
        return suppress(logits, tree, self.suppression, relative=self.relative)

    def extra_repr(self) -> str:
        """Return the settings that `print(module)` shows."""
        return f"suppression={self.suppression}, relative={self.relative}"


def edge_margin(logits: Tensor) -> Tensor:
    """Return f⁻ - f⁺ of logits (..., C): negative if an edge is predicted, Eq. (6), and the cost of the spanning tree.

    It orders edges exactly as the paper's cost y⁻ = sigmoid(f⁻ - f⁺) does, but never saturates: in float32, y⁻ is 1.0
    for every margin from 17 on, and 0 from -104 down. The result is float32 for half-precision logits.

    Raises:
        TreeformerError: if there are fewer than two classes.

    Example:
        >>> edge_margin(torch.tensor([[0.0, 3.0], [1.0, 0.0]])).tolist()
        [-3.0, 1.0]
    """
    if logits.shape[-1] < 2:
        raise TreeformerError(
            f"logits have {logits.shape[-1]} classes, expected the background and at least one kind of edge"
        )
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return wide[..., 0] - _edge_feature(wide)


def suppress(logits: Tensor, tree: Tensor, suppression: float = 10.0, *, relative: bool = False) -> ConstrainedEdges:
    """Apply Eqs. (6) to (9) to each pair on its own, for dense logits (B,N,N,C) or a list of pairs (P,C).

    Args:
        logits: (..., C).
        tree: (...) bool, True for a pair that is an edge of the projection.
        suppression: Λ, as in `SFS`.
        relative: as in `SFS`.

    Returns:
        The constrained logits, the tree, and the edges that were added and removed.

    Raises:
        TreeformerError: if a tensor has the wrong shape or type.
    """
    if not logits.is_floating_point():
        raise TreeformerError(f"logits are {logits.dtype}, expected floating point")
    check_bool("tree", tree, logits.shape[:-1])
    predicted = edge_margin(logits.detach()) < 0  # Ê, Eq. (6)
    added, removed = tree & ~predicted, predicted & ~tree
    kinds = logits.shape[-1] - 1
    replaced = torch.cat([added[..., None], removed[..., None].expand(*removed.shape, kinds)], dim=-1)
    # The kinds of edge share the floor, so that their logsumexp f⁺ equals it for any number of kinds.
    share = functional.pad(logits.new_full((kinds,), math.log(kinds)), (1, 0))
    floor = _relative_floor(logits.detach(), added, suppression)[..., None] if relative else -suppression
    return ConstrainedEdges(torch.where(replaced, (floor - share).to(logits.dtype), logits), tree, added, removed)


def _relative_floor(logits: Tensor, added: Tensor, suppression: float) -> Tensor:
    """(...): Λ below the kept feature or below 0, whichever is lower.

    It is constant for the gradient. Otherwise the gradients of the kept feature and of the floor that follows it would
    cancel, and the pairs that most need a gradient would have none.
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    kept = torch.where(added, _edge_feature(wide), wide[..., 0]).clamp(max=0)
    # A step of the logits' own precision may be larger than Λ: -4992 - 10 is -4992 in bfloat16.
    gap = (-4 * torch.finfo(logits.dtype).eps * kept).clamp(min=suppression)
    return kept - gap


def _edge_feature(logits: Tensor) -> Tensor:
    """f⁺ (...) of logits (..., C)."""
    return logits[..., 1] if logits.shape[-1] == 2 else logits[..., 1:].logsumexp(dim=-1)
