"""Losses of heat map, nodes, points and edges (Eq. 11). The model divides them by the number of nodes.

Edge logits are (B,N,N,2), [no edge, edge], root logits (B,N), points (…,2) px; adjacency, costs and weights of pairs
are (B,N,N), symmetric. Losses of single elements have the shape of their logits.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from treeformer.decoding.decode import ROOT_LENGTH_PX
from treeformer.nn.sfs import SFS, edge_margin
from treeformer.nn.spanning import spanning_forest

FORCED_ROOT_COST = 1e4  # additional cost of an unlikely root, chosen only if a tree has no other


def heat_focal_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Compute CenterNet's focal loss: (1−p)²·log p in the cells of nodes, (1−target)⁴·p²·log(1−p) elsewhere.

    Logits and target are (B,h,w), the target is exactly 1 in the cells of nodes, and the result is the sum over all
    cells.
    """
    probability = logits.sigmoid()
    at_node = (1 - probability).square() * functional.logsigmoid(logits)
    elsewhere = (1 - target).pow(4) * probability.square() * functional.logsigmoid(-logits)
    return -torch.where(target == 1, at_node, elsewhere).sum()


def focal_loss(logits: Tensor, target: Tensor, *, positive_weight: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Compute the binary focal loss w·(1−p_t)^γ·(−log p_t), p_t the probability of the correct class.

    The class weight w of True is `positive_weight`; that of False is 1 − positive_weight.
    """
    correct = torch.where(target, logits, -logits)
    return -class_weights(target, positive_weight) * (-correct).sigmoid().pow(gamma) * functional.logsigmoid(correct)


def balanced_cross_entropy(logits: Tensor, target: Tensor, *, positive_weight: float = 0.8) -> Tensor:
    """Compute the binary cross entropy with class weights, `positive_weight` for True, that add up to 1."""
    return -class_weights(target, positive_weight) * functional.logsigmoid(torch.where(target, logits, -logits))


def class_weights(target: Tensor, positive_weight: float) -> Tensor:
    """Return the class weight of each element: `positive_weight` if True, 1 − `positive_weight` otherwise."""
    return (1 - positive_weight) + (2 * positive_weight - 1) * target.float()


def log_distance(points: Tensor, target: Tensor, reach_px: float) -> Tensor:
    """Compute r·log(1 + d/r), px, of the L1 distance d: its slope decreases from 1 at 0 to 1/2 at r, and further.

    r is `reach_px`; 0 stands for the L1 distance itself. Positions along a curve are ambiguous, and a token far from
    its node will not reach it. The logarithm keeps both from dominating the gradient.
    """
    distance = (points - target).abs().sum(-1)
    return reach_px * torch.log1p(distance / reach_px) if reach_px else distance


def box_loss(points: Tensor, target: Tensor, side_px: float) -> Tensor:
    """Compute 1 − GIoU of two squares of one size around the points.

    With a fixed size a box is given by its center, and the overlap by the two distances of the centers.
    """
    across, down = (points - target).abs().unbind(-1)
    overlap = (side_px - across).clamp(min=0) * (side_px - down).clamp(min=0)
    union = 2 * side_px**2 - overlap
    hull = (side_px + across) * (side_px + down)
    return 1 - overlap / union + (hull - union) / hull


def root_costs(root_logits: Tensor) -> Tensor:
    """Return the cost of being a root, (…): that of an edge with the same log-odds, prohibitive if it is unlikely.

    Therefore a further plant starts only if the network predicts its root. `treeformer.decoding.decode` follows the
    same rule.
    """
    return torch.where(root_logits > 0, -root_logits, FORCED_ROOT_COST - root_logits)


def distance_costs(edge_logits: Tensor, root_logits: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the other cost of the tree, from the supplement: y⁻ times the distance, px, of edges and of being a root.

    The distance is multiplied by the probability, not by the margin: a margin may be negative, and a longer edge would
    then be cheaper. `treeformer.decoding.decode` follows the same rule.
    """
    step = points[:, :, None] - points[:, None]
    edges = edge_margin(edge_logits).sigmoid() * step.float().square().sum(-1).sqrt()
    forced = (FORCED_ROOT_COST - root_logits) * (root_logits <= 0)
    return edges, ROOT_LENGTH_PX * (-root_logits).sigmoid() + forced


def pair_weights(is_true: Tensor, takes_part: Tensor) -> Tensor:
    """Return the weight (B,N,N) of each pair of nodes in the edge losses: 1 between true nodes, 0 between false ones.

    True nodes (B,N) are in the ground truth; those that take part (B,N) are the true and the false nodes, the others
    padding. A pair of a true and a false node has the weight 1 / (number of false nodes), so all false nodes together
    weigh as much as one true node. Early in training there are many of them, and their pairs would dominate the others.
    """
    is_false = (takes_part & ~is_true).float()
    false = is_false / is_false.sum(1, keepdim=True).clamp(min=1)
    true = is_true.float()
    mixed = true[:, :, None] * false[:, None, :]
    return true[:, :, None] * true[:, None, :] + mixed + mixed.transpose(1, 2)


def edge_losses(
    edge_logits: Tensor,
    adjacency: Tensor,
    weights: Tensor,
    mask: Tensor,
    root_logits: Tensor,
    sfs: SFS | None,
    points: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute both terms of Eq. (11), unconstrained and constrained, summed over the unordered pairs.

    Logits, target adjacency and weights are symmetric. A node that is not in the ground truth has no edges, but the
    tree spans it if it is in `mask` (B,N), as at inference. Without `sfs`, the second term is 0. `points` are given if
    the cost of the tree is that of `distance_costs`; otherwise it is the margin.
    """
    upper = weights.triu(1)

    def cross_entropy(logits: Tensor) -> Tensor:
        margin = edge_margin(logits)
        return (functional.softplus(torch.where(adjacency, margin, -margin)) * upper).sum()

    unconstrained = cross_entropy(edge_logits)
    if sfs is None:
        return unconstrained, unconstrained.new_zeros(())
    logits, roots = edge_logits.detach(), root_logits.detach().float()
    if points is None:
        costs = edge_margin(logits), root_costs(roots)
    else:
        costs = distance_costs(logits, roots, points.detach())
    tree, _ = spanning_forest(*costs, mask)
    return unconstrained, cross_entropy(sfs(edge_logits, tree=tree).logits)
