"""Search trees of points. SciPy is imported on first use: that takes longer than to predict several images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treeformer._util.arrays import FloatArray

if TYPE_CHECKING:
    from scipy.spatial import cKDTree


def search_tree(points: FloatArray) -> cKDTree:
    """Return SciPy's search tree of points (N,2)."""
    from scipy.spatial import cKDTree

    return cKDTree(points)
