"""The cost-augmented hinge loss of a spanning tree (a structured support vector machine).

The true tree should score higher than any other tree, by a margin of one per edge that is not true. The tree that
violates this most is itself a spanning tree, with scores raised by one for every edge that is not true.
"""

from __future__ import annotations

from torch import Tensor

from treeformer.nn.losses import FORCED_ROOT_COST, root_costs
from treeformer.nn.spanning import check_bool, spanning_forest

# Among the forests that contain the ground truth, true edges come first …
TRUE_EDGE_GAIN = 10 * FORCED_ROOT_COST
# … and an edge that connects two true trees comes after every likely root, but before a forced one.
TIE_COST = FORCED_ROOT_COST / 10


def hinge_loss(margin: Tensor, root_logits: Tensor, adjacency: Tensor, is_true: Tensor, mask: Tensor) -> Tensor:
    """Compute the maximum of score(T) + wrong(T) over all forests, minus that over forests with the ground truth in it.

    score(T) sums f⁺ − f⁻ over the edges and the root logits over the roots; wrong(T) counts the edges that are not
    true. A false node needs some edge, and so do the parts of a true tree of which a node was missed. Therefore the
    ground truth is completed to the best forest that contains it. Edges of both forests cancel: unavoidable edges get
    no gradient. True trees are connected to each other only if one of them had a forced root otherwise.

    `margin` (B,N,N) is f⁻ − f⁺, the mean of both directions; root logits (B,N) get no gradient: their costs are those
    at inference, `root_costs`. `adjacency` (B,N,N) is the target, `is_true` (B,N) the nodes of the ground truth and
    `mask` (B,N) those that a forest has to span, the true and the false ones. The result is the sum over the batch, at
    least 0.

    Example:
        >>> import torch
        >>> path = torch.tensor([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]).bool()
        >>> nodes = torch.ones(1, 3, dtype=torch.bool)
        >>> margin = torch.tensor([[[0.0, -3.0, -1.0], [-3.0, 0.0, -1.5], [-1.0, -1.5, 0.0]]])  # 0–2 half below 1–2
        >>> hinge_loss(margin, torch.zeros(1, 3), path, nodes, nodes).item()
        0.5
    """
    check_bool("adjacency", adjacency, margin.shape)
    check_bool("is_true", is_true, margin.shape[:2])
    root_logits = root_logits.detach()
    cost = (margin + margin.mT) / 2 - (~adjacency).to(margin.dtype)
    roots = root_costs(root_logits.to(cost.dtype))
    worst, worst_roots = spanning_forest(cost, roots, mask)
    tie = is_true[:, :, None] & is_true[:, None, :] & ~adjacency
    completing = cost.detach() - TRUE_EDGE_GAIN * adjacency + TIE_COST * tie
    best, best_roots = spanning_forest(completing, roots, mask)
    edges = (cost * (best.to(cost.dtype) - worst.to(cost.dtype))).triu(1).sum()
    # Both forests have the same number of forced roots: their costs would cancel, but not to the last digit.
    return edges - (root_logits * (best_roots.float() - worst_roots.float())).sum()
