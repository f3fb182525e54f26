"""Wood seen by daylight: bark that runs along the branches, ragged outlines, a foot that widens, buds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from treeformer._util.arrays import Float32Array
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, snapped
from treeformer.synthetic.painting.material import LAYERS, Backdrop, plant_strokes
from treeformer.synthetic.painting.raster import Fragments, IndexArray, Layer, Strokes, blend
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

RAGGED = 0.14  # how far the outline of thick wood strays from the radius, as a share of it
RAGGED_FROM_PX = 1.6
FOOT_FLARE = 0.75  # how much wider a trunk is where it leaves the ground
COLLAR = 0.25  # how much wider a branch begins for each of its own radii that the one it leaves has
DARKEST_OLD = 66.0  # the level of old wood in white light: darker, bark is a silhouette
SMALLEST_CONTRAST = 34.0  # levels between thin wood and what is behind it


@dataclass(frozen=True, slots=True)
class Wood:
    """How wood looks in white light: colors of old and young wood, its bark (a tile), how strongly that shows.

    lichen: how much of old wood is overgrown, 0 to 1; lichen_color: with what.
    """

    old: Color
    young: Color
    bark: noise.Int8Array
    relief: float
    lichen: float
    lichen_color: Color


@cache
def fissures() -> noise.Int8Array:
    """Plates between long cracks along the trunk: the bark of old fruit trees."""
    tall = noise._octaves(41, 16, 2, 0.2, wide=4).T
    return noise._finished(np.ascontiguousarray(-np.abs(tall - (tall >> 3)) + (noise._octaves(42, 8, 2, 0.1) >> 1)))


@cache
def strips() -> noise.Int8Array:
    """Long shaggy strips that peel off: the bark of old vines."""
    tall = noise._octaves(43, 4, 2, 0.3, wide=16).T
    deep = noise._octaves(44, 8, 4, 0.3, wide=8).T
    return noise._finished(np.ascontiguousarray(tall - np.abs(deep)))


@cache
def rings() -> noise.Int8Array:
    """Bands and short dashes around the stem: the smooth bark of cherries and young wood."""
    return noise._finished(noise._octaves(45, 4, 1, 0.2, wide=8) + noise._octaves(46, 32, 8, 0.4))


def wood_of(rng: Rng, kind: str, behind: Backdrop, light: Daylight) -> Wood:
    """Gray, brown or reddish bark of a tree or a vine, in contrast with what is behind it."""
    if kind == "vine":
        tile, relief = strips, rng.uniform(1.4, 2.4)
        old: Color = rng.weighted((((98, 84, 72), 2.0), ((112, 102, 92), 1.5), ((82, 66, 54), 1.0)))
        young: Color = rng.weighted((((158, 114, 76), 2.0), ((136, 92, 64), 1.5), ((170, 138, 104), 1.0)))
    else:
        tile, strongest = rng.weighted((((fissures, 1.1), 0.65), ((rings, 0.35), 0.2), ((strips, 0.8), 0.15)))
        relief = strongest * rng.uniform(0.6, 1.3)
        old = rng.weighted((((106, 98, 88), 2.0), ((120, 112, 104), 1.2), ((88, 74, 62), 1.5)))
        young = rng.weighted((((112, 84, 68), 2.0), ((104, 94, 82), 1.5), ((124, 96, 66), 1.0)))
    level = rng.uniform(0.75, 1.12)
    # A camera that exposes for a bright sky shows the wood before it dark.
    if behind.level > 150:
        level *= rng.uniform(0.7, 1.0)
    lit = light.ambient + 0.4 * light.sun
    young = times(young, level * rng.uniform(0.8, 1.15))
    old = times(old, max(level, DARKEST_OLD * 3 / sum(old)))
    young = _apart(young, behind.level, lit)
    return Wood(
        old=old,
        young=young,
        bark=tile(),
        relief=relief,
        lichen=rng.uniform(0.1, 0.5) if rng.chance(0.5) else 0.0,
        lichen_color=times(rng.choice(((142, 145, 128), (136, 140, 132), (118, 121, 92))), level),
    )


def times(color: Color, factor: float) -> Color:
    """A color, lighter or darker by a factor."""
    return (color[0] * factor, color[1] * factor, color[2] * factor)


def _apart(color: Color, level: float, lit: float) -> Color:
    """The color, lighter or darker if it would be lost against a background of this level."""
    own = sum(color) / 3 * lit
    if abs(own - level) >= SMALLEST_CONTRAST:
        return color
    wanted = level - SMALLEST_CONTRAST if level > 85 else level + SMALLEST_CONTRAST
    return times(color, max(wanted, 8.0) / max(own, 1.0))


def wood_strokes(skeleton: Skeleton) -> tuple[Strokes, Float32Array]:
    """As `plant_strokes`, thick wood wider by what its ragged outline may take away, and wider still at the foot.

    Also how far along its axis each stroke begins, px.
    """
    drawn = plant_strokes(skeleton)
    arc = arc_starts(skeleton, len(drawn))
    length = np.sqrt(((drawn.end - drawn.start) ** 2).sum(axis=1))
    flare, taper = _flares(skeleton, drawn)
    ends = []
    for radius, place in ((drawn.start_radius, arc), (drawn.end_radius, arc + length)):
        share = 1 - np.minimum(place / taper, np.float32(1))
        rough = np.where(radius > RAGGED_FROM_PX, np.float32(1 + RAGGED), np.float32(1))
        ends.append(radius * rough * (1 + flare * share * share))
    return replace(drawn, start_radius=ends[0], end_radius=ends[1]), arc


def _flares(skeleton: Skeleton, drawn: Strokes) -> tuple[Float32Array, Float32Array]:
    """(S,) how much wider the axis of each stroke is where it begins, and over how many px that wears off."""
    flare, taper = np.zeros(len(drawn), dtype=np.float32), np.ones(len(drawn), dtype=np.float32)
    if not skeleton.has_explicit_axes or len(skeleton.edges) == 0 or skeleton.radius is None:
        return flare, taper
    begin = np.asarray([axis.nodes[0] for axis in skeleton.axes])
    thick = snapped(skeleton.radius[begin]).astype(np.float32)  # of the parent, for a side axis
    trunk = np.asarray([axis.parent is None for axis in skeleton.axes])
    own = snapped(skeleton.radius[[axis.nodes[1] for axis in skeleton.axes]]).astype(np.float32)
    collar = np.minimum(thick / np.maximum(own, np.float32(0.25)) * np.float32(COLLAR), np.float32(1))
    flare[: len(skeleton.edges)] = np.where(trunk, np.float32(FOOT_FLARE), collar)[skeleton.edge_axis]
    taper[: len(skeleton.edges)] = np.maximum(thick * np.where(trunk, np.float32(2.4), np.float32(2)), np.float32(1))[
        skeleton.edge_axis
    ]
    return flare, taper


def arc_starts(skeleton: Skeleton, count: int) -> Float32Array:
    """(count,) how far along its axis each stroke begins, px; 0 for strokes that belong to none."""
    arc = np.zeros(count, dtype=np.float32)
    if not skeleton.has_explicit_axes or len(skeleton.edges) == 0:
        return arc
    axis = skeleton.edge_axis
    order = np.argsort(axis, kind="stable")  # edges of an axis follow each other from base to tip
    length = snapped(skeleton.edge_length)[order]
    total = np.cumsum(length) - length  # whole 64ths: exact in any order
    first = np.searchsorted(axis[order], axis[order], side="left")
    arc[order] = total - total[first]
    return arc


def buds(rng: Rng, skeleton: Skeleton, sketch: Sketch, color: Color, scale: float) -> None:
    """Buds and short spurs on thin wood, to both sides in turn: small strokes that stand off it."""
    if not len(skeleton.edges):
        return
    radius = np.full(len(skeleton), 1.0) if skeleton.radius is None else np.nan_to_num(skeleton.radius, nan=1.0)
    tail, head = skeleton.edges.T
    thin = np.flatnonzero((radius[head] < 1.7 * scale) & (skeleton.edge_length > 3))
    thin = thin[rng.array(len(thin)) < 0.4]
    step = skeleton.nodes[head[thin]] - skeleton.nodes[tail[thin]]
    along = step / np.maximum(skeleton.edge_length[thin], 1e-9)[:, None]
    side = np.where(thin % 2 == 0, 1.0, -1.0)[:, None]
    out = np.stack([along[:, 1], -along[:, 0]], axis=1) * side
    at = skeleton.nodes[tail[thin]] + step * rng.array(len(thin), 1, low=0.2, high=0.9)
    thick = radius[head[thin]]
    long = (thick + 0.3 + rng.array(len(thin), high=1.2) * scale)[:, None]
    light = rng.array(len(thin), 1, low=0.65, high=1.05)
    sketch.add(at, at + (out * 0.8 + along * 0.7) * long, 0.5 * thick + 0.35, 0.3, np.asarray(color) * light, 0.9)


def brushwood(rng: Rng, skeleton: Skeleton, sketch: Sketch, color: Color, scale: float) -> None:
    """The finest twigs of a tree, thinner and shorter than any that a skeleton has, along its thin branches."""
    if not len(skeleton.edges):
        return
    radius = np.full(len(skeleton), 1.0) if skeleton.radius is None else np.nan_to_num(skeleton.radius, nan=1.0)
    tail, head = skeleton.edges.T
    thin = np.flatnonzero(radius[head] < 2.4 * scale)
    thin = thin[(rng.array(len(thin)) * len(thin)).astype(np.intp)]
    step = skeleton.nodes[head[thin]] - skeleton.nodes[tail[thin]]
    along = step / np.maximum(skeleton.edge_length[thin], 1e-9)[:, None]
    out = np.stack([along[:, 1], -along[:, 0]], axis=1) * np.where(rng.array(len(thin)) < 0.5, 1.0, -1.0)[:, None]
    at = skeleton.nodes[tail[thin]] + step * rng.array(len(thin), 1)
    share = rng.array(len(thin), 1)
    long = (3.0 + 8.0 * share * share) * scale
    tip = at + (along * 0.75 + out * rng.array(len(thin), 1, low=0.3, high=0.8) + (0.0, -0.25)) * long
    sketch.add(at, tip, 0.42, 0.24, color, 0.8)


def peeling(rng: Rng, skeleton: Skeleton, sketch: Sketch, color: Color) -> None:
    """Strips of bark that hang loose from thick wood, along it and a little away from it."""
    if not len(skeleton.edges) or skeleton.radius is None:
        return
    radius = np.nan_to_num(skeleton.radius, nan=1.0)
    tail, head = skeleton.edges.T
    thick = np.flatnonzero(radius[head] > 3.5)
    thick = thick[(rng.array(len(thick)) * len(thick)).astype(np.intp)]
    count = len(thick)
    step = skeleton.nodes[tail[thick]] - skeleton.nodes[head[thick]]  # they hang down
    along = step / np.maximum(skeleton.edge_length[thick], 1e-9)[:, None]
    out = np.stack([along[:, 1], -along[:, 0]], axis=1)
    side = rng.array(count, 1, low=-1.05, high=1.05)
    at = skeleton.nodes[head[thick]] + step * rng.array(count, 1) + out * side * radius[head[thick]][:, None]
    long = radius[head[thick]][:, None] * rng.array(count, 1, low=0.5, high=1.8)
    end = at + (along + out * side * rng.array(count, 1, low=-0.05, high=0.16)) * long
    tone = np.asarray(color) * rng.array(count, 1, low=0.45, high=1.45)
    sketch.add(at, end, 0.35 + 0.05 * radius[head[thick]], 0.3, tone, 0.75)


def paint_wood(
    rng: Rng,
    canvas: Canvas,
    skeleton: Skeleton,
    wood: Wood,
    light: Daylight,
    strokes_and_arcs: tuple[Strokes, Float32Array],
    layer: Layer,
) -> None:
    """Paint a skeleton's branches, depth by depth, from its `wood_strokes` and their fragments."""
    drawn, arcs = strokes_and_arcs
    if len(drawn) == 0:
        return
    axis = np.zeros(len(drawn), dtype=np.intp)
    if skeleton.has_explicit_axes:
        axis[: len(skeleton.edges)] = skeleton.edge_axis
    axes = int(axis.max()) + 1
    depth = (rng.array(axes + 1) * LAYERS).astype(np.int8)[axis]
    lighter = (np.floor((rng.array(axes + 1) - 0.5) * 40) / 256 + 1)[axis].astype(np.float32)
    aside = np.floor(rng.array(axes + 1) * noise.TILE).astype(np.int32)[axis]
    stroke = layer.fragments.stroke[layer.chosen] - np.int32(layer.first)
    depth_of = depth[stroke]
    is_root, at_base = np.zeros(len(skeleton), dtype=bool), np.zeros(len(drawn), dtype=bool)
    is_root[skeleton.roots] = True
    at_base[: len(skeleton.edges)] = is_root[skeleton.edges[:, 0]]
    below = np.flatnonzero(at_base[stroke])  # nothing of a trunk shows below the ground
    depth_of[below[layer.fragments.along[layer.chosen[below]] < -1]] = -1
    seen = layer.topmost_by_depth(depth_of, LAYERS)
    part = layer.take(np.concatenate(seen))
    arc = arcs[part.stroke] + part.along
    coverage = _ragged(part, arc, aside)
    color = _colors(wood, light, drawn, part, arc, aside, lighter)
    deep = len(seen[0])
    color[:, :deep] *= 7  # what lies deeper gets less light
    color[:, :deep] >>= 3
    for one in (slice(0, deep), slice(deep, None)):
        blend(canvas.planes, part.pixel[one], coverage[one], color[:, one])


def _ragged(part: Fragments, arc: Float32Array, aside: IndexArray) -> IndexArray:
    """(F,) coverage 0 to 256 with an outline of thick wood that strays to both sides of the true radius."""
    coverage: IndexArray = part.coverage.astype(np.int32)
    thick = np.flatnonzero(part.radius > RAGGED_FROM_PX * (1 + RAGGED))
    across = part.across[thick]
    row = (arc[thick] * np.float32(0.4)).astype(np.int32) & (noise.TILE - 1)
    column = (aside[part.stroke[thick]] + np.where(across > 0, 0, 9)) & (noise.TILE - 1)
    bump = np.minimum(np.maximum(noise.mottle()[0][row, column].astype(np.float32), np.float32(-64)), np.float32(64))
    true = part.radius[thick] * np.float32(1 / (1 + RAGGED))
    inside = (true + true * bump * np.float32(RAGGED / 64) - np.abs(across) + np.float32(0.5)) * np.float32(256)
    coverage[thick] = np.minimum(np.maximum(inside, np.float32(0)).astype(np.int32), coverage[thick])
    return coverage


def _colors(
    wood: Wood,
    light: Daylight,
    drawn: Strokes,
    part: Fragments,
    arc: Float32Array,
    aside: IndexArray,
    lighter: Float32Array,
) -> IndexArray:
    """(3,F) levels of the branches' pixels: the wood's own colors times the light that falls on them."""
    step = drawn.end - drawn.start
    length = np.maximum(np.sqrt(step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1]), np.float32(1e-6))
    along_x, along_y = step[:, 0] / length, step[:, 1] / length
    x, y, z = (np.float32(round(v * 256) / 256) for v in light.towards)
    # How much the left side of each stroke faces the sun and the sky; one gather for all is faster than one for each.
    of_stroke = np.stack([along_y * x - along_x * y, along_x, lighter, aside.astype(np.float32)])
    facing, above, lighter_, aside_ = of_stroke.take(part.stroke, axis=1)
    side = part.across / np.maximum(part.radius, np.float32(0.5))
    np.minimum(np.maximum(side, np.float32(-1), out=side), np.float32(1), out=side)
    square = side * side
    front = np.sqrt(1 - square)
    direct = np.maximum(side * facing + front * z, np.float32(0)) * np.float32(light.sun * 1.1)
    sky = (np.float32(0.3) * front + np.float32(0.24) * side * above + np.float32(0.62)) * np.float32(light.ambient)
    # Bark runs along the branch, and is seen narrower towards the edges.
    row = (arc + aside_).astype(np.int32) & (noise.TILE - 1)
    column = (part.across * (square * np.float32(0.6) + 1) + aside_ * 2 + noise.TILE).astype(np.int32) & (
        noise.TILE - 1
    )
    place = row * (2 * noise.TILE) + column
    grain = wood.bark[0].reshape(-1).take(place).astype(np.float32)
    thick = np.minimum(part.radius * np.float32(0.3), np.float32(1))
    relief = grain * (thick * np.float32(0.75 * wood.relief / 128) + np.float32(0.25 * wood.relief / 128))
    # The light of the whole sky reaches into cracks: they are less dark than plates are bright.
    relief = np.maximum(relief, np.maximum(relief * np.float32(0.65), np.float32(-0.5))) + 1
    relief = np.minimum(relief, np.float32(1.7)) * lighter_
    sky *= relief
    direct *= relief
    if wood.lichen:
        patch = noise.rough()[0].reshape(-1).take(place).astype(np.float32) + grain * np.float32(0.3)
        grown = patch * np.float32(1 / 24) + np.float32(wood.lichen * 2 - 1.5)
        grown = np.minimum(np.maximum(grown, np.float32(0)), np.float32(1)) * thick * np.float32(0.75)
    old = np.minimum(np.maximum(part.radius * np.float32(0.5) - np.float32(0.6), np.float32(0)), np.float32(1))
    levels = np.empty((3, len(part.pixel)), dtype=np.int32)
    for plane, young, aged, lichen, tint in zip(
        levels, wood.young, wood.old, wood.lichen_color, light.tint, strict=True
    ):
        own = old * np.float32(round(aged) - round(young)) + np.float32(round(young))
        if wood.lichen:
            own += grown * (np.float32(round(lichen)) - own)
        own *= direct * np.float32(tint) + sky
        plane[:] = np.minimum(np.maximum(own, np.float32(3)), np.float32(250))
    return levels
