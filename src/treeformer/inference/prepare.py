"""Open an image at its working size and divide it into tiles."""

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
from treeformer.inference.auto_scale import is_noise
from treeformer.inference.options import PredictionOptions
from treeformer.inference.views import View


@dataclass
class PreparedImage:
    """An image that is ready to be predicted."""

    image: LazyImage | None  # None if it has only one tile
    accumulator: TileAccumulator  # collects the network's output for the tiles
    side: int  # of the engine's input, px
    first_input: ImageArray  # (side,side,3) RGB, the input for the first tile
    row: int | None = None  # row of `ImageWorkers.inputs` that `first_input` lies in, None if it lies elsewhere

    def inputs(self) -> Iterator[ImageArray]:
        """Yield the input for each tile, (side,side,3) RGB."""
        yield self.first_input
        for tile in self.accumulator.tiles[1:]:
            assert self.image is not None
            yield tiles.cut(self.image, tile, self.side)


class TooLargeError(Exception):
    """The image has more pixels than the caller accepts. None of its pixels has been read."""


def prepare(
    image: ImageSource | View, options: PredictionOptions, side: int, max_pixels: float = math.inf
) -> PreparedImage:
    """Open an image at its working size and plan its tiles, with an engine's input of `side` px.

    More than `max_pixels` pixels at the working size are a `TooLargeError`.
    """
    options = options.of_first_pass(side)

    def scale(size: tuple[int, int]) -> float:
        factor = tiles.working_scale(size, options.working_px, side)
        if size[0] * size[1] * factor**2 > max_pixels:
            raise TooLargeError
        return factor

    opened = open_lazy(image.open() if isinstance(image, View) else image, scale)
    name = Path(image).name if isinstance(image, str | os.PathLike) else None
    grid = tiles.tile_grid(opened.size, side, options.tile_step)
    accumulator = TileAccumulator(options, opened.original_size, opened.size, grid, name)
    first_input = tiles.cut(opened, grid[0], side)
    if options.scale_rule is not None:
        accumulator.source = image
        # An image that was not reduced gets no second pass.
        is_reduced = max(opened.size) < max(opened.original_size)
        accumulator.is_noise = is_reduced and is_noise(first_input)
    return PreparedImage(opened if len(grid) > 1 else None, accumulator, side, first_input)


def prepare_second_pass(first: TileAccumulator, side: int) -> PreparedImage | None:
    """Open an image again if the scale rule chooses a larger working size; return None if the first pass is the result.

    `first` is the complete output of the first pass.
    """
    options = first.second_pass()
    source, first.source = first.source, None  # an array is not kept, nor sent to another process
    if options is None or source is None:
        return None
    prepared = prepare(source, options, side)
    prepared.accumulator.first_pass = first
    return prepared


def try_prepare(
    image: ImageSource | View, options: PredictionOptions, side: int, max_pixels: float = math.inf
) -> PreparedImage | TreeformerError:
    """Call `prepare`, but return the error if the image cannot be read. A `TooLargeError` is raised."""
    try:
        return prepare(image, options, side, max_pixels)
    except TreeformerError as error:
        return error
