"""SFS compared with the paper: the output is the projected tree, and the gradients are those of Eq. (10)."""

from __future__ import annotations

import doctest
import math
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.nn.kernels import needs_cuda
from treeformer import TreeformerError
from treeformer.nn import SFS, minimum_spanning_tree
from treeformer.nn.sfs import edge_margin, suppress

# Four nodes. 0, 1, 2 form a triangle of predicted edges, 0-2 is the least certain. 3 has no predicted edge, and 0-3 is
# the least unlikely. Every row of the supplement's table has a pair: f⁺, f⁻, and the change by the spanning tree.
PAIRS = {
    (0, 1): (3.0, -1.0, ""),
    (1, 2): (2.5, 0.5, ""),
    (0, 2): (1.0, 0.25, "removed"),
    (0, 3): (-0.5, 1.0, "added"),
    (1, 3): (-1.0, 1.5, ""),
    (2, 3): (-2.0, 2.0, ""),
}
# Case: (pair, True if it is a true edge, the two approximate derivatives of the table; None if they depend on y).
CASES = {
    1: ((0, 1), True, None),
    2: ((0, 1), False, None),
    3: ((0, 2), True, (0.0, 1.0)),
    4: ((0, 2), False, (0.0, 0.0)),
    5: ((1, 3), True, None),
    6: ((1, 3), False, None),
    7: ((0, 3), True, (0.0, 0.0)),
    8: ((0, 3), False, (1.0, 0.0)),
}


def graph_of_the_table() -> torch.Tensor:
    logits = torch.zeros(1, 4, 4, 2, dtype=torch.float64)
    for (i, j), (edge, no_edge, _) in PAIRS.items():
        logits[0, i, j] = logits[0, j, i] = torch.tensor([no_edge, edge])
    return logits


def random_logits(graphs=6, nodes=9, classes=2, scale=3.0, seed=0, dtype=torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(graphs, nodes, nodes, classes, generator=generator, dtype=torch.float64).to(dtype)


def thresholded(logits: torch.Tensor) -> torch.Tensor:
    """Eq. (6) for probabilities: y⁺ > y⁻, with y⁺ the sum over all kinds of edge."""
    probability = logits.double().softmax(-1)
    return probability[..., 1:].sum(-1) > probability[..., 0]


def sfs_by_loop(logits: torch.Tensor, suppression: float) -> torch.Tensor:
    """Eqs. (6) and (8) for two classes, one pair after the other."""
    out = logits.clone()
    tree = minimum_spanning_tree(logits[..., 0] - logits[..., 1])
    for b, i, j in torch.cartesian_prod(*map(torch.arange, logits.shape[:3])).tolist():
        no_edge, edge = logits[b, i, j].tolist()
        if tree[b, i, j] and not edge > no_edge:
            out[b, i, j, 0] = -suppression
        if edge > no_edge and not tree[b, i, j]:
            out[b, i, j, 1] = -suppression
    return out


@pytest.mark.parametrize("suppression", [2.0, 10.0])
def test_the_layer_equals_the_loop(suppression):
    logits = random_logits(3, 6)
    edges = SFS(suppression)(logits)
    assert torch.equal(edges.logits, sfs_by_loop(logits, suppression))
    assert torch.equal(edges.added, (edges.logits != logits)[..., 0])
    assert torch.equal(edges.removed, (edges.logits != logits)[..., 1])
    assert edges.added.any()
    assert edges.removed.any()


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("relative", [False, True])
def test_the_thresholded_output_is_the_tree(classes, relative):
    logits = random_logits(classes=classes).clamp(min=-9.99)
    mask = torch.rand(6, 9, generator=torch.Generator().manual_seed(1)) < 0.8
    edges = SFS(relative=relative)(logits, mask)
    assert torch.equal(edges.tree, minimum_spanning_tree(edge_margin(logits), mask))
    assert torch.equal(edges.tree, edges.tree.mT)
    assert edges.tree.sum((1, 2)).tolist() == (2 * (mask.sum(1) - 1).clamp(min=0)).tolist()
    assert torch.equal(thresholded(edges.logits), edges.tree)
    assert torch.equal(edges.added, edges.tree & ~thresholded(logits))
    assert torch.equal(edges.removed, thresholded(logits) & ~edges.tree)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_below_minus_lambda_the_papers_constant_fails_and_relative_corrects_it(dtype):
    # All features shifted down by 40: probabilities, margins and tree are the same, but -10 now suppresses nothing.
    logits = graph_of_the_table().to(dtype) - 40
    paper, corrected = SFS(10.0)(logits), SFS(10.0, relative=True)(logits)
    assert paper.added[0, 0, 3]
    assert not thresholded(paper.logits)[0, 0, 3], "added to the tree, but not predicted"
    assert paper.removed[0, 0, 2]
    assert thresholded(paper.logits)[0, 0, 2], "removed from the tree, but still predicted"
    assert torch.equal(thresholded(corrected.logits), corrected.tree)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_relative_outputs_the_tree_for_any_scale_and_shift(classes, dtype):
    for scale in (1.0, 30.0, 5000.0):
        for shift in (0.0, -20.0, -20000.0, 20000.0):
            logits = (random_logits(classes=classes, scale=scale) + shift).to(dtype)
            edges = SFS(10.0, relative=True)(logits)
            assert torch.equal(edge_margin(edges.logits) < 0, edges.tree), (scale, shift)


def test_relative_changes_nothing_if_the_kept_features_are_positive():
    logits = random_logits().abs()
    assert torch.equal(SFS(relative=True)(logits).logits, SFS()(logits).logits)


def gradient_at(pair: tuple[int, int], is_edge: bool, layer: SFS | None) -> tuple[torch.Tensor, torch.Tensor]:
    """(∂L/∂f⁺, ∂L/∂f⁻) of the cross-entropy of one pair, and its (y⁺, y⁻); without SFS if layer is None."""
    logits = graph_of_the_table().requires_grad_()
    constrained = logits if layer is None else layer(logits).logits
    at_pair = constrained[0, *pair]
    cross_entropy(at_pair, torch.tensor(int(is_edge))).backward()
    assert logits.grad is not None
    return logits.grad[0, *pair].flip(0), at_pair.detach().softmax(0).flip(0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("relative", [False, True])
def test_gradients_are_those_of_the_table(case, relative):
    pair, is_edge, approximate = CASES[case]
    edge, no_edge, change = PAIRS[pair]
    edges = SFS(10.0, relative=relative)(graph_of_the_table())
    assert (edges.added[0, *pair].item(), edges.removed[0, *pair].item()) == (change == "added", change == "removed")
    gradient, y = gradient_at(pair, is_edge, SFS(10.0, relative=relative))
    target = torch.tensor([is_edge, not is_edge], dtype=torch.float64)
    # The supplement's exact form of Eq. (10); e is its epsilon.
    if approximate is None:
        y_unconstrained = torch.tensor([edge, no_edge], dtype=torch.float64).softmax(0)
        expected = y_unconstrained - target
    else:
        kept = edge if change == "added" else no_edge
        floor = min(kept, 0.0) - 10.0 if relative else -10.0
        e = math.exp(floor) / (math.exp(kept) + math.exp(floor))
        expected = torch.tensor(
            [1 - e - is_edge, 0.0] if change == "added" else [0.0, is_edge - e], dtype=torch.float64
        )
        # Eq. (10) itself, and the table's columns, to the order of epsilon.
        torch.testing.assert_close(gradient, torch.tensor(approximate, dtype=torch.float64), atol=1e-4, rtol=0)
    torch.testing.assert_close(gradient, expected, atol=1e-12, rtol=0)
    assert (y[0] > y[1]).item() == edges.tree[0, *pair].item()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradients_by_finite_differences(case):
    pair, is_edge, _ = CASES[case]
    layer = SFS(10.0)

    def loss(logits):
        return cross_entropy(layer(logits).logits[0, *pair], torch.tensor(int(is_edge)))

    logits = graph_of_the_table().requires_grad_()
    assert torch.autograd.gradcheck(loss, (logits,), eps=1e-6, atol=1e-8)


@pytest.mark.slow
def test_gradients_of_a_whole_batch_by_finite_differences():
    # A step of 1e-6 changes no tree: the margins of these graphs differ by more than that.
    logits = random_logits(2, 4, classes=3, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    assert torch.autograd.gradcheck(lambda x: SFS()(x, mask).logits.log_softmax(-1), (logits,), eps=1e-6)


def test_the_relative_floor_has_no_gradient():
    # At f⁺ = -40 the floor of the added edge is -50. If it had a gradient, that of case 8 would cancel.
    logits = (graph_of_the_table() - 40).requires_grad_()
    constrained = SFS(10.0, relative=True)(logits).logits
    cross_entropy(constrained[0, 0, 3], torch.tensor(0)).backward()
    torch.testing.assert_close(logits.grad[0, 0, 3], torch.tensor([0.0, 1.0], dtype=torch.float64), atol=1e-4, rtol=0)


@pytest.mark.parametrize("case", [3, 8])
def test_wrong_changes_have_longer_gradients_than_without_sfs(case):
    pair, is_edge, _ = CASES[case]
    constrained, _ = gradient_at(pair, is_edge, SFS(10.0))
    unconstrained, _ = gradient_at(pair, is_edge, None)
    assert constrained.norm() > unconstrained.norm()


@pytest.mark.parametrize("case", [3, 8])
def test_the_norm_inequality_holds_down_to_a_bound_above_minus_lambda(case):
    """Unconstrained at most 1/√2, constrained sigmoid(kept + Λ): "always" ends at kept = -Λ + ln(1 + √2)."""
    bound = -10 + math.log(1 + math.sqrt(2))

    def norms(kept: torch.Tensor, advantage: torch.Tensor, relative: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Norms with and without SFS: the feature `kept` is kept, the other one is higher by `advantage`."""
        in_tree = case == 8
        pair = torch.stack([kept + advantage, kept] if in_tree else [kept, kept + advantage], dim=-1).requires_grad_()
        target = torch.full(kept.shape, 0 if in_tree else 1)  # the spanning tree is wrong
        edges = suppress(pair, torch.full(kept.shape, in_tree), 10.0, relative=relative)
        assert (edges.added if in_tree else edges.removed).all()
        with_sfs = torch.autograd.grad(cross_entropy(edges.logits, target, reduction="sum"), pair)[0]
        without = torch.autograd.grad(cross_entropy(pair, target, reduction="sum"), pair)[0]
        return with_sfs.norm(dim=-1), without.norm(dim=-1)

    kept = torch.linspace(bound + 1e-6, 30, 200, dtype=torch.float64)[:, None]
    advantage = torch.logspace(-6, 1.5, 50, dtype=torch.float64)
    kept, advantage = (part.reshape(-1) for part in torch.broadcast_tensors(kept, advantage))
    with_sfs, without = norms(kept, advantage, relative=False)
    assert (with_sfs > without).all()
    below = torch.tensor([bound - 0.01], dtype=torch.float64), torch.tensor([1e-6], dtype=torch.float64)
    with_sfs, without = norms(*below, relative=False)
    assert (with_sfs < without).all(), "the bound is sharp"
    with_sfs, without = norms(kept - 60, advantage, relative=True)
    assert (with_sfs > without).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("suppression", [10.0, 100.0])
@pytest.mark.parametrize("relative", [False, True])
def test_half_precision_does_not_overflow(suppression, dtype, relative):
    logits = random_logits(scale=8.0, dtype=dtype).requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        edges = SFS(suppression, relative=relative)(logits)
        loss = cross_entropy(edges.logits.flatten(0, 2), torch.ones(edges.tree.numel(), dtype=torch.long))
    loss.backward()
    assert edges.logits.dtype == dtype
    assert edges.logits.isfinite().all()
    assert edges.logits.softmax(-1).isfinite().all()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()
    assert logits.grad.any()


def test_margins_of_half_precision_logits_are_exact():
    # 100 - 0.375 is 99.5 in bfloat16, a tie with 100 - 0.5, which would select the edge of the lower nodes.
    logits = torch.zeros(1, 3, 3, 2, dtype=torch.bfloat16)
    for i, j, no_edge, edge in ((0, 1, 100.0, 0.375), (0, 2, 100.0, 0.5), (1, 2, 0.0, 1.0)):
        logits[0, i, j] = logits[0, j, i] = torch.tensor([no_edge, edge])
    assert SFS()(logits).tree[0].triu().nonzero().tolist() == [[0, 2], [1, 2]]


def test_more_classes_are_the_two_class_layer_of_background_against_the_rest():
    logits = random_logits(classes=5, dtype=torch.float64)
    two = torch.stack([logits[..., 0], logits[..., 1:].logsumexp(-1)], -1)
    many, both = SFS()(logits), SFS()(two)
    assert torch.equal(many.tree, both.tree)
    torch.testing.assert_close(many.logits.softmax(-1)[..., 0], both.logits.softmax(-1)[..., 0])
    kept = many.tree & ~many.added
    torch.testing.assert_close(many.logits[kept], logits[kept])


def test_the_margin_orders_edges_if_the_probability_saturates():
    margin = torch.tensor([17.0, 18.0, 30.0, -104.0, -110.0])
    probability = torch.stack([margin, torch.zeros_like(margin)], -1).softmax(-1)[..., 0]  # y⁻
    assert (probability[:3] == 1).all(), "all tied"
    assert (probability[3:] == 0).all(), "SciPy's sparse graphs read this as no edge"
    # A triangle whose two most certain non-edges differ by 1: the margin selects the better one, not the first one.
    logits = torch.zeros(1, 3, 3, 2)
    for i, j, cost in ((0, 1, 19.0), (0, 2, 18.0), (1, 2, -5.0)):
        logits[0, i, j, 0] = logits[0, j, i, 0] = cost
    assert SFS()(logits).tree[0].triu().nonzero().tolist() == [[0, 2], [1, 2]]


def test_both_directions_are_averaged_and_constrained():
    logits = random_logits(4, 7)
    edges = SFS()(logits)
    mean = (logits + logits.transpose(1, 2)) / 2
    assert torch.equal(edges.tree, SFS()(mean).tree)
    assert not torch.equal(edges.added, edges.added.mT), "each direction is compared with its own prediction"


def test_padding_may_have_any_value():
    logits = random_logits(2, 6)
    mask = torch.tensor([[True] * 4 + [False] * 2] * 2)
    expected = SFS()(logits[:, :4, :4])
    logits[:, 4:] = math.nan
    logits[:, :, 4:] = math.inf
    logits.requires_grad_()
    edges = SFS()(logits, mask)
    assert torch.equal(edges.logits[:, :4, :4], expected.logits)
    assert not edges.tree[:, 4:].any()
    edges.logits[:, :4, :4].log_softmax(-1).square().sum().backward()
    assert logits.grad.isfinite().all()


def test_a_list_of_pairs_equals_the_matrix():
    logits = random_logits(1, 8)
    logits = (logits + logits.transpose(1, 2)) / 2
    i, j = torch.triu_indices(8, 8, offset=1)
    dense, pairs = SFS()(logits), logits[0, i, j]
    cost = torch.full((1, 8, 8), math.inf)
    cost[0, i, j] = cost[0, j, i] = edge_margin(pairs)
    listed = suppress(pairs, minimum_spanning_tree(cost)[0, i, j])
    for actual, expected in zip(listed, dense, strict=True):
        assert torch.equal(actual, expected[0, i, j])


def test_a_given_projection_is_used_unchanged():
    logits = random_logits(2, 5)
    tree = torch.zeros(2, 5, 5, dtype=torch.bool)
    tree[:, 0, 1] = tree[:, 1, 0] = True
    edges = SFS()(logits, tree=tree)
    assert edges.tree is tree
    assert torch.equal(thresholded(edges.logits), tree)


@pytest.mark.slow
def test_it_compiles_without_a_graph_break():
    logits = random_logits().requires_grad_()
    mask = torch.rand(6, 9, generator=torch.Generator().manual_seed(1)) < 0.8
    for relative in (False, True):
        layer = SFS(relative=relative)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        for actual, expected in zip(compiled(logits, mask), layer(logits, mask), strict=True):
            assert torch.equal(actual, expected)
    compiled(logits, mask).logits.sum().backward()
    assert logits.grad is not None


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("relative", [False, True])
def test_cuda_agrees_with_the_cpu_and_never_waits_for_the_device(relative, dtype):
    logits = random_logits(classes=3, dtype=dtype)
    mask = torch.rand(6, 9, generator=torch.Generator().manual_seed(1)) < 0.8
    layer = SFS(relative=relative)
    on_device = logits.cuda().requires_grad_()
    device_mask = mask.cuda()
    layer(on_device, device_mask)  # compiles the kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        edges = layer(on_device, device_mask)
        edges.logits.float().log_softmax(-1).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(edges.tree.cpu(), layer(logits, mask).tree)
    torch.testing.assert_close(edges.logits.detach().cpu(), layer(logits, mask).logits)


def test_wrong_input_is_an_error():
    with pytest.raises(TreeformerError, match=r"suppression is 0\.0, expected a positive number of at most 10000"):
        SFS(0.0)
    for wrong in (math.nan, math.inf, 1e39):
        with pytest.raises(TreeformerError, match="suppression is"):
            SFS(wrong)
    with pytest.raises(TreeformerError, match=r"logits have shape \(2, 3, 4, 2\), expected \(B, N, N, classes\)"):
        SFS()(torch.zeros(2, 3, 4, 2))
    with pytest.raises(TreeformerError, match=r"logits are torch.int64, expected floating point"):
        SFS()(torch.zeros(2, 3, 3, 2, dtype=torch.long))
    with pytest.raises(TreeformerError, match="logits have 1 classes"):
        SFS()(torch.zeros(2, 3, 3, 1))
    with pytest.raises(TreeformerError, match=r"tree is torch.bool \(2, 3\), expected torch.bool \(2, 3, 3\)"):
        suppress(torch.zeros(2, 3, 3, 2), torch.zeros(2, 3, dtype=torch.bool))


def test_print_shows_the_settings():
    assert repr(SFS(5.0, relative=True)) == "SFS(suppression=5.0, relative=True)"


def test_the_examples_of_the_documentation_run():
    page = Path(__file__).parents[2] / "docs" / "sfs.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
