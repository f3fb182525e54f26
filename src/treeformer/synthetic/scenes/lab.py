"""Backgrounds of the laboratory: germination paper, filter paper, agar plates, scanners, soil behind glass.

Each paints a canvas before the plant is drawn and returns the strokes that are still to be drawn there; `bases` (R,2)
are the points where plants begin.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Box, Canvas, Colour, Sketch, highest_px, wavy_line
from treeformer.synthetic.rng import Dice
from treeformer.synthetic.scenes import clutter


def blue_paper(dice: Dice, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Germination paper, mostly blue, under the dark cover from which the roots hang, with the bench at its edges."""
    sketch = Sketch()
    colour = dice.weighted(
        (
            ((dice.uniform(25, 65), dice.uniform(40, 90), dice.uniform(160, 225)), 0.75),
            ((dice.uniform(60, 110), dice.uniform(90, 130), dice.uniform(140, 190)), 0.1),
            ((dice.uniform(15, 45),) * 3, 0.1),
            ((dice.uniform(90, 140), dice.uniform(70, 110), dice.uniform(45, 80)), 0.05),
        )
    )
    canvas.lay(colour, [_stain(dice, canvas, 0.02, 0.15), _texture(dice, canvas, noise.mottle, 0.02, 0.14)])
    _edges(dice, canvas, sketch)
    if dice.chance(0.75):
        _cover(dice, canvas, sketch, highest_px(bases, canvas.size[1] * 0.1))
    clutter.specks(dice, canvas, sketch, dice.whole(0, 40), 1.5 * canvas.scale, bright=dice.chance(0.5))
    return sketch


def grey_paper(dice: Dice, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Felt or filter paper, with the pencil line on which the seeds lie, a number, bands of shade, drops."""
    sketch = Sketch()
    width, height = canvas.size
    level = dice.weighted(((dice.uniform(80, 135), 0.75), (dice.uniform(140, 225), 0.15), (dice.uniform(30, 70), 0.1)))
    warm = dice.uniform(-6, 10)
    fibres, mottle = (noise.fibres, 0.03, 0.16), (noise.mottle, 0.0, 0.25)
    textures = [_stain(dice, canvas, 0.03, 0.2), *(_texture(dice, canvas, *kind) for kind in (fibres, mottle))]
    canvas.lay((level + warm, level + 0.4 * warm, level - warm), textures)
    for _ in range(dice.whole(0, 2)):  # folds and double layers of paper
        x = width * dice.choice((dice.uniform(-0.1, 0.25), dice.uniform(0.7, 1.0)))
        canvas.box((x, 0, x + width * dice.uniform(0.1, 0.4), height), (level * 0.4,) * 3, dice.uniform(0.1, 0.35))
    if dice.chance(0.7):
        y = highest_px(bases, height * 0.2) + dice.uniform(-12, 8) * canvas.scale
        line = wavy_line((0, y), (width, y + dice.uniform(-8, 8) * canvas.scale), dice.bell(20) * 0.4)
        sketch.line(line, dice.uniform(0.4, 1.0), level * 0.45, dice.uniform(0.3, 0.9))
    if dice.chance(0.6):
        place = (width * dice.uniform(0.0, 0.8), height * dice.uniform(0.0, 0.12))
        clutter.writing(dice, sketch, place, dice.uniform(16, 40) * canvas.scale, (level * 0.3,) * 3)
    clutter.bubbles(dice, canvas, sketch, dice.whole(0, 6))
    if dice.chance(0.5):
        _edges(dice, canvas, sketch)
    return sketch


def agar(dice: Dice, canvas: Canvas, bases: FloatArray) -> Sketch:
    """A plate of agar on cloth or bench: rim, writing, haze, reflections, ruler."""
    sketch = Sketch()
    width, height = canvas.size
    level = dice.weighted(((dice.uniform(70, 150), 0.75), (dice.uniform(15, 60), 0.12), (dice.uniform(150, 215), 0.13)))
    agar_colour = (level * dice.uniform(0.7, 1.0), level * dice.uniform(0.9, 1.08), level * dice.uniform(0.95, 1.3))
    if dice.chance(0.6):  # the whole plate
        dark = dice.uniform(5, 40)
        bench = dice.choice(((dark, dark, dark), (dark, dark, dark * 1.4), (170.0, 135.0, 85.0)))
        canvas.lay(bench, [_texture(dice, canvas, dice.choice((noise.weave, noise.rough, noise.grain)), 0.25, 0.25)])
        inset = dice.array(4, low=0.0, high=0.1)
        left, top = width * inset[0], min(height * inset[1], highest_px(bases, height) - 8)
        box: Box = (left, max(top, 0.0), width * (1 - inset[2]), height * (1 - inset[3] * 1.5))
        clutter.plate(dice, canvas, box, dice.uniform(6, 45) * canvas.scale, agar_colour)
    else:
        box = (0.0, 0.0, width, height)
        textures = [_stain(dice, canvas, 0.02, 0.2)]
        if dice.chance(0.5):
            textures.append(_texture(dice, canvas, noise.weave, 0.02, 0.12))
        canvas.lay(agar_colour, textures)
    haze = noise.soft_map(dice, (3, 4), canvas.size, 0.0, dice.uniform(5, 45))
    canvas.add(haze, (1.0, 1.0, 1.0))
    for _ in range(dice.whole(0, 3)):
        place = (dice.uniform(box[0], box[2] - 40), dice.choice((box[1] + 6, box[3] - 22 * canvas.scale)))
        ink: Colour = dice.choice(((25.0, 20.0, 60.0), (20.0, 20.0, 20.0), (200.0, 30.0, 40.0)))
        clutter.writing(dice, sketch, place, dice.uniform(8, 18) * canvas.scale, ink)
    if dice.chance(0.3):
        side = dice.uniform(25, 60) * canvas.scale
        if dice.chance(0.5):
            clutter.ruler(dice, canvas, sketch, (0, 0, side, height))
        else:
            x, y = width * dice.uniform(0, 0.6), height * dice.uniform(0.75, 0.92)
            clutter.ruler(dice, canvas, sketch, (x, y, x + width * dice.uniform(0.2, 0.6), y + side * 0.7))
    clutter.specks(dice, canvas, sketch, dice.whole(0, 80), 1.2 * canvas.scale, bright=True)
    clutter.bubbles(dice, canvas, sketch, dice.whole(0, 3))
    return sketch


def scanner(dice: Dice, canvas: Canvas, bases: FloatArray) -> Sketch:
    """The bed of a scanner or a light table: even, white, black or grey, with some dust."""
    sketch = Sketch()
    level = dice.weighted(((dice.uniform(215, 252), 0.5), (dice.uniform(3, 30), 0.22), (dice.uniform(60, 180), 0.28)))
    colour = (level + dice.uniform(-6, 6), level, level + dice.uniform(-8, 6))
    canvas.lay(colour, [_stain(dice, canvas, 0.0, 0.08)])
    clutter.specks(dice, canvas, sketch, dice.whole(0, 60), 1.2 * canvas.scale, bright=level < 128)
    if dice.chance(0.3):
        clutter.ruler(dice, canvas, sketch, (0, 0, canvas.size[0], 30 * canvas.scale))
    return sketch


def soil(dice: Dice, canvas: Canvas, bases: FloatArray) -> Sketch:
    """Soil, bare or behind the glass of a root box."""
    sketch = Sketch()
    level = dice.uniform(35, 125)
    red, blue = dice.uniform(1.0, 1.35), dice.uniform(0.6, 0.95)
    textures = [
        _texture(dice, canvas, noise.rough, level / 150, level / 150),
        _texture(dice, canvas, noise.gravel, level / 300, level / 90),
        _texture(dice, canvas, noise.grain, 0.05, 0.3),
    ]
    canvas.lay((level * red, level, level * blue), textures, tint=(1.0, 0.9, 0.75))
    clutter.specks(dice, canvas, sketch, dice.whole(0, 120), 2.5 * canvas.scale, bright=True)
    return sketch


def wall(dice: Dice, canvas: Canvas, bases: FloatArray) -> Sketch:
    """A wall, a board or a cloth of any colour hung behind the plant."""
    sketch = Sketch()
    level = dice.uniform(30, 225)
    texture = dice.choice((noise.rough, noise.weave, noise.mottle, noise.streaks, noise.fibres, noise.grain))
    canvas.lay(
        level * dice.array(3, low=0.75, high=1.2),
        [_stain(dice, canvas, 0.05, 0.4), _texture(dice, canvas, texture, 0.05, 0.5)],
    )
    clutter.scratches(dice, canvas, sketch, dice.whole(0, 8))
    return sketch


def _texture(dice: Dice, canvas: Canvas, tile: noise.Tile, least: float, most: float) -> tuple[noise.Int8Array, float]:
    """A window of a tile for the whole canvas, and how strong it is: for `Canvas.lay`."""
    return noise.window(tile(), dice, canvas.size), dice.uniform(least, most)


def _stain(dice: Dice, canvas: Canvas, least: float, most: float) -> tuple[noise.Int8Array, float]:
    """Large soft patches, lighter and darker."""
    return _texture(dice, canvas, noise.clouds, least, most)


def _edges(dice: Dice, canvas: Canvas, sketch: Sketch) -> None:
    """Where the sheet ends: strips of bench along some sides, with a bright or dark line between."""
    width, height = canvas.size
    for side in ("left", "right", "bottom"):
        if not dice.chance(0.35):
            continue
        share = dice.uniform(0.01, 0.08)
        box: Box = {
            "left": (0.0, 0.0, width * share, height),
            "right": (width * (1 - share), 0.0, width, height),
            "bottom": (0.0, height * (1 - share), width, height),
        }[side]
        level = dice.choice((dice.uniform(20, 70), dice.uniform(180, 240)))
        canvas.box(box, (level, level, level * dice.uniform(0.95, 1.1)), dice.uniform(0.8, 1.0))
        x, y = (box[2] if side == "left" else box[0]), box[1]
        end = (width, y) if side == "bottom" else (x, height)
        sketch.line(((x, y), end), 0.6, dice.choice((25.0, 215.0)), 0.6)


def _cover(dice: Dice, canvas: Canvas, sketch: Sketch, down_to: float) -> None:
    """A dark strip at the top that hides where the roots come from."""
    width, height = canvas.size
    edge = min(max(2.0, down_to + dice.uniform(-6, 2) * canvas.scale), height * 0.35)
    level = dice.uniform(10, 45)
    canvas.box((0, 0, width, edge), (level, level, level * 1.15))
    rows = slice(0, max(1, int(edge)))
    damp = noise.window(noise.rough(), dice, canvas.size)[rows].astype(np.int16)
    canvas.planes[:, rows] += (damp * np.int16(dice.whole(2, 20))) >> 6
    hem = wavy_line((0, edge), (width, edge + dice.uniform(-4, 4)), dice.bell(12) * 0.5)
    sketch.line(hem, dice.uniform(0.5, 2.0), level * 0.4, 0.7, softness=2.0)
