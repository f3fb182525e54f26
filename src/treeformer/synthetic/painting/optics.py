"""Light, lens and camera: the steps from a painted canvas to an image."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng

BRIGHTEST = 1.9  # maximum of light times gain: 255 × 1.9 × 128 still fits into 16 bits
LIGHT_KNOTS = 4  # more would be visible as stripes, because the curves down and across are summed
LIGHT_AT = np.linspace(-1.0, 1.0, LIGHT_KNOTS)


def expose(rng: Rng, canvas: Canvas, camera: Camera | None = None) -> ImageArray:
    """Take a photo of the canvas, whose planes may be clipped: apply light, white balance, contrast and noise.

    All steps are applied in one pass over blocks of rows, so that each pixel is written to memory once.
    """
    if camera is None:
        camera = random_camera(rng, canvas)
    out = np.empty((canvas.size[1], canvas.size[0], 3), dtype=np.uint8)
    for block in canvas.blocks():
        level, gray, grain, own_grain = canvas.workspace(4, block.stop - block.start, canvas.size[0])
        if camera.fading:
            red, green, blue = part = canvas.planes[:, block]
            np.clip(part, np.int16(0), np.int16(255), out=part)
            np.add(red, blue, out=gray)
            gray += green
            gray += green
            gray >>= 2
        if camera.grain is None:
            grain.fill(camera.lift)
        else:
            grain[:] = camera.grain[block]
            grain *= camera.grain_gain
            grain += camera.lift
        if not camera.own_grain:
            grain >>= 6
        quarter = slice(block.start // 4, -(-block.stop // 4))
        pixels = out[block].reshape(-1)  # interleaving one flat array is twice as fast as row by row
        for channel, plane in enumerate(canvas.planes):
            if camera.fading:
                np.subtract(gray, plane[block], out=level)
                level *= camera.fading
                level >>= 5
                level += plane[block]
                np.clip(level, np.int16(0), np.int16(255), out=level)
            else:
                np.clip(plane[block], np.int16(0), np.int16(255), out=level)
            lit = level.view(np.uint16)
            # The product fits into 16 bits: it is at most 255 × BRIGHTEST × 128.
            if camera.light_across.shape[1] == 1:
                lit *= camera.light_down[channel, 0] + camera.light_across[channel, 0]
            else:
                gain = np.add.outer(camera.light_down[channel, quarter], camera.light_across[channel])
                lit *= np.repeat(gain, 4, axis=0)[: len(lit)]
            lit >>= 7
            if camera.own_grain:
                own_grain[:] = camera.own_grain[channel][block]
                own_grain *= camera.own_gain
                own_grain += grain
                own_grain >>= 6
                level += own_grain
            else:
                level += grain
            np.clip(level, np.int16(0), np.int16(255), out=level)
            pixels[channel::3] = level.astype(np.uint8).reshape(-1)
    return out


@dataclass(frozen=True, slots=True)
class Camera:
    """Parameters of `expose`."""

    # (3, height / 4) share of the light that varies from top to bottom, in 128ths, one value per four rows. (3, 1) if
    # the light is even.
    light_down: NDArray[np.uint16]
    # (3, width) share that varies from left to right; added to `light_down`. (3, 1) if even.
    light_across: NDArray[np.uint16]
    fading: np.int16  # desaturation in 32nds: 32 removes all color, negative values increase the saturation
    grain: noise.Int8Array | None  # (height, width) noise common to all planes, or None
    grain_gain: np.int16  # strength of `grain`, in 64ths
    own_grain: tuple[noise.Int8Array, ...]  # (height, width) noise of each plane, or empty
    own_gain: np.int16  # strength of `own_grain`, in 64ths
    lift: np.int16  # offset added at the end, in 64ths of a level


def random_camera(rng: Rng, canvas: Canvas) -> Camera:
    """Draw a camera of any quality, with uneven light."""
    fading = (32 if rng.chance(0.2) else rng.whole(-10, 20)) if rng.chance(0.3) else 0
    contrast = rng.uniform(0.8, 1.2)
    lift = rng.uniform(-10, 18) + 110 * (1 - contrast)
    gain = contrast * rng.array(3, low=0.92, high=1.08)
    # Fine or blotched grain: one part common to all planes, one part different in each.
    share = rng.fraction()
    strength = share * share * share * 0.4
    texture, strength = (noise.mottle(), 0.4 * strength) if rng.chance(0.2) else (noise.grain(), strength)
    grain_gain = round(64 * strength)
    own_gain = round(64 * strength * rng.uniform(0.0, 0.8)) if rng.chance(0.5) else 0
    down, across = _uneven_light(rng, canvas, gain)
    return Camera(
        light_down=down,
        light_across=across,
        fading=np.int16(fading),
        grain=noise.window(texture, rng, canvas.size) if grain_gain else None,
        grain_gain=np.int16(grain_gain),
        own_grain=tuple(noise.window(noise.grain(), rng, canvas.size) for _ in range(3 if own_gain else 0)),
        own_gain=np.int16(own_gain),
        lift=np.int16(round(64 * lift)),
    )


def outdoor_camera(rng: Rng, canvas: Canvas) -> Camera:
    """Draw a good camera: true colors, even light, little grain."""
    contrast = rng.uniform(0.92, 1.14)
    warm = rng.uniform(-0.014, 0.02)
    gain = contrast * rng.uniform(0.97, 1.1) * np.asarray((1 + warm, 1.0, 1 - warm))
    # The light is even, because a gentle slope in 128ths would show as steps in a plain sky.
    levels = np.floor(np.minimum(gain, BRIGHTEST) * 128 + 0.5).astype(np.uint16)[:, None]
    share = rng.fraction()
    grain_gain = round(64 * (0.02 + share * share * 0.13)) if share > 0.35 else 0
    own_gain = grain_gain // 2 if rng.chance(0.08) else 0
    return Camera(
        light_down=levels // 2,
        light_across=levels - levels // 2,
        fading=np.int16((32 if rng.chance(0.1) else rng.whole(-2, 12)) if rng.chance(0.2) else 0),
        grain=noise.window(noise.grain(), rng, canvas.size) if grain_gain else None,
        grain_gain=np.int16(grain_gain),
        own_grain=tuple(noise.window(noise.grain(), rng, canvas.size) for _ in range(3 if own_gain else 0)),
        own_gain=np.int16(own_gain),
        lift=np.int16(round(64 * (rng.uniform(-5, 7) + 100 * (1 - contrast)))),
    )


def _uneven_light(rng: Rng, canvas: Canvas, gain: FloatArray) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Draw light that varies across the image, times a gain (3,) per plane: lamps, shade, vignetting.

    Return `light_down` and `light_across` of a `Camera`. Their sum is the light times the gain.
    """
    # A camera exposes a dark scene longer and avoids overexposing a bright one.
    sample = canvas.planes[1, ::16, ::16].astype(np.int64)
    mean = int(sample.sum()) // sample.size
    exposure = rng.uniform(0.9, min(max(200 / max(mean, 1), 0.95), 1.35))
    patches, corners = rng.uniform(0.0, 0.2), rng.uniform(0.0, 0.1)
    slope = rng.array(2, 1, low=-0.15, high=0.15)
    curves = 0.5 + patches * (rng.array(2, LIGHT_KNOTS) - 0.5) + slope * LIGHT_AT - corners * LIGHT_AT * LIGHT_AT
    brightest = float(curves[0].max()) + float(curves[1].max())
    exposure = min(exposure, BRIGHTEST / (float(gain.max()) * brightest))
    levels: Int16Array = np.floor(curves[:, None] * (gain[:, None] * (exposure * 128)) + 0.5).astype(np.int16)
    width, height = canvas.size
    return noise.stretch(levels[0], -(-height // 4)).view(np.uint16), noise.stretch(levels[1], width).view(np.uint16)


def blur(canvas: Canvas, times: int, sharpness: int = 0) -> None:
    """Smooth the canvas with the weights 1 2 1 along both axes, once or twice.

    With `sharpness`, sharpen it instead: add this many 64ths of what smoothing removes. The outermost `times` rows and
    columns keep their levels.
    """
    width, height = canvas.size
    if min(width, height) <= 2 * times:
        return
    work = np.empty((2, width * height), dtype=np.int16)
    for plane in canvas.planes:
        # The plane is treated as one flat array along rows too, because contiguous memory is four times as fast. The
        # sums then mix the end of one row with the start of the next; the edge columns are restored below.
        line = plane.reshape(-1)
        for step in (1, width):
            # Summing neighbors shifts by half a step; two such sums give 1 2 1 and a whole step.
            for repetition in range(2 * times):
                line = np.add(line[:-step], line[step:], out=work[repetition % 2, : len(line) - step])
            if times == 2 and step == 1:  # two repetitions along both axes would overflow 16 bits
                line += np.int16(8)
                line >>= 4
        line += np.int16(8)
        flat = plane.reshape(-1)[times * (width + 1) :][: len(line)]  # the pixels that were smoothed
        if sharpness:
            line >>= 4
            np.subtract(flat, line, out=line)
            line *= np.int16(sharpness)
            line >>= 6
            line += flat
        edges = [(part, plane[:, part].copy()) for part in (slice(0, times), slice(width - times, width))]
        if sharpness:
            flat[:] = line
        else:
            np.right_shift(line, 4, out=flat)
        for part, kept in edges:
            plane[:, part] = kept


def lens(rng: Rng, canvas: Canvas) -> None:
    """Apply a random lens: sharp, soft, or oversharpened."""
    times = rng.weighted(((0, 0.45), (1, 0.32), (2, 0.17), (4, 0.06)))
    if times:
        for repetitions in (2, 2) if times == 4 else (times,):
            blur(canvas, repetitions)
    elif rng.chance(0.35):
        blur(canvas, 1, sharpness=rng.whole(16, 90))


def outdoor_lens(rng: Rng, canvas: Canvas) -> None:
    """Apply a random good lens: mostly slightly soft, like a downsampled image."""
    times = rng.weighted(((0, 0.38), (1, 0.52), (2, 0.1)))
    if times:
        blur(canvas, times)
    elif rng.chance(0.3):
        blur(canvas, 1, sharpness=rng.whole(10, 40))


def jpeg(image: ImageArray, quality: int) -> ImageArray:
    """Compress an image as JPEG with a quality from 1 to 95 and decode it again."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=quality)
    buffer.seek(0)
    return np.array(Image.open(buffer))
