"""Gaps painted into branches whose labels stay, so that a model learns to bridge what leaves, glare and dirt hide.

A gap is a soft-edged piece of branch covered by the pixels beside it (as in CoLeTra, arXiv 2503.05541).
"""

from __future__ import annotations

import math

import numpy as np

from treeformer._util.arrays import ImageArray
from treeformer.skeleton import Skeleton

HALF_LENGTH_PX = (2.0, 10.0)
UNKNOWN_RADIUS_PX = 2.0
COVER = 1.5  # half the width of a gap, in radii of the branch
MARGIN_PX = 1.5  # added to half the width
EDGE_PX = 1.0  # over which a gap fades


def paint_gaps(image: ImageArray, skeleton: Skeleton, mean_count: float, rng: np.random.Generator) -> ImageArray:
    """Return the image with a random number of gaps, at places drawn uniformly along the branches."""
    length = skeleton.edge_length
    count = int(rng.poisson(mean_count)) if length.sum() > 0 else 0
    if count == 0:
        return image
    image = image.copy()
    radius = np.full(len(skeleton), UNKNOWN_RADIUS_PX) if skeleton.radius is None else skeleton.radius
    for edge in rng.choice(len(length), count, p=length / length.sum()).tolist():
        ends = skeleton.nodes[skeleton.edges[edge]]
        along = (ends[1] - ends[0]) / length[edge]
        middle = ends[0] + rng.random() * (ends[1] - ends[0])
        thick = float(np.nan_to_num(radius[skeleton.edges[edge]].mean(), nan=UNKNOWN_RADIUS_PX))
        half_width = COVER * thick + MARGIN_PX
        half_length = thick + rng.uniform(*HALF_LENGTH_PX)
        side = rng.choice((-1.0, 1.0)) * (2 * half_width + rng.uniform(1.0, 6.0))
        _cover(image, middle, along, (half_length, half_width), np.rint(side * along[::-1] * (-1, 1)).astype(int))
    return image


def _cover(
    image: ImageArray, middle: np.ndarray, along: np.ndarray, half: tuple[float, float], shift: np.ndarray
) -> None:
    """Copy the pixels at `shift` (x, y) over a soft-edged rectangle; nothing if these are outside the image."""
    reach = math.ceil(math.hypot(*half) + EDGE_PX)
    left, top = np.floor(middle).astype(int) - reach
    size = 2 * reach + 1
    height, width = image.shape[:2]
    for x, y in ((left, top), (left + shift[0], top + shift[1])):
        if x < 0 or y < 0 or x + size > width or y + size > height:
            return
    x = np.arange(left, left + size) + 0.5 - middle[0]
    y = (np.arange(top, top + size) + 0.5 - middle[1])[:, None]
    outside = np.maximum(np.abs(x * along[0] + y * along[1]) - half[0], np.abs(y * along[0] - x * along[1]) - half[1])
    weight = np.clip(0.5 - outside / EDGE_PX, 0.0, 1.0)[..., None]
    part = image[top : top + size, left : left + size]
    beside = image[top + shift[1] : top + shift[1] + size, left + shift[0] : left + shift[0] + size]
    part[:] = np.rint(part + (beside.astype(np.float32) - part) * weight).astype(np.uint8)
