"""The kernels of deformable attention, compared with plain torch.

Without a GPU they run in Triton's interpreter: TRITON_INTERPRET=1 pytest tests/nn/test_deformable_kernel.py
"""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.nn.kernels import KERNEL_DEVICE, needs_cuda, needs_kernel
from treeformer.nn.deformable_attention import DeformableAttention, FeatureLevel, as_level, bilinear_corners
from treeformer.nn.kernels import deformable as deformable_triton

SEVERAL = [(5, 7, 4), (3, 4, 8), (2, 2, 16)]  # (height, width, stride) of maps
ONE_CELL = [(1, 1, 8)]
LONG = [(20, 3, 2), (2, 33, 4)]
NAN, INFINITE = float("nan"), float("inf")


def read_in_plain_torch(values, locations, weights, shapes):
    """Read one map after the other, with the corners of `bilinear_corners`."""
    image = torch.arange(len(values), device=values.device).view(-1, 1, 1, 1, 1)
    head = torch.arange(values.shape[2], device=values.device).view(-1, 1, 1)
    total, first = 0.0, 0
    for number, (height, width, stride) in enumerate(shapes):
        cell, weight = bilinear_corners(locations[:, :, :, number], FeatureLevel(values, height, width, stride))
        read = values.float()[image, first + cell, head]
        total = total + (read * (weight * weights[:, :, :, number, :, None])[..., None]).sum((3, 4))
        first += height * width
    return total


def inputs(shapes, queries=5, heads=2, points=3, channels=4, dtype=torch.float32):
    """Random values, locations (a third of them outside the image) and weights, with gradients."""
    torch.manual_seed(0)
    size = (2, queries, heads, len(shapes), points)
    height, width, stride = shapes[0]
    locations = (torch.rand(*size, 2) * 1.6 - 0.3) * torch.tensor([width * stride, height * stride])
    values = torch.randn(2, sum(height * width for height, width, _ in shapes), heads, channels, dtype=dtype)
    return [tensor.to(KERNEL_DEVICE).requires_grad_() for tensor in (values, locations, torch.rand(size) + 0.1)]


def with_gradients(read, tensors, shapes):
    result = read(*tensors, shapes)
    torch.manual_seed(1)
    return result, *torch.autograd.grad(result, tensors, torch.randn(result.shape).to(KERNEL_DEVICE))


@needs_kernel
@pytest.mark.parametrize(
    ("shapes", "sizes"),
    [
        (SEVERAL, {}),
        (SEVERAL, {"queries": 37, "heads": 3, "channels": 24, "points": 4}),
        (SEVERAL, {"queries": 1, "heads": 1, "channels": 1, "points": 1}),
        (ONE_CELL, {"channels": 16}),
        (LONG, {"queries": 20, "channels": 48, "points": 2}),
    ],
    ids=["several", "more queries than a block", "one of each", "one cell", "long"],
)
def test_values_and_gradients_equal_plain_torch(shapes, sizes):
    tensors = inputs(shapes, **sizes)
    found, expected = (with_gradients(read, tensors, shapes) for read in (deformable_triton.read, read_in_plain_torch))
    for actual, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(
            actual, wanted, atol=3e-5, rtol=1e-5
        )  # sums of a few hundred float32 in another order


@needs_kernel
@pytest.mark.parametrize("shapes", [SEVERAL, ONE_CELL, LONG], ids=["several", "one cell", "long"])
def test_values_by_map_give_the_same_result(shapes):
    values, locations, weights = (tensor.detach() for tensor in inputs(shapes))
    parts = values.split([height * width for height, width, _ in shapes], dim=1)
    by_map = torch.cat([part.flatten(0, 1) for part in parts])
    found = deformable_triton.read_by_map(by_map, locations, weights, shapes)
    torch.testing.assert_close(found, deformable_triton.read(values, locations, weights, shapes), atol=0, rtol=0)


@needs_kernel
def test_locations_on_borders_and_centers_equal_plain_torch():
    values, locations, weights = inputs(SEVERAL, queries=12)
    stride = torch.tensor([stride for _, _, stride in SEVERAL], device=KERNEL_DEVICE).view(-1, 1, 1)
    cell = torch.randint(-2, 9, locations.shape, device=KERNEL_DEVICE)
    half = torch.randint(2, locations.shape, device=KERNEL_DEVICE) / 2
    tensors = [values, ((cell + half) * stride).requires_grad_(), weights]
    found, expected = (with_gradients(read, tensors, SEVERAL) for read in (deformable_triton.read, read_in_plain_torch))
    for actual, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(actual, wanted, atol=3e-5, rtol=1e-5)


@needs_kernel
def test_values_in_bfloat16_are_added_in_float32():
    tensors = inputs(SEVERAL, queries=9, channels=16, dtype=torch.bfloat16)
    found, expected = (with_gradients(read, tensors, SEVERAL) for read in (deformable_triton.read, read_in_plain_torch))
    assert found[1].dtype == torch.bfloat16
    for number in (0, 2, 3):
        torch.testing.assert_close(found[number], expected[number], atol=3e-5, rtol=1e-5)
    # Both are rounded to bfloat16 (2⁻⁸) at the end.
    torch.testing.assert_close(found[1], expected[1], atol=1e-2, rtol=2**-7)


@needs_kernel
@pytest.mark.parametrize("bad", [NAN, INFINITE, -INFINITE, -1e30, 3e38])
def test_an_invalid_location_affects_only_itself(bad):
    values, locations, weights = inputs(SEVERAL)
    with torch.no_grad():
        locations[0, 2, 1, 0, 1, 0] = bad
        locations[1, 3, 0, 2, 2, 1] = bad
    tensors = [values, locations, weights]
    found, expected = (with_gradients(read, tensors, SEVERAL) for read in (deformable_triton.read, read_in_plain_torch))
    torch.testing.assert_close(found[0], expected[0], equal_nan=True, atol=3e-5, rtol=1e-5)
    assert found[1].isfinite().all()
    for number in (2, 3):
        valid = locations.isfinite() if number == 2 else locations.isfinite().all(-1)
        torch.testing.assert_close(found[number][valid], expected[number][valid], atol=3e-5, rtol=1e-5, equal_nan=True)


@needs_kernel
@pytest.mark.parametrize("queries", [0, 1])
def test_no_query_reads_nothing(queries):
    tensors = inputs(SEVERAL, queries=queries)
    read, grad_values, grad_locations, _ = with_gradients(deformable_triton.read, tensors, SEVERAL)
    assert read.shape == (2, queries, 2, 4)
    assert grad_locations.shape == tensors[1].shape
    assert grad_values.any() == bool(queries)


@needs_kernel
def test_the_operator_passes_opcheck():
    values, locations, weights = inputs(SEVERAL)
    flat = [number for shape in SEVERAL for number in shape]
    torch.library.opcheck(torch.ops.treeformer.read_locations.default, (values, locations, weights, flat))


def attention_and_inputs():
    torch.manual_seed(0)
    channels = (6, 8, 8)
    module = DeformableAttention(8, 2, 3, channels).to(KERNEL_DEVICE).train()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape).to(KERNEL_DEVICE))
    levels = [
        as_level(torch.randn(2, count, height, width).to(KERNEL_DEVICE), stride)
        for count, (height, width, stride) in zip(channels, SEVERAL, strict=True)
    ]
    points = torch.rand(2, 5, 2) * 40 - 6
    return module, (torch.randn(2, 5, 8).to(KERNEL_DEVICE), points.to(KERNEL_DEVICE), levels)


def attend(module, tensors):
    """The result, detached because its history belongs to the stream of this call, and all parameter gradients."""
    result = module(*tensors)
    return [result.detach(), *torch.autograd.grad(result.float().square().sum(), list(module.parameters()))]


@needs_kernel
@pytest.mark.parametrize("compiled", [False, True])
def test_attention_has_the_same_gradients_with_the_kernel(compiled, monkeypatch):
    module, tensors = attention_and_inputs()
    monkeypatch.setattr(deformable_triton, "can_read", lambda query: False)
    expected = attend(module, tensors)
    monkeypatch.setattr(deformable_triton, "can_read", lambda query: True)
    backend = "inductor" if KERNEL_DEVICE == "cuda" else "aot_eager"
    found = attend(torch.compile(module, fullgraph=True, backend=backend) if compiled else module, tensors)
    for actual, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(actual, wanted, atol=1e-3, rtol=1e-3 if KERNEL_DEVICE == "cuda" else 1e-4)


@needs_cuda
def test_attention_is_compiled_and_captured_in_bfloat16(monkeypatch):
    module, tensors = attention_and_inputs()
    used = []
    choose = deformable_triton.can_read
    monkeypatch.setattr(deformable_triton, "can_read", lambda query: used.append(choose(query)) or used[-1])
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        expected = attend(module, tensors)
        monkeypatch.setattr(deformable_triton, "can_read", choose)
        compiled = torch.compile(module, fullgraph=True)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                attend(compiled, tensors)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = attend(compiled, tensors)
    graph.replay()
    assert used == [True]
    for actual, wanted in zip(found, expected, strict=True):
        # Both round to bfloat16 (2⁻⁸) at several steps, but not at the same ones.
        torch.testing.assert_close(actual.float(), wanted.float(), atol=0.05 * wanted.abs().max().item(), rtol=0.05)


def test_the_kernel_is_not_used_on_a_cpu():
    assert not deformable_triton.can_read(torch.zeros(1))


def test_maps_are_stored_one_after_the_other():
    first, second = deformable_triton.map_shapes([5, 7, 4, 3, 4, 8])
    assert first == (0, 5, 7, 4)
    assert second == (35, 3, 4, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fake_tensors_have_the_right_shapes_and_types(dtype):
    with FakeTensorMode():
        values = torch.empty(2, 51, 2, 4, dtype=dtype, requires_grad=True)
        locations = torch.empty(2, 5, 2, 3, 3, 2, requires_grad=True)
        weights = torch.empty(2, 5, 2, 3, 3, requires_grad=True)
        read = deformable_triton.read(values, locations, weights, SEVERAL)
        gradients = torch.autograd.grad(read.sum(), (values, locations, weights))
    assert (read.shape, read.dtype) == ((2, 5, 2, 4), torch.float32)
    for gradient, tensor in zip(gradients, (values, locations, weights), strict=True):
        assert (gradient.shape, gradient.dtype) == (tensor.shape, tensor.dtype)
