"""Minimum spanning trees and forests with NumPy and SciPy only.

The same rules hold here, in `treeformer.nn.spanning` and in its CUDA kernel, so that all of them return the same *tree*
and not only the same total cost:

- the cost of the undirected edge {i, j} is the mean of cost[i, j] and cost[j, i]; the diagonal is ignored;
- +inf or NaN (in either direction) forbids an edge; -inf is a valid cost, below all numbers;
- if a graph cannot be connected, every connected component gets its own tree;
- equal costs are ordered by (lower node, higher node), which makes the tree unique: it is the one that Kruskal's
  algorithm finds if it visits the edges by (cost, i, j) with i < j.

A single dense graph uses Kruskal's algorithm: for the few dozen nodes of an image, a sort and a loop over lists take a
third of the time of one NumPy step per node. A batch of dense graphs uses Prim's algorithm on all of them at once: one
integer key per edge holds its cost and its two nodes, so that a step consists of one row of keys, a minimum and an
argmin. Graphs given by their edges use SciPy's Kruskal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer.errors import TreeformerError

# A key is (level << 32 | lower node << 16 | higher node); `level` is an int32 in the order of the costs.
INFINITE_LEVEL = 0x7F800000  # the bits of +inf as float32; edges of this level or a higher one are forbidden
MAX_NODES = 1 << 15
_NOTHING = np.iinfo(np.int64).max  # above every key


def minimum_spanning_tree(cost: ArrayLike) -> IntArray:
    """Return the edges (N-1,2) of the minimum spanning tree of one graph: nodes i < j, ascending.

    `cost` (N,N) holds any numbers; see the module's docstring for directions, infinities and ties. There are fewer rows
    if +inf leaves several connected components.

    Example:
        >>> minimum_spanning_tree([[0, 1, 5], [1, 0, 2], [5, 2, 0]]).tolist()
        [[0, 1], [1, 2]]
    """
    mean = _mean_costs(_cost_matrix(cost))
    lower, higher = all_pairs(len(mean))
    costs = mean[lower, higher]
    order = np.argsort(costs, kind="stable")
    order = order[: np.searchsorted(costs, np.inf, sorter=order)]
    chosen = np.sort(order[_first_joining(lower[order].tolist(), higher[order].tolist(), len(mean))])
    return np.stack([lower[chosen], higher[chosen]], axis=1)


def all_pairs(count: int) -> tuple[IntArray, IntArray]:
    """Return all pairs of nodes i < j, ascending, as (lower, higher). `np.triu_indices` takes several times longer."""
    node = np.arange(count)
    lower, higher = np.nonzero(node[:, None] < node)
    return lower, higher


def spanning_forest(cost: ArrayLike, root_cost: ArrayLike) -> tuple[IntArray, IntArray]:
    """Return the edges (E,2) and the roots (R,), one per tree, ascending, of the cheapest forest of rooted trees.

    A virtual node, numbered N, is joined to every node at the cost of being a root. The minimum spanning tree of that
    graph, without the virtual node, is one tree per plant. A further plant begins where a root costs less than the edge
    that would join it to the rest. Lower root costs give more trees; with -inf, each node is a tree.

    `cost` is (N,N). `root_cost` (N,) is +inf or NaN for a node that must not be a root. A component without a possible
    root gets a tree without one.

    Example:
        >>> edges, roots = spanning_forest([[0, 1, 9], [1, 0, 9], [9, 9, 0]], root_cost=[4, 5, 6])
        >>> edges.tolist(), roots.tolist()
        ([[0, 1]], [0, 2])
    """
    costs, root_costs = _cost_matrix(cost), _floating(root_cost)
    if root_costs.shape != (len(costs),):
        raise TreeformerError(f"root_cost has the shape {root_costs.shape}, {(len(costs),)} is needed")
    joined = np.zeros((len(costs) + 1, len(costs) + 1), dtype=np.promote_types(costs.dtype, root_costs.dtype))
    joined[:-1, :-1] = costs
    joined[-1, :-1] = joined[:-1, -1] = root_costs
    edges = minimum_spanning_tree(joined)
    to_virtual = edges[:, 1] == len(costs)
    return edges[~to_virtual], edges[to_virtual, 0]


def spanning_tree_of_pairs(pairs: IntArray, cost: FloatArray, count: int) -> IntArray:
    """Return the minimum spanning tree, or forest, of a graph given by its edges: rows of `pairs`, ascending.

    `pairs` (E,2) are nodes i < j, each pair once, ascending; `cost` is (E,), and `count` the number of nodes.

    Example:
        >>> spanning_tree_of_pairs(np.array([(0, 1), (0, 2), (1, 2)]), np.array([1.0, 5.0, 2.0]), 3).tolist()
        [0, 2]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree as scipy_spanning_tree

    allowed = np.flatnonzero(cost < np.inf)
    order = allowed[np.argsort(cost[allowed], kind="stable")]
    # Ranks from 1 instead of costs: these may be equal, negative or 0, and SciPy takes 0 for no edge.
    rank = np.arange(1.0, len(order) + 1)
    graph = coo_array((rank, (pairs[order, 0], pairs[order, 1])), shape=(count, count))
    return np.sort(order[scipy_spanning_tree(graph.tocsr()).data.astype(np.intp) - 1])


def spanning_trees(cost: NDArray[Any], mask: BoolArray) -> BoolArray:
    """Return the minimum spanning trees of a batch of graphs as symmetric adjacency matrices (B,N,N).

    `cost` (B,N,N) is float32 or float64. `mask` (B,N) is False for padding, which gets no edge. N is at most
    `MAX_NODES`.
    """
    graphs, nodes = mask.shape
    tree = np.zeros((graphs, nodes, nodes), dtype=bool)
    steps = int(mask.sum(axis=1).max(initial=0)) - 1
    if steps < 1:
        return tree
    if nodes > MAX_NODES:
        raise TreeformerError(f"the graph has {nodes} nodes, at most {MAX_NODES} are possible")
    key = _edge_keys(cost).reshape(graphs * nodes, nodes)
    graph = np.arange(graphs)
    reach = np.full((graphs, nodes), _NOTHING)  # the lowest key between a node and the tree so far
    barred = np.where(mask, -_NOTHING, _NOTHING)  # _NOTHING for nodes in the tree and for padding: never chosen
    candidate = np.empty_like(reach)
    chosen = np.empty((steps, graphs), dtype=np.int64)
    newest = mask.argmax(axis=1)
    # Every step adds one node per graph. In a disconnected graph this may be a node without an allowed edge; in a graph
    # that is complete already there is none. In both cases the key is at least INFINITE_LEVEL, which is no edge.
    for step in range(steps):
        barred[graph, newest] = _NOTHING
        key.take(graph * nodes + newest, axis=0, out=candidate, mode="clip")
        np.minimum(reach, candidate, out=reach)
        np.maximum(reach, barred, out=candidate)
        newest = candidate.argmin(axis=1)
        chosen[step] = candidate[graph, newest]
    step_of, graph_of = np.nonzero(chosen < INFINITE_LEVEL << 32)
    ends = chosen[step_of, graph_of]
    lower, higher = (ends >> 16) & 0xFFFF, ends & 0xFFFF
    tree[graph_of, lower, higher] = tree[graph_of, higher, lower] = True
    return tree


def _floating(values: ArrayLike) -> NDArray[Any]:
    """Convert to float32 if the numbers are float16 or float32, to float64 otherwise."""
    numbers = np.asarray(values)
    return numbers.astype(np.float32 if numbers.dtype in (np.float16, np.float32) else np.float64, copy=False)


def _cost_matrix(cost: ArrayLike) -> NDArray[Any]:
    """Return the costs of one graph after checking their shape; [] is a graph without nodes."""
    costs = _floating(cost)
    if costs.shape == (0,):
        costs = costs.reshape(0, 0)
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1]:
        raise TreeformerError(f"cost has the shape {costs.shape}, a square matrix is needed")
    return costs


def _mean_costs(cost: NDArray[Any]) -> NDArray[Any]:
    """Return (N,N) the mean cost of both directions, +inf for NaN."""
    half = cost * 0.5  # before the sum, which could overflow
    with np.errstate(invalid="ignore"):
        mean: NDArray[Any] = np.fmin(half + half.T, np.inf)
    return mean


def _first_joining(lower: list[int], higher: list[int], count: int) -> list[int]:
    """Return the positions of the edges that join two components, edge by edge in the given order."""
    component = list(range(count))
    members = [[node] for node in range(count)]
    chosen: list[int] = []
    for position, (i, j) in enumerate(zip(lower, higher, strict=True)):
        kept, joined = component[i], component[j]
        if kept == joined:
            continue
        chosen.append(position)
        if len(chosen) == count - 1:
            break
        if len(members[kept]) < len(members[joined]):
            kept, joined = joined, kept
        for node in members[joined]:
            component[node] = kept
        members[kept] += members[joined]
    return chosen


def _edge_keys(cost: NDArray[Any]) -> NDArray[np.int64]:
    """Return (B,N,N) keys, symmetric and in the order of (cost, lower node, higher node)."""
    node = np.arange(cost.shape[-1])
    ends = np.minimum(node[:, None], node) << 16 | np.maximum(node[:, None], node)
    key = np.empty(cost.shape, dtype=np.int64)
    half = np.empty(cost.shape[1:], dtype=cost.dtype)
    mean = np.empty_like(half)
    # Graph by graph, in two buffers: a matrix of 200 nodes then stays in the CPU cache.
    with np.errstate(invalid="ignore"):
        for graph in range(len(cost)):
            np.multiply(cost[graph], 0.5, out=half)  # before the sum, which could overflow
            np.add(half, half.T, out=mean)
            np.fmin(mean, np.inf, out=mean)  # NaN to +inf
            key[graph] = _bit_levels(mean) if mean.dtype == np.float32 else _rank_levels(mean)
            key[graph] <<= 32
            key[graph] |= ends
    return key


def _bit_levels(cost: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return integers in the order of the numbers: the bits of float32, inverted for negative numbers."""
    cost += 0.0  # -0.0 to 0.0
    bits = cost.view(np.int32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _rank_levels(cost: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the rank of each edge, because a float64 and two nodes do not fit into one key."""
    upper = all_pairs(len(cost))
    values = cost[upper]
    rank = np.empty(len(values), dtype=np.int32)
    rank[np.argsort(values, kind="stable")] = np.arange(len(values), dtype=np.int32)
    rank[values == np.inf] = INFINITE_LEVEL
    level = np.zeros(cost.shape, dtype=np.int32)
    level[upper] = level.T[upper] = rank
    return level
