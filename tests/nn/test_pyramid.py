"""The feature pyramid: the sum of a map and a coarser one."""

from __future__ import annotations

import torch
from torch.nn import functional

from treeformer.nn import pyramid


def test_the_sum_with_an_enlarged_map_is_the_same_in_inference_on_a_gpu(monkeypatch):
    torch.manual_seed(0)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        fine = torch.randn(2, 3, 8, 12).contiguous(memory_format=memory_format)
        coarse = torch.randn(2, 3, 4, 6).contiguous(memory_format=memory_format)
        expected = fine + functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        assert torch.equal(pyramid.add_upsampled(fine, coarse), expected)
        with monkeypatch.context() as patch:
            patch.setattr(pyramid, "is_inference_on_gpu", lambda tensor: True)
            assert torch.equal(pyramid.add_upsampled(fine, coarse), expected)
