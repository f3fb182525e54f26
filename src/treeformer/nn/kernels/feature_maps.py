"""Sums after a convolution, for inference on a GPU: a Triton kernel that passes over the feature map once.

torch adds the bias of a convolution in a kernel of its own, and so it does an enlarged map, a map that all images share
and a ReLU. Each of them reads and writes the whole map, and the fine maps of a batch have hundreds of megabytes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treeformer.nn.kernels._triton import jit, tl, triton

NUMBERS, WARPS = 4096, 8  # numbers and warps per program: 16 bytes per thread and access in bfloat16


def can_use(feature_map: Tensor) -> bool:
    """Return True if the kernel can be used: CUDA with Triton."""
    return triton is not None and feature_map.is_cuda


def add_(
    feature_map: Tensor,
    bias: Tensor | None = None,
    coarse: Tensor | None = None,
    shared: Tensor | None = None,
    *,
    relu: bool = False,
) -> Tensor:
    """Add up to three tensors to a feature map (B,C,H,W), in place if its channels are last; sums are float32.

    Each cell of the coarse map (B,C,⌈H/2⌉,⌈W/2⌉) is added to four; bias (C,) and shared map (C,H,W) to every image. The
    result is channels_last. With `relu`, negative sums become 0.
    """
    feature_map = feature_map.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = feature_map.shape
    if coarse is not None:
        coarse = coarse.contiguous(memory_format=torch.channels_last)
    if shared is not None:
        shared = shared.permute(1, 2, 0).contiguous()
    lanes = triton.next_power_of_2(channels)
    places = max(NUMBERS // lanes, 1)
    with torch.cuda.device(feature_map.get_device()):
        _add[(triton.cdiv(height * width, places), batch)](
            feature_map, bias, coarse, shared,
            HEIGHT=height, WIDTH=width, CHANNELS=channels, LANES=lanes, PLACES=places, RELU=relu, num_warps=WARPS,
        )  # fmt: skip
    return feature_map


@jit
def _add(
    map_ptr: tl.tensor, bias_ptr: tl.tensor, coarse_ptr: tl.tensor, shared_ptr: tl.tensor,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, LANES: tl.constexpr, PLACES: tl.constexpr,
    RELU: tl.constexpr,
) -> None:  # fmt: skip
    """Update a map (B,HEIGHT,WIDTH,CHANNELS). A missing tensor is None: Triton compiles a kernel without it."""
    image = tl.program_id(1).to(tl.int64)
    place = (tl.program_id(0) * PLACES + tl.arange(0, PLACES))[:, None]
    lane = tl.arange(0, LANES)[None, :]
    known = (place < HEIGHT * WIDTH) & (lane < CHANNELS)
    target = map_ptr + image * HEIGHT * WIDTH * CHANNELS + place * CHANNELS + lane
    total = tl.load(target, mask=known, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + lane, mask=lane < CHANNELS, other=0.0).to(tl.float32)
    if coarse_ptr is not None:
        columns = (WIDTH + 1) // 2
        cell = place // WIDTH // 2 * columns + place % WIDTH // 2
        cells = coarse_ptr + image * ((HEIGHT + 1) // 2) * columns * CHANNELS
        total += tl.load(cells + cell * CHANNELS + lane, mask=known, other=0.0).to(tl.float32)
    if shared_ptr is not None:
        total += tl.load(shared_ptr + place * CHANNELS + lane, mask=known, other=0.0).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0)
    tl.store(target, total.to(map_ptr.dtype.element_ty), mask=known)
