"""Skeleton: the one currency. Every reader makes it, every model ends in it, everything else starts from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer.errors import SkeletonError
from treeformer.skeleton import branches as br
from treeformer.skeleton.axes import Axis, Plant, axes_by_rule, axis_orders
from treeformer.skeleton.resampling import apply_resampling, component_lengths, split_plants, subgraph, transformed
from treeformer.skeleton.topology import Topology
from treeformer.skeleton.traversal import Traversal, node_on_a_cycle
from treeformer.skeleton.validation import (
    check_axes,
    check_roots,
    edge_array,
    frozen,
    image_size_pair,
    index_array,
    node_array,
    node_shares,
    places,
    root_array,
    value_array,
    whole_numbers,
)

if TYPE_CHECKING:
    import networkx as nx


class Skeleton:
    """A plant's skeleton in one image: a graph of points, in use a tree, or a forest where there are several plants.

    Arrays are copied and read-only; every method returns a new Skeleton. Any simple graph is accepted
    (an unconstrained model may predict cycles): `is_tree` and `is_forest` tell.

    Args:
        nodes: (N,2) x, y in pixels, x to the right, y down; the center of the top left pixel is (0.5, 0.5).
        edges: (E,2) node indices; undirected, no loops, no doubles.
        root: the node, or nodes (at most one a connected piece), where plants begin.
        radius: (N,) px, NaN where unknown.
        node_score, edge_score: (N,), (E,) confidences.
        axes: what a file says of its axes; None leaves them to the rule in `treeformer.skeleton.axes`.
        edge_axis: (E,) index into `axes`, -1 for none; needed where `axes` is given.
        plant: (N,) plant index of each node; None: one plant a connected piece, numbered left to right.
        plant_records: what a file says of each plant.
        image_size: (width, height) px.
        image_name: the image's file name.
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
        points = node_array(nodes)
        pairs = edge_array(edges, len(points))
        fields: dict[str, Any] = {
            "nodes": points,
            "edges": pairs,
            "roots": root_array(root, len(points)),
            "radius": value_array(radius, len(points), "radius", "node", allow_nan=True, minimum=0.0),
            "node_score": value_array(node_score, len(points), "node_score", "node"),
            "edge_score": value_array(edge_score, len(pairs), "edge_score", "edge"),
            "plant": index_array(plant, len(points), "plant", "node", minimum=0),
            "plant_records": tuple(plant_records),
            "image_size": image_size_pair(image_size),
            "image_name": image_name,
            "metadata": MappingProxyType(dict(metadata or {})),
            "_axes": None if axes is None else tuple(axes),
            "_edge_axis": index_array(edge_axis, len(pairs), "edge_axis", "edge", minimum=-1),
        }
        self.__dict__.update(fields)
        check_roots(self.roots, self.component)
        check_axes(self._axes, self._edge_axis, len(points))

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
        up = whole_numbers(parents, "parents")
        child = np.flatnonzero(up >= 0)
        # A ring of one or two is no valid pair of edges; longer ones are found below.
        small_ring = child[(up[child] < len(up)) & (up[np.minimum(up[child], len(up) - 1)] == child)]
        if len(small_ring):
            raise SkeletonError(f"node {small_ring[0]} is its own ancestor")
        attributes.setdefault("root", np.flatnonzero(up < 0))
        skeleton = cls(nodes, np.stack([up[child], child], axis=1), **attributes)
        if len(up) != len(skeleton.nodes):
            raise SkeletonError(f"{len(up)} parents for {len(skeleton.nodes)} nodes")
        if not skeleton.is_forest:
            raise SkeletonError(f"node {node_on_a_cycle(skeleton.edges, len(up))} is its own ancestor")
        return skeleton

    # ---- shape --------------------------------------------------------------------------------

    @cached_property
    def _topology(self) -> Topology:
        return Topology(self.edges, len(self.nodes), self.roots, self._edge_axis)

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
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(state | {"metadata": MappingProxyType(state["metadata"])})

    def replace(self, **changes: Any) -> Skeleton:
        """The same skeleton with some constructor arguments changed, checked anew."""
        stored = {name: self.__dict__[name] for name in Skeleton.__annotations__}
        arguments = {"root" if name == "roots" else name.lstrip("_"): value for name, value in stored.items()}
        return Skeleton(**(arguments | changes))

    @property
    def root(self) -> int | None:
        """The stated root, the first where there are several (`roots` has all), None where none is stated."""
        return int(self.roots[0]) if len(self.roots) else None

    @property
    def degree(self) -> IntArray:
        """(N,) number of edges at each node."""
        return self._topology.degree

    @property
    def component(self) -> IntArray:
        """(N,) the connected piece of each node, numbered by lowest node index."""
        return self._topology.component

    @property
    def is_forest(self) -> bool:
        """No cycles. True for an empty skeleton."""
        return self._topology.is_forest

    @property
    def is_tree(self) -> bool:
        """No cycles and one connected piece (isolated nodes count as pieces). False for an empty skeleton."""
        return self.is_forest and len(self.nodes) > 0 and len(self.edges) == len(self.nodes) - 1

    @cached_property
    def edge_length(self) -> FloatArray:
        """(E,) px."""
        step = self.nodes[self.edges[:, 1]] - self.nodes[self.edges[:, 0]]
        return frozen(np.hypot(step[:, 0], step[:, 1]))

    @property
    def length(self) -> float:
        """The sum of all edge lengths, px."""
        return float(self.edge_length.sum())

    # ---- the rooted forest --------------------------------------------------------------------

    @property
    def component_root(self) -> IntArray:
        """One node a connected piece, where walks begin: the stated root, else the piece's lowest node index."""
        return self._topology.component_root

    @property
    def traversal(self) -> Traversal:
        """The nodes from the bases outwards, parents before children. An error where there is a cycle."""
        return self._topology.traversal

    @property
    def parents(self) -> IntArray:
        """(N,) each node's parent, -1 at bases. An error where there is a cycle."""
        return self.traversal.parents

    @property
    def depth(self) -> IntArray:
        """(N,) number of edges between each node and its base."""
        return self._topology.depth

    @cached_property
    def distance_from_root(self) -> FloatArray:
        """(N,) path length between each node and its base, px."""
        return frozen(np.asarray(self.traversal.summed(self.edge_length.tolist()), dtype=np.float64))

    # ---- axes and plants ----------------------------------------------------------------------

    @property
    def has_explicit_axes(self) -> bool:
        """Whether the axes were given, rather than found by the rule."""
        return self._axes is not None

    @cached_property
    def _ruled(self) -> tuple[tuple[Axis, ...], IntArray]:
        return self._axes_by_rule(np.zeros(len(self)))

    def _axes_by_rule(self, min_reach_fraction: FloatArray) -> tuple[tuple[Axis, ...], IntArray]:
        traversal, plant = self.traversal, self.plant_of_node.tolist()
        axes, axis_of_node = axes_by_rule(self.nodes, traversal.parents, traversal.order, plant, min_reach_fraction)
        edge_axis = np.full(len(self.edges), -1, dtype=np.intp)
        edge_axis[traversal.edge[traversal.edge >= 0]] = axis_of_node[traversal.edge >= 0]
        return tuple(axes), frozen(edge_axis)

    def infer_axes(self, min_reach_fraction: ArrayLike) -> Skeleton:
        """With axes found anew, as if a file had given them; for graphs that are not exact, as predictions are.

        At a branch an axis passes over continuations that lead less than `min_reach_fraction` as far as the farthest one;
        0 to 1, a number or one a node, (N,).

        >>> bent = Skeleton([(0, 0), (0, 2), (0, 4), (9, 3)], [(0, 1), (1, 2), (1, 3)], root=0)
        >>> [bent.axes[0].nodes, bent.infer_axes(min_reach_fraction=0.5).axes[0].nodes]
        [(0, 1, 2), (0, 1, 3)]
        """
        axes, edge_axis = self._axes_by_rule(node_shares(min_reach_fraction, len(self), "min_reach_fraction"))
        return self._with(_axes=axes, _edge_axis=edge_axis)

    @cached_property
    def with_inferred_axes(self) -> Skeleton:
        """With its axes left to the rule; kept, with all that is found out about it, as long as this one is."""
        return self._with(_axes=None, _edge_axis=None) if self.has_explicit_axes else self

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes the file gave; where there are none, those of the rule in `treeformer.skeleton.axes`."""
        return self._axes if self._axes is not None else self._ruled[0]

    @property
    def edge_axis(self) -> IntArray:
        """(E,) the index in `axes` of the axis each edge belongs to, -1 for none."""
        return self._edge_axis if self._edge_axis is not None else self._ruled[1]

    @cached_property
    def axis_order(self) -> IntArray:
        """(len(axes),) 0 for a main axis, 1 for its laterals, and so on."""
        return frozen(np.asarray(axis_orders(self.axes), dtype=np.intp))

    @cached_property
    def plant_of_node(self) -> IntArray:
        """(N,) the plant of each node: as given, else one plant a connected piece, from left to right by its base."""
        if self.plant is not None:
            return self.plant
        rank = np.empty(len(self.component_root), dtype=np.intp)
        rank[np.argsort(self.nodes[self.component_root, 0], kind="stable")] = np.arange(len(self.component_root))
        return frozen(rank[self.component])

    @cached_property
    def plants(self) -> tuple[Skeleton, ...]:
        """One Skeleton a plant, in plant order; a plant without nodes has none."""
        return split_plants(self)

    # ---- new spacings -------------------------------------------------------------------------

    @property
    def is_keypoint(self) -> BoolArray:
        """(N,) the nodes that re-spacing keeps: degree ≠ 2, roots, and where one axis passes into another."""
        return self._topology.is_keypoint

    @property
    def branches(self) -> br.Branches:
        """The stretches between keypoints, running away from the bases where there is no cycle."""
        return self._topology.branches

    def resample(self, spacing_px: float) -> Skeleton:
        """Nodes at equal intervals along each branch, as near to `spacing_px` as a whole number of them comes.

        Keypoints (degree ≠ 2), roots and ends of axes stay where they are, as in the paper, which uses 8 px.

        >>> line = Skeleton([(0, 0), (3, 0), (18, 0)], [(0, 1), (1, 2)])
        >>> sorted(line.resample(8).nodes[:, 0].tolist())
        [0.0, 9.0, 18.0]
        """
        if not (math.isfinite(spacing_px) and spacing_px > 0):
            raise SkeletonError(f"spacing must be a positive number of pixels, not {spacing_px}")
        return self._respaced(br.respace(self.nodes[self.branches.nodes], self.branches, spacing_px))

    def sample_at_grid_crossings(self, spacing_px: float) -> Skeleton:
        """Nodes where branches cross a grid of lines, x or y = (k + ½)·`spacing_px` for whole k; keypoints stay.

        Where along a curve its nodes lie is then told by the place alone, for whoever sees only a part of it.
        Crossings less than a quarter of the spacing apart are one; nearer than that to a keypoint there is none.

        >>> line = Skeleton([(0, 5), (30, 5)], [(0, 1)])
        >>> line.sample_at_grid_crossings(16).nodes[:, 0].tolist()
        [0.0, 30.0, 8.0, 24.0]
        """
        if not (math.isfinite(spacing_px) and spacing_px > 0):
            raise SkeletonError(f"spacing must be a positive number of pixels, not {spacing_px}")
        points = self.nodes[self.branches.nodes]
        return self._respaced(br.grid_crossings(points, self.branches, spacing_px, spacing_px / 4))

    def contract(self) -> Skeleton:
        """Without the nodes of degree 2: each branch becomes one straight edge between its keypoints."""
        return self._respaced(br.thin(self.branches, np.zeros(len(self.branches.nodes), dtype=bool)))

    def simplify(self, tolerance: float) -> Skeleton:
        """Without inner nodes within `tolerance` px of the line through those that stay (Ramer-Douglas-Peucker)."""
        if not tolerance >= 0:
            raise SkeletonError(f"tolerance must be zero or more pixels, not {tolerance}")
        keep = br.farthest_points(self.nodes[self.branches.nodes], self.branches, tolerance)
        return self._respaced(br.thin(self.branches, keep))

    def crop(
        self, left: float, top: float, right: float, bottom: float, *, keep: Literal["forest", "largest"] = "forest"
    ) -> Skeleton:
        """The part inside a frame, in the frame's own coordinates; edges are cut at its border.

        keep: every piece, or the longest one alone. A piece that lost its root begins at the node nearest to it.
        `image_size` becomes the frame's, rounded up.
        """
        if not (left < right and top < bottom):
            raise SkeletonError(f"an empty crop: {left}, {top} to {right}, {bottom}")
        frame = (left, top, right, bottom)
        if br.inside(self.nodes, *frame).all() and not self.has_explicit_axes:
            cut = self  # whose topology is known already
        else:
            cut = apply_resampling(self, br.clip(self.nodes, self.edges, *frame))
        size = (math.ceil(right - left), math.ceil(bottom - top))
        inside = np.clip(cut.nodes - (left, top), 0.0, (right - left, bottom - top))
        cut = cut._with(nodes=inside, image_size=size)
        return cut.largest() if keep == "largest" and len(cut) else cut

    def largest(self) -> Skeleton:
        """The connected piece with the greatest length (the most nodes, where lengths are equal)."""
        if len(self.component_root) <= 1:
            return self
        length, size = component_lengths(self), np.bincount(self.component)
        best = max(range(len(length)), key=lambda component: (length[component], size[component]))
        return subgraph(self, self.component == best)

    def _respaced(self, made: br.Resampling) -> Skeleton:
        return apply_resampling(self, br.with_lone_nodes(made, np.flatnonzero(self.degree == 0)))

    def _with(self, **fields: Any) -> Skeleton:
        """The same skeleton with some stored fields exchanged, not checked again."""
        other = Skeleton._trusted({name: self.__dict__[name] for name in Skeleton.__annotations__} | fields)
        if fields.keys().isdisjoint({"edges", "roots", "_edge_axis"}):
            other.__dict__["_topology"] = self._topology
        return other

    # ---- geometry -----------------------------------------------------------------------------

    def transform(self, affine: ArrayLike, *, image_size: tuple[int, int] | None = None) -> Skeleton:
        """Moved by an affine map, a (2,3) or (3,3) matrix that acts on (x, y, 1).

        Radii and `diameter` functions are scaled by √|det|. `image_size`: that of the image the map leads to.
        """
        return transformed(self, affine, image_size)

    def nearest(self, points: ArrayLike) -> tuple[Any, Any]:
        """The nearest node to one point (2,) or to many (M,2): its index and the distance in px.

        >>> Skeleton([(0, 0), (10, 0)], [(0, 1)]).nearest((9, 0))
        (1, 1.0)
        """
        from scipy.spatial import cKDTree

        if len(self.nodes) == 0:
            raise SkeletonError("an empty skeleton has no nearest node")
        wanted = places(points)
        distance, index = cKDTree(self.nodes).query(wanted)
        if wanted.ndim == 1:
            return int(index), float(distance)
        return index.astype(np.intp), distance

    # ---- NetworkX -----------------------------------------------------------------------------

    def to_networkx(self) -> nx.Graph[int]:
        """An undirected graph: nodes with x, y and, where known, radius, score, plant, root; edges with length, score.

        Only scalars, so that every NetworkX writer takes it. Axes and metadata do not fit and stay behind.
        """
        from treeformer.skeleton.networkx import graph_of

        return graph_of(self)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], **attributes: Any) -> Skeleton:
        """From any NetworkX graph whose nodes have `x` and `y`, or `pos`; attributes as in the constructor win.

        Nodes are numbered in the graph's order, whatever they are called. A node attribute `root` that is
        true marks a root; so does having no predecessor where the graph is directed.
        """
        from treeformer.skeleton.networkx import arguments_from

        return cls(**(arguments_from(graph) | attributes))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if a is None or b is None:
            return False
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(a == b)
