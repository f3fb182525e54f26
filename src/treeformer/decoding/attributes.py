"""Predicted attributes of nodes: radii in pixels, and directions to the parents as a part of edge costs.

A network with attributes returns three numbers per node: log(r + 0.5), with the radius r in px of its input, and
(dx, dy), about the unit vector from the node to its parent. The vector is shorter if the network is unsure.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray

# Added to the radius before the logarithm, px of the network's input; as in `treeformer.nn.attributes`.
RADIUS_OFFSET_PX = 0.5
# Largest radius, px of the network's input.
MAX_RADIUS_PX = 1e4


def radius_px(attributes: FloatArray, scale: float) -> FloatArray:
    """Return the radii (K,) in px of the original image; NaN if the network's output (K,3) is NaN.

    They are 0 to `MAX_RADIUS_PX` · `scale`, which is px of the original image per px of the network's input.

    Example:
        >>> radius_px(np.array([[np.log(2.5), 0, 1]]), 3.0).round(6).tolist()
        [6.0]
    """
    log_radius = np.minimum(attributes[:, 0].astype(np.float64), np.log(MAX_RADIUS_PX))
    radius: FloatArray = np.maximum(np.exp(log_radius) - RADIUS_OFFSET_PX, 0.0) * scale
    return radius


def direction_cost(points: FloatArray, pairs: IntArray, attributes: FloatArray, weight: float) -> FloatArray:
    """Return costs (E,), not negative, of edges between points (K,2) px that contradict the predicted directions.

    An edge (i, j) of `pairs` (E,2) agrees with the directions if i points to j or j points to i: one of them is the
    parent. The cost is `weight` times the longer of the two direction vectors, minus the better agreement: 0 if one
    node points exactly along the edge, `weight` at a right angle to a sure direction, and at most 2 · `weight`. It is 0
    as well if the network is unsure about both directions. NaN in `attributes` (K,3) counts as no direction.

    Example:
        >>> nodes, down = np.array([(0.0, 0.0), (0, 9), (9, 9)]), np.array([(0.0, 0, 0), (0, 0, -1), (0, 0, -1)])
        >>> direction_cost(nodes, np.array([(0, 1), (1, 2)]), down, 8.0).tolist()
        [0.0, 8.0]
    """
    direction = np.nan_to_num(attributes[:, 1:].astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    length = np.hypot(direction[:, 0], direction[:, 1])
    direction = direction / np.maximum(length, 1.0)[:, None]
    first, second = pairs[:, 0], pairs[:, 1]
    x, y = (values[second] - values[first] for values in points.T)  # columns: NumPy is slow at rows of two
    edge_length = np.maximum(np.hypot(x, y), 1e-9)
    x, y, (dx, dy) = x / edge_length, y / edge_length, direction.T
    agreement = np.maximum(x * dx[first] + y * dy[first], -(x * dx[second] + y * dy[second]))
    sureness = np.minimum(np.maximum(length[first], length[second]), 1.0)
    cost: FloatArray = weight * np.maximum(sureness - agreement, 0.0)
    return cost
