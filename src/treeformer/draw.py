"""Draw skeletons over images, as in the paper, and compare two skeletons in one image."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer._util.images import MAX_PIXELS, ImageSource, open_lazy
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.skeleton.clipping import clip, inside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Color = tuple[int, int, int]
FloatImage = NDArray[np.float32]  # (H,W,3), 0 to 255
Mask = NDArray[np.float32]  # (H,W), 0 to 1

EDGE: Color = (255, 0, 0)
LOW_CONFIDENCE_EDGE: Color = (230, 159, 0)  # the orange of the Okabe-Ito palette; dashes distinguish it as well
NODE: Color = (255, 255, 0)
KEYPOINT: Color = (0, 255, 255)
ROOT: Color = (255, 0, 255)

# Comparison: color of the prediction, of the ground truth, and of pixels where they agree.
EDGE_COLORS: tuple[Color, Color, Color] = ((255, 0, 0), (0, 0, 255), (140, 0, 140))
NODE_COLORS: tuple[Color, Color, Color] = ((0, 255, 255), (255, 255, 0), (0, 220, 0))
BAND_OPACITY = 0.35
EDGE_OPACITY = 0.7
NODE_OPACITY = 0.85

# For smooth edges, masks are drawn this many times larger and then reduced, unless the image has too many pixels.
OVERSAMPLING = 3
# Length of a dash with its gap, in line widths, and the share of the dash in it.
DASH_PERIOD = 5.0
DASH_SHARE = 0.6
# Edges with a lower score are drawn dashed if the skeleton's metadata give no `low_confidence_threshold`.
LOW_CONFIDENCE_THRESHOLD = 0.15
# Corners of an edge drawn with its width: the end of the edge, and the side.
CORNERS = ((0, 1), (0, -1), (1, -1), (1, 1))
# Nodes and edges are drawn up to this far outside the image, in line widths; more than the radius of a ring.
MARGIN = 4.0
MAX_OVERSAMPLED_PIXELS = 8_000_000


def line_width_px(size: tuple[int, int]) -> float:
    """Return a line width that suits an image of this (width, height): 2 px on 512 px, 7 px on 2,500 px."""
    return 0.7 + 0.0025 * max(size)


def draw(image: Image.Image | None, skeleton: Skeleton) -> Image.Image:
    """Draw a skeleton over its image or a thumbnail of it, drawn upright; None is a white background.

    Edges are red, nodes yellow, keypoints (degree ≠ 2) cyan; a magenta ring marks each root. If the skeleton has radii,
    a translucent band shows the width of each edge. If it has edge scores, edges with a score below
    `skeleton.metadata["low_confidence_threshold"]` (0.15 if it is missing) are orange and dashed. Edges that leave the
    image are clipped. An image of another aspect ratio than the skeleton's `image_size` is an error.

    Example:
        >>> draw(None, Skeleton([(2, 2), (7, 6)], [(0, 1)], image_size=(9, 8))).size
        (9, 8)
    """
    canvas = _canvas(image, skeleton)
    nodes = _fitted_nodes(skeleton, canvas.size)
    width = line_width_px(canvas.size)
    pen = _Pen(canvas.size, MARGIN * width)
    is_low, is_keypoint = low_confidence_edges(skeleton), skeleton.degree != 2
    pixels = np.asarray(canvas, dtype=np.float32)
    if skeleton.radius is not None:
        radius = skeleton.radius * (max(canvas.size) / max(skeleton.image_size or canvas.size))
        pixels = _paint(pixels, BAND_OPACITY * pen.bands(nodes, skeleton.edges, radius), EDGE)
    pixels = _paint(pixels, pen.lines(nodes, skeleton.edges[~is_low], width), EDGE)
    if is_low.any():
        pixels = _paint(pixels, pen.dashed_lines(nodes, skeleton.edges[is_low], width), LOW_CONFIDENCE_EDGE)
    pixels = _paint(pixels, pen.dots(nodes[~is_keypoint], 0.9 * width), NODE)
    pixels = _paint(pixels, pen.dots(nodes[is_keypoint], 1.3 * width), KEYPOINT)
    pixels = _paint(pixels, pen.rings(nodes[skeleton.roots], 2.6 * width, width), ROOT)
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def low_confidence_edges(skeleton: Skeleton) -> BoolArray:
    """Return which edges are drawn dashed, (E,): those with a low score; all False without scores."""
    if skeleton.edge_score is None:
        return np.zeros(len(skeleton.edges), dtype=bool)
    threshold = skeleton.metadata.get("low_confidence_threshold")
    is_low: BoolArray = skeleton.edge_score < (
        threshold if isinstance(threshold, int | float) else LOW_CONFIDENCE_THRESHOLD
    )
    return is_low


def draw_comparison(image: Image.Image | None, prediction: Skeleton, ground_truth: Skeleton) -> Image.Image:
    """Draw two skeletons, translucent, over their image; see `draw`.

    Edges are red (prediction) and blue (ground truth), purple where they agree. Nodes are cyan (prediction) and yellow
    (ground truth), green where they agree.
    """
    canvas = _canvas(image, ground_truth if ground_truth.image_size or not prediction.image_size else prediction)
    width = 1.3 * line_width_px(canvas.size)
    pen = _Pen(canvas.size, MARGIN * width)
    pixels = np.asarray(canvas, dtype=np.float32)
    pair = [(_fitted_nodes(skeleton, canvas.size), skeleton.edges) for skeleton in (prediction, ground_truth)]
    lines = [pen.lines(nodes, edges, width) for nodes, edges in pair]
    pixels = _paint_pair(pixels, lines[0], lines[1], EDGE_COLORS, EDGE_OPACITY)
    dots = [pen.dots(nodes, width) for nodes, _ in pair]
    pixels = _paint_pair(pixels, dots[0], dots[1], NODE_COLORS, NODE_OPACITY)
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def plot(skeleton: Skeleton, image: ImageSource | None = None, ax: Axes | None = None) -> Axes:
    """Plot a skeleton with Matplotlib, in the colors of `draw`, in pixels of its image.

    Args:
        skeleton: the skeleton.
        image: the image or a thumbnail of it, as a path, a Pillow image or an array; None for no image.
        ax: the axes to plot into; None for a new figure.

    Returns:
        The Matplotlib axes.

    Raises:
        TreeformerError: if Matplotlib is not installed, or the image is invalid or has another aspect ratio.

    Example:
        >>> ax = plot(Skeleton([(2, 2), (7, 6)], [(0, 1)], root=0))  # doctest: +SKIP
    """
    try:
        from matplotlib.collections import LineCollection
    except ModuleNotFoundError:
        raise TreeformerError("plotting needs Matplotlib: pip install matplotlib") from None
    pixels = None if image is None else open_lazy(image).whole()
    if pixels is not None:
        _check_aspect_ratio(skeleton, pixels.size)
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]
    size = skeleton.image_size or (None if pixels is None else pixels.size)
    if pixels is not None and size is not None:
        ax.imshow(pixels, extent=(0, size[0], size[1], 0))
    is_low, is_keypoint = low_confidence_edges(skeleton), skeleton.degree != 2
    segments = skeleton.nodes[skeleton.edges]
    for which, color, style in ((~is_low, EDGE, "solid"), (is_low, LOW_CONFIDENCE_EDGE, "dashed")):
        lines = LineCollection(list(segments[which]), colors=[_unit(color)], linewidths=1.5, linestyles=style)
        ax.add_collection(lines)
    for which, color, area in ((~is_keypoint, NODE, 6), (is_keypoint, KEYPOINT, 14)):
        x, y = skeleton.nodes[which].T
        ax.scatter(x, y, s=area, color=[_unit(color)], linewidths=0, zorder=3)
    x, y = skeleton.nodes[skeleton.roots].T
    ax.scatter(x, y, s=60, facecolors="none", edgecolors=[_unit(ROOT)], linewidths=1.5, zorder=4)
    if size is not None:
        ax.set_xlim(0, size[0])
        ax.set_ylim(size[1], 0)
    elif not ax.yaxis_inverted():
        ax.invert_yaxis()
    ax.set_aspect("equal")
    return ax


def _unit(color: Color) -> tuple[float, float, float]:
    """Return a color with components from 0 to 1."""
    return color[0] / 255, color[1] / 255, color[2] / 255


def _canvas(image: Image.Image | None, skeleton: Skeleton) -> Image.Image:
    if isinstance(image, Image.Image):
        return open_lazy(image).whole()  # as `predict` sees it: upright, and with 16 bits in the range of 8
    if image is not None:
        raise TreeformerError(f"the image to draw on must be a Pillow image, not {type(image).__name__}")
    if skeleton.image_size is not None:
        width, height = skeleton.image_size
    elif len(skeleton):
        width, height = (max(1, math.ceil(1.05 * side)) for side in skeleton.nodes.max(axis=0).tolist())
    else:
        raise TreeformerError("an empty skeleton without an image size cannot be drawn")
    if width * height > MAX_PIXELS:
        limit = f"{MAX_PIXELS // 10**6} million pixels"
        raise TreeformerError(f"a drawing of {width}×{height} pixels has more than {limit}: give a thumbnail")
    return Image.new("RGB", (width, height), "white")


def _fitted_nodes(skeleton: Skeleton, size: tuple[int, int]) -> FloatArray:
    """Return the nodes, (N,2) px, scaled to an image of another size and the same aspect ratio, such as a thumbnail."""
    if skeleton.image_size is None or skeleton.image_size == size:
        return skeleton.nodes
    _check_aspect_ratio(skeleton, size)
    return skeleton.nodes * (np.asarray(size) / skeleton.image_size)


def _check_aspect_ratio(skeleton: Skeleton, size: tuple[int, int]) -> None:
    if skeleton.image_size is None:
        return
    (width, height), (to_width, to_height) = skeleton.image_size, size
    scale_x, scale_y = to_width / width, to_height / height
    # The sides of a thumbnail are rounded to whole pixels, so the two scales may differ by up to one pixel.
    if abs(scale_x * height - to_height) > 1.5 and abs(scale_y * width - to_width) > 1.5:
        raise TreeformerError(
            f"the skeleton belongs to an image of {width}×{height} pixels, this one has {to_width}×{to_height}"
        )


class _Pen:
    """Draw masks with smooth edges, (H,W) for an image of `size` (width, height) px; see `MARGIN` for `margin` px."""

    def __init__(self, size: tuple[int, int], margin: float) -> None:
        self.size = size
        self.scale = OVERSAMPLING if size[0] * size[1] <= MAX_OVERSAMPLED_PIXELS else 1
        self.frame = (-margin, -margin, size[0] + margin, size[1] + margin)

    def lines(self, nodes: FloatArray, edges: IntArray, width: float) -> Mask:
        mask, pen = self._begin()
        self._strokes(pen, self._visible(nodes, edges), width)
        self._discs(pen, nodes, width / 2, 255)  # round joints
        return self._end(mask)

    def bands(self, nodes: FloatArray, edges: IntArray, radius: FloatArray) -> Mask:
        """Draw edges as wide as their two radii (N,) px say; edges with an unknown radius are left out."""
        mask, pen = self._begin()
        known = edges[np.isfinite(radius[edges]).all(axis=1)]
        along = nodes[known[:, 1]] - nodes[known[:, 0]]
        length = np.hypot(along[:, 0], along[:, 1])
        across = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.where(length > 0, length, 1.0)[:, None]
        corners = [nodes[known[:, end]] + sign * radius[known[:, end], None] * across for end, sign in CORNERS]
        limit = np.asarray(self.frame[2:]) * 4  # corners far outside would overflow Pillow's integers
        for corner in (np.clip(np.stack(corners, axis=1), -limit, limit) * self.scale - 0.5).tolist():
            pen.polygon([tuple(point) for point in corner], fill=255)
        for node in np.unique(known).tolist():
            self._discs(pen, nodes[[node]], min(float(radius[node]), float(limit.max())), 255)
        return self._end(mask)

    def dashed_lines(self, nodes: FloatArray, edges: IntArray, width: float) -> Mask:
        mask, pen = self._begin()
        self._strokes(pen, _dashes(self._visible(nodes, edges), DASH_PERIOD * width), width)
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

    def _visible(self, nodes: FloatArray, edges: IntArray) -> FloatArray:
        """Return the parts of edges inside the frame, as segments (S,2,2) px."""
        clipped = clip(nodes, edges, *self.frame)
        begin, end, t = nodes[clipped.i], nodes[clipped.j], clipped.t[:, None]
        return np.where(t == 0, begin, begin + t * (end - begin))[clipped.edges]

    def _strokes(self, pen: ImageDraw.ImageDraw, segments: FloatArray, width: float) -> None:
        thickness = max(1, round(width * self.scale))
        # Pillow's integer coordinates are pixel centers, which are at x + 0.5 here.
        for segment in (segments.reshape(-1, 4) * self.scale - 0.5).tolist():
            pen.line(segment, fill=255, width=thickness)

    def _discs(self, pen: ImageDraw.ImageDraw, centers: FloatArray, radius: float, value: int) -> None:
        reach = radius * self.scale
        visible = centers[inside(centers, *self.frame)]
        for x, y in (visible * self.scale - 0.5).tolist():
            pen.ellipse([x - reach, y - reach, x + reach, y + reach], fill=value)


def _dashes(segments: FloatArray, period: float) -> FloatArray:
    """Cut segments, (S,2,2) px, into dashes, (D,2,2) px, so that each segment begins and ends with half a gap."""
    begin, step = segments[:, 0], segments[:, 1] - segments[:, 0]
    count = np.maximum(1, np.rint(np.hypot(step[:, 0], step[:, 1]) / period)).astype(np.intp)
    owner = np.repeat(np.arange(len(segments)), count)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    ends = [(rank + 0.5 + side * DASH_SHARE / 2) / count[owner] for side in (-1, 1)]
    return np.stack([begin[owner] + t[:, None] * step[owner] for t in ends], axis=1)


def _paint(pixels: FloatImage, mask: Mask, color: Color) -> FloatImage:
    painted, touched = pixels.copy(), mask > 0  # lines and nodes cover a small part of an image
    alpha = mask[touched][:, None]
    painted[touched] = pixels[touched] * (1 - alpha) + alpha * np.asarray(color, dtype=np.float32)
    return painted


def _paint_pair(
    pixels: FloatImage, first: Mask, second: Mask, colors: tuple[Color, Color, Color], opacity: float
) -> FloatImage:
    painted, touched = pixels.copy(), (first > 0) | (second > 0)
    first, second = first[touched], second[touched]
    only_first, only_second, both = first * (1 - second), second * (1 - first), first * second
    covered = only_first + only_second + both
    mixed: FloatImage = pixels[touched] * (1 - (opacity * covered)[:, None])
    for share, color in zip((only_first, only_second, both), colors, strict=True):
        mixed = mixed + (opacity * share)[:, None] * np.asarray(color, dtype=np.float32)
    painted[touched] = mixed
    return painted
