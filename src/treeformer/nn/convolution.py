"""Convolutions whose output is added to other maps, without a pass over the map for each sum where that is possible."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.inference_mode import is_inference_on_gpu
from treeformer.nn.kernels import feature_maps


def conv_add(
    conv: nn.Conv2d, image: Tensor, coarse: Tensor | None = None, shared: Tensor | None = None, *, relu: bool = False
) -> Tensor:
    """Compute conv(image) + enlarged coarse map + shared map, and optionally its ReLU.

    Args:
        conv: a convolution, its output (B,C,H,W).
        image: (B,channels of the input,h,w).
        coarse: (B,C,H/2,W/2), or None for 0; each of its cells is added to four.
        shared: (C,H,W), or None for 0; added to every image.
        relu: set negative sums to 0.

    Returns:
        (B,C,H,W).
    """
    if is_inference_on_gpu(image) and feature_maps.can_use(image):
        padding = cast(tuple[int, ...], conv.padding)  # never given by name ("same")
        total = functional.conv2d(image, conv.weight, None, conv.stride, padding)
        return feature_maps.add_(total, conv.bias, coarse, shared, relu=relu)
    total = conv(image)
    if coarse is not None:
        total = add_upsampled(total, coarse)
    if shared is not None:
        total = total + shared
    return functional.relu(total) if relu else total


def add_upsampled(fine: Tensor, coarse: Tensor) -> Tensor:
    """Add a map to one of twice its size; each of its cells is added to four.

    Args:
        fine: (B,C,2·h,2·w).
        coarse: (B,C,h,w).

    Returns:
        (B,C,2·h,2·w).
    """
    if is_inference_on_gpu(fine):  # autocast would enlarge the map in float32
        batch, channels, height, width = coarse.shape
        cells = fine.permute(0, 2, 3, 1).reshape(batch, height, 2, width, 2, channels)
        total = cells + coarse.permute(0, 2, 3, 1)[:, :, None, :, None]
        return total.flatten(3, 4).flatten(1, 2).permute(0, 3, 1, 2)
    return fine + functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
