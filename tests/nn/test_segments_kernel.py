"""The kernel that samples a map along segments, compared with plain torch.

Without a GPU it runs in Triton's interpreter: TRITON_INTERPRET=1 pytest tests/nn/test_segments_kernel.py
"""

from __future__ import annotations

import pytest
import torch

from tests.nn.kernels import KERNEL_DEVICE, needs_cuda, needs_kernel
from treeformer.nn.deformable_attention import FeatureLevel
from treeformer.nn.kernels import segments as segments_triton
from treeformer.nn.relation import RelationHead, sample_segments

SHAPE = (5, 7, 4)  # height, width, stride


def inputs(segments, channels, dtype=torch.float32):
    """Random cells and segments, a third of whose ends lie outside the image."""
    torch.manual_seed(0)
    height, width, stride = SHAPE
    size = torch.tensor([width * stride, height * stride])
    start, end = ((torch.rand(2, segments, 2) * 1.6 - 0.3) * size for _ in range(2))
    cells = torch.randn(2, height * width, channels, dtype=dtype)
    return [tensor.to(KERNEL_DEVICE) for tensor in (cells, start, end)]


def in_plain_torch(cells, start, end, count):
    with torch.enable_grad():  # the kernel is only used without gradients
        return sample_segments(start, end, FeatureLevel(cells.float(), *SHAPE), count)


@needs_kernel
@pytest.mark.parametrize(
    ("segments", "channels", "count"),
    [(9, 4, 4), (100, 16, 8), (70, 24, 2), (1, 1, 2)],
    ids=["few", "more than a block", "channels not a power of two", "one of each"],
)
def test_samples_equal_plain_torch(segments, channels, count):
    cells, start, end = inputs(segments, channels)
    found = segments_triton.read(cells, start, end, SHAPE, count)
    for actual, wanted in zip(found, in_plain_torch(cells, start, end, count), strict=True):
        assert actual.shape == (2, segments, channels * count // 2)
        torch.testing.assert_close(actual, wanted, atol=1e-5, rtol=1e-5)


@needs_kernel
def test_the_result_has_the_precision_of_the_cells():
    cells, start, end = inputs(20, 8, torch.bfloat16)
    found = segments_triton.read(cells, start, end, SHAPE, 4)
    for actual, wanted in zip(found, in_plain_torch(cells, start, end, 4), strict=True):
        assert actual.dtype == torch.bfloat16
        torch.testing.assert_close(actual.float(), wanted, atol=1e-2, rtol=2**-7)  # rounded once, 2⁻⁸


@needs_kernel
def test_equal_ends_and_no_segment():
    cells, start, _ = inputs(6, 4)
    sums, differences = segments_triton.read(cells, start, start, SHAPE, 4)
    torch.testing.assert_close(sums, in_plain_torch(cells, start, start, 4)[0], atol=1e-5, rtol=1e-5)
    assert not differences.any()
    assert segments_triton.read(cells, start[:, :0], start[:, :0], SHAPE, 4)[0].shape == (2, 0, 8)


@needs_kernel
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e30])
def test_an_invalid_end_affects_only_its_segment(bad):
    cells, start, end = inputs(6, 4)
    expected = in_plain_torch(cells, start, end, 4)
    end[0, 2, 0] = bad
    for actual, wanted in zip(segments_triton.read(cells, start, end, SHAPE, 4), expected, strict=True):
        others = torch.ones(2, 6, dtype=torch.bool, device=KERNEL_DEVICE)
        others[0, 2] = False
        torch.testing.assert_close(actual[others], wanted[others], atol=1e-5, rtol=1e-5)


@needs_cuda
def test_the_relation_head_has_the_same_logits_with_the_kernel(monkeypatch):
    torch.manual_seed(0)
    head = RelationHead(16, 32, fine_channels=16, segment_channels=16, segment_points=8).cuda().eval()
    fine = FeatureLevel(torch.randn(2, 35, 16).cuda(), *SHAPE)
    tensors = torch.randn(2, 9, 16).cuda(), torch.randn(2, 16).cuda(), 20 * torch.rand(2, 9, 2).cuda(), fine
    with torch.no_grad():
        found = head(*tensors, torch.ones(2, 9).cuda())
        monkeypatch.setattr(segments_triton, "can_read", lambda cells: False)
        torch.testing.assert_close(found, head(*tensors, torch.ones(2, 9).cuda()), atol=1e-3, rtol=1e-3)


def test_the_kernel_is_not_used_on_a_cpu():
    assert not segments_triton.can_read(torch.zeros(1))
