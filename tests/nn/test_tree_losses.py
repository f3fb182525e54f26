"""The losses of whole trees, compared with the enumeration of all spanning forests of a few nodes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
import torch

from treeformer.errors import TreeformerError
from treeformer.nn.losses import FORCED_ROOT_COST, root_costs
from treeformer.nn.tree_hinge import hinge_loss
from treeformer.nn.tree_likelihood import likelihood_loss, lowest_node_of_tree


class Marginals(NamedTuple):
    log_partition: torch.Tensor  # (B,) log of the sum of the weights of all forests
    edges: torch.Tensor  # (B,N,N) probability of each edge, symmetric
    roots: torch.Tensor  # (B,N) probability of being a root


def spanning_marginals(edge_scores, root_scores, mask=None) -> Marginals:
    """The marginals of all spanning forests, from the operator of the likelihood; without a mask all nodes are real."""
    if mask is None:
        mask = torch.ones(root_scores.shape, dtype=torch.bool)
    order = torch.arange(mask.shape[1]).expand_as(mask)
    return Marginals(*torch.ops.treeformer.sum_over_forests(edge_scores.double(), root_scores.double(), mask, order))


def all_forests(nodes: list[int]):
    """(edges, roots) of every spanning forest with one root per tree: the spanning trees with a virtual node −1."""
    pairs = [*itertools.combinations(nodes, 2), *((-1, node) for node in nodes)]
    for chosen in itertools.combinations(pairs, len(nodes)):
        component = {node: node for node in (-1, *nodes)}
        for a, b in chosen:
            if component[a] == component[b]:
                break
            component = {node: component[a] if old == component[b] else old for node, old in component.items()}
        else:
            yield [pair for pair in chosen if pair[0] >= 0], [pair[1] for pair in chosen if pair[0] < 0]


def random_problem(seed: int, real: int, false: int = 0, padding: int = 0, missing: int = 0, scale: float = 2.0):
    """Scores (1,N,N) and roots (1,N) float64, adjacency, is_true and mask; the nodes are in random order.

    The ground truth is a random tree over the real nodes without `missing` of its edges.
    """
    torch.manual_seed(seed)
    count = real + false + padding
    position = torch.randperm(count).tolist()
    scores, roots = scale * torch.randn(1, count, count).double(), scale * torch.randn(1, count).double()
    adjacency = torch.zeros(1, count, count, dtype=torch.bool)
    for node in (1 + torch.randperm(max(real - 1, 0))).tolist()[missing:]:
        a, b = position[node], position[int(torch.randint(node, ()))]
        adjacency[0, a, b] = adjacency[0, b, a] = True
    is_true, mask = torch.zeros(1, count, dtype=torch.bool), torch.zeros(1, count, dtype=torch.bool)
    is_true[0, position[:real]] = mask[0, position[: real + false]] = True
    return (scores + scores.mT) / 2, roots, adjacency, is_true, mask


def true_edges(adjacency) -> set[tuple[int, int]]:
    return {(a, b) for a, b in adjacency[0].triu().nonzero().tolist()}


SIZES = [(0, 0, 0, 0), (0, 0, 2, 0), (1, 0, 0, 0), (0, 1, 0, 0), (2, 0, 1, 0), (2, 0, 0, 1), (3, 1, 1, 0), (3, 2, 0, 1)]
SIZES += [(4, 0, 0, 2), (4, 1, 1, 1), (5, 0, 0, 0), (2, 3, 1, 0)]


# ---- the likelihood


@pytest.mark.slow
@pytest.mark.parametrize(("real", "false", "padding", "missing"), [*SIZES, (6, 0, 0, 0)])
def test_partition_marginals_and_likelihood_equal_the_enumeration(real, false, padding, missing):
    scores, roots, adjacency, is_true, mask = random_problem(real + 7 * false, real, false, padding, missing)
    true_nodes = set(is_true[0].nonzero()[:, 0].tolist())
    edge_list, root_list, target = scores[0].tolist(), roots[0].tolist(), true_edges(adjacency)
    edges_share, roots_share, total, agreeing = np.zeros(scores.shape[1:]), np.zeros(roots.shape[1:]), 0.0, 0.0
    for edges, chosen in all_forests(mask[0].nonzero()[:, 0].tolist()):
        weight = math.exp(sum(edge_list[a][b] for a, b in edges) + sum(root_list[node] for node in chosen))
        total += weight
        agreeing += weight * ({pair for pair in edges if set(pair) <= true_nodes} == target)
        for a, b in edges:
            edges_share[a, b] += weight
            edges_share[b, a] += weight
        for node in chosen:
            roots_share[node] += weight
    marginals = spanning_marginals(scores, roots, mask)
    assert marginals.log_partition.item() == pytest.approx(math.log(total), abs=1e-9)
    np.testing.assert_allclose(marginals.edges[0], edges_share / total, atol=1e-12)
    np.testing.assert_allclose(marginals.roots[0], roots_share / total, atol=1e-12)
    loss = likelihood_loss(scores, roots, adjacency, is_true, mask)
    assert loss.item() == pytest.approx(-math.log(agreeing / total), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("real", "false", "padding", "missing"), SIZES)
def test_the_gradient_of_the_likelihood_equals_finite_differences(real, false, padding, missing):
    scores, roots, *target = random_problem(3, real, false, padding, missing)
    scores.requires_grad_()
    roots.requires_grad_()
    assert torch.autograd.gradcheck(lambda s, r: likelihood_loss(s, r, *target), (scores, roots))


def test_graphs_of_a_batch_are_independent_and_both_directions_are_averaged():
    problems = [random_problem(seed, 4, 1, 2, seed % 2) for seed in range(3)]
    together = [torch.cat(parts) for parts in zip(*problems, strict=True)]
    asymmetry = torch.randn(3, 7, 7).double()
    whole = likelihood_loss(together[0] + asymmetry - asymmetry.mT, *together[1:])
    parts = sum(likelihood_loss(*problem) for problem in problems)
    assert whole.item() == pytest.approx(parts.item(), rel=1e-12)


def exact_marginals(exponents, root_exponents):
    """Edge marginals for the weights 2^exponent, in fractions: w_ij (L⁻¹_ii + L⁻¹_jj − 2 L⁻¹_ij)."""
    count = len(exponents)
    weight = [[Fraction(2) ** exponents[i][j] * (i != j) for j in range(count)] for i in range(count)]
    rows = [
        [(Fraction(2) ** root_exponents[i] + sum(weight[i])) if i == j else -weight[i][j] for j in range(count)]
        + [Fraction(i == j) for j in range(count)]
        for i in range(count)
    ]
    for i in range(count):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in set(range(count)) - {i}:
            rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    inverse = [row[count:] for row in rows]
    return [
        [float(weight[i][j] * (inverse[i][i] + inverse[j][j] - 2 * inverse[i][j])) for j in range(count)]
        for i in range(count)
    ]


@pytest.mark.parametrize("scale", [5, 40, 120])
def test_marginals_are_exact_for_a_large_range_of_scores(scale):
    """With scores of ±28 and beyond, the inverse of a Laplacian in float64 has no correct digit."""
    torch.manual_seed(scale)
    exponents = torch.randint(-scale, scale + 1, (9, 9)).triu(1)
    exponents, roots = exponents + exponents.T, torch.randint(-scale, scale + 1, (9,)) - scale
    exact = torch.tensor(exact_marginals(exponents.tolist(), roots.tolist()))
    found = spanning_marginals(math.log(2) * exponents[None].double(), math.log(2) * roots[None].double())
    torch.testing.assert_close(found.edges[0].float(), exact, atol=1e-7, rtol=0)


@pytest.mark.parametrize("scale", [30.0, 300.0, 1e5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_marginals_of_large_graphs_and_scores_are_probabilities(scale, dtype):
    torch.manual_seed(0)
    scores, roots = scale * torch.randn(3, 60, 60, dtype=dtype), scale * torch.randn(3, 60, dtype=dtype)
    mask = torch.arange(60) < torch.tensor([[60], [41], [1]])
    marginals = spanning_marginals(scores, roots, mask)
    for share in (marginals.edges, marginals.roots):
        assert (share >= 0).all()
        assert (share <= 1 + 1e-9).all()
    count = marginals.edges.triu(1).sum((1, 2)) + marginals.roots.sum(1)
    torch.testing.assert_close(count, mask.sum(1).double())
    assert not marginals.edges[~(mask[:, :, None] & mask[:, None, :])].any()
    adjacency = torch.zeros(3, 60, 60, dtype=torch.bool)
    scores.requires_grad_()
    loss = likelihood_loss(scores, roots, adjacency, torch.zeros_like(mask), mask)
    assert loss.item() == pytest.approx(0, abs=1e-6 * scale), "no node is true: every forest agrees"
    is_true = mask & (torch.arange(60) < 30)
    adjacency[:, range(29), range(1, 30)] = adjacency[:, range(1, 30), range(29)] = True
    adjacency[2] = False
    loss = likelihood_loss(scores, roots, adjacency, is_true, mask)
    loss.backward()
    assert loss > 0
    assert torch.isfinite(scores.grad).all()
    assert scores.grad.dtype == dtype


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # on processors without bfloat16
def test_autocast_does_not_change_the_likelihood():
    problem = random_problem(0, 20, 4, 3, 2, scale=10.0)
    with torch.autocast("cpu", torch.bfloat16):
        inside = likelihood_loss(*problem)
    assert inside.item() == pytest.approx(likelihood_loss(*problem).item(), rel=1e-9)


def test_a_target_with_a_cycle_is_replaced_by_its_likeliest_forest():
    scores, roots, adjacency, is_true, mask = random_problem(0, 4)
    adjacency |= ~torch.eye(4, dtype=torch.bool)
    tree = nx.maximum_spanning_tree(nx.from_numpy_array(scores[0].numpy() + 100))
    kept = torch.from_numpy(nx.to_numpy_array(tree, nodelist=range(4), weight=None) > 0)[None]
    assert likelihood_loss(scores, roots, adjacency, is_true, mask) == likelihood_loss(
        scores, roots, kept, is_true, mask
    )


def test_lowest_node_of_each_tree():
    forest = torch.zeros(1, 40, 40, dtype=torch.bool)
    steps = [(39, 38), *((i, i - 1) for i in range(37, 4, -1)), (1, 3)]
    for a, b in steps:
        forest[0, a, b] = forest[0, b, a] = True
    assert lowest_node_of_tree(forest)[0].tolist() == [0, 1, 2, 1, *[4] * 34, 38, 38]


def test_two_nodes_with_equal_scores_have_three_equally_likely_forests():
    marginals = spanning_marginals(torch.zeros(1, 2, 2), torch.zeros(1, 2))  # 0–1 with either root, or two roots
    assert marginals.edges[0, 0, 1].item() == pytest.approx(2 / 3)
    assert marginals.roots[0].tolist() == pytest.approx([2 / 3, 2 / 3])


def test_scores_of_the_wrong_shape_are_an_error():
    edges, nodes = torch.zeros(2, 3, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(TreeformerError, match=r"edge_scores have shape \(2, 3\), expected \(B, N, N\)"):
        likelihood_loss(torch.zeros(2, 3), torch.zeros(2, 3), edges, nodes, nodes)
    with pytest.raises(TreeformerError, match=r"root_scores have shape \(2, 4\), expected \(2, 3\)"):
        likelihood_loss(torch.zeros(2, 3, 3), torch.zeros(2, 4), edges, nodes, nodes)
    with pytest.raises(TreeformerError, match=r"mask is torch.bool \(3,\), expected torch.bool \(2, 3\)"):
        likelihood_loss(torch.zeros(2, 3, 3), torch.zeros(2, 3), edges, nodes, torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("loss", [likelihood_loss, hinge_loss])
def test_a_target_of_the_wrong_type_or_shape_is_an_error(loss):
    """`~` of the integer 1 is -2: the hinge would silently use other costs."""
    scores, roots = torch.zeros(2, 3, 3), torch.zeros(2, 3)
    edges, nodes = torch.zeros(2, 3, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)
    assert loss(scores, roots, edges, nodes, nodes) >= 0
    with pytest.raises(TreeformerError, match=r"adjacency is torch.int64 \(2, 3, 3\), expected torch.bool \(2, 3, 3\)"):
        loss(scores, roots, edges.long(), nodes, nodes)
    with pytest.raises(TreeformerError, match=r"is_true is torch.bool \(1, 3\), expected torch.bool \(2, 3\)"):
        loss(scores, roots, edges, nodes[:1], nodes)
    with pytest.raises(TreeformerError, match=r"mask is torch.bool \(2, 2\), expected torch.bool \(2, 3\)"):
        loss(scores, roots, edges, nodes, nodes[:, :2])


# ---- the hinge


def hinge_by_enumeration(margin, roots, adjacency, is_true, mask):
    """(loss, edges of the worst forest, edges of the completed ground truth)."""
    target = true_edges(adjacency)
    costs = root_costs(roots)
    worst, best = (math.inf, None), ((math.inf,), None)
    for edges, chosen in all_forests(mask[0].nonzero()[:, 0].tolist()):
        cost = sum(margin[0, a, b].item() - ((a, b) not in target) for a, b in edges)
        cost += sum(costs[0, node].item() for node in chosen)
        worst = min(worst, (cost, edges), key=lambda item: item[0])
        if target <= set(edges):
            forced = sum(costs[0, node].item() > FORCED_ROOT_COST / 2 for node in chosen)
            ties = sum(bool(is_true[0, a] and is_true[0, b]) for a, b in set(edges) - target)
            best = min(best, ((forced, ties, cost), edges), key=lambda item: item[0])
    return best[0][-1] - worst[0], worst[1], best[1]


@pytest.mark.slow
@pytest.mark.parametrize(("real", "false", "padding", "missing"), SIZES)
@pytest.mark.parametrize("rooted", [-20.0, 0.0])
def test_the_hinge_and_its_gradient_equal_the_enumeration(real, false, padding, missing, rooted):
    for seed in range(3):
        margin, roots, adjacency, is_true, mask = random_problem(seed, real, false, padding, missing)
        roots = roots + rooted
        expected, worst, best = hinge_by_enumeration(margin, roots, adjacency, is_true, mask)
        margin.requires_grad_()
        loss = hinge_loss(margin, roots, adjacency, is_true, mask)
        loss.backward()
        assert loss.item() == pytest.approx(expected, abs=1e-7)
        assert loss.item() >= 0
        gradient = torch.zeros_like(margin)
        for edges, sign in ((worst, -0.5), (best, 0.5)):
            for a, b in edges:
                gradient[0, a, b] += sign
                gradient[0, b, a] += sign
        torch.testing.assert_close(margin.grad, gradient)


def test_the_hinge_is_zero_if_the_target_leads_by_one_per_edge():
    _, roots, adjacency, is_true, mask = random_problem(1, 6, 2, 1)
    margin = torch.where(adjacency, -1.01, 0.0).requires_grad_()
    loss = hinge_loss(margin, roots.float() - 20, adjacency, is_true, mask)
    loss.backward()
    assert loss == 0
    assert not margin.grad.any()


@pytest.mark.parametrize("scale", [30.0, 1e3])
def test_large_bfloat16_margins_have_finite_hinges(scale):
    torch.manual_seed(0)
    logits = (scale * torch.randn(2, 40, 40)).bfloat16()
    margin = logits.float().requires_grad_()
    _, roots, adjacency, is_true, mask = random_problem(2, 30, 5, 5, 3)
    loss = hinge_loss(
        margin, roots.bfloat16().expand(2, -1), *(x.expand(2, *x.shape[1:]) for x in (adjacency, is_true, mask))
    )
    loss.backward()
    assert 0 < loss < math.inf
    assert set(margin.grad.unique().tolist()) <= {-0.5, 0.0, 0.5}


# ---- on a GPU


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("loss", [likelihood_loss, hinge_loss])
def test_a_cuda_graph_replays_the_loss_and_its_gradient(loss):
    problems = [
        [torch.cat(parts) for parts in zip(*(random_problem(seed, 20, 4, 3, 1) for seed in seeds), strict=True)]
        for seeds in ((0, 1), (2, 3))
    ]
    inputs = [part.float().cuda() if part.is_floating_point() else part.cuda() for part in problems[0]]

    def value_and_gradient(scores, *others):
        scores = scores.detach().requires_grad_()
        value = loss(scores, *others)
        return value.detach(), torch.autograd.grad(value, scores)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compilation and allocation on first use cannot be captured
        value_and_gradient(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = value_and_gradient(*inputs)
    for problem in problems[::-1]:
        for own, part in zip(inputs, problem, strict=True):
            own.copy_(part)
        graph.replay()
        expected = value_and_gradient(*(part.float() if part.is_floating_point() else part for part in problem))
        for found, wanted in zip(captured, expected, strict=True):
            torch.testing.assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-5)
