"""Simple outdoor backgrounds: sky, meadow and woods of an orchard; ground, rows and posts of a vineyard.

Each public function paints the background of one canvas before the plant is drawn. It returns the strokes that are
still to be drawn on it.

Distant objects are painted at a quarter of the size and enlarged, which blurs them and is sixteen times faster.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, lowest_px
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes import clutter
from treeformer.synthetic.scenes.outdoor import crown


def orchard(rng: Rng, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Paint sky above a line of trees and a meadow."""
    height = canvas.size[1]
    ground_y = lowest_px(bases, height * 0.8)
    horizon = int(min(max(ground_y - height * rng.uniform(0.01, 0.25), height * 0.15), height - 2))
    brightness = 0.25 if rng.chance(0.05) else 1.0  # occasionally a night
    haze = _sky(rng, canvas, horizon, brightness)
    ground_rows = slice(horizon, height)
    _ground(rng, canvas, ground_rows, _meadow_color(rng, brightness), brightness)
    for _ in range(rng.weighted(((0, 0.12), (1, 0.5), (2, 0.38)))):
        _woods(rng, canvas, horizon, brightness, haze)
    if rng.chance(0.6):
        _tree_shade(rng, canvas, ground_rows, bases)
    if rng.chance(0.2):
        clutter.posts(rng, canvas, rng.whole(1, 2))
    return Sketch()


def field(rng: Rng, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Paint a vineyard: rows of vines behind each other, posts, earth and grass."""
    height = canvas.size[1]
    ground_y = lowest_px(bases, height * 0.85)
    horizon = int(min(max(ground_y - height * rng.uniform(0.05, 0.45), 2), height - 2))
    haze: Color = (170, 175, 175)
    if rng.chance(0.6):
        haze = _sky(rng, canvas, horizon, 1.0)
    else:  # a slope hides the sky
        color = _earth_color(rng) if rng.chance(0.5) else _meadow_color(rng, 1.0)
        _ground(rng, canvas, slice(0, horizon), color, 1.0)
    if rng.chance(0.5):
        _woods(rng, canvas, horizon, 1.0, haze)
    ground_rows = slice(horizon, height)
    _ground(rng, canvas, ground_rows, _meadow_color(rng, 1.0) if rng.chance(0.5) else _earth_color(rng), 1.0)
    for _ in range(rng.whole(0, 2)):
        _far_row(rng, canvas, rng.uniform(horizon * 0.9, height * 0.85), haze)
    if rng.chance(0.4):
        clutter.posts(rng, canvas, rng.whole(1, 3))
    return Sketch()


def _sky(rng: Rng, canvas: Canvas, horizon: int, brightness: float) -> Color:
    """Paint a gradient down to the horizon, often with clouds, and return the color at the horizon."""
    kind = rng.weighted((("clear", 0.38), ("gray", 0.34), ("low sun", 0.28)))
    if kind == "clear":
        blue = rng.uniform(0.0, 1.0)
        top_color = (35 + 80 * blue, 95 + 55 * blue, 165 + 50 * blue)
        horizon_color = (rng.uniform(150, 215), rng.uniform(190, 222), rng.uniform(215, 240))
    elif kind == "gray":
        level = rng.uniform(120, 240)
        top_color, horizon_color = (level, level, level * 1.03), (level * 1.06, level * 1.06, level * 1.05)
    else:
        top_color = (rng.uniform(70, 130), rng.uniform(95, 140), rng.uniform(130, 180))
        horizon_color = (rng.uniform(215, 250), rng.uniform(180, 215), rng.uniform(140, 180))
    rows = slice(0, horizon)
    share = np.linspace(0.0, 1.0, horizon)
    if rng.chance(0.5):
        share = share * share
    color = (
        np.asarray(top_color)[:, None] + (np.asarray(horizon_color) - np.asarray(top_color))[:, None] * share
    ) * brightness
    texture = noise.window(noise.clouds(), rng, canvas.size)[rows]
    canvas.lay(color, [(texture, rng.uniform(0.0, 0.45 if kind == "gray" else 0.2) * brightness)], rows)
    if rng.chance(0.55):
        _clouds(rng, canvas, rows, brightness)
    if kind == "low sun" and rng.chance(0.6):
        glow = np.zeros((6, 6), dtype=np.int16)
        glow[rng.whole(3, 5), rng.whole(0, 5)] = rng.whole(90, 220)
        canvas.add(noise.enlarge_gently(glow, (canvas.size[0], horizon)), (1.0, 0.8, 0.45), rows)
    return (horizon_color[0] * brightness, horizon_color[1] * brightness, horizon_color[2] * brightness)


def _clouds(rng: Rng, canvas: Canvas, rows: slice, brightness: float) -> None:
    """Paint white heaps or long streaks of cloud, gray inside where they are thick."""
    tile = rng.choice((noise.clouds, noise.cirrus))()
    weight: Int16Array = noise.window(tile, rng, canvas.size)[rows].astype(np.int16)
    texture = weight * np.int16(rng.choice((-1, 0, 0)))
    weight -= np.int16(rng.whole(-20, 30))
    if rng.chance(0.4):
        weight <<= 1
    np.clip(weight, np.int16(0), np.int16(rng.whole(20, 60)), out=weight)
    white = rng.uniform(190, 250) * brightness
    canvas.mix((white, white, white * 1.01), weight, rows, texture=texture, contrast=(0.3, 0.3, 0.25))


def _woods(rng: Rng, canvas: Canvas, horizon: int, brightness: float, haze: Color) -> None:
    """Paint trees along the horizon, bluer and paler with distance."""
    level, distance = rng.uniform(0.35, 1.0) * brightness, rng.uniform(0.0, 0.6) ** 2
    kind = rng.weighted((((58, 78, 38), 0.6), ((92, 86, 60), 0.2), ((104, 84, 66), 0.2)))
    color = tuple(
        near * level * (1 - distance) + haze_level * distance for near, haze_level in zip(kind, haze, strict=True)
    )
    height_px = canvas.size[1] * rng.uniform(0.02, 0.22)
    crown.woods(rng, canvas, horizon, height_px, (color[0], color[1], color[2]), blurred=rng.chance(0.6))


def _meadow_color(rng: Rng, brightness: float) -> Color:
    """Choose a random color between green and dry grass."""
    level, dry = rng.uniform(0.6, 1.25) * brightness, rng.uniform(0.0, 1.0)
    return (level * (72 + 75 * dry), level * (98 + 24 * dry), level * (42 + 32 * dry))


def _earth_color(rng: Rng) -> Color:
    """Choose a random color of bare earth."""
    level = rng.uniform(60, 150)
    return (level * rng.uniform(1.0, 1.22), level, level * rng.uniform(0.68, 0.95))


def _ground(rng: Rng, canvas: Canvas, rows: slice, color: Color, brightness: float) -> None:
    """Paint land, fine in the distance and coarse nearby, with bands that narrow with distance and patches."""
    height = rows.stop - rows.start
    near = np.linspace(0.0, 1.0, height)
    bands = np.interp(np.sqrt(near), np.linspace(0, 1, 9), rng.array(9, low=0.86, high=1.12))
    slope = 1 + rng.uniform(-0.3, 0.3) * near
    size = (canvas.size[0], height)
    textures = [(noise.meadow_window(rng, size), rng.uniform(0.15, 0.75) * brightness)]
    if rng.chance(0.4):
        tile = rng.choice((noise.streaks, noise.rough, noise.gravel, noise.leaves))
        textures.append((noise.window(tile(), rng, size), rng.uniform(0.05, 0.35) * brightness))
    textures.append((noise.window(noise.cirrus(), rng, size), rng.uniform(0.0, 0.35) * brightness))
    canvas.lay(np.asarray(color)[:, None] * (bands * slope), textures, rows, tint=(0.95, 1.0, 0.62))


def _tree_shade(rng: Rng, canvas: Canvas, rows: slice, bases: FloatArray) -> None:
    """Paint the shadows of the tree and of others on the ground, long and flat with a ragged edge."""
    width = canvas.size[0]
    ground_height = rows.stop - rows.start
    small_size = (max(2, width // 4), max(2, ground_height // 4))
    x, y = ((np.arange(side) + 0.5) / side for side in small_size)
    darkness = np.zeros((small_size[1], small_size[0]))
    feet = [(float(bx) / width, (float(by) - rows.start) / ground_height) for bx, by in bases[:3].tolist()]
    feet += [(rng.fraction(), rng.fraction()) for _ in range(rng.whole(0, 2))]
    lean = rng.uniform(-0.25, 0.25)
    for foot_x, foot_y in feet:
        across = (x - foot_x - lean) / rng.uniform(0.12, 0.45)
        along = (y - foot_y) / rng.uniform(0.06, 0.35)
        darkness = np.maximum(darkness, 1.2 - across[None, :] * across[None, :] - along[:, None] * along[:, None])
    cover = np.floor(np.minimum(darkness, 1.0) * 80).astype(np.int16)
    cover += (noise.window(noise.rough(), rng, small_size).astype(np.int16) * np.int16(rng.whole(4, 24))) >> 5
    np.clip(cover - np.int16(30), np.int16(0), np.int16(rng.whole(14, 40)), out=cover)
    canvas.mix((14, 20, 14), noise.enlarge(cover, (width, ground_height)), rows)


def _far_row(rng: Rng, canvas: Canvas, foot: float, haze: Color) -> None:
    """Paint a blurred row of vines: trunks, the band of wood along the wire, and canes or leaves above it."""
    width, height = canvas.size
    row_height = height * rng.uniform(0.12, 0.45)
    top, bottom = max(0, int(foot - row_height)), min(height, int(foot) + 2)
    small_rows, small_width = max(2, (bottom - top) // 4), max(2, width // 4)
    wire = rng.uniform(0.35, 0.55)  # fraction of the height of the row
    elevation = (1 - (np.arange(small_rows) + 0.5) / small_rows)[:, None]
    x = np.arange(small_width)
    spacing = rng.uniform(8, 40) * canvas.scale + 2
    position = (x + rng.uniform(0, spacing)) / spacing
    is_trunk = (position - np.floor(position)) * spacing < 1.4
    cane_height = rng.array(small_width) * rng.uniform(0.3, 1.0)
    if rng.chance(0.4):  # in leaf
        cane_height = 0.6 + 0.4 * cane_height
    strength = np.floor(rng.array(small_width) * 44)  # one value per cane; some canes are near, some far
    cover = np.where((elevation > wire) & (elevation < wire + (1 - wire) * cane_height), strength, 0.0)
    cover = np.maximum(cover, np.where(is_trunk & (elevation <= wire), 56.0, 0.0))
    cover = np.maximum(cover, np.where(np.abs(elevation - wire) * (bottom - top) < 3, 36.0, 0.0)).astype(np.int16)
    cover += noise.window(noise.rough(), rng, (small_width, small_rows)).astype(np.int16) >> 2
    np.clip(cover, np.int16(0), np.int16(64), out=cover)
    cover *= np.int16(rng.whole(36, 64))
    cover >>= 6
    distance, level = rng.uniform(0.0, 0.5), rng.uniform(0.4, 1.1)
    kind = rng.choice(((92, 80, 66), (84, 76, 60), (66, 82, 44)))
    color = tuple(
        near * level * (1 - distance) + haze_level * distance for near, haze_level in zip(kind, haze, strict=True)
    )
    rows = slice(top, bottom)
    canvas.mix((color[0], color[1], color[2]), noise.enlarge(cover, (width, bottom - top)), rows)
