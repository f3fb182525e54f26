"""TOPO as the paper's code computes it: RelationFormer's port of Sat2Graph's score for road maps.

Walks from the same place in both graphs lay samples, "holes" in the ground truth and "marbles" in the prediction, and the
score tells how many of them can be paired one to one. The six steps are told in docs/metrics.md; lengths are in
degrees of latitude, of which the image's 512 px are 0.0046 (`_geographic` says why).
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

# Walks that are compared at once, so that 5,000 nodes fit into memory.
WALKS_AT_ONCE = 256


def topo_paper(
    prediction: GraphLike, ground_truth: GraphLike, *, keypoints: bool = True, image_size: tuple[int, int] | None = None
) -> Scores:
    """Precision and recall of the prediction's topology as the paper's code computes them; F1 is their harmonic mean.

    Both are 0 where no walk can begin: where a graph has no edge, or the ground truth no branch of at least 27.8 px (of 512).

    Args:
        prediction, ground truth: skeletons, or pairs (nodes, edges) with nodes in pixels.
        keypoints: contract nodes of degree 2 first, so that branches become straight, as the paper does.
        image_size: (width, height) in pixels; needed where neither skeleton has it.

    >>> line = [(0, 256), (512, 256)], [(0, 1)]
    >>> topo_paper(line, line, image_size=(512, 512)).precision
    1.0
    """
    first, second, size = pair(prediction, ground_truth, image_size)
    found, wanted = (GeographicGraph.of(graph, keypoints, size) for graph in (first, second))
    starts, at = _starts(wanted)
    paired, marble_starts = _paired(starts, at, wanted, found)
    starts, at = starts[paired], at[paired]
    precision, recall = _compare(wanted, starts, found, marble_starts)
    kept = _without_neighbors(precision, at, found, marble_starts)
    if len(kept) == 0:
        return Scores(0.0, 0.0)
    return Scores(float(precision[kept].mean()), float(recall[kept].mean()))


def _starts(ground_truth: GeographicGraph) -> tuple[Starts, Float32Array]:
    """Step 1: starts along each branch of the ground truth, and where they lie.

    A branch of one edge is met from both its ends and gets its starts twice, one of the released code's quirks.
    """
    degree = np.bincount(ground_truth.edges.ravel(), minlength=len(ground_truth.place))
    branches = trace(ground_truth.edges, len(ground_truth.place), degree != 2)
    first, last = branches.first, branches.last
    begins_at_key = degree[branches.nodes[first]] != 2  # a ring without such a node has no start
    first, last = first[begins_at_key], last[begins_at_key]
    twice = last - first == 1
    origin = np.concatenate([first, last[twice]])
    step = np.concatenate([np.ones_like(first), -np.ones_like(last[twice])])
    size = np.concatenate([last - first, np.ones_like(last[twice])])
    order = np.argsort(branches.nodes[origin], kind="stable")
    origin, step, size = origin[order], step[order], size[order]

    rank = np.minimum(np.arange(size.max(initial=0) + 1), size[:, None])
    node = branches.nodes[origin[:, None] + step[:, None] * rank]  # a branch a row, its last node repeated
    length = distance(ground_truth.place[node[:, :-1]], ground_truth.place[node[:, 1:]])
    ahead = np.add.accumulate(np.pad(length, ((0, 0), (1, 0))), axis=1, dtype=np.float32)
    total = ahead[:, -1]
    count = np.where(total >= np.float32(START_SPACING / 2), np.maximum(total / np.float32(START_SPACING), 1), 0)
    count = count.astype(np.intp)

    branch = np.repeat(np.arange(len(count)), count)
    place_in_row = np.arange(len(branch)) - np.repeat(np.cumsum(count) - count, count) + 1
    target = (place_in_row / (count[branch] + 1)).astype(np.float32) * total[branch]
    segment = np.maximum((ahead[branch] < target[:, None]).sum(axis=1) - 1, 0)
    begin = origin[branch] + step[branch] * segment
    edge = branches.edges[np.minimum(begin, begin + step[branch])]
    to_first, to_second = target - ahead[branch, segment], ahead[branch, segment + 1] - target
    starts = Starts(edge, node[branch, segment], node[branch, segment + 1], to_first, to_second)
    share = (to_first / (ahead[branch, segment + 1] - ahead[branch, segment]))[:, None]
    at = (np.float32(1) - share) * ground_truth.place[starts.first] + share * ground_truth.place[starts.second]
    return starts, at


def _paired(
    starts: Starts, at: Float32Array, ground_truth: GeographicGraph, prediction: GeographicGraph
) -> tuple[IntArray, Starts]:
    """Step 2: the starts that have a partner, and the partners: on the nearest edge of much the same direction."""
    tail, head = prediction.place[prediction.edges[:, 0]], prediction.place[prediction.edges[:, 1]]
    best = np.full(len(starts), -1, dtype=np.intp)
    for low in range(0, len(starts) if len(prediction.edges) else 0, WALKS_AT_ONCE):
        some = slice(low, low + WALKS_AT_ONCE)
        away = _distance_to_edges(at[some], tail, head)
        angle = np.float32(1) - np.abs(ground_truth.direction[starts.edge[some]] @ prediction.direction.T)
        away[(angle >= np.float32(PAIR_ANGLE)) | (away >= np.float32(PAIR_RADIUS))] = np.inf
        nearest = away.argmin(axis=1)
        best[some] = np.where(np.isfinite(away[np.arange(len(nearest)), nearest]), nearest, -1)
    paired = np.flatnonzero(best >= 0)
    edge = best[paired]
    first, second = prediction.edges[edge, 0], prediction.edges[edge, 1]
    to_first, to_second = (distance(prediction.place[end], at[paired]) for end in (first, second))
    return paired, Starts(edge, first, second, to_first, to_second)


def _distance_to_edges(point: Float32Array, tail: Float32Array, head: Float32Array) -> Float32Array:
    """(P,E) the distance of each point to each edge, in the plane that touches the globe at the edge's tail."""
    east = shrink(tail)
    along = head - tail
    along[:, 1] *= east
    away = point[:, None] - tail
    away[..., 1] *= east
    square = (along * along).sum(axis=-1)
    t = np.clip((away * along).sum(axis=-1) / np.where(square > 0, square, np.float32(1)), 0, 1)
    away -= t[..., None] * along
    apart: Float32Array = np.sqrt((away * away).sum(axis=-1))
    return apart


def _compare(
    ground_truth: GeographicGraph, hole_starts: Starts, prediction: GeographicGraph, marble_starts: Starts
) -> tuple[FloatArray, FloatArray]:
    """Steps 3 and 4: precision and recall at each pair of starts."""
    if len(hole_starts) == 0:
        return np.zeros(0), np.zeros(0)
    compatible = near_edges(ground_truth, prediction)
    precision, recall = [], []
    for low in range(0, len(hole_starts), WALKS_AT_ONCE):
        some = slice(low, low + WALKS_AT_ONCE)
        holes = walk(ground_truth.place, ground_truth.edges, hole_starts[some])
        marbles = walk(prediction.place, prediction.edges, marble_starts[some])
        with_copies, without = matched(holes, marbles, compatible)
        precision.append(with_copies / np.diff(marbles.start))
        recall.append(without / np.diff(holes.start))
    return np.concatenate(precision), np.concatenate(recall)


def _without_neighbors(
    precision: FloatArray, at: Float32Array, prediction: GeographicGraph, starts: Starts
) -> IntArray:
    """Step 5: in falling order of precision, drop a start beside one already kept unless its precision is good."""
    order = np.argsort(precision, kind="stable")[::-1]
    good = int((precision >= GOOD_PRECISION).sum())
    is_kept = np.zeros(len(precision), dtype=bool)
    is_kept[order[:good]] = True
    for low in range(good, len(order), WALKS_AT_ONCE):
        some = order[low : low + WALKS_AT_ONCE]
        from_first, from_second = (_paths(prediction, ends[some]) for ends in (starts.first, starts.second))
        for start, first, second in zip(some.tolist(), from_first, from_second, strict=True):
            kept = np.flatnonzero(is_kept)
            is_kept[start] = not _beside(kept, start, at, starts, first, second).any()
    return np.flatnonzero(is_kept)


def _paths(graph: GeographicGraph, sources: IntArray) -> FloatArray:
    """(S,N) path lengths from some nodes to all, infinite beyond the limit."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    tail, head = graph.edges.T
    length = distance(graph.place[tail], graph.place[head]).astype(np.float64)
    # csgraph reads a length of 0 as no edge.
    network = csr_array((np.maximum(length, 1e-12), (tail, head)), shape=(len(graph.place),) * 2)
    paths: FloatArray = dijkstra(network, directed=False, indices=sources, limit=SAME_PLACE_LIMIT)
    return paths


def _beside(
    kept: IntArray, start: int, at: Float32Array, starts: Starts, from_first: FloatArray, from_second: FloatArray
) -> BoolArray:
    """Which of the kept starts have this one beside them, by path length on the prediction.

    The released code takes a kept start's distance to its edge's first end for that to the second end, too.
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
    beside: BoolArray = in_box & (path < SAME_PLACE)
    return beside
