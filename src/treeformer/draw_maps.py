"""Pictures of node confidence and branch direction maps: the true ones beside the predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Map = NDArray[np.floating[Any]]

CAPTION_PX = 14
GAP_PX = 4


def draw_maps(
    image: Image.Image, true_nodes: Map, true_directions: Map, found_nodes: Map, found_directions: Map
) -> Image.Image:
    """One row: the picture; the confidence, true and predicted; the direction, true and predicted.

    Confidence is grey, black for 0 and white for 1. The hue of a direction is its angle (red to the right, then as
    the clock goes: down is yellow-green, left cyan, up violet), its brightness its length. Of several classes the
    strongest is shown.

    Args:
        image: of any size; maps with larger cells are enlarged to it.
        true_nodes, found_nodes: (C,h,w).
        true_directions, found_directions: (C,2,h,w).
    """
    panels = {
        "picture": image.convert("RGB"),
        "node confidence, true": _grey(true_nodes),
        "node confidence, predicted": _grey(found_nodes),
        "branch direction, true": _hues(true_directions),
        "branch direction, predicted": _hues(found_directions),
    }
    width, height = image.size
    sheet = Image.new("RGB", (len(panels) * (width + GAP_PX) - GAP_PX, height + CAPTION_PX), "white")
    pen = ImageDraw.Draw(sheet)
    for place, (caption, panel) in enumerate(panels.items()):
        left = place * (width + GAP_PX)
        pen.text((left + 2, 1), caption, fill="black")
        sheet.paste(panel.resize(image.size, Image.Resampling.NEAREST), (left, CAPTION_PX))
    return sheet


def _grey(nodes: Map) -> Image.Image:
    return _channel(np.nan_to_num(nodes).max(axis=0)).convert("RGB")


def _hues(directions: Map) -> Image.Image:
    flow = np.nan_to_num(directions)
    length = np.hypot(flow[:, 0], flow[:, 1])
    strongest = length.argmax(axis=0)[None]
    x, y = (np.take_along_axis(flow[:, axis], strongest, axis=0)[0] for axis in (0, 1))
    hue = np.arctan2(y, x) / (2 * np.pi) % 1.0
    full = Image.new("L", (hue.shape[1], hue.shape[0]), 255)
    return Image.merge("HSV", (_channel(hue), full, _channel(np.hypot(x, y)))).convert("RGB")


def _channel(values: Map) -> Image.Image:
    """0 to 1 as 0 to 255."""
    return Image.fromarray(np.rint(np.clip(values, 0.0, 1.0) * 255).astype(np.uint8))
