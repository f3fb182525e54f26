"""An image on its way to the network: opened at its working size and cut into tiles."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from treeformer._util.arrays import ImageArray
from treeformer._util.images import ImageSource, LazyImage, open_lazy
from treeformer.errors import TreeformerError
from treeformer.inference import tiles
from treeformer.inference.accumulator import TileAccumulator
from treeformer.inference.options import PredictionOptions


@dataclass
class PreparedImage:
    """An image that is to be predicted; `first` is the first tile's input, ready."""

    image: LazyImage | None  # None where the first tile is all of it
    decoding: TileAccumulator
    side: int  # of the engine's input
    first: ImageArray

    def inputs(self) -> Iterator[ImageArray]:
        """(side, side, 3) of each tile, one at a time."""
        yield self.first
        for tile in self.decoding.tiles[1:]:
            assert self.image is not None
            yield tiles.cut(self.image, tile, self.side)


class TooLargeError(Exception):
    """An image is larger than was asked for; none of its pixels has been read."""


def begin(image: ImageSource, options: PredictionOptions, side: int, most_pixels: float = math.inf) -> PreparedImage:
    """Open an image and plan its tiles of `side` px; TooLargeError where it has more pixels at its working size."""

    def scale(size: tuple[int, int]) -> float:
        factor = tiles.working_scale(size, options.working_px, side)
        if size[0] * size[1] * factor**2 > most_pixels:
            raise TooLargeError
        return factor

    opened = open_lazy(image, scale)
    name = Path(image).name if isinstance(image, str | os.PathLike) else None
    grid = tiles.tile_grid(opened.size, side, options.tile_step)
    decoding = TileAccumulator(options, opened.original_size, opened.size, grid, name)
    first = tiles.cut(opened, grid[0], side)
    return PreparedImage(opened if len(grid) > 1 else None, decoding, side, first)


def try_prepare(
    image: ImageSource, options: PredictionOptions, side: int, most_pixels: float = math.inf
) -> PreparedImage | TreeformerError:
    """As `begin`, with the error as a value where the image cannot be read."""
    try:
        return begin(image, options, side, most_pixels)
    except TreeformerError as error:
        return error
