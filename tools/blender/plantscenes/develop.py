"""From linear light to an 8-bit image: exposure, tone curve, white balance, blur, noise."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageFilter

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer.synthetic.rng import Rng

# Luminance weights of linear sRGB.
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
# Images are stored at the highest of these JPEG qualities that gives at most `MOST_BYTES`, otherwise at the lowest.
QUALITIES = (88, 80, 72, 64, 56, 48, 40)
MOST_BYTES = 26_000


def develop(light: FloatArray, rng: Rng) -> ImageArray:
    """Expose linear sRGB (H,W,3), zero or more, as a camera does; the result is 8-bit sRGB."""
    luminance = light @ LUMINANCE
    # The meter averages logarithms, so that a bright sky does not leave the plant black.
    metered = float(np.exp(np.log(np.maximum(luminance, 1e-4)).mean()))
    exposed = light * (rng.uniform(0.13, 0.34) / metered)
    exposed = exposed * (1.0 + rng.array(3, low=-0.07, high=0.07))
    height, width = luminance.shape
    exposed = exposed * _white_balance(exposed[height // 2 :]) ** rng.uniform(0.6, 1.0)
    y, x = np.mgrid[0:height, 0:width]
    corner = ((x / width - 0.5) ** 2 + (y / height - 0.5) ** 2) * 2.0
    exposed = exposed * (1.0 - rng.uniform(0.0, 0.25) * corner)[..., None]
    white = rng.uniform(2.0, 5.0)
    toned = exposed * (1.0 + exposed / white**2) / (1.0 + exposed)
    toned = np.clip(toned * rng.uniform(1.05, 1.3), 0.0, 1.0)
    gray = (toned @ LUMINANCE)[..., None]
    toned = np.clip(gray + (toned - gray) * rng.uniform(0.75, 1.2), 0.0, 1.0)
    levels = 255.0 * np.where(toned <= 0.0031308, 12.92 * toned, 1.055 * toned ** (1 / 2.4) - 0.055)
    contrast = rng.uniform(0.9, 1.2)
    levels = 128.0 + (levels - 128.0) * contrast
    image = Image.fromarray(np.clip(np.round(levels), 0, 255).astype(np.uint8))
    if rng.chance(0.5):
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.75)))
    elif rng.chance(0.5):
        image = image.filter(ImageFilter.UnsharpMask(rng.uniform(0.8, 1.6), rng.whole(30, 110), 2))
    noise = rng.bell(height, width, 3) * rng.uniform(0.3, 2.5)
    return np.asarray(np.clip(np.round(np.asarray(image, dtype=float) + noise), 0, 255).astype(np.uint8))


def _white_balance(ground: FloatArray) -> FloatArray:
    """Return gains (3,) that make the ground gray on average if it looks blue, and 1 otherwise."""
    red, green, blue = channels = np.maximum(np.minimum(ground, 1.0).mean(axis=(0, 1)), 1e-6)
    return np.asarray(channels.mean() / channels if blue > min(red, green) else np.ones(3))


def jpeg(image: ImageArray) -> bytes:
    """Compress an image at the highest quality that keeps it small."""
    for quality in QUALITIES:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, format="JPEG", quality=quality, optimize=True)
        if stream.tell() <= MOST_BYTES:
            break
    return stream.getvalue()
