"""`Skeleton`: the central data structure. Readers and models produce it; writers, traits and metrics consume it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.skeleton.attribute_transfer import (
    apply_affine,
    apply_crop,
    apply_resampling,
    component_lengths,
    split_plants,
    subgraph,
)
from treeformer.skeleton.axes import Axis, Plant, axis_orders, check_axes, infer_axes
from treeformer.skeleton.branches import Branches
from treeformer.skeleton.resampling import (
    Resampling,
    douglas_peucker,
    grid_crossings,
    respace,
    thin,
    with_isolated_nodes,
)
from treeformer.skeleton.topology import Topology
from treeformer.skeleton.traversal import Traversal, node_on_a_cycle
from treeformer.skeleton.validation import (
    ATTRIBUTES,
    check_roots,
    checked_attributes,
    edge_array,
    fraction_array,
    frozen,
    integer_array,
    node_array,
    point_array,
    positive_spacing,
    root_array,
)

if TYPE_CHECKING:
    import networkx as nx


class Skeleton:
    """The skeleton of the plants in one image: a tree of points, or a forest if there are several plants.

    Arrays are copied and read-only; every method returns a new Skeleton. Any simple graph is accepted, because an
    unconstrained model may predict cycles; see `is_tree` and `is_forest`.

    Args:
        nodes: (N,2) x, y in px, x to the right, y down; the center of the top left pixel is (0.5, 0.5). No coordinate
            may exceed 10,000,000 px.
        edges: (E,2) node indices; undirected, no loops, no duplicates.
        root: the node, or nodes (at most one per connected component), where plants begin.
        radius: (N,) px, at most 10,000,000; NaN if unknown.
        node_score: (N,) confidences.
        edge_score: (E,) confidences.
        axes: the axes that a file gives; None infers them by the rule in `treeformer.skeleton.axes`.
        edge_axis: (E,) index into `axes`, -1 for none; required if `axes` is given.
        plant: (N,) plant index of each node; None for one plant per connected component, numbered left to right.
        plant_records: the plants that a file gives.
        image_size: (width, height) px, at most 10,000,000 each.
        image_name: file name of the image.
        metadata: anything that JSON can hold; kept by all methods and by formats that can store it.

    Attributes:
        nodes: (N,2) px.
        edges: (E,2) node indices.
        roots: (R,) node indices, ascending.
        radius: (N,) px, or None.
        node_score: (N,) confidences, or None.
        edge_score: (E,) confidences, or None.
        plant: (N,) plant indices as given, or None.
        plant_records: the plants as given.
        image_size: (width, height) px, or None.
        image_name: file name of the image, or None.
        metadata: read-only mapping.

    Raises:
        SkeletonError: if an argument is invalid; the message identifies the node, edge or axis.

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
        attributes = {
            "radius": radius,
            "node_score": node_score,
            "edge_score": edge_score,
            "axes": axes,
            "edge_axis": edge_axis,
            "plant": plant,
            "plant_records": plant_records,
            "image_size": image_size,
            "image_name": image_name,
            "metadata": metadata,
        }
        fields: dict[str, Any] = {"nodes": points, "edges": pairs, "roots": root_array(root, len(points))}
        self.__dict__.update(fields | checked_attributes(attributes, len(points), len(pairs)))
        check_roots(self.roots, self.component)
        check_axes(self._axes, self._edge_axis, len(points))

    @classmethod
    def _trusted(cls, fields: dict[str, Any]) -> Skeleton:
        """Make a Skeleton from fields that are known to be valid. Fields that are left out are empty."""
        skeleton = cls.__new__(cls)
        for value in fields.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        skeleton.__dict__.update(_EMPTY_FIELDS | fields)
        return skeleton

    @classmethod
    def from_parents(cls, nodes: ArrayLike, parents: ArrayLike, **attributes: Any) -> Skeleton:
        """Make a skeleton from the parent of each node.

        Args:
            nodes: (N,2) px.
            parents: (N,) node indices, -1 (or any negative number) at roots.
            **attributes: further arguments of the constructor.

        Returns:
            A forest.

        Raises:
            SkeletonError: if a node is its own ancestor, or an argument is invalid.

        Example:
            >>> Skeleton.from_parents([(0, 0), (0, 1), (0, 2)], [-1, 0, 1]).root
            0
        """
        parent_of = integer_array(parents, "parents")
        if parent_of.ndim != 1:
            raise SkeletonError(f"parents must be one node index per node, not of shape {parent_of.shape}")
        child = np.flatnonzero(parent_of >= 0)
        # Cycles of one or two nodes would be reported as invalid edges; longer ones are found below.
        exists = parent_of[child] < len(parent_of)
        grandparent = parent_of[np.minimum(parent_of[child], len(parent_of) - 1)]
        short_cycle = child[exists & (grandparent == child)]
        if len(short_cycle):
            raise SkeletonError(f"node {short_cycle[0]} is its own ancestor")
        attributes.setdefault("root", np.flatnonzero(parent_of < 0))
        skeleton = cls(nodes, np.stack([parent_of[child], child], axis=1), **attributes)
        if len(parent_of) != len(skeleton.nodes):
            raise SkeletonError(f"{len(parent_of)} parents for {len(skeleton.nodes)} nodes")
        if not skeleton.is_forest:
            raise SkeletonError(f"node {node_on_a_cycle(skeleton.edges, len(parent_of))} is its own ancestor")
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

    def _repr_html_(self) -> str:
        from treeformer.skeleton.svg import to_svg

        return to_svg(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Skeleton):
            return NotImplemented
        return all(_are_equal(self.__dict__[name], other.__dict__[name]) for name in Skeleton.__annotations__)

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
        """Return a copy with some constructor arguments changed.

        Raises:
            SkeletonError: if the result is invalid.

        Example:
            >>> Skeleton([(0, 0), (3, 4)], [(0, 1)]).replace(root=1).root
            1
        """
        if changes.keys() <= ATTRIBUTES:  # nodes, edges and roots stay, and with them the topology
            other = self._with(**checked_attributes(changes, len(self.nodes), len(self.edges)))
            check_axes(other._axes, other._edge_axis, len(self.nodes))
            return other
        stored = {name: self.__dict__[name] for name in Skeleton.__annotations__}
        arguments = {"root" if name == "roots" else name.lstrip("_"): value for name, value in stored.items()}
        return Skeleton(**(arguments | changes))

    @property
    def root(self) -> int | None:
        """The given root, the first if there are several (see `roots`), None if there is none."""
        return int(self.roots[0]) if len(self.roots) else None

    @property
    def degree(self) -> IntArray:
        """Number of edges at each node, (N,)."""
        return self._topology.degree

    @property
    def component(self) -> IntArray:
        """Connected component of each node, (N,), numbered by lowest node index."""
        return self._topology.component

    @property
    def is_forest(self) -> bool:
        """True if there is no cycle. True for an empty skeleton."""
        return self._topology.is_forest

    @property
    def is_tree(self) -> bool:
        """True if there is no cycle and one connected component. False for an empty skeleton."""
        return self.is_forest and len(self.nodes) > 0 and len(self.edges) == len(self.nodes) - 1

    @cached_property
    def edge_length(self) -> FloatArray:
        """Length of each edge, (E,) px."""
        step = self.nodes[self.edges[:, 1]] - self.nodes[self.edges[:, 0]]
        return frozen(np.hypot(step[:, 0], step[:, 1]))

    @property
    def length(self) -> float:
        """Sum of all edge lengths, px."""
        return float(self.edge_length.sum())

    # ---- rooted forest ------------------------------------------------------------------------

    @property
    def component_root(self) -> IntArray:
        """Node where the traversal of each connected component begins, (C,): its root, or else its lowest node."""
        return self._topology.component_root

    @property
    def traversal(self) -> Traversal:
        """Nodes from the component roots outwards, parents before children. Raises `SkeletonError` for cycles."""
        return self._topology.traversal

    @property
    def parents(self) -> IntArray:
        """Parent of each node, (N,), -1 at component roots. Raises `SkeletonError` for cycles."""
        return self.traversal.parents

    @property
    def depth(self) -> IntArray:
        """Number of edges between each node and its component root, (N,)."""
        return self._topology.depth

    @cached_property
    def distance_from_root(self) -> FloatArray:
        """Path length between each node and its component root, (N,) px."""
        return frozen(np.asarray(self.traversal.sum_from_root(self.edge_length.tolist()), dtype=np.float64))

    # ---- axes and plants ----------------------------------------------------------------------

    @property
    def has_explicit_axes(self) -> bool:
        """True if the axes were given, False if they are inferred."""
        return self._axes is not None

    @cached_property
    def _inferred_axes(self) -> tuple[tuple[Axis, ...], IntArray]:
        return self._infer_axes(np.zeros(len(self)))

    def _infer_axes(self, min_reach_fraction: FloatArray) -> tuple[tuple[Axis, ...], IntArray]:
        traversal, plant = self.traversal, self.plant_of_node.tolist()
        axes, axis_of_node = infer_axes(self.nodes, traversal.parents, traversal.order, plant, min_reach_fraction)
        edge_axis = np.full(len(self.edges), -1, dtype=np.intp)
        edge_axis[traversal.edge[traversal.edge >= 0]] = axis_of_node[traversal.edge >= 0]
        return tuple(axes), frozen(edge_axis)

    def infer_axes(self, min_reach_fraction: ArrayLike) -> Skeleton:
        """Return a skeleton whose axes are inferred and then explicit, as if a file had given them.

        This is for graphs that are not exact, such as predictions: at a branching, an axis ignores continuations that
        reach less than `min_reach_fraction` (0 to 1, one number or (N,)) as far as the farthest one.

        Raises:
            SkeletonError: if `min_reach_fraction` is invalid or the graph has a cycle.

        Example:
            >>> bent = Skeleton([(0, 0), (0, 2), (0, 4), (9, 3)], [(0, 1), (1, 2), (1, 3)], root=0)
            >>> [bent.axes[0].nodes, bent.infer_axes(min_reach_fraction=0.5).axes[0].nodes]
            [(0, 1, 2), (0, 1, 3)]
        """
        axes, edge_axis = self._infer_axes(fraction_array(min_reach_fraction, len(self), "min_reach_fraction"))
        return self._with(_axes=axes, _edge_axis=edge_axis)

    @cached_property
    def with_inferred_axes(self) -> Skeleton:
        """This skeleton without explicit axes; cached, together with everything computed on it."""
        return self._with(_axes=None, _edge_axis=None) if self.has_explicit_axes else self

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The given axes, or those inferred by the rule in `treeformer.skeleton.axes`."""
        return self._axes if self._axes is not None else self._inferred_axes[0]

    @property
    def edge_axis(self) -> IntArray:
        """Index into `axes` of the axis of each edge, (E,), -1 for none."""
        return self._edge_axis if self._edge_axis is not None else self._inferred_axes[1]

    @cached_property
    def axis_order(self) -> IntArray:
        """Order of each axis, (A,): 0 for a main axis, 1 for its laterals, and so on."""
        return frozen(np.asarray(axis_orders(self.axes), dtype=np.intp))

    @cached_property
    def plant_of_node(self) -> IntArray:
        """Plant of each node, (N,): as given, or one per connected component, left to right by component root."""
        if self.plant is not None:
            return self.plant
        rank = np.empty(len(self.component_root), dtype=np.intp)
        rank[np.argsort(self.nodes[self.component_root, 0], kind="stable")] = np.arange(len(self.component_root))
        return frozen(rank[self.component])

    @cached_property
    def plants(self) -> tuple[Skeleton, ...]:
        """One Skeleton per plant, in plant order; plants without nodes are left out."""
        return split_plants(self)

    # ---- resampling ---------------------------------------------------------------------------

    @property
    def is_keypoint(self) -> BoolArray:
        """True for the nodes that resampling keeps, (N,): degree ≠ 2, roots, and nodes where the axis changes."""
        return self._topology.is_keypoint

    @property
    def branches(self) -> Branches:
        """The paths between keypoints; they run away from the component roots if there is no cycle."""
        return self._topology.branches

    def resample(self, spacing_px: float) -> Skeleton:
        """Place nodes at equal intervals along each branch, as near to `spacing_px` as a whole number of them allows.

        Keypoints (degree ≠ 2), roots and ends of axes stay where they are. The paper uses 8 px.

        Raises:
            SkeletonError: if `spacing_px` is not a positive number, or so small that there would be more than ten
                million nodes.

        Example:
            >>> line = Skeleton([(0, 0), (3, 0), (18, 0)], [(0, 1), (1, 2)])
            >>> sorted(line.resample(8).nodes[:, 0].tolist())
            [0.0, 9.0, 18.0]
        """
        spacing = positive_spacing(spacing_px)
        return self._resampled(respace(self.nodes[self.branches.nodes], self.branches, spacing))

    def sample_at_grid_crossings(self, spacing_px: float) -> Skeleton:
        """Place nodes where branches cross the grid lines x or y = (k + ½)·`spacing_px`, k integer; keypoints stay.

        The position of the nodes along a curve then depends on the image alone, even if only a part of the curve is
        visible. Crossings less than a quarter of the spacing apart are merged; those nearer than that to a keypoint
        are dropped.

        Raises:
            SkeletonError: if `spacing_px` is not a positive number, or so small that there would be more than ten
                million nodes.

        Example:
            >>> line = Skeleton([(0, 5), (30, 5)], [(0, 1)])
            >>> line.sample_at_grid_crossings(16).nodes[:, 0].tolist()
            [0.0, 30.0, 8.0, 24.0]
        """
        spacing = positive_spacing(spacing_px)
        points = self.nodes[self.branches.nodes]
        return self._resampled(grid_crossings(points, self.branches, spacing, spacing / 4))

    def contract(self) -> Skeleton:
        """Remove the nodes between keypoints: each branch becomes one straight edge."""
        return self._resampled(thin(self.branches, np.zeros(len(self.branches.nodes), dtype=bool)))

    def simplify(self, tolerance: float) -> Skeleton:
        """Remove nodes within `tolerance` px of the simplified branch (Ramer-Douglas-Peucker); keypoints stay.

        Raises:
            SkeletonError: if `tolerance` is negative.
        """
        if not (isinstance(tolerance, int | float | np.number) and tolerance >= 0):
            raise SkeletonError(f"tolerance must be zero or more pixels, not {short_repr(tolerance)}")
        keep = douglas_peucker(self.nodes[self.branches.nodes], self.branches, tolerance)
        return self._resampled(thin(self.branches, keep))

    def crop(
        self, left: float, top: float, right: float, bottom: float, *, keep: Literal["forest", "largest"] = "forest"
    ) -> Skeleton:
        """Return the part inside a frame, in the frame's coordinates; edges are cut at its border.

        A component that lost its root gets a new one: its node nearest to the old root. `image_size` becomes the size
        of the frame, rounded up.

        Args:
            left: least x, px.
            top: least y, px.
            right: greatest x, px.
            bottom: greatest y, px.
            keep: "forest" for all connected components, "largest" for the longest one only.

        Returns:
            The cropped skeleton.

        Raises:
            SkeletonError: if the frame is empty or infinite, a coordinate in it would exceed 10,000,000 px, or `keep`
                is neither of the two.
        """
        if keep not in ("forest", "largest"):
            raise SkeletonError(f"keep must be 'forest' or 'largest', not {keep!r}")
        cut = apply_crop(self, left, top, right, bottom)
        return cut.largest() if keep == "largest" and len(cut) else cut

    def largest(self) -> Skeleton:
        """Return the longest connected component; of equally long ones, the one with most nodes."""
        if len(self.component_root) <= 1:
            return self
        length, size = component_lengths(self), np.bincount(self.component)
        best = max(range(len(length)), key=lambda component: (length[component], size[component]))
        return subgraph(self, self.component == best)

    def _resampled(self, resampling: Resampling) -> Skeleton:
        return apply_resampling(self, with_isolated_nodes(resampling, np.flatnonzero(self.degree == 0)))

    def _with(self, **fields: Any) -> Skeleton:
        """Return a copy with some stored fields replaced, without validation."""
        other = Skeleton._trusted({name: self.__dict__[name] for name in Skeleton.__annotations__} | fields)
        if fields.keys().isdisjoint({"edges", "roots", "_edge_axis"}):
            other.__dict__["_topology"] = self._topology
        return other

    # ---- geometry -----------------------------------------------------------------------------

    def transform(self, affine: ArrayLike, *, image_size: tuple[int, int] | None = None) -> Skeleton:
        """Move the skeleton by an affine map; radii and `diameter` functions are scaled by √|det|.

        Metadata are kept, also the resolution of an RSML file. If the map changes the scale, pass `px_per_mm` to
        `measure`.

        Args:
            affine: (2,3) or (3,3) matrix that acts on (x, y, 1).
            image_size: (width, height) px of the image that the map leads to.

        Returns:
            The moved skeleton.

        Raises:
            SkeletonError: if `affine` is not an affine matrix, or a coordinate or radius would exceed 10,000,000 px.

        Example:
            >>> Skeleton([(1, 2)], []).transform([[2, 0, 5], [0, 2, 0]]).nodes.tolist()
            [[7.0, 4.0]]
        """
        return apply_affine(self, affine, image_size)

    def nearest(self, points: ArrayLike) -> tuple[Any, Any]:
        """Find the nearest node to one point, (2,) px, or to several, (M,2) px.

        Returns:
            The node index and its distance in px: two numbers for one point, two arrays (M,) for several.

        Raises:
            SkeletonError: if the skeleton is empty or a point is invalid.

        Example:
            >>> Skeleton([(0, 0), (10, 0)], [(0, 1)]).nearest((9, 0))
            (1, 1.0)
        """
        from scipy.spatial import cKDTree

        if len(self.nodes) == 0:
            raise SkeletonError("an empty skeleton has no nearest node")
        queries = point_array(points)
        distance, index = cKDTree(self.nodes).query(queries)
        if queries.ndim == 1:
            return int(index), float(distance)
        return index.astype(np.intp), distance

    # ---- NetworkX -----------------------------------------------------------------------------

    def to_networkx(self) -> nx.Graph[int]:
        """Return an undirected NetworkX graph.

        Nodes have x, y and, if known, radius, score, plant and root; edges have length and, if known, score. If axes
        were given, each edge has the number of its `axis` and the graph has their records as JSON text in `axes`.

        All attributes are scalars, which every NetworkX writer accepts. Metadata and plant records are left out.
        """
        from treeformer.skeleton.networkx import to_networkx

        return to_networkx(self)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], **attributes: Any) -> Skeleton:
        """Make a skeleton from a NetworkX graph whose nodes have `x` and `y`, or `pos`.

        Nodes are numbered in the graph's order, whatever their names. A node is a root if its attribute `root` is true;
        if no node has it and the graph is directed, nodes without a predecessor are roots.

        Axes from `to_networkx` are restored if every edge still has its `axis`. In a graph that was edited, they follow
        the remaining edges and lose their functions. If an edge has no axis, or the graph has a cycle, all axes are
        inferred, as for a file without axes.

        Args:
            graph: the graph.
            **attributes: arguments of the constructor; they take precedence over the graph's.

        Returns:
            The skeleton.

        Raises:
            SkeletonError: if a node has no coordinates, or the graph is not a valid skeleton.
        """
        from treeformer.skeleton.networkx import from_networkx

        return from_networkx(graph, attributes)


_EMPTY_FIELDS: dict[str, Any] = dict.fromkeys(Skeleton.__annotations__) | {
    "plant_records": (),
    "metadata": MappingProxyType({}),
}


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if a is None or b is None:
            return False
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(a == b)
