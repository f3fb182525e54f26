"""Reading values between the cells of several maps, and its gradients, as Triton kernels for training on a GPU.

Nothing but places and attention weights lies in memory: corners and their bilinear weights are made where they are
used. A row is a query and a head, its channels lie together, so a corner is one access to 2·channels bytes (bfloat16).

The gradients of the values are the dear part: as many atomic additions in float32 as there are rows, corners and
channels, four of them in one instruction at best (64 bytes a corner of 16 channels), and for the paper's encoder
2.9·10⁹ a layer. What the L2 cache adds in a second is their floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from treeformer.nn.kernels.spanning import jit, tl, triton

# What a program takes at once; benchmarks/deformable_attention.py tries others.
READ_NUMBERS, READ_WARPS = 1024, 4  # rows × channels of a program that reads: eight a thread, 16 bytes in bfloat16
ADD_NUMBERS, ADD_WARPS = 512, 4  # of a program that adds gradients: four a thread, 16 bytes in float32


class MapShape(NamedTuple):
    """Where the cells of one map lie among those of all, and how they lie in the image."""

    first: int  # of its cells
    height: int
    width: int
    stride: int  # px between two cells


def can_read(query: Tensor) -> bool:
    """Whether the kernels can be used, and pay: on a GPU with Triton, where gradients are wanted."""
    return triton is not None and query.is_cuda and torch.is_grad_enabled()


def read(values: Tensor, places: Tensor, weights: Tensor, shapes: Sequence[tuple[int, int, int]]) -> Tensor:
    """What each head reads at its places, weighted and added; all three tensors have gradients.

    Args:
        values: (B, cells of all maps, heads, channels), of any floating point.
        places: (B,Q,heads,maps,points,2) px. One that is NaN reads NaN, and adds to no gradient of a value.
        weights: (B,Q,heads,maps,points).
        shapes: (height, width, stride in px) of each map.

    Returns:
        (B,Q,heads,channels) float32.
    """
    flat = [number for shape in shapes for number in shape]
    result: Tensor = torch.ops.treeformer.read_places(values, places.float(), weights.float(), flat)
    return result


def map_shapes(flat: Sequence[int]) -> tuple[MapShape, ...]:
    """From (height, width, stride, height, …), as an operator can take it."""
    shapes, first = [], 0
    for height, width, stride in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        shapes.append(MapShape(first, height, width, stride))
        first += height * width
    return tuple(shapes)


def rows_for(numbers: int, channels: int, warps: int) -> int:
    """Rows of a program.

    There are fewer of them than threads, or Triton sends every place through shared memory, with a barrier each.
    """
    return max(min(numbers // triton.next_power_of_2(channels), 16 * warps), 1)


# ---- operators: to torch.compile each is one piece. As in `treeformer.nn.spanning`, without `custom_op`.
torch.library.define(
    "treeformer::read_places", "(Tensor values, Tensor places, Tensor weights, SymInt[] shapes) -> Tensor"
)
torch.library.define(
    "treeformer::read_places_backward",
    "(Tensor gradient, Tensor values, Tensor places, Tensor weights, SymInt[] shapes) -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("treeformer::read_places", "default")
def _read(values: Tensor, places: Tensor, weights: Tensor, shapes: Sequence[int]) -> Tensor:
    values, places, weights = values.contiguous(), places.contiguous(), weights.contiguous()
    batch, cells, heads, channels = values.shape
    rows = places.shape[1] * heads
    result = values.new_empty((*places.shape[:3], channels), dtype=torch.float32)
    if result.numel():
        together = rows_for(READ_NUMBERS, channels, READ_WARPS)
        with torch.cuda.device_of(values):
            read_rows[(triton.cdiv(rows, together), batch)](
                values, places, weights, result, rows, cells,
                HEADS=heads, MAPS=map_shapes(shapes), POINTS=places.shape[4], CHANNELS=channels,
                LANES=triton.next_power_of_2(channels), ROWS=together, num_warps=READ_WARPS,
            )  # fmt: skip
    return result


@torch.library.register_fake("treeformer::read_places")
def _shape_of_what_is_read(values: Tensor, places: Tensor, weights: Tensor, shapes: Sequence[int]) -> Tensor:
    return values.new_empty((*places.shape[:3], values.shape[3]), dtype=torch.float32)


@torch.library.impl("treeformer::read_places_backward", "default")
def _read_backward(
    gradient: Tensor, values: Tensor, places: Tensor, weights: Tensor, shapes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    gradient, values = gradient.float().contiguous(), values.contiguous()
    places, weights = places.contiguous(), weights.contiguous()
    batch, cells, heads, channels = values.shape
    queries, points = places.shape[1], places.shape[4]
    of_values = torch.zeros(values.shape, dtype=torch.float32, device=values.device)
    of_places, of_weights = places.new_empty(places.shape), weights.new_empty(weights.shape)
    if gradient.numel():
        rows, together = queries * heads, rows_for(ADD_NUMBERS, channels, ADD_WARPS)
        with torch.cuda.device_of(values):
            read_rows_backward[(triton.cdiv(rows, together), batch)](
                gradient, values, places, weights, of_values, of_places, of_weights, rows, cells,
                HEADS=heads, MAPS=map_shapes(shapes), POINTS=points, CHANNELS=channels,
                LANES=triton.next_power_of_2(channels), POINT_LANES=triton.next_power_of_2(points), ROWS=together,
                num_warps=ADD_WARPS,
            )  # fmt: skip
    return of_values.to(values.dtype), of_places, of_weights


@torch.library.register_fake("treeformer::read_places_backward")
def _shapes_of_the_gradients(
    gradient: Tensor, values: Tensor, places: Tensor, weights: Tensor, shapes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    return values.new_empty(values.shape), places.new_empty(places.shape), weights.new_empty(weights.shape)


def _remember(ctx, inputs, output) -> None:
    *tensors, ctx.shapes = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    return *torch.ops.treeformer.read_places_backward(gradient, *ctx.saved_tensors, ctx.shapes), None


torch.library.register_autograd("treeformer::read_places", _gradients, setup_context=_remember)


# ---- kernels. Common to all: places (B,rows,maps·POINTS,2) and weights (B,rows,maps·POINTS) float32, gradients of what
# was read (B,rows,CHANNELS) float32, where a row is a query and a head; LANES is CHANNELS up to the next power of two.


@jit
def load_place(place_ptr, index, real, STRIDE: tl.constexpr):
    """Column and row, in cells, of the places with these indices; far outside where they are not real."""
    x = tl.load(place_ptr + 2 * index, mask=real, other=-1e9)
    y = tl.load(place_ptr + 2 * index + 1, mask=real, other=-1e9)
    return x * (1.0 / STRIDE) - 0.5, y * (1.0 / STRIDE) - 0.5


@jit
def before(coordinate, SIZE: tl.constexpr):
    """The cell at or before a coordinate and the part beyond it; −2 where neither this cell nor the next is there."""
    whole = tl.floor(coordinate)
    near = (whole >= -1) & (whole < SIZE)  # not so for NaN
    return tl.where(near, whole, -2.0).to(tl.int32), coordinate - whole


@jit
def corner_of(left, top, beyond_left, beyond_top, CORNER: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Of one of four cells: its index, whether it is there, its weights across and down."""
    column, line = left + CORNER % 2, top + CORNER // 2
    inside = (column >= 0) & (column < WIDTH) & (line >= 0) & (line < HEIGHT)
    across = beyond_left if CORNER % 2 else 1 - beyond_left
    down = beyond_top if CORNER // 2 else 1 - beyond_top
    return line * WIDTH + column, inside, across, down


@jit
def read_rows(
    value_ptr, place_ptr, weight_ptr, result_ptr, rows, cells,
    HEADS: tl.constexpr, MAPS: tl.constexpr, POINTS: tl.constexpr, CHANNELS: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """values (B,cells,HEADS,CHANNELS) -> result (B,rows,CHANNELS) float32."""
    image = tl.program_id(1).to(tl.int64)
    place_ptr += image * rows * len(MAPS) * POINTS * 2
    weight_ptr += image * rows * len(MAPS) * POINTS
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < rows
    lane = tl.arange(0, LANES)[None, :]
    value_ptr += image * cells * HEADS * CHANNELS + (row % HEADS * CHANNELS)[:, None] + lane
    total = tl.zeros([ROWS, LANES], tl.float32)
    for number in tl.static_range(len(MAPS)):
        for point in tl.static_range(POINTS):
            index = (row * len(MAPS) + number) * POINTS + point
            weight = tl.load(weight_ptr + index, mask=real, other=0.0)
            column, line = load_place(place_ptr, index, real, MAPS[number][3])
            left, beyond_left = before(column, MAPS[number][2])
            top, beyond_top = before(line, MAPS[number][1])
            for corner in tl.static_range(4):
                cell, inside, across, down = corner_of(
                    left, top, beyond_left, beyond_top, corner, MAPS[number][1], MAPS[number][2]
                )
                there = value_ptr + ((MAPS[number][0] + cell) * (HEADS * CHANNELS))[:, None]
                value = tl.load(there, mask=inside[:, None] & (lane < CHANNELS), other=0.0).to(tl.float32)
                total += (weight * across * down)[:, None] * value
    result = result_ptr + image * rows * CHANNELS + (row * CHANNELS)[:, None] + lane
    tl.store(result, total, mask=real[:, None] & (lane < CHANNELS))


@jit
def read_rows_backward(
    gradient_ptr, value_ptr, place_ptr, weight_ptr, of_value_ptr, of_place_ptr, of_weight_ptr, rows, cells,
    HEADS: tl.constexpr, MAPS: tl.constexpr, POINTS: tl.constexpr, CHANNELS: tl.constexpr, LANES: tl.constexpr,
    POINT_LANES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Gradients: of values, added to (B,cells,HEADS,CHANNELS) float32, and of places and weights.

    The latter are how much each corner's value agrees with the gradient of the row.
    """
    image = tl.program_id(1).to(tl.int64)
    place_ptr += image * rows * len(MAPS) * POINTS * 2
    of_place_ptr += image * rows * len(MAPS) * POINTS * 2
    weight_ptr += image * rows * len(MAPS) * POINTS
    of_weight_ptr += image * rows * len(MAPS) * POINTS
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < rows
    lane = tl.arange(0, LANES)[None, :]
    channel = image * cells * HEADS * CHANNELS + (row % HEADS * CHANNELS)[:, None] + lane
    gradient_ptr += image * rows * CHANNELS + (row * CHANNELS)[:, None] + lane
    seen = lane < CHANNELS
    gradient = tl.load(gradient_ptr, mask=real[:, None] & seen, other=0.0)
    # A map's gradients are gathered in a tile and stored in one piece.
    place_lane = tl.arange(0, 2 * POINT_LANES)[None, :]
    point_lane = tl.arange(0, POINT_LANES)[None, :]
    for number in tl.static_range(len(MAPS)):
        of_places = tl.zeros([ROWS, 2 * POINT_LANES], tl.float32)
        of_weights = tl.zeros([ROWS, POINT_LANES], tl.float32)
        first = (row * len(MAPS) + number) * POINTS
        for point in tl.static_range(POINTS):
            weight = tl.load(weight_ptr + first + point, mask=real, other=0.0)
            column, line = load_place(place_ptr, first + point, real, MAPS[number][3])
            left, beyond_left = before(column, MAPS[number][2])
            top, beyond_top = before(line, MAPS[number][1])
            of_column, of_line, of_weight = 0.0 * column, 0.0 * line, 0.0 * column
            for corner in tl.static_range(4):
                cell, inside, across, down = corner_of(
                    left, top, beyond_left, beyond_top, corner, MAPS[number][1], MAPS[number][2]
                )
                known = inside[:, None] & seen
                there = channel + ((MAPS[number][0] + cell) * (HEADS * CHANNELS))[:, None]
                value = tl.load(value_ptr + there, mask=known, other=0.0).to(tl.float32)
                agreement = tl.sum(value * gradient, axis=1)
                part = (weight * across * down)[:, None] * gradient
                tl.atomic_add(of_value_ptr + there, part, mask=known, sem="relaxed")
                of_weight += across * down * agreement
                of_column += down * agreement if corner % 2 else -down * agreement
                of_line += across * agreement if corner // 2 else -across * agreement
            scale = weight * (1.0 / MAPS[number][3])
            of_places = tl.where(place_lane == 2 * point, (of_column * scale)[:, None], of_places)
            of_places = tl.where(place_lane == 2 * point + 1, (of_line * scale)[:, None], of_places)
            of_weights = tl.where(point_lane == point, of_weight[:, None], of_weights)
        inside_places = real[:, None] & (place_lane < 2 * POINTS)
        tl.store(of_place_ptr + 2 * first[:, None] + place_lane, of_places, mask=inside_places)
        tl.store(of_weight_ptr + first[:, None] + point_lane, of_weights, mask=real[:, None] & (point_lane < POINTS))
