"""Figures of a series, drawn with Pillow: length curves, kymographs, an animation.

`images` has one image or path per date, in the order of time; without them, backgrounds are white. Lengths are in px
without `px_per_mm`.
"""

from __future__ import annotations

import colorsys
import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from treeformer._util.arrays import FloatArray
from treeformer._util.images import open_lazy
from treeformer.timeseries.paths import arc_length, at_positions

if TYPE_CHECKING:
    from treeformer.timeseries.series import AxisTrack, Series

Color = tuple[int, int, int]
INK, GRID, PAPER = (40, 40, 40), (222, 222, 222), (255, 255, 255)
# Longer side of the frames of an animation, px, and time per frame.
ANIMATION_PX, FRAME_MS = 720, 600
# Half of the width over which a kymograph averages, px of the image.
KYMOGRAPH_REACH_PX = 2


def color_of(number: int) -> Color:
    """Return a color for the plant or axis of a number; neighboring numbers differ clearly."""
    hue = (number * 0.618034) % 1.0
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.85, 0.62 + 0.3 * ((number // 3) % 2))
    return int(255 * red), int(255 * green), int(255 * blue)


def plant_colors(series: Series) -> dict[str, Color]:
    """Return the color of each plant."""
    plants = sorted({track.plant for track in series.tracks}, key=int)
    return {plant: color_of(number) for number, plant in enumerate(plants)}


def axis_colors(series: Series) -> dict[str, Color]:
    """Return the color of each axis: that of its plant, or one of its own if there is a single plant."""
    colors = plant_colors(series)
    if len(colors) > 1:
        return {track.id: colors[track.plant] for track in series.tracks}
    return {track.id: color_of(number) for number, track in enumerate(series.tracks)}


def longest_axes(series: Series) -> list[AxisTrack]:
    """Return the longest axis of each plant, in the order of plants."""
    best: dict[str, AxisTrack] = {}
    for track in series.tracks:
        if track.plant not in best or track.monotone_length[-1] > best[track.plant].monotone_length[-1]:
            best[track.plant] = track
    return [best[plant] for plant in sorted(best, key=int)]


def length_curves(series: Series, px_per_mm: float | None = None) -> Image.Image:
    """Draw the length of each axis over time in the color of its plant; main axes with thick lines.

    Dots are the measured lengths, lines the monotone ones.
    """
    factor = 1.0 if px_per_mm is None else 1 / px_per_mm
    longest = max((float(track.length.max()) for track in series.tracks), default=1.0) * factor
    chart = _Chart((900, 560), series.times, longest, "time", f"length ({'px' if px_per_mm is None else 'mm'})")
    colors = axis_colors(series)
    for track in sorted(series.tracks, key=lambda one: -one.order):
        times = series.times[track.dates]
        points = chart.places(times, factor * track.monotone_length)
        width = 3 if track.order == 0 else 1
        if len(points) > 1:
            chart.pen.line([tuple(point) for point in points.tolist()], fill=colors[track.id], width=width)
        for x, y in chart.places(times, factor * track.length).tolist():
            radius = 2.5 if track.order == 0 else 1.5
            chart.pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colors[track.id])
    for number, (plant, color) in enumerate(_legend(series)):
        x, y = 70 + 68 * (number % 12), 8 + 13 * (number // 12)
        chart.pen.rectangle((x, y + 3, x + 8, y + 9), fill=color)
        chart.pen.text((x + 12, y), f"plant {plant}", fill=INK, font=chart.font)
    return chart.image


def _legend(series: Series) -> list[tuple[str, Color]]:
    colors = plant_colors(series)
    return list(colors.items())[:24] if len(colors) > 1 else []


class _Chart:
    """A figure with two axes, ticks and a grid."""

    def __init__(self, size: tuple[int, int], times: FloatArray, top: float, x_label: str, y_label: str) -> None:
        self.image = Image.new("RGB", size, PAPER)
        self.pen = ImageDraw.Draw(self.image)
        self.font = ImageFont.load_default(11)
        self.left, self.right, self.upper, self.lower = 64, size[0] - 18, 42, size[1] - 46
        begin, end = float(times[0]), float(times[-1])
        pad = 0.02 * (end - begin) or 0.5
        self.x_range, self.y_range = (begin - pad, end + pad), (0.0, max(top, 1e-9) * 1.05)
        for value in ticks(begin, end):
            x = self.places(np.asarray([value]), np.asarray([0.0]))[0, 0]
            self.pen.line((x, self.upper, x, self.lower), fill=GRID)
            self.pen.text((x, self.lower + 6), f"{value:g}", fill=INK, font=self.font, anchor="ma")
        for value in ticks(*self.y_range):
            y = self.places(np.asarray([begin]), np.asarray([value]))[0, 1]
            self.pen.line((self.left, y, self.right, y), fill=GRID)
            self.pen.text((self.left - 6, y), f"{value:g}", fill=INK, font=self.font, anchor="rm")
        self.pen.rectangle((self.left, self.upper, self.right, self.lower), outline=INK)
        self.pen.text(((self.left + self.right) / 2, size[1] - 14), x_label, fill=INK, font=self.font, anchor="mm")
        self.pen.text((6, self.upper - 8), y_label, fill=INK, font=self.font, anchor="lm")

    def places(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the place of values in the figure, (K,2) px."""
        across = (x - self.x_range[0]) / (self.x_range[1] - self.x_range[0])
        up = (y - self.y_range[0]) / (self.y_range[1] - self.y_range[0])
        return np.stack(
            [self.left + across * (self.right - self.left), self.lower - up * (self.lower - self.upper)], axis=1
        )


def ticks(begin: float, end: float, count: int = 8) -> list[float]:
    """Return about `count` round numbers in an interval: multiples of 1, 2 or 5 times a power of ten.

    Example:
        >>> ticks(0, 43)
        [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    if not end > begin:
        return [begin]
    raw = (end - begin) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(begin / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(end / step + 1e-9) + 1)]


def kymograph(
    series: Series, track: AxisTrack, images: Sequence[Any] | None = None, px_per_mm: float | None = None
) -> Image.Image:
    """Draw what is seen along one axis over time.

    Each column is one date: the brightness of its image along the axis's final path, from the base (top) to the tip.
    Without images, the part that had grown is dark. The line is the tip.
    """
    position = arc_length(track.template)
    length = max(float(position[-1]), 1.0)
    rows = int(min(max(length, 40), 600))
    places = np.linspace(0.0, length, rows)
    line = at_positions(track.template, position, places)
    step = max(4, min(40, 700 // len(series)))
    columns = np.full((rows, len(series)), 255.0)
    lengths = np.interp(series.times, series.times[track.dates], track.monotone_length, left=0.0)
    for date in range(len(series)):
        if images is None or images[date] is None:
            columns[places <= lengths[date], date] = 90.0
        else:
            back = series.transform_of(date, track.plant).inverse()
            columns[:, date] = _brightness(images[date], back.apply(line))
    if images is not None and any(image is not None for image in images):
        low, high = np.percentile(columns, (1, 99))
        columns = np.clip((columns - low) / max(high - low, 1.0) * 255, 0, 255)
    strip = np.repeat(columns.astype(np.uint8), step, axis=1)
    left, top = 60, 34
    image = Image.new("RGB", (left + strip.shape[1] + 16, top + rows + 34), PAPER)
    image.paste(Image.fromarray(strip).convert("RGB"), (left, top))
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(11)
    tips = [(left + (date + 0.5) * step, top + lengths[date] / length * (rows - 1)) for date in range(len(series))]
    if len(tips) > 1:
        pen.line(tips, fill=(220, 40, 40), width=2)
    for x, y in tips:
        pen.ellipse((x - 2, y - 2, x + 2, y + 2), fill=(220, 40, 40))
    factor, unit = (1.0, "px") if px_per_mm is None else (1 / px_per_mm, "mm")
    for value in ticks(0.0, factor * length, max(rows // 60, 2)):
        y = top + value / (factor * length) * (rows - 1)
        pen.text((left - 6, y), f"{value:g}", fill=INK, font=font, anchor="rm")
    every = max(1, math.ceil(34 / step))
    for date in range(0, len(series), every):
        pen.text((left + (date + 0.5) * step, top + rows + 4), f"{series.times[date]:g}", INK, font, anchor="ma")
    pen.text((6, 14), f"axis {track.id}: {unit} from its base, over time", fill=INK, font=font, anchor="lm")
    return image


def _brightness(source: Any, line: FloatArray) -> FloatArray:
    """Return the mean brightness of an image at points (K,2) px and beside them, across the line; 255 outside."""
    gray = np.asarray(open_lazy(source).whole().convert("L"), dtype=np.float64)
    height, width = gray.shape
    along = np.gradient(line, axis=0) if len(line) > 1 else np.asarray([(0.0, 1.0)])
    norm = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1) / norm[:, None]
    total = np.zeros(len(line))
    offsets = range(-KYMOGRAPH_REACH_PX, KYMOGRAPH_REACH_PX + 1)
    for offset in offsets:
        column, row = np.floor(line + offset * across).astype(np.intp).T
        inside = (column >= 0) & (row >= 0) & (column < width) & (row < height)
        total += np.where(inside, gray[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)], 255.0)
    return total / len(offsets)


def animation(series: Series, images: Sequence[Any] | None = None) -> bytes:
    """Return an animated WebP of all dates, registered, with the axes in colors that stay the same."""
    buffer = io.BytesIO()
    frames = _Frames(lambda date: frame(series, date, None if images is None else images[date]), len(series))
    frames.save(buffer, format="WEBP", save_all=True, duration=FRAME_MS, loop=0, quality=80, method=2)
    return buffer.getvalue()


class _Frames(Image.Image):
    """An image of many frames, of which only the current one is in memory.

    Pillow keeps a list of all images that it is given to append, even if they come from a generator.
    """

    def __init__(self, draw: Callable[[int], Image.Image], count: int) -> None:
        super().__init__()
        first = draw(0)
        self.im, self._mode, self._size = first.im, first.mode, first.size
        self.n_frames = count
        self._draw, self._current = draw, 0

    def seek(self, frame: int) -> None:
        """Draw a frame, unless it is the current one."""
        if frame != self._current:
            self.im, self._current = self._draw(frame).im, frame

    def tell(self) -> int:
        """Return the number of the current frame."""
        return self._current


def frame(series: Series, date: int, source: Any = None) -> Image.Image:
    """Draw one date in the frame of the reference date, at most `ANIMATION_PX` wide and high."""
    reference = series.skeletons[series.reference]
    size = reference.image_size
    if size is None:
        corner = np.max([s.nodes.max(axis=0) for s in series.skeletons if len(s)] or [np.full(2, 64.0)], axis=0)
        size = (int(corner[0]) + 8, int(corner[1]) + 8)
    scale = min(1.0, ANIMATION_PX / max(size))
    shape = (max(int(size[0] * scale), 16), max(int(size[1] * scale), 16))
    canvas = Image.new("RGB", shape, PAPER)
    transform = series.registrations[date].transform
    if source is not None:
        opened = open_lazy(source, lambda full: min(1.0, 2 * ANIMATION_PX / max(full)))
        skeleton = series.skeletons[date]
        whole = opened.whole().convert("RGB")
        reduced = whole.width / (skeleton.image_size or opened.original_size)[0]
        inverse = transform.inverse().matrix
        inverse[:, :2] /= scale
        coefficients = tuple(float(value) for value in (reduced * inverse).ravel())
        canvas = whole.transform(
            shape, Image.Transform.AFFINE, coefficients, Image.Resampling.BILINEAR, fillcolor=(128, 128, 128)
        )
    pen = ImageDraw.Draw(canvas)
    colors = axis_colors(series)
    width = max(1, round(max(shape) / 360))
    for track in series.tracks:
        where = np.flatnonzero(track.dates == date)
        if len(where):
            skeleton = series.skeletons[date]
            line = skeleton.nodes[list(skeleton.axes[int(track.axes[where[0]])].nodes)]
            points = [tuple(point) for point in (scale * transform.apply(line)).tolist()]
            if len(points) > 1:
                pen.line(points, fill=colors[track.id], width=width, joint="curve")
            x, y = points[-1]
            pen.ellipse((x - width, y - width, x + width, y + width), fill=PAPER, outline=colors[track.id])
    font = ImageFont.load_default(14)
    pen.text((6, 4), f"t = {series.times[date]:g}", fill=INK, font=font, stroke_width=2, stroke_fill=PAPER)
    return canvas
