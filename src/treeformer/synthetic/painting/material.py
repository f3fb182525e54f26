"""Plant materials, and painting a skeleton with shading, texture, root hairs and shadow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import Float32Array, FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, snapped
from treeformer.synthetic.painting.raster import (
    Fragments,
    IndexArray,
    Layer,
    Strokes,
    blend,
    rasterize,
    rasterize_layers,
    strokes,
    union,
)
from treeformer.synthetic.rng import Rng

# A side axis starts with the radius of its parent, but at most this many times its own.
BASE_FLARE = 1.35
DEFAULT_RADIUS_PX = 1.0
MIN_COVERAGE = 1 / 32  # of the thinnest branch, whose radius is 1/64 px; thinner ones are not drawn
# Minimum contrast between a root and an even background, levels.
FAINTEST_LEVELS = 16.0
LAYERS = 2  # number of depths at which branches lie, so that they cross over and under each other


@dataclass(frozen=True, slots=True)
class Material:
    """How a plant is painted."""

    thin: Color  # color of the thinnest branches
    thick: Color  # color of the thickest branches
    shading: float = 0.0  # darkening of the side away from the light, levels
    texture: float = 0.0  # strength of the bark or skin texture
    opacity: float = 1.0  # from 0 to 1
    hairs: float = 0.0  # opacity of the fringe of root hairs, 0 for none
    hair_px: float = 0.0  # width of the fringe, px
    shadow: float = 0.0  # opacity of the shadow beside the plant, 0 for none
    variation: float = 0.0  # variation of the brightness between axes, levels
    fading: float = 0.0  # variation of the opacity along the branches, from 0 to 1
    cut_base: bool = False  # True if the plant ends flat at its base, because it stands in the ground


@dataclass(frozen=True, slots=True)
class Backdrop:
    """The background of a plant."""

    color: Color  # mean color
    unrest: float  # mean absolute deviation of the levels
    coverage: float  # share of a pixel that a branch of median thickness covers

    @property
    def level(self) -> float:
        """The mean gray level."""
        return sum(self.color) / 3


def backdrop(canvas: Canvas, skeleton: Skeleton) -> Backdrop:
    """Measure the background at the nodes of a skeleton, with integer arithmetic."""
    if len(skeleton) == 0:
        return Backdrop((128.0, 128.0, 128.0), 0.0, 1.0)
    width, height = canvas.size
    column = np.clip(skeleton.nodes[:, 0].astype(np.intp), 0, width - 1)
    row = np.clip(skeleton.nodes[:, 1].astype(np.intp), 0, height - 1)
    levels = canvas.planes[:, row, column].astype(np.int64)
    means = [int(plane.sum()) // len(row) for plane in levels]
    deviation = int(np.abs(levels[1] - means[1]).sum()) // len(row)
    thickness = 2 * np.sort(_radii(skeleton))[len(skeleton) // 2]
    coverage = float(np.clip(thickness, MIN_COVERAGE, 1.0))
    return Backdrop((float(means[0]), float(means[1]), float(means[2])), float(deviation), coverage)


def _radii(skeleton: Skeleton) -> FloatArray:
    """Return the radii (N,), px, rounded to 1/64, with the default for unknown ones."""
    if skeleton.radius is None:
        return np.full(len(skeleton), DEFAULT_RADIUS_PX)
    return np.where(np.isnan(skeleton.radius), DEFAULT_RADIUS_PX, snapped(skeleton.radius))


def plant_strokes(skeleton: Skeleton) -> Strokes:
    """Return one stroke per edge, from its first node to its second, and a dot per isolated node."""
    nodes, radius = snapped(skeleton.nodes), _radii(skeleton)
    isolated = np.flatnonzero(skeleton.degree == 0)
    tail = np.concatenate([skeleton.edges[:, 0], isolated])
    head = np.concatenate([skeleton.edges[:, 1], isolated])
    bend = _bends(skeleton, nodes)
    cap = np.stack([bend[tail], bend[head]], axis=1)
    flared = np.minimum(radius[tail], BASE_FLARE * radius[head])
    return strokes(nodes[tail], nodes[head], flared, radius[head], 1.0, cap)


def node_radii(skeleton: Skeleton, start_radius: Float32Array, end_radius: Float32Array) -> FloatArray:
    """Return the radius (N,) at each node from the radii (S,) of the strokes that `plant_strokes` returns.

    At a junction it is that of the axis that leads to the node, and at a base that of its thickest axis.
    """
    radius = np.zeros(len(skeleton))
    tail, head = skeleton.edges.T
    isolated = np.flatnonzero(skeleton.degree == 0)
    np.maximum.at(radius, np.concatenate([tail, isolated]), start_radius)
    radius[head] = 0.0
    np.maximum.at(radius, head, end_radius[: len(head)])
    return radius


def _bends(skeleton: Skeleton, nodes: FloatArray) -> FloatArray:
    """Return (N,) the sine of the turn at nodes where one edge continues another, and 1 at all other nodes."""
    tail, head = skeleton.edges.T
    incoming = np.full(len(nodes), -1)
    incoming[head] = np.arange(len(head))
    # Edges that continue another edge at a node of degree 2.
    after = np.flatnonzero((skeleton.degree[tail] == 2) & (incoming[tail] >= 0))
    step = nodes[head] - nodes[tail]
    (x, y), (next_x, next_y) = step[incoming[tail[after]]].T, step[after].T
    lengths = np.sqrt((x * x + y * y) * (next_x * next_x + next_y * next_y))
    gentle = x * next_x + y * next_y > 0.5 * lengths
    bend = np.ones(len(nodes))
    bend[tail[after]] = np.where(gentle, np.abs(x * next_y - y * next_x) / np.maximum(lengths, 1e-9), 1.0)
    return bend


def root_material(rng: Rng, behind: Backdrop, scale: float) -> Material:
    """Draw the material of a root: mostly paler than the background, with strong or weak contrast.

    The scale here and below is that of the image relative to 512 px.
    """
    level = behind.level
    opacity = rng.uniform(0.65, 1.0)
    # Weak contrast is allowed, but thin and translucent roots must remain distinguishable from the background.
    faintest = (FAINTEST_LEVELS + 1.2 * behind.unrest) / (opacity * behind.coverage)
    contrast = max(rng.uniform(18, 50) if rng.chance(0.2) else rng.uniform(50, 170), faintest)
    # Roots are paler than a dark background and darker than a bright one; in between both occur.
    paler = rng.chance(0.95 if level < 150 else 0.5 if level < 190 else 0.12)
    target = min(level + contrast, 250.0) if paler else max(level - contrast, 8.0)
    if abs(target - level) < min(contrast, 25.0):  # no room in this direction
        target = level - contrast if paler else level + contrast
    warm = rng.uniform(-6, 26)
    # Roots are translucent and take on some of the background's tint.
    red, green, blue = (rng.uniform(0.0, 0.25) * (channel - level) for channel in behind.color)
    thin: Color = (target + 0.5 * warm + red, target + green, target - warm + blue)
    darker = rng.uniform(-8, 20)
    return Material(
        thin=thin,
        thick=(thin[0] - darker, thin[1] - darker, thin[2] - darker),
        shading=rng.uniform(0, 25),
        texture=rng.uniform(0.0, 0.25),
        opacity=opacity,
        hairs=rng.uniform(0.1, 0.6) if rng.chance(0.35) else 0.0,
        hair_px=rng.uniform(1.5, 7.0) * scale,
        shadow=rng.uniform(0.08, 0.4) if rng.chance(0.4) else 0.0,
        variation=rng.uniform(0, 14),
        fading=rng.uniform(0.0, 0.4) if contrast > 2 * faintest else 0.0,
    )


def wood_material(rng: Rng, behind: Backdrop, scale: float) -> Material:
    """Draw the material of wood: brown or gray bark, dark against the sky, with redder young wood."""
    level = behind.level
    against_light = rng.chance(0.5 if level > 130 else 0.15)
    bark = rng.uniform(10, 50) if against_light else rng.uniform(45, 165)
    if not against_light and abs(bark - level) < 25:
        bark = max(level - 40.0, 12.0) if level > 70 else level + 45.0
    red = rng.uniform(0.0, 0.18) if not against_light else rng.uniform(0.0, 0.08)
    thick = (bark * (1 + red), bark, bark * (1 - red))
    young = bark * rng.uniform(0.75, 1.45)
    if abs(young - level) < 25:
        young = bark
    young_red = red + rng.uniform(0.0, 0.2)
    thin = (young * (1 + young_red), young, young * (1 - 1.2 * young_red))
    return Material(
        thin=thin,
        thick=thick,
        shading=bark * rng.uniform(0.15, 0.55),
        texture=bark / 100 * rng.uniform(0.15, 0.8),
        shadow=rng.uniform(0.1, 0.3) if rng.chance(0.2) else 0.0,
        variation=bark * rng.uniform(0.0, 0.15),
        cut_base=True,
    )


def drawing_material(rng: Rng, behind: Backdrop, scale: float) -> Material:
    """Draw a material of any color, such as ink, wire or cord, for the paper's line trees."""
    if rng.chance(0.5):
        return rng.choice((root_material, wood_material))(rng, behind, scale)
    level = behind.level
    target = level + rng.uniform(45, 180) * (1 if level < 128 else -1)
    color: Color = (target + rng.uniform(-50, 50), target + rng.uniform(-50, 50), target + rng.uniform(-50, 50))
    return Material(thin=color, thick=color, shading=rng.uniform(0, 30), shadow=rng.uniform(0, 0.3))


def paint_plant(
    rng: Rng,
    canvas: Canvas,
    skeleton: Skeleton,
    material: Material,
    drawn: Strokes | None = None,
    layer: Layer | None = None,
) -> None:
    """Paint a skeleton: first the root hairs, then the shadow, then the branches by depth.

    `drawn`, the result of `plant_strokes`, and its fragments may be given if they were computed before.
    """
    drawn = plant_strokes(skeleton) if drawn is None else drawn
    if len(drawn) == 0:
        return
    angle = rng.uniform(0, 2 * math.pi)
    light = (math.floor(math.cos(angle) * 256) / 256, math.floor(math.sin(angle) * 256) / 256)
    if material.hairs:
        _hairs(rng, canvas, drawn, material)

    axis = np.zeros(len(drawn), dtype=np.intp)
    if skeleton.has_explicit_axes:
        axis[: len(skeleton.edges)] = skeleton.edge_axis
    axes = int(axis.max()) + 1
    stroke_depth = (rng.array(axes + 1) * LAYERS).astype(np.int8)[axis]
    lighter = np.floor((rng.array(axes + 1) - 0.5) * 2 * material.variation)[axis].astype(np.float32)

    layer = rasterize_layers([drawn], canvas.size)[0] if layer is None else layer
    stroke = layer.fragments.stroke[layer.chosen] - np.int32(layer.first)
    depth = stroke_depth[stroke]
    if material.cut_base:
        # A trunk stands in the ground, so the round cap below its base is not drawn.
        at_base = np.zeros(len(drawn), dtype=bool)
        at_base[: len(skeleton.edges)] = np.isin(skeleton.edges[:, 0], skeleton.roots)
        base_fragments = np.flatnonzero(at_base[stroke])
        depth[base_fragments[layer.fragments.along[layer.chosen[base_fragments]] < 0]] = -1
    if material.shadow:
        _shadow(rng, canvas, layer.union(), light, material.shadow)
    side = _lit_side(drawn, light)
    bark = noise.window(noise.rough(), rng, canvas.size)
    coarse = noise.window(noise.clouds(), rng, canvas.size)
    thickest = float(max(drawn.start_radius.max(), drawn.end_radius.max(), np.float32(1)))
    visible_by_depth = layer.topmost_by_depth(depth, LAYERS)
    visible = layer.take(np.concatenate(visible_by_depth))
    color = _colors(canvas, visible, material, thickest, side, lighter, bark)
    coverage = (visible.coverage * _opacity(canvas, visible.pixel, material, coarse)) >> 8
    begin = 0
    for visible_at_depth in visible_by_depth:
        end = begin + len(visible_at_depth)
        blend(canvas.planes, visible.pixel[begin:end], coverage[begin:end], color[:, begin:end])
        begin = end


def _lit_side(drawn: Strokes, light: tuple[float, float]) -> Float32Array:
    """Return (S,) how much the left side of each stroke faces the light, from -1 to 1."""
    step = drawn.end - drawn.start
    length = np.sqrt(step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1])
    facing = step[:, 1] * np.float32(light[0]) - step[:, 0] * np.float32(light[1])
    return facing / np.maximum(length, np.float32(1e-6))  # type: ignore[no-any-return]


def _colors(
    canvas: Canvas,
    fragments: Fragments,
    material: Material,
    thickest: float,
    side: Float32Array,
    lighter: Float32Array,
    bark: noise.Int8Array,
) -> IndexArray:
    """Return (3,F) the levels of the branches' pixels."""
    across = fragments.across / np.maximum(fragments.radius, np.float32(0.5))
    np.minimum(np.maximum(across, np.float32(-1), out=across), np.float32(1), out=across)
    # Shading increases with the radius, because a thin branch looks flat.
    strength = np.minimum(fragments.radius * np.float32(0.4), np.float32(1)) * np.float32(material.shading)
    facing = across * side[fragments.stroke] - across * across * np.float32(0.5)
    shade = strength * facing + lighter[fragments.stroke]
    if material.texture:
        shade += _at(bark, fragments.pixel, canvas).astype(np.float32) * np.float32(material.texture)
    relative_radius = np.minimum(fragments.radius / np.float32(thickest), np.float32(1))
    levels = np.empty((3, len(fragments.pixel)), dtype=np.int32)
    for plane, thin, thick in zip(levels, material.thin, material.thick, strict=True):
        value = relative_radius * np.float32(round(thick - thin))
        value += shade
        value += np.float32(round(thin))
        np.minimum(np.maximum(value, np.float32(0), out=value), np.float32(255), out=value)
        plane[:] = value
    return levels


def _opacity(canvas: Canvas, pixel: IndexArray, material: Material, coarse: noise.Int8Array) -> IndexArray:
    """Return (F,) the opacity of pixels, from 0 to 256."""
    opacity = np.full(len(pixel), round(material.opacity * 256), dtype=np.int32)
    if material.fading:
        opacity -= np.abs(_at(coarse, pixel, canvas).astype(np.int32) * round(material.fading * 256) >> 6)
        np.clip(opacity, 40, 256, out=opacity)
    return opacity


def _at(texture: noise.Int8Array, pixel: IndexArray, canvas: Canvas) -> noise.Int8Array:
    """Return (F,) the values of a texture (height, width) at pixels."""
    row = pixel // canvas.size[0]
    values: noise.Int8Array = texture[row, pixel - row * canvas.size[0]]
    return values


def _shadow(rng: Rng, canvas: Canvas, shape: Fragments, light: tuple[float, float], strength: float) -> None:
    """Paint the shape of the plant dark, shifted a few whole pixels away from the light; fainter one pixel further."""
    width, height = canvas.size
    row = shape.pixel // width
    column = shape.pixel - row * width
    reach = rng.uniform(1.0, 4.0)
    for step, share in ((reach, 0.6), (reach + 1.0, 0.4)):
        x, y = column - round(light[0] * step), row - round(light[1] * step)
        kept = np.flatnonzero((x >= 0) & (x < width) & (y >= 0) & (y < height))
        coverage = (shape.coverage[kept].astype(np.int32) * round(strength * share * 256)) >> 8
        blend(canvas.planes, (y * width + x)[kept], coverage, np.asarray((8, 8, 12)))


def _hairs(rng: Rng, canvas: Canvas, drawn: Strokes, material: Material) -> None:
    """Paint a pale fringe along most strokes, broken up by fine noise, at half the resolution because it is soft."""
    width, height = canvas.size
    hairy = np.flatnonzero(rng.array(len(drawn)) < 0.9)
    reach = np.float32(snapped(material.hair_px))
    fringe = strokes(
        drawn.start[hairy] / 2,
        drawn.end[hairy] / 2,
        (drawn.start_radius[hairy] + np.float32(0.4) * reach) / 2,
        (drawn.end_radius[hairy] + np.float32(0.4) * reach) / 2,
        np.maximum((1 + reach) / 2, np.float32(1)),
    )
    fragments = union(rasterize(fringe, ((width + 1) // 2, (height + 1) // 2)))
    row = fragments.pixel // ((width + 1) // 2)
    column = fragments.pixel - row * ((width + 1) // 2)
    pixel = row * (2 * width) + column * 2
    complete = (row * 2 + 1 < height) & (column * 2 + 1 < width)  # all four pixels are in the image
    pixel = (pixel[complete] + np.asarray([[0], [1], [width], [width + 1]], dtype=np.int32)).reshape(-1)
    gaps = _at(noise.window(noise.grain(), rng, canvas.size), pixel, canvas).astype(np.int32) + 64
    coverage = np.tile(fragments.coverage[complete], 4)
    coverage = (coverage * np.clip(gaps, 0, 160) >> 7) * round(material.hairs * 256) >> 8
    blend(canvas.planes, pixel, np.minimum(coverage, 256), np.asarray(material.thin).astype(np.int32))
