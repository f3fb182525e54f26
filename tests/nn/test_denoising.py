"""Tests of the denoising tokens."""

from __future__ import annotations

import torch

from treeformer.nn.denoising import denoising_mask


def test_denoising_mask():
    mask = denoising_mask(torch.tensor([[True, True, False]]), objects=2)[0, 0].int().tolist()
    assert mask == [
        [1, 1, 0, 0, 0, 1],
        [1, 1, 0, 0, 0, 1],
        [0, 0, 1, 1, 0, 1],
        [0, 0, 1, 1, 0, 1],
        [0, 0, 1, 1, 1, 1],
        [1, 1, 0, 0, 0, 1],
    ]
