"""Plane geometry that several parts share."""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray


def project_onto_segments(points: FloatArray, begin: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find the nearest place on line segments as a fraction of their length, 0 to 1, and its distance, px.

    The shapes (...,2) are broadcast: (P,2) with (P,2) pairs each point with one segment, (P,1,2) with (S,2) compares
    all points with all segments. A segment of length 0 is a point.

    Example:
        >>> t, distance = project_onto_segments(np.array([(2.0, 3.0)]), np.array([(0.0, 0.0)]), np.array([(8.0, 0.0)]))
        >>> t.tolist(), distance.tolist()
        ([0.25], [3.0])
    """
    along = end - begin
    away = points - begin
    square = (along * along).sum(axis=-1)
    t: FloatArray = np.clip((away * along).sum(axis=-1) / np.where(square > 0, square, 1.0), 0.0, 1.0)
    away -= t[..., None] * along
    distance: FloatArray = np.hypot(away[..., 0], away[..., 1])
    return t, distance
