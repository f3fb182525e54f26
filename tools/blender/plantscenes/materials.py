"""Materials and light, built from Blender's shader nodes.

Colors are linear red, green and blue. `folder` is the folder of the assets.
"""

from __future__ import annotations

import math
from pathlib import Path

import bpy

from plantscenes import assets
from treeformer.synthetic.rng import Rng

Color = tuple[float, float, float]
# Materials that are rougher than this have no gloss at all.
MATTE = 0.65
# Brighter pixels of a panorama are darkened to this.
BRIGHTEST_SKY = (1000.0, 1000.0, 1000.0)


class _Nodes:
    """Short forms for building a node tree."""

    def __init__(self, tree: bpy.types.NodeTree) -> None:
        self.tree = tree
        tree.nodes.clear()

    def add(self, kind: str, inputs: dict[str | int, object] | None = None, **properties: object) -> bpy.types.Node:
        node = self.tree.nodes.new(kind)
        for name, value in properties.items():
            setattr(node, name, value)
        for key, value in (inputs or {}).items():
            socket = node.inputs[key]
            if isinstance(value, bpy.types.NodeSocket):
                self.tree.links.new(value, socket)
            else:
                if isinstance(value, tuple) and len(value) == 3 and socket.type == "RGBA":
                    value = (*value, 1.0)
                socket.default_value = value
        return node

    def mix(self, share: object, first: object, second: object, blend: str = "MIX") -> bpy.types.NodeSocket:
        node = self.add("ShaderNodeMix", {0: share, 6: first, 7: second}, data_type="RGBA", blend_type=blend)
        return node.outputs[2]

    def ramp(self, value: bpy.types.NodeSocket, low: float, high: float) -> bpy.types.NodeSocket:
        """Map [low, high] to [0, 1], clamped."""
        return self.add("ShaderNodeMapRange", {0: value, 1: low, 2: high}, clamp=True).outputs[0]

    def noise(self, vector: object, scale: float, detail: float = 3.0) -> bpy.types.NodeSocket:
        return self.add("ShaderNodeTexNoise", {"Vector": vector, "Scale": scale, "Detail": detail}).outputs["Fac"]

    def matte(self, color: object, normal: bpy.types.NodeSocket | None = None) -> None:
        """Finish a material without gloss, which renders in two thirds of the time of a principled one."""
        inputs: dict[str | int, object] = {"Color": color} if normal is None else {"Color": color, "Normal": normal}
        shader = self.add("ShaderNodeBsdfDiffuse", inputs)
        self.add("ShaderNodeOutputMaterial", {0: shader.outputs[0]})


def load_image(path: Path) -> bpy.types.Image:
    """Load an image file once per scene."""
    return bpy.data.images.load(str(path), check_existing=True)


def scaled(color: Color, factor: float) -> Color:
    """Return a color multiplied by a factor, at most 1 per channel."""
    return (min(1.0, color[0] * factor), min(1.0, color[1] * factor), min(1.0, color[2] * factor))


def varied(rng: Rng, color: Color, amount: float) -> Color:
    """Return a color with random brightness and tint; `amount` is the largest relative change."""
    bright = 1.0 + rng.uniform(-amount, amount)
    red, green, blue = (channel * bright * (1.0 + 0.4 * rng.uniform(-amount, amount)) for channel in color)
    return (red, green, blue)


def bark(rng: Rng, folder: Path, kind: str, name: str = "bark") -> bpy.types.Material:
    """Return the material of wood: bark with lichen on old wood, smooth and colored young wood.

    The mesh attribute `thickness` tells old wood from young wood. The kind is "vine", "shoot" or a habit of trees.
    """
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    nodes = _Nodes(material.node_tree)
    texture = load_image(assets.find(folder, rng.choice(assets.BARKS)))
    uv = nodes.add("ShaderNodeUVMap", uv_map="uv").outputs[0]
    place = nodes.add("ShaderNodeNewGeometry").outputs["Position"]
    repeat = 1.0 / rng.uniform(0.12, 0.4)
    mapped = nodes.add(
        "ShaderNodeMapping", {"Vector": uv, "Scale": (repeat, repeat * rng.uniform(0.5, 1.0), 1.0)}
    ).outputs[0]
    image = nodes.add("ShaderNodeTexImage", {"Vector": mapped}, image=texture).outputs[0]
    gray = nodes.add("ShaderNodeRGBToBW", {0: image}).outputs[0]
    base = rng.weighted(
        (((0.16, 0.12, 0.09), 0.35), ((0.23, 0.2, 0.17), 0.3), ((0.09, 0.065, 0.05), 0.2), ((0.3, 0.27, 0.23), 0.15))
    )
    base = varied(rng, base, 0.35)
    relief = nodes.ramp(gray, 0.05, rng.uniform(0.3, 0.6))
    old = nodes.mix(relief, scaled(base, 0.3), scaled(base, rng.uniform(1.2, 1.9)))
    old = nodes.mix(rng.uniform(0.1, 0.5), old, image)
    # Patches of lichen, algae or bare wood make trunks mottled.
    patches = nodes.ramp(nodes.noise(place, rng.uniform(7, 30), 2.0), rng.uniform(0.48, 0.62), rng.uniform(0.63, 0.72))
    lichen = rng.weighted(
        (((0.42, 0.44, 0.36), 0.4), ((0.3, 0.34, 0.16), 0.3), ((0.5, 0.47, 0.42), 0.2), ((0.45, 0.36, 0.08), 0.1))
    )
    old = nodes.mix(_scaled_share(nodes, patches, rng.uniform(0.0, 0.9)), old, varied(rng, lichen, 0.2))
    dark = nodes.ramp(nodes.noise(place, rng.uniform(4, 14), 2.0), 0.56, 0.7)
    old = nodes.mix(_scaled_share(nodes, dark, rng.uniform(0.0, 0.8)), old, scaled(base, 0.25))
    if kind not in ("vine", "shoot") and rng.chance(0.12):  # trunks are painted white against frost
        height = nodes.add("ShaderNodeSeparateXYZ", {0: place}).outputs[2]
        top = rng.uniform(0.3, 0.8)
        white = nodes.ramp(height, top + 0.05, top - 0.02)
        old = nodes.mix(_scaled_share(nodes, white, 0.85), old, (0.75, 0.74, 0.7))
    young = varied(
        rng, rng.choice(_YOUNG_WOOD["vine" if kind == "vine" else "shoot" if kind == "shoot" else "tree"]), 0.3
    )
    young = nodes.mix(nodes.noise(place, 40.0), scaled(young, 0.7), scaled(young, 1.25))
    thickness = nodes.add("ShaderNodeAttribute", attribute_name="thickness").outputs["Fac"]
    limit = 0.5 if kind == "shoot" else rng.uniform(0.008, 0.02)
    color = nodes.mix(nodes.ramp(thickness, 0.5 * limit, limit), young, old)
    bump = nodes.add("ShaderNodeBump", {"Height": gray, "Strength": rng.uniform(0.3, 1.0), "Distance": 0.01}).outputs[0]
    nodes.matte(color, bump)
    return material


_YOUNG_WOOD: dict[str, tuple[Color, ...]] = {
    "vine": ((0.36, 0.2, 0.1), (0.28, 0.13, 0.06), (0.42, 0.3, 0.18), (0.22, 0.12, 0.08)),
    "tree": ((0.17, 0.08, 0.05), (0.2, 0.15, 0.11), (0.28, 0.24, 0.2), (0.13, 0.07, 0.05), (0.22, 0.17, 0.07)),
    "shoot": ((0.16, 0.28, 0.07), (0.25, 0.3, 0.1), (0.26, 0.16, 0.09), (0.3, 0.13, 0.1), (0.35, 0.4, 0.2)),
}


def _scaled_share(nodes: _Nodes, value: bpy.types.NodeSocket, factor: float) -> bpy.types.NodeSocket:
    return nodes.add("ShaderNodeMath", {0: value, 1: factor}, operation="MULTIPLY").outputs[0]


def plain(
    name: str, color: Color, roughness: float = 0.8, metallic: float = 0.0, grain: float = 0.0
) -> bpy.types.Material:
    """Return a material of one color.

    A roughness of 0 is a mirror, 1 is matt. `grain` is the contrast of a pattern of noise, 0 to 1.
    """
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    nodes = _Nodes(material.node_tree)
    source: object = color
    if grain > 0:
        place = nodes.add("ShaderNodeTexCoord").outputs["Object"]
        stretched = nodes.add("ShaderNodeMapping", {"Vector": place, "Scale": (1.0, 1.0, 0.12)}).outputs[0]
        streaks = nodes.ramp(nodes.noise(stretched, 45.0, 2.0), 0.3, 0.7)
        source = nodes.mix(streaks, scaled(color, 1.0 - grain), scaled(color, 1.0 + grain))
    if roughness > MATTE and metallic == 0:
        nodes.matte(source)
        return material
    shader = nodes.add("ShaderNodeBsdfPrincipled", {"Base Color": source, "Roughness": roughness, "Metallic": metallic})
    nodes.add("ShaderNodeOutputMaterial", {0: shader.outputs[0]})
    return material


def foliage(name: str, first: Color, second: Color) -> bpy.types.Material:
    """Return a material for grass and leaves whose color differs between objects and places."""
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    nodes = _Nodes(material.node_tree)
    place = nodes.add("ShaderNodeNewGeometry").outputs["Position"]
    share = nodes.ramp(nodes.noise(place, 9.0, 2.0), 0.35, 0.65)
    other = nodes.add("ShaderNodeObjectInfo").outputs["Random"]
    share = nodes.add("ShaderNodeMath", {0: share, 1: other}, operation="MULTIPLY").outputs[0]
    nodes.matte(nodes.mix(share, first, second))
    return material


def ground(rng: Rng, folder: Path, row_spacing: float) -> bpy.types.Material:
    """Return soil and grass in patches, mostly with bare soil along the rows; the first row is y = 0."""
    material = bpy.data.materials.new("ground")
    material.use_nodes = True
    nodes = _Nodes(material.node_tree)
    place = nodes.add("ShaderNodeNewGeometry").outputs["Position"]
    coarse = nodes.add("ShaderNodeMapping", {"Vector": place, "Scale": (0.7, 0.7, 0.7)}).outputs[0]
    soil_image, grass_image = (
        nodes.add("ShaderNodeTexImage", {"Vector": coarse}, image=load_image(assets.find(folder, name))).outputs[0]
        for name in assets.GROUNDS
    )
    soil_tint = varied(rng, rng.choice(((1.6, 1.3, 1.0), (1.1, 0.85, 0.68), (2.0, 1.9, 1.7), (1.3, 1.25, 1.2))), 0.25)
    grass_tint = varied(rng, rng.choice(((0.9, 1.05, 0.6), (1.6, 1.35, 0.8), (0.8, 0.9, 0.55), (1.5, 1.3, 1.0))), 0.25)
    soil = nodes.mix(1.0, soil_image, soil_tint, "MULTIPLY")
    grass = nodes.mix(1.0, grass_image, grass_tint, "MULTIPLY")
    patches = nodes.noise(place, rng.uniform(0.6, 2.5), 3.0)
    cover = rng.uniform(0.2, 0.8)
    share = nodes.ramp(patches, cover - 0.08, cover + 0.08)
    if rng.chance(0.65):  # strips without grass below the plants
        y = nodes.add("ShaderNodeSeparateXYZ", {0: place}).outputs[1]
        wave = nodes.add("ShaderNodeMath", {0: y, 1: math.pi / row_spacing}, operation="MULTIPLY").outputs[0]
        wave = nodes.add("ShaderNodeMath", {0: wave}, operation="SINE").outputs[0]
        wave = nodes.add("ShaderNodeMath", {0: wave}, operation="ABSOLUTE").outputs[0]
        edge = nodes.add("ShaderNodeMath", {0: wave, 1: patches}, operation="ADD").outputs[0]
        strip = nodes.ramp(edge, rng.uniform(0.7, 1.1), rng.uniform(0.65, 0.7))
        share = nodes.add("ShaderNodeMath", {0: share, 1: strip}, operation="MAXIMUM").outputs[0]
    fine = nodes.ramp(nodes.noise(place, 60.0, 3.0), 0.3, 0.7)
    color = nodes.mix(share, grass, soil)
    color = nodes.mix(0.5, color, nodes.mix(fine, (0.25, 0.25, 0.25), (1.6, 1.6, 1.6)), "MULTIPLY")
    if rng.chance(0.08):  # snow
        snow = nodes.ramp(nodes.noise(place, 1.5, 5.0), 0.45, 0.6)
        color = nodes.mix(snow, color, (0.75, 0.78, 0.84))
    bump = nodes.add("ShaderNodeBump", {"Height": nodes.noise(place, 30.0, 2.0), "Strength": 0.8, "Distance": 0.05})
    nodes.matte(color, bump.outputs[0])
    return material


def _direction(nodes: _Nodes, angle: float) -> bpy.types.NodeSocket:
    vector = nodes.add("ShaderNodeTexCoord").outputs["Generated"]
    return nodes.add("ShaderNodeMapping", {"Vector": vector, "Rotation": (0.0, 0.0, angle)}).outputs[0]


def image_sky(path: Path, angle: float, strength: float) -> None:
    """Light the scene with a panorama, rotated about the vertical axis by `angle`, radians."""
    world = bpy.data.worlds.new("sky")
    bpy.context.scene.world = world
    world.use_nodes = True
    nodes = _Nodes(world.node_tree)
    image = nodes.add("ShaderNodeTexEnvironment", {"Vector": _direction(nodes, angle)}, image=load_image(path))
    # Compression left negative pixels around the sun of some panoramas.
    positive = nodes.add("ShaderNodeVectorMath", {0: image.outputs[0], 1: (0.0, 0.0, 0.0)}, operation="MAXIMUM")
    limited = nodes.add("ShaderNodeVectorMath", {0: positive.outputs[0], 1: BRIGHTEST_SKY}, operation="MINIMUM")
    light = nodes.add("ShaderNodeBackground", {"Color": limited.outputs[0], "Strength": strength})
    nodes.add("ShaderNodeOutputWorld", {0: light.outputs[0]})
    world.cycles.sampling_method = "MANUAL"
    world.cycles.sample_map_resolution = 256


def gradient_sky(rng: Rng, overcast: bool) -> None:
    """Light the scene with a simple sky: blue with clouds, or overcast."""
    world = bpy.data.worlds.new("sky")
    bpy.context.scene.world = world
    world.use_nodes = True
    nodes = _Nodes(world.node_tree)
    direction = _direction(nodes, rng.uniform(0.0, 6.28))
    height = nodes.add("ShaderNodeSeparateXYZ", {0: direction}).outputs[2]
    if overcast:
        low, high = varied(rng, (0.75, 0.78, 0.82), 0.2), varied(rng, (0.6, 0.64, 0.7), 0.25)
        clouds, share = varied(rng, (0.42, 0.45, 0.5), 0.3), rng.uniform(0.0, 0.7)
    else:
        low, high = varied(rng, (0.62, 0.7, 0.78), 0.2), varied(rng, (0.12, 0.26, 0.58), 0.3)
        clouds, share = (0.95, 0.95, 0.95), rng.uniform(0.0, 1.0)
    color = nodes.mix(nodes.ramp(height, 0.0, rng.uniform(0.3, 0.9)), low, high)
    stretched = nodes.add("ShaderNodeMapping", {"Vector": direction, "Scale": (1.0, 1.0, 3.5)}).outputs[0]
    cover = rng.uniform(0.42, 0.6)
    pattern = nodes.ramp(nodes.noise(stretched, rng.uniform(1.5, 5.0), 4.0), cover, cover + 0.2)
    color = nodes.mix(_scaled_share(nodes, pattern, share), color, clouds)
    light = nodes.add("ShaderNodeBackground", {"Color": color, "Strength": rng.uniform(0.7, 1.2)})
    nodes.add("ShaderNodeOutputWorld", {0: light.outputs[0]})
    # A smooth sky needs no directed rays. By default, Blender evaluates it in 4096 x 2048 directions first.
    world.cycles.sampling_method = "NONE"


def sun(rng: Rng, elevation: float, azimuth: float) -> None:
    """Add the sun, redder and weaker near the horizon.

    `elevation` is above the horizon, radians; an `azimuth` of 0 is behind the camera, π is opposite.
    """
    low = math.exp(-elevation / 0.15)
    color = (1.0, 0.93 - 0.35 * low, 0.84 - 0.6 * low)
    data = bpy.data.lights.new("sun", "SUN")
    data.color = color
    data.energy = rng.uniform(2.5, 5.5) * (1.0 - 0.5 * low)
    data.angle = math.radians(rng.uniform(0.5, 3.0))
    lamp = bpy.data.objects.new("sun", data)
    lamp.rotation_euler = (math.pi / 2 - elevation, 0.0, azimuth)
    bpy.context.scene.collection.objects.link(lamp)
