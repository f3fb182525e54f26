"""Laboratory backgrounds: germination paper, filter paper, agar plates, scanners, soil and walls.

Each public function paints the background of one canvas before the plant is drawn. It returns the strokes that are
still to be drawn on it.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Box, Canvas, Color, Sketch, highest_px, wavy_line
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes import clutter


def blue_paper(rng: Rng, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Paint germination paper, mostly blue, with a dark cover at the top and the bench at its edges.

    The roots hang down from below the cover.
    """
    sketch = Sketch()
    color = rng.weighted(
        (
            ((rng.uniform(25, 65), rng.uniform(40, 90), rng.uniform(160, 225)), 0.75),
            ((rng.uniform(60, 110), rng.uniform(90, 130), rng.uniform(140, 190)), 0.1),
            ((rng.uniform(15, 45),) * 3, 0.1),
            ((rng.uniform(90, 140), rng.uniform(70, 110), rng.uniform(45, 80)), 0.05),
        )
    )
    canvas.lay(color, [_stain(rng, canvas, 0.02, 0.15), _texture(rng, canvas, noise.mottle, 0.02, 0.14)])
    _sheet_edges(rng, canvas, sketch)
    if rng.chance(0.75):
        _cover(rng, canvas, sketch, highest_px(bases, canvas.size[1] * 0.1))
    clutter.specks(rng, canvas, sketch, rng.whole(0, 40), 1.5 * canvas.scale, bright=rng.chance(0.5))
    return sketch


def gray_paper(rng: Rng, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Paint felt or filter paper with a pencil line for the seeds, a number, bands of shade and drops."""
    sketch = Sketch()
    width, height = canvas.size
    level = rng.weighted(((rng.uniform(80, 135), 0.75), (rng.uniform(140, 225), 0.15), (rng.uniform(30, 70), 0.1)))
    warm = rng.uniform(-6, 10)
    fibers, mottle = (noise.fibers, 0.03, 0.16), (noise.mottle, 0.0, 0.25)
    textures = [_stain(rng, canvas, 0.03, 0.2), *(_texture(rng, canvas, *kind) for kind in (fibers, mottle))]
    canvas.lay((level + warm, level + 0.4 * warm, level - warm), textures)
    for _ in range(rng.whole(0, 2)):  # folds and double layers of paper
        x = width * rng.choice((rng.uniform(-0.1, 0.25), rng.uniform(0.7, 1.0)))
        canvas.box((x, 0, x + width * rng.uniform(0.1, 0.4), height), (level * 0.4,) * 3, rng.uniform(0.1, 0.35))
    if rng.chance(0.7):
        y = highest_px(bases, height * 0.2) + rng.uniform(-12, 8) * canvas.scale
        line = wavy_line((0, y), (width, y + rng.uniform(-8, 8) * canvas.scale), rng.bell(20) * 0.4)
        sketch.line(line, rng.uniform(0.4, 1.0), level * 0.45, rng.uniform(0.3, 0.9))
    if rng.chance(0.6):
        position = (width * rng.uniform(0.0, 0.8), height * rng.uniform(0.0, 0.12))
        clutter.writing(rng, sketch, position, rng.uniform(16, 40) * canvas.scale, (level * 0.3,) * 3)
    clutter.bubbles(rng, canvas, sketch, rng.whole(0, 6))
    if rng.chance(0.5):
        _sheet_edges(rng, canvas, sketch)
    return sketch


def agar(rng: Rng, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Paint an agar plate on a cloth or bench, with rim, writing, haze and a ruler."""
    sketch = Sketch()
    width, height = canvas.size
    level = rng.weighted(((rng.uniform(70, 150), 0.75), (rng.uniform(15, 60), 0.12), (rng.uniform(150, 215), 0.13)))
    agar_color = (level * rng.uniform(0.7, 1.0), level * rng.uniform(0.9, 1.08), level * rng.uniform(0.95, 1.3))
    if rng.chance(0.6):  # show the whole plate
        dark = rng.uniform(5, 40)
        bench = rng.choice(((dark, dark, dark), (dark, dark, dark * 1.4), (170.0, 135.0, 85.0)))
        canvas.lay(bench, [_texture(rng, canvas, rng.choice((noise.weave, noise.rough, noise.grain)), 0.25, 0.25)])
        inset = rng.array(4, low=0.0, high=0.1)
        left, top = width * inset[0], min(height * inset[1], highest_px(bases, height) - 8)
        box: Box = (left, max(top, 0.0), width * (1 - inset[2]), height * (1 - inset[3] * 1.5))
        clutter.plate(rng, canvas, box, rng.uniform(6, 45) * canvas.scale, agar_color)
    else:
        box = (0.0, 0.0, width, height)
        textures = [_stain(rng, canvas, 0.02, 0.2)]
        if rng.chance(0.5):
            textures.append(_texture(rng, canvas, noise.weave, 0.02, 0.12))
        canvas.lay(agar_color, textures)
    haze = noise.soft_map(rng, (3, 4), canvas.size, 0.0, rng.uniform(5, 45))
    canvas.add(haze, (1.0, 1.0, 1.0))
    for _ in range(rng.whole(0, 3)):
        position = (rng.uniform(box[0], box[2] - 40), rng.choice((box[1] + 6, box[3] - 22 * canvas.scale)))
        ink: Color = rng.choice(((25.0, 20.0, 60.0), (20.0, 20.0, 20.0), (200.0, 30.0, 40.0)))
        clutter.writing(rng, sketch, position, rng.uniform(8, 18) * canvas.scale, ink)
    if rng.chance(0.3):
        side = rng.uniform(25, 60) * canvas.scale
        if rng.chance(0.5):
            clutter.ruler(rng, canvas, sketch, (0, 0, side, height))
        else:
            x, y = width * rng.uniform(0, 0.6), height * rng.uniform(0.75, 0.92)
            clutter.ruler(rng, canvas, sketch, (x, y, x + width * rng.uniform(0.2, 0.6), y + side * 0.7))
    clutter.specks(rng, canvas, sketch, rng.whole(0, 80), 1.2 * canvas.scale, bright=True)
    clutter.bubbles(rng, canvas, sketch, rng.whole(0, 3))
    return sketch


def scanner(rng: Rng, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Paint the bed of a scanner or a light table: even, white, black or gray, with some dust."""
    sketch = Sketch()
    level = rng.weighted(((rng.uniform(215, 252), 0.5), (rng.uniform(3, 30), 0.22), (rng.uniform(60, 180), 0.28)))
    color = (level + rng.uniform(-6, 6), level, level + rng.uniform(-8, 6))
    canvas.lay(color, [_stain(rng, canvas, 0.0, 0.08)])
    clutter.specks(rng, canvas, sketch, rng.whole(0, 60), 1.2 * canvas.scale, bright=level < 128)
    if rng.chance(0.3):
        clutter.ruler(rng, canvas, sketch, (0, 0, canvas.size[0], 30 * canvas.scale))
    return sketch


def soil(rng: Rng, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Paint soil, bare or behind the glass of a root box."""
    sketch = Sketch()
    level = rng.uniform(35, 125)
    red, blue = rng.uniform(1.0, 1.35), rng.uniform(0.6, 0.95)
    textures = [
        _texture(rng, canvas, noise.rough, level / 150, level / 150),
        _texture(rng, canvas, noise.gravel, level / 300, level / 90),
        _texture(rng, canvas, noise.grain, 0.05, 0.3),
    ]
    canvas.lay((level * red, level, level * blue), textures, tint=(1.0, 0.9, 0.75))
    clutter.specks(rng, canvas, sketch, rng.whole(0, 120), 2.5 * canvas.scale, bright=True)
    return sketch


def wall(rng: Rng, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Paint a wall, a board or a cloth of any color behind the plant."""
    sketch = Sketch()
    level = rng.uniform(30, 225)
    texture = rng.choice((noise.rough, noise.weave, noise.mottle, noise.streaks, noise.fibers, noise.grain))
    canvas.lay(
        level * rng.array(3, low=0.75, high=1.2),
        [_stain(rng, canvas, 0.05, 0.4), _texture(rng, canvas, texture, 0.05, 0.5)],
    )
    clutter.scratches(rng, canvas, sketch, rng.whole(0, 8))
    return sketch


def _texture(rng: Rng, canvas: Canvas, tile: noise.Tile, low: float, high: float) -> tuple[noise.Int8Array, float]:
    """Return a window of a tile for the whole canvas and a random gain in [low, high), for `Canvas.lay`."""
    return noise.window(tile(), rng, canvas.size), rng.uniform(low, high)


def _stain(rng: Rng, canvas: Canvas, low: float, high: float) -> tuple[noise.Int8Array, float]:
    """Return large soft patches, lighter and darker, and a random gain in [low, high)."""
    return _texture(rng, canvas, noise.clouds, low, high)


def _sheet_edges(rng: Rng, canvas: Canvas, sketch: Sketch) -> None:
    """Paint strips of bench along some sides of the sheet, separated by a bright or dark line."""
    width, height = canvas.size
    for side in ("left", "right", "bottom"):
        if not rng.chance(0.35):
            continue
        share = rng.uniform(0.01, 0.08)
        box: Box = {
            "left": (0.0, 0.0, width * share, height),
            "right": (width * (1 - share), 0.0, width, height),
            "bottom": (0.0, height * (1 - share), width, height),
        }[side]
        level = rng.choice((rng.uniform(20, 70), rng.uniform(180, 240)))
        canvas.box(box, (level, level, level * rng.uniform(0.95, 1.1)), rng.uniform(0.8, 1.0))
        x, y = (box[2] if side == "left" else box[0]), box[1]
        end = (width, y) if side == "bottom" else (x, height)
        sketch.line(((x, y), end), 0.6, rng.choice((25.0, 215.0)), 0.6)


def _cover(rng: Rng, canvas: Canvas, sketch: Sketch, bottom: float) -> None:
    """Paint a dark strip at the top that hides where the roots come from; its edge is near y = bottom."""
    width, height = canvas.size
    edge = min(max(2.0, bottom + rng.uniform(-6, 2) * canvas.scale), height * 0.35)
    level = rng.uniform(10, 45)
    canvas.box((0, 0, width, edge), (level, level, level * 1.15))
    rows = slice(0, max(1, int(edge)))
    texture = noise.window(noise.rough(), rng, canvas.size)[rows].astype(np.int16)
    canvas.planes[:, rows] += (texture * np.int16(rng.whole(2, 20))) >> 6
    hem = wavy_line((0, edge), (width, edge + rng.uniform(-4, 4)), rng.bell(12) * 0.5)
    sketch.line(hem, rng.uniform(0.5, 2.0), level * 0.4, 0.7, softness=2.0)
