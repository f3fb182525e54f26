"""`treeformer prepare`: public sets turned into folder data sets, one file a set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from treeformer._util.pools import check_workers
from treeformer._util.progress import ProgressCallback, no_progress
from treeformer.data.prepare.barley_roots import BARLEY_ROOTS
from treeformer.data.prepare.branch_trees import BRANCH_TREES
from treeformer.data.prepare.osr_roots import OSR_ROOTS
from treeformer.data.prepare.public_set import PrepareReport, PublicSet
from treeformer.data.prepare.run import PrepareOptions, run
from treeformer.data.prepare.single_guyot import SINGLE_GUYOT
from treeformer.errors import TreeformerError

__all__ = ["SETS", "PrepareReport", "PublicSet", "prepare"]

SETS: Mapping[str, PublicSet] = MappingProxyType(
    {one.name: one for one in (OSR_ROOTS, BARLEY_ROOTS, BRANCH_TREES, SINGLE_GUYOT)}
)


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
    """Turn a public set into a folder data set with the splits `train`, `valid` and `test`, and `report.txt`.

    Images are scaled down, laterals snapped to their parents, nodes spread evenly; what could not be used, and
    what was changed, is in the report. Writing again into the same folder with the same choices is allowed.

    Args:
        name: one of `SETS`.
        source: the folder of the public set, as it is published.
        out: the new folder.
        size: the longer side of an image, px; None for the set's own. A smaller image is not enlarged.
        spacing_px: of the nodes, at that scale; 0 keeps those of the annotation, None is the set's own.
        one_image_per_plant: crop one image per plant instead of keeping whole images with all their plants.
        merge_overlaps: let roots that are drawn over each other share the line.
        workers: processes; 0 and 1 are this one alone. A script that asks for more needs the usual
            `if __name__ == "__main__":`.
        progress: called with the number of images done and the number in all.
    """
    if name not in SETS:
        raise TreeformerError(f"no public set {name!r}: choose one of {', '.join(SETS)}")
    check_workers(workers)
    public_set = SETS[name]
    options = PrepareOptions(
        size=public_set.size if size is None else size,
        spacing_px=public_set.spacing_px if spacing_px is None else float(spacing_px),
        one_image_per_plant=one_image_per_plant,
        merge_overlaps=merge_overlaps,
    )
    return run(public_set, Path(source), Path(out), options, workers, progress)
