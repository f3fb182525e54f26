"""Points as the paper's TOPO code stores them: degrees of latitude and longitude in single precision.

The code was written for road maps. An image point (x, y), in 1/512 of the image's sides, is stored as the place x px
south and y px east of 41° N 71° W, at 111,111 px per degree. In float32, neighboring places there are 0.42 px (x) or
0.64 px (y) apart, and every length and every sample is rounded to that grid. The grid changes the score of an image by
up to 0.015. This is the "float noise" of the released code; with the grid, the released scores are reproduced to 0.001.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import Float32Array, FloatArray, IntArray
from treeformer.metrics._inputs import limit_to_surroundings
from treeformer.skeleton import Skeleton

PX_PER_DEGREE = 111_111.0
LATITUDE, LONGITUDE = 41.0, -71.0
# The released code computes directions at this latitude, not at that of the points.
DIRECTION_LATITUDE = 40.0
SIDE_PX = 512


def places(nodes: FloatArray, image_size: tuple[int, int]) -> Float32Array:
    """Convert image points (N,2) px to (N,2) latitude and longitude, degrees; `image_size` is (width, height) px."""
    px = (nodes / np.asarray(image_size, dtype=np.float64)).astype(np.float32) * np.float32(SIDE_PX)
    south = px[:, 0] / np.float32(PX_PER_DEGREE)
    east = px[:, 1] / np.float32(PX_PER_DEGREE) / np.float32(math.cos(math.radians(LATITUDE)))
    return np.stack([np.float32(LATITUDE) - south, np.float32(LONGITUDE) + east], axis=1)


def shrink(place: Float32Array) -> Float32Array:
    """Return the length of a degree of longitude at (...,2) places, as a fraction of a degree of latitude."""
    return np.cos(np.radians(place[..., 0].astype(np.float64))).astype(np.float32)


def distance(a: Float32Array, b: Float32Array) -> Float32Array:
    """Compute distances (...) between places (...,2), degrees of latitude.

    The length of a degree of longitude is that at `a`.
    """
    south = a[..., 0] - b[..., 0]
    east = (a[..., 1] - b[..., 1]) * shrink(a)
    length: Float32Array = np.sqrt(south * south + east * east)
    return length


def directions(a: Float32Array, b: Float32Array) -> Float32Array:
    """Compute the directions from places `a` to places `b`: unit vectors (...,2), zero if both places are equal."""
    step = b - a
    step[..., 1] *= np.float32(math.cos(math.radians(DIRECTION_LATITUDE)))
    size = np.sqrt(step[..., 0] * step[..., 0] + step[..., 1] * step[..., 1])
    size[size == 0] = 1
    unit: Float32Array = step / size[..., None]
    return unit


@dataclass(frozen=True)
class GeographicGraph:
    """A graph in geographic coordinates."""

    place: Float32Array  # (N,2) latitude and longitude of the nodes, degrees
    edges: IntArray  # (E,2) node indices, from the lower to the higher node, sorted
    direction: Float32Array  # (E,2) unit vectors along the edges

    @classmethod
    def from_skeleton(cls, skeleton: Skeleton, keypoints: bool, size: tuple[int, int]) -> GeographicGraph:
        """Convert a skeleton. Nodes far outside the image are moved nearer, as `limit_to_surroundings` describes.

        `keypoints` contracts the nodes of degree 2. The size of the image is (width, height) px.
        """
        bare = Skeleton(skeleton.nodes, skeleton.edges)  # explicit roots and axes would survive the contraction
        if keypoints:
            bare = bare.contract()
        place = places(limit_to_surroundings(bare.nodes, size), size)
        edges = np.sort(bare.edges, axis=1)
        edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
        return cls(place, edges, directions(place[edges[:, 0]], place[edges[:, 1]]))
