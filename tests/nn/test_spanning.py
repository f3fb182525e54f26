"""Batched spanning trees: the operator, its CUDA kernel compared with the CPU, forests, and `opcheck`.

Without a GPU the kernel runs in Triton's interpreter: TRITON_INTERPRET=1 pytest tests/nn/test_spanning.py
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.decoding.test_spanning import KINDS, as_edges, kruskal, random_costs
from tests.nn.kernels import KERNEL_DEVICE, needs_cuda, needs_kernel
from treeformer import TreeformerError
from treeformer.decoding import spanning as reference
from treeformer.nn import minimum_spanning_tree
from treeformer.nn.kernels import spanning as spanning_triton
from treeformer.nn.spanning import spanning_forest


def batch(kind: str, graphs: int, nodes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Costs, and masks that range from no real node to all nodes."""
    cost = torch.from_numpy(random_costs(kind, graphs, nodes, seed))
    share = torch.linspace(0, 1, graphs)[:, None]
    return cost, torch.rand(graphs, nodes, generator=torch.Generator().manual_seed(seed)) < share


@pytest.mark.parametrize("kind", KINDS)
def test_trees_equal_kruskals_algorithm(kind):
    cost, mask = batch(kind, 30, 8, seed=0)
    trees = minimum_spanning_tree(cost, mask)
    assert trees.dtype == torch.bool
    assert torch.equal(trees, trees.mT)
    expected = [kruskal(*graph) for graph in zip(cost.numpy(), mask.numpy(), strict=True)]
    assert [as_edges(tree) for tree in trees.numpy()] == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_agrees_with_the_numpy_reference(dtype):
    cost = torch.from_numpy(random_costs("asymmetric", 4, 40, seed=1)).to(dtype)
    exact = cost.double().numpy()
    trees = minimum_spanning_tree(cost).numpy()
    assert [as_edges(tree) for tree in trees] == [reference.minimum_spanning_tree(graph).tolist() for graph in exact]


@pytest.mark.parametrize(("graphs", "nodes"), [(0, 0), (0, 5), (3, 0), (3, 1), (2, 2), (1, 300)])
def test_sizes_from_zero_to_three_hundred(graphs, nodes):
    trees = minimum_spanning_tree(torch.rand(graphs, nodes, nodes))
    assert trees.shape == (graphs, nodes, nodes)
    assert trees.sum().item() == 2 * graphs * max(nodes - 1, 0)


def test_forests_agree_with_the_numpy_reference():
    cost, mask = batch("distinct", 40, 10, seed=2)
    root_cost = torch.randn(40, 10, generator=torch.Generator().manual_seed(3)) - 0.5
    trees, roots = spanning_forest(cost, root_cost, mask)
    for number, real in enumerate(mask):
        edges, expected_roots = reference.spanning_forest(
            cost[number][real][:, real].numpy(), root_cost[number][real].numpy()
        )
        node = real.nonzero()[:, 0].numpy()
        assert as_edges(trees[number].numpy()) == node[edges].tolist()
        assert np.flatnonzero(roots[number]).tolist() == node[expected_roots].tolist()
    assert 1 < roots.sum(1).max() < 10, "some graphs have several trees, none has only roots"


def test_a_forest_without_a_mask():
    trees, roots = spanning_forest(torch.zeros(2, 3, 3), torch.tensor([[1.0, 2.0, 3.0], [1.0, -1.0, 3.0]]))
    assert trees.sum((1, 2)).tolist() == [4, 4]
    assert roots.tolist() == [[True, False, False], [False, True, False]]


@pytest.mark.slow
def test_the_operator_passes_opcheck():
    cost, mask = batch("distinct", 3, 6, seed=4)
    torch.library.opcheck(torch.ops.treeformer.minimum_spanning_tree, (cost, mask))
    assert not minimum_spanning_tree(cost.requires_grad_(), mask).requires_grad


def test_wrong_input_is_an_error():
    cost = torch.zeros(2, 3, 3)
    with pytest.raises(TreeformerError, match=r"cost is torch.float32 \(2, 3\), expected floating point \(B, N, N\)"):
        minimum_spanning_tree(cost[0, :2])
    with pytest.raises(TreeformerError, match=r"cost is torch.int64"):
        minimum_spanning_tree(cost.long())
    with pytest.raises(TreeformerError, match=r"mask is torch.bool \(3, 2\), expected torch.bool \(2, 3\)"):
        minimum_spanning_tree(cost, torch.ones(3, 2, dtype=torch.bool))
    with pytest.raises(TreeformerError, match=r"mask is torch.float32"):
        minimum_spanning_tree(cost, torch.ones(2, 3))
    with pytest.raises(TreeformerError, match=r"root_cost has shape \(2, 2\), expected \(2, 3\)"):
        spanning_forest(cost, torch.zeros(2, 2))
    with pytest.raises(TreeformerError, match=r"cost is torch.float32 \(2, 3, 2\), expected floating point"):
        spanning_forest(cost[:, :, :2], torch.zeros(2, 3))
    with pytest.raises(TreeformerError, match=r"mask is torch.bool \(2, 2\), expected torch.bool \(2, 3\)"):
        spanning_forest(cost, torch.zeros(2, 3), torch.ones(2, 2, dtype=torch.bool))


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [2, 3, 31, 32, 33, 70])
def test_the_kernel_returns_the_same_trees_as_the_cpu(nodes, kind, dtype):
    cost, mask = batch(kind, 6, nodes, seed=nodes)
    cost = cost.to(dtype)
    trees = spanning_triton.minimum_spanning_tree(cost.to(KERNEL_DEVICE), mask.to(KERNEL_DEVICE))
    assert torch.equal(trees.cpu(), minimum_spanning_tree(cost, mask))


@needs_cuda
@pytest.mark.parametrize("warps", [None, 1, 2, 4, 8])
@pytest.mark.parametrize("nodes", [100, 128, 129, 205, 256, 300, 513, 1024, 2050])
def test_the_kernel_at_full_size(nodes, warps):
    for kind in ("ties", "distinct", "holes"):
        cost, mask = batch(kind, 4, nodes, seed=nodes)
        trees = spanning_triton.minimum_spanning_tree(cost.cuda(), mask.cuda(), warps=warps)
        assert torch.equal(trees.cpu(), minimum_spanning_tree(cost, mask))


@needs_cuda
def test_cuda_never_waits_for_the_device():
    cost, mask = (part.cuda() for part in batch("distinct", 8, 50, seed=5))
    root_cost = torch.randn(8, 50, device="cuda")
    expected = minimum_spanning_tree(cost, mask), *spanning_forest(cost, root_cost, mask)  # compiles the kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = minimum_spanning_tree(cost, mask), *spanning_forest(cost, root_cost, mask)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(map(torch.equal, found, expected))


@needs_cuda
def test_cuda_takes_views_double_precision_and_empty_batches():
    cost, mask = (part.cuda() for part in batch("asymmetric", 8, 50, seed=6))
    assert torch.equal(minimum_spanning_tree(cost.mT, mask), minimum_spanning_tree(cost, mask))
    double = cost.double()
    assert torch.equal(minimum_spanning_tree(double, mask).cpu(), minimum_spanning_tree(double.cpu(), mask.cpu()))
    assert minimum_spanning_tree(cost[:0], mask[:0]).shape == (0, 50, 50)
    assert not minimum_spanning_tree(cost[:, :1, :1], mask[:, :1]).any()
