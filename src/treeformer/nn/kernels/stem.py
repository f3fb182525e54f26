"""The stem of a ResNet for inference on a GPU: Triton kernels around its convolution.

A convolution of 7×7 and stride 2 over three channels fits tensor cores badly. The same numbers come from one of 4×4
and stride 1 over blocks of 2×2 pixels, which have twelve channels: sixteen with padding. Normalizing the pixels,
forming the blocks and padding the border with zeros is one pass over the image. The max pooling of torch also writes
the index of every maximum; this one does not.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from treeformer.nn.kernels._triton import jit, tl, triton

BLOCK_CHANNELS = 16  # 2×2 pixels of three channels, and four zeros
BEFORE, AFTER = 2, 1  # blocks of padding: pixels −3 … 3 around pixel 2·y lie in blocks y − 2 … y + 1
PLACES, WARPS = 64, 4  # output cells and warps per program


def can_use(images: Tensor) -> bool:
    """Return True if the kernels can be used for images (B,3,H,W): CUDA with Triton, even sides."""
    return triton is not None and images.is_cuda and images.shape[2] % 2 == 0 and images.shape[3] % 2 == 0


def block_weight(weight: Tensor) -> Tensor:
    """Rearrange the weight (K,3,7,7) of a convolution of 7×7, stride 2 and padding 3 for blocks of pixels.

    The result is (K,16,4,4), channels_last, for stride 1 and the padding of `pixel_blocks`.
    """
    count = weight.shape[0]
    # Eight taps, so that they form four pairs. The first tap is the pixel −4, which the convolution does not read.
    taps = functional.pad(weight, (1, 0, 1, 0)).view(count, 3, 4, 2, 4, 2)  # (K,3,block y,y,block x,x)
    blocks = taps.permute(0, 3, 5, 1, 2, 4).reshape(count, 12, 4, 4)
    padded = functional.pad(blocks, (0, 0, 0, 0, 0, BLOCK_CHANNELS - 12))
    return padded.contiguous(memory_format=torch.channels_last)


def pixel_blocks(images: Tensor, scale: Tensor, shift: Tensor, dtype: torch.dtype) -> Tensor:
    """Normalize images (B,3,H,W), H and W even, and gather blocks of 2×2 pixels in the channels.

    `scale` and `shift` are (3,) float32. The result is (B,16,H/2+3,W/2+3), channels_last: scale · image + shift,
    channel 3·(2·(y mod 2) + x mod 2) + c, 0 in the last four channels and in the padding of two blocks at the start and
    one at the end of both axes.
    """
    batch, _, height, width = images.shape
    rows, columns = height // 2 + BEFORE + AFTER, width // 2 + BEFORE + AFTER
    result = images.new_empty((batch, rows, columns, BLOCK_CHANNELS), dtype=dtype)
    with torch.cuda.device(images.get_device()):
        _pixel_blocks[(triton.cdiv(rows * columns, PLACES), batch)](
            images, scale, shift, result, *images.stride(),
            HEIGHT=height, WIDTH=width, ROWS=rows, COLUMNS=columns, BEFORE=BEFORE, CHANNELS=BLOCK_CHANNELS,
            PLACES=PLACES, num_warps=WARPS,
        )  # fmt: skip
    return result.permute(0, 3, 1, 2)


def max_pool(features: Tensor) -> Tensor:
    """Compute the maximum of 3×3 cells with stride 2 and padding 1, for features that are not negative.

    They are (B,C,H,W), channels_last.
    """
    features = features.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = features.shape
    rows, columns = (height + 1) // 2, (width + 1) // 2
    result = features.new_empty((batch, rows, columns, channels))
    with torch.cuda.device(features.get_device()):
        _max_pool[(triton.cdiv(rows * columns, PLACES), batch)](
            features, result,
            HEIGHT=height, WIDTH=width, ROWS=rows, COLUMNS=columns, CHANNELS=channels,
            LANES=triton.next_power_of_2(channels), PLACES=PLACES, num_warps=WARPS,
        )  # fmt: skip
    return result.permute(0, 3, 1, 2)


@jit
def _pixel_blocks(
    image_ptr: tl.tensor, scale_ptr: tl.tensor, shift_ptr: tl.tensor, result_ptr: tl.tensor,
    image_step: tl.tensor, channel_step: tl.tensor, line_step: tl.tensor, column_step: tl.tensor,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BEFORE: tl.constexpr,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr,
) -> None:  # fmt: skip
    """Write result (B,ROWS,COLUMNS,CHANNELS); the steps are the strides of the images (B,3,HEIGHT,WIDTH)."""
    image = tl.program_id(1).to(tl.int64)
    place = (tl.program_id(0) * PLACES + tl.arange(0, PLACES))[:, None]
    channel = tl.arange(0, CHANNELS)[None, :]
    color, part = channel % 3, channel // 3
    line = 2 * (place // COLUMNS - BEFORE) + part // 2
    column = 2 * (place % COLUMNS - BEFORE) + part % 2
    inside = (line >= 0) & (line < HEIGHT) & (column >= 0) & (column < WIDTH) & (part < 4)
    offset = image * image_step + color * channel_step + line * line_step + column * column_step
    value = tl.load(image_ptr + offset, mask=inside, other=0.0)
    value = value * tl.load(scale_ptr + color) + tl.load(shift_ptr + color)
    value = tl.where(inside, value, 0.0).to(result_ptr.dtype.element_ty)
    tl.store(result_ptr + (image * ROWS * COLUMNS + place) * CHANNELS + channel, value, mask=place < ROWS * COLUMNS)


@jit
def _max_pool(
    feature_ptr: tl.tensor, result_ptr: tl.tensor,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr,
    LANES: tl.constexpr, PLACES: tl.constexpr,
) -> None:  # fmt: skip
    """Read features (B,HEIGHT,WIDTH,CHANNELS) and write result (B,ROWS,COLUMNS,CHANNELS)."""
    image = tl.program_id(1).to(tl.int64)
    place = (tl.program_id(0) * PLACES + tl.arange(0, PLACES))[:, None]
    lane = tl.arange(0, LANES)[None, :]
    known = (place < ROWS * COLUMNS) & (lane < CHANNELS)
    feature_ptr += image * HEIGHT * WIDTH * CHANNELS + lane
    largest = tl.zeros([PLACES, LANES], feature_ptr.dtype.element_ty)  # the features are not negative
    for tap in tl.static_range(9):
        line = 2 * (place // COLUMNS) + tap // 3 - 1
        column = 2 * (place % COLUMNS) + tap % 3 - 1
        inside = known & (line >= 0) & (line < HEIGHT) & (column >= 0) & (column < WIDTH)
        value = tl.load(feature_ptr + (line * WIDTH + column) * CHANNELS, mask=inside, other=0.0)
        largest = tl.maximum(largest, value)
    tl.store(result_ptr + (image * ROWS * COLUMNS + place) * CHANNELS + lane, largest, mask=known)
