"""Convert between skeletons and the polylines of drawing tools: one line per axis, joined at common points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from treeformer.skeleton import Skeleton

Point: TypeAlias = tuple[float, float]
Group: TypeAlias = int | str | None


@dataclass(slots=True)
class Line:
    """A path through a skeleton."""

    nodes: list[int]  # in order
    edges: list[int]  # between consecutive nodes
    axis: int  # of all edges, -1 for none


def skeleton_lines(skeleton: Skeleton) -> list[Line]:
    """Split a skeleton into lines that lead away from the roots. Each edge is in exactly one line.

    An axis that is a path is one line. At most one line passes through a node; all others begin or end there. If
    the skeleton has a cycle, each edge is a line.
    """
    if not skeleton.is_forest:
        axis = skeleton.edge_axis.tolist() if skeleton.has_explicit_axes else [-1] * len(skeleton.edges)
        return [Line(pair, [edge], axis[edge]) for edge, pair in enumerate(skeleton.edges.tolist())]
    parents = skeleton.parents
    first, second = skeleton.edges[:, 0], skeleton.edges[:, 1]
    edge_to = np.full(len(skeleton), -1, dtype=np.intp)  # the edge from the parent to each node
    edge_to[np.where(parents[second] == first, second, first)] = np.arange(len(skeleton.edges))
    edge_axis = skeleton.edge_axis.tolist()
    parent_of, edge_of = parents.tolist(), edge_to.tolist()
    lines: list[Line] = []
    line_through: list[Line | None] = [None] * len(skeleton)  # the line with the edge from the parent to each node
    for node in np.argsort(skeleton.depth, kind="stable").tolist():
        parent, edge = parent_of[node], edge_of[node]
        if parent < 0:
            continue
        line = line_through[parent]
        if line is None or line.axis != edge_axis[edge] or line.nodes[-1] != parent:
            line = Line([parent], [], edge_axis[edge])
            lines.append(line)
        line.nodes.append(node)
        line.edges.append(edge)
        line_through[node] = line
    return lines


@dataclass(slots=True)
class Welder:
    """Build a graph from lines given by their points. Points that coincide exactly become one node."""

    nodes: list[Point] = field(default_factory=list)  # points of the nodes
    edges: list[tuple[int, int]] = field(default_factory=list)  # pairs of node indices
    _node_at: dict[Point, int] = field(default_factory=dict)
    _edge_between: set[tuple[int, int]] = field(default_factory=set)

    def node(self, point: Point) -> int:
        """Return the node at a point; add one if it is new."""
        if point not in self._node_at:
            self.add(point)
        return self._node_at[point]

    def add(self, point: Point) -> int:
        """Add a node even if there is one at its point. Later lines join the first node at a point."""
        self.nodes.append(point)
        self._node_at.setdefault(point, len(self.nodes) - 1)
        return len(self.nodes) - 1

    def line(self, nodes: Sequence[int]) -> list[int]:
        """Join consecutive nodes by edges; return the index of each new edge.

        Self-loops and duplicate edges are omitted; their index is -1.
        """
        new_edges = []
        for u, v in pairwise(nodes):
            pair = (min(u, v), max(u, v))
            is_new = u != v and pair not in self._edge_between
            new_edges.append(len(self.edges) if is_new else -1)
            if is_new:
                self._edge_between.add(pair)
                self.edges.append((u, v))
        return new_edges


def join_at_ends(
    lines: Sequence[tuple[Sequence[Point], Group]],
) -> tuple[list[Point], list[Group], list[tuple[int, int]], dict[tuple[Group, Point], int]]:
    """Build a forest from lines, (points, group). A line end on a point of another line of the same group joins it.

    Lines that are already connected are not joined again, and a line is not joined to itself, so that no cycle arises.
    Return the points of the nodes, their groups, the edges, and the first node of each group at each point.

    >>> join_at_ends([([(0, 0), (0, 5), (0, 9)], 1), ([(4, 5), (0, 5)], 1)])[:3]
    ([(0, 0), (0, 5), (0, 9), (4, 5)], [1, 1, 1, 1], [(0, 1), (1, 2), (3, 1)])
    """
    all_points = [point for points, _ in lines for point in points]
    groups: list[Group] = [group for points, group in lines for _ in points]
    line_of = [number for number, (points, _) in enumerate(lines) for _ in points]
    indices_at: dict[tuple[Group, Point], list[int]] = {}
    for index, key in enumerate(zip(groups, all_points, strict=True)):
        indices_at.setdefault(key, []).append(index)

    same = _DisjointSets(len(all_points))  # points that are one node
    connected = _DisjointSets(len(lines))  # lines that are connected
    last = np.cumsum([len(points) for points, _ in lines]) - 1
    first = last - [len(points) - 1 for points, _ in lines]
    starts, ends = set(first.tolist()), set(last.tolist())
    # Line starts are joined before line ends, so that a tip that touches its own plant by chance is not joined.
    for joining in (starts, ends):
        for indices in indices_at.values():
            # The others join a point inside a line, if there is one, or else a line end of the other kind.
            anchor = min(indices, key=lambda index: (index in starts or index in ends, index in joining))
            for index in (index for index in indices if index in joining):
                if connected.join(line_of[index], line_of[anchor]):
                    same.join(anchor, index)

    node_of_set: dict[int, int] = {}
    node = [node_of_set.setdefault(same.find(index), len(node_of_set)) for index in range(len(all_points))]
    keep = sorted({number: index for index, number in reversed(list(enumerate(node)))}.values())
    edges = [(node[k], node[k + 1]) for k in range(len(all_points) - 1) if line_of[k] == line_of[k + 1]]
    node_at = {key: node[indices[0]] for key, indices in indices_at.items()}
    return [all_points[index] for index in keep], [groups[index] for index in keep], edges, node_at


class _DisjointSets:
    """A union-find structure over the numbers 0 to count - 1."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, member: int) -> int:
        """Return the representative of a member's set."""
        while self._parent[member] != member:
            self._parent[member] = self._parent[self._parent[member]]
            member = self._parent[member]
        return member

    def join(self, first: int, second: int) -> bool:
        """Merge the sets of two members. Return True if they were different sets."""
        target, source = self.find(first), self.find(second)
        self._parent[source] = target
        return target != source
