"""Sampling of multi-scale values for deformable attention, and its gradients, as Triton kernels for a GPU.

Only sampling locations and attention weights are stored in memory: the four cells around a location and their bilinear
weights are computed where they are used. A row is one query and one head. Its channels are contiguous, so reading a
cell is one access to 2·channels bytes (bfloat16).

The gradients of the values are the expensive part. They take one atomic float32 addition per row, corner and channel,
at best four of them per instruction (64 bytes per corner of 16 channels): 2.9·10⁹ per layer for the paper's encoder.
The throughput of the L2 cache is the lower bound of their time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from treeformer.nn.kernels._triton import jit, tl, triton
from treeformer.nn.kernels.bilinear import corner_of, split_coordinate

# Elements (rows × channels) and warps per program; benchmarks/deformable_attention.py tries other values.
READ_NUMBERS, READ_WARPS = 1024, 4  # forward: eight elements per thread, 16 bytes in bfloat16
ADD_NUMBERS, ADD_WARPS = 512, 4  # backward: four elements per thread, 16 bytes in float32


class MapShape(NamedTuple):
    """Shape of one feature map, and the position of its cells in the list of all cells."""

    first: int  # index of its first cell
    height: int
    width: int
    stride: int  # distance of two cells in px


def can_read(query: Tensor) -> bool:
    """Return True if the kernels can be used: CUDA with Triton."""
    return triton is not None and query.is_cuda


def read(values: Tensor, locations: Tensor, weights: Tensor, shapes: Sequence[tuple[int, int, int]]) -> Tensor:
    """Sample the values of each head at its locations and sum them up by weight: (B,Q,heads,channels) float32.

    Values are (B, cells of all maps, heads, channels), locations (B,Q,heads,maps,points,2) px, weights
    (B,Q,heads,maps,points); all three have gradients. `shapes` are (height, width, stride in px) of the maps. NaN reads
    NaN and adds to no gradient of a value.
    """
    flat = [number for shape in shapes for number in shape]
    result: Tensor = torch.ops.treeformer.read_locations(values, locations.float(), weights.float(), flat)
    return result


def read_by_map(values: Tensor, locations: Tensor, weights: Tensor, shapes: Sequence[tuple[int, int, int]]) -> Tensor:
    """Compute `read`, with its locations and weights, for values in the order of the maps, without gradients.

    The projections of the maps can be written to such values without being concatenated: (cells of all maps · B, heads,
    channels), contiguous, all images of the first map, then of the second.
    """
    flat = [number for shape in shapes for number in shape]
    return _launch_read(values, locations.float().contiguous(), weights.float().contiguous(), flat, by_map=True)


def map_shapes(flat: Sequence[int]) -> tuple[MapShape, ...]:
    """Rebuild the shapes from (height, width, stride, height, …), the form in which an operator takes them."""
    shapes, first = [], 0
    for height, width, stride in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        shapes.append(MapShape(first, height, width, stride))
        first += height * width
    return tuple(shapes)


def rows_for(numbers: int, channels: int, warps: int) -> int:
    """Return the number of rows per program, from its elements (rows × channels), the channels of a row and its warps.

    It is lower than the number of threads; otherwise Triton passes every location through shared memory, with a barrier
    each.
    """
    rows: int = max(min(numbers // triton.next_power_of_2(channels), 16 * warps), 1)
    return rows


# ---- operators: torch.compile treats each as one call. As in `treeformer.nn.spanning`, without `custom_op`.
torch.library.define(
    "treeformer::read_locations", "(Tensor values, Tensor locations, Tensor weights, SymInt[] shapes) -> Tensor"
)
torch.library.define(
    "treeformer::read_locations_backward",
    "(Tensor gradient, Tensor values, Tensor locations, Tensor weights, SymInt[] shapes) -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("treeformer::read_locations", "default")
def _read(values: Tensor, locations: Tensor, weights: Tensor, shapes: Sequence[int]) -> Tensor:
    return _launch_read(values.contiguous(), locations.contiguous(), weights.contiguous(), shapes, by_map=False)


def _launch_read(values: Tensor, locations: Tensor, weights: Tensor, shapes: Sequence[int], *, by_map: bool) -> Tensor:
    """Run `_read_rows` on contiguous tensors; `by_map` is the order of the values, see `read_by_map`."""
    batch, queries = locations.shape[:2]
    heads, channels = values.shape[-2:]
    rows, cells = queries * heads, values.numel() // max(batch * heads * channels, 1)
    result = values.new_empty((*locations.shape[:3], channels), dtype=torch.float32)
    if result.numel():
        block = rows_for(READ_NUMBERS, channels, READ_WARPS)
        with torch.cuda.device(values.get_device()):
            _read_rows[(triton.cdiv(rows, block), batch)](
                values, locations, weights, result, rows, cells, batch,
                HEADS=heads, MAPS=map_shapes(shapes), POINTS=locations.shape[4], CHANNELS=channels,
                LANES=triton.next_power_of_2(channels), ROWS=block, BY_MAP=by_map, num_warps=READ_WARPS,
            )  # fmt: skip
    return result


def _fake_read(values: Tensor, locations: Tensor, weights: Tensor, shapes: Sequence[int]) -> Tensor:
    return values.new_empty((*locations.shape[:3], values.shape[3]), dtype=torch.float32)


torch.library.register_fake("treeformer::read_locations", _fake_read)


@torch.library.impl("treeformer::read_locations_backward", "default")
def _read_backward(
    gradient: Tensor, values: Tensor, locations: Tensor, weights: Tensor, shapes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    gradient, values = gradient.float().contiguous(), values.contiguous()
    locations, weights = locations.contiguous(), weights.contiguous()
    batch, cells, heads, channels = values.shape
    queries, points = locations.shape[1], locations.shape[4]
    grad_values = torch.zeros(values.shape, dtype=torch.float32, device=values.device)
    grad_locations, grad_weights = locations.new_empty(locations.shape), weights.new_empty(weights.shape)
    if gradient.numel():
        rows, block = queries * heads, rows_for(ADD_NUMBERS, channels, ADD_WARPS)
        with torch.cuda.device(values.get_device()):
            _read_rows_backward[(triton.cdiv(rows, block), batch)](
                gradient, values, locations, weights, grad_values, grad_locations, grad_weights, rows, cells,
                HEADS=heads, MAPS=map_shapes(shapes), POINTS=points, CHANNELS=channels,
                LANES=triton.next_power_of_2(channels), POINT_LANES=triton.next_power_of_2(points), ROWS=block,
                num_warps=ADD_WARPS,
            )  # fmt: skip
    return grad_values.to(values.dtype), grad_locations, grad_weights


def _fake_read_backward(
    gradient: Tensor, values: Tensor, locations: Tensor, weights: Tensor, shapes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    return values.new_empty(values.shape), locations.new_empty(locations.shape), weights.new_empty(weights.shape)


torch.library.register_fake("treeformer::read_locations_backward", _fake_read_backward)


def _save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.shapes = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    return *torch.ops.treeformer.read_locations_backward(gradient, *ctx.saved_tensors, ctx.shapes), None


torch.library.register_autograd("treeformer::read_locations", _gradients, setup_context=_save_inputs)


# ---- kernels. Common to all: locations (B,rows,maps·POINTS,2), weights (B,rows,maps·POINTS) and gradients of the
# result (B,rows,CHANNELS), all float32. A row is a query and a head. LANES is CHANNELS up to the next power of two.


@jit
def _load_location(location_ptr: tl.tensor, index: tl.tensor, real: tl.tensor, STRIDE: tl.constexpr) -> tl.tensor:
    """Column and row, in cells, of the locations with these indices; far outside the map if they are not real."""
    x = tl.load(location_ptr + 2 * index, mask=real, other=-1e9)
    y = tl.load(location_ptr + 2 * index + 1, mask=real, other=-1e9)
    return x * (1.0 / STRIDE) - 0.5, y * (1.0 / STRIDE) - 0.5


@jit
def _read_rows(
    value_ptr: tl.tensor, location_ptr: tl.tensor, weight_ptr: tl.tensor, result_ptr: tl.tensor,
    rows: tl.tensor, cells: tl.tensor, batch: tl.tensor,
    HEADS: tl.constexpr, MAPS: tl.constexpr, POINTS: tl.constexpr, CHANNELS: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, BY_MAP: tl.constexpr,
) -> None:  # fmt: skip
    """Read values (B,cells,HEADS,CHANNELS), or by map (see `read_by_map`), into result (B,rows,CHANNELS) float32."""
    image = tl.program_id(1).to(tl.int64)
    location_ptr += image * rows * len(MAPS) * POINTS * 2
    weight_ptr += image * rows * len(MAPS) * POINTS
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < rows
    lane = tl.arange(0, LANES)[None, :]
    value_ptr += (row % HEADS * CHANNELS)[:, None] + lane
    total = tl.zeros([ROWS, LANES], tl.float32)
    for number in tl.static_range(len(MAPS)):
        # The first cell of the map in this image.
        if BY_MAP:
            first = MAPS[number][0] * batch + image * MAPS[number][1] * MAPS[number][2]
        else:
            first = MAPS[number][0] + image * cells
        map_ptr = value_ptr + first * HEADS * CHANNELS
        for point in tl.static_range(POINTS):
            index = (row * len(MAPS) + number) * POINTS + point
            weight = tl.load(weight_ptr + index, mask=real, other=0.0)
            column, line = _load_location(location_ptr, index, real, MAPS[number][3])
            left, right_part = split_coordinate(column, MAPS[number][2])
            top, bottom_part = split_coordinate(line, MAPS[number][1])
            for corner in tl.static_range(4):
                cell, inside, across, down = corner_of(
                    left, top, right_part, bottom_part, corner, MAPS[number][1], MAPS[number][2]
                )
                cell_ptr = map_ptr + (cell * (HEADS * CHANNELS))[:, None]
                value = tl.load(cell_ptr, mask=inside[:, None] & (lane < CHANNELS), other=0.0).to(tl.float32)
                total += (weight * across * down)[:, None] * value
    result = result_ptr + image * rows * CHANNELS + (row * CHANNELS)[:, None] + lane
    tl.store(result, total, mask=real[:, None] & (lane < CHANNELS))


@jit
def _read_rows_backward(
    gradient_ptr: tl.tensor, value_ptr: tl.tensor, location_ptr: tl.tensor, weight_ptr: tl.tensor,
    grad_value_ptr: tl.tensor, grad_location_ptr: tl.tensor, grad_weight_ptr: tl.tensor,
    rows: tl.tensor, cells: tl.tensor,
    HEADS: tl.constexpr, MAPS: tl.constexpr, POINTS: tl.constexpr, CHANNELS: tl.constexpr, LANES: tl.constexpr,
    POINT_LANES: tl.constexpr, ROWS: tl.constexpr,
) -> None:  # fmt: skip
    """Gradients of values, added to (B,cells,HEADS,CHANNELS) float32, and of locations and weights.

    The latter two follow from the dot product of each corner's value with the gradient of the row.
    """
    image = tl.program_id(1).to(tl.int64)
    location_ptr += image * rows * len(MAPS) * POINTS * 2
    grad_location_ptr += image * rows * len(MAPS) * POINTS * 2
    weight_ptr += image * rows * len(MAPS) * POINTS
    grad_weight_ptr += image * rows * len(MAPS) * POINTS
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < rows
    lane = tl.arange(0, LANES)[None, :]
    channel = image * cells * HEADS * CHANNELS + (row % HEADS * CHANNELS)[:, None] + lane
    gradient_ptr += image * rows * CHANNELS + (row * CHANNELS)[:, None] + lane
    is_channel = lane < CHANNELS
    gradient = tl.load(gradient_ptr, mask=real[:, None] & is_channel, other=0.0)
    # The gradients of one map are collected in a tile and stored at once.
    location_lane = tl.arange(0, 2 * POINT_LANES)[None, :]
    point_lane = tl.arange(0, POINT_LANES)[None, :]
    for number in tl.static_range(len(MAPS)):
        grad_locations = tl.zeros([ROWS, 2 * POINT_LANES], tl.float32)
        grad_weights = tl.zeros([ROWS, POINT_LANES], tl.float32)
        first = (row * len(MAPS) + number) * POINTS
        for point in tl.static_range(POINTS):
            weight = tl.load(weight_ptr + first + point, mask=real, other=0.0)
            column, line = _load_location(location_ptr, first + point, real, MAPS[number][3])
            left, right_part = split_coordinate(column, MAPS[number][2])
            top, bottom_part = split_coordinate(line, MAPS[number][1])
            grad_column, grad_line, grad_weight = 0.0 * column, 0.0 * line, 0.0 * column
            for corner in tl.static_range(4):
                cell, inside, across, down = corner_of(
                    left, top, right_part, bottom_part, corner, MAPS[number][1], MAPS[number][2]
                )
                known = inside[:, None] & is_channel
                offset = channel + ((MAPS[number][0] + cell) * (HEADS * CHANNELS))[:, None]
                value = tl.load(value_ptr + offset, mask=known, other=0.0).to(tl.float32)
                product = tl.sum(value * gradient, axis=1)
                part = (weight * across * down)[:, None] * gradient
                tl.atomic_add(grad_value_ptr + offset, part, mask=known, sem="relaxed")
                grad_weight += across * down * product
                grad_column += down * product if corner % 2 else -down * product
                grad_line += across * product if corner // 2 else -across * product
            scale = weight * (1.0 / MAPS[number][3])
            grad_locations = tl.where(location_lane == 2 * point, (grad_column * scale)[:, None], grad_locations)
            grad_locations = tl.where(location_lane == 2 * point + 1, (grad_line * scale)[:, None], grad_locations)
            grad_weights = tl.where(point_lane == point, grad_weight[:, None], grad_weights)
        is_location = real[:, None] & (location_lane < 2 * POINTS)
        tl.store(grad_location_ptr + 2 * first[:, None] + location_lane, grad_locations, mask=is_location)
        is_point = real[:, None] & (point_lane < POINTS)
        tl.store(grad_weight_ptr + first[:, None] + point_lane, grad_weights, mask=is_point)
