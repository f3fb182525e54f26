"""The plan of a scene: the front plant, its neighbors and rows, posts, wires and the camera."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field

import numpy as np

from plantscenes.camera import Camera
from plantscenes.growth import Axis3, Plant3
from plantscenes.labels import Lines, project_plant
from plantscenes.species import HEIGHT_M, TREE_HABITS, grow_shoot, grow_tree, grow_vine
from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.rng import Rng

SCENES = ("vineyard", "orchard", "potted")
# A plant is drawn again if it has fewer or more nodes than this in the image.
NODES = {"vineyard": (12, 700), "orchard": (20, 900), "potted": (5, 400)}
# Thinner axes would hardly be visible: smallest radius of the front plant, px.
THINNEST_PX = 0.5
# Points of the front plant are this far apart, px.
STEP_PX = 2.2
# Plants in the background have thicker twigs and fewer points.
COARSER = 2.5
VARIANTS = 4


@dataclass
class Instance:
    """A plant in the background."""

    variant: int  # which of the variants of the plan
    position: tuple[float, float]  # (x, y) m
    angle: float  # rotation about the vertical axis, radians
    scale: float  # size as a factor


@dataclass
class Plan:
    """Everything about a scene that labels depend on."""

    scene: str  # one of `SCENES`
    habit: str  # kind of plant
    front: list[Axis3]  # axes of the front plant
    camera: Camera
    pixel: float  # length of one pixel at the front plant, m
    skeleton: Skeleton  # the label
    variants: list[list[Axis3]] = field(default_factory=list)  # axes of the plants in the background
    instances: list[Instance] = field(default_factory=list)  # where they stand
    posts: Lines = field(default_factory=list)  # posts and stakes, front row first
    wires: Lines = field(default_factory=list)  # wires and hoses
    row_spacing: float = 3.0  # distance of the rows, m


def stream(scene: str, seed: int, purpose: str) -> Rng:
    """Return the source of random draws of one part of a scene, so that a change in one does not change the others."""
    return Rng(zlib.crc32(f"blender {scene} {purpose}".encode()), seed)


def plan(scene: str, seed: int, size: tuple[int, int] = (512, 512)) -> Plan:
    """Plan one of `SCENES`. The same seed gives the same plan."""
    if scene not in SCENES:
        raise ValueError(f"unknown scene {scene!r}: choose one of {', '.join(SCENES)}")
    rng = stream(scene, seed, "plan")
    few, many = NODES[scene]
    while True:
        draft = _PLANNERS[scene](rng, seed, size)
        if few <= len(draft.skeleton) <= many:
            return draft


def _view(
    rng: Rng, size: tuple[int, int], height: float, distance: float, eye: float, yaw: float, outside: float
) -> tuple[Camera, float]:
    """Place the camera so that a plant of some height fills the frame or leaves it; return it and the pixel's length.

    With the probability `outside` the foot of the plant is below the frame.
    """
    fill = rng.uniform(0.7, 1.0) if rng.chance(0.55) else rng.uniform(1.0, 1.5)
    pixel = height / fill / min(size)
    foot = rng.uniform(1.02, 1.18) if rng.chance(outside) else rng.uniform(0.76, 0.985)
    column = rng.uniform(0.34, 0.66)
    toward = np.array([math.sin(yaw), math.cos(yaw), 0.0])
    right = np.array([math.cos(yaw), -math.sin(yaw), 0.0])
    target = right * (0.5 - column) * size[0] * pixel + np.array([0.0, 0.0, (foot - 0.5) * size[1] * pixel])
    position = target - toward * distance
    position[2] = eye
    roll = rng.uniform(-0.03, 0.03)
    return Camera.looking_at(position, target, distance / pixel, size, roll), pixel


def _is_visible(camera: Camera, x: float, y: float, nearest: float) -> bool:
    """Return True if a plant at (x, y) may be in the frame and is not nearer than `nearest`, m."""
    (place,), (depth,) = camera.project(np.array([[x, y, 1.0]]))
    width = camera.size[0]
    margin = 1.2 * camera.focal_px / max(depth, 0.1)
    return bool(depth > nearest and -margin < place[0] < width + margin)


def _rows(
    rng: Rng, camera: Camera, rows: int, row_spacing: float, spacing: float, turn: bool, nearest: float
) -> list[Instance]:
    """Place plants in rows behind the front plant, and its neighbors in the front row; some are missing."""
    result = []
    for row in range(rows):
        offset = 0.0 if row == 0 else rng.uniform(0.0, spacing)
        reach = math.ceil((6.0 + 1.5 * row * row_spacing) / spacing)
        for k in range(-reach, reach + 1):
            x = k * spacing + offset + rng.uniform(-0.08, 0.08) * spacing
            y = row * row_spacing + rng.uniform(-0.05, 0.05)
            angle = rng.uniform(0.0, 2 * math.pi) if turn else rng.choice((0.0, math.pi))
            instance = Instance(rng.whole(0, VARIANTS - 1), (x, y), angle, rng.uniform(0.85, 1.12))
            missing = rng.chance(0.06) or (row == 0 and k == 0)
            if not missing and _is_visible(camera, x, y, nearest):
                result.append(instance)
    return result


def _posts(
    rng: Rng, camera: Camera, rows: int, row_spacing: float, spacing: float, height: float, radius: float
) -> Lines:
    """Place posts in all rows. One of the front row never stands right at the plant."""
    result: Lines = []
    for row in range(rows):
        offset = rng.uniform(0.12, spacing - 0.12)
        reach = math.ceil((6.0 + 1.5 * row * row_spacing) / spacing)
        for k in range(-reach, reach + 1):
            x, y = k * spacing + offset, row * row_spacing + rng.uniform(-0.06, 0.06)
            lean = rng.uniform(-0.04, 0.04)
            if _is_visible(camera, x, y, 0.8):
                ends = np.array([[x, y, -0.1], [x + lean * height, y, height * rng.uniform(0.95, 1.05)]])
                result.append((ends, np.full(2, radius)))
    return result


def _wires(rng: Rng, heights: list[float], rows: int, row_spacing: float, radius: float) -> Lines:
    """Stretch wires along the rows."""
    result: Lines = []
    for row in range(rows):
        half = 8.0 + 2.0 * row * row_spacing
        for height in heights:
            x = np.linspace(-half, half, 25)
            sag = rng.uniform(0.0, 0.03) * np.cos(x * rng.uniform(0.7, 1.3) + rng.uniform(0.0, 6.0))
            y = row * row_spacing + rng.uniform(-0.03, 0.03)
            result.append((np.stack([x, np.full(25, y), height + sag], axis=1), np.full(25, radius)))
    return result


def _vineyard(rng: Rng, seed: int, size: tuple[int, int]) -> Plan:
    wire = rng.weighted(((rng.uniform(0.5, 0.8), 0.7), (rng.uniform(0.8, 1.3), 0.3)))
    pruned = rng.chance(0.4)
    height = (wire + 0.35) * 1.1 if pruned else wire + rng.uniform(0.8, 1.1)
    spacing, row_spacing = rng.uniform(1.0, 1.7), rng.uniform(1.7, 2.7)
    yaw = rng.uniform(-0.35, 0.35)
    camera, pixel = _view(rng, size, height, rng.uniform(1.4, 3.2), rng.uniform(0.7, 1.6), yaw, 0.1)
    front = Plant3(rng, STEP_PX * pixel, THINNEST_PX * pixel)
    grow_vine(front, wire, spacing, pruned)
    rows = rng.whole(3, 8)
    posts = _posts(
        rng, camera, rows, row_spacing, spacing * rng.whole(3, 5), wire + rng.uniform(0.9, 1.3), rng.uniform(0.02, 0.06)
    )
    heights = [wire, *(wire + k * rng.uniform(0.28, 0.4) for k in range(1, rng.whole(2, 4)))]
    thin = max(0.0015, rng.uniform(0.2, 0.45) * pixel)
    wires = _wires(rng, heights, min(rows, 4), row_spacing, thin)
    if rng.chance(0.4):  # a hose for drip irrigation
        wires += _wires(rng, [wire * rng.uniform(0.45, 0.75)], min(rows, 3), row_spacing, 0.008)
    stakes = _stakes(rng, 0.35, wire * rng.uniform(1.0, 1.8))
    skeleton = _label(front, camera, "vineyard", "vine", seed, [*stakes, *posts])
    result = Plan("vineyard", "vine", front.axes, camera, pixel, skeleton, row_spacing=row_spacing)
    result.posts, result.wires = [*stakes, *posts], wires
    for _ in range(VARIANTS):
        other = Plant3(rng, COARSER * STEP_PX * pixel, 0.0025)
        grow_vine(other, wire, spacing, pruned)
        result.variants.append(other.axes)
    result.instances = _rows(rng, camera, rows, row_spacing, spacing, False, 0.7)
    return result


def _orchard(rng: Rng, seed: int, size: tuple[int, int]) -> Plan:
    habit = rng.weighted(TREE_HABITS)
    height = HEIGHT_M[habit] * rng.uniform(0.75, 1.3)
    yaw = rng.uniform(-0.5, 0.5)
    camera, pixel = _view(rng, size, height, rng.uniform(2.4, 5.5), rng.uniform(0.9, 1.7), yaw, 0.14)
    front = Plant3(rng, STEP_PX * pixel, THINNEST_PX * pixel)
    grow_tree(front, habit, height)
    spacing = size[0] * pixel * rng.uniform(0.55, 1.1)
    row_spacing = rng.uniform(3.0, 5.0)
    rows = rng.whole(3, 8)
    posts: Lines = []
    wires: Lines = []
    if habit == "planar" or rng.chance(0.4):
        posts = _posts(rng, camera, rows, row_spacing, spacing * rng.whole(2, 4), height, rng.uniform(0.03, 0.07))
        heights = [height * (0.25 + 0.7 * k / 4) for k in range(rng.whole(2, 5))]
        wires = _wires(rng, heights, min(rows, 3), row_spacing, max(0.0015, rng.uniform(0.2, 0.4) * pixel))
    stakes = _stakes(rng, 0.3, height * rng.uniform(0.3, 0.8))
    skeleton = _label(front, camera, "orchard", habit, seed, [*stakes, *posts])
    result = Plan("orchard", habit, front.axes, camera, pixel, skeleton, row_spacing=row_spacing)
    result.posts, result.wires = [*stakes, *posts], wires
    for _ in range(VARIANTS):
        other = Plant3(rng, COARSER * STEP_PX * pixel, 0.003)
        grow_tree(other, habit, height * rng.uniform(0.85, 1.1))
        result.variants.append(other.axes)
    result.instances = _rows(rng, camera, rows, row_spacing, spacing, habit != "planar", 1.5)
    return result


def _stakes(rng: Rng, probability: float, height: float) -> Lines:
    """Place a stake beside the plant."""
    if not rng.chance(probability):
        return []
    x, y = rng.choice((-1.0, 1.0)) * rng.uniform(0.06, 0.14), rng.uniform(-0.1, 0.1)
    ends = np.array([[x, y, -0.05], [x + rng.uniform(-0.05, 0.05), y, height]])
    return [(ends, np.full(2, rng.uniform(0.006, 0.025)))]


def _potted(rng: Rng, seed: int, size: tuple[int, int]) -> Plan:
    height = rng.uniform(0.25, 0.9)
    camera, pixel = _view(rng, size, height, height * rng.uniform(1.3, 3.0), height * rng.uniform(0.4, 1.3), 0.0, 0.0)
    front = Plant3(rng, STEP_PX * pixel, 0.5 * pixel)
    grow_shoot(front, height * rng.uniform(0.7, 1.1))
    stakes: Lines = []
    if rng.chance(0.25):
        x, y = rng.uniform(-0.04, 0.04), rng.uniform(0.01, 0.04)
        stakes = [
            (np.array([[x, y, -0.05], [x, y, height * rng.uniform(0.5, 1.0)]]), np.full(2, rng.uniform(0.002, 0.005)))
        ]
    skeleton = _label(front, camera, "potted", "shoot", seed, stakes)
    result = Plan("potted", "shoot", front.axes, camera, pixel, skeleton)
    result.posts = stakes
    for _ in range(rng.whole(0, 2)):
        other = Plant3(rng, STEP_PX * pixel * 2, 0.5 * pixel)
        grow_shoot(other, height * rng.uniform(0.5, 1.0))
        result.variants.append(other.axes)
        side = rng.choice((-1.0, 1.0))
        place = (side * height * rng.uniform(0.35, 0.8), height * rng.uniform(0.5, 1.5))
        result.instances.append(Instance(len(result.variants) - 1, place, rng.uniform(0.0, 6.28), 1.0))
    return result


def _label(plant: Plant3, camera: Camera, scene: str, habit: str, seed: int, obstacles: Lines) -> Skeleton:
    metadata = {"made_by": "tools/blender", "scene": scene, "seed": seed, "kind": habit}
    return project_plant(plant.axes, camera, metadata, obstacles)


def ground_points(rng: Rng, camera: Camera, count: int, farthest: float) -> FloatArray:
    """Draw points (N,2), m, on the ground that are about equally dense in the image.

    N is `count` without the points above the horizon or farther away than `farthest`, m.
    """
    width, height = camera.size
    x = rng.array(count, low=-0.05 * width, high=1.05 * width)
    y = rng.array(count, low=0.0, high=1.12 * height)
    rays = np.stack([(x - width / 2) / camera.focal_px, (height / 2 - y) / camera.focal_px, -np.ones(count)], axis=1)
    rays = rays @ camera.rotation
    down = rays[:, 2] < -1e-3
    scale = np.where(down, camera.position[2] / np.where(down, -rays[:, 2], 1.0), np.inf)
    good = scale < farthest
    return np.asarray((camera.position + rays[good] * scale[good, None])[:, :2])


_PLANNERS = {"vineyard": _vineyard, "orchard": _orchard, "potted": _potted}
