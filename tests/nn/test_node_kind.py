"""Kinds, degrees and directions: ground truth and losses compared with loops and small cases."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from treeformer import Skeleton
from treeformer._util.geometry import project_onto_segments
from treeformer.decoding.node_kinds import BINS, DIRECTIONS, WIDTH
from treeformer.nn import node_kind
from treeformer.nn.node_kind import (
    BASE,
    BRANCH,
    CROSSING,
    PATH,
    TIP,
    UNKNOWN,
    NodeKindHead,
    direction_evidence,
    direction_targets,
    distance_to_edges,
    hard_pairs,
    kind_losses,
    kind_targets,
    probabilities,
)
from treeformer.nn.targets import Targets

# A fork whose left branch passes a second plant: node 5 of the other plant lies 2 px from the edge (1, 2).
FORK = [(50, 90), (50, 60), (20, 30), (80, 30)], [(0, 1), (1, 2), (1, 3)]
OTHER = [(10, 60), (34, 47), (60, 20)], [(4, 5), (5, 6)]
CROSSED = Skeleton(FORK[0] + OTHER[0], FORK[1] + OTHER[1], root=[0, 4], image_size=(100, 100))
UNROOTED = Skeleton([(10, 10), (40, 10), (99.5, 30)], [(0, 1), (1, 2)], image_size=(100, 100))
CLOSE = Skeleton([(10, 10), (60, 12), (40, 14), (90, 50)], [(0, 1), (1, 2), (2, 3)], root=0)


@pytest.fixture(scope="module")
def targets():
    return Targets.from_skeletons([CROSSED, UNROOTED], size=8)


def test_kinds_and_degrees(targets):
    kind, degree = kind_targets(targets)
    nothing = [UNKNOWN]
    assert kind[0].tolist() == [BASE, BRANCH, TIP, TIP, BASE, CROSSING, TIP, *nothing]
    assert degree[0].tolist() == [0, 2, 0, 0, 0, 1, 0, *nothing]
    assert kind[1].tolist() == [UNKNOWN, PATH, UNKNOWN] + 5 * nothing, "an end without a root, and one at the frame"
    assert degree[1].tolist() == [0, 1, 0] + 5 * nothing


def test_siblings_at_a_fork_do_not_cross():
    fork = Skeleton(
        [(50, 90), (50, 60), (48, 58), (52, 58), (20, 30), (80, 30)], [(0, 1), (1, 2), (1, 3), (2, 4), (3, 5)]
    )
    kind, _ = kind_targets(Targets.from_skeletons([fork.replace(root=0)]))
    assert kind[0].tolist() == [BASE, BRANCH, PATH, PATH, TIP, TIP]


def test_distances_to_edges_match_loops(targets):
    found = distance_to_edges(targets.points, targets.parent)
    for image, skeleton in enumerate((CROSSED, UNROOTED)):
        for node, point in enumerate(skeleton.nodes):
            for child, parent in enumerate(skeleton.parents):
                expected = math.inf
                if parent >= 0:
                    ends = skeleton.nodes[[child]], skeleton.nodes[[parent]]
                    expected = project_onto_segments(point[None], *ends)[1][0]
                assert found[image, node, child].item() == pytest.approx(expected, abs=1e-4)
    assert found[:, :, 7].isinf().all(), "padding has no edge"


@pytest.mark.parametrize("within_px", [1.0, 4.0, 30.0])
def test_hard_pairs_match_loops(targets, within_px):
    found = hard_pairs(targets, within_px)
    for image, skeleton in enumerate((CROSSED, UNROOTED)):
        expected = torch.zeros(8, 8, dtype=torch.bool)
        for a, b in skeleton.edges.tolist():
            for node, point in enumerate(skeleton.nodes):
                distance = project_onto_segments(point[None], skeleton.nodes[[a]], skeleton.nodes[[b]])[1][0]
                if node not in (a, b) and distance < within_px:
                    for i, j in ((a, b), (a, node), (b, node)):
                        expected[i, j] = expected[j, i] = True
        assert torch.equal(found[image], expected)


def test_a_third_node_beside_an_edge_makes_pairs_hard():
    pairs = hard_pairs(Targets.from_skeletons([CLOSE]), 4.0)[0].nonzero().tolist()
    assert [pair for pair in pairs if pair[0] < pair[1]] == [[0, 1], [0, 2], [1, 2]]


def test_directions_match_loops(targets):
    found = direction_targets(targets.points, targets.adjacency)
    for node, point in enumerate(CROSSED.nodes):
        neighbors = [a + b - node for a, b in CROSSED.edges.tolist() if node in (a, b)]
        for index in range(BINS):
            angles = [math.atan2(*(CROSSED.nodes[other] - point)[::-1]) for other in neighbors]
            turns = [math.cos(angle - 2 * math.pi * index / BINS) for angle in angles]
            expected = max(math.exp(node_kind.SHARPNESS * (turn - 1)) for turn in turns)
            assert found[0, node, index].item() == pytest.approx(expected, abs=1e-5)
    assert not found[0, 7].any(), "padding has no neighbors"


def test_losses_match_loops(targets):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 8, WIDTH, generator=generator).requires_grad_()
    matched = torch.rand(2, 8, generator=generator) < 0.7
    matched &= targets.mask
    kind, degree = kind_targets(targets)
    aimed = direction_targets(targets.points, targets.adjacency)
    first = second = 0.0
    for image in range(2):
        for node in range(8):
            if not matched[image, node]:
                continue
            row = logits[image, node].detach()
            for part, target in ((row[:5], kind), (row[5:9], degree)):
                if target[image, node] != UNKNOWN:
                    first += -part.log_softmax(0)[target[image, node]].item()
            for index in range(BINS):
                logit, goal = row[9 + index], aimed[image, node, index].item()
                second += -(goal * functional.logsigmoid(logit) + (1 - goal) * functional.logsigmoid(-logit)).item()
    losses = kind_losses(logits, targets, matched)
    assert [loss.item() for loss in losses] == pytest.approx([first, second], rel=1e-5)
    sum(losses).backward()
    assert logits.grad.isfinite().all()
    assert not logits.grad[~matched].any()


def test_the_head_draws_no_random_numbers():
    state = torch.get_rng_state()
    head = NodeKindHead(8)
    assert torch.equal(torch.get_rng_state(), state)
    found = probabilities(head(torch.randn(2, 3, 8)))
    assert found.shape == (2, 3, WIDTH)
    torch.testing.assert_close(found[..., :5].sum(-1), torch.ones(2, 3))
    torch.testing.assert_close(found[..., 5:9].sum(-1), torch.ones(2, 3))
    torch.testing.assert_close(found[..., DIRECTIONS], torch.full((2, 3, BINS), 0.1))


def test_evidence_is_high_towards_neighbors_alone():
    points, adjacency = torch.tensor(CROSSED.nodes)[None].float(), Targets.from_skeletons([CROSSED]).adjacency
    logits = torch.zeros(1, 7, WIDTH)
    logits[..., DIRECTIONS] = direction_targets(points, adjacency).clamp(1e-4, 1 - 1e-4).logit()
    first, second = torch.triu_indices(7, 7, 1)
    step = points[:, second] - points[:, first]
    x, y = (step / step.norm(dim=-1, keepdim=True)).unbind(-1)
    forward, backward = direction_evidence(logits, first, second, x, y)
    edge = adjacency[0, first, second]
    both = torch.minimum(forward, backward)[0]
    assert both[edge].min() > 0.7
    beyond = (first == 4) & (second == 6)  # in the direction of a neighbor, behind it
    assert both[~edge & ~beyond].max() < 0.5
    swapped = direction_evidence(logits, second, first, -x, -y)
    torch.testing.assert_close(swapped[0], backward)
    torch.testing.assert_close(swapped[1], forward)
