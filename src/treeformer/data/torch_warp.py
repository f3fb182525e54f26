"""The warp of training images: that of `treeformer.data.augmentation`, with the vector instructions that torch has."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn.functional import grid_sample

from treeformer._util.arrays import ImageArray
from treeformer.data.augmentation import before_sampling, border_color

# Gray levels. Between equal pixels lies their level: added to every pixel, this keeps a sum of rounded weights from
# falling short of it before the fraction is cut off, as Pillow does.
ABOVE_ROUNDING = 1e-3


def warp(image: ImageArray, affine: ArrayLike, size: tuple[int, int]) -> ImageArray:
    """What `treeformer.data.augmentation.warp` gives but for rounding, in half the time; the planes of the result lie one after the other.

    Pillow computes in 64 bits and one value at a time, torch in 32 and eight: one value in a thousand is a gray level
    brighter, and a pixel whose center lies on the border of the image may fall on the other side of it. Processors
    of another kind may round differently, at most by as much.
    """
    seen, back = before_sampling(image, affine, size)
    x, y = (np.arange(length) + 0.5 for length in size)
    place = np.empty((2, size[1], size[0]), dtype=np.float32)  # of each pixel in `seen`, whose border is at -1 and 1
    for axis, length in enumerate((seen.shape[1], seen.shape[0])):
        along, down, shift = 2 / length * back[axis]
        np.add.outer((down * y + shift - 1).astype(np.float32), (along * x).astype(np.float32), out=place[axis])
    planes = torch.from_numpy(np.add(seen, ABOVE_ROUNDING, dtype=np.float32)).permute(2, 0, 1)
    places = torch.from_numpy(place).permute(1, 2, 0)
    sampled = grid_sample(planes[None], places[None], padding_mode="border", align_corners=False)[0]
    result = sampled.numpy().astype(np.uint8)
    outside = (np.abs(place[0]) > 1) | (np.abs(place[1]) > 1)
    for plane, level in zip(result, border_color(image), strict=True):
        np.copyto(plane, level, where=outside)
    return result.transpose(1, 2, 0)
