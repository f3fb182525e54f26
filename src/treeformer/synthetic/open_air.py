"""Photographs of trees and vines where they grow: one light for sky, land, neighbours, wood, leaves and shadows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeformer.axes import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic import bark, canopy, clutter, ground, horizon, optics, trellis
from treeformer.synthetic.canvas import Canvas, Colour, Sketch
from treeformer.synthetic.daylight import Daylight, draw_daylight
from treeformer.synthetic.dice import Dice
from treeformer.synthetic.material import Backdrop, backdrop
from treeformer.synthetic.raster import rasterise_layers


def take(dice: Dice, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
    """Paint a plant of kind "vine" or "orchard" with all that is around it."""
    light = draw_daylight(dice)
    width, height = canvas.size
    foot = skeleton.nodes[skeleton.bases]
    line = float(foot[:, 1].max()) if len(foot) else height * 0.88
    radius = _foot_radius(skeleton)
    far = dice.uniform(0.04, 0.3)
    eye = int(min(max(line - height * far, 2), height - 2))
    behind, front, twigs = Sketch(), Sketch(), Sketch()
    haze = horizon.paint_sky(dice, canvas, min(eye + 1, height), light)
    horizon.paint_far(dice, canvas, eye, light, haze)
    ground.paint_ground(dice, canvas, eye, light, grassy=0.62 if kind == "vine" else 0.85)
    row = trellis.trellis_of(dice, canvas, skeleton, eye) if kind == "vine" else None
    if row is not None:
        _vineyard(dice, canvas, row, light, haze)
    if light.casts_shadows:
        ground.cast_shadow(dice, canvas, skeleton, eye, light)
    for place in foot:
        ground.darken_foot(canvas, place, radius, 44)
    view = backdrop(canvas, skeleton)
    wood = bark.wood_of(dice, kind, view, light)
    if row is not None:
        base_x = float(foot[0, 0]) if len(foot) else width / 2
        lit = light.level * 0.8
        if dice.chance(0.8):
            old, young = (bark.times(colour, lit) for colour in (wood.old, wood.young))
            trellis.neighbours(dice, canvas, behind, row, base_x, radius, old, young)
        trellis.posts(dice, canvas, row, base_x, light)
        trellis.wires(dice, canvas, behind, row, light)
    for place in foot:
        ground.grass_in_front(dice, canvas, front, place, radius)
    if dice.chance(0.85):
        bark.buds(dice, skeleton, twigs, bark.times(wood.young, light.level * 0.8), canvas.scale)
    drawn = bark.wood_strokes(skeleton)
    of_behind, of_twigs, of_plant, of_front = rasterise_layers(
        (behind.strokes(), twigs.strokes(), drawn, front.strokes()), canvas.size
    )
    leaves = _leaves(dice, canvas, skeleton, kind, light)
    behind.draw(canvas, of_behind)
    if leaves is not None:
        leaves.paint(dice, canvas, 0, 0.6)
    twigs.draw(canvas, of_twigs)
    bark.paint_wood(dice, canvas, skeleton, wood, light, drawn, of_plant)
    if leaves is not None:
        leaves.paint(dice, canvas, dice.whole(10, 50), 1.0)
    front.draw(canvas, of_front)


def _foot_radius(skeleton: Skeleton) -> float:
    if skeleton.radius is None or not len(skeleton.bases):
        return 2.0
    return float(np.nan_to_num(skeleton.radius[skeleton.bases], nan=2.0).max())


def _vineyard(dice: Dice, canvas: Canvas, row: trellis.Trellis, light: Daylight, haze: Colour) -> None:
    """The rows behind, each farther one smaller and paler, and the bare strip under the vine's own row."""
    count = dice.weighted(((0, 0.1), (1, 0.45), (2, 0.45)))
    away = dice.uniform(1.5, 2.4)
    for number in range(count, 0, -1):
        nearer = 1 / (1 + (away - 1) * number)
        place = replace(
            row,
            foot=row.eye + (row.foot - row.eye) * nearer,
            wire=row.eye + (row.wire - row.eye) * nearer,
            top=row.eye + (row.top - row.eye) * nearer,
        )
        trellis.row_behind(dice, canvas, place, light, haze, 0.12 + 0.14 * number)
    if dice.chance(0.65):
        ground.paint_strip(dice, canvas, row.foot, light)


def _leaves(dice: Dice, canvas: Canvas, skeleton: Skeleton, kind: str, light: Daylight) -> canopy.Canopy | None:
    if len(skeleton) == 0 or dice.chance(0.6 if kind == "vine" else 0.5):
        return None
    radius = skeleton.radius if skeleton.radius is not None else np.ones(len(skeleton))
    thin = skeleton.nodes[~(radius > max(1.0, float(np.nanmax(radius, initial=0.0)) * 0.4))]
    if len(thin) == 0:
        return None
    fullness = dice.uniform(0.0, 0.5) if dice.chance(0.35) else dice.uniform(0.5, 1.0)
    return canopy.canopy_around(dice, canvas, thin, fullness, light)
