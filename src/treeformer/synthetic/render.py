"""The two looks of a skeleton: plain lines as in the paper, and images that could be photographs."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise, optics
from treeformer.synthetic.painting.canvas import Canvas, Sketch
from treeformer.synthetic.painting.material import (
    Backdrop,
    Material,
    backdrop,
    drawing_material,
    paint_plant,
    plant_strokes,
    root_material,
    wood_material,
)
from treeformer.synthetic.painting.raster import FULL, rasterize, rasterize_layers, union
from treeformer.synthetic.plants.plate_rows import PLATE_KINDS
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes import clutter, lab
from treeformer.synthetic.scenes.outdoor import simple_scene as outdoors
from treeformer.synthetic.scenes.outdoor.crown import Crown, crown_around
from treeformer.synthetic.scenes.outdoor.scene import OutdoorScene
from treeformer.synthetic.scenes.plate.scene import PlateScene

STYLES = ("paper", "photo")
DEFAULT_SIZE = (512, 512)
LINE_LEVEL, PAGE_LEVEL = 0, 255
JPEG_SHARE = 0.2
OUTDOOR_JPEG_SHARE = 0.06

PaintScene = Callable[[Rng, Canvas, FloatArray], Sketch]

SCENES: dict[str, PaintScene] = {
    "blue paper": lab.blue_paper,
    "gray paper": lab.gray_paper,
    "agar": lab.agar,
    "scanner": lab.scanner,
    "soil": lab.soil,
    "wall": lab.wall,
    "orchard": outdoors.orchard,
    "field": outdoors.field,
}
# How likely each scene is for a kind of plant: what fits is likely, and everything is possible.
SCENE_WEIGHTS: dict[str, dict[str, float]] = {
    "taproot": {"blue paper": 9, "agar": 8, "gray paper": 3, "scanner": 3, "soil": 3, "wall": 1},
    "seedling": {"gray paper": 11, "blue paper": 4, "agar": 4, "scanner": 3, "soil": 2, "wall": 1},
    "vine": {"field": 10, "orchard": 4, "wall": 4, "scanner": 1, "soil": 1},
    "orchard": {"orchard": 11, "field": 4, "wall": 2, "scanner": 1, "soil": 0.5},
}
SCREEN_SHARE = 0.04  # of the trees and vines are seen before a screen
ANY_SCENE = dict.fromkeys(SCENES, 1.0)
ROOT_KINDS, WOOD_KINDS = ("taproot", "seedling"), ("vine", "orchard")
MATERIALS: dict[str, Callable[[Rng, Backdrop, float], Material]] = {
    "root": root_material,
    "wood": wood_material,
    "drawing": drawing_material,
}


def render(skeleton: Skeleton, style: str, seed: int) -> ImageArray:
    """An image (height, width, 3) of a skeleton; without an image size it is 512×512.

    The drawn lines lie on the skeleton's edges exactly: no effect moves them.

    >>> render(Skeleton([(8, 8), (8, 24)], [(0, 1)], image_size=(32, 32)), "paper", 0).shape
    (32, 32, 3)
    """
    if style not in STYLES:
        raise TreeformerError(f"no look {style!r}: choose one of {', '.join(STYLES)}")
    if seed < 0:
        raise TreeformerError(f"a seed is zero or more, not {seed}")
    if style == "paper":
        return line_drawing(skeleton)
    # One seed shows each preset in another scene.
    what = f"photo {skeleton.metadata.get('preset', '')} {kind_of(skeleton)}"
    return photograph(skeleton, Rng(zlib.crc32(what.encode()), seed))


def kind_of(skeleton: Skeleton) -> str:
    """What grows there, as the generator noted it: "taproot", "vine", "rosette" …, or "" if unknown."""
    return str(skeleton.metadata.get("kind", ""))


def line_drawing(skeleton: Skeleton) -> ImageArray:
    """Black lines on white: one gray plane, which is then all three."""
    width, height = skeleton.image_size or DEFAULT_SIZE
    found = union(rasterize(plant_strokes(skeleton), (width, height)))
    gray = np.full(width * height, PAGE_LEVEL, dtype=np.uint8)
    ink = found.coverage.astype(np.int32)
    ink *= LINE_LEVEL - PAGE_LEVEL
    ink += FULL // 2
    ink >>= 8
    gray[found.pixel] = (ink + PAGE_LEVEL).astype(np.uint8)
    image = np.empty((height, width, 3), dtype=np.uint8)
    levels = image.reshape(-1)  # one long line is filled twice as fast as row by row
    for channel in range(3):
        levels[channel::3] = gray
    return image


def photograph(skeleton: Skeleton, rng: Rng) -> ImageArray:
    """A scene, the plant in it, what lies in front, then light, lens and camera, all drawn from the dice."""
    canvas = Canvas(skeleton.image_size or DEFAULT_SIZE, None)  # each scene paints all of it
    kind = kind_of(skeleton)
    if kind in WOOD_KINDS and skeleton.metadata.get("preset") != "several":
        return _outdoors(rng, canvas, skeleton, kind)
    if kind in PLATE_KINDS:
        return _on_a_plate(rng, canvas, skeleton, kind)
    weights = ANY_SCENE if rng.chance(0.08) else SCENE_WEIGHTS.get(kind, ANY_SCENE)
    scene = rng.weighted(tuple(weights.items()))
    bases = skeleton.nodes[skeleton.component_root]
    behind = SCENES[scene](rng, canvas, bases)
    trellis = kind == "vine" and len(skeleton) > 0 and rng.chance(0.8)
    wires = _wires(rng, canvas, skeleton) if trellis else Sketch()
    front = _in_front(rng, canvas, skeleton, kind, bases)
    # All strokes of the image at once; each set is then drawn in its turn.
    plant = plant_strokes(skeleton)
    sets = (behind.strokes(), wires.strokes(), plant, front.strokes())
    of_behind, of_wires, of_plant, of_front = rasterize_layers(sets, canvas.size)

    behind.draw(canvas, of_behind)
    crown = _crown(rng, canvas, skeleton, kind)
    if crown is not None:
        crown.paint(rng, canvas, 0, 0.75)  # the leaves behind the branches lie in shade
    material = MATERIALS[_material_of(rng, kind)](rng, backdrop(canvas, skeleton), canvas.scale)
    if trellis:
        clutter.posts(rng, canvas, rng.whole(0, 2))
    wires.draw(canvas, of_wires)
    paint_plant(rng, canvas, skeleton, material, plant, of_plant)
    if crown is not None:
        if rng.chance(0.6):
            crown.cast_shade(canvas, rng.whole(4, 24))
        crown.paint(rng, canvas, rng.whole(10, 60), 1.0)
    front.draw(canvas, of_front)
    _hold_before(rng, canvas)

    optics.lens(rng, canvas)
    image = optics.expose(rng, canvas)
    return optics.jpeg(image, rng.whole(35, 95)) if rng.chance(JPEG_SHARE) else image


def _outdoors(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> ImageArray:
    """A tree or vine where it grows, now and then before a screen, and the camera that people carry there."""
    scene = OutdoorScene(rng, canvas, skeleton, kind)
    if rng.chance(SCREEN_SHARE):
        scene.paint_screen()
    else:
        scene.paint_land()
    scene.paint_plant()
    optics.outdoor_lens(rng, canvas)
    image = optics.expose(rng, canvas, optics.outdoor_camera(rng, canvas))
    return optics.jpeg(image, rng.whole(55, 95)) if rng.chance(OUTDOOR_JPEG_SHARE) else image


def _on_a_plate(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> ImageArray:
    """Seedlings in a dish of agar, mostly taken with a good camera."""
    scene = PlateScene(rng, canvas, skeleton, kind)
    scene.paint_dish()
    scene.paint_seedlings()
    optics.outdoor_lens(rng, canvas)
    image = optics.expose(rng, canvas, optics.outdoor_camera(rng, canvas) if rng.chance(0.8) else None)
    return optics.jpeg(image, rng.whole(50, 95)) if rng.chance(JPEG_SHARE) else image


def _material_of(rng: Rng, kind: str) -> str:
    fitting = "root" if kind in ROOT_KINDS else "wood" if kind in WOOD_KINDS else "drawing"
    return rng.choice(tuple(MATERIALS)) if rng.chance(0.05) else fitting


def _crown(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> Crown | None:
    """Leaves around the thin branches, from a few tufts to a full crown, or none."""
    if kind not in WOOD_KINDS or len(skeleton) == 0 or rng.chance(0.55 if kind == "vine" else 0.4):
        return None
    radius = skeleton.radius if skeleton.radius is not None else np.ones(len(skeleton))
    thin = skeleton.nodes[~(radius > max(1.0, float(np.nanmax(radius, initial=0.0)) * 0.5))]
    fullness = rng.uniform(0.0, 0.5) if kind == "vine" or rng.chance(0.4) else rng.uniform(0.3, 1.0)
    return crown_around(rng, canvas, thin, fullness)


def _wires(rng: Rng, canvas: Canvas, skeleton: Skeleton) -> Sketch:
    """The wires of a trellis, at the height of the arms and above."""
    top, bottom = float(skeleton.nodes[:, 1].min()), float(skeleton.nodes[:, 1].max())
    sketch = Sketch()
    heights = top + (bottom - top) * rng.array(rng.whole(1, 4), low=0.0, high=0.7)
    clutter.wires(rng, canvas, sketch, heights.tolist())
    return sketch


def _in_front(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str, bases: FloatArray) -> Sketch:
    """Seeds and shoots, leaves, grass, scratches, cords: what hides a part of the plant or lies beside it."""
    width, height = canvas.size
    sketch = Sketch()
    if kind == "seedling" and rng.chance(0.85):
        size_px = rng.uniform(6, 20) * canvas.scale
        for base in bases.tolist():
            clutter.seed_grain(rng, canvas, sketch, base, size_px * rng.uniform(0.85, 1.15))
    elif kind == "taproot" and rng.chance(0.5):
        size_px = rng.uniform(5, 22) * canvas.scale
        for base in bases.tolist():
            clutter.rosette(rng, sketch, base, size_px * rng.uniform(0.8, 1.2))
    elif kind in WOOD_KINDS and len(skeleton):
        if rng.chance(0.35):
            leaf_px = rng.uniform(2.5, 9) * canvas.scale
            clutter.scatter_leaves(rng, sketch, skeleton.nodes, rng.whole(5, 60), leaf_px, (70, 105, 40), leaf_px * 2)
        if rng.chance(0.5):
            clutter.grass_tufts(rng, canvas, sketch, bases)
    if rng.chance(0.3):
        clutter.scratches(rng, canvas, sketch, rng.whole(1, 6))
    if rng.chance(0.04):  # a cord or a hose across
        path = ((0, height * rng.fraction()), (width, height * rng.fraction()))
        radius = rng.uniform(1, 6) * canvas.scale
        sketch.line(path, radius, rng.uniform(10, 240), rng.uniform(0.3, 0.9), softness=rng.uniform(1, 6))
    return sketch


def _hold_before(rng: Rng, canvas: Canvas) -> None:
    """Now and then a thing or a reflection before everything else."""
    width, height = canvas.size
    if rng.chance(0.06):  # something held or fallen in front
        x, y, side = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(10, 60) * canvas.scale
        level = rng.uniform(20, 230)
        box = (x, y, x + side, y + side * rng.uniform(0.4, 2.0))
        canvas.box(box, (level, level, level * rng.uniform(0.8, 1.1)), rng.uniform(0.5, 1.0))
    if rng.chance(0.08):  # a reflection
        glare = noise.soft_map(rng, (5, 5), canvas.size, 0, 255)
        glare -= np.int16(rng.whole(150, 200))
        np.clip(glare, 0, 60, out=glare)
        canvas.add(glare, (1.0, 1.0, 1.0))
