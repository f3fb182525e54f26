"""Augmentation of an image and its skeleton together: flip, rotation, scale, crop, light and noise, as in the paper.

The geometric steps are composed into one affine map, so that the image is resampled once and the
skeleton moves by exactly the same numbers, never rounded. Light and noise change the image alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.skeleton.resampling import component_lengths, subgraph

# Bilinear sampling looks at 2×2 pixels: from this many image pixels an output pixel on, it would skip some.
SHRINK_WITHOUT_ALIASING = 1.5
# Severed scraps shorter than this show nothing that could be seen or learned.
SHORTEST_PIECE_PX = 1.0
# A crop is placed so that a node drawn at random lies at least this share of the frame from its border.
ANCHOR_MARGIN = 0.1
# Gray levels that noise adds or takes away at most, so that they fit into a byte: 2.9 standard deviations of 44.
MOST_NOISE = 127

_NORMAL_QUANTILES = np.array([NormalDist().inv_cdf((level + 0.5) / 256) for level in range(256)])


@dataclass(frozen=True)
class Augmentation:
    """Ranges to draw from; called with an image, its skeleton and a generator, it gives both anew.

    Deterministic given the generator's state. The axes a file gave are left behind, plants and radii are kept.

    >>> import numpy as np
    >>> image = np.zeros((40, 60, 3), dtype=np.uint8)
    >>> skeleton = Skeleton([(30, 5), (30, 20), (40, 30)], [(0, 1), (1, 2)], root=0)
    >>> image, moved = Augmentation(flip=1.0)(image, skeleton, np.random.default_rng(0))
    >>> moved.nodes.tolist(), moved.image_size
    ([[30.0, 5.0], [30.0, 20.0], [20.0, 30.0]], (60, 40))
    """

    flip: float = 0.5
    """Chance of the mirror image, left to right."""
    rotation_deg: float = 0.0
    """Turned about the center by up to this angle, either way."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Enlarged by a factor from this range, even on a logarithmic scale."""
    crop: tuple[float, float] = (1.0, 1.0)
    """The share of the width, and of the height, that is kept; not used where `frame` is given."""
    frame: tuple[int, int] | None = None
    """(width, height) px of every result: a window on the image, which is padded where it is smaller."""
    brightness: float = 0.0
    """Gray levels, as a share of the whole range, added or taken away at most."""
    contrast: tuple[float, float] = (1.0, 1.0)
    """The factor about middle gray."""
    color_cast: float = 0.0
    """Red, green and blue are each enhanced or weakened by up to this share."""
    noise: tuple[float, float] = (0.0, 0.0)
    """Standard deviation of normal noise in each channel, in gray levels of 255; no value moves by more than 127."""
    keep: Literal["forest", "largest"] = "forest"
    """What stays of a plant that the crop cuts into pieces: all of them, or the longest."""
    spacing_px: float | None = None
    """Spread the nodes anew at this spacing, which scaling and cropping have changed; None leaves them."""

    def __post_init__(self) -> None:
        for name in ("flip", "brightness", "color_cast"):
            if not 0 <= getattr(self, name) <= 1:
                raise TreeformerError(f"augmentation: {name} must be from 0 to 1, not {getattr(self, name)}")
        for name, least in (("scale", 1e-3), ("crop", 1e-3), ("contrast", 0.0), ("noise", 0.0)):
            low, high = getattr(self, name)
            if not (least <= low <= high < math.inf):
                raise TreeformerError(
                    f"augmentation: {name} must be a range (low, high) from {least} up, not {low, high}"
                )
        if self.crop[1] > 1:
            raise TreeformerError(f"augmentation: crop is a share of the image, at most 1, not {self.crop[1]}")
        if not 0 <= self.rotation_deg <= 180:
            raise TreeformerError(f"augmentation: rotation_deg must be from 0 to 180, not {self.rotation_deg}")
        if self.frame is not None and not min(self.frame) >= 1:
            raise TreeformerError(f"augmentation: frame must be (width, height) in pixels, not {self.frame}")

    def __call__(self, image: ImageArray, skeleton: Skeleton, rng: np.random.Generator) -> tuple[ImageArray, Skeleton]:
        """The image (H,W,3) uint8 and its skeleton, both changed by one draw from `rng`."""
        affine, size = self.draw_map((image.shape[1], image.shape[0]), skeleton.nodes, rng)
        return self.relight(warp(image, affine, size), rng), self.moved(skeleton, affine, size)

    def draw_map(
        self, size: tuple[int, int], nodes: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, tuple[int, int]]:
        """An affine map (2,3) from the image of this (width, height) to the result, and the result's size.

        nodes (N,2) px: the crop is placed so that one of them, chosen at random, is in it.
        """
        flips, chance, place = rng.random() < self.flip, rng.random(), rng.random(2)
        angle = math.radians(rng.uniform(-self.rotation_deg, self.rotation_deg))
        factor = math.exp(rng.uniform(math.log(self.scale[0]), math.log(self.scale[1])))
        share = rng.uniform(*self.crop, size=2)

        mirror = np.diag([-1.0 if flips else 1.0, 1.0])
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        linear = factor * turn @ mirror
        canvas = factor * np.asarray(size, dtype=np.float64)  # the image after scaling, before it is cropped
        shift = canvas / 2 - linear @ np.asarray(size) / 2
        frame = np.asarray(self.frame) if self.frame is not None else np.maximum(1, np.rint(share * canvas))

        room = canvas - frame  # negative where the image is the smaller one and moves about inside the frame
        low, high = np.minimum(room, 0.0), np.maximum(room, 0.0)
        if len(nodes):
            anchor = linear @ nodes[int(chance * len(nodes))] + shift
            low = np.maximum(low, anchor - (1 - ANCHOR_MARGIN) * frame)
            high = np.maximum(low, np.minimum(high, anchor - ANCHOR_MARGIN * frame))
            corner = np.minimum(low + place * (high - low), anchor - ANCHOR_MARGIN * frame)
        else:
            corner = low + place * (high - low)
        affine = np.column_stack([linear, shift - corner])
        return affine, (int(frame[0]), int(frame[1]))

    def moved(self, skeleton: Skeleton, affine: ArrayLike, size: tuple[int, int]) -> Skeleton:
        """The skeleton under a map that `draw_map` gave, cut at the frame."""
        moved = move(skeleton, affine, size, keep=self.keep)
        return moved if self.spacing_px is None else moved.resample(self.spacing_px)

    def relight(self, image: ImageArray, rng: np.random.Generator) -> ImageArray:
        """Light and noise: the same image under another lamp and through another camera."""
        brightness = rng.uniform(-self.brightness, self.brightness)
        contrast = rng.uniform(*self.contrast)
        cast = rng.uniform(1 - self.color_cast, 1 + self.color_cast, size=(3, 1))
        deviation = rng.uniform(*self.noise)
        planes = image.transpose(2, 0, 1)
        if self.brightness or self.color_cast or self.contrast != (1.0, 1.0):
            gray = np.arange(256) / 255
            curve = ((gray * cast - 0.5) * contrast + 0.5 + brightness) * 255  # (3,256), one a channel
            table = np.clip(np.rint(curve), 0, 255).astype(np.uint8)
            planes = np.stack([_looked_up(plane, of_plane) for plane, of_plane in zip(planes, table, strict=True)])
        if deviation > 0:
            # A byte of chance a value, looked up among 256 quantiles: a third of the time of drawing normal numbers.
            quantile = np.clip(np.rint(deviation * _NORMAL_QUANTILES), -MOST_NOISE, MOST_NOISE).astype(np.int8)
            chance = np.frombuffer(rng.bytes(image.size), dtype=np.uint8).reshape(image.shape)
            noise = np.ascontiguousarray(_looked_up(chance, quantile.view(np.uint8)).transpose(2, 0, 1)).view(np.int8)
            planes = np.stack([_added(plane, to_plane) for plane, to_plane in zip(planes, noise, strict=True)])
        return planes.transpose(1, 2, 0)


def _looked_up(values: NDArray[np.uint8], table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """table[values], in half of NumPy's time; values of any shape, table (256,)."""
    gray = Image.fromarray(values.reshape(len(values), -1))
    return np.asarray(gray.point(table.tolist())).reshape(values.shape)


def _added(plane: ImageArray, noise: NDArray[np.int8]) -> ImageArray:
    """plane + noise, within the range of a gray level."""
    level = noise.astype(np.int16)
    level += plane
    return np.clip(level, 0, 255, out=level).astype(np.uint8)


# The paper's: rotation as given there; the other ranges are not in the text.
ROOTS = Augmentation(
    rotation_deg=9.0,
    scale=(0.8, 1.25),
    crop=(0.7, 1.0),
    brightness=0.1,
    contrast=(0.8, 1.25),
    color_cast=0.1,
    noise=(0.0, 8.0),
    spacing_px=8.0,
)
VINES = Augmentation(
    rotation_deg=15.0,
    scale=(0.8, 1.25),
    crop=(0.7, 1.0),
    brightness=0.15,
    contrast=(0.7, 1.4),
    color_cast=0.1,
    noise=(0.0, 8.0),
)
# For a model that is to work on images of other cameras, lamps, scales and backgrounds than those it has seen.
STRONG = Augmentation(
    rotation_deg=20.0,
    scale=(0.5, 1.5),
    brightness=0.2,
    contrast=(0.6, 1.5),
    color_cast=0.3,
    noise=(0.0, 12.0),
)
PRESETS: dict[str, Augmentation] = {"roots": ROOTS, "vines": VINES, "strong": STRONG}


def move(
    skeleton: Skeleton, affine: ArrayLike, size: tuple[int, int], *, keep: Literal["forest", "largest"] = "forest"
) -> Skeleton:
    """The skeleton under an affine map (2,3), cut at a frame of this (width, height), without its file's axes."""
    width, height = size
    cut = skeleton.with_inferred_axes.transform(affine, image_size=size).crop(0, 0, width, height, keep=keep)
    return _without_scraps(cut) if keep == "forest" else cut


def _without_scraps(skeleton: Skeleton) -> Skeleton:
    """Without the pieces shorter than `SHORTEST_PIECE_PX`."""
    stays = (component_lengths(skeleton) >= SHORTEST_PIECE_PX)[skeleton.component]
    return skeleton if stays.all() else subgraph(skeleton, stays)


def warp(image: ImageArray, affine: ArrayLike, size: tuple[int, int]) -> ImageArray:
    """The image (H,W,3) under an affine map (2,3) that acts on (x, y, 1), in a frame of this (width, height).

    The center of the top left pixel is (0.5, 0.5). What lies outside the image takes the mean color of its border.
    Enlarging and turning are one bilinear pass; a strong reduction is smoothed first, or thin roots would break up.
    """
    seen, back = before_sampling(image, affine, size)
    return np.array(  # a copy of its own: what Pillow shows of its memory cannot be written to
        Image.fromarray(seen).transform(
            size,
            Image.Transform.AFFINE,
            back.ravel().tolist(),
            Image.Resampling.BILINEAR,
            fillcolor=border_color(image),
        )
    )


def before_sampling(image: ImageArray, affine: ArrayLike, size: tuple[int, int]) -> tuple[ImageArray, FloatArray]:
    """The image to sample, where need be made smaller, and the map (2,3) from the frame back into it."""
    matrix = np.vstack([np.asarray(affine, dtype=np.float64), [0, 0, 1]])
    back = np.linalg.inv(matrix)
    shrink = math.sqrt(abs(np.linalg.det(back)))  # image pixels an output pixel, along each side
    if shrink > SHRINK_WITHOUT_ALIASING:
        reduced, to_reduced = _reduced(Image.fromarray(image), back, size, shrink)
        image, back = np.asarray(reduced), to_reduced @ back
    return image, back[:2]


def border_color(image: ImageArray) -> tuple[int, int, int]:
    """The mean color of an image's border, which goes on around it."""
    border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    red, green, blue = np.rint(border.mean(axis=0)).astype(int).tolist()
    return red, green, blue


def _reduced(
    image: Image.Image, back: FloatArray, size: tuple[int, int], shrink: float
) -> tuple[Image.Image, FloatArray]:
    """The part of the image that the frame shows, made smaller, and the map (3,3) from the image to it."""
    corners = back[:2] @ np.array([[0, size[0], 0, size[0]], [0, 0, size[1], size[1]], [1, 1, 1, 1]])
    margin = 2 * shrink
    limit = np.asarray(image.size)
    low = np.clip(np.floor(corners.min(axis=1) - margin), 0, limit - 1)
    high = np.clip(np.ceil(corners.max(axis=1) + margin), low + 1, limit)
    smaller = np.maximum(1, np.rint((high - low) / shrink))
    ratio = smaller / (high - low)
    box = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
    reduced = image.resize((int(smaller[0]), int(smaller[1])), Image.Resampling.HAMMING, box=box)
    to_reduced = np.array([[ratio[0], 0, -ratio[0] * low[0]], [0, ratio[1], -ratio[1] * low[1]], [0, 0, 1]])
    return reduced, to_reduced
