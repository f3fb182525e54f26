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
    """Compute conv(image) + enlarged coarse map + shared map, (B,C,H,W), and optionally its ReLU.

    Each cell of the coarse map (B,C,H/2,W/2) is added to four; the shared map (C,H,W) is added to every image.
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
    """Add a map (B,C,h,w) to one of twice its size; each of its cells is added to four."""
    if is_inference_on_gpu(fine):  # autocast would enlarge the map in float32
        batch, channels, height, width = coarse.shape
        cells = fine.permute(0, 2, 3, 1).reshape(batch, height, 2, width, 2, channels)
        total = cells + coarse.permute(0, 2, 3, 1)[:, :, None, :, None]
        return total.flatten(3, 4).flatten(1, 2).permute(0, 3, 1, 2)
    return fine + functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
