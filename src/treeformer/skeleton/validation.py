"""Checks behind `Skeleton(...)`: convert each argument to a read-only array, or raise a one-line `SkeletonError`.

In error messages, `name` is the name of the argument and `item` what a value belongs to, "node" or "edge". `count` is
the number of these items.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeformer._util.arrays import FloatArray, IntArray
from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.skeleton.axes import Axis, Plant

MAX_PX = 1e7
"""Greatest coordinate, radius and image side, px; far beyond any image, small enough for exact arithmetic."""

AnyArray = TypeVar("AnyArray", bound=NDArray[np.generic])


def frozen(array: AnyArray) -> AnyArray:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def real_array(values: ArrayLike) -> FloatArray:
    """Return a copy as real numbers. Reject text, complex numbers and dates, which NumPy would convert.

    Errors are ValueError, or TypeError and OverflowError of NumPy.
    """
    array = np.array(values)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"an array of {array.dtype}")
    return array.astype(np.float64)


def node_array(nodes: ArrayLike) -> FloatArray:
    """Return node coordinates as an (N,2) array, px, of finite numbers up to `MAX_PX`."""
    try:
        points = real_array(nodes)
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError("nodes must be an array of N×2 numbers") from None
    if points.shape == (0,):
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
    """Return coordinates that need not be nodes as a finite array (2,) or (M,2), px."""
    try:
        array = real_array(points)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.ndim > 2 or array.shape[-1:] != (2,) or not np.isfinite(array).all():
        raise SkeletonError("points must be two finite numbers, or an array of M×2 of them")
    return array


def fraction_array(values: ArrayLike, count: int, name: str) -> FloatArray:
    """Return one number from 0 to 1 per node (N,), given as one for all nodes or one each."""
    try:
        fractions = real_array(values)
    except (TypeError, ValueError, OverflowError):
        fractions = np.full((), math.nan)
    if fractions.shape not in ((), (count,)) or not ((fractions >= 0) & (fractions <= 1)).all():
        raise SkeletonError(f"{name} must be between 0 and 1, either one number or one number per node")
    return np.broadcast_to(fractions, count)


def positive_spacing(spacing_px: float) -> float:
    """Return a positive, finite distance between nodes as a float, px."""
    try:
        spacing = float(spacing_px)
    except (TypeError, ValueError, OverflowError):
        spacing = math.nan
    if not (math.isfinite(spacing) and spacing > 0):
        raise SkeletonError(f"spacing must be a positive number of pixels, not {short_repr(spacing_px)}")
    return spacing


def integer_array(values: ArrayLike, name: str) -> IntArray:
    """Return integers of any shape, given as integers or as floats without a fraction."""
    try:
        array = np.array(values)
        if array.size and array.dtype.kind != "i":
            # A mask would be read as the indices 0 and 1.
            as_float = np.full((), math.nan) if array.dtype.kind == "b" else real_array(array)
            if not (as_float == np.floor(as_float)).all() or not (np.abs(as_float) < 2**53).all():
                raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError(f"{name} must be whole numbers") from None
    return array.astype(np.intp)


def edge_array(edges: ArrayLike, count: int) -> IntArray:
    """Return edges as an (E,2) array of node indices, without loops and duplicates."""
    pairs = integer_array(edges, "edges")
    if pairs.shape == (0,):
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
    """Return one root, several or None as a sorted array (R,)."""
    if root is None:
        return frozen(np.zeros(0, dtype=np.intp))
    given: Any = list(root) if isinstance(root, Iterable) and not isinstance(root, np.ndarray | str) else root
    values = np.atleast_1d(integer_array(given, "roots"))
    if values.ndim != 1:
        raise SkeletonError(f"roots must be one node index or a list of them, not an array of shape {values.shape}")
    roots = np.unique(values)
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
    """Return one number per node or edge within limits, (count,), or None."""
    if values is None:
        return None
    try:
        array = real_array(values)
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
    """Return one index per node or edge, at least `minimum`, (count,), or None."""
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
    """Return (width, height) in px as two positive integers up to `MAX_PX`, or None."""
    if size is None:
        return None
    try:
        width, height = (int(side) for side in size)
        if isinstance(size, str) or [width, height] != list(size):  # text, or a fraction of a pixel
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError(f"image_size must be (width, height), not {short_repr(size)}") from None
    if width <= 0 or height <= 0:
        raise SkeletonError(f"image_size must be positive, not {short_repr(width)}×{short_repr(height)}")
    if max(width, height) > MAX_PX:
        raise SkeletonError(f"image_size has {short_repr(max(width, height))} px, more than {MAX_PX:,.0f}")
    return width, height


def record_tuple(records: Iterable[Any], kind: type, name: str) -> tuple[Any, ...]:
    """Return the records of axes or plants as a tuple."""
    found = tuple(records) if isinstance(records, Iterable) else (records,)
    for record in found:
        if not isinstance(record, kind):
            raise SkeletonError(f"{name} must be a list of {kind.__name__}, not of {short_repr(record)}")
    return found


def file_name(name: str | os.PathLike[str] | None) -> str | None:
    """Return the name of an image as text."""
    if isinstance(name, os.PathLike):
        name = os.fspath(name)
    if name is not None and not isinstance(name, str):
        raise SkeletonError(f"image_name must be text, not {short_repr(name)}")
    return name


def read_only_metadata(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a read-only copy of metadata that cannot change later."""
    if metadata is not None and not isinstance(metadata, Mapping):
        raise SkeletonError(f"metadata must be a mapping, not {short_repr(metadata)}")
    try:
        return MappingProxyType(copy.deepcopy(dict(metadata or {})))
    except (TypeError, RecursionError) as error:
        raise SkeletonError(f"metadata cannot be copied ({error})") from None


_CHECKS: dict[str, Callable[[Any, int, int], Any]] = {
    "radius": lambda values, nodes, _: value_array(
        values, nodes, "radius", "node", allow_nan=True, minimum=0.0, maximum=MAX_PX
    ),
    "node_score": lambda values, nodes, _: value_array(values, nodes, "node_score", "node"),
    "edge_score": lambda values, _, edges: value_array(values, edges, "edge_score", "edge"),
    "plant": lambda values, nodes, _: index_array(values, nodes, "plant", "node", minimum=0),
    "plant_records": lambda records, *_: record_tuple(records, Plant, "plant_records"),
    "image_size": lambda size, *_: image_size_pair(size),
    "image_name": lambda name, *_: file_name(name),
    "metadata": lambda metadata, *_: read_only_metadata(metadata),
    "axes": lambda axes, *_: None if axes is None else record_tuple(axes, Axis, "axes"),
    "edge_axis": lambda values, _, edges: index_array(values, edges, "edge_axis", "edge", minimum=-1),
}
ATTRIBUTES = frozenset(_CHECKS)
"""The arguments of a Skeleton other than its nodes, edges and roots."""


def checked_attributes(values: Mapping[str, Any], node_count: int, edge_count: int) -> dict[str, Any]:
    """Validate some of `ATTRIBUTES`. Whether `axes` and `edge_axis` fit together is for `axes.check_axes` to find out.

    The values are returned by the names of a Skeleton's fields: those of axes begin with an underscore.
    """
    checked = {name: _CHECKS[name](value, node_count, edge_count) for name, value in values.items()}
    return {f"_{name}" if name in ("axes", "edge_axis") else name: value for name, value in checked.items()}


def check_roots(roots: IntArray, component: IntArray) -> None:
    """Raise `SkeletonError` if two roots (R,) are in one component of the nodes (N,)."""
    root_of_component: dict[int, int] = {}
    for root, index in zip(roots.tolist(), component[roots].tolist(), strict=True):
        if index in root_of_component:
            first = root_of_component[index]
            raise SkeletonError(f"nodes {first} and {root} are both roots of one connected component")
        root_of_component[index] = root
