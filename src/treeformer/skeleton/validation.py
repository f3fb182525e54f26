"""Checks behind `Skeleton(...)`: convert each argument to a read-only array, or raise a one-line `SkeletonError`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeformer._util.arrays import FloatArray, IntArray
from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.skeleton.axes import Axis, axis_orders

MAX_PX = 1e7
"""Greatest coordinate, radius and image side, px; far beyond any image, small enough for exact arithmetic."""

AnyArray = TypeVar("AnyArray", bound=NDArray[np.generic])


def frozen(array: AnyArray) -> AnyArray:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def node_array(nodes: ArrayLike) -> FloatArray:
    """Return node coordinates as an (N,2) array, px.

    Raises:
        SkeletonError: if the shape is wrong, or a coordinate is not finite or its absolute value exceeds `MAX_PX`.
    """
    try:
        points = np.array(nodes, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError("nodes must be an array of N×2 numbers") from None
    if points.size == 0:
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2:
        raise SkeletonError(f"nodes must be an array of N×2 numbers, not of shape {points.shape}")
    is_valid = (np.abs(points) <= MAX_PX).all(axis=1)  # False for NaN
    if not is_valid.all():
        node = int(np.flatnonzero(~is_valid)[0])
        x, y = points[node].tolist()
        expected = f"within ±{MAX_PX:,.0f} px" if math.isfinite(x) and math.isfinite(y) else "finite"
        raise SkeletonError(f"node {node} is at ({x}, {y}): coordinates must be {expected}")
    return frozen(points)


def point_array(points: ArrayLike) -> FloatArray:
    """Return coordinates that need not be nodes as an array (2,) or (M,2), px.

    Raises:
        SkeletonError: if the shape is wrong or a coordinate is not finite.
    """
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.shape[-1:] != (2,) or not np.isfinite(array).all():
        raise SkeletonError("points must be two finite numbers, or an array of M×2 of them")
    return array


def fraction_array(values: ArrayLike, count: int, name: str) -> FloatArray:
    """Return one number from 0 to 1 per node.

    Args:
        values: one number for all nodes, or (N,).
        count: number of nodes.
        name: name of the argument, for the error message.

    Returns:
        (N,) fractions.

    Raises:
        SkeletonError: if the shape is wrong or a value is not from 0 to 1.
    """
    fractions = np.asarray(values, dtype=np.float64)
    if fractions.shape not in ((), (count,)) or not ((fractions >= 0) & (fractions <= 1)).all():
        raise SkeletonError(f"{name} must be between 0 and 1, either one number or one number per node")
    return np.broadcast_to(fractions, count)


def positive_spacing(spacing_px: float) -> float:
    """Return a distance between nodes as a float, px.

    Raises:
        SkeletonError: if it is not a positive, finite number.
    """
    try:
        spacing = float(spacing_px)
    except (TypeError, ValueError, OverflowError):
        spacing = math.nan
    if not (math.isfinite(spacing) and spacing > 0):
        raise SkeletonError(f"spacing must be a positive number of pixels, not {short_repr(spacing_px)}")
    return spacing


def integer_array(values: ArrayLike, name: str) -> IntArray:
    """Return integers of any shape, given as integers or as floats without a fraction.

    Args:
        values: the numbers.
        name: name of the argument, for the error message.

    Returns:
        An array of the same shape.

    Raises:
        SkeletonError: if a value is not a whole number.
    """
    try:
        array = np.array(values)
        if array.size and array.dtype.kind not in "iu":
            as_float = array.astype(np.float64)
            if not (as_float == np.floor(as_float)).all() or not (np.abs(as_float) < 2**53).all():
                raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError(f"{name} must be whole numbers") from None
    return array.astype(np.intp)


def edge_array(edges: ArrayLike, count: int) -> IntArray:
    """Return edges as an (E,2) array of node indices.

    Args:
        edges: pairs of node indices.
        count: number of nodes.

    Returns:
        (E,2) node indices.

    Raises:
        SkeletonError: if the shape is wrong, a node does not exist, or an edge is a loop or a duplicate.
    """
    pairs = integer_array(edges, "edges")
    if pairs.size == 0:
        pairs = pairs.reshape(0, 2)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise SkeletonError(f"edges must be an array of E×2 node indices, not of shape {pairs.shape}")
    outside = np.flatnonzero(((pairs < 0) | (pairs >= count)).any(axis=1))
    if len(outside):
        u, v = pairs[outside[0]]
        missing = v if 0 <= u < count else u
        raise SkeletonError(f"edge {outside[0]} ({u}, {v}) refers to node {missing}, but there are {count} nodes")
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise SkeletonError(f"edge {loops[0]} joins node {pairs[loops[0], 0]} to itself")
    code = pairs.min(axis=1) * count + pairs.max(axis=1)
    order = np.argsort(code, kind="stable")
    duplicates = np.flatnonzero(np.diff(code[order]) == 0)
    if len(duplicates):
        first, second = order[duplicates[0]], order[duplicates[0] + 1]
        raise SkeletonError(f"edge {second} ({pairs[second, 0]}, {pairs[second, 1]}) repeats edge {first}")
    return frozen(pairs)


def root_array(root: int | Iterable[int] | None, count: int) -> IntArray:
    """Return the roots as a sorted array.

    Args:
        root: one node index, several, or None.
        count: number of nodes.

    Returns:
        (R,) node indices, ascending.

    Raises:
        SkeletonError: if a root is not a node.
    """
    if root is None:
        return frozen(np.zeros(0, dtype=np.intp))
    values = np.atleast_1d(np.asarray(list(root) if isinstance(root, Iterable) else root))
    roots = np.unique(integer_array(values, "roots"))
    outside = roots[(roots < 0) | (roots >= count)]
    if len(outside):
        raise SkeletonError(f"root {outside[0]} is not a node: there are {count} nodes")
    return frozen(roots)


def value_array(
    values: ArrayLike | None,
    count: int,
    name: str,
    item: str,
    *,
    allow_nan: bool = False,
    minimum: float = -math.inf,
    maximum: float = math.inf,
) -> FloatArray | None:
    """Return one number per node or edge.

    Args:
        values: (count,) numbers, or None.
        count: number of items.
        name: name of the argument, for the error message.
        item: what a value belongs to ("node" or "edge"), for the error message.
        allow_nan: accept NaN.
        minimum: lowest valid number.
        maximum: greatest valid number.

    Returns:
        (count,) numbers, or None.

    Raises:
        SkeletonError: if the shape is wrong or a value is invalid.
    """
    if values is None:
        return None
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError(f"{name} must be numbers") from None
    if array.shape != (count,):
        raise SkeletonError(f"{name} has shape {array.shape}, but there are {count} {item}s")
    is_valid = np.isfinite(array) & (array >= minimum) & (array <= maximum)
    if allow_nan:
        is_valid |= np.isnan(array)
    if not is_valid.all():
        at = int(np.flatnonzero(~is_valid)[0])
        limit = f", more than {maximum:,.0f}" if maximum < array[at] < math.inf else ""
        raise SkeletonError(f"{name} of {item} {at} is {array[at]}{limit}")
    return frozen(array)


def index_array(values: ArrayLike | None, count: int, name: str, item: str, *, minimum: int) -> IntArray | None:
    """Return one index per node or edge.

    Args:
        values: (count,) whole numbers, or None.
        count: number of items.
        name: name of the argument, for the error message.
        item: what a value belongs to ("node" or "edge"), for the error message.
        minimum: lowest valid index.

    Returns:
        (count,) indices, or None.

    Raises:
        SkeletonError: if the shape is wrong or an index is too low.
    """
    if values is None:
        return None
    array = integer_array(values, name)
    if array.shape != (count,):
        raise SkeletonError(f"{name} has shape {array.shape}, but there are {count} {item}s")
    low = np.flatnonzero(array < minimum)
    if len(low):
        raise SkeletonError(f"{name} of {item} {low[0]} is {array[low[0]]}")
    return frozen(array)


def image_size_pair(size: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return (width, height) in px as two positive integers, or None.

    Raises:
        SkeletonError: if `size` is not a pair of positive numbers up to `MAX_PX`.
    """
    if size is None:
        return None
    try:
        width, height = (int(side) for side in size)
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError(f"image_size must be (width, height), not {short_repr(size)}") from None
    if width <= 0 or height <= 0:
        raise SkeletonError(f"image_size must be positive, not {short_repr(width)}×{short_repr(height)}")
    if max(width, height) > MAX_PX:
        raise SkeletonError(f"image_size has {short_repr(max(width, height))} px, more than {MAX_PX:,.0f}")
    return width, height


_CHECKS: dict[str, Callable[[Any, int, int], Any]] = {
    "radius": lambda values, nodes, _: value_array(
        values, nodes, "radius", "node", allow_nan=True, minimum=0.0, maximum=MAX_PX
    ),
    "node_score": lambda values, nodes, _: value_array(values, nodes, "node_score", "node"),
    "edge_score": lambda values, _, edges: value_array(values, edges, "edge_score", "edge"),
    "plant": lambda values, nodes, _: index_array(values, nodes, "plant", "node", minimum=0),
    "plant_records": lambda records, *_: tuple(records),
    "image_size": lambda size, *_: image_size_pair(size),
    "image_name": lambda name, *_: name,
    "metadata": lambda metadata, *_: MappingProxyType(copy.deepcopy(dict(metadata or {}))),
    "axes": lambda axes, *_: None if axes is None else tuple(axes),
    "edge_axis": lambda values, _, edges: index_array(values, edges, "edge_axis", "edge", minimum=-1),
}
ATTRIBUTES = frozenset(_CHECKS)
"""The arguments of a Skeleton other than its nodes, edges and roots."""


def checked_attributes(values: Mapping[str, Any], node_count: int, edge_count: int) -> dict[str, Any]:
    """Validate some of `ATTRIBUTES`. Whether `axes` and `edge_axis` fit together is for `check_axes` to find out.

    Args:
        values: the arguments by name.
        node_count: number of nodes.
        edge_count: number of edges.

    Returns:
        The values that a Skeleton stores, by the names of its fields: those of axes begin with an underscore.

    Raises:
        SkeletonError: if a value is invalid.
    """
    checked = {name: _CHECKS[name](value, node_count, edge_count) for name, value in values.items()}
    return {f"_{name}" if name in ("axes", "edge_axis") else name: value for name, value in checked.items()}


def check_roots(roots: IntArray, component: IntArray) -> None:
    """Check that each connected component has at most one root.

    Args:
        roots: (R,) node indices.
        component: (N,) connected component of each node.

    Raises:
        SkeletonError: if two roots are in one component.
    """
    root_of_component: dict[int, int] = {}
    for root, index in zip(roots.tolist(), component[roots].tolist(), strict=True):
        if index in root_of_component:
            first = root_of_component[index]
            raise SkeletonError(f"nodes {first} and {root} are both roots of one connected component")
        root_of_component[index] = root


def check_axes(axes: tuple[Axis, ...] | None, edge_axis: IntArray | None, count: int) -> None:
    """Check that `axes` and `edge_axis` are given together and refer only to existing axes and nodes.

    Args:
        axes: the axes, or None.
        edge_axis: (E,) index into `axes`, -1 for none; or None.
        count: number of nodes.

    Raises:
        SkeletonError: if one is given without the other, an index is out of range, or an axis is its own ancestor.
    """
    if axes is None and edge_axis is not None:
        raise SkeletonError("edge_axis is given without axes")
    if axes is None:
        return
    if edge_axis is None:
        raise SkeletonError("axes are given without edge_axis")
    for edge in np.flatnonzero(edge_axis >= len(axes))[:1]:
        raise SkeletonError(f"edge {edge} is on axis {edge_axis[edge]}, but there are {len(axes)} axes")
    for number, axis in enumerate(axes):
        if axis.parent is not None and not 0 <= axis.parent < len(axes):
            raise SkeletonError(f"axis {number} has parent {axis.parent}, which does not exist")
        for node in axis.nodes:
            if not 0 <= node < count:
                raise SkeletonError(f"axis {number} goes through node {node}, which does not exist")
    axis_orders(axes)
