"""Between a skeleton and the lines that drawing tools have: one line an axis out, lines that touch joined coming in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from treeformer.skeleton import Skeleton

Place: TypeAlias = tuple[float, float]
Group: TypeAlias = int | str | None


@dataclass(slots=True)
class Line:
    """A path through a skeleton: its nodes, its edges (one fewer), and the axis they are on (-1 for none)."""

    nodes: list[int]
    edges: list[int]
    axis: int


def lines_of(skeleton: Skeleton) -> list[Line]:
    """All edges of a skeleton as lines away from the bases, each edge in one; an axis that is a path is one line.

    No node is within two lines: all but one begin or end there. Where there is a cycle, each edge is a line.
    """
    if not skeleton.is_forest:
        axis = skeleton.edge_axis.tolist() if skeleton.has_explicit_axes else [-1] * len(skeleton.edges)
        return [Line(pair, [edge], axis[edge]) for edge, pair in enumerate(skeleton.edges.tolist())]
    parents = skeleton.parents
    first, second = skeleton.edges[:, 0], skeleton.edges[:, 1]
    edge_to = np.full(len(skeleton), -1, dtype=np.intp)
    edge_to[np.where(parents[second] == first, second, first)] = np.arange(len(skeleton.edges))
    edge_axis = skeleton.edge_axis.tolist()
    up, over = parents.tolist(), edge_to.tolist()
    lines: list[Line] = []
    line_through: list[Line | None] = [None] * len(skeleton)  # the line that comes from a node's parent
    for node in np.argsort(skeleton.depth, kind="stable").tolist():
        above, edge = up[node], over[node]
        if above < 0:
            continue
        line = line_through[above]
        if line is None or line.axis != edge_axis[edge] or line.nodes[-1] != above:
            line = Line([above], [], edge_axis[edge])
            lines.append(line)
        line.nodes.append(node)
        line.edges.append(edge)
        line_through[node] = line
    return lines


@dataclass(slots=True)
class Welder:
    """Builds a graph from lines given by their points: all points that coincide exactly are one node."""

    nodes: list[Place] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    _node_at: dict[Place, int] = field(default_factory=dict)
    _edge_between: set[tuple[int, int]] = field(default_factory=set)

    def node(self, place: Place) -> int:
        """The node at a place, a new one where there is none."""
        if place not in self._node_at:
            self.add(place)
        return self._node_at[place]

    def add(self, place: Place) -> int:
        """A new node, whatever is at its place already; the first one there is that which lines join."""
        self.nodes.append(place)
        self._node_at.setdefault(place, len(self.nodes) - 1)
        return len(self.nodes) - 1

    def line(self, nodes: Sequence[int]) -> list[int]:
        """Join consecutive nodes, none to itself and no two of them twice; for each step the new edge, -1 for none."""
        made = []
        for u, v in pairwise(nodes):
            pair = (min(u, v), max(u, v))
            is_new = u != v and pair not in self._edge_between
            made.append(len(self.edges) if is_new else -1)
            if is_new:
                self._edge_between.add(pair)
                self.edges.append((u, v))
        return made


def join_at_ends(
    lines: Sequence[tuple[Sequence[Place], Group]],
) -> tuple[list[Place], list[Group], list[tuple[int, int]], dict[tuple[Group, Place], int]]:
    """Build a forest from lines with a group each: an end that lies on a point of another line of the group joins it.

    Lines that hang together already are not joined again, so that no ring arises; nor is a line to itself.
    Returns the nodes, their groups, the edges, and the first node of each group in each place.

    >>> join_at_ends([([(0, 0), (0, 5), (0, 9)], 1), ([(4, 5), (0, 5)], 1)])[:3]
    ([(0, 0), (0, 5), (0, 9), (4, 5)], [1, 1, 1, 1], [(0, 1), (1, 2), (3, 1)])
    """
    places = [place for points, _ in lines for place in points]
    groups: list[Group] = [group for points, group in lines for _ in points]
    line_of = [number for number, (points, _) in enumerate(lines) for _ in points]
    points_at: dict[tuple[Group, Place], list[int]] = {}
    for point, key in enumerate(zip(groups, places, strict=True)):
        points_at.setdefault(key, []).append(point)

    same = _Sets(len(places))  # points that are one node
    together = _Sets(len(lines))  # lines that hang together
    last = np.cumsum([len(points) for points, _ in lines]) - 1
    first = last - [len(points) - 1 for points, _ in lines]
    begins, ends = set(first.tolist()), set(last.tolist())
    # Where lines begin comes before where they end: a tip that touches its own plant by chance is then not joined.
    for joining in (begins, ends):
        for at in points_at.values():
            # A point within a line, else one that does not join itself, is that which the others join.
            anchor = min(at, key=lambda point: (point in begins or point in ends, point in joining))
            for point in (point for point in at if point in joining):
                if together.join(line_of[point], line_of[anchor]):
                    same.join(anchor, point)

    node_of_set: dict[int, int] = {}
    node = [node_of_set.setdefault(same.find(point), len(node_of_set)) for point in range(len(places))]
    keep = sorted({number: point for point, number in reversed(list(enumerate(node)))}.values())
    edges = [(node[point], node[point + 1]) for point in range(len(places) - 1) if line_of[point] == line_of[point + 1]]
    node_at = {key: node[at[0]] for key, at in points_at.items()}
    return [places[point] for point in keep], [groups[point] for point in keep], edges, node_at


class _Sets:
    """Disjoint sets of numbers."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def find(self, member: int) -> int:
        """The member that stands for the whole set."""
        while self._above[member] != member:
            self._above[member] = self._above[self._above[member]]
            member = self._above[member]
        return member

    def join(self, first: int, second: int) -> bool:
        """Make the sets of two members one; whether they were two."""
        into, other = self.find(first), self.find(second)
        self._above[other] = into
        return into != other
