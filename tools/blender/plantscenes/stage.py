"""Builds the planned scene in Blender and renders it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import bpy
import mathutils
import numpy as np

from plantscenes import assets, clutter, materials
from plantscenes.layout import Plan, ground_points, stream
from plantscenes.tubes import Mesh, join, plant_mesh, tube
from treeformer._util.arrays import FloatArray
from treeformer.synthetic.rng import Rng

SENSOR_MM = 36.0


def render(plan: Plan, seed: int, folder: Path, samples: int) -> FloatArray:
    """Render a planned scene as linear sRGB (H,W,3)."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    rng = stream(plan.scene, seed, "stage")
    if plan.scene == "potted":
        _build_room(plan, rng, folder)
    else:
        _build_field(plan, rng, folder)
    place_camera(plan, rng)
    _configure(plan.camera.size, samples)
    with tempfile.TemporaryDirectory() as temporary:
        target = Path(temporary) / "image.exr"
        bpy.context.scene.render.filepath = str(target)
        bpy.ops.render.render(write_still=True)
        image = bpy.data.images.load(str(target))
        width, height = image.size
        pixels = np.empty(width * height * 4, dtype=np.float32)
        image.pixels.foreach_get(pixels)
    return np.asarray(pixels.reshape(height, width, 4)[::-1, :, :3].astype(float))


def _configure(size: tuple[int, int], samples: int) -> None:
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.cycles.device = "CPU"
    scene.cycles.samples = samples
    scene.cycles.use_adaptive_sampling = False
    scene.cycles.use_denoising = True
    scene.cycles.denoiser = "OPENIMAGEDENOISE"
    scene.cycles.denoising_prefilter = "FAST"
    scene.cycles.max_bounces = 1
    scene.cycles.diffuse_bounces = 1
    scene.cycles.glossy_bounces = 1
    scene.cycles.transmission_bounces = 0
    scene.cycles.transparent_max_bounces = 4
    scene.cycles.caustics_reflective = scene.cycles.caustics_refractive = False
    scene.cycles.sample_clamp_indirect = 4.0
    scene.cycles.seed = 0
    scene.render.threads_mode = "FIXED"
    scene.render.threads = 1
    scene.render.resolution_x, scene.render.resolution_y = size
    scene.render.resolution_percentage = 100
    scene.render.image_settings.file_format = "OPEN_EXR"
    scene.render.image_settings.color_depth = "32"


def place_camera(plan: Plan, rng: Rng) -> None:
    """Add the planned camera to the scene, with a random aperture."""
    camera = plan.camera
    data = bpy.data.cameras.new("camera")
    data.sensor_fit = "HORIZONTAL"
    data.sensor_width = SENSOR_MM
    data.lens = camera.focal_px / camera.size[0] * SENSOR_MM
    data.clip_start, data.clip_end = 0.05, 1000.0
    if rng.chance(0.6):  # the background is out of focus
        data.dof.use_dof = True
        data.dof.focus_distance = float(np.linalg.norm(camera.position))
        # Camera phones have a small sensor: the blur of a full-size one needs a small aperture.
        data.dof.aperture_fstop = rng.uniform(4.0, 16.0)
    thing = bpy.data.objects.new("camera", data)
    matrix = np.eye(4)
    matrix[:3, :3] = camera.rotation.T
    matrix[:3, 3] = camera.position
    thing.matrix_world = mathutils.Matrix(matrix.tolist())
    bpy.context.scene.collection.objects.link(thing)
    bpy.context.scene.camera = thing


def mesh_data(name: str, mesh: Mesh, material: bpy.types.Material, smooth: bool = True) -> bpy.types.Mesh:
    """Copy a mesh to Blender; without `smooth`, its faces are flat."""
    data = bpy.data.meshes.new(name)
    count = len(mesh.faces)
    data.vertices.add(len(mesh.vertices))
    data.vertices.foreach_set("co", mesh.vertices.astype(np.float32).ravel())
    data.loops.add(4 * count)
    data.loops.foreach_set("vertex_index", mesh.faces.astype(np.int32).ravel())
    data.polygons.add(count)
    data.polygons.foreach_set("loop_start", np.arange(0, 4 * count, 4, dtype=np.int32))
    data.update(calc_edges=True)
    data.polygons.foreach_set("use_smooth", np.full(count, smooth))
    data.uv_layers.new(name="uv").data.foreach_set("uv", mesh.uv.astype(np.float32).ravel())
    attribute = data.attributes.new("thickness", "FLOAT", "POINT")
    attribute.data.foreach_set("value", mesh.thickness.astype(np.float32))
    data.materials.append(material)
    return data


def place(
    data: bpy.types.Mesh, position: Sequence[float] = (0.0, 0.0, 0.0), angle: float = 0.0, scale: float = 1.0
) -> bpy.types.Object:
    """Add an object to the scene; objects share their mesh. The angle is about the vertical axis, radians."""
    thing = bpy.data.objects.new(data.name, data)
    thing.location = position
    thing.rotation_euler = (0.0, 0.0, angle)
    thing.scale = (scale, scale, scale)
    bpy.context.scene.collection.objects.link(thing)
    return thing


def _build_plants(plan: Plan, rng: Rng, folder: Path, height: float = 0.0) -> None:
    bark = materials.bark(rng, folder, plan.habit)
    bumps = rng.uniform(0.02, 0.13)
    place(mesh_data("front", plant_mesh(plan.front, rng, plan.pixel, bumps), bark), (0.0, 0.0, height))
    variants = [mesh_data("plant", plant_mesh(axes, rng, 3 * plan.pixel, bumps), bark) for axes in plan.variants]
    for instance in plan.instances:
        place(variants[instance.variant], (*instance.position, height), instance.angle, instance.scale)


def _build_field(plan: Plan, rng: Rng, folder: Path) -> None:
    _build_plants(plan, rng, folder)
    _build_trellis(plan, rng)
    place(mesh_data("ground", clutter.ground_mesh(rng), materials.ground(rng, folder, plan.row_spacing)))
    _build_grass(plan, rng)
    _build_litter(plan, rng, folder)
    _build_horizon(plan, rng)
    _light_field(rng, folder)


def _build_trellis(plan: Plan, rng: Rng) -> None:
    kind = rng.weighted((("wood", 0.5), ("steel", 0.3), ("concrete", 0.2)))
    color, roughness, metallic, grain = {
        "wood": (materials.varied(rng, (0.17, 0.14, 0.11), 0.4), 0.9, 0.0, 0.5),
        "steel": (materials.varied(rng, (0.22, 0.22, 0.225), 0.3), 0.6, 0.5, 0.15),
        "concrete": (materials.varied(rng, (0.3, 0.28, 0.26), 0.2), 0.9, 0.0, 0.2),
    }[kind]
    material = materials.plain("post", color, roughness, metallic, grain)
    sides = 4 if kind != "wood" and rng.chance(0.6) else 12
    if plan.posts:
        place(mesh_data("posts", join([tube(*line, sides) for line in plan.posts]), material, smooth=sides > 4))
    if plan.wires:
        steel = materials.plain("wire", materials.varied(rng, (0.13, 0.13, 0.13), 0.6), 0.7)
        place(mesh_data("wires", join([tube(*line, 4) for line in plan.wires]), steel))


def _build_grass(plan: Plan, rng: Rng) -> None:
    tall = rng.uniform(0.04, 0.2)
    dry = materials.varied(rng, (0.42, 0.34, 0.17), 0.3)
    green = materials.varied(rng, rng.choice(((0.1, 0.17, 0.04), (0.17, 0.2, 0.06), (0.25, 0.24, 0.1))), 0.3)
    material = materials.foliage("grass", green, dry)
    tufts = [mesh_data("tuft", clutter.tuft_mesh(rng, tall), material) for _ in range(3)]
    for x, y in ground_points(rng, plan.camera, rng.whole(100, 2200), 14.0).tolist():
        place(tufts[rng.whole(0, 2)], (x, y, 0.0), rng.uniform(0.0, 6.28), rng.uniform(0.5, 1.3))


def _build_litter(plan: Plan, rng: Rng, folder: Path) -> None:
    points = ground_points(rng, plan.camera, rng.whole(0, 700), 10.0)
    if len(points):
        brown = materials.varied(rng, (0.25, 0.15, 0.08), 0.4)
        material = materials.foliage("leaves", brown, materials.varied(rng, (0.4, 0.28, 0.12), 0.3))
        place(mesh_data("leaves", clutter.leaves_mesh(rng, points, 0.05), material, smooth=False))
    if rng.chance(0.6):  # branches that were cut off
        points = ground_points(rng, plan.camera, rng.whole(5, 90), 8.0)
        if len(points):
            bark = materials.bark(rng, folder, plan.habit, "prunings")
            place(mesh_data("prunings", clutter.prunings_mesh(rng, points), bark))
    if rng.chance(0.4):
        gray = materials.varied(rng, rng.choice(((0.16, 0.14, 0.12), (0.2, 0.16, 0.12), (0.11, 0.1, 0.09))), 0.3)
        stone = mesh_data("stone", clutter.stone_mesh(rng), materials.plain("stone", gray, 0.9, 0.0, 0.3))
        for x, y in ground_points(rng, plan.camera, rng.whole(5, 120), 8.0).tolist():
            place(stone, (x, y, -0.005), rng.uniform(0.0, 6.28), 0.5 * rng.uniform(0.3, 1.0) ** 2)


def _build_horizon(plan: Plan, rng: Rng) -> None:
    yaw = math.atan2(-plan.camera.rotation[2, 0], -plan.camera.rotation[2, 1])
    for layer in range(rng.whole(0, 3)):
        distance = rng.uniform(25.0, 60.0) * (1.0 + layer)
        color = materials.varied(rng, rng.choice(((0.07, 0.07, 0.05), (0.12, 0.1, 0.08), (0.05, 0.08, 0.04))), 0.3)
        haze = 0.15 * (1.0 + layer)
        color = tuple(
            channel + haze * (light - channel) for channel, light in zip(color, (0.5, 0.55, 0.62), strict=True)
        )
        mesh = clutter.horizon_mesh(rng, distance, distance * rng.uniform(0.03, 0.12), trees=rng.chance(0.7))
        place(mesh_data("horizon", mesh, materials.plain("horizon", color, 1.0, 0.0, 0.35)), angle=-yaw)


def _light_field(rng: Rng, folder: Path) -> None:
    kind = rng.weighted((("panorama", 0.3), ("clear", 0.4), ("overcast", 0.3)))
    if kind == "panorama":
        path = assets.find(folder, rng.choice(assets.OUTDOOR_SKIES))
        materials.image_sky(path, rng.uniform(0.0, 6.28), 1.0)
        return
    materials.gradient_sky(rng, kind == "overcast")
    if kind == "clear":
        elevation = math.radians(rng.weighted(((rng.uniform(5, 20), 0.6), (rng.uniform(20, 50), 0.4))))
        materials.sun(rng, elevation, rng.uniform(0.0, 6.28))


def _build_room(plan: Plan, rng: Rng, folder: Path) -> None:
    size = float(max(axis.points[:, 2].max() for axis in plan.front))
    _build_plants(plan, rng, folder)
    pot_height = size * rng.uniform(0.15, 0.35)
    pot_radius = size * rng.uniform(0.1, 0.24)
    depth = pot_height * rng.uniform(0.02, 0.15)  # of the soil below the rim
    color = rng.choice(((0.45, 0.17, 0.08), (0.02, 0.02, 0.02), (0.6, 0.6, 0.58), (0.3, 0.32, 0.3), (0.08, 0.15, 0.07)))
    square = rng.chance(0.3)
    pot = mesh_data(
        "pot",
        clutter.pot_mesh(pot_radius, pot_height, rng.uniform(0.6, 0.95), square),
        materials.plain("pot", materials.varied(rng, color, 0.3), rng.uniform(0.3, 0.9)),
    )
    soil = mesh_data("soil", clutter.soil_mesh(rng, pot_radius * 0.97, square), materials.ground(rng, folder, 100.0))
    places = [(0.0, 0.0), *(instance.position for instance in plan.instances)]
    for x, y in places:
        place(pot, (x, y, depth))
        place(soil, (x, y, 0.0))
    top = depth - pot_height
    brown = materials.varied(rng, (0.35, 0.27, 0.2), 0.8)
    table = materials.plain("table", brown, rng.uniform(0.2, 0.9), 0.0, rng.uniform(0.0, 0.4))
    corner, along, back = (-4 * size, -4 * size, top), (8 * size, 0, 0), (0, 6 * size, 0)
    place(mesh_data("table", clutter.sheet_mesh(corner, along, back), table))
    if rng.chance(0.55):  # a wall; otherwise the room is visible
        paint = rng.choice(((0.7, 0.68, 0.64), (0.15, 0.2, 0.3), (0.02, 0.02, 0.02), (0.5, 0.45, 0.35)))
        wall = materials.plain("wall", materials.varied(rng, paint, 0.3), 0.9)
        corner = (-8 * size, size * rng.uniform(0.5, 2.0), top)
        place(mesh_data("wall", clutter.sheet_mesh(corner, (16 * size, 0, 0), (0, 0, 8 * size)), wall))
    if rng.chance(0.6):
        green = materials.varied(rng, (0.09, 0.2, 0.04), 0.4)
        leaf = materials.foliage("leaf", green, materials.scaled(green, 1.7))
        mesh = clutter.foliage_mesh(rng, plan.front, size * rng.uniform(0.02, 0.07), rng.uniform(0.1, 0.6))
        if mesh is not None:
            place(mesh_data("foliage", mesh, leaf))
    if plan.posts:
        stake = materials.plain("stake", materials.varied(rng, (0.5, 0.4, 0.2), 0.4), 0.7)
        place(mesh_data("stake", join([tube(*line, 8) for line in plan.posts]), stake))
    materials.image_sky(assets.find(folder, rng.choice(assets.ROOMS)), rng.uniform(0.0, 6.28), 1.0)
    if rng.chance(0.4):
        materials.sun(rng, math.radians(rng.uniform(15, 60)), rng.uniform(-1.5, 1.5))
