"""Meshes of everything that is not a labeled plant: ground, grass, leaves, prunings, stones, horizon, pots.

Lengths and places are in m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from plantscenes.growth import Axis3, path, perpendicular, unit
from plantscenes.tubes import Mesh, join, tube
from treeformer._util.arrays import FloatArray
from treeformer.synthetic.rng import Rng

# Half the side of the ground, m.
GROUND_M = 200.0


def _quads(corners: FloatArray) -> Mesh:
    """Return a mesh of separate quadrilaterals, given as (F,4,3)."""
    count = len(corners)
    uv = np.broadcast_to(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), (count, 4, 2))
    return Mesh(corners.reshape(-1, 3), np.arange(4 * count).reshape(-1, 4), uv, np.ones(4 * count))


def _grid(vertices: FloatArray) -> Mesh:
    """Return the mesh of a grid of vertices (R,C,3)."""
    rows, columns, _ = vertices.shape
    index = np.arange(rows * columns).reshape(rows, columns)
    faces = np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]], axis=-1).reshape(-1, 4)
    flat = vertices.reshape(-1, 3)
    return Mesh(flat, faces, flat[faces][..., :2], np.ones(len(flat)))


def sheet_mesh(corner: Sequence[float], side: Sequence[float], other: Sequence[float]) -> Mesh:
    """Return a parallelogram with the first corner (3,) and two sides (3,) as a mesh of one face."""
    a, b, c = np.asarray(corner, float), np.asarray(side, float), np.asarray(other, float)
    return _quads(np.stack([a, a + b, a + b + c, a + c])[None])


def ground_mesh(rng: Rng) -> Mesh:
    """Return uneven ground, fine near the origin and coarse far away."""
    steps = np.linspace(-1.0, 1.0, 141)
    line = np.sign(steps) * np.abs(steps) ** 2.6 * GROUND_M
    x, y = np.meshgrid(line, line)
    height = np.zeros_like(x)
    for _ in range(6):
        wave, angle, phase = rng.uniform(0.4, 4.0), rng.uniform(0.0, 6.28), rng.uniform(0.0, 6.28)
        height += 0.008 * (np.sin((x * math.cos(angle) + y * math.sin(angle)) * wave + phase) - math.sin(phase))
    # The plants stand on z = 0: lower the ground a little, and let it rise behind the last row.
    height += rng.bell(*x.shape) * 0.006 - 0.01 + rng.uniform(-0.01, 0.05) * np.maximum(y - 40.0, 0.0)
    return _grid(np.stack([x, y, height], axis=-1))


def tuft_mesh(rng: Rng, tall: float) -> Mesh:
    """Return a tuft of grass: about 20 bent blades of two faces each."""
    corners = []
    for _ in range(rng.whole(12, 26)):
        angle, lean = rng.uniform(0.0, 6.28), rng.uniform(0.1, 0.9)
        base = np.array([rng.uniform(-0.06, 0.06), rng.uniform(-0.06, 0.06), -0.02])
        out = np.array([math.cos(angle), math.sin(angle), 0.0])
        across = np.array([-out[1], out[0], 0.0]) * rng.uniform(0.0012, 0.003)
        length = tall * rng.uniform(0.4, 1.2)
        middle = base + (out * 0.35 * lean + np.array([0.0, 0.0, 0.6])) * length
        tip = base + (out * lean + np.array([0.0, 0.0, 1.0 - 0.4 * lean])) * length
        corners.append([base - across, base + across, middle + across, middle - across])
        corners.append([middle - across, middle + across, tip + 0.1 * across, tip - 0.1 * across])
    return _quads(np.asarray(corners))


def leaves_mesh(rng: Rng, points: FloatArray, size: float) -> Mesh:
    """Return fallen leaves at places (N,2), with one face each."""
    count = len(points)
    center = np.concatenate([points, rng.array(count, 1, low=0.0, high=0.02)], axis=1)
    normal = unit(np.concatenate([rng.bell(count, 2) * 0.35, np.ones((count, 1))], axis=1))
    return _quads(_leaf_corners(rng, center, normal, size))


def _leaf_corners(
    rng: Rng, center: FloatArray, normal: FloatArray, size: float, out: FloatArray | None = None
) -> FloatArray:
    """Return leaves around their centers, or, if directions `out` are given, with their stalks at `center`."""
    count = len(center)
    angle = rng.array(count, 1, high=6.28)
    flat = np.concatenate([np.cos(angle), np.sin(angle), np.zeros((count, 1))], axis=1) if out is None else out
    along = unit(flat - normal * (flat * normal).sum(axis=1, keepdims=True))
    across = np.cross(normal, along)
    half = size * rng.array(count, 1, low=0.3, high=0.6)
    wide = half * rng.array(count, 1, low=0.4, high=0.8)
    if out is not None:
        center = center + along * half
    # A kite: the widest place is nearer to the stalk.
    return np.stack(
        [center - along * half, center + across * wide, center + along * half, center - across * wide], axis=1
    )


def prunings_mesh(rng: Rng, points: FloatArray) -> Mesh:
    """Return twigs that lie on the ground at places (N,2), N at least 1, with one tube each."""
    parts = []
    lie = rng.uniform(0.0, math.pi)
    for x, y in points.tolist():
        angle = lie + rng.uniform(-0.7, 0.7)
        heading = np.array([math.cos(angle), math.sin(angle), rng.uniform(0.0, 0.15)])
        level = np.array([heading[0], heading[1], 0.0])
        start = np.array([x, y, rng.uniform(0.0, 0.04)])
        line = path(rng, start, heading, rng.uniform(0.15, 0.8), step=0.04, towards=level, pull=2.0, wander=0.1)
        line[:, 2] = np.maximum(line[:, 2], 0.004)
        radius = rng.uniform(0.002, 0.007)
        parts.append(tube(line, np.linspace(radius, 0.5 * radius, len(line)), 4))
    return join(parts)


def stone_mesh(rng: Rng) -> Mesh:
    """Return one stone of about 8 cm."""
    height = np.linspace(0.0, 1.0, 6)
    points = np.stack([np.zeros(6), np.zeros(6), -0.03 + 0.07 * height], axis=1)
    radius = 0.05 * np.sqrt(np.maximum(1.0 - (1.6 * height - 0.6) ** 2, 0.02))
    return tube(points, radius, 8, rng, 0.15)


def horizon_mesh(rng: Rng, distance: float, tall: float, trees: bool) -> Mesh:
    """Return a wall that looks like a hill or a line of trees at a distance along +y, as a strip of faces.

    Trees have round crowns with a frayed outline; a hill is smooth.
    """
    count = 3000 if trees else 200
    x = np.linspace(-1.5 * distance, 1.5 * distance, count)
    top = np.full(count, 0.6)
    for wave in (1.5, 3.0, 7.0):
        top += rng.uniform(0.05, 0.4) / wave**0.5 * np.sin(x / distance * wave + rng.uniform(0.0, 6.28))
    top = np.maximum(top, 0.15) * tall
    if trees:
        number = round(3.0 * distance / (0.35 * tall))
        centers = rng.array(number, low=-1.5 * distance, high=1.5 * distance)
        wide = rng.array(number, low=0.15, high=0.5) * tall
        heights = rng.array(number, low=0.35, high=1.0)
        crowns = np.sqrt(np.maximum(1.0 - ((x[:, None] - centers) / wide) ** 2, 0.0)) * heights
        top *= 0.25 + 0.75 * crowns.max(axis=1)
        top *= 1.0 - 0.3 * rng.array(count) ** 2
    y = np.full(count, distance)
    return _grid(np.stack([np.stack([x, y, np.full(count, -3.0)], axis=1), np.stack([x, y, top], axis=1)]))


def pot_mesh(radius: float, height: float, taper: float, square: bool) -> Mesh:
    """Return the outside, the rim at z = 0 and the inside of a pot.

    `radius` is the outer one at the rim, `taper` that at the bottom as a share of it. A square pot has four sides.
    """
    lip = 0.06 * radius
    profile = np.array(
        [
            [taper * radius, -height],
            [radius - lip, -0.14 * height],
            [radius, -0.14 * height],
            [radius, 0.0],
            [radius - lip, 0.0],
            [radius - 2 * lip, -0.3 * height],
        ]
    )
    sides = 4 if square else 40
    angle = np.linspace(0.0, 2 * math.pi, sides + 1) + math.pi / 4
    grow = math.sqrt(2.0) if square else 1.0
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) * grow
    vertices = np.concatenate(
        [profile[:, None, :1] * ring[None], np.broadcast_to(profile[:, None, 1:], (len(profile), sides + 1, 1))], axis=2
    )
    corners = np.stack([vertices[:-1, :-1], vertices[:-1, 1:], vertices[1:, 1:], vertices[1:, :-1]], axis=2)
    return _quads(corners.reshape(-1, 4, 3))


def soil_mesh(rng: Rng, radius: float, square: bool = False) -> Mesh:
    """Return a lumpy disk of soil around the origin, or a square with sides of twice the radius."""
    share = np.linspace(0.01, 1.0, 12)
    angle = np.linspace(0.0, 2 * math.pi, 33)
    height = rng.bell(12, 33) * 0.02 * radius
    height[:, -1] = height[:, 0]
    reach = radius / np.maximum(np.abs(np.cos(angle)), np.abs(np.sin(angle))) if square else radius
    x, y = share[:, None] * np.cos(angle) * reach, share[:, None] * np.sin(angle) * reach
    return _grid(np.stack([x, y, height], axis=-1))


def foliage_mesh(rng: Rng, axes: Sequence[Axis3], size: float, density: float) -> Mesh | None:
    """Return leaves along the outer halves of axes, with one face each; None without leaves.

    `density` is the share of possible places that have a leaf.
    """
    stalks, directions, normals = [], [], []
    for axis in axes:
        spacing = max(1, round(size / max(float(np.linalg.norm(axis.points[1] - axis.points[0])), 1e-6)))
        for index in range(len(axis.points) // 3, len(axis.points), spacing):
            if not rng.chance(density):
                continue
            tangent = unit(axis.points[index] - axis.points[index - 1]) if index else np.array([0.0, 0.0, 1.0])
            out = perpendicular(tangent, rng.uniform(0.0, 6.28))
            stalks.append(axis.points[index])
            directions.append(out)
            normals.append(unit(np.array([0.0, 0.0, 1.0]) + 0.6 * rng.bell(3)))
    if not stalks:
        return None
    return _quads(_leaf_corners(rng, np.asarray(stalks), np.asarray(normals), size, np.asarray(directions)))
