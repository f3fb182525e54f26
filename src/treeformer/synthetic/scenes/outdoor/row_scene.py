"""Photographs of one tree or vine among rows of others: only the front plant is the subject."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise, optics
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, highest_px, lowest_px
from treeformer.synthetic.painting.material import backdrop
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import bark, canopy, clearing, ground, horizon, plantation, sky, trellis
from treeformer.synthetic.scenes.outdoor.daylight import Daylight, choose_daylight
from treeformer.synthetic.scenes.outdoor.far_rows import GrownStrokes, grown_plant
from treeformer.synthetic.scenes.outdoor.scene import OutdoorScene

LIGHTS = (("overcast", 0.36), ("bright", 0.26), ("low sun", 0.24), ("backlit", 0.14))
LEAFY_PROBABILITY = {"vine": 0.1, "orchard": 0.12}
ROW_PLANTS = {"vine": "winter vine", "orchard": "pruned tree"}
ROW_VARIANTS = 8
LICHENS: tuple[Color, ...] = ((150, 154, 140), (168, 172, 160), (132, 140, 104), (160, 150, 84), (186, 184, 176))
THINNEST_SHOWN_PX = 0.3  # thinner wood of other plants is left out
SHADOW_FROM_PX = 1.6  # radius of the wood of other plants that casts a shadow


class RowScene(OutdoorScene):
    """Painter of one tree or vine in a plantation: other rows, posts, wires, clutter on the ground.

    Call `paint_land`, then `paint_plant`. Without nodes in the skeleton, the foreground stays free of plants.

    Attributes:
        rows: the rows of the plantation; set by `paint_land`
    """

    max_fullness = 0.3  # the other rows are bare, so the subject has few leaves at most

    def __init__(self, rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
        super().__init__(rng, canvas, skeleton, kind)
        self.light: Daylight = choose_daylight(rng, LIGHTS)
        self.leaves = canopy.choose_leaves(rng, kind == "vine") if rng.chance(LEAFY_PROBABILITY[kind]) else None
        self.rows: plantation.Plantation | None = None

    @cached_property
    def wood(self) -> bark.Wood:
        """The wood of the plant: as of single plants, often mottled with lichen."""
        wood = bark.choose_wood(self.rng, self.kind, backdrop(self.canvas, self.skeleton), self.light)
        if self.rng.chance(0.35):
            return wood
        lichen_color = bark.scale_color(self.rng.choice(LICHENS), self.rng.uniform(0.8, 1.1))
        relief = wood.relief * self.rng.uniform(1.0, 1.5)
        return replace(wood, lichen=self.rng.uniform(0.3, 0.72), lichen_color=lichen_color, relief=relief)

    def paint_land(self) -> None:
        """Paint sky, distance, ground and all other rows, their shadows, posts and wires."""
        rng, canvas, light = self.rng, self.canvas, self.light
        width, height = canvas.size
        foot_x = float(self.feet[0, 0]) if len(self.feet) else width * rng.uniform(0.3, 0.7)
        ground_y = lowest_px(self.feet, height * rng.uniform(0.8, 1.0))
        if not self.stands_in_view:
            ground_y += height * rng.uniform(0.03, 0.2)
        top_y = highest_px(self.skeleton.nodes, height * rng.uniform(0.0, 0.3))
        tree_px = (ground_y - top_y) * (rng.uniform(1.05, 1.35) if top_y < 0.03 * height else 1.0)
        # Eye level is between the lowest branches and the top; sometimes the camera is held low.
        share = rng.uniform(0.04, 0.25) if rng.chance(0.2) else rng.uniform(0.25, 0.62)
        self.horizon_y = horizon_y = int(min(max(ground_y - tree_px * share, 2), height - 2))
        haze = sky.paint_sky(rng, canvas, horizon_y + 1, light)
        if light.sun > 0.2 and rng.chance(0.6):
            clearing.paint_glow(rng, canvas, horizon_y, light)
        horizon.paint_hills_and_woods(rng, canvas, horizon_y, light, haze, self.leaves is not None)
        ground.paint_ground(rng, canvas, horizon_y, light, grassy=0.72)
        if rng.chance(0.6):
            horizon.paint_fringe(rng, canvas, horizon_y, light)
        self.rows = rows = plantation.lay_out(
            rng, canvas.size, (foot_x, ground_y), tree_px, horizon_y, vines=self.kind == "vine"
        )
        if rng.chance(0.75):
            clearing.paint_strips(rng, canvas, rows, light)
        if rng.chance(0.1):
            clearing.paint_snow(rng, canvas, horizon_y, light)
        self._rows_behind(horizon_y, ground_y, top_y, haze)
        mist = rng.uniform(0.25, 0.6) if rng.chance(0.12) else rng.uniform(0.02, 0.13)
        if mist > 0.2:
            clearing.paint_mist(canvas, rows, haze, mist)
        wire_px = 0.0
        if self.kind == "vine":
            wire_px = ground_y - trellis.fit_trellis(rng, canvas, self.skeleton, horizon_y).wire
        self._other_plants(rows, wire_px, haze, mist)
        litter = Sketch()
        clearing.scatter(rng, canvas, litter, rows, light, bark.scale_color(self.wood.young, light.level * 0.7))
        litter.draw(canvas)
        if self.stands_in_view:
            for foot in self.feet:
                ground.darken_foot(canvas, foot, self.radius, 40)
        clearing.posts(rng, canvas, self.behind, rows, light, has_subject=len(self.feet) > 0)
        in_front = rng.chance(0.45)
        clearing.wires(rng, canvas, self.front if in_front else self.behind, rows, light, wire_px=wire_px)
        if len(self.feet) and rng.chance(0.35):
            sketch = self.front if rng.chance(0.4) else self.behind
            clearing.stake(rng, sketch, rows, self.radius, light)

    def _other_plants(self, rows: plantation.Plantation, wire_px: float, haze: Color, mist: float) -> None:
        """Draw the nearer plants of all rows with their shadows; far ones are paler and softer.

        `wire_px` is the height of the arms of a vine above its foot, 0 for trees.
        """
        rng, canvas, light = self.rng, self.canvas, self.light
        found = plantation.places(rng, rows, canvas.size[0])
        if self.without_plant:  # only the distant rows remain
            return
        trees, shadows = Sketch(), Sketch()
        blur_px = rng.weighted(((0.0, 0.4), (rng.uniform(0.4, 1.0), 0.4), (rng.uniform(1.0, 2.4), 0.2)))
        sideways, farther = clearing.shadow_slope(rng, light)
        brightness = light.level * rng.uniform(0.66, 0.86)
        unlike = rng.uniform(0.0, 0.12)
        for x, y, scale, row in found.tolist():
            plant = grown_plant(ROW_PLANTS[self.kind], rng.whole(0, ROW_VARIANTS - 1))
            size = rows.height_px * scale * rng.uniform(0.82, 1.08) / plant.height
            if wire_px:  # all arms are at the height of the same wire
                size = min(wire_px * scale / plant.wire, 1.5 * size)
            color = np.stack([self.wood.old, self.wood.young]) * (brightness * (1 + unlike * rng.uniform(-1.0, 1.0)))
            share = min(mist * (1 / max(scale, 0.1) - 0.6), 0.2 + 0.5 * mist) if row or scale < 0.8 else 0.0
            color = color + max(share, 0.0) * (np.asarray(haze) * 0.8 - color)
            self._draw_plant(
                trees, shadows, plant, (x, y), size, scale, color, 1.0 + blur_px * (1.2 - scale), (sideways, farther)
            )
            if scale > 0.3:
                ground.darken_foot(canvas, np.asarray((x, y)), max(self.radius * scale, 2.0), 40)
            if scale > 0.5:
                ground.grass_in_front(rng, canvas, self.behind, np.asarray((x, y)), self.radius * scale)
        if light.casts_shadows:
            shadows.draw(canvas)
        trees.draw(canvas)
        if rng.chance(0.5):  # the camera is focused on the subject
            optics.blur(canvas, rng.whole(1, 2))

    def _draw_plant(
        self,
        trees: Sketch,
        shadows: Sketch,
        plant: GrownStrokes,
        foot: tuple[float, float],
        size: float,
        scale: float,
        color: FloatArray,
        softness: float,
        slope: tuple[float, float],
    ) -> None:
        """Add the strokes of one other plant and of its shadow to two sketches."""
        rng = self.rng
        mirror = np.asarray((rng.choice((-1.0, 1.0)), 1.0)) * size
        start, end = plant.start * mirror, plant.end * mirror
        # Old wood as thick as that of the subject at this distance.
        thickest = float(plant.start_radius.max())
        thicker = min(max(self.radius * scale / (thickest * size), 0.6), 1.7)
        start_radius, end_radius = (
            radius * size * (1 + (thicker - 1) * (radius * radius) / (thickest * thickest))
            for radius in (plant.start_radius, plant.end_radius)
        )
        shown = np.flatnonzero(
            (start_radius > THINNEST_SHOWN_PX)
            & (start[:, 0] + foot[0] > -20)
            & (start[:, 0] + foot[0] < self.canvas.size[0] + 20)
            & (start[:, 1] + foot[1] > -20)
        )
        start, end = start[shown], end[shown]
        tone = color[0] + plant.young[shown, None] * (color[1] - color[0])
        tone = tone * rng.array(len(shown), 1, low=0.86, high=1.14)
        radii = np.maximum(start_radius[shown], 0.3), np.maximum(end_radius[shown], 0.25)
        trees.add(start + foot, end + foot, *radii, tone, 1.0, softness, -0.26 * float(color[0, 1]))
        if scale > 0.6:
            trellis.bark_strips(rng, trees, start + foot, end + foot, np.minimum(*radii), tone)
        if not self.light.casts_shadows or scale < 0.3:
            return
        cast = np.flatnonzero(radii[0] > SHADOW_FROM_PX)
        # A point above the foot falls beside it.
        fallen_start, fallen_end = (
            np.stack([points[cast, 0] - slope[0] * points[cast, 1], -slope[1] * points[cast, 1]], axis=1) + foot
            for points in (start, end)
        )
        shadows.add(fallen_start, fallen_end, radii[0][cast], radii[1][cast], 22.0, 0.42, 2.0)

    def _twigs(self, wood: bark.Wood, bare: bool, brightness: float) -> None:
        """Sketch buds; finer twigs would look like the spurs of the skeleton."""
        color = bark.scale_color(wood.young, brightness * 0.95)
        bark.buds(self.rng, self.skeleton, self.behind, color, self.canvas.scale)

    def paint_plant(self) -> None:
        """Paint the plant, sometimes with a painted trunk, and haze or glare in front of it."""
        rng, canvas = self.rng, self.canvas
        if len(self.feet) and self.kind == "orchard" and rng.chance(0.14):
            clearing.trunk_cover(rng, self.skeleton, self.front, self.light)
        super().paint_plant()
        if rng.chance(0.08 if self.light.kind != "backlit" else 0.4):
            veil = noise.soft_map(rng, (3, 3), canvas.size, 0, rng.uniform(15, 60))
            canvas.add(veil, (1.0, 0.95, 0.84))
