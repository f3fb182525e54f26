"""The distribution over all spanning forests that edge and root scores describe, and the likelihood of the true one.

A forest is a spanning tree once a virtual root is joined to one node of each of its trees. Its weight is exp of the sum
of its scores, an edge's being f⁺ − f⁻ and a root's its logit; Kirchhoff's matrix-tree theorem sums the weights of all.

The determinant is not taken of the Laplacian: with scores from −30 to 30 the differences in it leave no digit. Nodes
are removed one by one instead, and the edges of the removed one replaced by such between its neighbors (star–mesh):
w_ij + w_ik·w_jk / d_k, with d_k the sum of the edges of k. Nothing is subtracted; the product of all d_k is the sum
over all trees. On the way back each node gets its effective resistances R_kj to those before it, and w_ij·R_ij is the
share of the trees that have the edge: its marginal, which is also the gradient. All are plain tensor operations of
fixed shapes, in float64, and wait for nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from treeformer.errors import TreeformerError
from treeformer.nn.spanning import minimum_spanning_tree, need_bool

# Scores further below a graph's highest count as this far below it; exp of twice that is still a float64.
SCORE_RANGE = 300.0


class SpanningMarginals(NamedTuple):
    """What holds of a forest drawn at random, for each graph.

    edges: (B,N,N) probability of each edge, symmetric. roots: (B,N) probability of being a root.
    log_partition: (B,) logarithm of the sum of the weights of all forests. All float64.
    """

    edges: Tensor
    roots: Tensor
    log_partition: Tensor


def spanning_marginals(edge_scores: Tensor, root_scores: Tensor, mask: Tensor | None = None) -> SpanningMarginals:
    """Edge and root probabilities under the distribution over all spanning forests; no gradient.

    Args:
        edge_scores: (B,N,N) f⁺ − f⁻; the mean of both directions counts. −inf forbids an edge.
        root_scores: (B,N) logits, finite.
        mask: (B,N) bool, True for a real node; padding gets 0. None: all are real.

    >>> marginals = spanning_marginals(torch.zeros(1, 2, 2), torch.zeros(1, 2))  # 0–1 under either root, or two roots
    >>> [round(x, 3) for x in (marginals.edges[0, 0, 1].item(), marginals.roots[0, 0].item())]
    [0.667, 0.667]
    """
    if mask is None:
        mask = torch.ones(root_scores.shape, dtype=torch.bool, device=root_scores.device)
    _check(edge_scores, root_scores, mask)
    order = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    total, edges, roots = torch.ops.treeformer.sum_over_forests(
        edge_scores.detach().double(), root_scores.detach().double(), mask, order
    )
    return SpanningMarginals(edges, roots, total)


def likelihood_loss(
    edge_scores: Tensor, root_scores: Tensor, adjacency: Tensor, is_true: Tensor, mask: Tensor
) -> Tensor:
    """−log of the probability that a random forest is the ground truth as far as the true nodes go, summed over the batch.

    That is: it has every true edge and no other between true nodes. What the false nodes do, and which node of a true
    tree is its root, is summed over: the ground truth says nothing about the first, and the second has a loss of its own.

    Args:
        edge_scores: (B,N,N) f⁺ − f⁻; the mean of both directions counts.
        root_scores: (B,N) logits.
        adjacency: (B,N,N) bool, the ground truth; where it has a cycle, its likeliest spanning forest stands for it.
        is_true: (B,N) bool, the nodes that are in the ground truth.
        mask: (B,N) bool, these and the false ones: all that a forest has to span.

    >>> path = torch.tensor([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]).bool()
    >>> nodes = torch.ones(1, 3, dtype=torch.bool)
    >>> 2 * round(likelihood_loss(torch.zeros(1, 3, 3), torch.full((1, 3), -50.0), path, nodes, nodes).exp().item())
    6
    """
    _check(edge_scores, root_scores, mask)
    need_bool("adjacency", adjacency, edge_scores.shape)
    need_bool("is_true", is_true, root_scores.shape)
    scores, roots = edge_scores.double(), root_scores.double()
    cost = (-scores).detach().float().masked_fill(~adjacency, torch.inf)
    target = minimum_spanning_tree(cost, mask)
    order = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    # Every forest, and those with the ground truth in them: there the true edges are contracted, the others forbidden.
    rest = scores.masked_fill(is_true[:, :, None] & is_true[:, None, :], -torch.inf)
    total, _, _ = torch.ops.treeformer.sum_over_forests(
        torch.cat([scores, rest]), roots.repeat(2, 1), mask.repeat(2, 1), torch.cat([order, first_of_tree(target)])
    )
    everything, agreeing = total.chunk(2)
    return (everything - agreeing).sum() - (scores * target).sum() / 2


def _check(edge_scores: Tensor, root_scores: Tensor, mask: Tensor) -> None:
    if edge_scores.ndim != 3 or edge_scores.shape[1] != edge_scores.shape[2]:
        raise TreeformerError(f"edge_scores are {tuple(edge_scores.shape)}, (B, N, N) is needed")
    if root_scores.shape != edge_scores.shape[:2]:
        raise TreeformerError(f"root_scores are {tuple(root_scores.shape)}, {tuple(edge_scores.shape[:2])} is needed")
    need_bool("mask", mask, root_scores.shape)


def first_of_tree(forest: Tensor) -> Tensor:
    """(B,N) the lowest node of the tree that each node of a forest (B,N,N) bool is in."""
    count = forest.shape[1]
    reach = forest | torch.eye(count, dtype=torch.bool, device=forest.device)
    for _ in range(max(count - 1, 1).bit_length()):  # each product doubles the length of the ways
        reach = reach.float() @ reach.float() > 0
    order = torch.arange(count, device=forest.device)
    return order.expand_as(reach).masked_fill(~reach, count).amin(2) if count else order.expand(len(forest), 0)


# One operator to torch: the compiler would unroll the loop over the nodes.
torch.library.define(
    "treeformer::sum_over_forests",
    "(Tensor edge_scores, Tensor root_scores, Tensor mask, Tensor merged_into) -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("treeformer::sum_over_forests", "default")
def _sum_over_forests(
    edge_scores: Tensor, root_scores: Tensor, mask: Tensor, merged_into: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(B,) log of the sum over all forests, (B,N,N) and (B,N) the marginals of edges and roots; all float64.

    merged_into: (B,N) the node that stands for this one, for contracted edges; edges between merged nodes must be −inf.
    """
    weight, highest = _weights(edge_scores, root_scores, mask)
    # The virtual root is node 0. A node that is padding or merged away hangs on it by an edge of weight 1.
    spot = torch.nn.functional.pad(merged_into + 1, (1, 0))
    places = torch.arange(spot.shape[1], device=spot.device)
    joins = (spot[:, :, None] == places).to(weight.dtype)
    stands = torch.nn.functional.pad(mask, (1, 0)) & (spot == places)
    merged = joins.mT @ weight @ joins
    merged[:, 0, 1:] = merged[:, 1:, 0] = merged[:, 0, 1:].masked_fill(~stands[:, 1:], 1.0)
    total, resistance = _remove_and_return(merged)
    rows = resistance.gather(1, spot[:, :, None].expand_as(resistance))
    share = weight * rows.gather(2, spot[:, None, :].expand_as(resistance))
    count = stands[:, 1:].sum(1)  # every tree over these and the root has as many edges
    return total + count * highest, share[:, 1:, 1:].contiguous(), share[:, 0, 1:].contiguous()


def _weights(edge_scores: Tensor, root_scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """exp of the scores less their maximum, with the virtual root as node 0: (B,1+N,1+N); and the maximum, (B,)."""
    score = torch.nn.functional.pad((edge_scores + edge_scores.mT) / 2, (1, 0, 1, 0), value=-torch.inf)
    score[:, 0, 1:] = score[:, 1:, 0] = root_scores
    real = torch.nn.functional.pad(mask, (1, 0), value=True)
    own = torch.eye(score.shape[1], dtype=torch.bool, device=score.device)
    score = score.masked_fill(~(real[:, :, None] & real[:, None, :]) | own, -torch.inf)
    highest = score.amax((1, 2))
    highest = highest.masked_fill(highest == -torch.inf, 0.0)
    allowed = score != -torch.inf
    return (score - highest[:, None, None]).clamp(min=-SCORE_RANGE).exp() * allowed, highest


def _remove_and_return(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Log of the sum over the spanning trees of symmetric weights (B,M,M), and the effective resistances (B,M,M).

    Removing a node changes no resistance among the others. So they are found for node 0 alone and then for one node
    more each time: with p_a = w_ka / d_k, R_kj = 1/d_k + Σ_a p_a·R_aj − ½·Σ_ab p_a·p_b·R_ab.
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
        ways = (across + torch.sub(1 / degree[:, :, None], part.mT @ across, alpha=0.5))[..., 0]
        resistance[:, node, :node] = ways
        resistance[:, :node, node] = ways
    total = torch.cat(degrees, 1).log().sum(1) if degrees else weight.new_zeros(len(weight))
    return total, resistance


@torch.library.register_fake("treeformer::sum_over_forests")
def _shapes_of_the_sums(
    edge_scores: Tensor, root_scores: Tensor, mask: Tensor, merged_into: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(edge_scores.new_empty(edge_scores.shape[:count]) for count in (1, 3, 2))


def _keep_marginals(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output[1:])


def _gradient_of_the_sum(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None, None]:
    """The marginals are the gradient; half of an edge's belongs to each direction. They themselves have none."""
    edges, roots = ctx.saved_tensors
    return slope[:, None, None] * edges / 2, slope[:, None] * roots, None, None


torch.library.register_autograd("treeformer::sum_over_forests", _gradient_of_the_sum, setup_context=_keep_marginals)
