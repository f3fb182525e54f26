"""TOPO as the paper's code computes it: RelationFormer's port of Sat2Graph's score for road maps.

Walks from the same place in both graphs create samples: "holes" on the ground truth and "marbles" on the prediction.
The score measures how many of them can be paired one to one. docs/metrics.md describes the six steps. Lengths are in
degrees of latitude; the image's 512 px are 0.0046 degrees (`_geographic` explains why).

Nodes farther outside the image than its width (x) or height (y) count as if they lay at that distance.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import BoolArray, Float32Array, FloatArray, IntArray
from treeformer.metrics._geographic import GeographicGraph, distance, shrink
from treeformer.metrics._inputs import GraphLike, Scores, pair
from treeformer.metrics._paper_match import matched, near_edges
from treeformer.metrics._paper_walk import Starts, walk
from treeformer.skeleton.branches import trace

# Lengths in degrees; 0.00001° are 1.11 px.
START_SPACING = 0.0005
PAIR_RADIUS = 0.0001
PAIR_ANGLE = 0.04  # 1 - |cos|: 16°
SAME_PLACE = 0.0002
SAME_PLACE_LIMIT = 0.0003
GOOD_PRECISION = 0.9

# Number of walks compared at once, so that 5,000 nodes fit into memory.
WALK_BLOCK = 256


def topo_paper(
    prediction: GraphLike, ground_truth: GraphLike, *, keypoints: bool = True, image_size: tuple[int, int] | None = None
) -> Scores:
    """Compute precision and recall of the predicted topology as the paper's code does.

    Both are 0 if no walk can start: if a graph has no edge, or if the ground truth has no branch of at least 27.8 px
    (on a 512×512 image).

    Args:
        prediction: a Skeleton, or arrays (nodes, edges) with nodes in px.
        ground_truth: the same for the ground truth.
        keypoints: contract nodes of degree 2 first, so that branches become straight, as in the paper.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.

    Returns:
        Precision and recall; `f1` is their harmonic mean.

    Raises:
        SkeletonError: if a graph is invalid, or the image size is missing or ambiguous.

    Example:
        >>> line = [(0, 256), (512, 256)], [(0, 1)]
        >>> topo_paper(line, line, image_size=(512, 512)).precision
        1.0
    """
    first, second, size = pair(prediction, ground_truth, image_size)
    predicted, true = (GeographicGraph.from_skeleton(graph, keypoints, size) for graph in (first, second))
    starts, at = _starts(true)
    paired, marble_starts = _paired(starts, at, true, predicted)
    starts, at = starts[paired], at[paired]
    precision, recall = _compare(true, starts, predicted, marble_starts)
    kept = _without_neighbors(precision, at, predicted, marble_starts)
    if len(kept) == 0:
        return Scores(0.0, 0.0)
    return Scores(float(precision[kept].mean()), float(recall[kept].mean()))


def _starts(ground_truth: GeographicGraph) -> tuple[Starts, Float32Array]:
    """Step 1: place starts along each branch of the ground truth. Return them and their (W,2) places.

    A branch of one edge is found from both its ends and gets its starts twice, as in the released code.
    """
    degree = np.bincount(ground_truth.edges.ravel(), minlength=len(ground_truth.place))
    branches = trace(ground_truth.edges, len(ground_truth.place), degree != 2)
    first, last = branches.first, branches.last
    begins_at_keypoint = degree[branches.nodes[first]] != 2  # a ring without a keypoint has no start
    first, last = first[begins_at_keypoint], last[begins_at_keypoint]
    single_edge = last - first == 1
    origin = np.concatenate([first, last[single_edge]])
    step = np.concatenate([np.ones_like(first), -np.ones_like(last[single_edge])])
    size = np.concatenate([last - first, np.ones_like(last[single_edge])])
    order = np.argsort(branches.nodes[origin], kind="stable")
    origin, step, size = origin[order], step[order], size[order]

    rank = np.minimum(np.arange(size.max(initial=0) + 1), size[:, None])
    node = branches.nodes[origin[:, None] + step[:, None] * rank]  # one row per branch, its last node repeated
    length = distance(ground_truth.place[node[:, :-1]], ground_truth.place[node[:, 1:]])
    ahead = np.add.accumulate(np.pad(length, ((0, 0), (1, 0))), axis=1, dtype=np.float32)
    total = ahead[:, -1]
    count = np.where(total >= np.float32(START_SPACING / 2), np.maximum(total / np.float32(START_SPACING), 1), 0)
    count = count.astype(np.intp)

    branch = np.repeat(np.arange(len(count)), count)
    number_on_branch = np.arange(len(branch)) - np.repeat(np.cumsum(count) - count, count) + 1
    target = (number_on_branch / (count[branch] + 1)).astype(np.float32) * total[branch]
    segment = np.maximum((ahead[branch] < target[:, None]).sum(axis=1) - 1, 0)
    begin = origin[branch] + step[branch] * segment
    edge = branches.edges[np.minimum(begin, begin + step[branch])]
    to_first, to_second = target - ahead[branch, segment], ahead[branch, segment + 1] - target
    starts = Starts(edge, node[branch, segment], node[branch, segment + 1], to_first, to_second)
    fraction = (to_first / (ahead[branch, segment + 1] - ahead[branch, segment]))[:, None]
    at = (np.float32(1) - fraction) * ground_truth.place[starts.first] + fraction * ground_truth.place[starts.second]
    return starts, at


def _paired(
    starts: Starts, at: Float32Array, ground_truth: GeographicGraph, prediction: GeographicGraph
) -> tuple[IntArray, Starts]:
    """Step 2: pair each start with the nearest edge of similar direction in the prediction.

    Return the indices of the paired starts, and their partners.
    """
    tail, head = prediction.place[prediction.edges[:, 0]], prediction.place[prediction.edges[:, 1]]
    best = np.full(len(starts), -1, dtype=np.intp)
    for low in range(0, len(starts) if len(prediction.edges) else 0, WALK_BLOCK):
        block = slice(low, low + WALK_BLOCK)
        gap = _distance_to_edges(at[block], tail, head)
        angle = np.float32(1) - np.abs(ground_truth.direction[starts.edge[block]] @ prediction.direction.T)
        gap[(angle >= np.float32(PAIR_ANGLE)) | (gap >= np.float32(PAIR_RADIUS))] = np.inf
        nearest = gap.argmin(axis=1)
        best[block] = np.where(np.isfinite(gap[np.arange(len(nearest)), nearest]), nearest, -1)
    paired = np.flatnonzero(best >= 0)
    edge = best[paired]
    first, second = prediction.edges[edge, 0], prediction.edges[edge, 1]
    to_first, to_second = (distance(prediction.place[end], at[paired]) for end in (first, second))
    return paired, Starts(edge, first, second, to_first, to_second)


def _distance_to_edges(point: Float32Array, tail: Float32Array, head: Float32Array) -> Float32Array:
    """Return the (P,E) distances of points to edges, each in the plane tangent to the globe at the edge's tail."""
    east = shrink(tail)
    along = head - tail
    along[:, 1] *= east
    away = point[:, None] - tail
    away[..., 1] *= east
    square = (along * along).sum(axis=-1)
    t = np.clip((away * along).sum(axis=-1) / np.where(square > 0, square, np.float32(1)), 0, 1)
    away -= t[..., None] * along
    gap: Float32Array = np.sqrt((away * away).sum(axis=-1))
    return gap


def _compare(
    ground_truth: GeographicGraph, hole_starts: Starts, prediction: GeographicGraph, marble_starts: Starts
) -> tuple[FloatArray, FloatArray]:
    """Steps 3 and 4: walk from each pair of starts and return its precision and recall."""
    if len(hole_starts) == 0:
        return np.zeros(0), np.zeros(0)
    compatible = near_edges(ground_truth, prediction)
    precision, recall = [], []
    for low in range(0, len(hole_starts), WALK_BLOCK):
        block = slice(low, low + WALK_BLOCK)
        holes = walk(ground_truth.place, ground_truth.edges, hole_starts[block])
        marbles = walk(prediction.place, prediction.edges, marble_starts[block])
        with_copies, without_copies = matched(holes, marbles, compatible)
        precision.append(with_copies / np.diff(marbles.start))
        recall.append(without_copies / np.diff(holes.start))
    return np.concatenate(precision), np.concatenate(recall)


def _without_neighbors(
    precision: FloatArray, at: Float32Array, prediction: GeographicGraph, starts: Starts
) -> IntArray:
    """Step 5: in descending order of precision, drop a start next to one already kept unless its precision is good."""
    order = np.argsort(precision, kind="stable")[::-1]
    good = int((precision >= GOOD_PRECISION).sum())
    is_kept = np.zeros(len(precision), dtype=bool)
    is_kept[order[:good]] = True
    for low in range(good, len(order), WALK_BLOCK):
        block = order[low : low + WALK_BLOCK]
        from_first, from_second = (_paths(prediction, ends[block]) for ends in (starts.first, starts.second))
        for start, first, second in zip(block.tolist(), from_first, from_second, strict=True):
            kept = np.flatnonzero(is_kept)
            is_kept[start] = not _next_to(kept, start, at, starts, first, second).any()
    return np.flatnonzero(is_kept)


def _paths(graph: GeographicGraph, sources: IntArray) -> FloatArray:
    """Return (S,N) path lengths from some nodes to all nodes, infinite beyond the limit."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    tail, head = graph.edges.T
    length = distance(graph.place[tail], graph.place[head]).astype(np.float64)
    # csgraph interprets a length of 0 as a missing edge.
    network = csr_array((np.maximum(length, 1e-12), (tail, head)), shape=(len(graph.place),) * 2)
    paths: FloatArray = dijkstra(network, directed=False, indices=sources, limit=SAME_PLACE_LIMIT)
    return paths


def _next_to(
    kept: IntArray, start: int, at: Float32Array, starts: Starts, from_first: FloatArray, from_second: FloatArray
) -> BoolArray:
    """Return which of the kept starts are next to this one, by path length on the prediction.

    As in the released code, a kept start's distance to the first end of its edge is also used for the second end.
    """
    to_node = np.full(len(kept), np.inf)
    for from_end, to_end in ((from_first, starts.to_first[start]), (from_second, starts.to_second[start])):
        for ends in (starts.first[kept], starts.second[kept]):
            reached = starts.to_first[kept] + from_end[ends]
            to_node = np.minimum(to_node, np.where(reached <= SAME_PLACE_LIMIT, reached + to_end, np.inf))
    same_edge = starts.edge[kept] == starts.edge[start]
    path = np.where(same_edge, np.abs(starts.to_first[kept] - starts.to_first[start]), to_node)
    away = np.abs(at[kept] - at[start])
    in_box = (away[:, 0] <= SAME_PLACE_LIMIT) & (away[:, 1] * shrink(at[kept]) <= SAME_PLACE_LIMIT)
    next_to: BoolArray = in_box & (path < SAME_PLACE)
    return next_to
