"""Turn the outputs of a network into a Skeleton: one NumPy implementation for all engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer._util.search_tree import search_tree
from treeformer.decoding.spanning import minimum_spanning_tree, spanning_forest, spanning_tree_of_pairs
from treeformer.decoding.structured import Structure
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.skeleton.attribute_transfer import subgraph
from treeformer.skeleton.connectivity import components
from treeformer.skeleton.validation import MAX_PX, checked_attributes

# Components with fewer nodes query the common search tree; larger ones build a search tree of all other nodes.
MAX_NEIGHBORS = 64
PAIRS_PER_NODE = 12  # of a single tile, for the search; see `treeformer.inference.tiles`
LARGEST = 1e6  # bound of costs and logits; beyond it float32 cannot resolve differences anyway
# If edges cost their length, a root costs as much as an edge of the same probability and of the usual node spacing.
ROOT_LENGTH_PX = 8.0


def decode(
    node_score: ArrayLike,  # (K,) probabilities
    points: ArrayLike,  # (K,2) px
    edge_cost: ArrayLike,  # (K,K) f⁻ − f⁺, negative if an edge is likely; the mean of both directions counts
    root_logit: ArrayLike,  # (K,) log-odds of being a root
    *,
    node_threshold: float = 0.5,  # least probability of a node
    root_threshold: float = 0.5,  # least probability of a further plant's root
    single_plant: bool = False,  # return one tree, whatever the root scores
    constrained: bool = True,  # False joins all pairs of negative cost instead (Eq. 6); the result may have cycles
    distance_cost: bool = False,  # use the cost y⁻ times the distance, the variant of the paper's supplement
    image_size: tuple[int, int] | None = None,  # (width, height) px; points outside are moved to the image's border
    extra_cost: ArrayLike | None = None,  # (K,K) added when the tree is chosen, but not part of edge scores; None for 0
    radius: ArrayLike | None = None,  # (K,) px, NaN if unknown; None for a skeleton without radii
    structure: Structure | None = None,  # of the nodes (K), to improve the forest by; None keeps the spanning forest
) -> Skeleton:
    """Decode the outputs of a network for one image into a skeleton.

    With the constraint, a minimum spanning tree with a virtual root joins the nodes above the threshold. The result is
    a forest with one root per plant, whatever the numbers. A further plant begins at a node whose root score is above
    its threshold, if no edge that would join it to the others is more likely. A plant of one node that has an edge of
    probability above 0.5 is a second root of the plant beside it, and is left out. NaN counts as "no".

    The skeleton has node scores, edge scores (probabilities) and roots; it is empty if no node reaches the threshold.

    Example:
        >>> decode([0.9, 0.8, 0.1], [(0, 0), (3, 4), (9, 9)], np.zeros((3, 3)), [2, -3, 0]).edges.tolist()
        [[0, 1]]
    """
    score, place, cost, root = (np.asarray(a, dtype=np.float64) for a in (node_score, points, edge_cost, root_logit))
    _check_shapes(score, place, root, cost, (len(score), len(score)) if score.ndim else ())
    kept = _likely_nodes(score, place, node_threshold)
    margin = bounded(_rows_and_columns(cost, kept), nan=LARGEST)
    margin = (margin + margin.T) / 2
    logit = bounded(root[kept], nan=-LARGEST)
    if constrained:
        cost, root_cost = margin, -logit
        if distance_cost:
            finite = np.clip(place[kept], -LARGEST, LARGEST)
            distance = np.minimum(np.hypot(*(finite[:, None] - finite).transpose(2, 0, 1)), LARGEST)
            cost, root_cost = _sigmoid(margin) * distance, _sigmoid(-logit) * ROOT_LENGTH_PX
        if extra_cost is not None:
            extra = bounded(_rows_and_columns(np.asarray(extra_cost, dtype=np.float64), kept), nan=LARGEST)
            cost = np.minimum(cost + (extra + extra.T) / 2, LARGEST)
        edges, roots = _forest(cost, logit, root_cost, root_threshold, single_plant)
        if structure is not None and len(kept):
            pairs = _cheapest_pairs(margin, edges)
            chosen = np.flatnonzero(np.isin(pairs @ (len(kept), 1), edges @ (len(kept), 1)))
            known = margin[pairs[:, 0], pairs[:, 1]]
            root_cost = _root_cost(logit, root_threshold)
            terms = kept, score[kept], pairs, known, root_cost, chosen, roots
            chosen, roots, present = structure.improve(*terms, move_roots=not single_plant)
            new_index = np.cumsum(present) - 1
            edges, roots = new_index[pairs[chosen]], new_index[roots]
            kept, margin, logit = kept[present], margin[np.ix_(present, present)], logit[present]
    else:
        edges = _likely_edges(margin)
        roots = _best_of_each(components(edges, len(kept)), logit)
    margins = margin[edges[:, 0], edges[:, 1]]
    skeleton = _skeleton(score[kept], place[kept], edges, margins, roots, image_size, _taken(radius, kept))
    return subgraph(skeleton, _is_no_second_root(skeleton, lambda: _likely_edges(margin)))


def decode_pairs(
    node_score: ArrayLike,
    points: ArrayLike,
    pairs: ArrayLike,  # (E,2) nodes i < j, each pair once, ascending
    pair_cost: ArrayLike,  # (E,) f⁻ − f⁺
    root_logit: ArrayLike,
    *,
    node_threshold: float = 0.5,
    root_threshold: float = 0.5,
    single_plant: bool = False,
    image_size: tuple[int, int] | None = None,
    extra_cost: ArrayLike | None = None,  # (E,)
    radius: ArrayLike | None = None,
    structure: Structure | None = None,
) -> Skeleton:
    """Decode as `decode` does, if edge costs are known for some pairs of nodes only: those that share a tile.

    If all pairs are known, the result is that of `decode`. Otherwise the known edges may leave several components. A
    component with a likely root is a plant; the others are dropped, except that the one with the highest sum of node
    scores is kept if there is no plant at all. With `single_plant`, all components are kept and joined across the
    shortest gaps between them by edges of confidence 0.

    Arguments without a comment are those of `decode`.
    """
    score, place, cost, root = (np.asarray(a, dtype=np.float64) for a in (node_score, points, pair_cost, root_logit))
    ends = np.asarray(pairs, dtype=np.intp).reshape(-1, 2)
    _check_shapes(score, place, root, cost, (len(ends),))
    kept = _likely_nodes(score, place, node_threshold)
    new_index = np.full(len(score), -1)
    new_index[kept] = np.arange(len(kept))
    ends = new_index[ends]
    is_known = (ends >= 0).all(axis=1)
    ends, margin = ends[is_known], bounded(cost[is_known], nan=LARGEST)
    tree_cost = margin
    if extra_cost is not None:
        extra = bounded(np.asarray(extra_cost, dtype=np.float64)[is_known], nan=LARGEST)
        tree_cost = np.minimum(margin + extra, LARGEST)
    logit = bounded(root[kept], nan=-LARGEST)
    if single_plant and len(kept):
        chosen = spanning_tree_of_pairs(ends, tree_cost, len(kept))
        finite = np.clip(place[kept], -LARGEST, LARGEST)  # squared distances must not overflow
        gaps = shortest_gaps(finite, components(ends[chosen], len(kept)))
        chosen = np.append(chosen, np.arange(len(ends), len(ends) + len(gaps)))
        ends, margin = np.concatenate([ends, gaps]), np.append(margin, np.full(len(gaps), LARGEST))
        roots = np.array([logit.argmax()])
    else:
        virtual = np.stack([np.arange(len(kept)), np.full(len(kept), len(kept))], axis=1)
        joined = np.concatenate([ends, virtual])
        costs = np.concatenate([tree_cost, _root_cost(logit, root_threshold)])
        order = np.lexsort((joined[:, 1], joined[:, 0]))
        both = order[spanning_tree_of_pairs(joined[order], costs[order], len(kept) + 1)]
        chosen, roots = both[both < len(ends)], both[both >= len(ends)] - len(ends)
    present = np.ones(len(kept), dtype=bool)
    if structure is not None and len(kept):
        root_cost = _root_cost(logit, root_threshold)
        terms = kept, score[kept], ends, margin, root_cost, chosen, roots
        chosen, roots, present = structure.improve(*terms, move_roots=not single_plant)
    edges, likely = ends[chosen], ends[margin < 0]
    shown, new_index = kept[present], np.cumsum(present) - 1
    nodes = score[shown], place[shown], new_index[edges], margin[chosen], new_index[roots]
    skeleton = _skeleton(*nodes, image_size, _taken(radius, shown))
    if single_plant:
        return skeleton
    keep = _is_in_plant(skeleton, logit[present], root_threshold)
    # No known edge leaves a dropped component: it would have been cheaper than the root.
    likely = new_index[likely[present[likely].all(axis=1)]]
    return subgraph(skeleton, keep & _is_no_second_root(skeleton, lambda: likely))


def shortest_gaps(points: FloatArray, component: IntArray) -> IntArray:
    """Return edges (C-1,2) of least total length that join C components of points (N,2) px (Borůvka's algorithm)."""
    tree, component = search_tree(points), component.copy()
    edges: list[tuple[int, int]] = []
    while True:
        labels, sizes = np.unique(component, return_counts=True)
        if len(labels) <= 1:
            return np.asarray(edges, dtype=np.intp).reshape(-1, 2)
        smaller = labels[np.argsort(sizes, kind="stable")][:-1]
        gaps = [_shortest_gap(tree, points, component == label) for label in smaller]
        for _, i, j in sorted(gaps):
            if component[i] != component[j]:
                edges.append((i, j))
                component[component == component[j]] = component[i]


def _shortest_gap(tree: Any, points: FloatArray, is_inside: BoolArray) -> tuple[float, int, int]:
    """Return the least distance between a component and all others, and its ends i < j; `tree` holds all points."""
    inside, candidates = np.flatnonzero(is_inside), np.arange(len(points))
    neighbor_count = len(inside) + 1  # among so many neighbors, one is outside
    if neighbor_count > MAX_NEIGHBORS:
        candidates, neighbor_count = np.flatnonzero(~is_inside), 1
        tree = search_tree(points[candidates])
    distance, neighbor = tree.query(points[inside], k=range(1, neighbor_count + 1))
    distance[is_inside[candidates[neighbor]]] = np.inf
    row, column = np.unravel_index(distance.argmin(), distance.shape)
    i, j = sorted((int(inside[row]), int(candidates[neighbor[row, column]])))
    return float(distance[row, column]), i, j


def _is_in_plant(skeleton: Skeleton, root_logit: FloatArray, root_threshold: float) -> BoolArray:
    """Return (N,) True in components with a likely root; in the one of highest score if there is none."""
    plants = skeleton.component[skeleton.roots[_is_likely_root(root_logit[skeleton.roots], root_threshold)]]
    if len(plants) == 0 and len(skeleton):
        plants = np.array([np.bincount(skeleton.component, skeleton.node_score).argmax()])
    return np.isin(skeleton.component, plants)


def _cheapest_pairs(margin: FloatArray, edges: IntArray) -> IntArray:
    """Return (P,2) the edges and the `PAIRS_PER_NODE` cheapest pairs of each node, i < j, ascending."""
    chosen = np.zeros(margin.shape, dtype=bool)
    chosen[edges[:, 0], edges[:, 1]] = True
    cost = margin.copy()
    np.fill_diagonal(cost, np.inf)
    if len(cost) > PAIRS_PER_NODE:
        cheapest = np.argpartition(cost, PAIRS_PER_NODE, axis=1)[:, :PAIRS_PER_NODE]
        chosen[np.arange(len(cost))[:, None], cheapest] = True
    else:
        chosen[:] = True
    return np.argwhere(np.triu(chosen | chosen.T, 1))


def _likely_edges(margin: FloatArray) -> IntArray:
    """Return (E,2) the pairs of nodes i < j with a negative cost in the matrix `margin`, ascending."""
    return np.argwhere(np.triu(margin < 0, 1))


def _is_no_second_root(skeleton: Skeleton, likely_edges: Callable[[], IntArray]) -> BoolArray:
    """Return (N,) False for isolated roots that likely edges (E,2) join to a plant or to a lower isolated root.

    The network is undecided between two locations of one root then. As a plant of its own the node would have no
    length, and joined to the other root it would be a superfluous tip. Paths over several isolated roots count, too, so
    that the order of the nodes decides only which of several is the lowest.
    """
    keep = np.ones(len(skeleton), dtype=bool)
    isolated = skeleton.roots[skeleton.degree[skeleton.roots] == 0]
    if len(isolated):
        keep[isolated] = False
        component = components(likely_edges(), len(skeleton))
        for node in isolated:
            keep[node] = not keep[component == component[node]].any()
    return keep


def _check_shapes(
    score: FloatArray, place: FloatArray, root: FloatArray, cost: FloatArray, cost_shape: tuple[int, ...]
) -> None:
    count = len(score) if score.ndim == 1 else -1
    if (place.shape, cost.shape, root.shape) != ((count, 2), cost_shape, (count,)):
        shapes = ", ".join(str(array.shape) for array in (score, place, cost, root))
        raise TreeformerError(f"the shapes of scores, points, costs and roots do not match: {shapes}")


def _likely_nodes(score: FloatArray, place: FloatArray, node_threshold: float) -> IntArray:
    return np.flatnonzero((score >= node_threshold) & np.isfinite(place).all(axis=1))


def _rows_and_columns(matrix: FloatArray, kept: IntArray) -> FloatArray:
    return matrix if len(kept) == len(matrix) else matrix[np.ix_(kept, kept)]


def _taken(values: ArrayLike | None, kept: IntArray) -> FloatArray | None:
    return None if values is None else np.asarray(values, dtype=np.float64)[kept]


def _skeleton(
    score: FloatArray,
    place: FloatArray,
    edges: IntArray,
    margin: FloatArray,
    roots: IntArray,
    image_size: tuple[int, int] | None,
    radius: FloatArray | None,
) -> Skeleton:
    """Return the skeleton. Only what a caller supplied is checked: a spanning forest of finite nodes is valid."""
    return Skeleton._trusted(
        {
            "nodes": np.clip(place, -MAX_PX, MAX_PX) if image_size is None else np.clip(place, 0.0, image_size),
            "edges": edges,
            "roots": np.sort(roots),
            "node_score": np.clip(score, 0.0, 1.0),
            "edge_score": _sigmoid(-margin),
            **checked_attributes({"radius": radius, "image_size": image_size}, len(place), len(edges)),
        }
    )


def _forest(
    cost: FloatArray, root_logit: FloatArray, root_cost: FloatArray, root_threshold: float, single_plant: bool
) -> tuple[IntArray, IntArray]:
    """Return edges (E,2) and roots (R,)."""
    if len(cost) == 0:
        return np.zeros((0, 2), dtype=np.intp), np.zeros(0, dtype=np.intp)
    if single_plant:
        return minimum_spanning_tree(cost), np.array([root_logit.argmax()])
    return spanning_forest(cost, _root_cost(root_logit, root_threshold, root_cost))


def _root_cost(root_logit: FloatArray, root_threshold: float, likely_cost: FloatArray | None = None) -> FloatArray:
    """Return (K,) costs. Below the threshold a root costs more than any edge: it is taken only if a tree needs it."""
    likely_cost = -root_logit if likely_cost is None else likely_cost
    return np.where(_is_likely_root(root_logit, root_threshold), likely_cost, 3 * LARGEST - root_logit)


def _is_likely_root(root_logit: FloatArray, root_threshold: float) -> BoolArray:
    is_likely: BoolArray = _sigmoid(root_logit) > root_threshold
    return is_likely


def _best_of_each(component: IntArray, value: FloatArray) -> IntArray:
    """Return the node of highest value in each component, the first of equals."""
    order = np.lexsort((-value, component))
    return order[np.unique(component[order], return_index=True)[1]]


def bounded(values: FloatArray, nan: float) -> FloatArray:
    """Limit costs or logits to ±`LARGEST`, so that they can be added; NaN becomes `nan`, one of these two bounds."""
    if nan > 0:  # `fmin` and `fmax` return the number if the other argument is NaN
        return np.maximum(np.fmin(values, LARGEST), -LARGEST)
    return np.minimum(np.fmax(values, -LARGEST), LARGEST)


def _sigmoid(values: FloatArray) -> FloatArray:
    """Return the logistic function, without overflow at any value."""
    return np.exp(-np.logaddexp(0.0, -values))
