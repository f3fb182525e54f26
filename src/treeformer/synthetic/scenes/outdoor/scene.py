"""Photographs of trees and vines outdoors: sky, land, neighbors, wood, leaves and shadows share one light."""

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
from treeformer.synthetic.scenes.outdoor.daylight import Daylight, choose_daylight, overcast

LEAFY_PROBABILITY = {"vine": 0.36, "orchard": 0.4}
GRASSY_PROBABILITY = {"vine": 0.62, "orchard": 0.85}
TIP_WEIGHT = 4  # weight of a branch tip relative to other nodes when leaves are placed
FAR_SIZE = 0.3  # size of the rows behind a missing plant, relative to those behind a plant
MAX_TWIG_PX = 11.0  # longer twigs are hidden by the leaves they carry
BARE_ROW_COLORS: tuple[Color, ...] = ((62, 54, 46), (72, 64, 57), (52, 45, 38))


class OutdoorScene:
    """Painter of one outdoor image: its light, the ground, and the strokes behind and in front of the plant.

    Call `paint_land` or `paint_screen`, then `paint_plant`. The kind is "vine" or "orchard".

    Attributes:
        leaves: color and hue variation of the leaves; None for a bare plant
        feet: (R,2) px, where the plants stand
        radius: radius of the thickest trunk at its foot, px
        without_plant: whether the image shows no plant on purpose, so that nothing may look like its subject
        behind: strokes drawn behind the plant
        front: strokes drawn in front of the plant
        leafy_points: arrays (K,2) px of points on neighboring plants that carry leaves
        max_fullness: density of the fullest crown, 0 to 1
        horizon_y: row of the horizon, or of the hem of a screen; None before the background is painted
        stands_in_view: whether the foot of the plant is inside the frame
    """

    max_fullness = 1.0

    def __init__(self, rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
        self.rng, self.canvas, self.skeleton, self.kind = rng, canvas, skeleton, kind
        self.light: Daylight = choose_daylight(rng)
        self.leaves = canopy.choose_leaves(rng, kind == "vine") if rng.chance(LEAFY_PROBABILITY[kind]) else None
        self.feet: FloatArray = skeleton.nodes[skeleton.component_root]
        self.radius = 2.0
        if skeleton.radius is not None and len(self.feet):
            self.radius = float(np.nan_to_num(skeleton.radius[skeleton.component_root], nan=2.0).max())
        self.without_plant = "scene" in skeleton.metadata
        self.behind, self.front = Sketch(), Sketch()
        self.leafy_points: list[FloatArray] = []
        self.horizon_y: int | None = None
        self.stands_in_view = skeleton.metadata.get("foot") != "outside"

    @cached_property
    def wood(self) -> bark.Wood:
        """The wood of the plant, chosen at first access in contrast with the background painted by then."""
        return bark.choose_wood(self.rng, self.kind, backdrop(self.canvas, self.skeleton), self.light)

    def paint_land(self) -> None:
        """Paint sky, hills, woods, ground and other rows, and the trellis and neighbors of a vine."""
        rng, canvas, light = self.rng, self.canvas, self.light
        height = canvas.size[1]
        ground_y = lowest_px(self.feet, height * 0.88)
        self.horizon_y = horizon_y = int(min(max(ground_y - height * rng.uniform(0.04, 0.3), 2), height - 2))
        haze = sky.paint_sky(rng, canvas, horizon_y + 1, light)
        horizon.paint_hills_and_woods(rng, canvas, horizon_y, light, haze, self.leaves is not None)
        ground.paint_ground(rng, canvas, horizon_y, light, grassy=GRASSY_PROBABILITY[self.kind])
        if rng.chance(0.75):
            horizon.paint_fringe(rng, canvas, horizon_y, light)
        row = trellis.fit_trellis(rng, canvas, self.skeleton, horizon_y) if self.kind == "vine" else None
        top = row.top if row is not None else highest_px(self.skeleton.nodes, height * 0.2)
        self._rows_behind(horizon_y, ground_y, top, haze)
        if row is not None and rng.chance(0.65):
            ground.paint_strip(rng, canvas, row.foot, light)
        for foot in self.feet:
            ground.darken_foot(canvas, foot, self.radius, 40)
        if row is not None:
            self._trellis(row, 0.8)

    def paint_screen(self) -> None:
        """Paint a plain sheet behind the plant, or behind the row of a vine, and the ground below its hem."""
        rng, canvas = self.rng, self.canvas
        if self.light.kind == "backlit":  # the sun does not shine through a sheet
            self.light = overcast(rng)
        height = canvas.size[1]
        ground_y = lowest_px(self.feet, height * 0.88)
        hem = int(min(max(ground_y - height * rng.uniform(0.035, 0.12), 2), height - 2))
        screen.paint_sheet(rng, canvas, hem + screen.SHADE_ROWS)
        screen.paint_ground_below(rng, canvas, hem, self.light, grassy=GRASSY_PROBABILITY[self.kind])
        self.horizon_y = hem + screen.HEM_PX
        for foot in self.feet:
            ground.darken_foot(canvas, foot, self.radius, 40)
        if self.kind == "vine" and rng.chance(0.7):
            self._trellis(trellis.fit_trellis(rng, canvas, self.skeleton, hem), 0.4)

    def _rows_behind(self, horizon_y: float, ground_y: float, top_y: float, haze: Color) -> None:
        """Paint other rows of the same kind of plant, smaller and paler with distance.

        `ground_y` and `top_y` are those of the plant's own row.
        """
        rng = self.rng
        distance = rng.uniform(1.7, 3.2)
        for index in range(rng.weighted(((0, 0.12), (1, 0.74), (2, 0.14))), 0, -1):
            relative_size = 1 / (1 + (distance - 1) * index)
            foot = horizon_y + (ground_y - horizon_y) * relative_size
            row_top = horizon_y + (top_y - horizon_y) * relative_size
            if self.without_plant:  # otherwise a plant of this row would be the subject
                foot, row_top = horizon_y + (foot - horizon_y) * FAR_SIZE, horizon_y + (row_top - horizon_y) * FAR_SIZE
            color = rng.choice(BARE_ROW_COLORS) if self.leaves is None else self.leaves[0]
            far_rows.paint_row(
                rng,
                self.canvas,
                self.kind,
                foot,
                foot - row_top,
                horizon.in_haze(color, 0.02 + 0.06 * index, haze, self.light),
                leafy=self.leaves is not None,
                blur_px=rng.uniform(1.5, 4.0),
            )

    def _trellis(self, row: trellis.Trellis, neighbor_probability: float) -> None:
        """Paint the posts and wires of a vine's row, and its neighbors with the given probability."""
        rng, canvas = self.rng, self.canvas
        base_x = float(self.feet[0, 0]) if len(self.feet) else canvas.size[0] / 2
        if rng.chance(0.0 if self.without_plant else neighbor_probability):
            brightness = self.light.level * 0.8
            vines = trellis.neighbors(rng, canvas, self.behind, row, base_x, self.radius, self.wood, brightness)
            for foot, points in vines:
                ground.darken_foot(canvas, foot, self.radius, 40)
                ground.grass_in_front(rng, canvas, self.front, foot, self.radius)
                self.leafy_points.append(points)
        for x, y, half in trellis.posts(rng, canvas, row, base_x, self.light):
            ground.darken_foot(canvas, np.asarray((x, y)), half, 34)
            ground.grass_in_front(rng, canvas, self.front, np.asarray((x, y)), half)
        trellis.wires(rng, canvas, self.behind, row, self.light)

    def paint_plant(self) -> None:
        """Paint the plant on the background: its shadow, leaves behind it, wood, leaves in front, and grass."""
        rng, canvas, light, skeleton = self.rng, self.canvas, self.light, self.skeleton
        wood, brightness = self.wood, light.level * 0.8
        if self.kind == "vine":
            bark.peeling(rng, skeleton, self.front, bark.scale_color(wood.old, brightness))
        if self.horizon_y is not None and self.stands_in_view:
            for foot in self.feet:
                ground.grass_in_front(rng, canvas, self.front, foot, self.radius)
        crown = self._crown()
        bare_tree = crown is None and self.kind == "orchard" and rng.chance(0.9)
        self._twigs(wood, bare_tree, brightness)
        if crown is not None:
            twigs = crown.twigs[np.abs(crown.twigs[:, 1] - crown.twigs[:, 0]).max(axis=1) < MAX_TWIG_PX * canvas.scale]
            self.behind.add(twigs[:, 0], twigs[:, 1], 0.45, 0.24, bark.scale_color(wood.young, brightness * 0.8), 0.8)
        strokes_and_arcs = bark.wood_strokes(skeleton)
        stroke_sets = (self.behind.strokes(), strokes_and_arcs[0], self.front.strokes())
        behind_layer, plant_layer, front_layer = rasterize_layers(stroke_sets, canvas.size)
        if light.casts_shadows and self.horizon_y is not None and len(self.feet):
            ground.cast_shadow(rng, canvas, plant_layer, self.feet[0], self.horizon_y, light, self.leaves is not None)
        if crown is not None:
            crown.paint_behind(rng, canvas)
        self.behind.draw(canvas, behind_layer)
        bark.paint_wood(rng, canvas, skeleton, wood, light, strokes_and_arcs, plant_layer)
        if crown is not None:
            if self.kind == "orchard":
                crown.cast_shade(canvas, 24)
            crown.paint_front(rng, canvas)
        self.front.draw(canvas, front_layer)

    def _twigs(self, wood: bark.Wood, bare: bool, brightness: float) -> None:
        """Sketch the finest twigs of a bare tree, or buds."""
        add_twigs = bark.brushwood if bare else bark.buds
        color = bark.scale_color(wood.young, brightness * 0.95)
        add_twigs(self.rng, self.skeleton, self.behind, color, self.canvas.scale)

    def _crown(self) -> canopy.Canopy | None:
        """Return leaves on the thin branches of the plant and its neighbors, from a few to a closed crown."""
        rng, skeleton = self.rng, self.skeleton
        if self.leaves is None or len(skeleton) == 0:
            return None
        radius = skeleton.radius if skeleton.radius is not None else np.ones(len(skeleton))
        thin = skeleton.nodes[~(radius > max(1.0, float(np.nanmax(radius, initial=0.0)) * 0.4))]
        is_tip = skeleton.degree == 1
        is_tip[skeleton.component_root] = False
        tips = skeleton.nodes[is_tip]
        points = np.concatenate([thin, *[tips] * TIP_WEIGHT, *self.leafy_points])
        points = points[(points >= 0).all(axis=1) & (points < self.canvas.size).all(axis=1)]
        if len(points) == 0:
            return None
        is_vine = self.kind == "vine"
        fullness = rng.uniform(0.0, 0.5) if is_vine or rng.chance(0.4) else rng.uniform(0.5, 0.9)
        fullness *= self.max_fullness
        return canopy.canopy_around(rng, self.canvas, points, fullness, self.light, self.leaves, is_vine)
