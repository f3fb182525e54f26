"""The cost of a forest: of single edges and roots, and of what each node looks like together with its neighbors.

A minimum spanning forest needs one edge per node and takes any: it ties a strand in at the wrong end, and a path may go
down a root and up again. The network's encoding says more. A node between keypoints lies where its curve crosses a
line of a grid (`Skeleton.sample_at_grid_crossings`), so it has two neighbors, about opposite to each other. A node off
the lines is a tip, a branch point or a root. Most nodes also point to their parents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, IntArray

# Positions of nodes between keypoints: most lie within half a pixel of a grid line, some (merged crossings) do not.
NEAR_PX, FAR_PX, NEAR_SHARE = 0.35, 2.5, 0.85
# With so few nodes on grid lines, the image may be a drawing, in which curves have nodes elsewhere; with so many, not.
DRAWING_SHARE, USUAL_SHARE = 0.05, 0.15
# An edge that crosses a line within this distance of its end, px, ends there.
LINE_PX = 4.0
EM_STEPS = 30
# Two edges of a node that differ by less than the angle of this cosine (26°) look like one strand that is drawn twice.
SHARP_COSINE = 0.9
# Edges and roots of a higher cost are not taken unless nothing else connects the forest; their cost is not limited.
FORBIDDEN = 1e5
SMALLEST = 1e-9


@dataclass(frozen=True)
class StructureWeights:
    """Weights of the terms of `Objective`, in units of edge costs."""

    edge_limit: float = 4.0
    """Costs of edges and roots are limited to ± this value."""
    span: float = 1.0
    """Cost of an edge per grid line that it crosses between its ends."""
    missing: float = 2.6
    """Cost of a node on a grid line that has one neighbor and is no root."""
    surplus: float = 4.5
    """Cost of a node on a grid line per neighbor beyond two."""
    path: float = 2.1
    """Cost of a node off the grid lines that has two neighbors and is no root."""
    fork: float = 1.4
    """Cost of a node off the grid lines per neighbor beyond three."""
    turn: float = 2.4
    """Cost of a node times 1 + cos of the angle between its two most opposite edges."""
    sharp: float = 0.8
    """Cost of two edges of a node in the same direction; less up to an angle of 26°."""
    parent: float = 4.0
    """Cost of a node that is no root times the length of its predicted vector to the parent (at most 1) and 1 − cos of
    the angle between this vector and the nearest edge."""
    root: float = 2.0
    """Cost of a root, and once more for a root on a grid line."""
    presence: float = -4.0
    """Cost of a node with a score of 0.5. A node that is left out costs nothing."""
    score: float = 5.0
    """By how much a node costs less per unit of the logit of its score."""


class Objective:
    """The cost of a forest: the sum over its edges, its roots, and its nodes with their neighbors.

    Terms that depend on grid lines are weighted by the probability that a node lies on one. Those that do not hold for
    drawings, in which curves may have nodes anywhere, are left out if few nodes of the image lie on lines: `span`,
    `path` and `fork`. Neighbors of a node are given as a set. The virtual node, whose number is that of all nodes,
    makes it a root.
    """

    def __init__(
        self,
        points: FloatArray,  # (K,2) px of the network's input, all tiles in one frame
        direction: FloatArray,  # (K,2) predicted vectors to the parents
        score: FloatArray,  # (K,) probabilities of the nodes
        pairs: IntArray,  # (E,2) nodes that an edge may join, i < j, ascending
        cost: FloatArray,  # (E,) f⁻ − f⁺
        root_cost: FloatArray,  # (K,) cost of a root
        grid_px: float,  # spacing of the grid
        weights: StructureWeights,
    ) -> None:
        self.weights, self.count, self.pairs = weights, len(points), pairs
        on_line, share = grid_probability(points, grid_px)
        certainty = float(np.clip((share - DRAWING_SHARE) / (USUAL_SHARE - DRAWING_SHARE), 0.0, 1.0))
        off_line = (1 - on_line) * certainty
        length = np.hypot(*direction.T)
        self.terms = on_line, off_line, np.minimum(length, 1.0) * weights.parent
        self._terms = [term.tolist() for term in self.terms]
        likely = np.clip(score, SMALLEST, 1 - SMALLEST)
        self.presence: list[float] = (weights.presence - weights.score * np.log(likely / (1 - likely))).tolist()
        unit = direction / np.maximum(length, SMALLEST)[:, None]
        i, j = pairs.T
        x, y = (points[j] - points[i]).T
        distance = np.maximum(np.hypot(x, y), SMALLEST)
        x, y = x / distance, y / distance
        self.step = np.stack([x, y], axis=1)
        # How much the predicted directions of the first and of the second node agree with the edge.
        self.agreement = x * unit[i, 0] + y * unit[i, 1], -x * unit[j, 0] - y * unit[j, 1]
        self.cost = self._limited(cost) + weights.span * certainty * lines_crossed(points, pairs, grid_px)
        # For each node: the edges to its possible neighbors, as (x, y, agreement), and the costs of edges and roots.
        self.edges: list[dict[int, tuple[float, float, float]]] = [{} for _ in range(self.count)]
        self.costs: list[dict[int, float]] = [{} for _ in range(self.count + 1)]
        columns = (values.tolist() for values in (i, j, x, y, *self.agreement, self.cost))
        for first, second, right, down, forward, backward, value in zip(*columns, strict=True):
            self.edges[first][second], self.edges[second][first] = (right, down, forward), (-right, -down, backward)
            self.costs[first][second] = self.costs[second][first] = value
        for node, value in enumerate((self._limited(root_cost) + weights.root * (1 + on_line)).tolist()):
            self.costs[node][self.count] = self.costs[self.count][node] = value
        self._known: list[dict[frozenset[int], float]] = [{} for _ in range(self.count + 1)]

    def _limited(self, cost: FloatArray) -> FloatArray:
        limit = self.weights.edge_limit
        return np.where(cost < FORBIDDEN, np.clip(cost, -limit, limit), cost)

    def node(self, node: int, neighbors: frozenset[int]) -> float:
        """Return the cost of a node with its neighbors, without `presence`; 0 without neighbors."""
        known = self._known[node]
        cost = known.get(neighbors)
        if cost is None:
            cost = known[neighbors] = self._node(node, neighbors) if neighbors and node < self.count else 0.0
        return cost

    def _node(self, node: int, neighbors: frozenset[int]) -> float:
        weights, is_root = self.weights, self.count in neighbors
        edges = [self.edges[node][other] for other in neighbors if other != self.count]
        on_line, off_line, parent = (term[node] for term in self._terms)
        degree, cost = len(edges), 0.0
        if degree > 2:
            cost = weights.surplus * on_line * (degree - 2) + weights.fork * off_line * (degree - 3)
        elif not is_root:
            cost = weights.missing * on_line if degree < 2 else weights.path * off_line
        if not is_root:
            cost += parent * (1 - max(edge[2] for edge in edges))
        if degree > 1:
            straight = 1.0
            for number, (x, y, _) in enumerate(edges):
                for right, down, _ in edges[:number]:
                    cosine = x * right + y * down
                    if cosine < straight:
                        straight = cosine
                    if cosine > SHARP_COSINE:
                        cost += weights.sharp * (cosine - SHARP_COSINE) / (1 - SHARP_COSINE)
            cost += weights.turn * (1 + straight)
        return cost

    def least(self, node: IntArray, degree: IntArray, is_root: BoolArray, agreement: FloatArray) -> FloatArray:
        """Return lower bounds (N,) of the cost of nodes, without `turn` and `sharp`.

        All arguments are (N,). `degree` does not count the virtual node, and `agreement` is the largest one of an edge
        with the predicted direction.
        """
        weights, (on_line, off_line, parent) = self.weights, (term[node] for term in self.terms)
        many = weights.surplus * on_line * (degree - 2) + weights.fork * off_line * (degree - 3)
        few = np.where(degree < 2, weights.missing * on_line, weights.path * off_line)
        own: FloatArray = np.where(degree > 2, many, np.where(is_root, 0.0, few))
        return own + np.where(is_root, 0.0, parent * (1 - agreement))

    def total(self, neighbors: list[frozenset[int]]) -> float:
        """Return the cost of a forest, given the neighbors of each node and, at the end, of the virtual node."""
        cost = 0.0
        for node, around in enumerate(neighbors[:-1]):
            if around:
                cost += self.presence[node] + self.node(node, around)
                cost += sum(self.costs[node][other] for other in around if other > node)
        return cost


def lines_crossed(points: FloatArray, pairs: IntArray, grid_px: float) -> FloatArray:
    """Return (E,) how many grid lines edges cross between their ends, where nodes are missing; points (K,2) px."""
    ends = points[pairs] / grid_px - 0.5
    low, high = ends.min(axis=1) + LINE_PX / grid_px, ends.max(axis=1) - LINE_PX / grid_px
    count: FloatArray = np.maximum(np.floor(high) - np.ceil(low) + 1, 0.0).sum(axis=1)
    return count


def grid_probability(points: FloatArray, grid_px: float) -> tuple[FloatArray, float]:
    """Return probabilities (K,) that points (K,2) px were placed on grid lines, and the share of those that were.

    The distances of nodes to the nearest line are a mixture of those of nodes on lines and of nodes anywhere. The share
    is fitted to them by expectation maximization. Five more nodes, one on a line by half, keep it low if there are few.
    """
    step = points / grid_px - 0.5
    distance = (np.abs(step - np.rint(step)) * grid_px).min(axis=1)
    near, far = (np.exp(-distance / width) / width for width in (NEAR_PX, FAR_PX))
    on_line = NEAR_SHARE * near + (1 - NEAR_SHARE) * far
    anywhere = 4 / grid_px * (1 - 2 * distance / grid_px)
    share, probability = 0.5, np.zeros(len(points))
    for _ in range(EM_STEPS):
        probability = share * on_line / (share * on_line + (1 - share) * anywhere)
        share = (float(probability.sum()) + 0.5) / (len(points) + 5)
    return probability, share
