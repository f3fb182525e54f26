"""The cost-augmented hinge loss of a spanning tree (a structured support vector machine).

The true tree is to score more than any other, and more by one for every edge that the other has and the ground truth has not.
The one that violates this most is a spanning tree as well, of scores raised by one at every edge that is not true.
"""

from __future__ import annotations

from torch import Tensor

from treeformer.nn.losses import FORCED_ROOT_COST, root_costs
from treeformer.nn.spanning import need_bool, spanning_forest

# Among the trees that have the ground truth in them true edges come first …
TRUE_EDGE_GAIN = 10 * FORCED_ROOT_COST
# … and an edge that ties two true trees to each other comes after every likely root, but before a forced one.
TIE_COST = FORCED_ROOT_COST / 10


def hinge_loss(margin: Tensor, root_logits: Tensor, adjacency: Tensor, is_true: Tensor, mask: Tensor) -> Tensor:
    """max over forests T of score(T) + wrong(T), less the same of the best forest with the ground truth in it; ≥ 0, summed.

    score(T) sums f⁺ − f⁻ over its edges and the root logits over its roots, wrong(T) counts its edges that are not
    true. A false node has to hang on some edge, and so have the parts of a true tree of which a node was missed. The
    ground truth is therefore completed as well as it can be, and what both forests have cancels: there is no gradient against
    what cannot be avoided. True trees are tied to each other only where none but a forced root would be left to them.

    Args:
        margin: (B,N,N) f⁻ − f⁺; the mean of both directions counts.
        root_logits: (B,N), without gradient: they cost what they cost at inference, `root_costs`.
        adjacency: (B,N,N) bool, the ground truth.
        is_true: (B,N) bool, the nodes that are in the ground truth.
        mask: (B,N) bool, these and the false ones: all that a forest has to span.

    >>> import torch
    >>> path = torch.tensor([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]).bool()
    >>> nodes = torch.ones(1, 3, dtype=torch.bool)
    >>> margin = torch.tensor([[[0.0, -3.0, -1.0], [-3.0, 0.0, -1.5], [-1.0, -1.5, 0.0]]])  # 0–2 half below 1–2
    >>> hinge_loss(margin, torch.zeros(1, 3), path, nodes, nodes).item()
    0.5
    """
    need_bool("adjacency", adjacency, margin.shape)
    need_bool("is_true", is_true, margin.shape[:2])
    root_logits = root_logits.detach()
    cost = (margin + margin.mT) / 2 - (~adjacency).to(margin.dtype)
    roots = root_costs(root_logits.to(cost.dtype))
    worst, worst_roots = spanning_forest(cost, roots, mask)
    tie = is_true[:, :, None] & is_true[:, None, :] & ~adjacency
    completing = cost.detach() - TRUE_EDGE_GAIN * adjacency + TIE_COST * tie
    best, best_roots = spanning_forest(completing, roots, mask)
    edges = (cost * (best.to(cost.dtype) - worst.to(cost.dtype))).triu(1).sum()
    # Both have as many forced roots: their cost would cancel, but not to the last digit.
    return edges - (root_logits * (best_roots.float() - worst_roots.float())).sum()
