"""Images of a series: each frame rendered, moved with its plate, and disturbed by light, condensation and objects."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageFilter

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer.synthetic.painting.noise import soft_map
from treeformer.synthetic.render import render
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.series import Disturbance, SeriesFrame

# Width of the border that is repeated around an image before it is moved, as a share of its longer side.
PAD_SHARE = 0.15


def render_series(
    frames: Sequence[SeriesFrame], style: str, seed: int, disturbance: Disturbance | None = None
) -> list[ImageArray]:
    """Render one image per date of `generate_series` in one of `STYLES`.

    The scene is the same at all dates, as far as it does not depend on the plants. The style "paper" has no
    disturbances of light.
    """
    disturbance = disturbance or Disturbance()
    rng = Rng(zlib.crc32(b"images of a series"), seed)
    images = []
    for frame in frames:
        image = _moved(render(frame.plate, style, seed), frame.motion)
        if style != "paper":
            image = _disturbed(image, rng, disturbance)
        images.append(image)
    return images


def _moved(image: ImageArray, motion: FloatArray) -> ImageArray:
    """Move an image by an affine map. Pixels from outside repeat the border."""
    height, width = image.shape[:2]
    if np.array_equal(motion, np.eye(2, 3)):
        return image
    pad = int(PAD_SHARE * max(width, height)) + 1
    padded = Image.fromarray(np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="edge"))
    inverse = np.linalg.inv(np.vstack([motion, (0.0, 0.0, 1.0)]))[:2]
    inverse[:, 2] += pad
    coefficients = tuple(float(value) for value in inverse.ravel())
    moved = padded.transform((width, height), Image.Transform.AFFINE, coefficients, Image.Resampling.BICUBIC)
    return np.asarray(moved)


def _disturbed(image: ImageArray, rng: Rng, disturbance: Disturbance) -> ImageArray:
    height, width = image.shape[:2]
    size = (width, height)
    values = image.astype(np.float64)
    gain = 1 + disturbance.light * rng.uniform(-0.35, 0.25)
    tint = 1 + disturbance.light * 0.08 * (2 * rng.array(3) - 1)
    slope = disturbance.light * 0.3 * (2 * rng.array(2) - 1)
    ramp = slope[0] * np.linspace(-1, 1, width) + slope[1] * np.linspace(-1, 1, height)[:, None]
    values *= gain * tint * (1 + ramp[:, :, None])
    if rng.chance(disturbance.haze):  # condensation: a bright blurred veil over a part of the frame
        veil = np.clip(soft_map(rng, (5, 5), size, 0, 255).astype(np.float64) / 255 * 2.2 - 1.0, 0.0, 0.75)[:, :, None]
        blurred = Image.fromarray(_to_bytes(values)).filter(ImageFilter.GaussianBlur(2.0))
        values = values + veil * (np.asarray(blurred) * 0.8 + 45 - values)
    if rng.chance(disturbance.occlusion):  # a label, a clip or a finger at the border
        w, h = (int(side * rng.uniform(0.12, 0.3)) for side in size)
        left, top = rng.choice((0, width - w)), int(rng.uniform(0.25, 1.0) * (height - h))
        values[top : top + h, left : left + w] = rng.uniform(40, 235) * rng.array(3, low=0.8, high=1.0)
    return _to_bytes(values)


def _to_bytes(values: FloatArray) -> ImageArray:
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)
