"""Points as the paper's TOPO code holds them: degrees of latitude and longitude in single precision.

The code was written for road maps. A point (x, y) of the image, in 512ths of its sides, becomes the place x south
and y east of 41° N 71° W with 111,111 px a degree. There a float32 can only tell places apart that are 0.42 px (x)
or 0.64 px (y) from each other, and every length and every sample inherits that grid. It moves the score of an image
by up to 0.015, which is the "float noise" of the released code; with it, the released scores come out to 0.001.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import Float32Array, FloatArray, IntArray
from treeformer.skeleton import Skeleton

PX_PER_DEGREE = 111_111.0
LATITUDE, LONGITUDE = 41.0, -71.0
DIRECTION_LATITUDE = 40.0  # where directions are taken: not quite where the points are
SIDE_PX = 512


def places(nodes: FloatArray, image_size: tuple[int, int]) -> Float32Array:
    """(N,2) latitude and longitude of points in pixels."""
    px = (nodes / np.asarray(image_size, dtype=np.float64)).astype(np.float32) * np.float32(SIDE_PX)
    south = px[:, 0] / np.float32(PX_PER_DEGREE)
    east = px[:, 1] / np.float32(PX_PER_DEGREE) / np.float32(math.cos(math.radians(LATITUDE)))
    return np.stack([np.float32(LATITUDE) - south, np.float32(LONGITUDE) + east], axis=1)


def shrink(place: Float32Array) -> Float32Array:
    """The length of a degree of longitude there, as a part of a degree of latitude."""
    return np.cos(np.radians(place[..., 0].astype(np.float64))).astype(np.float32)


def distance(a: Float32Array, b: Float32Array) -> Float32Array:
    """In degrees of latitude, by the parallel through `a`."""
    south = a[..., 0] - b[..., 0]
    east = (a[..., 1] - b[..., 1]) * shrink(a)
    apart: Float32Array = np.sqrt(south * south + east * east)
    return apart


def directions(a: Float32Array, b: Float32Array) -> Float32Array:
    """(...,2) unit vectors from a to b, zero where both are one place."""
    step = b - a
    step[..., 1] *= np.float32(math.cos(math.radians(DIRECTION_LATITUDE)))
    size = np.sqrt(step[..., 0] * step[..., 0] + step[..., 1] * step[..., 1])
    size[size == 0] = 1
    unit: Float32Array = step / size[..., None]
    return unit


@dataclass(frozen=True)
class GeographicGraph:
    """A graph on the globe; edges run from the lower to the higher node."""

    place: Float32Array
    edges: IntArray
    direction: Float32Array

    @classmethod
    def of(cls, graph: Skeleton, keypoints: bool, size: tuple[int, int]) -> GeographicGraph:
        """Of a skeleton in an image of this size; without the nodes of degree 2 where only keypoints count."""
        bare = Skeleton(graph.nodes, graph.edges)  # stated roots and axes would survive the contraction
        if keypoints:
            bare = bare.contract()
        place = places(bare.nodes, size)
        edges = np.sort(bare.edges, axis=1)
        edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
        return cls(place, edges, directions(place[edges[:, 0]], place[edges[:, 1]]))
