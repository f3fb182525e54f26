"""From a network's numbers to a Skeleton: the same NumPy function behind every engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeformer.axes import FloatArray, IntArray
from treeformer.branches import components
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.spanning import minimum_spanning_tree, spanning_forest

LARGEST = 1e6  # bound of costs; beyond it a float32 could not tell neighbours apart anyway
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
    """The skeleton that a network's outputs for one picture describe.

    With the constraint, the nodes above the threshold are joined by a minimum spanning tree with a virtual root: the
    result is a forest with one root a plant, whatever the numbers. A further plant begins where a node's root score is
    above its threshold and no edge that would tie it to the others is likelier. NaN counts as "no".

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
        image_size: (width, height) px; points outside are moved to the picture's border.

    Returns:
        The skeleton with node scores, edge scores (probabilities) and roots; empty where no node is likely enough.

    >>> decode([0.9, 0.8, 0.1], [(0, 0), (3, 4), (9, 9)], np.zeros((3, 3)), [2, -3, 0]).edges.tolist()
    [[0, 1]]
    """
    score, place, cost, root = (np.asarray(a, dtype=np.float64) for a in (node_score, points, edge_cost, root_logit))
    count = len(score) if score.ndim == 1 else -1
    if (place.shape, cost.shape, root.shape) != ((count, 2), (count, count), (count,)):
        shapes = ", ".join(str(array.shape) for array in (score, place, cost, root))
        raise TreeformerError(f"scores, points, costs and roots of the shapes {shapes} do not belong together")
    kept = np.flatnonzero((score >= node_threshold) & np.isfinite(place).all(axis=1))
    place = place[kept]
    if image_size is not None:
        place = np.clip(place, 0.0, image_size)
    margin = _bounded(cost[np.ix_(kept, kept)], nan=LARGEST)
    margin = (margin + margin.T) / 2
    rooted = _bounded(root[kept], nan=-LARGEST)
    if constrained:
        cost, root_cost = margin, -rooted
        if distance_cost:
            near = np.clip(place, -LARGEST, LARGEST)
            apart = np.minimum(np.hypot(*(near[:, None] - near).transpose(2, 0, 1)), LARGEST)
            cost, root_cost = _sigmoid(margin) * apart, _sigmoid(-rooted) * ROOT_LENGTH_PX
        edges, roots = _forest(cost, rooted, root_cost, root_threshold, single_plant)
    else:
        edges = np.argwhere(np.triu(margin < 0, 1))
        roots = _best_of_each(components(edges, len(kept)), rooted)
    return Skeleton(
        place,
        edges,
        root=roots,
        node_score=np.clip(score[kept], 0.0, 1.0),
        edge_score=_sigmoid(-margin[edges[:, 0], edges[:, 1]]),
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
    # Below the threshold a root costs more than any edge: it is taken only where a tree has no other.
    likely = _sigmoid(root_logit) > root_threshold
    return spanning_forest(cost, np.where(likely, root_cost, 3 * LARGEST - root_logit))


def _best_of_each(piece: IntArray, value: FloatArray) -> IntArray:
    """The member with the highest value of each piece (the first where several have it)."""
    order = np.lexsort((-value, piece))
    return order[np.unique(piece[order], return_index=True)[1]]


def _bounded(values: FloatArray, nan: float) -> FloatArray:
    return np.clip(np.nan_to_num(values, nan=nan, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without overflow, at any value."""
    return np.exp(-np.logaddexp(0.0, -values))
