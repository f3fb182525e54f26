"""The losses, compared with loops that follow the formulas element by element."""

from __future__ import annotations

import math

import networkx as nx
import pytest
import torch

from treeformer.nn.losses import (
    FORCED_ROOT_COST,
    balanced_cross_entropy,
    box_loss,
    distance_costs,
    edge_losses,
    focal_loss,
    heat_focal_loss,
    log_distance,
    pair_weights,
    root_costs,
)
from treeformer.nn.sfs import SFS


def test_heat_focal_loss_is_centernets_formula():
    torch.manual_seed(0)
    logits, target = torch.randn(2, 3, 4), torch.rand(2, 3, 4)
    target[0, 1, 2] = target[1, 0, 0] = 1.0
    total = 0.0
    for logit, value in zip(logits.flatten().tolist(), target.flatten().tolist(), strict=True):
        p = 1 / (1 + math.exp(-logit))
        total -= (1 - p) ** 2 * math.log(p) if value == 1 else (1 - value) ** 4 * p**2 * math.log(1 - p)
    assert heat_focal_loss(logits, target).item() == pytest.approx(total, rel=1e-5)


def test_focal_and_balanced_losses_are_their_formulas():
    torch.manual_seed(1)
    logits, target = 3 * torch.randn(20), torch.rand(20) > 0.5
    focal, balanced = focal_loss(logits, target), balanced_cross_entropy(logits, target)
    for i in range(20):
        p = 1 / (1 + math.exp(-logits[i].item()))
        correct = p if target[i] else 1 - p
        assert focal[i].item() == pytest.approx(
            -(0.25 if target[i] else 0.75) * (1 - correct) ** 2 * math.log(correct), rel=1e-4
        )
        assert balanced[i].item() == pytest.approx(-(0.8 if target[i] else 0.2) * math.log(correct), rel=1e-4)


@pytest.mark.parametrize("logit", [-200.0, 200.0])
def test_extreme_logits_have_finite_losses_and_gradients(logit):
    for loss in (focal_loss, balanced_cross_entropy):
        logits = torch.tensor([logit, logit], requires_grad=True)
        loss(logits, torch.tensor([True, False])).sum().backward()
        assert torch.isfinite(logits.grad).all()
    logits = torch.tensor([[[logit, logit]]], requires_grad=True)
    value = heat_focal_loss(logits, torch.tensor([[[1.0, 0.3]]]))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


def giou(a: tuple, b: tuple) -> float:
    """Generalized IoU of two boxes (left, top, right, bottom)."""
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    across = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    down = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = sum(area) - across * down
    hull = (max(a[2], b[2]) - min(a[0], b[0])) * (max(a[3], b[3]) - min(a[1], b[1]))
    return across * down / union - (hull - union) / hull


def test_box_loss_equals_the_giou_of_boxes():
    torch.manual_seed(2)
    points, target = 20 * torch.rand(30, 2), 20 * torch.rand(30, 2)
    ours = box_loss(points, target, 8.0)
    for i in range(30):
        boxes = [(x - 4, y - 4, x + 4, y + 4) for x, y in (points[i].tolist(), target[i].tolist())]
        assert ours[i].item() == pytest.approx(1 - giou(*boxes), rel=1e-4, abs=1e-5)


def test_all_false_nodes_together_weigh_as_much_as_one_true_node():
    is_true = torch.tensor([[True, True, False, False, False]])
    takes_part = torch.tensor([[True, True, True, True, False]])
    weights = pair_weights(is_true, takes_part)[0]
    expected = [[1, 1, 0.5, 0.5, 0], [1, 1, 0.5, 0.5, 0], [0.5, 0.5, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0] * 5]
    assert weights.tolist() == expected
    none_false = pair_weights(is_true, is_true)[0]
    assert none_false.sum() == 4


def negative_probability(log_odds: float) -> float:
    """The probability of the negative class."""
    return 1 / (1 + math.exp(log_odds))


def edge_losses_by_loop(logits, adjacency, weights, mask, roots, suppression, points=None):
    """Eqs. (6) to (11) for single pairs, the tree by NetworkX with a virtual root."""
    unconstrained = constrained = 0.0
    for b in range(len(logits)):
        nodes = mask[b].nonzero().flatten().tolist()
        graph = nx.Graph()
        for i in nodes:
            forced = 0 if roots[b, i] > 0 else FORCED_ROOT_COST
            root = roots[b, i].item()
            cost = -root if points is None else 8 * negative_probability(root) - (root if forced else 0)
            graph.add_edge(i, "root", weight=cost + forced)
            for j in nodes:
                if i < j:
                    margin = (logits[b, i, j, 0] - logits[b, i, j, 1]).item()
                    apart = 0 if points is None else math.dist(points[b, i].tolist(), points[b, j].tolist())
                    graph.add_edge(i, j, weight=margin if points is None else negative_probability(-margin) * apart)
        tree = nx.minimum_spanning_tree(graph)
        for i in nodes:
            for j in nodes:
                if i >= j:
                    continue
                off, on = logits[b, i, j].tolist()
                target = int(adjacency[b, i, j])
                weight = weights[b, i, j].item()
                unconstrained += weight * cross_entropy(off, on, target)
                if tree.has_edge(i, j) and not on > off:
                    off = -suppression
                elif not tree.has_edge(i, j) and on > off:
                    on = -suppression
                constrained += weight * cross_entropy(off, on, target)
    return unconstrained, constrained


def cross_entropy(off: float, on: float, target: int) -> float:
    return math.log(math.exp(off) + math.exp(on)) - (on if target else off)


def test_both_terms_of_equation_11_equal_the_loop():
    torch.manual_seed(3)
    logits = 3 * torch.randn(4, 6, 6, 2)
    logits = (logits + logits.transpose(1, 2)) / 2
    adjacency = torch.rand(4, 6, 6) > 0.6
    adjacency = adjacency | adjacency.transpose(1, 2)
    mask = torch.rand(4, 6) > 0.25
    mask[3] = False
    weights = pair_weights(mask & (torch.rand(4, 6) > 0.3), mask)
    roots = 2 * torch.randn(4, 6)
    ours = edge_losses(logits, adjacency, weights, mask, roots, SFS(10.0))
    theirs = edge_losses_by_loop(logits, adjacency, weights, mask, roots, 10.0)
    assert [term.item() for term in ours] == pytest.approx(theirs, rel=1e-4)
    assert edge_losses(logits, adjacency, weights, mask, roots, None)[1].item() == 0
    assert ours[0] != ours[1]
    points = 100 * torch.rand(4, 6, 2)
    with_distance = edge_losses(logits, adjacency, weights, mask, roots, SFS(10.0), points)
    theirs = edge_losses_by_loop(logits, adjacency, weights, mask, roots, 10.0, points)
    assert [term.item() for term in with_distance] == pytest.approx(theirs, rel=1e-4)
    assert with_distance[0] == ours[0]
    assert with_distance[1] != ours[1], "another tree"


def test_an_edge_costs_its_length_times_the_probability_of_no_edge():
    logits = torch.tensor([0.0, 3.0]).expand(1, 2, 2, 2)
    points = torch.tensor([[(10.0, 10.0), (13.0, 14.0)]])
    edges, roots = distance_costs(logits, torch.tensor([[2.0, -1.0]]), points)
    assert edges[0, 0, 1].item() == edges[0, 1, 0].item() == pytest.approx(5 * negative_probability(3.0))
    assert edges[0, 0, 0].item() == 0
    assert roots[0].tolist() == pytest.approx(
        [8 * negative_probability(2.0), 8 * negative_probability(-1.0) + FORCED_ROOT_COST + 1]
    )


def test_a_likely_root_costs_as_much_as_an_edge_of_the_same_odds_and_an_unlikely_one_more_than_any():
    assert root_costs(torch.tensor([2.0, -1.0, 0.0])).tolist() == [-2.0, FORCED_ROOT_COST + 1, FORCED_ROOT_COST]


def test_the_slope_of_the_log_distance_is_halved_at_its_reach():
    points = torch.tensor([[0.0, 0.0], [3.0, -1.0], [100.0, 0.0]], requires_grad=True)
    target = torch.zeros(3, 2)
    assert log_distance(points, target, 0.0).tolist() == [0, 4, 100]
    found = log_distance(points, target, 4.0)
    assert found.tolist() == pytest.approx([0, 4 * math.log(2), 4 * math.log(26)])
    found.sum().backward()
    assert points.grad[1].tolist() == [0.5, -0.5]
    assert points.grad[2, 0].item() == pytest.approx(1 / 26)
