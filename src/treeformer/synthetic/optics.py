"""Light, lens and camera: what happens to a painted canvas before it is a picture."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from treeformer.synthetic import noise
from treeformer.synthetic.canvas import Canvas
from treeformer.synthetic.dice import Dice


def uneven_light(dice: Dice, canvas: Canvas) -> None:
    """Light that falls off across the picture: lamps, shade, the lens' dark corners."""
    cells = 8
    strength = dice.uniform(0.0, 0.25)
    gain = 1 + strength * (dice.array(cells, cells) - 0.5)
    across = np.linspace(-1.0, 1.0, cells)
    gain += dice.uniform(-0.15, 0.15) * across[None, :] + dice.uniform(-0.15, 0.15) * across[:, None]
    gain -= dice.uniform(0.0, 0.1) * (across[None, :] ** 2 + across[:, None] ** 2)
    # A camera exposes a dark scene longer, and does not burn out a bright one.
    sample = canvas.planes[1, ::16, ::16].astype(np.int64)
    mean = int(sample.sum()) // sample.size
    gain *= dice.uniform(0.9, min(max(200 / max(mean, 1), 0.95), 1.35))
    small = np.floor(np.clip(gain, 0.2, 1.9) * 128 + 0.5).astype(np.int16)
    light = noise.enlarge_gently(small, canvas.size).view(np.uint16)
    for plane in canvas.planes:
        lit = np.clip(plane, 0, 255, out=canvas.scratch).view(np.uint16)
        lit *= light  # below 2**16: at most 255 × 1.9 × 128
        np.right_shift(lit, 7, out=plane.view(np.uint16))


def colour_cast(dice: Dice, canvas: Canvas) -> None:
    """White balance, saturation, contrast and exposure."""
    red, green, blue = canvas.planes
    if dice.chance(0.3):
        grey = red + green
        grey += green
        grey += blue
        grey >>= 2
        # 0 keeps the colours, 32 takes them all; below 0 they grow stronger.
        away = np.int16(32 if dice.chance(0.2) else dice.whole(-10, 20))
        for plane in canvas.planes:
            np.subtract(grey, plane, out=canvas.scratch)
            canvas.scratch *= away
            canvas.scratch >>= 5
            plane += canvas.scratch
    contrast = dice.uniform(0.8, 1.2)
    lift = dice.uniform(-10, 18)
    for plane in canvas.planes:
        gain = contrast * dice.uniform(0.92, 1.08)
        plane *= np.int16(round(gain * 32))
        plane >>= 5
        plane += np.int16(round(lift + 110 * (1 - contrast)))


def blur(canvas: Canvas, times: int) -> None:
    """Smooth `times` times with the weights 1 2 1 along both axes; the outermost rows and columns keep their level."""
    pair, twice = np.empty(canvas.scratch.size, dtype=np.int16), canvas.scratch.reshape(-1)
    for plane in canvas.planes:
        flat = plane.reshape(-1)
        for _ in range(times):
            # Along rows too, the plane is one long line: unbroken memory is four times as fast. Where the line goes
            # on from one row's end to the next row's start, the edge columns are put back afterwards.
            for step in (canvas.size[0], 1):
                edges = plane[:, 0].copy(), plane[:, -1].copy()
                # Sums of neighbours, half a pixel to either side, summed again: 1 2 1, and nothing has moved.
                sums, inner = pair[: len(flat) - step], twice[: len(flat) - 2 * step]
                np.add(flat[:-step], flat[step:], out=sums)
                np.add(sums[:-step], sums[step:], out=inner)
                inner += 2
                np.right_shift(inner, 2, out=flat[step:-step])
                if step == 1:
                    plane[:, 0], plane[:, -1] = edges


def lens(dice: Dice, canvas: Canvas) -> None:
    """A soft lens, or a camera that sharpens too much."""
    times = dice.weighted(((0, 0.45), (1, 0.32), (2, 0.17), (4, 0.06)))
    if times:
        blur(canvas, times)
    elif dice.chance(0.35):
        sharp = canvas.planes.copy()
        blur(canvas, 1)
        gain = np.int16(dice.whole(16, 90))
        for plane, kept in zip(canvas.planes, sharp, strict=True):
            np.subtract(kept, plane, out=canvas.scratch)
            canvas.scratch *= gain
            canvas.scratch >>= 6
            np.add(kept, canvas.scratch, out=plane)


def sensor_noise(dice: Dice, canvas: Canvas) -> None:
    """Grain, the same in all colours and different in each, fine or blotched."""
    strength = dice.uniform(0.0, 1.0) ** 3 * 0.4
    texture, strength = (noise.mottle(), 0.4 * strength) if dice.chance(0.2) else (noise.grain(), strength)
    canvas.add(noise.window(texture, dice, canvas.size), (strength,) * 3)
    if dice.chance(0.5):
        coloured = np.int16(round(64 * strength * dice.uniform(0.0, 0.8)))
        for plane in canvas.planes:
            np.multiply(noise.window(noise.grain(), dice, canvas.size), coloured, out=canvas.scratch)
            canvas.scratch >>= 6
            plane += canvas.scratch


def jpeg(picture: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """The picture (height, width, 3) after being saved as JPEG and read again."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality)
    file.seek(0)
    return np.array(Image.open(file))
