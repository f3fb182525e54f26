"""The predicted map of center lines of an image, kept tile by tile, and what it says about lines in the image.

Most cells of a map are empty, so a tile keeps the others only: the memory of a huge image grows with its branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import BoolArray, Float32Array, FloatArray, ImageArray, IntArray
from treeformer._util.search_tree import search_tree
from treeformer.skeleton import Skeleton

LINE_STRIDE = 2
"""Side of a cell, px of the network's input."""
LEAST = 13  # presence of a cell that is kept, of 255: the noise of a trained network is below 0.05
EXPLAINED_PX = 6.0  # a line within this distance of an edge is explained by it
SAMPLE_PX = 2.0  # distance of samples along an edge


class LineTile(NamedTuple):
    """The cells of a tile with a line."""

    # left, top, right and bottom of the part of the tile that only this tile describes, px of the scaled image;
    # infinite at the borders of the image
    box: tuple[float, float, float, float]
    corner: tuple[int, int]  # (x, y) of the tile, px of the scaled image
    shape: tuple[int, int]  # rows and columns of the map
    cells: NDArray[np.uint32]  # (C,) flat indices of the cells
    values: ImageArray  # (C,3) uint8, presence, cos 2t and sin 2t as in `RawPrediction.lines`

    @classmethod
    def of(
        cls, lines: ImageArray, size: tuple[int, int], corner: tuple[int, int], box: tuple[float, float, float, float]
    ) -> LineTile:
        """Keep the cells of a map that show a line inside the image.

        `lines` (h,w,3) is as in `RawPrediction.lines`. What it shows beyond the `size` of the tile, (width, height) px,
        is padding.
        """
        width, height = (-(-length // LINE_STRIDE) for length in size)
        lines = lines[:height, :width]
        cells = np.flatnonzero(lines[..., 0] >= LEAST).astype(np.uint32)
        return cls(box, corner, lines.shape[:2], cells, lines.reshape(-1, 3)[cells])

    def dense(self) -> Float32Array:
        """Return the whole map with a margin of one empty cell, (h+2,w+2,3): presence p, p·cos 2t and p·sin 2t."""
        height, width = self.shape
        lines = np.zeros((height + 2, width + 2, 3), np.float32)
        presence = self.values[:, :1].astype(np.float32) / 255
        values = np.concatenate([presence, (self.values[:, 1:] / np.float32(127.5) - 1) * presence], axis=1)
        row, column = np.divmod(self.cells.astype(np.intp), width)
        lines[row + 1, column + 1] = values
        return lines

    def owns(self, points: FloatArray) -> BoolArray:
        """Return a mask (K,): True for points (K,2) px of the scaled image in the part of this tile."""
        x, y = points.T
        left, top, right, bottom = self.box
        owned: BoolArray = (left <= x) & (x < right) & (top <= y) & (y < bottom)
        return owned


def sample_lines(lines: Float32Array, x: FloatArray, y: FloatArray) -> Float32Array:
    """Interpolate a dense map at `x` and `y` (…), px from its corner: return (…,C), 0 outside the map.

    `lines` (h+2,w+2,C) has a margin, see `LineTile.dense`.
    """
    height, width, channels = lines.shape
    column, row = (  # in cells of the map with its margin
        np.clip(place.astype(np.float32) / LINE_STRIDE + np.float32(0.5), 0, length - 1)
        for place, length in ((x, width), (y, height))
    )
    left, top = np.minimum(column.astype(np.intp), width - 2), np.minimum(row.astype(np.intp), height - 2)
    right_part, lower_part = (column - left)[..., None], (row - top)[..., None]
    cell, cells = top * width + left, lines.reshape(-1, channels)
    upper, right = cells.take(cell, axis=0), cells.take(cell + 1, axis=0)
    upper += (right - upper) * right_part
    lower, right = cells.take(cell + width, axis=0), cells.take(cell + width + 1, axis=0)
    lower += (right - lower) * right_part
    sampled: Float32Array = upper + (lower - upper) * lower_part
    return sampled


def along_edges(skeleton: Skeleton) -> tuple[IntArray, FloatArray]:
    """Return samples on all edges, at least one on each: the edge (S,), ascending, and the place (S,2) px of each."""
    count = np.maximum(np.ceil(skeleton.edge_length / SAMPLE_PX), 1).astype(np.intp)
    edge = np.repeat(np.arange(len(count)), count)
    share = (np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count) + 0.5) / count[edge]
    start, end = skeleton.nodes[skeleton.edges[edge]].transpose(1, 0, 2)
    return edge, start + share[:, None] * (end - start)


def edge_evidence(skeleton: Skeleton, tiles: Sequence[LineTile]) -> FloatArray:
    """Return (E,2) the mean and the lowest probability of a line along each edge.

    The skeleton is in px of the scaled image, of which `tiles` are all tiles.
    """
    edge, place = along_edges(skeleton)
    presence = np.zeros(len(edge))
    for tile in tiles:
        inside = np.flatnonzero(tile.owns(place))
        if len(inside):
            presence[inside] = sample_lines(tile.dense()[..., :1], *(place[inside] - tile.corner).T)[:, 0]
    count = np.bincount(edge, minlength=len(skeleton.edges))
    first = np.cumsum(count) - count
    mean = np.bincount(edge, presence, minlength=len(skeleton.edges)) / count
    return np.stack([mean, np.minimum.reduceat(presence, first) if len(edge) else mean], axis=1)


def unexplained_lines(skeleton: Skeleton, tiles: Sequence[LineTile], least: float = 0.5) -> FloatArray:
    """Find lines that no edge explains: plant that the skeleton misses, or clutter that looks like plant.

    The rows (C,3) are x and y of the centers of cells, px of the scaled image as those of the skeleton, and the
    probability of a line, at least `least`. `tiles` are all tiles of the image.
    """
    found = [np.zeros((0, 3))]
    for tile in tiles:
        chosen = tile.values[:, 0] >= 255 * least
        row, column = np.divmod(tile.cells[chosen].astype(np.intp), tile.shape[1])
        centers = (np.stack([column, row], axis=1) + 0.5) * LINE_STRIDE + tile.corner
        found.append(np.column_stack([centers, tile.values[chosen, 0] / 255])[tile.owns(centers)])
    cells = np.concatenate(found)
    _, place = along_edges(skeleton)
    if not len(place) or not len(cells):
        return cells
    distance, _ = search_tree(place).query(cells[:, :2])
    unexplained: FloatArray = cells[distance > EXPLAINED_PX]
    return unexplained
