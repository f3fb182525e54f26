"""Sampling of a feature map along segments, as a Triton kernel for inference on a GPU.

Plain torch writes the places of all samples, the four cells around each and their weights to memory before it reads
the map. There are hundreds of thousands of segments in a batch, so this takes longer than reading. Here they are
computed where they are used, and only the result is written.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treeformer.nn.kernels._triton import jit, tl, triton
from treeformer.nn.kernels.bilinear import corner_of, split_coordinate

NUMBERS, WARPS = 1024, 4  # elements (segments × channels) and warps per program


def can_read(cells: Tensor) -> bool:
    """Return True if the kernel can be used: CUDA with Triton. It has no gradient."""
    return triton is not None and cells.is_cuda


def read(cells: Tensor, start: Tensor, end: Tensor, shape: tuple[int, int, int], count: int) -> tuple[Tensor, Tensor]:
    """Sample a map at equal distances along segments; return sums and differences of samples that mirror each other.

    Cells are (B,height·width,C), starts and ends (B,P,2) px, `shape` is height, width and stride, and the number of
    samples per segment is even. The results are (B,P,C·count/2) with the precision of the cells.
    """
    cells, start, end = cells.contiguous(), start.float().contiguous(), end.float().contiguous()
    batch, segments = start.shape[:2]
    channels = cells.shape[2]
    sums, differences = (cells.new_empty(batch, segments, channels * count // 2) for _ in range(2))
    if sums.numel():
        lanes = triton.next_power_of_2(channels)
        block = max(NUMBERS // lanes, 1)
        height, width, stride = shape
        with torch.cuda.device(cells.get_device()):
            _read_segments[(triton.cdiv(segments, block), batch)](
                cells, start, end, sums, differences, segments,
                HEIGHT=height, WIDTH=width, STRIDE=stride, HALF=count // 2, CHANNELS=channels, LANES=lanes,
                SEGMENTS=block, num_warps=WARPS,
            )  # fmt: skip
    return sums, differences


@jit
def _sample(
    cell_ptr: tl.tensor, x: tl.tensor, y: tl.tensor, known: tl.tensor,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LANES: tl.constexpr,
    SEGMENTS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Interpolate (SEGMENTS,LANES) float32 at places (SEGMENTS,) in px; 0 outside the map."""
    left, right_part = split_coordinate(x * (1.0 / STRIDE) - 0.5, WIDTH)
    top, bottom_part = split_coordinate(y * (1.0 / STRIDE) - 0.5, HEIGHT)
    total = tl.zeros([SEGMENTS, LANES], tl.float32)
    for corner in tl.static_range(4):
        cell, inside, across, down = corner_of(left, top, right_part, bottom_part, corner, HEIGHT, WIDTH)
        value = tl.load(cell_ptr + (cell * CHANNELS)[:, None], mask=known & inside[:, None], other=0.0)
        total += (across * down)[:, None] * value.to(tl.float32)
    return total


@jit
def _read_segments(
    cell_ptr: tl.tensor, start_ptr: tl.tensor, end_ptr: tl.tensor, sum_ptr: tl.tensor, difference_ptr: tl.tensor,
    segments: tl.tensor,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, HALF: tl.constexpr, CHANNELS: tl.constexpr,
    LANES: tl.constexpr, SEGMENTS: tl.constexpr,
) -> None:  # fmt: skip
    """Read cells (B,HEIGHT·WIDTH,CHANNELS) into sums and differences (B,segments,HALF,CHANNELS)."""
    image = tl.program_id(1).to(tl.int64)
    segment = tl.program_id(0) * SEGMENTS + tl.arange(0, SEGMENTS)
    real = segment < segments
    lane = tl.arange(0, LANES)[None, :]
    known = real[:, None] & (lane < CHANNELS)
    place = 2 * (image * segments + segment)
    start_x = tl.load(start_ptr + place, mask=real, other=0.0)
    start_y = tl.load(start_ptr + place + 1, mask=real, other=0.0)
    step_x = tl.load(end_ptr + place, mask=real, other=0.0) - start_x
    step_y = tl.load(end_ptr + place + 1, mask=real, other=0.0) - start_y
    cell_ptr += image * HEIGHT * WIDTH * CHANNELS + lane
    row = (image * segments + segment) * (HALF * CHANNELS)
    for number in tl.static_range(HALF):
        near_part = (number + 0.5) / (2 * HALF)
        far_part = (2 * HALF - number - 0.5) / (2 * HALF)
        near = _sample(
            cell_ptr, start_x + step_x * near_part, start_y + step_y * near_part, known,
            HEIGHT, WIDTH, STRIDE, CHANNELS, LANES, SEGMENTS,
        )  # fmt: skip
        far = _sample(
            cell_ptr, start_x + step_x * far_part, start_y + step_y * far_part, known,
            HEIGHT, WIDTH, STRIDE, CHANNELS, LANES, SEGMENTS,
        )  # fmt: skip
        offset = row[:, None] + number * CHANNELS + lane
        tl.store(sum_ptr + offset, near + far, mask=known)
        tl.store(difference_ptr + offset, near - far, mask=known)
