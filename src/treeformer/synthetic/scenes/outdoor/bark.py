"""Wood in daylight: bark that runs along the branches, ragged outlines, flared trunks, buds and fine twigs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from treeformer._util.arrays import Float32Array, FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, snapped
from treeformer.synthetic.painting.material import LAYERS, Backdrop, node_radii, plant_strokes
from treeformer.synthetic.painting.raster import Fragments, IndexArray, Layer, Strokes, blend
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

RAGGEDNESS = 0.14  # largest deviation of the outline of thick wood, as a fraction of the radius
RAGGED_FROM_PX = 1.6  # radius above which wood has a ragged outline
FOOT_FLARE = 0.75  # relative increase of a trunk's width at the ground
COLLAR = 0.25  # relative increase of a branch's width at its base, per ratio of the parent's radius to its own
MIN_OLD_LEVEL = 66.0  # level of old wood in white light; darker bark would be a silhouette
MIN_CONTRAST = 34.0  # levels between thin wood and its background


@dataclass(frozen=True, slots=True)
class Wood:
    """Appearance of wood in white light."""

    old: Color  # color of old wood
    young: Color  # color of young wood
    bark: noise.Int8Array  # tile of the bark
    relief: float  # strength of the bark's texture
    lichen: float  # fraction of old wood covered by lichen, 0 to 1
    lichen_color: Color


@cache
def fissures() -> noise.Int8Array:
    """Make a tile of plates between long cracks along the trunk: the bark of old fruit trees."""
    plates = noise.octave_noise(41, 16, 2, 0.2, wide=4).T
    return noise.to_tile(
        np.ascontiguousarray(-np.abs(plates - (plates >> 3)) + (noise.octave_noise(42, 8, 2, 0.1) >> 1))
    )


@cache
def strips() -> noise.Int8Array:
    """Make a tile of long shaggy strips that peel off: the bark of old vines."""
    fine = noise.octave_noise(43, 4, 2, 0.3, wide=16).T
    coarse = noise.octave_noise(44, 8, 4, 0.3, wide=8).T
    return noise.to_tile(np.ascontiguousarray(fine - np.abs(coarse)))


@cache
def rings() -> noise.Int8Array:
    """Make a tile of bands and short dashes around the stem: the smooth bark of cherries and young wood."""
    return noise.to_tile(noise.octave_noise(45, 4, 1, 0.2, wide=8) + noise.octave_noise(46, 32, 8, 0.4))


def choose_wood(rng: Rng, kind: str, background: Backdrop, light: Daylight) -> Wood:
    """Choose random gray, brown or reddish wood for a "vine" or an "orchard" tree, in contrast with its background."""
    if kind == "vine":
        tile, relief = strips, rng.uniform(1.4, 2.4)
        old: Color = rng.weighted((((98, 84, 72), 2.0), ((112, 102, 92), 1.5), ((82, 66, 54), 1.0)))
        young: Color = rng.weighted((((158, 114, 76), 2.0), ((136, 92, 64), 1.5), ((170, 138, 104), 1.0)))
    else:
        tile, max_relief = rng.weighted((((fissures, 1.1), 0.65), ((rings, 0.35), 0.2), ((strips, 0.8), 0.15)))
        relief = max_relief * rng.uniform(0.6, 1.3)
        old = rng.weighted((((106, 98, 88), 2.0), ((120, 112, 104), 1.2), ((88, 74, 62), 1.5)))
        young = rng.weighted((((112, 84, 68), 2.0), ((104, 94, 82), 1.5), ((124, 96, 66), 1.0)))
    level = rng.uniform(0.75, 1.12)
    # A camera exposed for a bright sky shows the wood in front of it dark.
    if background.level > 150:
        level *= rng.uniform(0.7, 1.0)
    brightness = light.ambient + 0.4 * light.sun
    young = scale_color(young, level * rng.uniform(0.8, 1.15))
    old = scale_color(old, max(level, MIN_OLD_LEVEL * 3 / sum(old)))
    young = _with_contrast(young, background.level, brightness)
    return Wood(
        old=old,
        young=young,
        bark=tile(),
        relief=relief,
        lichen=rng.uniform(0.1, 0.5) if rng.chance(0.5) else 0.0,
        lichen_color=scale_color(rng.choice(((142, 145, 128), (136, 140, 132), (118, 121, 92))), level),
    )


def scale_color(color: Color, factor: float) -> Color:
    """Darken a color by a factor below 1, or lighten it."""
    return (color[0] * factor, color[1] * factor, color[2] * factor)


def _with_contrast(color: Color, level: float, brightness: float) -> Color:
    """Return the color, made lighter or darker if its contrast with a background level is too small."""
    wood_level = sum(color) / 3 * brightness
    if abs(wood_level - level) >= MIN_CONTRAST:
        return color
    target = level - MIN_CONTRAST if level > 85 else level + MIN_CONTRAST
    return scale_color(color, max(target, 8.0) / max(wood_level, 1.0))


def wood_strokes(skeleton: Skeleton) -> tuple[Strokes, Float32Array]:
    """Return the strokes of a plant with flared bases, and the position of each stroke along its axis.

    Like `plant_strokes`, but thick wood is wider by the amount that its ragged outline may remove, and wider still at
    the foot. The second value is (S,) px from the base of the axis to the start of each stroke.
    """
    plain = plant_strokes(skeleton)
    arc = arc_starts(skeleton, len(plain))
    length = np.sqrt(((plain.end - plain.start) ** 2).sum(axis=1))
    flare, taper = _flares(skeleton, plain)
    radii = []
    for radius, arc_position in ((plain.start_radius, arc), (plain.end_radius, arc + length)):
        remaining = 1 - np.minimum(arc_position / taper, np.float32(1))
        widening = np.where(radius > RAGGED_FROM_PX, np.float32(1 + RAGGEDNESS), np.float32(1))
        radii.append(radius * widening * (1 + flare * remaining * remaining))
    return replace(plain, start_radius=radii[0], end_radius=radii[1]), arc


def wood_radii(skeleton: Skeleton) -> FloatArray:
    """Return the radius (N,) px of the painted wood at each node: flared, and without what a ragged outline removes."""
    strokes = wood_strokes(skeleton)[0]
    radius = node_radii(skeleton, strokes.start_radius, strokes.end_radius)
    return np.where(radius > RAGGED_FROM_PX * (1 + RAGGEDNESS), radius / (1 + RAGGEDNESS), radius)


def _flares(skeleton: Skeleton, strokes: Strokes) -> tuple[Float32Array, Float32Array]:
    """Return (S,) the relative widening at the base of each stroke's axis, and the px over which it wears off."""
    flare, taper = np.zeros(len(strokes), dtype=np.float32), np.ones(len(strokes), dtype=np.float32)
    if not skeleton.has_explicit_axes or len(skeleton.edges) == 0 or skeleton.radius is None:
        return flare, taper
    first_node = np.asarray([axis.nodes[0] for axis in skeleton.axes])
    base_radius = snapped(skeleton.radius[first_node]).astype(np.float32)  # for a side axis, the radius of its parent
    is_trunk = np.asarray([axis.parent is None for axis in skeleton.axes])
    foot_flare = np.float32(0.0 if skeleton.metadata.get("foot") == "outside" else FOOT_FLARE)
    own_radius = snapped(skeleton.radius[[axis.nodes[1] for axis in skeleton.axes]]).astype(np.float32)
    collar = np.minimum(base_radius / np.maximum(own_radius, np.float32(0.25)) * np.float32(COLLAR), np.float32(1))
    flare[: len(skeleton.edges)] = np.where(is_trunk, foot_flare, collar)[skeleton.edge_axis]
    taper[: len(skeleton.edges)] = np.maximum(
        base_radius * np.where(is_trunk, np.float32(2.4), np.float32(2)), np.float32(1)
    )[skeleton.edge_axis]
    return flare, taper


def arc_starts(skeleton: Skeleton, count: int) -> Float32Array:
    """Return the distance along its axis at which each of `count` strokes starts; 0 if it belongs to no axis.

    The first strokes are the edges of the skeleton.
    """
    arc = np.zeros(count, dtype=np.float32)
    if not skeleton.has_explicit_axes or len(skeleton.edges) == 0:
        return arc
    axis = skeleton.edge_axis
    order = np.argsort(axis, kind="stable")  # the edges of an axis are ordered from base to tip
    length = snapped(skeleton.edge_length)[order]
    total = np.cumsum(length) - length  # whole 64ths, so sums are exact in any order
    first = np.searchsorted(axis[order], axis[order], side="left")
    arc[order] = total - total[first]
    return arc


def buds(rng: Rng, skeleton: Skeleton, sketch: Sketch, color: Color, scale: float) -> None:
    """Draw buds and short spurs on alternating sides of thin wood. The scale is relative to a 512 px image."""
    if not len(skeleton.edges):
        return
    radius = np.full(len(skeleton), 1.0) if skeleton.radius is None else np.nan_to_num(skeleton.radius, nan=1.0)
    tail, head = skeleton.edges.T
    edge = np.flatnonzero((radius[head] < 1.7 * scale) & (skeleton.edge_length > 3))
    edge = edge[rng.array(len(edge)) < 0.4]
    step = skeleton.nodes[head[edge]] - skeleton.nodes[tail[edge]]
    along = step / np.maximum(skeleton.edge_length[edge], 1e-9)[:, None]
    side = np.where(edge % 2 == 0, 1.0, -1.0)[:, None]
    normal = np.stack([along[:, 1], -along[:, 0]], axis=1) * side
    position = skeleton.nodes[tail[edge]] + step * rng.array(len(edge), 1, low=0.2, high=0.9)
    edge_radius = radius[head[edge]]
    length = (edge_radius + 0.3 + rng.array(len(edge), high=1.2) * scale)[:, None]
    brightness = rng.array(len(edge), 1, low=0.65, high=1.05)
    sketch.add(
        position,
        position + (normal * 0.8 + along * 0.7) * length,
        0.5 * edge_radius + 0.35,
        0.3,
        np.asarray(color) * brightness,
        0.9,
    )


def brushwood(rng: Rng, skeleton: Skeleton, sketch: Sketch, color: Color, scale: float) -> None:
    """Draw the finest twigs along thin branches, too thin and short to be part of a skeleton."""
    if not len(skeleton.edges):
        return
    radius = np.full(len(skeleton), 1.0) if skeleton.radius is None else np.nan_to_num(skeleton.radius, nan=1.0)
    tail, head = skeleton.edges.T
    edge = np.flatnonzero(radius[head] < 2.4 * scale)
    edge = edge[(rng.array(len(edge)) * len(edge)).astype(np.intp)]
    step = skeleton.nodes[head[edge]] - skeleton.nodes[tail[edge]]
    along = step / np.maximum(skeleton.edge_length[edge], 1e-9)[:, None]
    normal = np.stack([along[:, 1], -along[:, 0]], axis=1) * np.where(rng.array(len(edge)) < 0.5, 1.0, -1.0)[:, None]
    start = skeleton.nodes[tail[edge]] + step * rng.array(len(edge), 1)
    fraction = rng.array(len(edge), 1)
    length = (3.0 + 8.0 * fraction * fraction) * scale
    tip = start + (along * 0.75 + normal * rng.array(len(edge), 1, low=0.3, high=0.8) + (0.0, -0.25)) * length
    sketch.add(start, tip, 0.42, 0.24, color, 0.8)


def peeling(rng: Rng, skeleton: Skeleton, sketch: Sketch, color: Color) -> None:
    """Draw strips of bark that hang loose from thick wood."""
    if not len(skeleton.edges) or skeleton.radius is None:
        return
    radius = np.nan_to_num(skeleton.radius, nan=1.0)
    tail, head = skeleton.edges.T
    edge = np.flatnonzero(radius[head] > 3.5)
    edge = edge[(rng.array(len(edge)) * len(edge)).astype(np.intp)]
    count = len(edge)
    step = skeleton.nodes[tail[edge]] - skeleton.nodes[head[edge]]  # strips hang down
    along = step / np.maximum(skeleton.edge_length[edge], 1e-9)[:, None]
    normal = np.stack([along[:, 1], -along[:, 0]], axis=1)
    side = rng.array(count, 1, low=-1.05, high=1.05)
    start = skeleton.nodes[head[edge]] + step * rng.array(count, 1) + normal * side * radius[head[edge]][:, None]
    length = radius[head[edge]][:, None] * rng.array(count, 1, low=0.5, high=1.8)
    end = start + (along + normal * side * rng.array(count, 1, low=-0.05, high=0.16)) * length
    tone = np.asarray(color) * rng.array(count, 1, low=0.45, high=1.45)
    sketch.add(start, end, 0.35 + 0.05 * radius[head[edge]], 0.3, tone, 0.75)


def paint_wood(
    rng: Rng,
    canvas: Canvas,
    skeleton: Skeleton,
    wood: Wood,
    light: Daylight,
    strokes_and_arcs: tuple[Strokes, Float32Array],
    layer: Layer,
) -> None:
    """Paint the branches of a skeleton at two depths, from the deeper to the nearer.

    `strokes_and_arcs` is the result of `wood_strokes`, and `layer` has its fragments.
    """
    strokes, arcs = strokes_and_arcs
    if len(strokes) == 0:
        return
    axis = np.zeros(len(strokes), dtype=np.intp)
    if skeleton.has_explicit_axes:
        axis[: len(skeleton.edges)] = skeleton.edge_axis
    axis_count = int(axis.max()) + 1
    depth = (rng.array(axis_count + 1) * LAYERS).astype(np.int8)[axis]
    axis_brightness = (np.floor((rng.array(axis_count + 1) - 0.5) * 40) / 256 + 1)[axis].astype(np.float32)
    tile_offset = np.floor(rng.array(axis_count + 1) * noise.TILE).astype(np.int32)[axis]
    fragment_stroke = layer.fragments.stroke[layer.chosen] - np.int32(layer.first)
    fragment_depth = depth[fragment_stroke]
    is_root, at_base = np.zeros(len(skeleton), dtype=bool), np.zeros(len(strokes), dtype=bool)
    is_root[skeleton.roots] = True
    at_base[: len(skeleton.edges)] = is_root[skeleton.edges[:, 0]]
    at_base_index = np.flatnonzero(at_base[fragment_stroke])  # a trunk does not continue below the ground
    fragment_depth[at_base_index[layer.fragments.along[layer.chosen[at_base_index]] < -1]] = -1
    visible = layer.topmost_by_depth(fragment_depth, LAYERS)
    fragments = layer.take(np.concatenate(visible))
    arc = arcs[fragments.stroke] + fragments.along
    coverage = _ragged_coverage(fragments, arc, tile_offset)
    color = _colors(wood, light, strokes, fragments, arc, tile_offset, axis_brightness)
    deep_count = len(visible[0])
    color[:, :deep_count] *= 7  # deeper branches receive less light
    color[:, :deep_count] >>= 3
    for depth_slice in (slice(0, deep_count), slice(deep_count, None)):
        blend(canvas.planes, fragments.pixel[depth_slice], coverage[depth_slice], color[:, depth_slice])


def _ragged_coverage(fragments: Fragments, arc: Float32Array, tile_offset: IndexArray) -> IndexArray:
    """Return (F,) coverage 0 to 256, with an outline of thick wood that deviates to both sides of the radius."""
    coverage: IndexArray = fragments.coverage.astype(np.int32)
    thick = np.flatnonzero(fragments.radius > RAGGED_FROM_PX * (1 + RAGGEDNESS))
    across = fragments.across[thick]
    row = (arc[thick] * np.float32(0.4)).astype(np.int32) & (noise.TILE - 1)
    column = (tile_offset[fragments.stroke[thick]] + np.where(across > 0, 0, 9)) & (noise.TILE - 1)
    bump = np.minimum(np.maximum(noise.mottle()[0][row, column].astype(np.float32), np.float32(-64)), np.float32(64))
    true_radius = fragments.radius[thick] * np.float32(1 / (1 + RAGGEDNESS))
    new_coverage = (
        true_radius + true_radius * bump * np.float32(RAGGEDNESS / 64) - np.abs(across) + np.float32(0.5)
    ) * np.float32(256)
    coverage[thick] = np.minimum(np.maximum(new_coverage, np.float32(0)).astype(np.int32), coverage[thick])
    return coverage


def _colors(
    wood: Wood,
    light: Daylight,
    strokes: Strokes,
    fragments: Fragments,
    arc: Float32Array,
    tile_offset: IndexArray,
    axis_brightness: Float32Array,
) -> IndexArray:
    """Return (3,F) levels of the fragments: the colors of the wood times the light that falls on them."""
    step = strokes.end - strokes.start
    length = np.maximum(np.sqrt(step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1]), np.float32(1e-6))
    along_x, along_y = step[:, 0] / length, step[:, 1] / length
    x, y, z = (np.float32(round(v * 256) / 256) for v in light.sun_direction)
    # How much the left side of each stroke faces the sun and the sky. One gather for all values is faster than four.
    stroke_values = np.stack([along_y * x - along_x * y, along_x, axis_brightness, tile_offset.astype(np.float32)])
    facing, upward, brightness_, tile_offset_ = stroke_values.take(fragments.stroke, axis=1)
    side = fragments.across / np.maximum(fragments.radius, np.float32(0.5))
    np.minimum(np.maximum(side, np.float32(-1), out=side), np.float32(1), out=side)
    square = side * side
    front = np.sqrt(1 - square)
    direct = np.maximum(side * facing + front * z, np.float32(0)) * np.float32(light.sun * 1.1)
    sky = (np.float32(0.3) * front + np.float32(0.24) * side * upward + np.float32(0.62)) * np.float32(light.ambient)
    # Bark runs along the branch and looks narrower towards its edges.
    row = (arc + tile_offset_).astype(np.int32) & (noise.TILE - 1)
    column = (fragments.across * (square * np.float32(0.6) + 1) + tile_offset_ * 2 + noise.TILE).astype(np.int32) & (
        noise.TILE - 1
    )
    position = row * (2 * noise.TILE) + column
    grain = wood.bark[0].reshape(-1).take(position).astype(np.float32)
    thick = np.minimum(fragments.radius * np.float32(0.3), np.float32(1))
    relief = grain * (thick * np.float32(0.75 * wood.relief / 128) + np.float32(0.25 * wood.relief / 128))
    # Light from the whole sky reaches into cracks, so they are less dark than plates are bright.
    relief = np.maximum(relief, np.maximum(relief * np.float32(0.65), np.float32(-0.5))) + 1
    relief = np.minimum(relief, np.float32(1.7)) * brightness_
    sky *= relief
    direct *= relief
    if wood.lichen:
        patch = noise.rough()[0].reshape(-1).take(position).astype(np.float32) + grain * np.float32(0.3)
        lichen_share = patch * np.float32(1 / 24) + np.float32(wood.lichen * 2 - 1.5)
        lichen_share = np.minimum(np.maximum(lichen_share, np.float32(0)), np.float32(1)) * thick * np.float32(0.75)
    old = np.minimum(np.maximum(fragments.radius * np.float32(0.5) - np.float32(0.6), np.float32(0)), np.float32(1))
    levels = np.empty((3, len(fragments.pixel)), dtype=np.int32)
    for plane, young, aged, lichen, tint in zip(
        levels, wood.young, wood.old, wood.lichen_color, light.tint, strict=True
    ):
        color = old * np.float32(round(aged) - round(young)) + np.float32(round(young))
        if wood.lichen:
            color += lichen_share * (np.float32(round(lichen)) - color)
        color *= direct * np.float32(tint) + sky
        plane[:] = np.minimum(np.maximum(color, np.float32(3)), np.float32(250))
    return levels
