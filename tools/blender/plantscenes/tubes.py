"""Meshes of tapered tubes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plantscenes.growth import Axis3, unit
from treeformer._util.arrays import FloatArray, IntArray
from treeformer.synthetic.rng import Rng

# Depth of the foot of a plant below z = 0, m.
FOOT_M = 0.12


@dataclass(frozen=True)
class Mesh:
    """A mesh of quadrilaterals."""

    vertices: FloatArray  # (V,3) m
    faces: IntArray  # (F,4) indices of vertices, seen counter-clockwise from outside
    uv: FloatArray  # (F,4,2) texture coordinates of the corners, m on the surface
    thickness: FloatArray  # (V,) radius of the tube at each vertex, m


def frames(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two unit vectors per point (M,3) at right angles to the path and to each other, without sudden twists."""
    tangent = unit(np.gradient(points, axis=0))
    helper = np.eye(3)[int(np.argmin(np.abs(tangent).max(axis=0)))]
    first = np.empty_like(tangent)
    before = helper
    for index, direction in enumerate(tangent):
        before = before - direction * (before @ direction)
        length = np.linalg.norm(before)
        before = before / length if length > 1e-6 else unit(np.cross(direction, helper[[1, 2, 0]]))
        first[index] = before
    return first, np.cross(tangent, first)


def tube(points: FloatArray, radius: FloatArray, sides: int, rng: Rng | None = None, bumps: float = 0.0) -> Mesh:
    """Return the mesh of one tube, with (M+1)·sides vertices. Its ends are open except for a point-like tip.

    `bumps` is the standard deviation of the radius as a share of it; only bumps need `rng`.
    """
    # One more ring closes the tip.
    tip = points[-1] + unit(points[-1] - points[-2]) * radius[-1] * 0.5
    points = np.concatenate([points, tip[None]])
    radius = np.concatenate([radius, [radius[-1] * 0.05]])
    first, second = frames(points)
    angle = np.arange(sides) * (2 * np.pi / sides)
    rings = np.broadcast_to(radius[:, None], (len(points), sides)).copy()
    if rng is not None and bumps > 0:
        noise = rng.bell(len(points), sides)
        # Smooth around the tube, and along it over about one and a half diameters.
        noise = sum(np.roll(noise, shift, axis=1) for shift in (-1, 0, 1)) / 3**0.5
        step = max(float(np.linalg.norm(points[1] - points[0])), 1e-9)
        kernel = np.hanning(2 * int(np.clip(1.5 * radius.max() / step, 1, 30)) + 3)
        kernel /= np.linalg.norm(kernel)
        padded = np.pad(noise, ((len(kernel) // 2,) * 2, (0, 0)), mode="wrap")
        noise = np.stack([np.convolve(column, kernel, mode="valid") for column in padded.T], axis=1)
        rings *= np.clip(1.0 + bumps * noise, 0.6, 1.6)
    offsets = np.cos(angle)[None, :, None] * first[:, None] + np.sin(angle)[None, :, None] * second[:, None]
    vertices = points[:, None] + rings[..., None] * offsets
    ring, side = np.meshgrid(np.arange(len(points) - 1), np.arange(sides), indexing="ij")
    after = (side + 1) % sides
    faces = np.stack([ring * sides + side, ring * sides + after, (ring + 1) * sides + after, (ring + 1) * sides + side])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    around = np.arange(sides + 1) / sides * (2 * np.pi * float(radius.max()))
    uv = np.stack(
        [
            np.stack([around[side], along[ring]], axis=-1),
            np.stack([around[side + 1], along[ring]], axis=-1),
            np.stack([around[side + 1], along[ring + 1]], axis=-1),
            np.stack([around[side], along[ring + 1]], axis=-1),
        ]
    )
    return Mesh(
        vertices.reshape(-1, 3),
        faces.reshape(4, -1).T.astype(np.int64),
        uv.reshape(4, -1, 2).transpose(1, 0, 2),
        np.repeat(radius, sides),
    )


def join(meshes: Sequence[Mesh]) -> Mesh:
    """Return one mesh with the vertices and faces of several."""
    begin = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    return Mesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.faces + first for mesh, first in zip(meshes, begin, strict=False)]),
        np.concatenate([mesh.uv for mesh in meshes]),
        np.concatenate([mesh.thickness for mesh in meshes]),
    )


def plant_mesh(axes: Sequence[Axis3], rng: Rng, pixel: float, bumps: float = 0.06) -> Mesh:
    """Return the mesh of a plant, with more sides on thicker axes.

    `pixel` is the length of one pixel at the plant, m; `bumps` is the unevenness of trunks and arms, see `tube`.
    """
    parts = []
    for axis in axes:
        points, radius = axis.points, axis.radius
        if axis.parent is None:  # the foot reaches into the ground, which is uneven
            points = np.concatenate([points[:1] - np.array([0.0, 0.0, FOOT_M]), points])
            radius = np.concatenate([radius[:1], radius])
        width = float(axis.radius.max()) / pixel
        sides = 4 if width < 1 else 5 if width < 2 else 8 if width < 6 else 14
        rough = bumps if axis.label in ("trunk", "arm", "branch") and width > 2 else 0.0
        parts.append(tube(points, radius, sides, rng, rough))
    return join(parts)
