"""A plain sheet hung behind a plant, as it is done to measure it: folds, a hem, and the ground below it."""

from __future__ import annotations

import numpy as np

from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, snapped
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import ground
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

HEM_KNOTS, HEM_PX = 9, 5  # how often and by how much the hem goes up and down
SHADE_ROWS = 14  # how far below its hem a sheet darkens the ground


def paint_sheet(rng: Rng, canvas: Canvas, hem: int) -> None:
    """A sheet from the top of the image down to the row `hem`: pale, nearly gray, lit unevenly."""
    rows = slice(0, max(1, min(hem, canvas.size[1])))
    size = (canvas.size[0], rows.stop)
    level = rng.uniform(158, 226)
    warm = rng.uniform(-0.018, 0.012)  # cool or warm, never green or mauve
    down = np.linspace(-1.0, 1.0, rows.stop)
    lighter = 1 + rng.uniform(-0.06, 0.1) * down - rng.uniform(0.0, 0.09) * down * down
    textures = [
        (noise.window(noise.folds(), rng, size), rng.uniform(0.05, 0.22)),
        (noise.window(noise.clouds(), rng, size), rng.uniform(0.02, 0.1)),
        (noise.window(noise.mottle(), rng, size), rng.uniform(0.0, 0.05)),
    ]
    canvas.lay(np.asarray((level * (1 + warm), level, level * (1 - warm)))[:, None] * lighter, textures, rows)


def paint_ground_below(rng: Rng, canvas: Canvas, hem: int, light: Daylight, *, grassy: float) -> None:
    """The ground from the hem of a sheet on, which hangs unevenly and darkens what is next to it."""
    width, height = canvas.size
    strip = slice(hem, min(hem + SHADE_ROWS, height))
    sheet = canvas.planes[:, strip].copy()
    ground.paint_ground(rng, canvas, hem, light, grassy=grassy)
    uneven = snapped(rng.array(1, HEM_KNOTS, high=HEM_PX * 16.0)).astype(np.int16)
    below = (np.arange(strip.stop - hem, dtype=np.int16) * np.int16(16))[:, None] - noise.stretch(uneven, width)
    canvas.mix(ground.SHADE, np.clip(np.int16(40) - (below >> 2), np.int16(0), np.int16(30)), strip)
    part = canvas.planes[:, strip]
    part += ((sheet - part) * np.clip(np.int16(32) - below * np.int16(3), np.int16(0), np.int16(64))) >> 6
