"""Plates full of lines that are no roots: shiny rims, tape, writing, clips, hands, seeds that have not germinated."""

from __future__ import annotations

import math

import numpy as np

from treeformer.synthetic.painting.canvas import Color
from treeformer.synthetic.scenes import clutter
from treeformer.synthetic.scenes.plate.rosette_scene import RosettePlateScene
from treeformer.synthetic.scenes.plate.scene import INKS

GLOVES_AND_SKIN: tuple[Color, ...] = ((206, 158, 132), (148, 104, 82), (96, 66, 52), (70, 110, 190), (226, 228, 232))
CLIPS: tuple[Color, ...] = ((24, 24, 26), (190, 30, 36), (40, 80, 170), (200, 200, 205))
SEEDS: tuple[Color, ...] = ((92, 62, 38), (150, 112, 66), (60, 44, 34), (205, 180, 120))


class ClutteredPlateScene(RosettePlateScene):
    """Painter of a plate with every kind of misleading line, with or without seedlings. Use it like `PlateScene`."""

    def paint_dish(self) -> None:
        """Paint the dish with its clutter; a plate without seedlings mostly has a row of seeds."""
        super().paint_dish()
        rng = self.rng
        self._bands()
        if rng.chance(0.6):
            self._marker()
        if rng.chance(0.4):
            self._clips()
        if rng.chance(0.35):
            self._runs()
        if len(self.bases) == 0 and rng.chance(0.6):
            self._seeds()
        if rng.chance(0.25):
            self._hand()

    def _bands(self) -> None:
        """Sketch bright and dark bands along the sides of the rim, broad and blurred or narrow and sharp."""
        rng, plate = self.rng, self.dish
        outline = plate.inset(rng.uniform(-2, 16) * self.canvas.scale).outline()
        for _ in range(rng.whole(1, 6)):
            first = rng.whole(0, len(outline) - 2)
            path = np.roll(outline[:-1], -first, axis=0)[: rng.whole(4, len(outline) - 1)]
            level = rng.choice((rng.uniform(10, 60), rng.uniform(170, 255)))
            radius = rng.weighted(((rng.uniform(0.3, 1.2), 0.6), (rng.uniform(1.5, 7.0), 0.4))) * self.canvas.scale
            self.behind.line(path, radius, level, rng.uniform(0.25, 0.95), rng.uniform(1.0, 2.0 + 2 * radius))

    def _marker(self) -> None:
        """Sketch what is drawn on the plastic: section lines, arrows, circles around places, long words."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        ink, pen = np.asarray(rng.choice(INKS)), rng.uniform(0.5, 2.2) * scale
        for _ in range(rng.whole(1, 5)):
            start = rng.array(2, low=-0.95, high=0.95) * plate.half
            kind = rng.weighted((("line", 0.45), ("circle", 0.2), ("word", 0.35)))
            if kind == "line":
                bend = np.cumsum(rng.bell(12, 2), axis=0) * rng.uniform(0.0, 3.0) * scale
                end = start + rng.array(2, low=-1.0, high=1.0) * plate.half
                path = start + np.linspace(0, 1, 12)[:, None] * (end - start) + bend
                self.behind.line(plate.place(path), pen, ink, rng.uniform(0.5, 0.95), rng.uniform(1.0, 2.0))
            elif kind == "circle":
                turn = np.linspace(0, 2 * math.pi * rng.uniform(0.8, 1.1), 25)
                path = start + np.stack([np.cos(turn), np.sin(turn)], axis=1) * rng.uniform(6, 40) * scale
                self.behind.line(plate.place(path), pen, ink, rng.uniform(0.5, 0.95))
            else:
                x, y = plate.place(start).tolist()
                red, green, blue = ink.tolist()
                clutter.writing(rng, self.behind, (x, y), rng.uniform(8, 30) * scale, (red, green, blue))

    def _clips(self) -> None:
        """Sketch clips and bands over the rim: short thick strokes across it, with a shine."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        outline = plate.outline()
        for _ in range(rng.whole(1, 4)):
            at = rng.whole(0, len(outline) - 2)
            inward = np.asarray(plate.center) - outline[at]
            inward = inward / max(float(np.abs(inward).max()), 1.0)
            ends = np.stack([outline[at] - inward * 8 * scale, outline[at] + inward * rng.uniform(8, 30) * scale])
            color = np.asarray(rng.choice(CLIPS))
            self.front.line(ends, rng.uniform(2, 8) * scale, color, 1.0, 1.0, 20.0)
            self.front.line(ends + scale, rng.uniform(0.4, 1.0) * scale, np.minimum(color + 90, 255), 0.8)

    def _runs(self) -> None:
        """Sketch water that runs down the inside of the lid and branches, like a root without a plant."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        tone = np.asarray(self.agar) * rng.choice((rng.uniform(0.7, 0.9), rng.uniform(1.1, 1.35)))
        for _ in range(rng.whole(1, 4)):
            at = rng.array(2, low=-0.9, high=0.9) * plate.half
            for _ in range(rng.whole(1, 3)):  # runs that start in one drop
                steps = rng.whole(6, 20)
                x = np.cumsum(rng.bell(steps)) * rng.uniform(0.5, 3.0) * scale
                y = np.arange(steps) * rng.uniform(3, 12) * scale
                path = plate.place(at + np.stack([x, y], axis=1))
                self.behind.line(path, rng.uniform(0.4, 2.2) * scale, tone, rng.uniform(0.25, 0.6), 1.6)

    def _seeds(self) -> None:
        """Sketch rows of seeds that have not germinated."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        color, size = np.asarray(rng.choice(SEEDS)), rng.uniform(0.8, 4.5) * scale
        for _ in range(rng.whole(1, 2)):
            count = rng.whole(3, 20)
            x = np.linspace(-0.85, 0.85, count) * plate.half[0] + rng.bell(count) * 2 * scale
            y = rng.uniform(-0.8, 0.6) * plate.half[1] + rng.bell(count) * 2 * scale
            middle = plate.place(np.stack([x, y], axis=1))
            tilt = rng.bell(count, 2) * size * 0.5
            tones = color * rng.array(count, 1, low=0.7, high=1.2)
            self.front.add(middle - tilt, middle + tilt, size, size * 0.7, tones, 1.0, 1.0, 12.0)

    def _hand(self) -> None:
        """Sketch fingers or a glove that hold the plate at one side."""
        rng, plate, scale = self.rng, self.dish, self.canvas.scale
        side, color = rng.choice((-1.0, 1.0)), np.asarray(rng.choice(GLOVES_AND_SKIN))
        middle = rng.uniform(-0.7, 0.7) * plate.half[1]
        thick = rng.uniform(9, 22) * scale
        for finger in range(rng.whole(1, 4)):
            y = middle + finger * thick * rng.uniform(1.8, 2.4)
            reach = rng.uniform(0.7, 1.0) * plate.half[0]
            ends = np.asarray([(side * reach, y), (side * 2.5 * plate.half[0], y + rng.uniform(-1, 1) * 6 * thick)])
            path = plate.place(np.linspace(ends[0], ends[1], 6))
            tones = color * rng.array(5, 1, low=0.88, high=1.06)
            self.front.line(path, np.linspace(thick, thick * 1.2, 6), tones, 1.0, 1.5, 26.0)
