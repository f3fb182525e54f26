"""Hungarian matching and padded targets."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from tests.nn.kernels import KERNEL_DEVICE, needs_cuda, needs_kernel
from treeformer import Skeleton
from treeformer.errors import TreeformerError
from treeformer.nn.kernels import assignment as assignment_triton
from treeformer.nn.matching import WORST, assign, match
from treeformer.nn.targets import Targets

WEIGHTS = {"score_weight": 1.0, "point_weight": 1.0}


def cheapest(cost: np.ndarray) -> float:
    """Total cost of the best assignment, by exhaustive search."""
    nodes, tokens = cost.shape
    if nodes <= tokens:
        return min(sum(cost[i, t] for i, t in enumerate(chosen)) for chosen in permutations(range(tokens), nodes))
    return min(sum(cost[n, i] for i, n in enumerate(chosen)) for chosen in permutations(range(nodes), tokens))


@pytest.mark.parametrize(("nodes", "tokens"), [(0, 4), (1, 4), (3, 5), (4, 4), (5, 3)])
def test_it_is_the_cheapest_of_all_assignments(nodes, tokens):
    rng = np.random.default_rng(nodes)
    cost = rng.normal(size=(6, nodes, tokens)).astype(np.float32)
    result = assign(cost, np.ones((6, nodes), bool))
    for image in range(6):
        found = np.flatnonzero(result[image] >= 0)
        assert len(found) == min(nodes, tokens)
        assert len(set(result[image, found])) == len(found), "every token is used at most once"
        assert cost[image, found, result[image, found]].sum() == pytest.approx(cheapest(cost[image]), abs=1e-5)


@needs_kernel
@pytest.mark.parametrize(("nodes", "tokens"), [(0, 4), (1, 4), (4, 4), (12, 33), (20, 20)])
@pytest.mark.parametrize("kind", ["distinct", "ties", "some worst", "all worst"])
def test_the_kernel_is_as_cheap_as_scipy(nodes, tokens, kind):
    rng = np.random.default_rng(nodes)
    cost = rng.normal(size=(4, nodes, tokens)).astype(np.float32)
    if kind == "ties":
        cost = rng.integers(0, 3, size=cost.shape).astype(np.float32)
    elif kind != "distinct":
        cost = np.where(rng.random(cost.shape) < (0.2 if kind == "some worst" else 1.0), np.float32(WORST), cost)
    mask = rng.random((4, nodes)) < np.linspace(0, 1, 4)[:, None]
    expected = assign(cost, mask)
    result = on_kernel(cost, mask)
    assert ((result >= 0) == mask).all()
    for image in range(4):
        real = np.flatnonzero(mask[image])
        assert len(set(result[image, real])) == len(real), "every token is used at most once"
        totals = [cost[image, real, chosen[image, real]].sum(dtype=np.float64) for chosen in (result, expected)]
        assert totals[0] == pytest.approx(totals[1], rel=1e-9, abs=1e-9)


@needs_cuda
def test_the_kernel_takes_many_tokens_and_never_waits_for_the_device():
    rng = np.random.default_rng(0)
    cost, mask = rng.exponential(size=(64, 300, 600)).astype(np.float32), rng.random((64, 300)) < 0.7
    tensors = torch.from_numpy(cost).cuda(), torch.from_numpy(mask).cuda()
    assignment_triton.assign(*tensors)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = assignment_triton.assign(*tensors)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (found.cpu().numpy() == assign(cost, mask)).all()


def on_kernel(cost: np.ndarray, mask: np.ndarray) -> np.ndarray:
    tensors = (torch.from_numpy(array).to(KERNEL_DEVICE) for array in (cost, mask))
    return assignment_triton.assign(*tensors).cpu().numpy()


def test_padding_is_never_matched_at_any_position():
    mask = np.array([[True, False, True], [False, False, False]])
    result = assign(np.zeros((2, 3, 4), np.float32), mask)
    assert (result[~mask] == -1).all()
    assert (result[mask] >= 0).all()


def test_nan_and_infinities_are_the_last_choice():
    targets = Targets.from_skeletons([Skeleton([(1, 0), (9, 0)], [(0, 1)])])
    points = torch.tensor([[(float("nan"), 0), (8, 0), (float("-inf"), 0), (3, 0)]])
    assert match(torch.zeros(1, 4), points, targets, **WEIGHTS).token.tolist() == [[3, 1]]
    all_bad = torch.full((1, 4, 2), float("nan"))
    found = match(torch.zeros(1, 4), all_bad, targets, **WEIGHTS)
    assert len(set(found.token[0].tolist())) == 2
    assert found.found.all()


def test_the_costs_are_distance_and_score():
    skeletons = [Skeleton([(10, 10), (30, 10)], [(0, 1)]), Skeleton([(5, 5)], [])]
    targets = Targets.from_skeletons(skeletons, size=3)
    points = torch.tensor([[[11.0, 10.0], [29.0, 10.0], [10.0, 10.5]], [[50.0, 50.0], [8.0, 5.0], [5.0, 6.0]]])
    by_distance = match(torch.zeros(2, 3), points, targets, score_weight=1.0, point_weight=1.0)
    assert by_distance.token.tolist() == [[2, 1, 0], [2, 0, 0]]
    assert by_distance.found.tolist() == [[True, True, False], [True, False, False]]
    logits = torch.tensor([[9.0, 0.0, -9.0], [0.0, 9.0, -9.0]])
    by_score = match(logits, points, targets, score_weight=10.0, point_weight=1.0)
    assert by_score.token[:, 0].tolist() == [0, 1]


def test_targets_contain_the_skeletons(y_shape, comb):
    targets = Targets.from_skeletons([y_shape, comb, Skeleton([], [])], size=9)
    assert targets.mask.sum(1).tolist() == [4, 8, 0]
    assert (targets.adjacency == targets.adjacency.transpose(1, 2)).all()
    assert targets.adjacency.sum((1, 2)).tolist() == [6, 14, 0]
    assert targets.adjacency[0, 1].nonzero().flatten().tolist() == [0, 2, 3]
    assert targets.points[0, 2].tolist() == [2, 1]
    assert targets.root.nonzero().tolist() == [[0, 0], [1, 0]]
    assert targets.to("cpu").points.shape == (3, 9, 2)
    assert Targets.from_skeletons([Skeleton([], [])]).points.shape == (1, 0, 2)


def test_targets_are_copied_into_existing_memory(y_shape, comb):
    first, second = (Targets.from_skeletons([skeleton], size=9) for skeleton in (y_shape, comb))
    copy = first.clone()
    copy.copy_(second)
    for name in ("points", "mask", "adjacency", "root", "parent", "kind"):
        assert torch.equal(getattr(copy, name), getattr(second, name))
    assert first.mask.sum() == 4


def test_a_skeleton_with_too_many_nodes_is_an_error(comb):
    with pytest.raises(TreeformerError, match="8 nodes, expected at most 5"):
        Targets.from_skeletons([comb], size=5)
