"""From a network's numbers to a Skeleton: the same NumPy function behind every engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.decoding.spanning import minimum_spanning_tree, spanning_forest, spanning_tree_of_pairs
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.skeleton.branches import components
from treeformer.skeleton.resampling import subgraph

MOST_NEIGHBORS = 64  # of a node that are looked at before a search tree of their own is built for the other pieces
LARGEST = 1e6  # bound of costs; beyond it a float32 could not tell neighbors apart anyway
# Where edges cost their length, a root costs as much as an edge of the same probability and the usual node spacing.
ROOT_LENGTH_PX = 8.0


def decode(
    node_score: ArrayLike,
    points: ArrayLike,
    edge_cost: ArrayLike,
    root_logit: ArrayLike,
    *,
    node_threshold: float = 0.5,
    root_threshold: float = 0.5,
    single_plant: bool = False,
    constrained: bool = True,
    distance_cost: bool = False,
    image_size: tuple[int, int] | None = None,
) -> Skeleton:
    """The skeleton that a network's outputs for one image describe.

    With the constraint, the nodes above the threshold are joined by a minimum spanning tree with a virtual root: the
    result is a forest with one root a plant, whatever the numbers. A further plant begins where a node's root score is
    above its threshold and no edge that would tie it to the others is likelier. A plant of one node that has an edge
    likelier than not is a second root of the plant beside it, and left out. NaN counts as "no".

    Args:
        node_score: (K,) probabilities.
        points: (K,2) px.
        edge_cost: (K,K) f⁻ − f⁺, negative where an edge is more likely than not; both directions count half.
        root_logit: (K,) log-odds of being a root.
        node_threshold: least probability of a node.
        root_threshold: least probability of a further plant's root.
        single_plant: one tree, whatever the root scores say.
        constrained: False joins all pairs at a negative cost instead (Eq. 6): any graph may come out.
        distance_cost: span the tree at the cost y⁻ times the distance, the variant of the paper's supplement.
        image_size: (width, height) px; points outside are moved to the image's border.

    Returns:
        The skeleton with node scores, edge scores (probabilities) and roots; empty where no node is likely enough.

    >>> decode([0.9, 0.8, 0.1], [(0, 0), (3, 4), (9, 9)], np.zeros((3, 3)), [2, -3, 0]).edges.tolist()
    [[0, 1]]
    """
    score, place, cost, root = (np.asarray(a, dtype=np.float64) for a in (node_score, points, edge_cost, root_logit))
    _check_shapes(score, place, root, cost, (len(score), len(score)) if score.ndim else ())
    kept = _likely(score, place, node_threshold)
    margin = bounded(cost[np.ix_(kept, kept)], nan=LARGEST)
    margin = (margin + margin.T) / 2
    likely = np.argwhere(np.triu(margin < 0, 1))
    rooted = bounded(root[kept], nan=-LARGEST)
    if constrained:
        cost, root_cost = margin, -rooted
        if distance_cost:
            near = np.clip(place[kept], -LARGEST, LARGEST)
            apart = np.minimum(np.hypot(*(near[:, None] - near).transpose(2, 0, 1)), LARGEST)
            cost, root_cost = _sigmoid(margin) * apart, _sigmoid(-rooted) * ROOT_LENGTH_PX
        edges, roots = _forest(cost, rooted, root_cost, root_threshold, single_plant)
    else:
        edges = likely
        roots = _best_of_each(components(edges, len(kept)), rooted)
    skeleton = _skeleton(score[kept], place[kept], edges, margin[edges[:, 0], edges[:, 1]], roots, image_size)
    return subgraph(skeleton, _without_second_roots(skeleton, likely))


def decode_pairs(
    node_score: ArrayLike,
    points: ArrayLike,
    pairs: ArrayLike,
    pair_cost: ArrayLike,
    root_logit: ArrayLike,
    *,
    node_threshold: float = 0.5,
    root_threshold: float = 0.5,
    single_plant: bool = False,
    image_size: tuple[int, int] | None = None,
) -> Skeleton:
    """As `decode`, where an edge is known for some pairs of nodes only: those that were seen together in a tile.

    Where all pairs are known the result is that of `decode`. Otherwise the known edges may leave several pieces. A
    piece with a likely root is a plant; of the others the one with the highest sum of node scores stays if
    there is no plant at all, and the rest is dropped. With `single_plant` everything stays: the pieces are joined where
    the gap between them is shortest, by edges of confidence 0.

    Args:
        pairs: (E,2) nodes i < j, each pair once, in rising order.
        pair_cost: (E,) f⁻ − f⁺.
    """
    score, place, cost, root = (np.asarray(a, dtype=np.float64) for a in (node_score, points, pair_cost, root_logit))
    ends = np.asarray(pairs, dtype=np.intp).reshape(-1, 2)
    _check_shapes(score, place, root, cost, (len(ends),))
    kept = _likely(score, place, node_threshold)
    number = np.full(len(score), -1)
    number[kept] = np.arange(len(kept))
    ends = number[ends]
    known = (ends >= 0).all(axis=1)
    ends, margin = ends[known], bounded(cost[known], nan=LARGEST)
    place, rooted = place[kept], bounded(root[kept], nan=-LARGEST)
    if single_plant and len(kept):
        chosen = spanning_tree_of_pairs(ends, margin, len(kept))
        near = np.clip(place, -LARGEST, LARGEST)  # squares of distances have to be numbers
        edges = np.concatenate([ends[chosen], shortest_gaps(near, components(ends[chosen], len(kept)))])
        certainty = np.concatenate([margin[chosen], np.full(len(edges) - len(chosen), LARGEST)])
        return _skeleton(score[kept], place, edges, certainty, np.array([rooted.argmax()]), image_size)
    virtual = np.stack([np.arange(len(kept)), np.full(len(kept), len(kept))], axis=1)
    joined = np.concatenate([ends, virtual])
    costs = np.concatenate([margin, _root_cost(rooted, root_threshold)])
    order = np.lexsort((joined[:, 1], joined[:, 0]))
    chosen = order[spanning_tree_of_pairs(joined[order], costs[order], len(kept) + 1)]
    is_root = joined[chosen, 1] == len(kept)
    edges, certainty, roots = joined[chosen[~is_root]], costs[chosen[~is_root]], joined[chosen[is_root], 0]
    skeleton = _skeleton(score[kept], place, edges, certainty, roots, image_size)
    stays = _rooted_pieces(skeleton, rooted, root_threshold)
    # No known edge leaves a piece that is dropped: it would have been cheaper than the root.
    return subgraph(skeleton, stays & _without_second_roots(skeleton, ends[margin < 0]))


def shortest_gaps(points: FloatArray, component: IntArray) -> IntArray:
    """Edges (P-1,2) that join P pieces of points (N,2) into one at the least total length (Borůvka's algorithm)."""
    tree, component = cKDTree(points), component.copy()
    edges: list[tuple[int, int]] = []
    while True:
        name, size = np.unique(component, return_counts=True)
        if len(name) <= 1:
            return np.asarray(edges, dtype=np.intp).reshape(-1, 2)
        gaps = [_gap(tree, points, component == one) for one in name[np.argsort(size, kind="stable")][:-1]]
        for _, i, j in sorted(gaps):
            if component[i] != component[j]:
                edges.append((i, j))
                component[component == component[j]] = component[i]


def _gap(tree: cKDTree, points: FloatArray, inside: NDArray[np.bool_]) -> tuple[float, int, int]:
    """The shortest distance between a piece and the others, and its ends i < j. `tree` holds all points."""
    here, there = np.flatnonzero(inside), np.arange(len(points))
    neighbors = len(here) + 1  # among so many there is one of another piece
    if neighbors > MOST_NEIGHBORS:
        there, neighbors = np.flatnonzero(~inside), 1
        tree = cKDTree(points[there])
    distance, other = tree.query(points[here], k=range(1, neighbors + 1))
    distance[inside[there[other]]] = np.inf
    row, column = np.unravel_index(distance.argmin(), distance.shape)
    i, j = sorted((int(here[row]), int(there[other[row, column]])))
    return float(distance[row, column]), i, j


def _rooted_pieces(skeleton: Skeleton, root_logit: FloatArray, root_threshold: float) -> NDArray[np.bool_]:
    """(N,) the nodes of pieces that begin with a likely root; of the strongest piece where there is none."""
    plants = skeleton.component[skeleton.roots[_is_likely_root(root_logit[skeleton.roots], root_threshold)]]
    if len(plants) == 0 and len(skeleton):
        plants = np.array([np.bincount(skeleton.component, skeleton.node_score).argmax()])
    return np.isin(skeleton.component, plants)


def _without_second_roots(skeleton: Skeleton, likely: IntArray) -> NDArray[np.bool_]:
    """(N,) False for roots without an edge that likely edges (E,2) tie to a plant or to a lower such root.

    Over each other, too, so that the order of the nodes decides nothing but which one of several is the lowest.

    The network doubts between two places for one root then. As a plant it would have no length, and joined to the
    other one it would be a tip too many.
    """
    stays = np.ones(len(skeleton), dtype=bool)
    alone = np.setdiff1d(skeleton.roots, skeleton.edges)
    if len(alone):
        stays[alone] = False
        tied = components(likely, len(skeleton))
        for node in alone:
            stays[node] = not stays[tied == tied[node]].any()
    return stays


def _check_shapes(
    score: FloatArray, place: FloatArray, root: FloatArray, cost: FloatArray, cost_shape: tuple[int, ...]
) -> None:
    count = len(score) if score.ndim == 1 else -1
    if (place.shape, cost.shape, root.shape) != ((count, 2), cost_shape, (count,)):
        shapes = ", ".join(str(array.shape) for array in (score, place, cost, root))
        raise TreeformerError(f"scores, points, costs and roots of the shapes {shapes} do not belong together")


def _likely(score: FloatArray, place: FloatArray, node_threshold: float) -> IntArray:
    return np.flatnonzero((score >= node_threshold) & np.isfinite(place).all(axis=1))


def _skeleton(
    score: FloatArray,
    place: FloatArray,
    edges: IntArray,
    margin: FloatArray,
    roots: IntArray,
    image_size: tuple[int, int] | None,
) -> Skeleton:
    return Skeleton(
        place if image_size is None else np.clip(place, 0.0, image_size),
        edges,
        root=roots,
        node_score=np.clip(score, 0.0, 1.0),
        edge_score=_sigmoid(-margin),
        image_size=image_size,
    )


def _forest(
    cost: FloatArray, root_logit: FloatArray, root_cost: FloatArray, root_threshold: float, single_plant: bool
) -> tuple[IntArray, IntArray]:
    """Edges (E,2) and roots (R,)."""
    if len(cost) == 0:
        return np.zeros((0, 2), dtype=np.intp), np.zeros(0, dtype=np.intp)
    if single_plant:
        return minimum_spanning_tree(cost), np.array([root_logit.argmax()])
    return spanning_forest(cost, _root_cost(root_logit, root_threshold, root_cost))


def _root_cost(root_logit: FloatArray, root_threshold: float, likely_cost: FloatArray | None = None) -> FloatArray:
    """Below the threshold a root costs more than any edge: it is taken only where a tree has no other."""
    likely_cost = -root_logit if likely_cost is None else likely_cost
    return np.where(_is_likely_root(root_logit, root_threshold), likely_cost, 3 * LARGEST - root_logit)


def _is_likely_root(root_logit: FloatArray, root_threshold: float) -> NDArray[np.bool_]:
    likely: NDArray[np.bool_] = _sigmoid(root_logit) > root_threshold
    return likely


def _best_of_each(component: IntArray, value: FloatArray) -> IntArray:
    """The member with the highest value of each piece (the first where several have it)."""
    order = np.lexsort((-value, component))
    return order[np.unique(component[order], return_index=True)[1]]


def bounded(values: FloatArray, nan: float) -> FloatArray:
    """Costs or logits as numbers that can be added: NaN replaced, everything between ±LARGEST."""
    return np.clip(np.nan_to_num(values, nan=nan, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without overflow, at any value."""
    return np.exp(-np.logaddexp(0.0, -values))
