"""The kernels of deformable attention against plain torch; without a GPU in Triton's interpreter.

TRITON_INTERPRET=1 pytest tests/nn/test_deformable_triton.py (Triton 3.6 needs NumPy below 2.4 for it).
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


def read_plainly(values, places, weights, shapes):
    """One map after the other, corners as `bilinear_corners` says."""
    image = torch.arange(len(values), device=values.device).view(-1, 1, 1, 1, 1)
    head = torch.arange(values.shape[2], device=values.device).view(-1, 1, 1)
    total, first = 0.0, 0
    for number, (height, width, stride) in enumerate(shapes):
        cell, weight = bilinear_corners(places[:, :, :, number], FeatureLevel(values, height, width, stride))
        read = values.float()[image, first + cell, head]
        total = total + (read * (weight * weights[:, :, :, number, :, None])[..., None]).sum((3, 4))
        first += height * width
    return total


def inputs(shapes, queries=5, heads=2, points=3, channels=4, dtype=torch.float32):
    """Random values, places (a third of them outside the image) and weights, with gradients."""
    torch.manual_seed(0)
    size = (2, queries, heads, len(shapes), points)
    height, width, stride = shapes[0]
    places = (torch.rand(*size, 2) * 1.6 - 0.3) * torch.tensor([width * stride, height * stride])
    values = torch.randn(2, sum(height * width for height, width, _ in shapes), heads, channels, dtype=dtype)
    return [tensor.to(KERNEL_DEVICE).requires_grad_() for tensor in (values, places, torch.rand(size) + 0.1)]


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
def test_values_and_gradients_are_those_of_plain_torch(shapes, sizes):
    tensors = inputs(shapes, **sizes)
    found, expected = (with_gradients(read, tensors, shapes) for read in (deformable_triton.read, read_plainly))
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, atol=3e-5, rtol=1e-5)  # sums of some hundred float32 in another order


@needs_kernel
def test_places_on_borders_and_centers_are_those_of_plain_torch():
    values, places, weights = inputs(SEVERAL, queries=12)
    stride = torch.tensor([stride for _, _, stride in SEVERAL], device=KERNEL_DEVICE).view(-1, 1, 1)
    cell = torch.randint(-2, 9, places.shape, device=KERNEL_DEVICE)
    half = torch.randint(2, places.shape, device=KERNEL_DEVICE) / 2
    tensors = [values, ((cell + half) * stride).requires_grad_(), weights]
    found, expected = (with_gradients(read, tensors, SEVERAL) for read in (deformable_triton.read, read_plainly))
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, atol=3e-5, rtol=1e-5)


@needs_kernel
def test_values_in_bfloat16_are_added_in_float32():
    tensors = inputs(SEVERAL, queries=9, channels=16, dtype=torch.bfloat16)
    found, expected = (with_gradients(read, tensors, SEVERAL) for read in (deformable_triton.read, read_plainly))
    assert found[1].dtype == torch.bfloat16
    for number in (0, 2, 3):
        torch.testing.assert_close(found[number], expected[number], atol=3e-5, rtol=1e-5)
    # Both are rounded to bfloat16 (2⁻⁸) at the end.
    torch.testing.assert_close(found[1], expected[1], atol=1e-2, rtol=2**-7)


@needs_kernel
@pytest.mark.parametrize("bad", [NAN, INFINITE, -INFINITE, -1e30, 3e38])
def test_a_wild_place_spoils_nothing_but_itself(bad):
    values, places, weights = inputs(SEVERAL)
    with torch.no_grad():
        places[0, 2, 1, 0, 1, 0] = bad
        places[1, 3, 0, 2, 2, 1] = bad
    tensors = [values, places, weights]
    found, expected = (with_gradients(read, tensors, SEVERAL) for read in (deformable_triton.read, read_plainly))
    torch.testing.assert_close(found[0], expected[0], equal_nan=True, atol=3e-5, rtol=1e-5)
    assert found[1].isfinite().all()
    for number in (2, 3):
        sound = places.isfinite() if number == 2 else places.isfinite().all(-1)
        torch.testing.assert_close(found[number][sound], expected[number][sound], atol=3e-5, rtol=1e-5, equal_nan=True)


@needs_kernel
@pytest.mark.parametrize("queries", [0, 1])
def test_no_query_reads_nothing(queries):
    tensors = inputs(SEVERAL, queries=queries)
    read, of_values, of_places, _ = with_gradients(deformable_triton.read, tensors, SEVERAL)
    assert read.shape == (2, queries, 2, 4)
    assert of_places.shape == tensors[1].shape
    assert of_values.any() == bool(queries)


@needs_kernel
def test_torch_finds_the_operator_sound():
    values, places, weights = inputs(SEVERAL)
    flat = [number for shape in SEVERAL for number in shape]
    torch.library.opcheck(torch.ops.treeformer.read_places.default, (values, places, weights, flat))


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
    """What it gives, without its history, which belongs to the stream of this call; gradients of all parameters."""
    result = module(*tensors)
    return [result.detach(), *torch.autograd.grad(result.float().square().sum(), list(module.parameters()))]


@needs_kernel
@pytest.mark.parametrize("compiled", [False, True])
def test_attention_learns_the_same_by_kernel(compiled, monkeypatch):
    module, tensors = attention_and_inputs()
    monkeypatch.setattr(deformable_triton, "can_read", lambda query: False)
    expected = attend(module, tensors)
    monkeypatch.setattr(deformable_triton, "can_read", lambda query: True)
    backend = "inductor" if KERNEL_DEVICE == "cuda" else "aot_eager"
    found = attend(torch.compile(module, fullgraph=True, backend=backend) if compiled else module, tensors)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-3, rtol=1e-3 if KERNEL_DEVICE == "cuda" else 1e-4)


@needs_cuda
def test_attention_is_compiled_and_recorded_in_bfloat16(monkeypatch):
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
    for mine, other in zip(found, expected, strict=True):
        # Both round to bfloat16 (2⁻⁸) in several places, though not the same ones.
        torch.testing.assert_close(mine.float(), other.float(), atol=0.05 * other.abs().max().item(), rtol=0.05)


def test_only_training_on_a_gpu_asks_for_the_kernel():
    assert not deformable_triton.can_read(torch.zeros(1))


def test_maps_follow_each_other():
    first, second = deformable_triton.map_shapes([5, 7, 4, 3, 4, 8])
    assert first == (0, 5, 7, 4)
    assert second == (35, 3, 4, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_compiler_is_told_shapes_and_precisions(dtype):
    with FakeTensorMode():
        values = torch.empty(2, 51, 2, 4, dtype=dtype, requires_grad=True)
        places = torch.empty(2, 5, 2, 3, 3, 2, requires_grad=True)
        weights = torch.empty(2, 5, 2, 3, 3, requires_grad=True)
        read = deformable_triton.read(values, places, weights, SEVERAL)
        gradients = torch.autograd.grad(read.sum(), (values, places, weights))
    assert (read.shape, read.dtype) == ((2, 5, 2, 4), torch.float32)
    for gradient, tensor in zip(gradients, (values, places, weights), strict=True):
        assert (gradient.shape, gradient.dtype) == (tensor.shape, tensor.dtype)
