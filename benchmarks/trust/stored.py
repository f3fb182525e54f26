"""Compare the stored predictions of the protocol with what was annotated, and store what the page shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.protocol.measure import path_of, stored_cases
from benchmarks.protocol.sets import STANDARD, TestSet, source_of
from benchmarks.trust import confidence, traits

from treeformer import formats
from treeformer._util.files import atomic_write
from treeformer.data.prepare import SETS as PUBLIC_SETS
from treeformer.skeleton import Skeleton

FOLDER = Path(__file__).parents[1] / "results" / "trust"
PRECISION = "int8"
SHOWN = tuple(one for one in STANDARD.values() if not one.name.endswith(" prepared") and "empty" not in one.synthetic)
"""Sets of the page: test images, none of which any model was trained on, at the size that they were published at."""


def measure(label: str, test_set: TestSet, folder: Path = FOLDER) -> Path | None:
    """Compare the stored predictions of a set with the ground truth.

    Args:
        label: of the model.
        test_set: one of `SHOWN`.
        folder: of the files to write.

    Returns:
        The file written, or None if the set has not been predicted.
    """
    cases = stored_cases(label, PRECISION, test_set)
    if cases is None:
        return None
    pairs: list[tuple[Skeleton, Skeleton]] = []
    for case in cases:
        assert isinstance(case.prediction, Skeleton)
        assert isinstance(case.ground_truth, Skeleton)
        pairs.append((case.prediction, case.ground_truth))
    measured = list(_with_annotations(test_set, [case.name for case in cases], pairs))
    document = {"images": len(cases), **traits.compare(measured), "confidence": confidence.assess(pairs)}
    path = path_of(label, PRECISION, test_set, folder)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n", encoding="utf-8")
    return path


def read(label: str, test_set: TestSet, folder: Path = FOLDER) -> dict[str, Any] | None:
    """Return what `measure` stored, or None if there is nothing.

    Args:
        label: of the model.
        test_set: one of `SHOWN`.
        folder: of the files.

    Returns:
        The document.
    """
    path = path_of(label, PRECISION, test_set, folder)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _with_annotations(
    test_set: TestSet, names: list[str], pairs: list[tuple[Skeleton, Skeleton]]
) -> Iterator[tuple[Skeleton, Skeleton]]:
    """Yield predictions with the annotation as it was published, of which traits are measured.

    `treeformer prepare` merges roots that lie on each other, which shortens the plants.
    """
    files = _annotations(test_set) if test_set.public_set else {}
    for name, (prediction, ground_truth) in zip(names, pairs, strict=True):
        file = files.get(Path(name).stem)
        if file is not None:
            annotated = formats.read(file)
            ground_truth = annotated.replace(image_size=ground_truth.image_size)
        yield prediction, ground_truth


@cache
def _annotations(test_set: TestSet) -> dict[str, Path]:
    """Return the published annotations of a set by the stems of its images."""
    images, _ = PUBLIC_SETS[test_set.public_set].find(source_of(test_set))
    return {one.image.stem: one.annotation for one in images if one.split == test_set.split}
