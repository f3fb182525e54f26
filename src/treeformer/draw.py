"""Images of skeletons: overlays as in the paper, and two skeletons compared."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton

Color = tuple[int, int, int]
FloatImage = NDArray[np.float32]  # (H,W,3), 0 to 255
Mask = NDArray[np.float32]  # (H,W), 0 to 1

EDGE: Color = (255, 0, 0)
NODE: Color = (255, 255, 0)
KEY_POINT: Color = (0, 255, 255)
ROOT: Color = (255, 0, 255)

# Comparison: the prediction's color, the ground truth's, and where they agree.
EDGE_COLORS: tuple[Color, Color, Color] = ((255, 0, 0), (0, 0, 255), (140, 0, 140))
NODE_COLORS: tuple[Color, Color, Color] = ((0, 255, 255), (255, 255, 0), (0, 220, 0))
EDGE_OPACITY = 0.7
NODE_OPACITY = 0.85

# Masks are drawn this many times larger and reduced, for smooth edges; huge images do without.
OVERSAMPLING = 3
OVERSAMPLED_PIXELS = 8_000_000


def line_width_px(size: tuple[int, int]) -> float:
    """A width that reads well on an image of this size: 2 px on 512 px, 7 px on 2,500 px."""
    return 0.7 + 0.0025 * max(size)


def draw(image: Image.Image | None, skeleton: Skeleton) -> Image.Image:
    """The skeleton over its image, over white where `image` is None.

    Edges are red, nodes yellow, keypoints (degree ≠ 2) cyan; a magenta ring marks each root.
    """
    canvas = _canvas(image, skeleton)
    skeleton = _fitted(skeleton, canvas.size)
    width = line_width_px(canvas.size)
    pen = _Pen(canvas.size)
    is_keypoint = skeleton.degree != 2
    pixels = np.asarray(canvas, dtype=np.float32)
    pixels = _paint(pixels, pen.lines(skeleton, width), EDGE)
    pixels = _paint(pixels, pen.dots(skeleton.nodes[~is_keypoint], 0.9 * width), NODE)
    pixels = _paint(pixels, pen.dots(skeleton.nodes[is_keypoint], 1.3 * width), KEY_POINT)
    pixels = _paint(pixels, pen.rings(skeleton.nodes[skeleton.roots], 2.6 * width, width), ROOT)
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def draw_comparison(image: Image.Image | None, prediction: Skeleton, ground_truth: Skeleton) -> Image.Image:
    """Both skeletons, translucent, over their image, over white where `image` is None.

    Edges are red (prediction) and blue (ground truth), purple where they agree; nodes cyan and yellow, green where they agree.
    """
    canvas = _canvas(image, ground_truth if ground_truth.image_size or not prediction.image_size else prediction)
    prediction, ground_truth = _fitted(prediction, canvas.size), _fitted(ground_truth, canvas.size)
    width = 1.3 * line_width_px(canvas.size)
    pen = _Pen(canvas.size)
    pixels = np.asarray(canvas, dtype=np.float32)
    pixels = _paint_pair(
        pixels, pen.lines(prediction, width), pen.lines(ground_truth, width), EDGE_COLORS, EDGE_OPACITY
    )
    dots = [pen.dots(skeleton.nodes, width) for skeleton in (prediction, ground_truth)]
    pixels = _paint_pair(pixels, dots[0], dots[1], NODE_COLORS, NODE_OPACITY)
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def _canvas(image: Image.Image | None, skeleton: Skeleton) -> Image.Image:
    if image is not None:
        return image.convert("RGB")
    if skeleton.image_size is not None:
        return Image.new("RGB", skeleton.image_size, "white")
    if len(skeleton) == 0:
        raise TreeformerError("an empty skeleton without an image size gives no image")
    right, bottom = skeleton.nodes.max(axis=0)
    return Image.new("RGB", (max(1, math.ceil(right * 1.05)), max(1, math.ceil(bottom * 1.05))), "white")


def _fitted(skeleton: Skeleton, size: tuple[int, int]) -> Skeleton:
    """The skeleton on an image of another size but the same shape, as a thumbnail is."""
    if skeleton.image_size is None or skeleton.image_size == size:
        return skeleton
    (width, height), (to_width, to_height) = skeleton.image_size, size
    across, down = to_width / width, to_height / height
    # A thumbnail's sides are rounded to whole pixels, so the two ratios differ by up to a pixel's worth.
    if abs(across * height - to_height) > 1.5 and abs(down * width - to_width) > 1.5:
        raise TreeformerError(
            f"the skeleton belongs to an image of {width}×{height} pixels, this one has {to_width}×{to_height}"
        )
    return skeleton.transform([[across, 0, 0], [0, down, 0]], image_size=size)


class _Pen:
    """Draws masks with smooth edges."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self.scale = OVERSAMPLING if size[0] * size[1] <= OVERSAMPLED_PIXELS else 1

    def lines(self, skeleton: Skeleton, width: float) -> Mask:
        mask, pen = self._begin()
        self._strokes(pen, skeleton.nodes, skeleton.edges, width)
        return self._end(mask)

    def dots(self, centers: FloatArray, radius: float) -> Mask:
        mask, pen = self._begin()
        self._discs(pen, centers, radius, 255)
        return self._end(mask)

    def rings(self, centers: FloatArray, radius: float, width: float) -> Mask:
        mask, pen = self._begin()
        self._discs(pen, centers, radius, 255)
        self._discs(pen, centers, radius - width, 0)
        return self._end(mask)

    def _begin(self) -> tuple[Image.Image, ImageDraw.ImageDraw]:
        mask = Image.new("L", (self.size[0] * self.scale, self.size[1] * self.scale))
        return mask, ImageDraw.Draw(mask)

    def _end(self, mask: Image.Image) -> Mask:
        reduced = mask.reduce(self.scale) if self.scale > 1 else mask
        return np.asarray(reduced, dtype=np.float32) / 255.0

    def _strokes(self, pen: ImageDraw.ImageDraw, nodes: FloatArray, edges: IntArray, width: float) -> None:
        # Pillow's pixel (x, y) covers x to x + 1 of ours, and its coordinates name pixel centers.
        points = (nodes * self.scale - 0.5).tolist()
        thickness = max(1, round(width * self.scale))
        for u, v in edges.tolist():
            pen.line([*points[u], *points[v]], fill=255, width=thickness)
        self._discs(pen, nodes, width / 2, 255)  # round joints

    def _discs(self, pen: ImageDraw.ImageDraw, centers: FloatArray, radius: float, value: int) -> None:
        reach = radius * self.scale
        for x, y in (centers * self.scale - 0.5).tolist():
            pen.ellipse([x - reach, y - reach, x + reach, y + reach], fill=value)


def _paint(pixels: FloatImage, mask: Mask, color: Color) -> FloatImage:
    alpha = mask[..., None]
    return pixels * (1 - alpha) + alpha * np.asarray(color, dtype=np.float32)


def _paint_pair(
    pixels: FloatImage, first: Mask, second: Mask, colors: tuple[Color, Color, Color], opacity: float
) -> FloatImage:
    only_first, only_second, both = first * (1 - second), second * (1 - first), first * second
    covered = only_first + only_second + both
    alpha = (opacity * covered)[..., None]
    mixed: FloatImage = pixels * (1 - alpha)
    shares = zip((only_first, only_second, both), colors, strict=True)
    for share, color in shares:
        mixed = mixed + (opacity * share)[..., None] * np.asarray(color, dtype=np.float32)
    return mixed
