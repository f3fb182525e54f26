"""Augmentation of an image together with its skeleton: flip, rotation, scale, crop, light and noise, as in the paper.

The geometric steps are composed into one affine map. The image is resampled once, and the skeleton is transformed by
the same map without rounding. Light and noise change only the image.

Images are (H,W,3) uint8 RGB, affine maps (2,3) that act on (x, y, 1), and a `size` is (width, height) of the result,
px.
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
from treeformer.skeleton.attribute_transfer import component_lengths, subgraph

# Bilinear sampling reads 2×2 pixels. Above this number of image pixels per output pixel it would skip some.
SHRINK_WITHOUT_ALIASING = 1.5
# Components shorter than this, cut off by a crop, are not visible and are dropped.
MIN_COMPONENT_PX = 1.0
# A crop is placed so that a randomly chosen node has at least this distance from its border, as a fraction of its side.
ANCHOR_MARGIN = 0.1
# Maximum change by noise, in gray levels, so that it fits into a signed byte: 2.9 standard deviations of 44.
MAX_NOISE = 127

_NORMAL_QUANTILES = np.array([NormalDist().inv_cdf((level + 0.5) / 256) for level in range(256)])


@dataclass(frozen=True)
class Augmentation:
    """Ranges of random changes. Call it with an image, its skeleton and a random generator to change both.

    The result is deterministic given the generator's state. Plants and radii are kept. Explicit axes are replaced by
    inferred ones.

    Raises:
        TreeformerError: if a range is invalid.

    Example:
        >>> import numpy as np
        >>> image = np.zeros((40, 60, 3), dtype=np.uint8)
        >>> skeleton = Skeleton([(30, 5), (30, 20), (40, 30)], [(0, 1), (1, 2)], root=0)
        >>> image, flipped = Augmentation(flip=1.0)(image, skeleton, np.random.default_rng(0))
        >>> flipped.nodes.tolist(), flipped.image_size
        ([[30.0, 5.0], [30.0, 20.0], [20.0, 30.0]], (60, 40))
    """

    flip: float = 0.5
    """Probability of a horizontal flip."""
    rotation_deg: float = 0.0
    """Maximum rotation about the center in either direction, degrees."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Range of the scale factor, drawn uniformly on a logarithmic scale."""
    crop: tuple[float, float] = (1.0, 1.0)
    """Range of the fraction of the width, and of the height, that is kept. Ignored if `frame` is set."""
    frame: tuple[int, int] | None = None
    """(width, height) of the result, px: a window on the image, padded if the image is smaller. None uses `crop`."""
    brightness: float = 0.0
    """Maximum change of brightness in either direction, as a fraction of the gray level range."""
    contrast: tuple[float, float] = (1.0, 1.0)
    """Range of the contrast factor about middle gray."""
    color_cast: float = 0.0
    """Maximum change of the gain of each color channel in either direction, as a fraction."""
    noise: tuple[float, float] = (0.0, 0.0)
    """Range of the standard deviation of normal noise, gray levels of 255. No value changes by more than 127."""
    keep: Literal["forest", "largest"] = "forest"
    """Components to keep of a plant that the crop cuts apart: all of them (`forest`), or the longest (`largest`)."""
    spacing_px: float | None = None
    """Node spacing to resample to after scaling and cropping, px. None keeps the nodes."""

    def __post_init__(self) -> None:
        for name in ("flip", "brightness", "color_cast"):
            if not 0 <= getattr(self, name) <= 1:
                raise TreeformerError(f"augmentation: {name} must be from 0 to 1, not {getattr(self, name)}")
        for name, minimum in (("scale", 1e-3), ("crop", 1e-3), ("contrast", 0.0), ("noise", 0.0)):
            low, high = getattr(self, name)
            if not (minimum <= low <= high < math.inf):
                raise TreeformerError(
                    f"augmentation: {name} must be a range (low, high) with low at least {minimum}, not {low, high}"
                )
        if self.crop[1] > 1:
            raise TreeformerError(f"augmentation: crop is a fraction of the image, at most 1, not {self.crop[1]}")
        if not 0 <= self.rotation_deg <= 180:
            raise TreeformerError(f"augmentation: rotation_deg must be from 0 to 180, not {self.rotation_deg}")
        if self.frame is not None and not min(self.frame) >= 1:
            raise TreeformerError(f"augmentation: frame must be (width, height) in pixels, not {self.frame}")

    def __call__(self, image: ImageArray, skeleton: Skeleton, rng: np.random.Generator) -> tuple[ImageArray, Skeleton]:
        """Change an image and its skeleton by one random draw.

        Args:
            image: (H,W,3) uint8 RGB.
            skeleton: the skeleton, in px.
            rng: the random generator.

        Returns:
            The new image and skeleton.
        """
        affine, size = self.draw_affine((image.shape[1], image.shape[0]), skeleton.nodes, rng)
        return self.relight(warp(image, affine, size), rng), self.move_skeleton(skeleton, affine, size)

    def draw_affine(
        self, size: tuple[int, int], nodes: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, tuple[int, int]]:
        """Draw a random affine map.

        Args:
            size: (width, height) of the image, px.
            nodes: (N,2) px. The crop contains at least one of them, chosen at random.
            rng: the random generator.

        Returns:
            The (2,3) map from the image to the result, and (width, height) of the result, px.
        """
        flipped, node_choice, position = rng.random() < self.flip, rng.random(), rng.random(2)
        angle = math.radians(rng.uniform(-self.rotation_deg, self.rotation_deg))
        factor = math.exp(rng.uniform(math.log(self.scale[0]), math.log(self.scale[1])))
        crop_fraction = rng.uniform(*self.crop, size=2)

        mirror = np.diag([-1.0 if flipped else 1.0, 1.0])
        rotation = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        linear = factor * rotation @ mirror
        canvas = factor * np.asarray(size, dtype=np.float64)  # size of the image after scaling, before cropping
        shift = canvas / 2 - linear @ np.asarray(size) / 2
        frame = np.asarray(self.frame) if self.frame is not None else np.maximum(1, np.rint(crop_fraction * canvas))

        room = canvas - frame  # negative if the image is smaller than the frame and is placed inside it
        low, high = np.minimum(room, 0.0), np.maximum(room, 0.0)
        if len(nodes):
            anchor = linear @ nodes[int(node_choice * len(nodes))] + shift
            low = np.maximum(low, anchor - (1 - ANCHOR_MARGIN) * frame)
            high = np.maximum(low, np.minimum(high, anchor - ANCHOR_MARGIN * frame))
            corner = np.minimum(low + position * (high - low), anchor - ANCHOR_MARGIN * frame)
        else:
            corner = low + position * (high - low)
        affine = np.column_stack([linear, shift - corner])
        return affine, (int(frame[0]), int(frame[1]))

    def move_skeleton(self, skeleton: Skeleton, affine: ArrayLike, size: tuple[int, int]) -> Skeleton:
        """Transform a skeleton by a map from `draw_affine`, and cut it at the frame.

        Args:
            skeleton: the skeleton, in px.
            affine: (2,3) map from the image to the result.
            size: (width, height) of the result, px.

        Returns:
            The transformed skeleton, resampled if `spacing_px` is set.
        """
        moved = move(skeleton, affine, size, keep=self.keep)
        return moved if self.spacing_px is None else moved.resample(self.spacing_px)

    def relight(self, image: ImageArray, rng: np.random.Generator) -> ImageArray:
        """Change brightness, contrast and color, and add noise.

        Args:
            image: (H,W,3) uint8 RGB.
            rng: the random generator.

        Returns:
            (H,W,3) uint8 RGB.
        """
        brightness = rng.uniform(-self.brightness, self.brightness)
        contrast = rng.uniform(*self.contrast)
        cast = rng.uniform(1 - self.color_cast, 1 + self.color_cast, size=(3, 1))
        deviation = rng.uniform(*self.noise)
        planes = image.transpose(2, 0, 1)
        if self.brightness or self.color_cast or self.contrast != (1.0, 1.0):
            gray = np.arange(256) / 255
            curve = ((gray * cast - 0.5) * contrast + 0.5 + brightness) * 255  # (3,256), one curve per channel
            tables = np.clip(np.rint(curve), 0, 255).astype(np.uint8)
            planes = np.stack([_look_up(plane, table) for plane, table in zip(planes, tables, strict=True)])
        if deviation > 0:
            # One random byte per value selects one of 256 quantiles. Drawing normal numbers takes three times as long.
            quantile = np.clip(np.rint(deviation * _NORMAL_QUANTILES), -MAX_NOISE, MAX_NOISE).astype(np.int8)
            random_bytes = np.frombuffer(rng.bytes(image.size), dtype=np.uint8).reshape(image.shape)
            noise = _look_up(random_bytes, quantile.view(np.uint8))
            noise_planes = np.ascontiguousarray(noise.transpose(2, 0, 1)).view(np.int8)
            planes = np.stack([_add_noise(plane, noise) for plane, noise in zip(planes, noise_planes, strict=True)])
        return planes.transpose(1, 2, 0)


def _look_up(values: NDArray[np.uint8], table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return table[values] in half of NumPy's time; values of any shape, table (256,)."""
    gray = Image.fromarray(values.reshape(len(values), -1))
    return np.asarray(gray.point(table.tolist())).reshape(values.shape)


def _add_noise(plane: NDArray[np.uint8], noise: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Return plane + noise, clipped to the range of gray levels."""
    level = noise.astype(np.int16)
    level += plane
    return np.clip(level, 0, 255, out=level).astype(np.uint8)


# Rotations are those of the paper, which does not state the other ranges.
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
# For models that must generalize to other cameras, lighting, scales and backgrounds.
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
    """Transform a skeleton by an affine map and cut it at a frame. Explicit axes are replaced by inferred ones.

    Of a plant that the frame cuts into components, all of them are kept, or the longest.
    """
    width, height = size
    cut = skeleton.with_inferred_axes.transform(affine, image_size=size).crop(0, 0, width, height, keep=keep)
    return _drop_short_components(cut) if keep == "forest" else cut


def _drop_short_components(skeleton: Skeleton) -> Skeleton:
    """Drop the components shorter than `MIN_COMPONENT_PX`."""
    kept = (component_lengths(skeleton) >= MIN_COMPONENT_PX)[skeleton.component]
    return skeleton if kept.all() else subgraph(skeleton, kept)


def warp(image: ImageArray, affine: ArrayLike, size: tuple[int, int]) -> ImageArray:
    """Transform an image by an affine map.

    The center of the top left pixel is (0.5, 0.5). Pixels outside the image get the mean color of its border. The image
    is sampled bilinearly. Before a strong reduction it is smoothed, because thin roots would break up otherwise.
    """
    source, back = prepare_sampling(image, affine, size)
    return np.array(  # a copy, because Pillow's own memory is read-only
        Image.fromarray(source).transform(
            size,
            Image.Transform.AFFINE,
            back.ravel().tolist(),
            Image.Resampling.BILINEAR,
            fillcolor=border_color(image),
        )
    )


def prepare_sampling(image: ImageArray, affine: ArrayLike, size: tuple[int, int]) -> tuple[ImageArray, FloatArray]:
    """Return the image to sample from, or a reduced part of it, and the map from the result to it."""
    matrix = np.vstack([np.asarray(affine, dtype=np.float64), [0, 0, 1]])
    back = np.linalg.inv(matrix)
    shrink = math.sqrt(abs(np.linalg.det(back)))  # image pixels per output pixel, along each side
    if shrink > SHRINK_WITHOUT_ALIASING:
        reduced, to_reduced = _reduce(Image.fromarray(image), back, size, shrink)
        image, back = np.asarray(reduced), to_reduced @ back
    return image, back[:2]


def border_color(image: ImageArray) -> tuple[int, int, int]:
    """Return the mean color of the border pixels of an image, as (red, green, blue)."""
    border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    red, green, blue = np.rint(border.mean(axis=0)).astype(int).tolist()
    return red, green, blue


def _reduce(
    image: Image.Image, back: FloatArray, size: tuple[int, int], shrink: float
) -> tuple[Image.Image, FloatArray]:
    """Return the visible part of the image, reduced, and the (3,3) map from the image to it."""
    corners = back[:2] @ np.array([[0, size[0], 0, size[0]], [0, 0, size[1], size[1]], [1, 1, 1, 1]])
    margin = 2 * shrink
    limit = np.asarray(image.size)
    low = np.clip(np.floor(corners.min(axis=1) - margin), 0, limit - 1)
    high = np.clip(np.ceil(corners.max(axis=1) + margin), low + 1, limit)
    reduced_size = np.maximum(1, np.rint((high - low) / shrink))
    ratio = reduced_size / (high - low)
    box = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
    reduced = image.resize((int(reduced_size[0]), int(reduced_size[1])), Image.Resampling.HAMMING, box=box)
    to_reduced = np.array([[ratio[0], 0, -ratio[0] * low[0]], [0, ratio[1], -ratio[1] * low[1]], [0, 0, 1]])
    return reduced, to_reduced
