"""Photographs of trees and vines where they grow: one light for sky, land, neighbours, wood, leaves and shadows."""

from __future__ import annotations

import numpy as np

from treeformer.axes import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic import bark, canopy, far_rows, ground, horizon, trellis
from treeformer.synthetic.canvas import Canvas, Colour, Sketch, highest_px
from treeformer.synthetic.daylight import Daylight, draw_daylight
from treeformer.synthetic.dice import Dice
from treeformer.synthetic.material import backdrop
from treeformer.synthetic.raster import rasterise_layers


def paint(dice: Dice, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
    """Paint a plant of kind "vine" or "orchard" with all that is around it."""
    light = draw_daylight(dice)
    leafy = dice.chance(0.4 if kind == "vine" else 0.5)
    width, height = canvas.size
    foot = skeleton.nodes[skeleton.bases]
    line = float(foot[:, 1].max()) if len(foot) else height * 0.88
    radius = _foot_radius(skeleton)
    eye = int(min(max(line - height * dice.uniform(0.04, 0.3), 2), height - 2))
    behind, front = Sketch(), Sketch()
    haze = horizon.paint_sky(dice, canvas, min(eye + 1, height), light)
    horizon.paint_far(dice, canvas, eye, light, haze, leafy)
    ground.paint_ground(dice, canvas, eye, light, grassy=0.62 if kind == "vine" else 0.85)
    if dice.chance(0.6):
        horizon.fringe(dice, canvas, eye, light)
    row = trellis.trellis_of(dice, canvas, skeleton, eye) if kind == "vine" else None
    top = row.top if row is not None else highest_px(skeleton.nodes, height * 0.2)
    _rows_behind(dice, canvas, kind, (eye, line, top), light, haze, leafy)
    if row is not None and dice.chance(0.65):
        ground.paint_strip(dice, canvas, row.foot, light)
    for place in foot:
        ground.darken_foot(canvas, place, radius, 40)
    view = backdrop(canvas, skeleton)
    wood = bark.wood_of(dice, kind, view, light)
    lit = light.level * 0.8
    beside: list[FloatArray] = []
    if row is not None:
        base_x = float(foot[0, 0]) if len(foot) else width / 2
        if dice.chance(0.8):
            old, young = (bark.times(colour, lit) for colour in (wood.old, wood.young))
            beside = trellis.neighbours(dice, canvas, behind, row, base_x, radius, (old, young))
        for x, y, half in trellis.posts(dice, canvas, row, base_x, light):
            ground.darken_foot(canvas, np.asarray((x, y)), half, 34)
            ground.grass_in_front(dice, canvas, front, np.asarray((x, y)), half)
        trellis.wires(dice, canvas, behind, row, light)
    if kind == "vine":
        bark.peeling(dice, skeleton, front, bark.times(wood.old, lit))
    for place in foot:
        ground.grass_in_front(dice, canvas, front, place, radius)
    if dice.chance(0.85):
        bark.buds(dice, skeleton, behind, bark.times(wood.young, lit), canvas.scale)
    if kind == "orchard" and dice.chance(0.8):
        bark.brushwood(dice, skeleton, behind, bark.times(wood.young, lit * 0.9), canvas.scale)
    drawn = bark.wood_strokes(skeleton)
    of_behind, of_plant, of_front = rasterise_layers((behind.strokes(), drawn, front.strokes()), canvas.size)
    if light.casts_shadows and len(foot):
        ground.cast_shadow(dice, canvas, of_plant, foot[0], eye, light)
    leaves = _leaves(dice, canvas, skeleton, beside, kind, light) if leafy else None
    if leaves is not None:
        leaves.paint(dice, canvas, 0, 0.6)
    behind.draw(canvas, of_behind)
    bark.paint_wood(dice, canvas, skeleton, wood, light, drawn, of_plant)
    if leaves is not None:
        leaves.paint(dice, canvas, dice.whole(10, 50), 1.0)
    front.draw(canvas, of_front)


def _foot_radius(skeleton: Skeleton) -> float:
    if skeleton.radius is None or not len(skeleton.bases):
        return 2.0
    return float(np.nan_to_num(skeleton.radius[skeleton.bases], nan=2.0).max())


def _rows_behind(
    dice: Dice,
    canvas: Canvas,
    kind: str,
    heights: tuple[float, float, float],
    light: Daylight,
    haze: Colour,
    leafy: bool,
) -> None:
    """Other rows of the same plants, the farther the smaller and the paler; heights: of eye, foot and top, px."""
    eye, line, top = heights
    away = dice.uniform(1.7, 3.2)
    for number in range(dice.weighted(((0, 0.12), (1, 0.68), (2, 0.2))), 0, -1):
        nearer = 1 / (1 + (away - 1) * number)
        foot, high = eye + (line - eye) * nearer, eye + (top - eye) * nearer
        wood = dice.choice(((74, 64, 54), (84, 75, 66), (62, 53, 44)))
        colour = horizon.in_haze((78, 92, 54) if leafy else wood, 0.06 + 0.1 * number, haze, light)
        blur_px = dice.uniform(1.5, 4.0)
        far_rows.paint_row(dice, canvas, kind, foot, foot - high, colour, leafy=leafy, blur_px=blur_px)


def _leaves(
    dice: Dice, canvas: Canvas, skeleton: Skeleton, beside: list[FloatArray], kind: str, light: Daylight
) -> canopy.Canopy | None:
    """Leaves on the thin branches of a plant and of its neighbours, whose points are `beside`."""
    radius = skeleton.radius if skeleton.radius is not None else np.ones(len(skeleton))
    thin = skeleton.nodes[~(radius > max(1.0, float(np.nanmax(radius, initial=0.0)) * 0.4))]
    if len(thin) == 0:
        return None
    thin = np.concatenate([thin, *(points for points in beside)])
    thin = thin[(thin >= 0).all(axis=1) & (thin < canvas.size).all(axis=1)]
    fullness = dice.uniform(0.0, 0.5) if kind == "vine" or dice.chance(0.35) else dice.uniform(0.5, 1.0)
    return canopy.canopy_around(dice, canvas, thin, fullness, light, broad=kind == "vine")
