"""Evaluate a model on a data set: predict every image and compare it with the ground truth."""

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
from treeformer.data.sample import Dataset
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
    """Predict every image of a data set and compare the skeletons with the ground truth.

    The report does not contain the images that could not be read. `radius_px` is the largest distance between matched
    nodes; None uses the default of the metrics. 0 and 1 workers run everything in the calling process, more processes
    read or generate images and then compute the metrics. `progress` counts predicted images. `options` are keyword
    arguments of `Predictor.predict_many`.
    """
    cases, skipped = predict_cases(predictor, dataset, workers=workers, progress=progress, **options)
    return evaluate_cases(cases, radius_px=radius_px, workers=workers), skipped


def predict_cases(
    predictor: Predictor,
    dataset: Dataset,
    *,
    workers: int = 1,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> tuple[list[Case], SkipReport]:
    """Predict every image of a data set; return the cases and the images that could not be read.

    The arguments are those of `evaluate_model`.
    """
    check_workers(workers)
    skipped = SkipReport(getattr(dataset, "skipped", ()))
    in_flight: deque[tuple[int, str, Skeleton]] = deque()  # index, name and ground truth of images being predicted

    def images() -> Iterator[ImageArray]:
        for index, loaded in enumerate(_load_all(dataset, workers)):
            if isinstance(loaded, Sample):
                in_flight.append((index, loaded.name, loaded.skeleton))
                yield loaded.image
            else:
                skipped.add(loaded)

    cases = []
    for number, prediction in enumerate(predictor.predict_many(images(), **options)):
        assert isinstance(prediction, Skeleton), "only images from files can fail to open"
        index, name, ground_truth = in_flight.popleft()
        path = dataset.pairs[index][0] if isinstance(dataset, FolderDataset) else None
        cases.append(Case(name, prediction, ground_truth, path))
        if progress is not None:
            progress(number + 1, len(dataset) - len(skipped))
    return cases, skipped


def _load_all(dataset: Dataset, workers: int) -> Iterator[Any]:
    """Yield `dataset.load(index)` for every index, in order."""
    with ExitStack() as stack:
        if workers <= 1:
            yield from map(dataset.load, range(len(dataset)))
        else:
            pool = stack.enter_context(process_pool(workers))
            yield from prefetch_map(pool, dataset.load, range(len(dataset)), 4 * workers)


def synthetic_set(name: str, count: int) -> SyntheticDataset:
    """Return the first `count` images of a synthetic data set from its name `PRESETS:STYLES:SPLIT`.

    For example `paper:photo:test`, or `taproot,vine:photo,paper:valid` for a mixture. The split is `test` if it is left
    out. Images are generated when they are accessed.

    Example:
        >>> len(synthetic_set("paper:photo:test", 200))
        200
    """
    presets, styles, split = (*name.split(":"), "", "")[:3]
    split = split or "test"
    for what, chosen, known in (
        ("preset", presets.split(","), synthetic.PRESETS),
        ("style", styles.split(","), synthetic.STYLES),
        ("split", [split], tuple(synthetic.SPLITS)),
    ):
        for value in chosen:
            if value not in known:
                raise TreeformerError(f"{name}: unknown {what} {value!r}: choose one of {', '.join(known)}")
    if name.count(":") > 2:
        raise TreeformerError(f"{name}: too many parts: write PRESET:STYLE:SPLIT")
    available = len(synthetic.SPLITS[split])
    if not 1 <= count <= available:
        raise TreeformerError(f"{name}: the number of images must be between 1 and {available}, not {count}")
    return SyntheticDataset(synthetic.SPLITS[split][:count], tuple(presets.split(",")), tuple(styles.split(",")))
