"""Kind and degree of nodes and the directions of all their neighbors, predicted from the decoder's tokens.

The outputs per token are `WIDTH` logits: kinds, degrees and directions as in `treeformer.decoding.node_kinds`. The
target of a direction is highest in the bin of a neighbor and falls to the adjacent bins, so that a direction can be
read more exactly than its bin.

What an annotation does not tell is left out: kinds at the frame, where a branch may have been cut, and tips of
plants without a root. Crossings are no nodes of an annotation. A node of a path is one if another edge passes it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.decoding.node_kinds import BINS, DEGREE, DEGREES, DIRECTIONS, KIND, KINDS, WIDTH
from treeformer.nn.targets import Targets

TIP, PATH, BRANCH, BASE, CROSSING = range(len(KINDS))
CROSSING_PX = 3.0  # distance from a path node to another edge below which it is a crossing
DIRECTION_PRIOR = 0.1  # probability of a neighbor in a bin before training
SHARPNESS = 12.0  # of the targets of directions: the half of the angle between two bins has the value 0.8
READING = 24.0  # sharpness of the weights with which the bins around a direction are read
UNKNOWN = -1


class NodeKindHead(nn.Linear):
    """The linear layer from tokens to logits. Before training it predicts the same for all tokens."""

    def __init__(self, width: int) -> None:
        super().__init__(width, WIDTH)

    def reset_parameters(self) -> None:
        """Set the initial values. No random number is drawn, so that the rest of a network does not depend on it."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
        nn.init.constant_(self.bias[DIRECTIONS], torch.tensor(DIRECTION_PRIOR).logit().item())


def probabilities(logits: Tensor) -> Tensor:
    """Convert logits (…,WIDTH) to probabilities: of kinds and degrees, which exclude each other, and of directions."""
    parts = logits[..., KIND].softmax(-1), logits[..., DEGREE].softmax(-1), logits[..., DIRECTIONS].sigmoid()
    return torch.cat(parts, dim=-1)


def distance_to_edges(points: Tensor, parent: Tensor) -> Tensor:
    """Return the distance of every node (B,M,2) px to every edge of a forest, (B,M,M) px.

    [n, i] is the distance from node n to the edge between node i and its parent, (B,M) int64. A parent of −1 means no
    edge, and the distance is infinite.
    """
    start = points[:, None]  # (B,1,M,2)
    end = points.gather(1, parent.clamp(min=0)[..., None].expand(-1, -1, 2))[:, None]
    step, to_node = end - start, points[:, :, None] - start
    share = (to_node * step).sum(-1) / step.square().sum(-1).clamp(min=1e-9)
    distance = (to_node - share.clamp(0, 1)[..., None] * step).square().sum(-1).sqrt()
    return distance.masked_fill((parent < 0)[:, None], torch.inf)


def near_edges(targets: Targets, within_px: float) -> Tensor:
    """Find nodes close to edges of other nodes, (B,M,M) bool.

    [n, i] is True if node n is no end of the edge between node i and its parent, but at most `within_px` from it.
    """
    assert targets.parent is not None
    node = torch.arange(targets.mask.shape[1], device=targets.mask.device)
    is_end = (node[:, None] == node) | (targets.parent[:, None] == node[:, None])
    close = distance_to_edges(targets.points, targets.parent) < within_px
    return close & ~is_end & targets.mask[:, :, None]


def hard_pairs(targets: Targets, within_px: float) -> Tensor:
    """Find the pairs of nodes that are easily confused: a third node lies within `within_px` of a true edge.

    (B,M,M) bool, symmetric: True for such an edge, and for the pairs of the third node and its ends.
    """
    assert targets.parent is not None
    near = near_edges(targets, within_px).float()
    edge = near.amax(1).diag_embed() + near  # [n, i]: between node n and the parent of node i; n = i is the edge itself
    parent = targets.parent.clamp(min=0)[:, None].expand_as(near)
    hard = near.scatter_reduce(2, parent, edge, "amax")
    return (hard + hard.transpose(1, 2)) > 0


def kind_targets(targets: Targets) -> tuple[Tensor, Tensor]:
    """Return kind and degree of each node, (B,M) int64; `UNKNOWN` in padding and where the annotation does not tell."""
    degree = targets.adjacency.sum(-1)
    kind = torch.full_like(degree, PATH)
    if targets.parent is not None:
        adjacent = targets.adjacency
        parent = targets.parent.clamp(min=0)[:, None].expand_as(adjacent)
        # Edges of a neighbor begin close to the node without crossing it.
        passing = near_edges(targets, CROSSING_PX) & ~adjacent & ~adjacent.gather(2, parent)
        kind = kind.masked_fill(passing.any(-1), CROSSING)
    kind = kind.masked_fill(degree > 2, BRANCH).masked_fill(degree < 2, TIP)
    kind = kind.masked_fill((degree < 2) & ~targets.root.any(1, keepdim=True), UNKNOWN).masked_fill(targets.root, BASE)
    if targets.at_frame is not None:
        kind = kind.masked_fill(targets.at_frame, UNKNOWN)
    padding = ~targets.mask
    return kind.masked_fill(padding, UNKNOWN), (degree.clamp(1, DEGREES) - 1).masked_fill(padding, UNKNOWN)


def agreement(x: Tensor, y: Tensor) -> Tensor:
    """Return the cosines (…,BINS) of the angles between unit vectors (x, y), (…) each, and the bins."""
    # Not a product of matrices, which autocast would round to bfloat16.
    angle = torch.arange(BINS, device=x.device) * (2 * math.pi / BINS)
    return x[..., None] * angle.cos() + y[..., None] * angle.sin()


def direction_targets(points: Tensor, adjacency: Tensor) -> Tensor:
    """Return the targets of the directions, (B,M,BINS) in [0,1], high in the bins of neighbors.

    Points are (B,M,2) px, the adjacency is (B,M,M) bool.
    """
    x, y = (points[:, None] - points[:, :, None]).unbind(-1)  # (B,M,M), [i, j]: from i to j
    length = (x.square() + y.square() + 1e-12).sqrt()
    nearest = agreement(x / length, y / length).masked_fill(~adjacency[..., None], -torch.inf).amax(2)
    return torch.exp(SHARPNESS * (nearest - 1))


def kind_losses(logits: Tensor, targets: Targets, matched: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of the cross entropies of kinds and degrees, and of directions, over matched nodes: two scalars.

    `logits` (B,M,WIDTH) are the predictions for the target nodes; `matched` (B,M) is False for padding and for nodes
    without a token.
    """
    logits = logits.float()
    one = logits.new_zeros(())
    for part, target in zip((KIND, DEGREE), kind_targets(targets), strict=True):
        loss = functional.cross_entropy(logits[..., part].transpose(1, 2), target.clamp(min=0), reduction="none")
        one = one + (loss * (matched & (target != UNKNOWN))).sum()
    aimed = direction_targets(targets.points, targets.adjacency)
    loss = functional.binary_cross_entropy_with_logits(logits[..., DIRECTIONS], aimed, reduction="none")
    return one, (loss * matched[..., None]).sum()


def direction_evidence(kinds: Tensor, first: Tensor, second: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probabilities that i has a neighbor in the direction of j, and j one in that of i, (B,P) each.

    They are read from `kinds` (B,N,WIDTH), logits. `first` and `second`, (P,) int64, are i and j of each pair; (x, y),
    (B,P) each, is the unit vector from i to j.
    """
    directions = kinds[..., DIRECTIONS].float().sigmoid()
    weight = (READING * agreement(x, y)).softmax(-1)
    opposite = torch.cat([directions[..., BINS // 2 :], directions[..., : BINS // 2]], dim=-1)
    forward = (directions.index_select(1, first) * weight).sum(-1)
    return forward, (opposite.index_select(1, second) * weight).sum(-1)
