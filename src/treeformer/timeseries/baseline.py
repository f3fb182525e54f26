"""Baseline: match axes from one date to the next by the nearest path, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeformer._util.arrays import IntArray
from treeformer.timeseries.paths import Paths, path_distances


def nearest_tracks(dates: Sequence[Paths], tolerance_px: float) -> list[IntArray]:
    """Return the identity of each axis (A,) per date: that of the nearest axis of the date before, otherwise a new one.

    Pairs are taken greedily, the nearest first. The distance is the mean distance of the earlier axis from the later
    one, plus the distance of their bases. Pairs farther apart than three times the tolerance are not matched.
    """
    limit = 3 * tolerance_px
    result: list[IntArray] = []
    count = 0
    before: Paths | None = None
    for paths in dates:
        ids = np.full(len(paths), -1, dtype=np.intp)
        if before is not None and len(before) and len(paths):
            distance = path_distances(before, paths, 2 * limit)
            distance = distance + np.hypot(*(before.bases[:, None] - paths.bases[None]).transpose(2, 0, 1))
            taken: set[int] = set()
            for flat in np.argsort(distance, axis=None, kind="stable").tolist():
                i, j = divmod(flat, len(paths))
                if distance[i, j] > limit:
                    break
                if ids[j] < 0 and i not in taken:
                    ids[j] = result[-1][i]
                    taken.add(i)
        new = np.flatnonzero(ids < 0)
        ids[new] = np.arange(count, count + len(new))
        count += len(new)
        result.append(ids)
        before = paths
    return result
