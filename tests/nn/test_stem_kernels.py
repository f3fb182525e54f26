"""The kernels of the stem, compared with plain torch.

Without a GPU they run in Triton's interpreter: TRITON_INTERPRET=1 pytest tests/nn/test_stem_kernels.py
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.nn.kernels import KERNEL_DEVICE, needs_cuda, needs_kernel
from treeformer.nn.backbone import ResNet
from treeformer.nn.kernels import stem as stem_triton


def test_the_rearranged_weight_gives_the_same_convolution():
    torch.manual_seed(0)
    images, weight = torch.randn(2, 3, 12, 16), torch.randn(5, 3, 7, 7)
    blocks = functional.pixel_unshuffle(images, 2)  # channels: color, y, x
    blocks = blocks.unflatten(1, (3, 4)).transpose(1, 2).flatten(1, 2)  # y, x, color
    padded = functional.pad(blocks, (2, 1, 2, 1, 0, 4))
    found = functional.conv2d(padded, stem_triton.block_weight(weight))
    torch.testing.assert_close(found, functional.conv2d(images, weight, None, 2, 3), atol=1e-4, rtol=1e-4)


@needs_kernel
@pytest.mark.parametrize("channels_last", [False, True])
def test_blocks_are_normalized_pixels_with_padding(channels_last):
    torch.manual_seed(0)
    images = torch.rand(2, 3, 12, 16)
    if channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    scale, shift = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, -0.5, 0.25])
    on_device = [tensor.to(KERNEL_DEVICE) for tensor in (images, scale, shift)]
    found = stem_triton.pixel_blocks(*on_device, torch.float32).cpu()
    assert found.shape == (2, 16, 9, 11)
    expected = torch.zeros(found.shape)
    for y in range(12):
        for x in range(16):
            first = 3 * (2 * (y % 2) + x % 2)
            expected[:, first : first + 3, y // 2 + 2, x // 2 + 2] = images[:, :, y, x] * scale + shift
    torch.testing.assert_close(found, expected)


@needs_kernel
@pytest.mark.parametrize("shape", [(2, 4, 6, 10), (1, 3, 7, 5), (1, 16, 2, 2), (1, 1, 1, 1)])
def test_max_pooling_equals_that_of_torch(shape):
    torch.manual_seed(0)
    features = torch.randn(shape).relu().to(KERNEL_DEVICE)
    found = stem_triton.max_pool(features)
    torch.testing.assert_close(found, functional.max_pool2d(features, 3, 2, 1), atol=0, rtol=0)


@needs_cuda
def test_the_folded_backbone_has_the_same_features_with_the_kernels(monkeypatch):
    torch.manual_seed(0)
    backbone = ResNet((1, 1), 8).cuda().eval().to(memory_format=torch.channels_last)
    backbone.fold_batch_norms(torch.bfloat16)
    images = torch.rand(2, 3, 64, 64).cuda()
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
        found = backbone(images)
        monkeypatch.setattr(stem_triton, "can_use", lambda images: False)
        for actual, wanted in zip(found, backbone(images), strict=True):
            torch.testing.assert_close(actual.float(), wanted.float(), atol=0.05, rtol=0.05)  # bfloat16: 2⁻⁸


@pytest.mark.parametrize("shape", [(1, 3, 4, 4), (1, 3, 5, 4)])
def test_the_kernels_are_not_used_on_a_cpu(shape):
    assert not stem_triton.can_use(torch.zeros(shape))
