"""Arrange tiles in rows and columns with headings, and save them as a small file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from treeformer._util.files import atomic_write
from treeformer.draw import EDGE, EDGE_COLORS, KEYPOINT, NODE, NODE_COLORS, ROOT
from treeformer.errors import TreeformerError

TILE_PX = 288
GAP_PX = 4
HEADING_PX = 18
LINE_PX = 12
LARGEST_FILE = 300_000
LOSSLESS: dict[str, Any] = {"format": "WEBP", "lossless": True, "quality": 100, "method": 6}
LINE_COLORS = (EDGE, NODE, KEYPOINT, ROOT, *EDGE_COLORS, *NODE_COLORS)
Tile = Image.Image | str
"""An image, or a text shown instead of it."""


def sheet(columns: Sequence[str], rows: Sequence[str], tiles: Sequence[Sequence[Tile]]) -> Image.Image:
    """Arrange tiles on one image.

    Args:
        columns: headings of the columns.
        rows: text above each row.
        tiles: `tiles[row][column]`.

    Returns:
        The sheet.
    """
    width = len(columns) * (TILE_PX + GAP_PX) + GAP_PX
    height = HEADING_PX + len(rows) * (TILE_PX + HEADING_PX)
    page = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(page)
    for c, heading in enumerate(columns):
        pen.text((GAP_PX + c * (TILE_PX + GAP_PX), 3), heading, fill="black")
    for r, line in enumerate(tiles):
        top = HEADING_PX + r * (TILE_PX + HEADING_PX)
        pen.text((GAP_PX, top + 3), rows[r], fill="black")
        for c, tile in enumerate(line):
            left = GAP_PX + c * (TILE_PX + GAP_PX)
            page.paste(_image(tile), (left, top + HEADING_PX))
    return page


def _image(tile: Tile) -> Image.Image:
    if isinstance(tile, Image.Image):
        return tile.convert("RGB").resize((TILE_PX, TILE_PX), Image.Resampling.LANCZOS)
    blank = Image.new("RGB", (TILE_PX, TILE_PX), (235, 235, 235))
    pen = ImageDraw.Draw(blank)
    words, lines = tile.split(), [""]
    for word in words:
        lines = [*lines, word] if len(lines[-1]) + len(word) > 40 else [*lines[:-1], f"{lines[-1]} {word}".strip()]
    for number, line in enumerate(lines):
        pen.text((10, TILE_PX // 2 - LINE_PX * len(lines) // 2 + LINE_PX * number), line, fill="black")
    return blank


def save_small(image: Image.Image, path: Path, largest: int = LARGEST_FILE) -> None:
    """Write an image below a size limit, first with fewer colors, then with fewer pixels.

    Args:
        image: the image.
        path: the file to write, .png or .webp; tiles with photographs need half the bytes as lossless WebP.
        largest: size limit, bytes.

    Raises:
        TreeformerError: if the limit cannot be met.
    """
    options = {"format": "PNG", "optimize": True} if path.suffix == ".png" else LOSSLESS
    for scale in (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3):
        size = (math.ceil(image.width * scale), math.ceil(image.height * scale))
        smaller = image if scale == 1.0 else image.resize(size, Image.Resampling.LANCZOS)
        for colors in (256, 128, 64):
            with atomic_write(path) as temporary:
                _with_palette(smaller, colors).save(temporary, **options)
            if path.stat().st_size < largest:
                return
    raise TreeformerError(f"{path}: does not fit into {largest} bytes")


def _with_palette(image: Image.Image, colors: int) -> Image.Image:
    """Reduce the number of colors. The colors of lines are kept, because they are rare and would be lost."""
    lines = [channel for color in LINE_COLORS for channel in color]
    own = image.quantize(colors - len(LINE_COLORS), Image.Quantize.MEDIANCUT).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*lines, *own][: 3 * colors])
    return image.quantize(palette=palette, dither=Image.Dither.NONE)
