"""The checks behind `Skeleton(...)`: each argument to a read-only array, or one line that names what is at fault."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import SkeletonError
from treeformer.skeleton.axes import Axis, axis_orders

AnyArray = TypeVar("AnyArray", bound=NDArray[np.generic])


def frozen(array: AnyArray) -> AnyArray:
    """The same array, read-only from here on."""
    array.setflags(write=False)
    return array


def node_array(nodes: ArrayLike) -> FloatArray:
    """(N,2) finite coordinates."""
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
    return frozen(points)


def places(points: ArrayLike) -> FloatArray:
    """(2,) or (M,2) finite coordinates that need not be nodes."""
    try:
        wanted = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        wanted = np.empty(0)
    if wanted.shape[-1:] != (2,) or not np.isfinite(wanted).all():
        raise SkeletonError("points must be two finite numbers, or an array of M×2 of them")
    return wanted


def node_shares(values: ArrayLike, count: int, what: str) -> FloatArray:
    """(N,) numbers from 0 to 1, given as one for all nodes or one a node."""
    shares = np.asarray(values, dtype=np.float64)
    if shares.shape not in ((), (count,)) or not ((shares >= 0) & (shares <= 1)).all():
        raise SkeletonError(f"{what} must be within 0 and 1, one number or one a node")
    return np.broadcast_to(shares, count)


def whole_numbers(values: ArrayLike, what: str) -> IntArray:
    """Integers of any shape, given as integers or as floats without a fraction."""
    try:
        array = np.array(values)
        if array.size and array.dtype.kind not in "iu":
            as_float = array.astype(np.float64)
            if not (as_float == np.floor(as_float)).all() or not (np.abs(as_float) < 2**53).all():
                raise ValueError
    except (TypeError, ValueError):
        raise SkeletonError(f"{what} must be whole numbers") from None
    return array.astype(np.intp)


def edge_array(edges: ArrayLike, count: int) -> IntArray:
    """(E,2) indices below `count`, without loops or doubles."""
    pairs = whole_numbers(edges, "edges")
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
    return frozen(pairs)


def root_array(root: int | Iterable[int] | None, count: int) -> IntArray:
    """The root indices, sorted."""
    if root is None:
        return frozen(np.zeros(0, dtype=np.intp))
    values = np.atleast_1d(np.asarray(list(root) if isinstance(root, Iterable) else root))
    roots = np.unique(whole_numbers(values, "roots"))
    outside = roots[(roots < 0) | (roots >= count)]
    if len(outside):
        raise SkeletonError(f"root {outside[0]} is not a node: there are {count} nodes")
    return frozen(roots)


def value_array(
    values: ArrayLike | None, count: int, name: str, what: str, *, allow_nan: bool = False, minimum: float = -math.inf
) -> FloatArray | None:
    """(count,) numbers, or None."""
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
    return frozen(array)


def index_array(values: ArrayLike | None, count: int, name: str, what: str, *, minimum: int) -> IntArray | None:
    """(count,) whole numbers not below `minimum`, or None."""
    if values is None:
        return None
    array = whole_numbers(values, name)
    if array.shape != (count,):
        raise SkeletonError(f"{name} has shape {array.shape}, but there are {count} {what}s")
    low = np.flatnonzero(array < minimum)
    if len(low):
        raise SkeletonError(f"{name} of {what} {low[0]} is {array[low[0]]}")
    return frozen(array)


def image_size_pair(size: tuple[int, int] | None) -> tuple[int, int] | None:
    """(width, height), both positive, or None."""
    if size is None:
        return None
    try:
        width, height = (int(side) for side in size)
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError(f"image_size must be (width, height), not {size!r}") from None
    if width <= 0 or height <= 0:
        raise SkeletonError(f"image_size must be positive, not {width}×{height}")
    return width, height


def check_roots(roots: IntArray, component: IntArray) -> None:
    """At most one root a connected piece; piece (N,) the piece of each node."""
    owner: dict[int, int] = {}
    for root, where in zip(roots.tolist(), component[roots].tolist(), strict=True):
        if where in owner:
            raise SkeletonError(f"nodes {owner[where]} and {root} are both roots of one connected piece")
        owner[where] = root


def check_axes(axes: tuple[Axis, ...] | None, edge_axis: IntArray | None, nodes: int) -> None:
    """Axes and edge_axis go together, and name only what is there."""
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
            raise SkeletonError(f"axis {number} has parent {axis.parent}, which is not there")
        for node in axis.nodes:
            if not 0 <= node < nodes:
                raise SkeletonError(f"axis {number} goes through node {node}, which is not there")
    axis_orders(axes)
