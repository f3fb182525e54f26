"""Ragged lists stored in one array: list n occupies the entries start[n] to start[n + 1]."""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import IntArray


def offsets(sizes: IntArray) -> IntArray:
    """Return the (N+1,) start offsets of N lists of the given sizes, and the end of the last list."""
    return np.concatenate([[0], np.cumsum(sizes)])


def slots(start: IntArray, which: IntArray) -> tuple[IntArray, IntArray]:
    """Enumerate the entries of the lists `which` (K,), one list after another, given the offsets (N+1,) of all lists.

    For each entry, return the position in `which` of its list, and the entry's index in the array.

    Example:
        >>> source, slot = slots(np.array([0, 2, 5]), np.array([1, 0]))
        >>> source.tolist(), slot.tolist()
        ([0, 0, 0, 1, 1], [2, 3, 4, 0, 1])
    """
    begin = start[which]
    size = start[which + 1] - begin
    source = np.repeat(np.arange(len(which)), size)
    return source, np.arange(len(source)) + (begin - np.cumsum(size) + size)[source]
