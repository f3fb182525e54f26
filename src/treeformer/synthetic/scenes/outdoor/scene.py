"""Photographs of trees and vines where they grow: one light for sky, land, neighbors, wood, leaves and shadows."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, highest_px, lowest_px
from treeformer.synthetic.painting.material import backdrop
from treeformer.synthetic.painting.raster import rasterize_layers
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import bark, canopy, far_rows, ground, horizon, screen, sky, trellis
from treeformer.synthetic.scenes.outdoor.daylight import Daylight, draw_daylight, overcast

LEAFY_SHARE = {"vine": 0.36, "orchard": 0.4}
GRASSY_SHARE = {"vine": 0.62, "orchard": 0.85}
TIP_WEIGHT = 4  # how many times more leaves grow at a branch's tip than at another node
LONGEST_TWIG_PX = 11.0  # longer ones are hidden by the leaves they carry
BARE_ROWS: tuple[Color, ...] = ((62, 54, 46), (72, 64, 57), (52, 45, 38))


class OutdoorScene:
    """An image in the making: its light, where the ground is, and what is still to be drawn behind and in front.

    eye: the height of the horizon, px; before a screen that of its hem; None until something is painted.
    """

    def __init__(self, rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
        self.rng, self.canvas, self.skeleton, self.kind = rng, canvas, skeleton, kind
        self.light: Daylight = draw_daylight(rng)
        self.leaves = canopy.leaf_kind(rng, kind == "vine") if rng.chance(LEAFY_SHARE[kind]) else None
        self.foot: FloatArray = skeleton.nodes[skeleton.component_root]
        self.radius = 2.0
        if skeleton.radius is not None and len(self.foot):
            self.radius = float(np.nan_to_num(skeleton.radius[skeleton.component_root], nan=2.0).max())
        self.behind, self.front = Sketch(), Sketch()
        self.leafy_points: list[FloatArray] = []
        self.eye: int | None = None

    @cached_property
    def wood(self) -> bark.Wood:
        """What the plant is made of, chosen when it is first asked for: in contrast with what is painted by then."""
        return bark.wood_of(self.rng, self.kind, backdrop(self.canvas, self.skeleton), self.light)

    def paint_land(self) -> None:
        """Sky, hills, woods, the ground, other rows; the trellis of a vine with its neighbors."""
        rng, canvas, light = self.rng, self.canvas, self.light
        height = canvas.size[1]
        line = lowest_px(self.foot, height * 0.88)
        self.eye = eye = int(min(max(line - height * rng.uniform(0.04, 0.3), 2), height - 2))
        haze = sky.paint_sky(rng, canvas, eye + 1, light)
        horizon.paint_far(rng, canvas, eye, light, haze, self.leaves is not None)
        ground.paint_ground(rng, canvas, eye, light, grassy=GRASSY_SHARE[self.kind])
        if rng.chance(0.75):
            horizon.fringe(rng, canvas, eye, light)
        row = trellis.trellis_of(rng, canvas, self.skeleton, eye) if self.kind == "vine" else None
        top = row.top if row is not None else highest_px(self.skeleton.nodes, height * 0.2)
        self._rows_behind(eye, line, top, haze)
        if row is not None and rng.chance(0.65):
            ground.paint_strip(rng, canvas, row.foot, light)
        for place in self.foot:
            ground.darken_foot(canvas, place, self.radius, 40)
        if row is not None:
            self._trellis(row, 0.8)

    def paint_screen(self) -> None:
        """A plain sheet behind the plant, or behind the row in which a vine stands, and the ground below its hem."""
        rng, canvas = self.rng, self.canvas
        if self.light.kind == "backlit":  # no sun shines through a sheet
            self.light = overcast(rng)
        height = canvas.size[1]
        line = lowest_px(self.foot, height * 0.88)
        hem = int(min(max(line - height * rng.uniform(0.035, 0.12), 2), height - 2))
        screen.paint_sheet(rng, canvas, hem + screen.SHADE_ROWS)
        screen.paint_ground_below(rng, canvas, hem, self.light, grassy=GRASSY_SHARE[self.kind])
        self.eye = hem + screen.HEM_PX
        for place in self.foot:
            ground.darken_foot(canvas, place, self.radius, 40)
        if self.kind == "vine" and rng.chance(0.7):
            self._trellis(trellis.trellis_of(rng, canvas, self.skeleton, hem), 0.4)

    def _rows_behind(self, eye: float, line: float, top: float, haze: Color) -> None:
        """Other rows of the same plants, the farther the smaller and the paler; line, top: of the plant's own row."""
        rng = self.rng
        away = rng.uniform(1.7, 3.2)
        for number in range(rng.weighted(((0, 0.12), (1, 0.74), (2, 0.14))), 0, -1):
            nearer = 1 / (1 + (away - 1) * number)
            foot, high = eye + (line - eye) * nearer, eye + (top - eye) * nearer
            own = rng.choice(BARE_ROWS) if self.leaves is None else self.leaves[0]
            far_rows.paint_row(
                rng,
                self.canvas,
                self.kind,
                foot,
                foot - high,
                horizon.in_haze(own, 0.02 + 0.06 * number, haze, self.light),
                leafy=self.leaves is not None,
                blur_px=rng.uniform(1.5, 4.0),
            )

    def _trellis(self, row: trellis.Trellis, crowded: float) -> None:
        """Posts and wires of the row in which a vine stands, and with the likelihood `crowded` its neighbors."""
        rng, canvas = self.rng, self.canvas
        base_x = float(self.foot[0, 0]) if len(self.foot) else canvas.size[0] / 2
        if rng.chance(crowded):
            lit = self.light.level * 0.8
            beside = trellis.neighbors(rng, canvas, self.behind, row, base_x, self.radius, self.wood, lit)
            for foot, points in beside:
                ground.darken_foot(canvas, foot, self.radius, 40)
                ground.grass_in_front(rng, canvas, self.front, foot, self.radius)
                self.leafy_points.append(points)
        for x, y, half in trellis.posts(rng, canvas, row, base_x, self.light):
            ground.darken_foot(canvas, np.asarray((x, y)), half, 34)
            ground.grass_in_front(rng, canvas, self.front, np.asarray((x, y)), half)
        trellis.wires(rng, canvas, self.behind, row, self.light)

    def paint_plant(self) -> None:
        """The plant over all that is painted already: its shadow, leaves behind, wood, leaves before it, grass."""
        rng, canvas, light, skeleton = self.rng, self.canvas, self.light, self.skeleton
        wood, lit = self.wood, light.level * 0.8
        if self.kind == "vine":
            bark.peeling(rng, skeleton, self.front, bark.times(wood.old, lit))
        if self.eye is not None:
            for place in self.foot:
                ground.grass_in_front(rng, canvas, self.front, place, self.radius)
        crown = self._crown()
        bare_tree = crown is None and self.kind == "orchard" and rng.chance(0.9)
        add = bark.brushwood if bare_tree else bark.buds
        add(rng, skeleton, self.behind, bark.times(wood.young, lit * 0.95), canvas.scale)
        if crown is not None:
            twigs = crown.twigs[
                np.abs(crown.twigs[:, 1] - crown.twigs[:, 0]).max(axis=1) < LONGEST_TWIG_PX * canvas.scale
            ]
            self.behind.add(twigs[:, 0], twigs[:, 1], 0.45, 0.24, bark.times(wood.young, lit * 0.8), 0.8)
        drawn = bark.wood_strokes(skeleton)
        sets = (self.behind.strokes(), drawn[0], self.front.strokes())
        of_behind, of_plant, of_front = rasterize_layers(sets, canvas.size)
        if light.casts_shadows and self.eye is not None and len(self.foot):
            ground.cast_shadow(rng, canvas, of_plant, self.foot[0], self.eye, light, self.leaves is not None)
        if crown is not None:
            crown.paint_behind(rng, canvas)
        self.behind.draw(canvas, of_behind)
        bark.paint_wood(rng, canvas, skeleton, wood, light, drawn, of_plant)
        if crown is not None:
            if self.kind == "orchard":
                crown.shade(canvas, 24)
            crown.paint_before(rng, canvas)
        self.front.draw(canvas, of_front)

    def _crown(self) -> canopy.Canopy | None:
        """Leaves on the thin branches of the plant and of its neighbors, from a few to a closed crown."""
        rng, skeleton = self.rng, self.skeleton
        if self.leaves is None or len(skeleton) == 0:
            return None
        radius = skeleton.radius if skeleton.radius is not None else np.ones(len(skeleton))
        thin = skeleton.nodes[~(radius > max(1.0, float(np.nanmax(radius, initial=0.0)) * 0.4))]
        at_tip = skeleton.degree == 1
        at_tip[skeleton.component_root] = False
        tips = skeleton.nodes[at_tip]
        points = np.concatenate([thin, *[tips] * TIP_WEIGHT, *self.leafy_points])
        points = points[(points >= 0).all(axis=1) & (points < self.canvas.size).all(axis=1)]
        if len(points) == 0:
            return None
        is_vine = self.kind == "vine"
        fullness = rng.uniform(0.0, 0.5) if is_vine or rng.chance(0.4) else rng.uniform(0.5, 0.9)
        return canopy.canopy_around(rng, self.canvas, points, fullness, self.light, self.leaves, is_vine)
