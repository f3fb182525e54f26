"""Deformable attention and sampling, compared with loops over single locations."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from tests.nn.kernels import needs_cuda
from treeformer.nn import deformable_attention
from treeformer.nn.deformable_attention import (
    DeformableAttention,
    FeatureLevel,
    as_level,
    sample,
    weighted_rows,
    weighted_rows_by_bags,
)


def read_by_loop(feature_map: torch.Tensor, x: float, y: float, stride: int) -> torch.Tensor:
    """The value of a map (C,h,w) at one location in px, cell by cell; cells outside are zero."""
    column, row = x / stride - 0.5, y / stride - 0.5
    value = torch.zeros(feature_map.shape[0])
    for i in (math.floor(column), math.floor(column) + 1):
        for j in (math.floor(row), math.floor(row) + 1):
            if 0 <= i < feature_map.shape[2] and 0 <= j < feature_map.shape[1]:
                value = value + (1 - abs(column - i)) * (1 - abs(row - j)) * feature_map[:, j, i]
    return value


def as_map(level: FeatureLevel, image: int) -> torch.Tensor:
    return level.cells[image].T.reshape(-1, level.height, level.width)


def attend_by_loop(module: DeformableAttention, query, points, levels) -> torch.Tensor:
    result = torch.zeros_like(query)
    head_width = query.shape[2] // module.heads
    for b in range(query.shape[0]):
        for q in range(query.shape[1]):
            offsets = module.offsets(query[b, q]).view(module.heads, len(levels), module.points, 2)
            weights = module.weights(query[b, q]).view(module.heads, -1).softmax(-1).view(module.heads, len(levels), -1)
            for head in range(module.heads):
                part = slice(head * head_width, (head + 1) * head_width)
                for index, level in enumerate(levels):
                    project = module.values[str(level.cells.shape[2])]
                    value = as_map(level._replace(cells=project(level.cells)), b)[part]
                    for p in range(module.points):
                        x, y = (points[b, q] + offsets[head, index, p] * level.stride).tolist()
                        read = read_by_loop(value, x, y, level.stride)
                        result[b, q, part] += weights[head, index, p] * read
    return module.output(result)


@pytest.fixture
def levels():
    torch.manual_seed(0)
    sizes = [(6, 8, 4, 4), (8, 4, 2, 8), (8, 2, 1, 16)]
    return [as_level(torch.randn(2, channels, height, width), stride) for channels, height, width, stride in sizes]


@pytest.mark.parametrize(
    ("training", "typical_queries"),
    [(True, 60), (False, 0), (False, 2), (False, 60)],
    ids=["training", "read, then project", "both orders", "project, then read"],
)
def test_attention_equals_the_loop(levels, training, typical_queries, monkeypatch):
    monkeypatch.setattr(deformable_attention, "ROW_COST", 1)
    monkeypatch.setattr(deformable_attention, "TYPICAL_QUERIES", typical_queries)
    module = DeformableAttention(8, 2, 3, [6, 8, 8]).train(training)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    query = torch.randn(2, 5, 8)
    points = torch.rand(2, 5, 2) * torch.tensor([30.0, 50.0]) - 8  # some outside the 16×32 px image
    torch.testing.assert_close(module(query, points, levels), attend_by_loop(module, query, points, levels))
    orders = [module._projects_first(cells, rows) for cells, rows in ((32, 12), (10, 24))]  # of both kinds of levels
    assert orders == {0: [False, False], 2: [False, True], 60: [True, True]}[typical_queries]


def test_levels_of_one_width_share_a_projection(levels):
    module = DeformableAttention(8, 2, 3, [6, 8, 8])
    assert sorted(module.values) == ["6", "8"]


def test_initially_every_head_looks_in_its_own_direction():
    module = DeformableAttention(16, 4, 2, [16])
    offsets = module.offsets(torch.randn(1, 16)).view(4, 2, 2)
    torch.testing.assert_close(offsets[:, 1], 2 * offsets[:, 0])
    torch.testing.assert_close(offsets[:, 0].abs().amax(-1), torch.ones(4))
    assert len({tuple(direction.round().tolist()) for direction in offsets[:, 0]}) == 4


def test_sample_and_its_gradients_equal_grid_sample():
    torch.manual_seed(1)
    feature_map = torch.randn(2, 5, 6, 9, requires_grad=True)
    points = (torch.rand(2, 7, 3, 2) * torch.tensor([50.0, 40.0]) - 7).requires_grad_()
    ours = sample(as_level(feature_map, 4), points)
    grid = 2 * points / torch.tensor([36.0, 24.0]) - 1
    theirs = functional.grid_sample(feature_map, grid, align_corners=False).permute(0, 2, 3, 1)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(ours)
    for actual, expected in zip(
        torch.autograd.grad((ours * weight).sum(), (feature_map, points)),
        torch.autograd.grad((theirs * weight).sum(), (feature_map, points)),
        strict=True,
    ):
        torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e30])
def test_an_invalid_point_never_reads_outside_the_map(bad):
    level = as_level(torch.ones(1, 3, 4, 4), 4)
    read = sample(level, torch.tensor([[[bad, 5.0], [5.0, 5.0]]]))
    torch.testing.assert_close(read[0, 1], torch.ones(3))
    assert not (read[0, 0] == 1).any()


@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 3, 64), (0, 4)])
def test_bags_add_the_same_rows(shape):
    torch.manual_seed(0)
    table, row, weight = torch.randn(50, 7), torch.randint(50, shape), torch.randn(shape)
    expected = torch.zeros(*shape[:-1], 7)
    for index in torch.cartesian_prod(*(torch.arange(count) for count in shape)).tolist():
        expected[tuple(index[:-1])] += weight[tuple(index)] * table[row[tuple(index)]]
    torch.testing.assert_close(weighted_rows(table, row, weight), expected)
    torch.testing.assert_close(weighted_rows_by_bags(table, row, weight), expected)


def bags_as_on_a_gpu(table, row, weight):
    """`weighted_rows_by_bags` as on a GPU in bfloat16: summed in float32, rounded once. A CPU rounds every sum."""
    return weighted_rows(table.float(), row, weight.float()).to(table.dtype)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_bags_of_bfloat16_are_as_exact_as_their_weights(device):
    """Weights and the sum are rounded, by at most 2⁻⁸ of their size; intermediate results are not."""
    torch.manual_seed(0)
    table, row, weight = torch.randn(300, 24).bfloat16(), torch.randint(300, (2, 9, 8, 16)), torch.randn(2, 9, 8, 16)
    add = weighted_rows_by_bags if device == "cuda" else bags_as_on_a_gpu
    found = add(table.to(device), row.to(device), weight.bfloat16().to(device)).cpu()
    assert found.dtype == torch.bfloat16
    terms = table.double()[row] * weight.double()[..., None]
    assert ((found - terms.sum(-2)).abs() <= 2**-8 * (terms.abs().sum(-2) + found.abs()) + 1e-6).all()


@pytest.fixture
def gpu_path(monkeypatch):
    """Take the code path of inference on a GPU."""
    monkeypatch.setattr("treeformer.nn.deformable_attention.is_inference_on_gpu", lambda tensor: True)
    monkeypatch.setattr(DeformableAttention, "_read_on_cpu", DeformableAttention._project_then_read)


@torch.no_grad()
def test_attention_on_the_gpu_path_equals_the_loop(levels, gpu_path):
    module = DeformableAttention(8, 2, 3, [level.cells.shape[2] for level in levels]).eval()
    module.weights.weight.normal_()
    module.offsets.weight.normal_()
    query, points = torch.randn(2, 5, 8), torch.rand(2, 5, 2) * 40 - 4
    torch.testing.assert_close(
        module(query, points, levels), attend_by_loop(module, query, points, levels), atol=1e-5, rtol=1e-4
    )


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sampling_on_a_gpu_is_the_same_in_inference_and_training(dtype):
    torch.manual_seed(0)
    level = as_level(torch.randn(2, 24, 9, 7, device="cuda", dtype=dtype), stride=8)
    points = torch.rand(2, 31, 2, device="cuda") * 90 - 10
    trained = sample(level, points)
    with torch.inference_mode():
        found = sample(level, points)
    assert found.dtype == dtype
    tolerance = {} if dtype == torch.float32 else {"atol": 2**-7 * level.cells.abs().max().item(), "rtol": 2**-8}
    torch.testing.assert_close(found.float(), trained, **tolerance)


def test_cells_are_a_view_of_a_channels_last_map():
    feature_map = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    level = as_level(feature_map, 8)
    assert level.cells.data_ptr() == feature_map.data_ptr()
    torch.testing.assert_close(level.cells[1, 2 * 5 + 3], feature_map[1, :, 2, 3])
