"""`treeformer prepare`: convert public data sets to folder data sets, with one module per data set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from treeformer._util.pools import check_workers
from treeformer._util.progress import ProgressCallback, no_progress
from treeformer.data.prepare.backgrounds import BACKGROUNDS
from treeformer.data.prepare.barley_roots import BARLEY_ROOTS
from treeformer.data.prepare.branch_trees import BRANCH_TREES
from treeformer.data.prepare.osr_roots import OSR_ROOTS
from treeformer.data.prepare.public_set import PrepareReport, PublicSet
from treeformer.data.prepare.run import PrepareOptions, run
from treeformer.data.prepare.single_guyot import SINGLE_GUYOT
from treeformer.errors import TreeformerError

__all__ = ["SETS", "PrepareReport", "PublicSet", "prepare"]

SETS: Mapping[str, PublicSet] = MappingProxyType(
    {public_set.name: public_set for public_set in (OSR_ROOTS, BARLEY_ROOTS, BRANCH_TREES, SINGLE_GUYOT, BACKGROUNDS)}
)
"""The supported public data sets by name."""


def prepare(
    name: str,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    size: int | None = None,
    spacing_px: float | None = None,
    one_image_per_plant: bool = False,
    merge_overlaps: bool = True,
    workers: int = 1,
    progress: ProgressCallback = no_progress,
) -> PrepareReport:
    """Convert a public data set to a folder data set with the splits `train`, `valid` and `test`, and `report.txt`.

    Images are scaled down, laterals are snapped to their parents, and branches are resampled at even spacing. The
    report lists everything that was dropped or changed. The folder may exist if it was written with the same settings.

    Args:
        name: one of `SETS`.
        source: the folder of the public data set, as published.
        out: the folder to write to.
        size: longer side of the prepared images, px; None uses the default of the data set. Smaller images are not
            enlarged.
        spacing_px: node spacing in the prepared images, px; 0 keeps the annotated nodes, None uses the default of the
            data set.
        one_image_per_plant: write one cropped image per plant instead of whole images.
        merge_overlaps: merge roots that are drawn on top of each other.
        workers: number of processes; 0 and 1 run everything in the calling process. A script that uses more needs
            `if __name__ == "__main__":`.
        progress: called with the number of finished images and the total number.

    Returns:
        Counts, and notes on everything that was dropped or changed.

    Raises:
        TreeformerError: if an argument is invalid, the source has no usable image, or its splits leak.
    """
    if name not in SETS:
        raise TreeformerError(f"no public data set {name!r}: choose one of {', '.join(SETS)}")
    check_workers(workers)
    public_set = SETS[name]
    options = PrepareOptions(
        size=public_set.size if size is None else size,
        spacing_px=public_set.spacing_px if spacing_px is None else float(spacing_px),
        one_image_per_plant=one_image_per_plant,
        merge_overlaps=merge_overlaps,
    )
    return run(public_set, Path(source), Path(out), options, workers, progress)
