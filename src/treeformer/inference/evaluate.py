"""A model judged on a data set: every picture predicted, the figures those of any other prediction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from treeformer import synthetic
from treeformer._util.pools import ahead, check_workers, process_pool
from treeformer.data import FolderDataset, Sample, SkipReport, SyntheticDataset
from treeformer.data.augmentation import Picture
from treeformer.data.datasets import Dataset
from treeformer.errors import TreeformerError
from treeformer.inference.predictor import Predictor
from treeformer.metrics.report import Case, Report, evaluate_cases
from treeformer.skeleton import Skeleton

Progress = Callable[[int, int], None]


def evaluate_model(
    predictor: Predictor,
    dataset: Dataset,
    *,
    radius_px: float | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[Report, SkipReport]:
    """Predict every picture of a data set and judge what comes out.

    Args:
        radius_px: how far apart matched nodes may be.
        workers: processes that read or draw pictures, and then judge; 0 or 1: this one alone.
        progress: called with the number of pictures predicted and of all.
        options: as for `Predictor.predict_many`.

    Returns:
        The report, and the pictures that could not be read, which are not in it.
    """
    check_workers(workers)
    skipped = SkipReport(getattr(dataset, "skipped", ()))
    truths: deque[tuple[int, str, Skeleton]] = deque()  # of the pictures on their way

    def pictures() -> Iterator[Picture]:
        for index, loaded in enumerate(_loaded(dataset, workers)):
            if isinstance(loaded, Sample):
                truths.append((index, loaded.name, loaded.skeleton))
                yield loaded.image
            else:
                skipped.add(loaded)

    cases = []
    for number, prediction in enumerate(predictor.predict_many(pictures(), **options)):
        assert isinstance(prediction, Skeleton), "an array of pixels is always a picture"
        index, name, truth = truths.popleft()
        path = dataset.pairs[index][0] if isinstance(dataset, FolderDataset) else None
        cases.append(Case(name, prediction, truth, path))
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
            yield from ahead(pool, dataset.load, range(len(dataset)), 4 * workers)


def synthetic_set(name: str, count: int) -> SyntheticDataset:
    """The first `count` pictures of `PRESETS:LOOKS:SPLIT`, as `paper:photo:test` or `taproot,vine:photo,paper:valid`.

    >>> len(synthetic_set("paper:photo:test", 200))
    200
    """
    presets, looks, split = (*name.split(":"), "", "")[:3]
    split = split or "test"
    for what, given, known in (
        ("preset", presets.split(","), synthetic.PRESETS),
        ("look", looks.split(","), synthetic.LOOKS),
        ("split", [split], tuple(synthetic.SPLITS)),
    ):
        for one in given:
            if one not in known:
                raise TreeformerError(f"{name}: no {what} {one!r}: choose one of {', '.join(known)}")
    if name.count(":") > 2 or not 1 <= count <= len(synthetic.SPLITS[split]):
        raise TreeformerError(f"{name} with {count} pictures: PRESET:LOOK:SPLIT is needed, and 1 picture or more")
    return SyntheticDataset(synthetic.SPLITS[split][:count], tuple(presets.split(",")), tuple(looks.split(",")))
