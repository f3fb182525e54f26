"""Selective feature suppression (SFS), Sec. 3 of the paper: edge logits of any graph generator in, those of a tree out.

Class 0 is the background ("no edge", the paper's f⁻); every other class is a kind of edge. With two classes, class 1
is the paper's f⁺; with more, f⁺ is the logsumexp of all of them, so that softmax gives y⁺ = 1 - y⁻ as in Eq. (2).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.errors import TreeformerError
from treeformer.nn.spanning import minimum_spanning_tree, need_bool

LARGEST_SUPPRESSION = 1e4  # a number of half precision, which has none above 65504


class ConstrainedEdges(NamedTuple):
    """What SFS makes of edge logits (..., C).

    logits: (..., C), constrained: y = softmax(logits) is Eq. (9).
    tree: (...) bool, the edges E of the projection, Eq. (3).
    added: (...) bool, E⁺ = E - Ê, in the tree against the logits' own word.
    removed: (...) bool, E⁻ = Ê - E, predicted but not in the tree.
    """

    logits: Tensor
    tree: Tensor
    added: Tensor
    removed: Tensor


class SFS(nn.Module):
    """Projects the graph that edge logits describe onto a tree, and suppresses the features that stand against it.

    The projection is the minimum spanning tree at the cost f⁻ - f⁺, without gradient; the logits keep theirs, Eq. (10).

    Args:
        suppression: Λ, the suppressed features become -Λ, Eq. (8).
        relative: count Λ down from the kept feature where that is negative. The paper's constant does not suppress what
            stands beside a kept feature below -Λ: the added edge is then lost, the removed one stays. With `relative`
            the output is the tree for any finite logits; where the kept feature is at least 0 nothing changes.

    Example:
        >>> logits = torch.zeros(1, 3, 3, 2)  # a triangle: all three edges are predicted, 0-2 the least sure
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
                f"suppression is {suppression}, a positive number of at most {LARGEST_SUPPRESSION:g} is needed"
            )
        self.suppression = suppression
        self.relative = relative

    def forward(self, logits: Tensor, mask: Tensor | None = None, tree: Tensor | None = None) -> ConstrainedEdges:
        """Constrain a batch of dense graphs.

        Args:
            logits: (B,N,N,C) floating point; both directions count, the tree is built on their mean margin.
            mask: (B,N) bool, True for a real node.
            tree: (B,N,N) bool, a projection found elsewhere (a forest with roots, say) in place of the spanning tree's.
        """
        if logits.ndim != 4 or logits.shape[1] != logits.shape[2]:
            raise TreeformerError(f"logits are {tuple(logits.shape)}, (B, N, N, classes) is needed")
        if tree is None:
            tree = minimum_spanning_tree(edge_margin(logits.detach()), mask)
        return suppress(logits, tree, self.suppression, relative=self.relative)

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        return f"suppression={self.suppression}, relative={self.relative}"


def edge_margin(logits: Tensor) -> Tensor:
    """f⁻ - f⁺ of logits (..., C): below 0 where an edge is predicted, Eq. (6), and the cost of the spanning tree.

    It orders edges exactly as the paper's cost y⁻ = sigmoid(f⁻ - f⁺) does, but never saturates: in float32, y⁻ is 1.0
    for every margin from 17 on, and 0 from -104 down. In float32 at least, also for half-precision logits.
    """
    if logits.shape[-1] < 2:
        raise TreeformerError(
            f"logits have {logits.shape[-1]} classes, the background and at least one kind of edge are needed"
        )
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return wide[..., 0] - _edge_feature(wide)


def suppress(logits: Tensor, tree: Tensor, suppression: float = 10.0, *, relative: bool = False) -> ConstrainedEdges:
    """Eqs. (6) to (9), each pair by itself: for dense logits (B,N,N,C) as for a list of pairs (P,C).

    Args:
        logits: (..., C).
        tree: (...) bool, the projection's answer for each pair.
        suppression, relative: as in `SFS`.
    """
    if not logits.is_floating_point():
        raise TreeformerError(f"logits are {logits.dtype}, floating point is needed")
    need_bool("tree", tree, logits.shape[:-1])
    predicted = edge_margin(logits.detach()) < 0  # Ê, Eq. (6)
    added, removed = tree & ~predicted, predicted & ~tree
    kinds = logits.shape[-1] - 1
    replaced = torch.cat([added[..., None], removed[..., None].expand(*removed.shape, kinds)], dim=-1)
    # The kinds of edge share the floor, so that their logsumexp f⁺ lies on it whatever their number.
    share = functional.pad(logits.new_full((kinds,), math.log(kinds)), (1, 0))
    floor = _relative_floor(logits.detach(), added, suppression)[..., None] if relative else -suppression
    return ConstrainedEdges(torch.where(replaced, (floor - share).to(logits.dtype), logits), tree, added, removed)


def _relative_floor(logits: Tensor, added: Tensor, suppression: float) -> Tensor:
    """(...): Λ below the kept feature or below 0, whichever is lower.

    It is a constant to the gradient: were it not, the gradients of the kept feature and of the floor that follows it
    would cancel, and the cases that most need a gradient would have none.
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    kept = torch.where(added, _edge_feature(wide), wide[..., 0]).clamp(max=0)
    # A step of the logits' own precision may be longer than Λ: -4992 - 10 is -4992 in bfloat16.
    gap = (-4 * torch.finfo(logits.dtype).eps * kept).clamp(min=suppression)
    return kept - gap


def _edge_feature(logits: Tensor) -> Tensor:
    """f⁺ (...) of logits (..., C)."""
    return logits[..., 1] if logits.shape[-1] == 2 else logits[..., 1:].logsumexp(dim=-1)
