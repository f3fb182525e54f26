"""Lists of different lengths, laid end to end: list n is start[n] to start[n + 1] of an array."""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import IntArray


def offsets(sizes: IntArray) -> IntArray:
    """(N+1,) where lists of these sizes begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def slots(start: IntArray, which: IntArray) -> tuple[IntArray, IntArray]:
    """The places of all entries of these lists, one list after another, and which of the lists each belongs to."""
    begin = start[which]
    size = start[which + 1] - begin
    source = np.repeat(np.arange(len(which)), size)
    return source, np.arange(len(source)) + (begin - np.cumsum(size) + size)[source]
