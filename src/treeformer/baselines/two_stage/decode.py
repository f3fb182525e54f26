"""The second stage of the two-stage method, in NumPy: decodes confidence and direction maps into a Skeleton.

The node map is (C,h,w) confidence per class, the direction map (C,2,h,w): x and y of the direction away from the root.
`stride` is the side of a cell, px. Alignments and costs are (N,N).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.decoding.spanning import minimum_spanning_tree
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.skeleton.traversal import traverse_forest

MapArray = NDArray[np.floating[Any]]
# Lower bound of the alignment. It keeps resistivities finite, and among unaligned pairs the closer ones cost less.
MIN_ALIGNMENT = 1e-3
MAX_CONFIDENCE = 1e6  # upper bound of confidences, because a network may predict more than 1
MAX_COST = 1e300  # upper bound of resistivities, because high powers of long distances overflow


class Nodes(NamedTuple):
    """Nodes extracted from a confidence map."""

    points: FloatArray  # (N,2) px
    score: FloatArray  # (N,) confidence in [0,1]
    kind: IntArray  # (N,) class with the highest confidence at the node


def decode_maps(
    node_map: MapArray,
    direction_map: MapArray,
    *,
    stride: int = 1,
    search_px: float = 9.0,
    peak_share: float = 0.97,
    node_threshold: float = 0.5,
    max_nodes: int = 300,
    segment_points: int = 32,
    distance_power: float = 1.1,
    alignment_power: float = 4.0,
    edges: Literal["mst", "dijkstra"] = "mst",
    image_size: tuple[int, int] | None = None,
) -> Skeleton:
    """Decode the maps of one image into a tree. Any numbers give a valid tree; NaN counts as 0.

    The root is the node from which the direction map flows. The tree "mst" is the minimum spanning tree of the
    resistivities (the paper's method), "dijkstra" has the shortest paths to its root (ViNet's method). For the other
    parameters see `extract_nodes`, `alignments` and `resistivity`. Points outside of `image_size` are moved to its
    border.

    The skeleton has node scores (confidence), edge scores (alignment) and the root. With several classes, its
    `metadata` holds "node_kind" and "edge_kind". It is empty if no cell is confident enough.
    """
    if edges not in ("mst", "dijkstra"):
        raise TreeformerError(f"edges must be one of mst, dijkstra, not {edges!r}")
    confidence = np.clip(np.nan_to_num(np.asarray(node_map, dtype=np.float32)), 0.0, MAX_CONFIDENCE)
    flow = np.clip(np.nan_to_num(np.asarray(direction_map, dtype=np.float32)), -1.0, 1.0)
    if confidence.ndim != 3 or flow.shape != (confidence.shape[0], 2, *confidence.shape[1:]):
        raise TreeformerError(f"the shapes of the maps do not match: {confidence.shape} and {flow.shape}")
    nodes = extract_nodes(
        confidence,
        stride=stride,
        search_px=search_px,
        peak_share=peak_share,
        node_threshold=node_threshold,
        max_nodes=max_nodes,
    )
    alignment, kind = alignments(nodes.points, flow, stride=stride, segment_points=segment_points)
    cost = resistivity(nodes.points, alignment, distance_power, alignment_power)
    pairs = minimum_spanning_tree(cost)
    root = source_of_flow(pairs, alignment) if len(cost) else None
    if edges == "dijkstra" and root is not None:
        pairs = shortest_path_tree(cost, root)
    metadata: dict[str, Any] = {}
    if len(confidence) > 1:
        metadata = {"node_kind": nodes.kind.tolist(), "edge_kind": kind[pairs[:, 0], pairs[:, 1]].tolist()}
    return Skeleton(
        nodes.points if image_size is None else np.clip(nodes.points, 0.0, image_size),
        pairs,
        root=root,
        node_score=nodes.score,
        edge_score=np.minimum(np.abs(alignment[pairs[:, 0], pairs[:, 1]]), 1.0),
        image_size=image_size,
        metadata=metadata,
    )


def extract_nodes(
    confidence: NDArray[np.float32],
    *,
    stride: int,
    search_px: float,
    peak_share: float,
    node_threshold: float,
    max_nodes: int,
) -> Nodes:
    """Extract the most confident nodes: the local maxima of the highest confidence of all classes.

    A cell is a candidate if its confidence is at least `node_threshold` (τ_n), and at least `peak_share` (τ_m) times
    the highest confidence within `search_px` (d) along both axes. Candidates that touch, corners included, are one node
    at their mean position, weighted by confidence. The confidence is finite.
    """
    from scipy import ndimage

    highest = confidence.max(axis=0, initial=0.0)
    reach = int(search_px / stride)
    local_maximum = ndimage.maximum_filter(highest, 2 * reach + 1, mode="constant", cval=0.0)
    candidate = (highest >= node_threshold) & (highest > 0) & (highest >= peak_share * local_maximum)
    group, count = ndimage.label(candidate, np.ones((3, 3)))
    row, column = np.nonzero(group)
    member = group[row, column] - 1
    weight = highest[row, column].astype(np.float64)
    total = np.bincount(member, weight, count)
    x, y = (np.bincount(member, weight * (cell + 0.5), count) / total * stride for cell in (column, row))
    order = np.lexsort((weight, member))
    top = order[np.cumsum(np.bincount(member, minlength=count)) - 1]  # the highest cell of each group
    kept = np.sort(np.argsort(-weight[top], kind="stable")[:max_nodes])
    top = top[kept]
    kind = confidence[:, row[top], column[top]].argmax(axis=0)
    return Nodes(np.stack([x, y], axis=1)[kept], np.clip(weight[top], 0.0, 1.0), kind.astype(np.intp))


def alignments(
    points: FloatArray, direction_map: NDArray[np.float32], *, stride: int, segment_points: int
) -> tuple[FloatArray, IntArray]:
    """Compute how well the direction map follows the segment between each pair of nodes, and the class it follows.

    The alignment of i and j is the mean of v·u over samples at the centers of equal parts of the segment, where v is
    the map at the sample and u the unit vector from i to j. It is 1 for a branch from i to j and −1 for a branch from j
    to i. With several classes, the class with the largest magnitude counts.
    """
    count, (height, width) = len(points), direction_map.shape[2:]
    i, j = np.triu_indices(count, k=1)
    step = points[j] - points[i]
    length = np.hypot(step[:, 0], step[:, 1])
    unit = (step / np.maximum(length, 1e-12)[:, None]).astype(np.float32)
    share = ((np.arange(segment_points) + 0.5) / segment_points)[None]
    x, y = ((points[i, axis, None] + share * step[:, axis, None]) / stride for axis in (0, 1))
    cell = np.clip(y.astype(np.intp), 0, height - 1) * width + np.clip(x.astype(np.intp), 0, width - 1)
    flat = direction_map.reshape(len(direction_map), 2, height * width)
    each = np.stack([sum(layer[axis].take(cell).mean(axis=1) * unit[:, axis] for axis in (0, 1)) for layer in flat])
    best = np.abs(each).argmax(axis=0)
    alignment, kind = np.zeros((count, count)), np.zeros((count, count), dtype=np.intp)
    alignment[i, j] = np.take_along_axis(each, best[None], axis=0)[0]
    alignment[j, i] = -alignment[i, j]
    kind[i, j] = kind[j, i] = best
    return alignment, kind


def resistivity(points: FloatArray, alignment: FloatArray, distance_power: float, alignment_power: float) -> FloatArray:
    """Compute the cost of each pair: distance^distance_power / |alignment|^alignment_power.

    The alignment is clipped to [0.001, 1]. With a distance power above 1, two edges over an intermediate node cost less
    than the direct edge. With a power of 1 both cost the same along a straight branch, so that noise would decide
    whether shortest paths skip nodes.
    """
    step = points[:, None] - points[None]
    distance = np.hypot(step[..., 0], step[..., 1])
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        cost = distance**distance_power / np.clip(np.abs(alignment), MIN_ALIGNMENT, 1.0) ** alignment_power
    # An infinite cost would forbid an edge and could disconnect the tree. Sums along a path have to be finite, too.
    return np.nan_to_num(cost, nan=0.0, posinf=MAX_COST).clip(max=MAX_COST)


def source_of_flow(edges: IntArray, alignment: FloatArray) -> int:
    """Find the root of a tree for which most directions point outwards.

    The sum of alignments along a path increases with the flow. The root is the node with the lowest sum.
    """
    traversal = traverse_forest(edges, len(alignment), np.zeros(1, dtype=np.intp))
    step = np.zeros(len(edges))
    child = np.flatnonzero(traversal.edge >= 0)
    step[traversal.edge[child]] = alignment[traversal.parents[child], child]
    return int(np.argmin(traversal.sum_from_root(step.tolist())))


def shortest_path_tree(cost: FloatArray, root: int) -> IntArray:
    """Compute the tree of shortest paths from all nodes to the root: edges (E,2) with i < j, sorted."""
    from scipy.sparse.csgraph import dijkstra

    # In a dense matrix, SciPy treats a cost below 1e-8 as a missing edge.
    _, predecessor = dijkstra(np.maximum(cost, 1e-6), directed=False, indices=root, return_predecessors=True)
    child = np.flatnonzero(predecessor >= 0)
    edges = np.sort(np.stack([predecessor[child], child], axis=1), axis=1).astype(np.intp)
    ordered: IntArray = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
    return ordered
