"""The two styles of an image: line drawings as in the paper, and simulated photographs."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise, optics
from treeformer.synthetic.painting.canvas import Canvas, Sketch, snapped
from treeformer.synthetic.painting.material import (
    Backdrop,
    Material,
    backdrop,
    drawing_material,
    node_radii,
    paint_plant,
    plant_strokes,
    root_material,
    wood_material,
)
from treeformer.synthetic.painting.raster import FULL, rasterize, rasterize_layers, union
from treeformer.synthetic.plants.plate_rows import PLATE_KINDS
from treeformer.synthetic.presets import EMPTY_SCENES, OUTDOOR_ROWS, check_seed
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes import clutter, lab
from treeformer.synthetic.scenes.outdoor import simple_scene as outdoors
from treeformer.synthetic.scenes.outdoor.bark import wood_radii
from treeformer.synthetic.scenes.outdoor.crown import Crown, crown_around
from treeformer.synthetic.scenes.outdoor.row_scene import RowScene
from treeformer.synthetic.scenes.outdoor.scene import OutdoorScene
from treeformer.synthetic.scenes.plate.rosette_scene import RosettePlateScene
from treeformer.synthetic.scenes.plate.scene import PlateScene
from treeformer.synthetic.scenes.potted import PottedScene

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
# Weight of each scene per kind of plant. Fitting scenes are likely; `photograph` sometimes draws from all scenes.
SCENE_WEIGHTS: dict[str, dict[str, float]] = {
    "taproot": {"blue paper": 9, "agar": 8, "gray paper": 3, "scanner": 3, "soil": 3, "wall": 1},
    "seedling": {"gray paper": 11, "blue paper": 4, "agar": 4, "scanner": 3, "soil": 2, "wall": 1},
    "vine": {"field": 10, "orchard": 4, "wall": 4, "scanner": 1, "soil": 1},
    "orchard": {"orchard": 11, "field": 4, "wall": 2, "scanner": 1, "soil": 0.5},
}
SCREEN_SHARE = 0.04  # share of trees and vines that stand in front of a screen
ANY_SCENE = dict.fromkeys(SCENES, 1.0)
ROOT_KINDS, WOOD_KINDS = ("taproot", "seedling"), ("vine", "orchard")
POTTED_KIND = "shoot"
MATERIALS: dict[str, Callable[[Rng, Backdrop, float], Material]] = {
    "root": root_material,
    "wood": wood_material,
    "drawing": drawing_material,
}


def render(skeleton: Skeleton, style: str, seed: int) -> ImageArray:
    """Render an image of a skeleton.

    The drawn lines lie exactly on the edges of the skeleton; no effect moves them.

    >>> render(Skeleton([(8, 8), (8, 24)], [(0, 1)], image_size=(32, 32)), "paper", 0).shape
    (32, 32, 3)

    Args:
        skeleton: The plant. The image has its size, or 512×512 px if it has none.
        style: How to draw it, one of `STYLES`.
        seed: Zero or more; selects the scene of style "photo".

    Returns:
        (height, width, 3).

    Raises:
        TreeformerError: If the style or seed is invalid.
    """
    if style not in STYLES:
        raise TreeformerError(f"unknown style {style!r}: choose one of {', '.join(STYLES)}")
    check_seed(seed)
    if style == "paper":
        return line_drawing(skeleton)
    # The key includes the preset, so that one seed gives a different scene for each preset.
    key = f"photo {skeleton.metadata.get('preset', '')} {plant_kind(skeleton)}"
    return photograph(skeleton, Rng(zlib.crc32(key.encode()), seed))


def plant_kind(skeleton: Skeleton) -> str:
    """Return the kind of plant that the generator recorded, such as "taproot" or "vine", or "" if unknown."""
    return str(skeleton.metadata.get("kind", ""))


def drawn_radius(skeleton: Skeleton, style: str) -> FloatArray:
    """Return the radius at which `render` draws a skeleton.

    It differs from `Skeleton.radius` at the foot of a trunk outdoors, which is wider than the growth model makes it,
    and at bases whose axes are thinner.

    >>> drawn_radius(Skeleton([(8, 8), (8, 24)], [(0, 1)], radius=[2, 2]), "paper").tolist()
    [2.0, 2.0]

    Args:
        skeleton: The plant.
        style: How it is drawn, one of `STYLES`.

    Returns:
        (N,) px, multiples of 1/64.
    """
    if style == "photo" and _is_outdoors(skeleton):
        return snapped(wood_radii(skeleton))
    strokes = plant_strokes(skeleton)
    return snapped(node_radii(skeleton, strokes.start_radius, strokes.end_radius))


def _is_outdoors(skeleton: Skeleton) -> bool:
    """Return True if a plant has an outdoor scene of its own."""
    return plant_kind(skeleton) in WOOD_KINDS and skeleton.metadata.get("preset") != "several"


def line_drawing(skeleton: Skeleton) -> ImageArray:
    """Draw black lines on white, (height, width, 3)."""
    width, height = skeleton.image_size or DEFAULT_SIZE
    fragments = union(rasterize(plant_strokes(skeleton), (width, height)))
    gray = np.full(width * height, PAGE_LEVEL, dtype=np.uint8)
    ink = fragments.coverage.astype(np.int32)
    ink *= LINE_LEVEL - PAGE_LEVEL
    ink += FULL // 2
    ink >>= 8
    gray[fragments.pixel] = (ink + PAGE_LEVEL).astype(np.uint8)
    image = np.empty((height, width, 3), dtype=np.uint8)
    levels = image.reshape(-1)  # filling one flat array is twice as fast as row by row
    for channel in range(3):
        levels[channel::3] = gray
    return image


def photograph(skeleton: Skeleton, rng: Rng) -> ImageArray:
    """Simulate a photograph: a scene, the plant, objects in front of it, then light, lens and camera."""
    canvas = Canvas(skeleton.image_size or DEFAULT_SIZE, None)  # every scene paints the whole canvas
    kind = plant_kind(skeleton)
    empty_scene = str(skeleton.metadata.get("scene", ""))
    if empty_scene in EMPTY_SCENES and len(skeleton) == 0:
        return _photograph_without_plant(rng, canvas, skeleton, empty_scene)
    if _is_outdoors(skeleton):
        return _photograph_outdoors(rng, canvas, skeleton, kind)
    if kind == POTTED_KIND:
        return _photograph_pot(rng, canvas, skeleton)
    if kind in PLATE_KINDS:
        return _photograph_plate(rng, canvas, skeleton, kind)
    weights = ANY_SCENE if rng.chance(0.08) else SCENE_WEIGHTS.get(kind, ANY_SCENE)
    return _photograph_indoors(rng, canvas, skeleton, kind, rng.weighted(tuple(weights.items())))


def _photograph_indoors(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str, scene: str) -> ImageArray:
    """Photograph plants in one of `SCENES`."""
    bases = skeleton.nodes[skeleton.component_root]
    behind = SCENES[scene](rng, canvas, bases)
    has_trellis = kind == "vine" and len(skeleton) > 0 and rng.chance(0.8)
    wires = _wires(rng, canvas, skeleton) if has_trellis else Sketch()
    front = _in_front(rng, canvas, skeleton, kind, bases)
    # All strokes of the image are rasterized at once; the layers are then drawn one after another.
    plant = plant_strokes(skeleton)
    sets = (behind.strokes(), wires.strokes(), plant, front.strokes())
    behind_layer, wire_layer, plant_layer, front_layer = rasterize_layers(sets, canvas.size)

    behind.draw(canvas, behind_layer)
    crown = _crown(rng, canvas, skeleton, kind)
    if crown is not None:
        crown.paint(rng, canvas, 0, 0.75)  # leaves behind the branches are in the shade
    material = MATERIALS[_material_name(rng, kind)](rng, backdrop(canvas, skeleton), canvas.scale)
    if has_trellis:
        clutter.posts(rng, canvas, rng.whole(0, 2))
    wires.draw(canvas, wire_layer)
    paint_plant(rng, canvas, skeleton, material, plant, plant_layer)
    if crown is not None:
        if rng.chance(0.6):
            crown.cast_shade(canvas, rng.whole(4, 24))
        crown.paint(rng, canvas, rng.whole(10, 60), 1.0)
    front.draw(canvas, front_layer)
    _paint_foreground(rng, canvas)

    optics.lens(rng, canvas)
    image = optics.expose(rng, canvas)
    return optics.jpeg(image, rng.whole(35, 95)) if rng.chance(JPEG_SHARE) else image


def _photograph_without_plant(rng: Rng, canvas: Canvas, skeleton: Skeleton, scene: str) -> ImageArray:
    """Photograph one of `EMPTY_SCENES`."""
    if scene in SCENES:
        return _photograph_indoors(rng, canvas, skeleton, "", scene)
    if scene == "pot":
        return _photograph_pot(rng, canvas, skeleton)
    if scene == "dish":
        return _finish_plate(rng, canvas, PlateScene(rng, canvas, skeleton, rng.choice(PLATE_KINDS)))
    if scene == "rosette dish":
        return _finish_plate(rng, canvas, RosettePlateScene(rng, canvas, skeleton, "rosette"))
    kind = {"vine land": "vine", "orchard land": "orchard", "orchard rows": "orchard", "vine rows": "vine"}.get(scene)
    painter = (RowScene if scene.endswith("rows") else OutdoorScene)(
        rng, canvas, skeleton, kind or rng.choice(WOOD_KINDS)
    )
    if scene == "screen":
        painter.paint_screen()
    else:
        painter.paint_land()
    return _finish_outdoors(rng, canvas, painter)


def _photograph_outdoors(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> ImageArray:
    """Photograph a tree or vine in an orchard or vineyard, rarely in front of a screen, with a good camera."""
    if skeleton.metadata.get("preset") in OUTDOOR_ROWS:
        scene: OutdoorScene = RowScene(rng, canvas, skeleton, kind)
        scene.paint_land()
        return _finish_outdoors(rng, canvas, scene)
    scene = OutdoorScene(rng, canvas, skeleton, kind)
    if rng.chance(SCREEN_SHARE):
        scene.paint_screen()
    else:
        scene.paint_land()
    return _finish_outdoors(rng, canvas, scene)


def _finish_outdoors(rng: Rng, canvas: Canvas, scene: OutdoorScene) -> ImageArray:
    """Paint the plant on its background and take the photograph."""
    scene.paint_plant()
    optics.outdoor_lens(rng, canvas)
    image = optics.expose(rng, canvas, optics.outdoor_camera(rng, canvas))
    return optics.jpeg(image, rng.whole(55, 95)) if rng.chance(OUTDOOR_JPEG_SHARE) else image


def _photograph_plate(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> ImageArray:
    """Photograph seedlings in a dish of agar, mostly with a good camera."""
    older = skeleton.metadata.get("preset") == "plate-rosette"
    return _finish_plate(rng, canvas, (RosettePlateScene if older else PlateScene)(rng, canvas, skeleton, kind))


def _finish_plate(rng: Rng, canvas: Canvas, scene: PlateScene) -> ImageArray:
    """Paint a dish with its seedlings and take the photograph."""
    scene.paint_dish()
    scene.paint_seedlings()
    optics.outdoor_lens(rng, canvas)
    image = optics.expose(rng, canvas, optics.outdoor_camera(rng, canvas) if rng.chance(0.8) else None)
    return optics.jpeg(image, rng.whole(50, 95)) if rng.chance(JPEG_SHARE) else image


def _photograph_pot(rng: Rng, canvas: Canvas, skeleton: Skeleton) -> ImageArray:
    """Photograph a potted plant indoors, with any camera."""
    scene = PottedScene(rng, canvas, skeleton)
    scene.paint_room()
    scene.paint_plant()
    optics.outdoor_lens(rng, canvas)
    image = optics.expose(rng, canvas, optics.outdoor_camera(rng, canvas) if rng.chance(0.5) else None)
    return optics.jpeg(image, rng.whole(50, 95)) if rng.chance(JPEG_SHARE) else image


def _material_name(rng: Rng, kind: str) -> str:
    """Draw a material: mostly the one that fits the kind of plant, rarely any."""
    fitting = "root" if kind in ROOT_KINDS else "wood" if kind in WOOD_KINDS else "drawing"
    return rng.choice(tuple(MATERIALS)) if rng.chance(0.05) else fitting


def _crown(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> Crown | None:
    """Draw leaves around the thin branches, from a few tufts to a full crown, or return None for a bare plant."""
    if kind not in WOOD_KINDS or len(skeleton) == 0 or rng.chance(0.55 if kind == "vine" else 0.4):
        return None
    radius = skeleton.radius if skeleton.radius is not None else np.ones(len(skeleton))
    thin = skeleton.nodes[~(radius > max(1.0, float(np.nanmax(radius, initial=0.0)) * 0.5))]
    fullness = rng.uniform(0.0, 0.5) if kind == "vine" or rng.chance(0.4) else rng.uniform(0.3, 1.0)
    return crown_around(rng, canvas, thin, fullness)


def _wires(rng: Rng, canvas: Canvas, skeleton: Skeleton) -> Sketch:
    """Sketch the wires of a trellis, at the height of the arms and above."""
    top, bottom = float(skeleton.nodes[:, 1].min()), float(skeleton.nodes[:, 1].max())
    sketch = Sketch()
    heights = top + (bottom - top) * rng.array(rng.whole(1, 4), low=0.0, high=0.7)
    clutter.wires(rng, canvas, sketch, heights.tolist())
    return sketch


def _in_front(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str, bases: FloatArray) -> Sketch:
    """Sketch objects that hide a part of the plant or lie beside it: seeds, shoots, leaves, grass, scratches, cords."""
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
    if rng.chance(0.04):  # a cord or a hose across the image
        path = ((0, height * rng.fraction()), (width, height * rng.fraction()))
        radius = rng.uniform(1, 6) * canvas.scale
        sketch.line(path, radius, rng.uniform(10, 240), rng.uniform(0.3, 0.9), softness=rng.uniform(1, 6))
    return sketch


def _paint_foreground(rng: Rng, canvas: Canvas) -> None:
    """Sometimes paint an object or a reflection in front of everything else."""
    width, height = canvas.size
    if rng.chance(0.06):  # an object in front of the camera
        x, y, side = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(10, 60) * canvas.scale
        level = rng.uniform(20, 230)
        box = (x, y, x + side, y + side * rng.uniform(0.4, 2.0))
        canvas.box(box, (level, level, level * rng.uniform(0.8, 1.1)), rng.uniform(0.5, 1.0))
    if rng.chance(0.08):  # a reflection
        glare = noise.soft_map(rng, (5, 5), canvas.size, 0, 255)
        glare -= np.int16(rng.whole(150, 200))
        np.clip(glare, 0, 60, out=glare)
        canvas.add(glare, (1.0, 1.0, 1.0))
