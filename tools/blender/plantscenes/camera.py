"""A pinhole camera, and what the tubes of a scene hide from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray

# Points nearer to the camera than this are behind it for our purposes, m.
NEAR_M = 0.05
# Tubes with a smaller radius hide nothing of interest, px.
MIN_COVER_PX = 1.2
# Number of (point, tube segment) pairs that are compared at once.
PAIRS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Camera:
    """A pinhole camera with square pixels."""

    position: FloatArray  # (3,) m
    rotation: FloatArray  # (3,3) rows are the directions right, up and backward of the camera, as in Blender
    focal_px: float  # focal length, px
    size: tuple[int, int]  # (width, height) of the image, px

    @classmethod
    def looking_at(
        cls, position: FloatArray, target: FloatArray, focal_px: float, size: tuple[int, int], roll: float = 0.0
    ) -> Camera:
        """Return a camera that sees a target (3,), not straight above or below it, in the center of its image.

        `roll` is the rotation about the viewing direction, radians.
        """
        backward = (position - target) / np.linalg.norm(position - target)
        right = np.cross([0.0, 0.0, 1.0], backward)
        right /= np.linalg.norm(right)
        up = np.cross(backward, right)
        c, s = np.cos(roll), np.sin(roll)
        return cls(position, np.stack([c * right + s * up, c * up - s * right, backward]), focal_px, size)

    def project(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Project points (N,3), m, into the image.

        Return (N,2) px, x right and y down from the top-left corner, NaN for points that are not in front of the
        camera; and (N,) depth along the viewing direction, m.
        """
        right, up, backward = self.rotation @ (points - self.position).T
        depth = -backward
        safe = np.where(depth > NEAR_M, depth, np.nan)
        width, height = self.size
        x = width / 2 + self.focal_px * right / safe
        y = height / 2 - self.focal_px * up / safe
        return np.stack([x, y], axis=1), depth


@dataclass(frozen=True)
class Tubes:
    """Tapered tube segments as the camera sees them."""

    start: FloatArray  # (S,2) px
    end: FloatArray  # (S,2) px
    radius_px: FloatArray  # (S,2) radius at both ends, px
    depth: FloatArray  # (S,2) depth at both ends, m
    radius: FloatArray  # (S,2) radius at both ends, m

    @classmethod
    def of(cls, camera: Camera, lines: list[tuple[FloatArray, FloatArray]]) -> Tubes:
        """Project polylines, points (M,3) and radii (M,), m; segments not in front of the camera are dropped."""
        points = np.concatenate([points for points, _ in lines])
        radii = np.concatenate([radius for _, radius in lines])
        last = np.cumsum([len(points) for points, _ in lines]) - 1
        first = np.setdiff1d(np.arange(len(points)), last)
        image, depth = camera.project(points)
        pairs = np.stack([first, first + 1], axis=1)
        pairs = pairs[(depth[pairs] > NEAR_M).all(axis=1)]
        return cls(
            image[pairs[:, 0]],
            image[pairs[:, 1]],
            camera.focal_px * radii[pairs] / depth[pairs],
            depth[pairs],
            radii[pairs],
        )


def hidden(points: FloatArray, depth: FloatArray, radius_px: FloatArray, tubes: Tubes) -> BoolArray:
    """Return which points (N,2) px of an axis are covered by tubes nearer to the camera; NaN is never covered.

    A point is covered if the segment's nearest point in the image lies in front of it by more than the tube's radius,
    and if the tube covers at least half of the width of the axis on either side of the point. Tubes with a radius of at
    most `MIN_COVER_PX` hide nothing. The tubes include those of the axis itself.
    """
    result = np.zeros(len(points), dtype=bool)
    wide = tubes.radius_px.max(axis=1) > MIN_COVER_PX
    start, step = tubes.start[wide], (tubes.end - tubes.start)[wide]
    radius, tube_depth, thick = tubes.radius_px[wide], tubes.depth[wide], tubes.radius[wide]
    squared = np.maximum((step**2).sum(axis=1), 1e-12)
    rows = max(1, PAIRS_AT_ONCE // max(len(start), 1))
    for first in range(0, len(points), rows):
        part = slice(first, first + rows)
        offset = points[part, None, :] - start[None]
        t = np.clip((offset * step).sum(axis=2) / squared, 0.0, 1.0)
        distance = np.hypot(offset[..., 0] - t * step[:, 0], offset[..., 1] - t * step[:, 1])
        covers = distance + 0.5 * radius_px[part, None] < radius[:, 0] + t * (radius[:, 1] - radius[:, 0])
        front = tube_depth[:, 0] + t * (tube_depth[:, 1] - tube_depth[:, 0])
        front = front + thick[:, 0] + t * (thick[:, 1] - thick[:, 0])
        result[part] = (covers & (front < depth[part, None])).any(axis=1)
    return result
