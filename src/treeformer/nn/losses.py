"""The losses: heat map, nodes, points, edges (Eq. 11). The model divides them by the number of nodes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from treeformer.decoding.decode import ROOT_LENGTH_PX
from treeformer.nn.sfs import SFS, edge_margin
from treeformer.nn.spanning import spanning_forest

FORCED_ROOT_COST = 1e4  # what a node without a root's score costs as a root: taken only where a tree has no other


def heat_focal_loss(logits: Tensor, target: Tensor) -> Tensor:
    """CenterNet's focal loss, summed: (1−p)²·log p in the cells of nodes, (1−target)⁴·p²·log(1−p) elsewhere.

    Logits and target: (B,h,w); the target is exactly 1 in the cells of nodes.
    """
    probability = logits.sigmoid()
    at_node = (1 - probability).square() * functional.logsigmoid(logits)
    elsewhere = (1 - target).pow(4) * probability.square() * functional.logsigmoid(-logits)
    return -torch.where(target == 1, at_node, elsewhere).sum()


def focal_loss(logits: Tensor, target: Tensor, *, positive_weight: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Binary focal loss of each element: w·(1−p_t)^γ·(−log p_t), p_t the probability of the right answer."""
    right = torch.where(target, logits, -logits)
    return -class_weights(target, positive_weight) * (-right).sigmoid().pow(gamma) * functional.logsigmoid(right)


def balanced_cross_entropy(logits: Tensor, target: Tensor, *, positive_weight: float = 0.8) -> Tensor:
    """Binary cross entropy of each element with class weights that add up to 1."""
    return -class_weights(target, positive_weight) * functional.logsigmoid(torch.where(target, logits, -logits))


def class_weights(target: Tensor, positive_weight: float) -> Tensor:
    """`positive_weight` where the target is True, the rest of 1 elsewhere."""
    return (1 - positive_weight) + (2 * positive_weight - 1) * target.float()


def log_distance(points: Tensor, target: Tensor, reach_px: float) -> Tensor:
    """L1 distance d of points (…,2) px as r·log(1 + d/r): its slope fades from 1 to 1/2 at r, and on; 0 for L1 itself.

    Where along a curve a node lies is a matter of taste, and a token far from the node it stands for will not get
    there: both would pull as hard as a node that is a pixel off, and there are more of them.
    """
    distance = (points - target).abs().sum(-1)
    return reach_px * torch.log1p(distance / reach_px) if reach_px else distance


def box_loss(points: Tensor, target: Tensor, side_px: float) -> Tensor:
    """1 − GIoU of two squares of one size around the points: (…,2) px → (…).

    With a fixed size all four numbers of a box come down to its center, and the overlap to the two distances.
    """
    across, down = (points - target).abs().unbind(-1)
    overlap = (side_px - across).clamp(min=0) * (side_px - down).clamp(min=0)
    union = 2 * side_px**2 - overlap
    hull = (side_px + across) * (side_px + down)
    return 1 - overlap / union + (hull - union) / hull


def root_costs(root_logits: Tensor) -> Tensor:
    """The cost of being a root, (…): that of an edge of the same log-odds, prohibitive where no root is likely.

    So a further plant begins only where the network sees its root. `treeformer.decoding.decode` follows the same rule.
    """
    return torch.where(root_logits > 0, -root_logits, FORCED_ROOT_COST - root_logits)


def distance_costs(edge_logits: Tensor, root_logits: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """The supplement's other cost of the tree: y⁻ times the distance. `treeformer.decoding.decode` follows the same rule.

    Logits (B,N,N,2) and (B,N), points (B,N,2) px → costs of the edges (B,N,N) px and of being a root (B,N) px. It is
    the probability that is multiplied: a margin may be negative, and a longer edge would then be cheaper.
    """
    step = points[:, :, None] - points[:, None]
    edges = edge_margin(edge_logits).sigmoid() * step.float().square().sum(-1).sqrt()
    forced = (FORCED_ROOT_COST - root_logits) * (root_logits <= 0)
    return edges, ROOT_LENGTH_PX * (-root_logits).sigmoid() + forced


def pair_weights(is_true: Tensor, takes_part: Tensor) -> Tensor:
    """What each pair of nodes counts in the edge losses, (B,N,N): 1 between true nodes, 0 between false ones.

    A pair of a true and a false node counts 1 over the number of false nodes: together these weigh as much as one true
    node. Early in training there are many of them, and their pairs would drown the others.

    Args:
        is_true: (B,N) bool, the nodes that are in the ground truth.
        takes_part: (B,N) bool, these and the false ones.
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
    """Both terms of Eq. (11), summed over the unordered pairs: unconstrained, and constrained (0 without `sfs`).

    Args:
        edge_logits: (B,N,N,2), [no edge, edge], symmetric.
        adjacency: (B,N,N) bool, the ground truth; a node that is not in the ground truth has no edges.
        weights: (B,N,N) what each pair counts, symmetric.
        mask: (B,N) bool, the nodes that take part.
        root_logits: (B,N).
        sfs: the layer; the tree is spanned over the nodes in `mask`, false ones too, as at inference.
        points: (B,N,2) px, where the tree's edges are to cost `distance_costs`; None for the margin.
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
