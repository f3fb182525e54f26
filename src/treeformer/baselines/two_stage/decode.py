"""From node confidence and branch direction maps to a Skeleton: the second stage of the two-stage method, in NumPy."""

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
# The alignment below which a pair counts as not aligned at all: resistivity stays finite, and nearer pairs cost less.
LEAST_ALIGNMENT = 1e-3
LARGEST = 1e6  # bound of confidences, which a network need not keep below 1
LARGEST_COST = 1e300  # bound of resistivities, which high powers of long distances exceed


class Nodes(NamedTuple):
    """Nodes found in a confidence map."""

    points: FloatArray  # (N,2) px
    score: FloatArray  # (N,) in [0,1]
    kind: IntArray  # (N,) the class whose map is highest there


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
    """The skeleton that the maps of one image describe: one tree, whatever the numbers. NaN counts as 0.

    The tree is rooted where the direction map flows from. Dijkstra's tree has the shortest ways to the root of the
    minimum spanning tree.

    Args:
        node_map: (C,h,w) confidence for each class; a cell is `stride` px.
        direction_map: (C,2,h,w) x and y of the direction away from the root.
        search_px, peak_share, node_threshold, max_nodes: see `extract_nodes`.
        segment_points: places at which the direction map is read between two nodes.
        distance_power, alignment_power: see `resistivity`.
        edges: the minimum spanning tree of the resistivities (the paper's), or the shortest ways (ViNet's).
        image_size: (width, height) px; points outside are moved to the image's border.

    Returns:
        With node scores (confidence), edge scores (alignment) and the root; where there are several classes,
        `metadata` holds "node_kind" and "edge_kind". Empty where no cell is confident enough.
    """
    if edges not in ("mst", "dijkstra"):
        raise TreeformerError(f"edges is {edges!r}, one of mst, dijkstra is needed")
    confidence = np.clip(np.nan_to_num(np.asarray(node_map, dtype=np.float32)), 0.0, LARGEST)
    flow = np.clip(np.nan_to_num(np.asarray(direction_map, dtype=np.float32)), -1.0, 1.0)
    if confidence.ndim != 3 or flow.shape != (confidence.shape[0], 2, *confidence.shape[1:]):
        raise TreeformerError(f"maps of the shapes {confidence.shape} and {flow.shape} do not belong together")
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
        pairs = shortest_ways(cost, root)
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
    """Nodes are where the highest of the classes' maps is about as high as anywhere near.

    A cell is a candidate where its confidence is at least `node_threshold` (τ_n) and at least `peak_share` (τ_m) of
    the highest within `search_px` (d) along both axes. Candidates that touch, also at corners, are one node, at
    their mean place, weighted by confidence.

    Args:
        confidence: (C,h,w), finite.
        max_nodes: only so many, the most confident.
    """
    from scipy import ndimage

    highest = confidence.max(axis=0, initial=0.0)
    reach = int(search_px / stride)
    near = ndimage.maximum_filter(highest, 2 * reach + 1, mode="constant", cval=0.0)
    candidate = (highest >= node_threshold) & (highest > 0) & (highest >= peak_share * near)
    group, count = ndimage.label(candidate, np.ones((3, 3)))
    row, column = np.nonzero(group)
    member = group[row, column] - 1
    weight = highest[row, column].astype(np.float64)
    total = np.bincount(member, weight, count)
    x, y = (np.bincount(member, weight * (place + 0.5), count) / total * stride for place in (column, row))
    order = np.lexsort((weight, member))
    top = order[np.cumsum(np.bincount(member, minlength=count)) - 1]  # the highest cell of each group
    kept = np.sort(np.argsort(-weight[top], kind="stable")[:max_nodes])
    top = top[kept]
    kind = confidence[:, row[top], column[top]].argmax(axis=0)
    return Nodes(np.stack([x, y], axis=1)[kept], np.clip(weight[top], 0.0, 1.0), kind.astype(np.intp))


def alignments(
    points: FloatArray, direction_map: NDArray[np.float32], *, stride: int, segment_points: int
) -> tuple[FloatArray, IntArray]:
    """How well the direction map runs along the segment of each pair of nodes.

    The mean over places on the segment i–j of v·u, where v is the map there and u the unit vector from i to j: 1 for a
    branch that runs from i to j, −1 from j to i. Of several classes, the one with the largest magnitude.

    Args:
        points: (N,2) px.
        direction_map: (C,2,h,w).
        segment_points: places, in the middles of equal parts of the segment.

    Returns:
        (N,N) antisymmetric, and the classes (N,N).
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
    """(N,N) distance^distance_power / |alignment|^alignment_power, the alignment kept within [0.001, 1].

    A distance power above 1 makes two steps over a node on the way cheaper than the direct one: at 1 they cost the
    same along a straight branch, and shortest ways jump over nodes as the noise will have it.
    """
    step = points[:, None] - points[None]
    distance = np.hypot(step[..., 0], step[..., 1])
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        cost = distance**distance_power / np.clip(np.abs(alignment), LEAST_ALIGNMENT, 1.0) ** alignment_power
    # An infinite cost would forbid an edge, and the tree would fall apart; the sum along a way has to be finite, too.
    return np.nan_to_num(cost, nan=0.0, posinf=LARGEST_COST).clip(max=LARGEST_COST)


def source_of_flow(edges: IntArray, alignment: FloatArray) -> int:
    """The node of a tree as whose root most of the directions point outwards.

    Walking an edge adds its alignment, so the sum rises along the flow: the root is where it is lowest.
    """
    traversal = traverse_forest(edges, len(alignment), np.zeros(1, dtype=np.intp))
    step = np.zeros(len(edges))
    child = np.flatnonzero(traversal.edge >= 0)
    step[traversal.edge[child]] = alignment[traversal.parents[child], child]
    return int(np.argmin(traversal.summed(step.tolist())))


def shortest_ways(cost: FloatArray, root: int) -> IntArray:
    """The edges (E,2), i < j in rising order, of the tree of shortest paths from all nodes to the root."""
    from scipy.sparse.csgraph import dijkstra

    # In a dense matrix a cost below 1e-8 is no edge to SciPy.
    _, before = dijkstra(np.maximum(cost, 1e-6), directed=False, indices=root, return_predecessors=True)
    child = np.flatnonzero(before >= 0)
    edges = np.sort(np.stack([before[child], child], axis=1), axis=1).astype(np.intp)
    ordered: IntArray = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
    return ordered
