"""A plain sheet behind the plant, as used for measurements: folds, a hem and the ground below it."""

from __future__ import annotations

import numpy as np

from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, snapped
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import ground
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

HEM_KNOTS, HEM_PX = 9, 5  # knots of the uneven hem, and its largest deviation in px
SHADE_ROWS = 14  # number of rows below the hem that the sheet darkens


def paint_sheet(rng: Rng, canvas: Canvas, hem: int) -> None:
    """Paint a sheet from the top of the image down to the row `hem`: pale, nearly gray, lit unevenly."""
    rows = slice(0, max(1, min(hem, canvas.size[1])))
    size = (canvas.size[0], rows.stop)
    level = rng.uniform(158, 226)
    warm = rng.uniform(-0.018, 0.012)  # cool or warm, never green or magenta
    down = np.linspace(-1.0, 1.0, rows.stop)
    brightness = 1 + rng.uniform(-0.06, 0.1) * down - rng.uniform(0.0, 0.09) * down * down
    textures = [
        (noise.window(noise.folds(), rng, size), rng.uniform(0.05, 0.22)),
        (noise.window(noise.clouds(), rng, size), rng.uniform(0.02, 0.1)),
        (noise.window(noise.mottle(), rng, size), rng.uniform(0.0, 0.05)),
    ]
    canvas.lay(np.asarray((level * (1 + warm), level, level * (1 - warm)))[:, None] * brightness, textures, rows)


def paint_ground_below(rng: Rng, canvas: Canvas, hem: int, light: Daylight, *, grassy: float) -> None:
    """Paint the ground below a sheet, with an uneven hem and the shade of the sheet.

    The sheet must be painted `SHADE_ROWS` farther down than `hem`. `grassy` is the probability of turf instead of
    earth.
    """
    width, height = canvas.size
    strip = slice(hem, min(hem + SHADE_ROWS, height))
    sheet = canvas.planes[:, strip].copy()
    ground.paint_ground(rng, canvas, hem, light, grassy=grassy)
    hem_waves = snapped(rng.array(1, HEM_KNOTS, high=HEM_PX * 16.0)).astype(np.int16)
    below_hem = (np.arange(strip.stop - hem, dtype=np.int16) * np.int16(16))[:, None] - noise.stretch(hem_waves, width)
    canvas.mix(ground.SHADE, np.clip(np.int16(40) - (below_hem >> 2), np.int16(0), np.int16(30)), strip)
    part = canvas.planes[:, strip]
    part += ((sheet - part) * np.clip(np.int16(32) - below_hem * np.int16(3), np.int16(0), np.int16(64))) >> 6
