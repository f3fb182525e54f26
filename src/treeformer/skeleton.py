"""Skeleton: the one currency of the project. Every reader makes it, every model ends in it, everything else starts from it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace as dataclass_replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from treeformer import branches as br
from treeformer.axes import Axis, FloatArray, IntArray, Plant, axes_by_rule, axis_orders
from treeformer.errors import SkeletonError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd


class Skeleton:
    """A plant's skeleton in one picture: a graph of points, in use a tree, or a forest where there are several plants.

    Arrays are copied and read-only; every method returns a new Skeleton. Any simple graph is accepted
    (an unconstrained model may predict cycles): `is_tree` and `is_forest` tell.

    Args:
        nodes: (N,2) x, y in pixels, x to the right, y down; the centre of the top left pixel is (0.5, 0.5).
        edges: (E,2) node indices; undirected, no loops, no doubles.
        root: the node, or nodes (at most one a connected piece), where plants begin.
        radius: (N,) px, NaN where unknown.
        node_score, edge_score: (N,), (E,) confidences.
        axes: what a file says of its axes; None leaves them to the rule in `treeformer.axes`.
        edge_axis: (E,) index into `axes`, -1 for none; needed where `axes` is given.
        plant: (N,) plant index of each node; None: one plant a connected piece, numbered left to right.
        plant_records: what a file says of each plant.
        image_size: (width, height) px.
        image_name: the picture's file name.
        metadata: anything that JSON can hold; survives every change and round trip.

    Example:
        >>> y_shape = Skeleton([(5, 9), (5, 5), (2, 1), (8, 1)], [(0, 1), (1, 2), (1, 3)], root=0)
        >>> y_shape.is_tree, y_shape.length
        (True, 14.0)
        >>> y_shape.degree.tolist()
        [1, 3, 1, 1]
    """

    nodes: FloatArray
    edges: IntArray
    roots: IntArray
    radius: FloatArray | None
    node_score: FloatArray | None
    edge_score: FloatArray | None
    plant: IntArray | None
    plant_records: tuple[Plant, ...]
    image_size: tuple[int, int] | None
    image_name: str | None
    metadata: Mapping[str, Any]
    _axes: tuple[Axis, ...] | None
    _edge_axis: IntArray | None

    def __init__(
        self,
        nodes: ArrayLike,
        edges: ArrayLike,
        *,
        root: int | Iterable[int] | None = None,
        radius: ArrayLike | None = None,
        node_score: ArrayLike | None = None,
        edge_score: ArrayLike | None = None,
        axes: Iterable[Axis] | None = None,
        edge_axis: ArrayLike | None = None,
        plant: ArrayLike | None = None,
        plant_records: Iterable[Plant] = (),
        image_size: tuple[int, int] | None = None,
        image_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        points = _node_array(nodes)
        pairs = _edge_array(edges, len(points))
        fields: dict[str, Any] = {
            "nodes": points,
            "edges": pairs,
            "roots": _root_array(root, len(points)),
            "radius": _value_array(radius, len(points), "radius", "node", allow_nan=True, minimum=0.0),
            "node_score": _value_array(node_score, len(points), "node_score", "node"),
            "edge_score": _value_array(edge_score, len(pairs), "edge_score", "edge"),
            "plant": _index_array(plant, len(points), "plant", "node", minimum=0),
            "plant_records": tuple(plant_records),
            "image_size": _image_size(image_size),
            "image_name": image_name,
            "metadata": MappingProxyType(dict(metadata or {})),
            "_axes": None if axes is None else tuple(axes),
            "_edge_axis": _index_array(edge_axis, len(pairs), "edge_axis", "edge", minimum=-1),
        }
        self.__dict__.update(fields)
        self._check_roots()
        self._check_axes()

    @classmethod
    def _trusted(cls, fields: dict[str, Any]) -> Skeleton:
        """A Skeleton from fields that are known to be right (made from another one's)."""
        skeleton = cls.__new__(cls)
        for value in fields.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        skeleton.__dict__.update(fields)
        return skeleton

    @classmethod
    def from_parents(cls, nodes: ArrayLike, parents: ArrayLike, **attributes: Any) -> Skeleton:
        """Build from each node's parent index, -1 (or any negative number) at roots; attributes as in the constructor.

        >>> Skeleton.from_parents([(0, 0), (0, 1), (0, 2)], [-1, 0, 1]).root
        0
        """
        up = np.asarray(parents)
        child = np.flatnonzero(up >= 0)
        attributes.setdefault("root", np.flatnonzero(up < 0))
        skeleton = cls(nodes, np.stack([up[child], child], axis=1), **attributes)
        if len(up) != len(skeleton.nodes):
            raise SkeletonError(f"{len(up)} parents for {len(skeleton.nodes)} nodes")
        if not skeleton.is_forest:
            raise SkeletonError(f"node {skeleton._a_node_on_a_cycle()} is its own ancestor")
        return skeleton

    # ---- validation that needs the whole graph ------------------------------------------------

    def _check_roots(self) -> None:
        piece = self.piece[self.roots]
        _, first, count = np.unique(piece, return_index=True, return_counts=True)
        if (count > 1).any():
            doubled = self.roots[piece == piece[first[count > 1][0]]]
            raise SkeletonError(f"nodes {doubled[0]} and {doubled[1]} are both roots of one connected piece")

    def _check_axes(self) -> None:
        if self._axes is None:
            if self._edge_axis is not None:
                raise SkeletonError("edge_axis is given without axes")
            return
        if self._edge_axis is None:
            if len(self.edges):
                raise SkeletonError("axes are given without edge_axis")
            self.__dict__["_edge_axis"] = np.zeros(0, dtype=np.intp)
        assert self._edge_axis is not None
        for edge in np.flatnonzero(self._edge_axis >= len(self._axes))[:1]:
            raise SkeletonError(f"edge {edge} is on axis {self._edge_axis[edge]}, but there are {len(self._axes)} axes")
        for number, axis in enumerate(self._axes):
            if axis.parent is not None and not 0 <= axis.parent < len(self._axes):
                raise SkeletonError(f"axis {number} has parent {axis.parent}, which is not there")
            for node in axis.nodes:
                if not 0 <= node < len(self.nodes):
                    raise SkeletonError(f"axis {number} goes through node {node}, which is not there")
        axis_orders(self._axes)

    def _a_node_on_a_cycle(self) -> int:
        degree = self.degree.copy()
        row, to, _ = br.adjacency(self.edges, len(self.nodes))
        leaves = np.flatnonzero(degree == 1).tolist()
        while leaves:
            leaf = leaves.pop()
            degree[leaf] = 0
            for other in to[row[leaf] : row[leaf + 1]].tolist():
                degree[other] -= 1
                if degree[other] == 1:
                    leaves.append(other)
        return int(np.flatnonzero(degree >= 2)[0])

    # ---- shape --------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        kind = "tree" if self.is_tree else "forest" if self.is_forest else "graph with cycles"
        size = "" if self.image_size is None else f", image {self.image_size[0]}×{self.image_size[1]}"
        return f"<Skeleton: {kind}, {len(self.nodes)} nodes, {len(self.edges)} edges{size}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Skeleton):
            return NotImplemented
        return all(_same(self.__dict__[name], other.__dict__[name]) for name in Skeleton.__annotations__)

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Skeleton is immutable: use replace({name}=…)")

    def __getstate__(self) -> dict[str, Any]:
        state = {name: self.__dict__[name] for name in Skeleton.__annotations__}
        return state | {"metadata": dict(self.metadata)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"metadata": MappingProxyType(state["metadata"])})

    def replace(self, **changes: Any) -> Skeleton:
        """The same skeleton with some constructor arguments changed, checked anew."""
        arguments: dict[str, Any] = {
            "nodes": self.nodes,
            "edges": self.edges,
            "root": self.roots,
            "radius": self.radius,
            "node_score": self.node_score,
            "edge_score": self.edge_score,
            "axes": self._axes,
            "edge_axis": self._edge_axis,
            "plant": self.plant,
            "plant_records": self.plant_records,
            "image_size": self.image_size,
            "image_name": self.image_name,
            "metadata": self.metadata,
        }
        return Skeleton(**(arguments | changes))

    @property
    def root(self) -> int | None:
        """The stated root, the first where there are several (`roots` has all), None where none is stated."""
        return int(self.roots[0]) if len(self.roots) else None

    @cached_property
    def degree(self) -> IntArray:
        """(N,) number of edges at each node."""
        return _frozen(np.bincount(self.edges.ravel(), minlength=len(self.nodes)).astype(np.intp))

    @cached_property
    def piece(self) -> IntArray:
        """(N,) the connected piece of each node, numbered by lowest node index."""
        return _frozen(br.components(self.edges, len(self.nodes)))

    @cached_property
    def is_forest(self) -> bool:
        """No cycles. True for an empty skeleton."""
        pieces = int(self.piece.max()) + 1 if len(self.nodes) else 0
        return len(self.edges) == len(self.nodes) - pieces

    @property
    def is_tree(self) -> bool:
        """No cycles and one connected piece (isolated nodes count as pieces). False for an empty skeleton."""
        return self.is_forest and len(self.nodes) > 0 and len(self.edges) == len(self.nodes) - 1

    @cached_property
    def edge_length(self) -> FloatArray:
        """(E,) px."""
        step = self.nodes[self.edges[:, 1]] - self.nodes[self.edges[:, 0]]
        return _frozen(np.hypot(step[:, 0], step[:, 1]))

    @property
    def length(self) -> float:
        """The sum of all edge lengths, px."""
        return float(self.edge_length.sum())

    # ---- the rooted forest --------------------------------------------------------------------

    @cached_property
    def bases(self) -> IntArray:
        """One node a connected piece, where walks begin: the stated root, else the piece's lowest node index."""
        if len(self.nodes) == 0:
            return _frozen(np.zeros(0, dtype=np.intp))
        base = np.unique(self.piece, return_index=True)[1].astype(np.intp)
        base[self.piece[self.roots]] = self.roots
        return _frozen(base)

    @cached_property
    def _walked(self) -> tuple[list[int], IntArray, IntArray]:
        """Breadth-first from the bases: the nodes in order, each one's parent, the edge to it (-1 at bases)."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order

        if not self.is_forest:
            raise SkeletonError(f"node {self._a_node_on_a_cycle()} lies on a cycle: parents need a tree or forest")
        count = len(self.nodes)
        if count == 0:
            return [], self.bases, self.bases
        # A virtual node joined to every base makes the forest one tree.
        virtual = np.stack([np.full(len(self.bases), count), self.bases], axis=1)
        pairs = np.concatenate([self.edges, virtual])
        graph = csr_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(count + 1,) * 2)
        order, before = breadth_first_order(graph, count, directed=False)
        parents = before[:count].astype(np.intp)
        parents[self.bases] = -1
        first, second = self.edges[:, 0], self.edges[:, 1]
        child = np.where(parents[second] == first, second, first)
        edge = np.full(count, -1, dtype=np.intp)
        edge[child] = np.arange(len(self.edges))
        return order[1:].tolist(), _frozen(parents), _frozen(edge)

    @property
    def parents(self) -> IntArray:
        """(N,) each node's parent, -1 at bases. An error where there is a cycle."""
        return self._walked[1]

    @cached_property
    def depth(self) -> IntArray:
        """(N,) number of edges between each node and its base."""
        return _frozen(np.asarray(self._down_from_base([1] * len(self.edges)), dtype=np.intp))

    @cached_property
    def distance_from_base(self) -> FloatArray:
        """(N,) path length between each node and its base, px."""
        return _frozen(np.asarray(self._down_from_base(self.edge_length.tolist()), dtype=np.float64))

    def _down_from_base(self, step: Sequence[float]) -> list[float]:
        walk, parents, edge = self._walked
        up, over = parents.tolist(), edge.tolist()
        total: list[float] = [0] * len(walk)
        for node in walk:
            if up[node] >= 0:
                total[node] = total[up[node]] + step[over[node]]
        return total

    # ---- axes and plants ----------------------------------------------------------------------

    @property
    def has_file_axes(self) -> bool:
        """Whether the axes were given, rather than found by the rule."""
        return self._axes is not None

    @cached_property
    def _ruled(self) -> tuple[tuple[Axis, ...], IntArray]:
        walk, parents, edge = self._walked
        axes, axis_of_node = axes_by_rule(self.nodes, parents, walk, self.plant_of_node.tolist())
        edge_axis = np.full(len(self.edges), -1, dtype=np.intp)
        edge_axis[edge[edge >= 0]] = axis_of_node[edge >= 0]
        return tuple(axes), _frozen(edge_axis)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes the file gave; where there are none, those of the rule in `treeformer.axes`."""
        return self._axes if self._axes is not None else self._ruled[0]

    @property
    def edge_axis(self) -> IntArray:
        """(E,) the index in `axes` of the axis each edge belongs to, -1 for none."""
        return self._edge_axis if self._edge_axis is not None else self._ruled[1]

    @cached_property
    def axis_order(self) -> IntArray:
        """(len(axes),) 0 for a main axis, 1 for its laterals, and so on."""
        return _frozen(np.asarray(axis_orders(self.axes), dtype=np.intp))

    @cached_property
    def plant_of_node(self) -> IntArray:
        """(N,) the plant of each node: as given, else one plant a connected piece, from left to right by its base."""
        if self.plant is not None:
            return self.plant
        rank = np.empty(len(self.bases), dtype=np.intp)
        rank[np.argsort(self.nodes[self.bases, 0], kind="stable")] = np.arange(len(self.bases))
        return _frozen(rank[self.piece])

    @cached_property
    def plants(self) -> tuple[Skeleton, ...]:
        """One Skeleton a plant, in plant order; a plant without nodes has none."""
        if len(self.nodes) == 0:
            return ()
        plant_of_edge = self.plant_of_node[self.edges[:, 0]]
        nodes, edges = _groups(self.plant_of_node), _groups(plant_of_edge)
        across = np.flatnonzero(plant_of_edge != self.plant_of_node[self.edges[:, 1]])
        if len(across):
            raise SkeletonError(f"edge {across[0]} joins two plants")
        axes = _groups(np.asarray([axis.plant for axis in self._axes], dtype=np.intp)) if self._axes else {}
        roots = _groups(self.plant_of_node[self.roots])
        number = np.full(len(self.nodes), -1, dtype=np.intp)
        none = np.zeros(0, dtype=np.intp)
        return tuple(
            self._single_plant(plant, kept, *(group.get(plant, none) for group in (edges, roots, axes)), number)
            for plant, kept in nodes.items()
        )

    def _single_plant(
        self, plant: int, kept: IntArray, edges: IntArray, roots: IntArray, axes: IntArray, number: IntArray
    ) -> Skeleton:
        """The part with these nodes, edges, roots (positions in `self.roots`) and axes; `number` is scratch space."""
        number[kept] = np.arange(len(kept))
        fields = {name: self.__dict__[name] for name in Skeleton.__annotations__}
        fields |= {
            "nodes": self.nodes[kept],
            "edges": number[self.edges[edges]],
            "roots": number[self.roots[roots]],
            "radius": _taken(self.radius, kept),
            "node_score": _taken(self.node_score, kept),
            "edge_score": _taken(self.edge_score, edges),
            "plant": np.zeros(len(kept), dtype=np.intp),
            "plant_records": self.plant_records[plant : plant + 1],
        }
        if self._axes is not None and self._edge_axis is not None:
            axis_number = {old: new for new, old in enumerate(axes.tolist())}
            fields["_axes"] = tuple(
                dataclass_replace(
                    axis,
                    nodes=tuple(number[list(axis.nodes)].tolist()),
                    parent=None if axis.parent is None else axis_number.get(axis.parent),
                    plant=0,
                )
                for axis in (self._axes[a] for a in axes.tolist())
            )
            fields["_edge_axis"] = np.asarray(
                [axis_number.get(a, -1) for a in self._edge_axis[edges].tolist()], dtype=np.intp
            )
        return Skeleton._trusted(fields)

    def traits(self, level: Literal["plant", "axis", "segment"] = "plant", **options: Any) -> pd.DataFrame:
        """Measurements as a table, a row a plant, an axis or a segment; see `treeformer.traits.measure`."""
        from treeformer.traits import measure

        return measure(self, level=level, **options)

    # ---- new spacings -------------------------------------------------------------------------

    @cached_property
    def is_key(self) -> br.BoolArray:
        """(N,) the nodes that re-spacing keeps: degree ≠ 2, roots, and where one axis or plant passes into another."""
        key = self.degree != 2
        key[self.roots] = True
        for value in (self._edge_axis, None if self.plant is None else self.plant[self.edges[:, 0]]):
            if value is not None and len(value):
                low = np.full(len(self.nodes), np.iinfo(np.intp).max)
                high = np.full(len(self.nodes), -1)
                for side in (0, 1):
                    np.minimum.at(low, self.edges[:, side], value)
                    np.maximum.at(high, self.edges[:, side], value)
                key |= (self.degree > 0) & (low != high)
        if not self.is_forest:
            key[br.cycle_breakers(br.trace(self.edges, len(self.nodes), key))] = True
        return _frozen(key)

    @cached_property
    def branches(self) -> br.Branches:
        """The stretches between key nodes, running away from the bases where there is no cycle."""
        walk = self._walked[0] if self.is_forest else None
        return br.trace(self.edges, len(self.nodes), self.is_key, walk)

    def resample(self, spacing_px: float) -> Skeleton:
        """Nodes at equal intervals along each branch, as near to `spacing_px` as a whole number of them comes.

        Key points (degree ≠ 2), roots and ends of axes stay where they are, as in the paper, which uses 8 px.

        >>> line = Skeleton([(0, 0), (3, 0), (20, 0)], [(0, 1), (1, 2)])
        >>> sorted(line.resample(8).nodes[:, 0].tolist())
        [0.0, 10.0, 20.0]
        """
        if not (math.isfinite(spacing_px) and spacing_px > 0):
            raise SkeletonError(f"spacing must be a positive number of pixels, not {spacing_px}")
        return self._derive(br.respace(self.nodes[self.branches.nodes], self.branches, spacing_px))

    def contract(self) -> Skeleton:
        """Without the nodes of degree 2: each branch becomes one straight edge between its key nodes."""
        return self._derive(br.thin(self.branches, np.zeros(len(self.branches.nodes), dtype=bool)))

    def simplify(self, tolerance: float) -> Skeleton:
        """Without inner nodes that lie within `tolerance` px of the line through those that stay (Ramer-Douglas-Peucker)."""
        if not tolerance >= 0:
            raise SkeletonError(f"tolerance must be zero or more pixels, not {tolerance}")
        keep = br.farthest_points(self.nodes[self.branches.nodes], self.branches, tolerance)
        return self._derive(br.thin(self.branches, keep))

    def crop(
        self, left: float, top: float, right: float, bottom: float, *, keep: Literal["forest", "largest"] = "forest"
    ) -> Skeleton:
        """The part inside a frame, in the frame's own coordinates; edges are cut at its border.

        keep: every piece, or the longest one alone. A piece that lost its root begins at the node nearest to it.
        `image_size` becomes the frame's, rounded up.
        """
        if not (left < right and top < bottom):
            raise SkeletonError(f"an empty crop: {left}, {top} to {right}, {bottom}")
        cut = self._derive(br.clip(self.nodes, self.edges, left, top, right, bottom), add_lone=False)
        size = (math.ceil(right - left), math.ceil(bottom - top))
        inside = np.clip(cut.nodes - (left, top), 0.0, (right - left, bottom - top))
        cut = cut._with(nodes=inside, image_size=size)
        return cut.largest() if keep == "largest" and len(cut) else cut

    def largest(self) -> Skeleton:
        """The connected piece with the greatest length (the most nodes, where lengths are equal)."""
        pieces = int(self.piece.max(initial=-1)) + 1
        if pieces <= 1:
            return self
        length = np.bincount(self.piece[self.edges[:, 0]], weights=self.edge_length, minlength=pieces)
        size = np.bincount(self.piece, minlength=pieces)
        best = max(range(pieces), key=lambda p: (length[p], size[p]))
        kept = np.flatnonzero(self.piece == best)
        edges = np.flatnonzero(self.piece[self.edges[:, 0]] == best)
        number = np.full(len(self.nodes), -1, dtype=np.intp)
        number[kept] = np.arange(len(kept))
        zeros = np.zeros(len(kept))
        return self._derive(br.Derived(kept, kept, zeros, number[self.edges[edges]], edges), add_lone=False)

    def _derive(self, made: br.Derived, *, add_lone: bool = True) -> Skeleton:
        """Carry every attribute over to a graph made from this one."""
        if add_lone:
            made = br.with_lone_nodes(made, np.flatnonzero(self.degree == 0))
        i, j, t = made.i, made.j, made.t

        def blend(values: FloatArray) -> FloatArray:
            weight = t if values.ndim == 1 else t[:, None]
            # Exact at t = 0 and t = 1, so that nodes that stay do not move by a rounding.
            return np.where(weight == 0, values[i], np.where(weight == 1, values[j], values[i] + weight * (values[j] - values[i])))

        nodes = blend(self.nodes)
        fields = {name: self.__dict__[name] for name in Skeleton.__annotations__}
        score = self.edge_score
        if score is not None:
            # A straight edge that stands for several is as sure as the least sure of them.
            score = score[made.source] if made.covers is None or not len(made.covers[0]) else np.minimum.reduceat(
                score[made.covers[0]], made.covers[1]
            )
        fields |= {
            "nodes": nodes,
            "edges": made.edges,
            "roots": self._roots_of(made),
            "radius": None if self.radius is None else blend(self.radius),
            "node_score": None if self.node_score is None else blend(self.node_score),
            "edge_score": score,
            "plant": None if self.plant is None else self.plant[i],
            "_axes": None,
            "_edge_axis": None,
        }
        derived = Skeleton._trusted(fields)
        if self._edge_axis is None or not self.is_forest:
            return derived
        return derived._with_axes_from(self.axes, self._edge_axis[made.source])

    def _roots_of(self, made: br.Derived) -> IntArray:
        """In every piece that descends from a rooted one, the node nearest to that root."""
        if len(self.roots) == 0 or len(made.i) == 0:
            return self.roots[:0]
        rooted = np.isin(self.piece, self.piece[self.roots])
        if not self.is_forest:
            number = np.full(len(self.nodes), -1, dtype=np.intp)
            number[made.i[made.t == 0]] = np.flatnonzero(made.t == 0)
            return number[self.roots][number[self.roots] >= 0]
        far = self.distance_from_base
        distance = far[made.i] + made.t * (far[made.j] - far[made.i])
        piece = br.components(made.edges, len(made.i))
        order = np.lexsort((self.depth[made.i], distance, piece))
        nearest = order[np.unique(piece[order], return_index=True)[1]]
        return nearest[rooted[made.i[nearest]]]

    def _with_axes_from(self, axes: Sequence[Axis], edge_axis: IntArray) -> Skeleton:
        """Give a forest the records of `axes` along its own edges; a severed part becomes an axis without id.

        The values along an axis (`functions`) belonged to the old points and are left behind; radii are kept.
        """
        walk, parents, edge = self._walked
        up, over = parents.tolist(), edge.tolist()
        old_axis = edge_axis.tolist()
        new_axis = [-1] * len(old_axis)
        of_node: list[list[int]] = [[] for _ in walk]  # the new axes that end or pass at each node
        lines: list[list[int]] = []
        source: list[int] = []
        mother: list[int | None] = []
        seen: set[int] = set()
        for node in walk:
            above = up[node]
            if above < 0:
                continue
            old = old_axis[over[node]]
            if old < 0:
                continue
            on = over[above]
            if on >= 0 and old_axis[on] == old and lines[new_axis[on]][-1] == above:
                axis = new_axis[on]
                lines[axis].append(node)
            else:
                axis = len(lines)
                lines.append([above, node])
                source.append(old)
                wanted = axes[old].parent
                at_base = [a for a in of_node[above] if source[a] == wanted] or of_node[above]
                mother.append(at_base[0] if at_base else None)
                of_node[above].append(axis)
            new_axis[over[node]] = axis
            of_node[node].append(axis)
        made = []
        for axis, line in enumerate(lines):
            record = axes[source[axis]]
            made.append(
                dataclass_replace(
                    record,
                    nodes=tuple(line),
                    parent=mother[axis] if record.parent is not None else None,
                    id=record.id if source[axis] not in seen else "",
                    functions=(),
                )
            )
            seen.add(source[axis])
        return self._with(_axes=tuple(made), _edge_axis=_frozen(np.asarray(new_axis, dtype=np.intp)))

    def _with(self, **fields: Any) -> Skeleton:
        """The same skeleton with some stored fields exchanged, not checked again."""
        return Skeleton._trusted({name: self.__dict__[name] for name in Skeleton.__annotations__} | fields)

    # ---- geometry -----------------------------------------------------------------------------

    def transform(self, affine: ArrayLike, *, image_size: tuple[int, int] | None = None) -> Skeleton:
        """Moved by an affine map, a (2,3) or (3,3) matrix that acts on (x, y, 1).

        Radii and `diameter` functions are scaled by √|det|. `image_size`: that of the picture the map leads to.
        """
        matrix = np.asarray(affine, dtype=np.float64)
        if matrix.shape not in ((2, 3), (3, 3)) or not np.isfinite(matrix).all():
            raise SkeletonError("an affine map is a finite matrix of 2×3 or 3×3 numbers")
        if matrix.shape == (3, 3) and not np.array_equal(matrix[2], (0.0, 0.0, 1.0)):
            raise SkeletonError("the last row of an affine 3×3 matrix is 0 0 1")
        linear = matrix[:2, :2]
        scale = math.sqrt(abs(linear[0, 0] * linear[1, 1] - linear[0, 1] * linear[1, 0]))
        x, y = self.nodes[:, 0], self.nodes[:, 1]
        moved = np.stack([m[0] * x + m[1] * y + m[2] for m in matrix[:2]], axis=1)
        axes = self._axes
        if axes is not None:
            axes = tuple(
                dataclass_replace(
                    axis,
                    functions=tuple(
                        dataclass_replace(f, samples=tuple(scale * s for s in f.samples)) if f.name == "diameter" else f
                        for f in axis.functions
                    ),
                )
                for axis in axes
            )
        radius = None if self.radius is None else self.radius * scale
        return self._with(nodes=moved, radius=radius, _axes=axes, image_size=_image_size(image_size))

    def nearest(self, points: ArrayLike) -> tuple[Any, Any]:
        """The nearest node to one point (2,) or to many (M,2): its index and the distance in px.

        >>> Skeleton([(0, 0), (10, 0)], [(0, 1)]).nearest((9, 0))
        (1, 1.0)
        """
        from scipy.spatial import cKDTree

        if len(self.nodes) == 0:
            raise SkeletonError("an empty skeleton has no nearest node")
        distance, index = cKDTree(self.nodes).query(np.asarray(points, dtype=np.float64))
        if np.ndim(points) == 1:
            return int(index), float(distance)
        return index.astype(np.intp), distance

    # ---- NetworkX -----------------------------------------------------------------------------

    def to_networkx(self) -> nx.Graph[int]:
        """An undirected NetworkX graph: nodes with x, y and, where known, radius, score, plant, root; edges with length, score.

        Only scalars, so that every NetworkX writer takes it. Axes and metadata do not fit and stay behind.
        """
        import networkx as nx

        graph: nx.Graph[int] = nx.Graph()
        if self.image_size is not None:
            graph.graph.update(width=self.image_size[0], height=self.image_size[1])
        if self.image_name is not None:
            graph.graph["image_name"] = self.image_name
        columns: dict[str, list[Any]] = {"x": self.nodes[:, 0].tolist(), "y": self.nodes[:, 1].tolist()}
        for name, values in (("radius", self.radius), ("score", self.node_score), ("plant", self.plant)):
            if values is not None:
                columns[name] = values.tolist()
        for node, row in enumerate(zip(*columns.values(), strict=True)):
            graph.add_node(node, **dict(zip(columns, row, strict=True)))
        for root in self.roots.tolist():
            graph.nodes[root]["root"] = True
        scores = None if self.edge_score is None else self.edge_score.tolist()
        for edge, ((u, v), length) in enumerate(zip(self.edges.tolist(), self.edge_length.tolist(), strict=True)):
            graph.add_edge(u, v, length=length, **({} if scores is None else {"score": scores[edge]}))
        return graph

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], **attributes: Any) -> Skeleton:
        """From any NetworkX graph whose nodes have `x` and `y`, or `pos`; attributes as in the constructor win.

        Nodes are numbered in the graph's order, whatever they are called. A node attribute `root` that is
        true marks a root; so does having no predecessor where the graph is directed.
        """
        number: dict[Hashable, int] = {name: index for index, name in enumerate(graph.nodes)}
        points = []
        for name, data in graph.nodes(data=True):
            if "x" in data and "y" in data:
                points.append((data["x"], data["y"]))
            elif "pos" in data:
                points.append(tuple(data["pos"])[:2])
            else:
                raise SkeletonError(f"node {name} has neither x and y nor pos")
        pairs = [(number[u], number[v]) for u, v in graph.edges]

        def column(rows: Iterable[Mapping[str, Any]], key: str) -> list[Any] | None:
            values = [row.get(key) for row in rows]
            if all(value is None for value in values):
                return None
            return [math.nan if value is None else value for value in values]

        node_data = [data for _, data in graph.nodes(data=True)]
        edge_data = [data for _, _, data in graph.edges(data=True)]
        found: dict[str, Any] = {
            "radius": column(node_data, "radius"),
            "node_score": column(node_data, "score"),
            "edge_score": column(edge_data, "score"),
            "plant": column(node_data, "plant"),
            "image_name": graph.graph.get("image_name"),
        }
        roots = [index for index, data in enumerate(node_data) if data.get("root")]
        if not roots and graph.is_directed():
            roots = [number[name] for name in graph.nodes if graph.in_degree(name) == 0]  # type: ignore[attr-defined]
        if roots:
            found["root"] = roots
        if "width" in graph.graph and "height" in graph.graph:
            found["image_size"] = (graph.graph["width"], graph.graph["height"])
        return cls(points, pairs, **(found | attributes))


# ---- the constructor's arguments, one by one ----------------------------------------------------


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array


def _node_array(nodes: ArrayLike) -> FloatArray:
    try:
        points = np.array(nodes, dtype=np.float64)
    except (TypeError, ValueError):
        raise SkeletonError("nodes must be an array of N×2 numbers") from None
    if points.size == 0:
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2:
        raise SkeletonError(f"nodes must be an array of N×2 numbers, not of shape {points.shape}")
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(bad):
        x, y = points[bad[0]]
        raise SkeletonError(f"node {bad[0]} is at ({x}, {y}): coordinates must be finite")
    return _frozen(points)  # type: ignore[no-any-return]


def _whole_numbers(values: ArrayLike, what: str) -> IntArray:
    try:
        array = np.array(values)
        if array.size and array.dtype.kind not in "iu":
            as_float = array.astype(np.float64)
            if not (as_float == np.floor(as_float)).all() or not (np.abs(as_float) < 2**53).all():
                raise ValueError
    except (TypeError, ValueError):
        raise SkeletonError(f"{what} must be whole numbers") from None
    return array.astype(np.intp)


def _edge_array(edges: ArrayLike, count: int) -> IntArray:
    pairs = _whole_numbers(edges, "edges")
    if pairs.size == 0:
        pairs = pairs.reshape(0, 2)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise SkeletonError(f"edges must be an array of E×2 node indices, not of shape {pairs.shape}")
    outside = np.flatnonzero(((pairs < 0) | (pairs >= count)).any(axis=1))
    if len(outside):
        u, v = pairs[outside[0]]
        missing = v if 0 <= u < count else u
        raise SkeletonError(f"edge {outside[0]} ({u}, {v}) names node {missing}, but there are {count} nodes")
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise SkeletonError(f"edge {loops[0]} joins node {pairs[loops[0], 0]} to itself")
    code = pairs.min(axis=1) * count + pairs.max(axis=1)
    order = np.argsort(code, kind="stable")
    doubled = np.flatnonzero(np.diff(code[order]) == 0)
    if len(doubled):
        first, second = order[doubled[0]], order[doubled[0] + 1]
        raise SkeletonError(f"edge {second} ({pairs[second, 0]}, {pairs[second, 1]}) repeats edge {first}")
    return _frozen(pairs)  # type: ignore[no-any-return]


def _root_array(root: int | Iterable[int] | None, count: int) -> IntArray:
    if root is None:
        return _frozen(np.zeros(0, dtype=np.intp))  # type: ignore[no-any-return]
    values: ArrayLike = [root] if np.ndim(root) == 0 else list(root)  # type: ignore[arg-type, list-item]
    roots = np.unique(_whole_numbers(values, "roots"))
    outside = roots[(roots < 0) | (roots >= count)]
    if len(outside):
        raise SkeletonError(f"root {outside[0]} is not a node: there are {count} nodes")
    return _frozen(roots)  # type: ignore[no-any-return]


def _value_array(
    values: ArrayLike | None, count: int, name: str, what: str, *, allow_nan: bool = False, minimum: float = -math.inf
) -> FloatArray | None:
    if values is None:
        return None
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SkeletonError(f"{name} must be numbers") from None
    if array.shape != (count,):
        raise SkeletonError(f"{name} has shape {array.shape}, but there are {count} {what}s")
    fine = np.isfinite(array) & (array >= minimum)
    if allow_nan:
        fine |= np.isnan(array)
    if not fine.all():
        at = int(np.flatnonzero(~fine)[0])
        raise SkeletonError(f"{name} of {what} {at} is {array[at]}")
    return _frozen(array)  # type: ignore[no-any-return]


def _index_array(values: ArrayLike | None, count: int, name: str, what: str, *, minimum: int) -> IntArray | None:
    if values is None:
        return None
    array = _whole_numbers(values, name)
    if array.shape != (count,):
        raise SkeletonError(f"{name} has shape {array.shape}, but there are {count} {what}s")
    low = np.flatnonzero(array < minimum)
    if len(low):
        raise SkeletonError(f"{name} of {what} {low[0]} is {array[low[0]]}")
    return _frozen(array)  # type: ignore[no-any-return]


def _image_size(size: tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    try:
        width, height = (int(side) for side in size)
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError(f"image_size must be (width, height), not {size!r}") from None
    if width <= 0 or height <= 0:
        raise SkeletonError(f"image_size must be positive, not {width}×{height}")
    return width, height


def _groups(labels: IntArray) -> dict[int, IntArray]:
    """The positions of each label, labels in rising order."""
    order = np.argsort(labels, kind="stable")
    values, first = np.unique(labels[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True))


def _taken(values: FloatArray | None, at: IntArray) -> FloatArray | None:
    return None if values is None else values[at]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if a is None or b is None:
            return False
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(a == b)
