"""Composites: a rendered tree or vine, and others behind it, before real photographs. Only the front plant is labeled.

Light and color of the rendered plants follow the photograph. The ground is a photograph of soil or crops from above,
laid in perspective below the horizon; sometimes the photograph behind the plant fills the whole image.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import plantation
from treeformer.synthetic.scenes.outdoor.row_scene import RowScene

MIDDLE_LEVEL = 118.0  # mean gray level of a photograph in which rendered light of level 1 looks right
EDGE_KNOTS = 40  # of the ragged edge between ground and distance
CACHED_PHOTOS = 64
MIPS = 5  # reductions of the ground's photograph by 1, 2, 4, …, read with growing distance


@dataclass(frozen=True)
class Backgrounds:
    """Photographs for composites: `side` as one sees an orchard, `above` looking down on the ground."""

    side: tuple[Path, ...]
    above: tuple[Path, ...] = ()


class PhotoScene(RowScene):
    """Painter of a tree or vine before real photographs. Call `paint_land`, then `paint_plant`."""

    def __init__(self, rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str, backgrounds: Backgrounds) -> None:
        super().__init__(rng, canvas, skeleton, kind)
        self.backgrounds = backgrounds

    def paint_land(self) -> None:
        """Lay the photographs, then paint other plants, posts and wires, with the light of the photographs."""
        rng, canvas = self.rng, self.canvas
        horizon_y, ground_y, _, tree_px, foot_x = self._stand()
        blur_px = rng.weighted(((0.0, 0.3), (rng.uniform(0.5, 2.0), 0.45), (rng.uniform(2.0, 5.0), 0.25)))
        photo = _cut(rng, _photo(rng.choice(self.backgrounds.side)), canvas.size, blur_px * canvas.scale)
        canvas.planes[:] = photo.transpose(2, 0, 1)
        color = photo.reshape(-1, 3).mean(axis=0)
        self._light_like(color)
        if self.backgrounds.above and rng.chance(0.75):
            self._lay_ground(_photo(rng.choice(self.backgrounds.above)), horizon_y, color)
        self.rows = plantation.lay_out(
            rng, canvas.size, (foot_x, ground_y), tree_px, horizon_y, vines=self.kind == "vine"
        )
        red, green, blue = color.tolist()
        self._furnish(self.rows, ground_y, (red, green, blue))

    def _light_like(self, color: FloatArray) -> None:
        """Give the light the brightness and, in part, the tint of a mean color (3,)."""
        gain = float(np.clip(color.mean() / MIDDLE_LEVEL, 0.5, 1.25))
        red, green, blue = (1 + 0.3 * (color / max(color.mean(), 1.0) - 1)).tolist()
        self.light = replace(
            self.light, ambient=self.light.ambient * gain, sun=self.light.sun * gain, tint=(red, green, blue)
        )

    def _lay_ground(self, photo: ImageArray, horizon_y: int, color: FloatArray) -> None:
        """Lay a photograph of the ground in perspective below the horizon, as bright as the distance."""
        rng, canvas = self.rng, self.canvas
        width, height = canvas.size
        texture = Image.fromarray(photo[:, ::-1] if rng.chance(0.5) else photo)
        mips = [np.asarray(texture.reduce(2**level)) for level in range(MIPS)]
        brightness = float(np.clip((color.mean() / max(photo.mean(), 1.0)) ** 0.7, 0.5, 1.8))
        px_per_row = rng.uniform(0.8, 3.0) / canvas.scale  # of the texture, at the bottom of the image
        column, shift = np.arange(width) - width * rng.uniform(0.3, 0.7), rng.uniform(0, texture.width)
        edge = np.interp(np.arange(width), np.linspace(0, width, EDGE_KNOTS), rng.bell(EDGE_KNOTS))
        edge = edge * rng.uniform(0.5, 4.0) * canvas.scale
        softness = rng.uniform(1.0, 5.0)
        for y in range(max(horizon_y - 8, 0), height):
            near = max(y - horizon_y + 8, 1) / (height - horizon_y + 8)  # 1 at the bottom of the image
            step = px_per_row / near  # of the texture per px of this row
            level = int(np.clip(np.log2(max(step, 1.0)), 0, MIPS - 1))
            mip = mips[level]
            u = _mirrored((column * step + shift) / 2**level, mip.shape[1])
            v = _mirrored(np.asarray(step * (height - horizon_y) / 2**level), mip.shape[0])
            weight = np.clip((y - horizon_y - edge) / softness + 0.5, 0.0, 1.0)
            row = mip[v, u] * brightness
            canvas.planes[:, y] += ((row - canvas.planes[:, y].T) * weight[:, None]).T.astype(np.int16)


def _mirrored(position: FloatArray, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Return the pixel of a row of `size` px that repeats in mirror images."""
    index = np.floor(position).astype(np.intp) % (2 * size)
    return np.where(index < size, index, 2 * size - 1 - index)


@lru_cache(maxsize=CACHED_PHOTOS)
def _photo(path: Path) -> ImageArray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def _cut(rng: Rng, photo: ImageArray, size: tuple[int, int], blur_px: float) -> ImageArray:
    """Return a random part of a photograph in the given size (width, height), out of focus by `blur_px`.

    Half of the photographs are repeated as mirror images, because most are taken closer than a whole tree.
    """
    if rng.chance(0.5):
        photo = np.concatenate([photo, photo[:, ::-1]], axis=1)
        photo = np.concatenate([photo[::-1], photo], axis=0)
    height, width = photo.shape[:2]
    factor = min(width / size[0], height / size[1]) * rng.uniform(0.55, 1.0)
    wide, high = size[0] * factor, size[1] * factor
    left, top = rng.uniform(0, width - wide), rng.uniform(0, height - high)
    part = Image.fromarray(photo).resize(size, Image.Resampling.BICUBIC, (left, top, left + wide, top + high))
    if blur_px:
        part = part.filter(ImageFilter.GaussianBlur(blur_px))
    return np.asarray(part)[:, ::-1] if rng.chance(0.5) else np.asarray(part)
