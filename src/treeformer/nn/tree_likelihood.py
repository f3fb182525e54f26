"""The likelihood of the true forest under the distribution over all spanning forests that edge and root scores define.

A forest is a spanning tree once a virtual root is connected to one node of each of its trees. Its weight is exp of the
sum of its scores: f⁺ − f⁻ of an edge, the logit of a root. Kirchhoff's matrix-tree theorem sums the weights of all.

The sum is not computed as the determinant of the Laplacian: with scores from −30 to 30, cancellation would leave no
digit. Instead, nodes are eliminated one by one, and the edges of an eliminated node are replaced by edges between its
neighbors (star–mesh transform): w_ij + w_ik·w_jk / d_k, with d_k the sum of the edges of k. Nothing is subtracted. The
product of all d_k is the sum over all trees. In the reverse order each node gets its effective resistances R_kj to the
nodes before it, and w_ij·R_ij is the fraction of the trees that contain the edge: its marginal, which is also the
gradient. All are plain tensor operations of fixed shapes, in float64, and none waits for the device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from treeformer.errors import TreeformerError
from treeformer.nn.spanning import check_bool, minimum_spanning_tree

# Scores further below a graph's highest are clamped to this distance; exp of twice that is still a float64.
SCORE_RANGE = 300.0


def likelihood_loss(
    edge_scores: Tensor, root_scores: Tensor, adjacency: Tensor, is_true: Tensor, mask: Tensor
) -> Tensor:
    """Compute −log of the probability that a random forest agrees with the ground truth among the true nodes.

    It agrees if it has every true edge and no other edge between true nodes. The edges of false nodes and the choice of
    the root within a true tree are summed over: the ground truth does not define the former, and the latter has its own
    loss.

    Edge scores (B,N,N) are f⁺ − f⁻, the mean of both directions; root scores (B,N) are logits. `adjacency` (B,N,N) is
    the target; if it has a cycle, its likeliest spanning forest replaces it. `is_true` (B,N) are the nodes of the
    ground truth and `mask` (B,N) those that a forest has to span, the true and the false ones. The result is the
    float64 sum over the batch.

    Example:
        >>> path = torch.tensor([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]).bool()
        >>> nodes = torch.ones(1, 3, dtype=torch.bool)
        >>> 2 * round(likelihood_loss(torch.zeros(1, 3, 3), torch.full((1, 3), -50.0), path, nodes, nodes).exp().item())
        6
    """
    if edge_scores.ndim != 3 or edge_scores.shape[1] != edge_scores.shape[2]:
        raise TreeformerError(f"edge_scores have shape {tuple(edge_scores.shape)}, expected (B, N, N)")
    if root_scores.shape != edge_scores.shape[:2]:
        raise TreeformerError(
            f"root_scores have shape {tuple(root_scores.shape)}, expected {tuple(edge_scores.shape[:2])}"
        )
    check_bool("mask", mask, root_scores.shape)
    check_bool("adjacency", adjacency, edge_scores.shape)
    check_bool("is_true", is_true, root_scores.shape)
    scores, roots = edge_scores.double(), root_scores.double()
    cost = (-scores).detach().float().masked_fill(~adjacency, torch.inf)
    target = minimum_spanning_tree(cost, mask)
    order = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    # All forests, and those that contain the ground truth: there true edges are contracted, the others forbidden.
    rest = scores.masked_fill(is_true[:, :, None] & is_true[:, None, :], -torch.inf)
    total: Tensor
    total, _, _ = torch.ops.treeformer.sum_over_forests(
        torch.cat([scores, rest]),
        roots.repeat(2, 1),
        mask.repeat(2, 1),
        torch.cat([order, lowest_node_of_tree(target)]),
    )
    everything, agreeing = total.chunk(2)
    return (everything - agreeing).sum() - (scores * target).sum() / 2


def lowest_node_of_tree(forest: Tensor) -> Tensor:
    """Return (B,N) int64, the lowest node of the tree that contains each node of a forest (B,N,N) bool."""
    count = forest.shape[1]
    reach = forest | torch.eye(count, dtype=torch.bool, device=forest.device)
    for _ in range(max(count - 1, 1).bit_length()):  # each product doubles the length of the paths
        reach = reach.float() @ reach.float() > 0
    order = torch.arange(count, device=forest.device)
    return order.expand_as(reach).masked_fill(~reach, count).amin(2) if count else order.expand(len(forest), 0)


# One operator for torch: the compiler would unroll the loop over the nodes.
torch.library.define(
    "treeformer::sum_over_forests",
    "(Tensor edge_scores, Tensor root_scores, Tensor mask, Tensor merged_into) -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("treeformer::sum_over_forests", "default")
def _sum_over_forests(
    edge_scores: Tensor, root_scores: Tensor, mask: Tensor, merged_into: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log (B,) of the summed weights of all forests, and the marginals of edges (B,N,N) and roots (B,N).

    All are float64. An edge score of −inf forbids an edge; root scores are finite. The marginals of padding are 0.
    `merged_into` (B,N) is the node that represents each node after the contraction of edges; edges between merged nodes
    must be −inf.
    """
    weight, highest = _weights(edge_scores, root_scores, mask)
    # The virtual root is node 0. Padding and merged nodes are connected to it by an edge of weight 1.
    target = torch.nn.functional.pad(merged_into + 1, (1, 0))
    nodes = torch.arange(target.shape[1], device=target.device)
    joins = (target[:, :, None] == nodes).to(weight.dtype)
    remains = torch.nn.functional.pad(mask, (1, 0)) & (target == nodes)
    merged = joins.mT @ weight @ joins
    merged[:, 0, 1:] = merged[:, 1:, 0] = merged[:, 0, 1:].masked_fill(~remains[:, 1:], 1.0)
    total, resistance = _log_sum_and_resistances(merged)
    rows = resistance.gather(1, target[:, :, None].expand_as(resistance))
    share = weight * rows.gather(2, target[:, None, :].expand_as(resistance))
    count = remains[:, 1:].sum(1)  # the number of edges of every tree over these nodes and the root
    return total + count * highest, share[:, 1:, 1:].contiguous(), share[:, 0, 1:].contiguous()


def _weights(edge_scores: Tensor, root_scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return exp(score − maximum) with the virtual root as node 0, (B,1+N,1+N), and the maximum, (B,)."""
    score = torch.nn.functional.pad((edge_scores + edge_scores.mT) / 2, (1, 0, 1, 0), value=-torch.inf)
    score[:, 0, 1:] = score[:, 1:, 0] = root_scores
    real = torch.nn.functional.pad(mask, (1, 0), value=True)
    diagonal = torch.eye(score.shape[1], dtype=torch.bool, device=score.device)
    score = score.masked_fill(~(real[:, :, None] & real[:, None, :]) | diagonal, -torch.inf)
    highest = score.amax((1, 2))
    highest = highest.masked_fill(highest == -torch.inf, 0.0)
    allowed = score != -torch.inf
    return (score - highest[:, None, None]).clamp(min=-SCORE_RANGE).exp() * allowed, highest


def _log_sum_and_resistances(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Log of the sum over the spanning trees of symmetric weights (B,M,M), and the effective resistances (B,M,M).

    Eliminating a node changes no resistance among the others. Therefore the resistances start with node 0 and add one
    node at a time: with p_a = w_ka / d_k, R_kj = 1/d_k + Σ_a p_a·R_aj − ½·Σ_ab p_a·p_b·R_ab.
    """
    count = weight.shape[1]
    left, degrees = weight.clone(), []
    for node in range(count - 1, 0, -1):
        edges = left[:, node, :node]
        degree = edges.sum(1, keepdim=True)
        part = edges / degree
        left[:, :node, :node].addcmul_(edges[:, :, None], part[:, None, :])
        edges.copy_(part)
        degrees.append(degree)
    resistance = torch.zeros_like(weight)
    for node in range(1, count):
        part, degree = left[:, node, :node, None], degrees[count - 1 - node]
        across = resistance[:, :node, :node] @ part
        row = (across + torch.sub(1 / degree[:, :, None], part.mT @ across, alpha=0.5))[..., 0]
        resistance[:, node, :node] = row
        resistance[:, :node, node] = row
    total = torch.cat(degrees, 1).log().sum(1) if degrees else weight.new_zeros(len(weight))
    return total, resistance


def _fake_sum_over_forests(
    edge_scores: Tensor, root_scores: Tensor, mask: Tensor, merged_into: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    total, edges, roots = (edge_scores.new_empty(edge_scores.shape[:count]) for count in (1, 3, 2))
    return total, edges, roots


torch.library.register_fake("treeformer::sum_over_forests", _fake_sum_over_forests)


def _save_marginals(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output[1:])


def _gradients(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None, None]:
    """The marginals are the gradient; each direction gets half of an edge's. The marginals have no gradient."""
    edges, roots = ctx.saved_tensors
    return slope[:, None, None] * edges / 2, slope[:, None] * roots, None, None


torch.library.register_autograd("treeformer::sum_over_forests", _gradients, setup_context=_save_marginals)
