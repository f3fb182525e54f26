"""Convolutions with sums after them, and the kernel of these sums, compared with plain torch.

Without a GPU the kernel runs in Triton's interpreter: TRITON_INTERPRET=1 pytest tests/nn/test_convolution.py
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.nn.kernels import KERNEL_DEVICE, needs_cuda, needs_kernel
from treeformer.nn import convolution
from treeformer.nn.convolution import conv_add
from treeformer.nn.kernels import feature_maps


def sum_in_plain_torch(feature_map, bias=None, coarse=None, shared=None, *, relu=False):
    """Add the parts cell by cell."""
    total = feature_map.double().clone()
    _, _, height, width = total.shape
    for y in range(height):
        for x in range(width):
            for part in (
                None if bias is None else bias,
                None if coarse is None else coarse[:, :, y // 2, x // 2],
                None if shared is None else shared[:, y, x],
            ):
                if part is not None:
                    total[:, :, y, x] += part
    return total.clamp(min=0) if relu else total


def parts_of(shape, seed=0):
    torch.manual_seed(seed)
    batch, channels, height, width = shape
    return {
        "bias": torch.randn(channels),
        "coarse": torch.randn(batch, channels, (height + 1) // 2, (width + 1) // 2),
        "shared": torch.randn(channels, height, width),
    }


@needs_kernel
@pytest.mark.parametrize("shape", [(2, 4, 6, 10), (1, 3, 7, 5), (3, 96, 4, 4), (1, 1, 1, 1), (2, 192, 9, 12)])
@pytest.mark.parametrize("names", [["bias"], ["coarse"], ["shared"], ["bias", "coarse"], ["bias", "coarse", "shared"]])
@pytest.mark.parametrize("relu", [False, True])
def test_sums_equal_plain_torch(shape, names, relu):
    parts = {name: part for name, part in parts_of(shape).items() if name in names}
    feature_map = torch.randn(shape)
    on_device = {name: part.to(KERNEL_DEVICE) for name, part in parts.items()}
    found = feature_maps.add_(feature_map.clone().to(KERNEL_DEVICE), **on_device, relu=relu).cpu()
    expected = sum_in_plain_torch(feature_map, **parts, relu=relu)
    torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=1e-6)


@needs_kernel
def test_a_map_with_channels_last_is_changed_in_place():
    feature_map = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).to(KERNEL_DEVICE)
    found = feature_maps.add_(feature_map, torch.ones(3, device=KERNEL_DEVICE))
    assert found.data_ptr() == feature_map.data_ptr()


@pytest.mark.parametrize("relu", [False, True])
def test_a_convolution_with_sums_equals_plain_torch(relu):
    torch.manual_seed(0)
    conv, image = nn.Conv2d(3, 4, 3, padding=1), torch.randn(2, 3, 6, 8)
    parts = parts_of((2, 4, 6, 8))
    found = conv_add(conv, image, parts["coarse"], parts["shared"], relu=relu)
    expected = sum_in_plain_torch(conv(image), coarse=parts["coarse"], shared=parts["shared"], relu=relu)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


def test_the_sum_with_an_enlarged_map_is_the_same_in_inference_on_a_gpu(monkeypatch):
    torch.manual_seed(0)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        fine = torch.randn(2, 3, 8, 12).contiguous(memory_format=memory_format)
        coarse = torch.randn(2, 3, 4, 6).contiguous(memory_format=memory_format)
        expected = fine + functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        assert torch.equal(convolution.add_upsampled(fine, coarse), expected)
        with monkeypatch.context() as patch:
            patch.setattr(convolution, "is_inference_on_gpu", lambda tensor: True)
            assert torch.equal(convolution.add_upsampled(fine, coarse), expected)


@needs_cuda
def test_inference_on_a_gpu_gives_the_same_with_and_without_the_kernel(monkeypatch):
    torch.manual_seed(0)
    conv = nn.Conv2d(16, 24, 3, padding=1).cuda().to(memory_format=torch.channels_last)
    image = torch.randn(2, 16, 12, 8).cuda().contiguous(memory_format=torch.channels_last)
    parts = {name: part.cuda() for name, part in parts_of((2, 24, 12, 8)).items() if name != "bias"}
    with torch.inference_mode():
        found = conv_add(conv, image, **parts, relu=True)
        monkeypatch.setattr(convolution.feature_maps, "can_use", lambda image: False)
        torch.testing.assert_close(found, conv_add(conv, image, **parts, relu=True), atol=1e-4, rtol=1e-4)
