"""An image on its way to the network: opened at its working size and cut into tiles."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from treeformer._util.images import Picture, Pixels, Source, open_picture
from treeformer.errors import TreeformerError
from treeformer.inference import tiles
from treeformer.inference.accumulator import Decoding
from treeformer.inference.options import Options


@dataclass
class PictureTask:
    """A picture that is to be predicted; `first` is the first tile's input, ready."""

    picture: Picture | None  # None where the first tile is all of it
    decoding: Decoding
    side: int  # of the engine's input
    first: Pixels

    def inputs(self) -> Iterator[Pixels]:
        """(side, side, 3) of each tile, one at a time."""
        yield self.first
        for tile in self.decoding.tiles[1:]:
            assert self.picture is not None
            yield tiles.cut(self.picture, tile, self.side)


class TooLargeError(Exception):
    """A picture is larger than was asked for; none of its pixels has been read."""


def begin(image: Source, options: Options, side: int, most_pixels: float = math.inf) -> PictureTask:
    """Open a picture and plan its tiles of `side` px; TooLargeError where it has more pixels at its working size."""

    def scale(size: tuple[int, int]) -> float:
        factor = tiles.working_scale(size, options.working_px, side)
        if size[0] * size[1] * factor**2 > most_pixels:
            raise TooLargeError
        return factor

    picture = open_picture(image, scale)
    name = Path(image).name if isinstance(image, str | os.PathLike) else None
    grid = tiles.tile_grid(picture.size, side, options.tile_step)
    decoding = Decoding(options, picture.original_size, picture.size, grid, name)
    first = tiles.cut(picture, grid[0], side)
    return PictureTask(picture if len(grid) > 1 else None, decoding, side, first)


def begin_or_error(
    image: Source, options: Options, side: int, most_pixels: float = math.inf
) -> PictureTask | TreeformerError:
    """As `begin`, with the error as a value where the picture cannot be read."""
    try:
        return begin(image, options, side, most_pixels)
    except TreeformerError as error:
        return error
