"""The line: how far the predicted line runs from the true one, and the true one from the predicted.

Both graphs are sampled densely along their edges, and each sample stands for the same share of the length. From the
prediction to the ground truth, large distances are false plants and lines that cut corners; from the ground truth to
the prediction, they are plants that are missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer._util.geometry import project_onto_segments
from treeformer.metrics._inputs import GraphLike, length_px, limit_to_surroundings, pair, unit_px

# Distance up to which a place on one line is near the other, in units: that of TOPO.
GATE = 200 / 18
# Distance between samples, in units, unless a graph would have more samples than this.
SPACING = 0.5
MAX_SAMPLES = 400_000


@dataclass(frozen=True, slots=True)
class LineDistance:
    """Distances from the places on one line to the nearest place on another, weighted by length.

    Distances are NaN if one of the graphs has no length.

    Attributes:
        within: fraction of the length within the gate; 0 if the other graph has no length, NaN if this one has none.
        median: median distance, px.
        p95: distance within which 95 % of the length lies, px.
        near_p95: distance within which 95 % of the length within the gate lies, px.
    """

    within: float
    median: float
    p95: float
    near_p95: float


def line_distance(
    origin: GraphLike, target: GraphLike, *, gate_px: float | None = None, image_size: tuple[int, int] | None = None
) -> LineDistance:
    """Measure how far the line of one graph lies from that of another.

    `line_distance(prediction, ground_truth)` grows with false plants and inexact lines, `line_distance(ground_truth,
    prediction)` with missing plants. `near_p95` says how exact the line is where both graphs have one.

    Args:
        origin: the graph whose length is measured: a Skeleton, or arrays (nodes, edges) with nodes in px.
        target: the graph to which distances are measured.
        gate_px: largest distance that belongs to the same plant, px; 11.1/512 of the longer side by default, as TOPO.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.

    Returns:
        The distances, px.

    Raises:
        SkeletonError: if a graph is invalid, the image size is missing or ambiguous, or `gate_px` is not positive.

    Example:
        >>> line, shifted = ([(0, 0), (100, 0)], [(0, 1)]), ([(0, 3), (100, 3)], [(0, 1)])
        >>> line_distance(shifted, line, image_size=(512, 512)).p95
        3.0
    """
    first, second, size = pair(origin, target, image_size)
    gate = length_px(gate_px, GATE, size, "gate_px")
    spacing = SPACING * unit_px(size)
    nan = float("nan")
    places, _ = _samples(limit_to_surroundings(first.nodes, size), first.edges, spacing)
    others = limit_to_surroundings(second.nodes, size)
    other_places, edge = _samples(others, second.edges, spacing)
    if not len(places) or not len(other_places):
        return LineDistance(0.0 if len(places) else nan, nan, nan, nan)
    from scipy.spatial import cKDTree

    # The edge of the nearest sample is the nearest edge, or another one is nearer by less than half a spacing.
    nearest = second.edges[edge[cKDTree(other_places).query(places)[1]]]
    _, distance = project_onto_segments(places, others[nearest[:, 0]], others[nearest[:, 1]])
    near = distance[distance <= gate]
    median, p95 = np.quantile(distance, (0.5, 0.95)).tolist()
    return LineDistance(len(near) / len(distance), median, p95, float(np.quantile(near, 0.95)) if len(near) else nan)


def _samples(nodes: FloatArray, edges: IntArray, spacing: float) -> tuple[FloatArray, IntArray]:
    """Return places at equal steps along all edges, one after another, (M,2) px, and the edge of each, (M,)."""
    begin, step = nodes[edges[:, 0]], nodes[edges[:, 1]] - nodes[edges[:, 0]]
    ahead = np.cumsum(np.hypot(*step.T))
    total = float(ahead[-1]) if len(ahead) else 0.0
    if total == 0:
        return np.zeros((0, 2)), np.zeros(0, dtype=np.intp)
    count = min(int(np.ceil(total / spacing)), MAX_SAMPLES)
    place = (np.arange(count) + 0.5) * (total / count)
    edge = np.searchsorted(ahead, place, side="right").clip(max=len(edges) - 1)
    length = np.diff(ahead, prepend=0.0)[edge]
    t = np.divide(place - (ahead[edge] - length), length, out=np.zeros(count), where=length > 0)
    return begin[edge] + t.clip(0, 1)[:, None] * step[edge], edge
