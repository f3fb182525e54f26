"""A model judged on a data set: every image predicted, the figures those of any other prediction."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from treeformer import synthetic
from treeformer._util.arrays import ImageArray
from treeformer._util.pools import check_workers, prefetch_map, process_pool
from treeformer._util.progress import ProgressCallback
from treeformer.data import FolderDataset, Sample, SkipReport, SyntheticDataset
from treeformer.data.datasets import Dataset
from treeformer.errors import TreeformerError
from treeformer.inference.predictor import Predictor
from treeformer.metrics.report import Case, Report, evaluate_cases
from treeformer.skeleton import Skeleton


def evaluate_model(
    predictor: Predictor,
    dataset: Dataset,
    *,
    radius_px: float | None = None,
    workers: int = 1,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> tuple[Report, SkipReport]:
    """Predict every image of a data set and judge what comes out.

    Args:
        radius_px: how far apart matched nodes may be.
        workers: processes that read or draw images, and then judge; 0 or 1: this one alone.
        progress: called with the number of images predicted and of all.
        options: as for `Predictor.predict_many`.

    Returns:
        The report, and the images that could not be read, which are not in it.
    """
    check_workers(workers)
    skipped = SkipReport(getattr(dataset, "skipped", ()))
    ground_truths: deque[tuple[int, str, Skeleton]] = deque()  # of the images on their way

    def images() -> Iterator[ImageArray]:
        for index, loaded in enumerate(_loaded(dataset, workers)):
            if isinstance(loaded, Sample):
                ground_truths.append((index, loaded.name, loaded.skeleton))
                yield loaded.image
            else:
                skipped.add(loaded)

    cases = []
    for number, prediction in enumerate(predictor.predict_many(images(), **options)):
        assert isinstance(prediction, Skeleton), "an array of pixels is always an image"
        index, name, ground_truth = ground_truths.popleft()
        path = dataset.pairs[index][0] if isinstance(dataset, FolderDataset) else None
        cases.append(Case(name, prediction, ground_truth, path))
        if progress is not None:
            progress(number + 1, len(dataset) - len(skipped))
    return evaluate_cases(cases, radius_px=radius_px, workers=workers), skipped


def _loaded(dataset: Dataset, workers: int) -> Iterator[Any]:
    """What `dataset.load` gives for each index, in order."""
    with ExitStack() as stack:
        if workers <= 1:
            yield from map(dataset.load, range(len(dataset)))
        else:
            pool = stack.enter_context(process_pool(workers))
            yield from prefetch_map(pool, dataset.load, range(len(dataset)), 4 * workers)


def synthetic_set(name: str, count: int) -> SyntheticDataset:
    """The first `count` images of `PRESETS:STYLES:SPLIT`, as `paper:photo:test` or `taproot,vine:photo,paper:valid`.

    >>> len(synthetic_set("paper:photo:test", 200))
    200
    """
    presets, styles, split = (*name.split(":"), "", "")[:3]
    split = split or "test"
    for what, given, known in (
        ("preset", presets.split(","), synthetic.PRESETS),
        ("style", styles.split(","), synthetic.STYLES),
        ("split", [split], tuple(synthetic.SPLITS)),
    ):
        for one in given:
            if one not in known:
                raise TreeformerError(f"{name}: no {what} {one!r}: choose one of {', '.join(known)}")
    if name.count(":") > 2 or not 1 <= count <= len(synthetic.SPLITS[split]):
        raise TreeformerError(f"{name} with {count} images: PRESET:STYLE:SPLIT is needed, and 1 image or more")
    return SyntheticDataset(synthetic.SPLITS[split][:count], tuple(presets.split(",")), tuple(styles.split(",")))
