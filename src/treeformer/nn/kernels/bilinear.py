"""Bilinear interpolation within Triton kernels: the four cells around a place in a feature map, and their weights."""

from __future__ import annotations

from treeformer.nn.kernels._triton import jit, tl


@jit
def split_coordinate(coordinate: tl.tensor, SIZE: tl.constexpr) -> tl.tensor:
    """Split coordinates (N,), in cells, into whole cells of an axis of SIZE cells and fractions.

    The cell is the one at or before a coordinate, −2 if neither this cell nor the next is in the map.
    """
    whole = tl.floor(coordinate)
    near = (whole >= -1) & (whole < SIZE)  # False for NaN
    return tl.where(near, whole, -2.0).to(tl.int32), coordinate - whole


@jit
def corner_of(
    left: tl.tensor, top: tl.tensor, right_part: tl.tensor, bottom_part: tl.tensor,
    CORNER: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Describe one of the four cells around places: its index, True if it is in the map, its weights along x and y.

    Columns and rows at or before the places and the fractions beyond them are (N,). CORNER is 0 to 3: upper left, upper
    right, lower left, lower right.
    """
    column, line = left + CORNER % 2, top + CORNER // 2
    inside = (column >= 0) & (column < WIDTH) & (line >= 0) & (line < HEIGHT)
    across = right_part if CORNER % 2 else 1 - right_part
    down = bottom_part if CORNER // 2 else 1 - bottom_part
    return line * WIDTH + column, inside, across, down
