"""Plates with older plants: rosettes over the base, dark roots on light agar, and lines that are not roots."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch
from treeformer.synthetic.painting.material import FAINTEST_LEVELS, Backdrop, Material
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes import clutter
from treeformer.synthetic.scenes.plate import dish, shoots
from treeformer.synthetic.scenes.plate.scene import PlateScene

BRIGHT_PROBABILITY = 0.66
DARK_ROOTS: tuple[Color, ...] = ((1.0, 0.88, 0.7), (1.0, 0.95, 0.88), (1.0, 0.82, 0.8), (0.96, 0.98, 1.0))


class RosettePlateScene(PlateScene):
    """Painter of a plate with older plants and many misleading lines. Use it like `PlateScene`."""

    def __init__(self, rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
        super().__init__(rng, canvas, skeleton, kind)
        self.bright = rng.chance(BRIGHT_PROBABILITY)

    def paint_dish(self) -> None:
        """Paint the dish, then tape, the rims of other dishes, cracks, drips and fibers."""
        super().paint_dish()
        rng = self.rng
        if rng.chance(0.5):
            self._strips_of_tape()
        if rng.chance(0.45):
            self._other_rims()
        if rng.chance(0.45):
            self._drips(self.behind if rng.chance(0.5) else self.front)
        if rng.chance(0.3):
            self._cracks()
        if rng.chance(0.35):
            self._fibers()

    def _strips_of_tape(self) -> None:
        """Sketch pieces of tape across the rim or beside the plants, with fibers and frayed ends."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        level = rng.uniform(150, 245)
        paper = np.asarray(rng.choice(((1.0, 0.99, 0.95), (1.0, 0.97, 0.82), (0.86, 0.9, 1.0), (0.95, 0.72, 0.62))))
        for _ in range(rng.whole(1, 4)):
            half_width = rng.uniform(5, 15) * scale
            edge = rng.choice((-1.0, 1.0)) * rng.uniform(0.86, 1.02)
            slide = rng.uniform(-0.8, 0.8)
            reach = rng.uniform(0.1, 0.6)
            center = np.asarray((edge, slide) if rng.chance(0.5) else (slide, edge))
            along = np.asarray((0.0, reach) if abs(center[0]) > 0.85 else (reach, 0.0))
            if rng.chance(0.3):  # across the rim
                along = along[::-1] * 0.4
            ends = plate.place(np.stack([center - along, center + along]) * plate.half)
            path = np.linspace(ends[0], ends[1], 10)
            tone = level * (1 + rng.bell(9, 1) * 0.02) * paper
            self.behind.line(path, half_width, tone, rng.uniform(0.7, 0.97), 1.3, 4.0)
            count = rng.whole(0, 12)
            offset = rng.array(count, 2, low=-0.7, high=0.7) * half_width
            share = rng.array(count, 1)
            start = ends[0] + share * (ends[1] - ends[0]) + offset
            step = (ends[1] - ends[0]) * rng.array(count, 1, low=0.05, high=0.25)
            self.behind.add(start, start + step, 0.4, 0.4, level * 0.85 * paper, 0.5)

    def _other_rims(self) -> None:
        """Sketch the rims of one or two other dishes that reach into the image."""
        rng, plate = self.rng, self.dish
        width, height = self.canvas.size
        for _ in range(rng.whole(1, 2)):
            right = rng.choice((-1.0, 1.0))
            shift = plate.half[0] + rng.uniform(0.02, 0.1) * width
            center = (plate.center[0] + right * (2 * shift - plate.half[0] * rng.uniform(-0.1, 0.2)), plate.center[1])
            other = replace(plate, center=(center[0], center[1] + rng.uniform(-0.1, 0.1) * height))
            level = max(self.agar) + rng.uniform(-60, 60)
            for inset in (0.0, rng.uniform(2, 6), rng.uniform(6, 14)):
                outline = other.inset(inset * self.canvas.scale).outline()
                tone = level + rng.uniform(-30, 40)
                self.behind.line(outline, rng.uniform(0.4, 1.3), tone, rng.uniform(0.4, 0.9), rng.uniform(1.0, 2.2))

    def _drips(self, sketch: Sketch) -> None:
        """Sketch wet tracks that run down the lid: faint lines of uneven width, like roots without a plant."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        level = np.asarray(self.agar) * rng.choice((rng.uniform(0.75, 0.9), rng.uniform(1.08, 1.25)))
        for _ in range(rng.whole(1, 5)):
            points = rng.whole(8, 24)
            x = rng.uniform(-0.9, 0.9) * plate.half[0] + np.cumsum(rng.bell(points)) * rng.uniform(0.3, 1.6) * scale
            top, bottom = np.sort(rng.array(2, low=-0.9, high=0.9)) * plate.half[1]
            y = top + (bottom - top) * np.arange(points) / (points - 1)
            radius = np.maximum(0.3, rng.uniform(0.4, 1.6) * scale * (1 + rng.bell(points) * 0.3))
            sketch.line(plate.place(np.stack([x, y], axis=1)), radius, level, rng.uniform(0.2, 0.5), 1.8)

    def _cracks(self) -> None:
        """Sketch cracks and cut edges of the agar: straight or jagged double lines."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        for _ in range(rng.whole(1, 3)):
            points = rng.whole(2, 9)
            ends = rng.array(2, 2, low=-0.95, high=0.95) * plate.half
            share = (np.arange(points) / (points - 1))[:, None]
            path = ends[0] + share * (ends[1] - ends[0]) + rng.bell(points, 2) * 5 * scale
            for shift, level in ((0.0, rng.uniform(1.15, 1.4)), (1.5 * scale, rng.uniform(0.6, 0.85))):
                tone = np.asarray(self.agar) * level
                self.behind.line(plate.place(path + shift), rng.uniform(0.4, 0.9), tone, 0.5, 1.4)

    def _fibers(self) -> None:
        """Sketch hairs and lint: thin curled lines, darker or lighter than the agar."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        for _ in range(rng.whole(1, 7)):
            points = 14
            turn = np.cumsum(rng.bell(points) * rng.uniform(0.1, 0.6)) + rng.uniform(0, 2 * math.pi)
            step = rng.uniform(2, 7) * scale
            path = np.cumsum(np.stack([np.cos(turn), np.sin(turn)], axis=1) * step, axis=0)
            path += rng.array(2, low=-0.85, high=0.85) * plate.half
            level = rng.choice((rng.uniform(20, 70), rng.uniform(180, 250)))
            self.front.line(plate.place(path), rng.uniform(0.3, 0.6), level, rng.uniform(0.4, 0.8))

    def _shoots(self) -> None:
        """Sketch large rosettes that hide the base, seen from above or from the side; few plates have none."""
        rng, scale = self.rng, self.canvas.scale
        if len(self.bases) == 0 or rng.chance(0.06):
            return
        span = float(self.bases[:, 0].max() - self.bases[:, 0].min())
        spacing = max(span / max(len(self.bases) - 1, 1), 8.0 * scale)
        size_px = min(spacing * rng.uniform(0.35, 0.9), 62.0 * scale)
        if self.kind == "sprout" and rng.chance(0.5):
            shoots.cotyledons(rng, self.front, self.bases, size_px * 0.7)
        elif rng.chance(0.2):
            shoots.rosettes(rng, self.front, self.bases, size_px)
        else:
            shoots.rosettes_from_above(rng, self.front, self.bases, size_px)

    def _material(self, background: Backdrop) -> Material:
        """Return dark roots on light agar, pale ones on dark agar."""
        rng = self.rng
        material = super()._material(background)
        if background.level < 135:
            return material
        faintest = (FAINTEST_LEVELS + 1.2 * background.unrest) / (material.opacity * background.coverage)
        target = max(background.level - max(rng.uniform(45, 150), faintest), 14.0)
        red, green, blue = rng.choice(DARK_ROOTS)
        thin: Color = (target * red, target * green, target * blue)
        return replace(material, thin=thin, thick=(thin[0] * 0.9, thin[1] * 0.9, thin[2] * 0.9))

    def _labels(self, plate: dish.Dish) -> None:
        """Sketch names, and sometimes lines drawn with a marker between the plants."""
        super()._labels(plate)
        rng = self.rng
        if rng.chance(0.3):
            ink = np.asarray(rng.choice(((30, 30, 36), (36, 40, 120), (180, 40, 44), (40, 110, 60))))
            for _ in range(rng.whole(1, 4)):
                x = rng.uniform(-0.9, 0.9) * plate.half[0]
                top = -plate.half[1] * rng.uniform(0.5, 1.0)
                line = np.asarray([(x, top), (x + rng.uniform(-4, 4), top + plate.half[1] * rng.uniform(0.1, 1.6))])
                self.behind.line(plate.place(line), rng.uniform(0.6, 2.0) * self.canvas.scale, ink, 0.8)
        if rng.chance(0.2):
            clutter.scratches(rng, self.canvas, self.front, rng.whole(2, 8))
