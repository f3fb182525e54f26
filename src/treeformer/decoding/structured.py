"""A local search for a forest of low cost, which begins at the minimum spanning forest and never leaves the forests.

Four moves change the forest: an edge replaces another edge of the cycle that it would close; two nodes exchange their
parents, as strands that cross do; a tip is left out; a node that was left out is taken up again. The roots are
neighbors of a virtual node, so the first move also splits, joins and turns trees. All moves that help are applied, the
most promising ones first, until none is left. The order does not depend on chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer.decoding.objective import FORBIDDEN, Objective, StructureWeights

# Moves must improve the objective by more than rounding errors.
MIN_GAIN = 1e-9
# Edges per node that bounds look at.
MAX_EDGES = 4

Edge = tuple[int, int]


class Structure(NamedTuple):
    """What the search needs beside the costs of edges."""

    points: FloatArray  # (K,2) px of the network's input, all tiles in one frame
    direction: FloatArray  # (K,2) predicted vectors to the parents
    grid_px: float  # spacing of the network's grid
    weights: StructureWeights  # of the objective

    def improve(
        self,
        kept: IntArray,  # (N,) the nodes of the forest; all other arguments number these
        score: FloatArray,  # (N,) probabilities
        pairs: IntArray,  # (E,2) nodes that an edge may join, i < j, ascending
        cost: FloatArray,  # (E,) f⁻ − f⁺
        root_cost: FloatArray,  # (N,)
        chosen: IntArray,  # rows of `pairs` in the forest
        roots: IntArray,  # (R,) its roots, one per tree
        *,
        move_roots: bool = True,  # whether roots may change, and trees be split or joined
    ) -> tuple[IntArray, IntArray, BoolArray]:
        """Return the rows of `pairs` and roots of an improved forest, and a mask (N,): False for nodes left out."""
        points, direction = self.points[kept], np.nan_to_num(self.direction[kept], nan=0.0, posinf=0.0, neginf=0.0)
        objective = Objective(points, direction, score, pairs, cost, root_cost, self.grid_px, self.weights)
        search = Search(objective, pairs[chosen], roots)
        search.run(move_roots=move_roots)
        is_chosen = [j in search.neighbors[i] for i, j in pairs.tolist()]
        present = np.array([bool(around) for around in search.neighbors[:-1]], dtype=bool)
        return np.flatnonzero(is_chosen), np.array(sorted(search.neighbors[-1]), dtype=np.intp), present


class Move(NamedTuple):
    """A change of the forest and of its cost."""

    change: float
    added: tuple[Edge, ...]
    removed: tuple[Edge, ...]


class Search:
    """A forest that moves change, given by its edges (F,2) and its roots (R,), one per tree."""

    def __init__(self, objective: Objective, edges: IntArray, roots: IntArray) -> None:
        self.objective, self.virtual = objective, objective.count
        # Of each node and, at the end, of the virtual node. Nodes that are left out have none.
        self.neighbors: list[frozenset[int]] = [frozenset()] * (objective.count + 1)
        self._toggle([*edges.tolist(), *((root, self.virtual) for root in roots.tolist())])
        self._gains: dict[Edge, tuple[float, float, float]] = {}
        # Nodes that are left out have the parent -1, as the virtual node has.
        self.parent, self.depth = [-1] * (objective.count + 1), [0] * (objective.count + 1)
        self._attach([(root, self.virtual) for root in roots.tolist()])

    def run(self, *, move_roots: bool = True) -> None:
        """Apply moves until none helps; roots stay if `move_roots` is False."""
        costs = self.objective.costs[self.virtual]
        possible = [(node, self.virtual) for node, cost in costs.items() if cost < FORBIDDEN] if move_roots else []
        improved = True
        while improved:
            moves = [self._apply(self.best_swap(i, j)) for i, j in (*self._promising_swaps(), *possible)]
            moves += [self._apply(self.exchange(i, j)) for i, j in self._promising_exchanges()]
            moves += [self._apply(self.leave_or_take(i)) for i in range(self.virtual) if len(self.neighbors[i]) < 2]
            improved = any(moves)

    def best_swap(self, i: int, j: int) -> Move | None:
        """Find the best edge to replace by (i, j) in the cycle that it would close; j may be the virtual node.

        The result is None if no move helps or the edge cannot be added.
        """
        if j in self.neighbors[i] or self.parent[i] < 0 or (self.parent[j] < 0 and j != self.virtual):
            return None
        node, around = self.objective.node, self.neighbors
        cost, own = self.objective.costs[i][j], {i: node(i, around[i]), j: node(j, around[j])}
        more = {i: node(i, around[i] | {j}) - own[i], j: node(j, around[j] | {i}) - own[j]}
        added = cost + more[i] + more[j]
        best, change = None, -MIN_GAIN
        for edge in self._path(i, j):
            gain, above, below = self._gain(*edge)
            found = added - gain
            low, high = edge
            if low in own or high in own:
                # A lower bound first: a node that gets one edge for another costs at least 0.
                found = cost - (above if low in own else below)
                found += sum(-own[end] if end in edge else more[end] for end in own)
                if found < change:
                    found = self.change(((i, j),), (edge,))
            if found < change:
                best, change = edge, found
        return None if best is None else Move(change, ((i, j),), (best,))

    def exchange(self, i: int, j: int) -> Move | None:
        """Exchange the parents of two nodes; None if that does not help or is impossible."""
        first, second = self.parent[i], self.parent[j]
        is_known = second in self.objective.edges[i] and first in self.objective.edges[j]  # false for the virtual node
        if not is_known or first == second or self._is_below(i, j) or self._is_below(j, i):
            return None
        edges = ((i, second), (j, first)), ((i, first), (j, second))
        change = self.change(*edges)
        return Move(change, *edges) if change < -MIN_GAIN else None

    def leave_or_take(self, i: int) -> Move | None:
        """Return the removal of a tip, or the best edge to a node that was left out, if it helps."""
        presence, parent = self.objective.presence[i], self.parent[i]
        if parent == self.virtual or len(self.neighbors[i]) > 1:
            return None
        if parent >= 0:
            move = Move(self.change((), ((i, parent),)) - presence, (), ((i, parent),))
        else:
            others = [j for j in self.objective.edges[i] if self.parent[j] >= 0]
            moves = [Move(self.change(((i, j),), ()) + presence, ((i, j),), ()) for j in others]
            move = min(moves, default=Move(0.0, (), ()))
        return move if move.change < -MIN_GAIN else None

    def change(self, added: tuple[Edge, ...], removed: tuple[Edge, ...]) -> float:
        """Return how the cost, without `presence`, changes with edges added to the forest and removed from it."""
        cost, around = self.objective.node, self.neighbors
        change = sum(self.objective.costs[i][j] for i, j in added) - sum(self.objective.costs[i][j] for i, j in removed)
        new: dict[int, frozenset[int]] = {}
        for i, j in (*added, *removed):
            new[i] = new.get(i, around[i]) ^ {j}
            new[j] = new.get(j, around[j]) ^ {i}
        for node, neighbors in new.items():
            change += cost(node, neighbors) - cost(node, around[node])
        return change

    def _apply(self, move: Move | None) -> bool:
        if move is None:
            return False
        edges = (*move.removed, *move.added)
        touched = {node for edge in edges for node in edge} - {self.virtual}
        for node in touched:
            for other in self.neighbors[node]:
                self._gains.pop((node, other), None)
                self._gains.pop((other, node), None)
        self._detach([i if self.parent[i] == j else j for i, j in move.removed])
        self._toggle(edges)
        self._attach(move.added)
        return True

    def _toggle(self, edges: Iterable[Sequence[int]]) -> None:
        """Remove the edges that the forest has, and add the others."""
        for i, j in edges:
            self.neighbors[i] ^= {j}
            self.neighbors[j] ^= {i}

    def _detach(self, nodes: list[int]) -> None:
        """Forget the parents of nodes and of all nodes below them."""
        for node in nodes:
            nodes += [other for other in self.neighbors[node] if self.parent[other] == node]
            self.parent[node] = -1

    def _attach(self, edges: Sequence[Edge]) -> None:
        """Find the parents and depths of the nodes that edges join to the virtual node."""
        order = [end for edge in edges for end in edge if self.parent[end] >= 0 or end == self.virtual]
        for node in order:
            for other in self.neighbors[node]:
                if self.parent[other] < 0 and other != self.virtual:
                    self.parent[other], self.depth[other] = node, self.depth[node] + 1
                    order.append(other)

    def _path(self, i: int, j: int) -> list[Edge]:
        """Return the edges between two nodes."""
        found = []
        while i != j:
            if self.depth[i] < self.depth[j]:
                i, j = j, i
            found.append((i, self.parent[i]))
            i = self.parent[i]
        return found

    def _is_below(self, node: int, other: int) -> bool:
        while self.depth[node] > self.depth[other]:
            node = self.parent[node]
        return node == other

    def _gain(self, node: int, parent: int) -> tuple[float, float, float]:
        """Return by how much the cost falls if an edge is removed, and the parts of that at the parent and the node."""
        key = node, parent
        if key not in self._gains:
            cost, around, own = self.objective.node, self.neighbors, self.objective.costs[node][parent]
            low = cost(node, around[node]) - cost(node, around[node] - {parent})
            high = cost(parent, around[parent]) - cost(parent, around[parent] - {node})
            self._gains[key] = own + low + high, own + high, own + low
        return self._gains[key]

    def _state(self) -> tuple[FloatArray, IntArray, BoolArray]:
        """Return for each node: its cost, its degree, and whether it is a root."""
        own = np.array([self.objective.node(i, around) for i, around in enumerate(self.neighbors[:-1])])
        is_root = np.zeros(self.virtual, dtype=bool)
        is_root[list(self.neighbors[-1])] = True
        return own, np.array([len(around) for around in self.neighbors[:-1]]) - is_root, is_root

    def _promising_swaps(self) -> list[Edge]:
        """Return the pairs that may replace an edge of the forest, by a lower bound of the change."""
        objective, count = self.objective, self.virtual
        own, degree, is_root = self._state()
        agreement, direction = np.full(count, -1.0), np.zeros((count, MAX_EDGES, 2))
        gain, gain_of_end = np.full(count + 1, -np.inf), np.full(count + 1, -np.inf)
        for i, around in enumerate(self.neighbors[:-1]):
            edges = [objective.edges[i][j] for j in around if j != count]
            if edges:
                agreement[i] = max(edge[2] for edge in edges)
                direction[i] = edges[0][:2]
                direction[i, : len(edges)] = [edge[:2] for edge in edges[:MAX_EDGES]]
            if (parent := self.parent[i]) >= 0:
                gain[i], at_parent, at_node = self._gain(i, parent)
                gain_of_end[i] = max(gain_of_end[i], at_parent)
                gain_of_end[parent] = max(gain_of_end[parent], at_node)
        straight = (direction @ direction.transpose(0, 2, 1)).min(axis=(1, 2))
        more, same = [], []
        for node, agrees, sign in zip(objective.pairs.T, objective.agreement, (1, -1), strict=True):
            state = is_root[node], np.maximum(agreement[node], agrees)
            # Either the node has one neighbor more, or the removed edge ends in it, too, and its degree stays.
            same.append(objective.least(node, degree[node], *state) - own[node] - gain_of_end[node])
            cosine = sign * (direction[node] @ objective.step[:, :, None])[:, :, 0].min(axis=1)
            turn = np.where(
                (degree[node] > 0) & (degree[node] <= MAX_EDGES), 1 + np.minimum(cosine, straight[node]), 0.0
            )
            more.append(objective.least(node, degree[node] + 1, *state) + objective.weights.turn * turn - own[node])
        bound = more[0] + more[1] - self._largest_on_path(gain)
        bound = np.minimum(bound, np.minimum(same[0] + more[1], more[0] + same[1])) + objective.cost
        found = np.flatnonzero(bound < -MIN_GAIN)
        order = found[np.argsort(bound[found], kind="stable")]
        return [(i, j) for i, j in objective.pairs[order].tolist()]

    def _largest_on_path(self, value: FloatArray) -> FloatArray:
        """Return (E,) the largest value, (K + 1,) of the edge to the parent, between the nodes of each pair."""
        up, largest = np.array(self.parent), value.copy()
        up[up < 0] = self.virtual
        depth = np.array(self.depth)
        levels = [(up, largest)]  # of the first, the second, the fourth ... edge toward the virtual node, and before
        while len(levels) < int(depth.max()).bit_length():
            up, largest = up[up], np.maximum(largest, largest[up])
            levels.append((up, largest))
        low, high = self.objective.pairs.T
        is_lower = depth[low] >= depth[high]
        low, high = np.where(is_lower, low, high), np.where(is_lower, high, low)
        result, steps = np.full(len(low), -np.inf), depth[low] - depth[high]
        for level, (up, largest) in enumerate(levels):
            is_set = (steps >> level) % 2 == 1
            result = np.where(is_set, np.maximum(result, largest[low]), result)
            low = np.where(is_set, up[low], low)
        for up, largest in levels[::-1]:
            differ = up[low] != up[high]
            result = np.where(differ, np.maximum(result, np.maximum(largest[low], largest[high])), result)
            low, high = np.where(differ, up[low], low), np.where(differ, up[high], high)
        up, largest = levels[0]
        return np.where(low == high, result, np.maximum(result, np.maximum(largest[low], largest[high])))

    def _promising_exchanges(self) -> list[Edge]:
        """Return pairs of nodes whose parents may be exchanged, by a lower bound of the change.

        The bound is a sum of two parts, one per new edge, so at least one of them is negative. Degrees do not change.
        """
        objective, costs = self.objective, self.objective.costs
        own, degree, is_root = self._state()
        least = objective.least(np.arange(self.virtual), degree, is_root, np.ones(self.virtual))
        spare = [*np.maximum(own - least, 0.0).tolist(), 0.0]
        found = []
        for i, first in enumerate(self.parent[:-1]):
            if first < 0 or first == self.virtual:
                continue
            now = costs[i][first] + spare[i] + spare[first]
            for second in objective.edges[i]:
                part = costs[i][second] - now
                if part < 0 and second != first:
                    for j in self.neighbors[second]:
                        if self.parent[j] == second and j in objective.edges[first]:
                            other = costs[j][first] - costs[j][second] - spare[j] - spare[second]
                            if part + other < -MIN_GAIN:
                                found.append((i, j))
        return found
