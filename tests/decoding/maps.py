"""Perfect maps of center lines, drawn from skeletons without torch."""

from __future__ import annotations

import numpy as np

from treeformer import Skeleton
from treeformer._util.search_tree import search_tree
from treeformer.decoding.line_map import LINE_STRIDE, LineTile, along_edges

EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)
SPREAD_PX = 1.5


def line_map(curves: Skeleton, size: tuple[int, int]) -> np.ndarray:
    """Return the bytes (h,w,3) of a perfect map, as `RawPrediction.lines`."""
    width, height = size[0] // LINE_STRIDE, size[1] // LINE_STRIDE
    centers = (np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1) + 0.5) * LINE_STRIDE
    dense = curves.resample(0.5)
    edge, place = along_edges(dense)
    distance, nearest = search_tree(place).query(centers.reshape(-1, 2))
    step = np.diff(dense.nodes[dense.edges], axis=1)[:, 0]
    twice = 2 * np.arctan2(step[:, 1], step[:, 0])[edge[nearest]]
    presence = np.exp(-((distance / SPREAD_PX) ** 2) / 2)
    planes = [255 * presence, 127.5 * (1 + np.cos(twice)), 127.5 * (1 + np.sin(twice))]
    return np.stack(planes, axis=-1).round().astype(np.uint8).reshape(height, width, 3)


def line_tile(curves: Skeleton, size: tuple[int, int], corner: tuple[int, int] = (0, 0), box=EVERYWHERE) -> LineTile:
    """Return the tile of a perfect map."""
    return LineTile.of(line_map(curves, size), size, corner, box)
