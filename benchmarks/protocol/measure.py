"""Measure models on the sets of the protocol: predictions first, then one row of figures per image.

Predictions and ground truth are stored as skeleton files, so that figures can be computed anew without a network.
Stored figures let a run resume, and tables need no predictions.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.protocol.sets import TestSet
from benchmarks.tables.results import columns_of

from treeformer import formats
from treeformer._util.files import atomic_write
from treeformer._util.progress import ProgressCallback
from treeformer.data import Sample
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import Precision
from treeformer.inference.evaluate import predict_cases
from treeformer.inference.predictor import Predictor
from treeformer.inference.tiles import working_scale
from treeformer.metrics.report import Case, evaluate_cases
from treeformer.skeleton import Skeleton

FOLDER = Path(__file__).parents[1] / "results" / "protocol"
CEILING = "ceiling"
PREDICTIONS = Path("data") / "protocol" / "predictions"
INDEX = "images.txt"
TRUE = ("ground-truth", "exact")


def path_of(model: str, precision: str, test_set: TestSet, folder: Path = FOLDER) -> Path:
    """Return the file of one measurement.

    Args:
        model: label of the model.
        precision: "int8" or "float32".
        test_set: one of `SETS`.
        folder: of all measurements.

    Returns:
        FOLDER/LABEL-PRECISION/SET.json.
    """
    slug = "".join(letter if letter.isalnum() else "-" for letter in test_set.name)
    return folder / f"{model}-{precision}" / f"{slug}.json"


def predict(
    predictor: Predictor,
    label: str,
    precision: Precision,
    test_set: TestSet,
    *,
    workers: int = 1,
    folder: Path = PREDICTIONS,
    progress: ProgressCallback | None = None,
) -> None:
    """Predict a set and store predictions and ground truth.

    Args:
        predictor: the model.
        label: of the model in files and tables.
        precision: of the predictor, for the name of the folder.
        test_set: one of `SETS`.
        workers: processes that draw images.
        folder: of all predictions.
        progress: called with the number of images done and of all.
    """
    options: dict[str, Any] = {} if test_set.working_size is None else {"working_size": test_set.working_size}
    cases, _ = predict_cases(predictor, test_set.open(workers), workers=workers, progress=progress, **options)
    places = [path_of(model, kind, test_set, folder).with_suffix("") for model, kind in ((label, precision), TRUE)]
    for case in cases:
        for place, skeleton in zip(places, (case.prediction, case.ground_truth), strict=True):
            formats.write(skeleton, place / _file_name(case.name))
    with atomic_write(places[0] / INDEX) as temporary:  # last: the predictions are complete
        temporary.write_text("\n".join(case.name for case in cases), encoding="utf-8")


def stored_cases(label: str, precision: str, test_set: TestSet, folder: Path = PREDICTIONS) -> list[Case] | None:
    """Return the stored predictions of a set with their ground truth.

    Args:
        label: of the model.
        precision: "int8" or "float32".
        test_set: one of `SETS`.
        folder: of all predictions.

    Returns:
        The cases in the order of the set, or None if the predictions are not there or incomplete.
    """
    place, true = (path_of(model, kind, test_set, folder).with_suffix("") for model, kind in ((label, precision), TRUE))
    if not (place / INDEX).exists():
        return None
    names = (place / INDEX).read_text(encoding="utf-8").splitlines()
    return [Case(name, formats.read(place / _file_name(name)), formats.read(true / _file_name(name))) for name in names]


def _file_name(name: str) -> str:
    return f"{Path(name).name}.json"


def measure(
    label: str,
    precision: Precision,
    test_set: TestSet,
    *,
    workers: int = 1,
    predictions: Path = PREDICTIONS,
    folder: Path = FOLDER,
) -> Path:
    """Compute the figures of a set from its stored predictions, and store them.

    Args:
        label: of the model in files and tables.
        precision: of the predictions.
        test_set: one of `SETS`.
        workers: processes that judge images.
        predictions: folder of all predictions.
        folder: of all measurements.

    Returns:
        The file written.

    Raises:
        TreeformerError: if the set has not been predicted.
    """
    cases = stored_cases(label, precision, test_set, predictions)
    if cases is None:
        raise TreeformerError(f"{test_set.name}: no predictions of {label} {precision}: predict first")
    report = evaluate_cases(cases, workers=workers)
    return _store(path_of(label, precision, test_set, folder), report.cases, report.rows)


def measure_ceiling(predictor: Predictor, test_set: TestSet, *, workers: int = 1, folder: Path = FOLDER) -> Path:
    """Judge the ground truth, with nodes where the model would place them, against itself.

    Args:
        predictor: the model, for its working size and grid.
        test_set: one of `SETS`.
        workers: processes that judge images.
        folder: of all measurements.

    Returns:
        The file written.
    """
    settings = predictor.model.config
    working = test_set.working_size or settings.working_size
    dataset = test_set.open(workers)
    cases = []
    for index in range(len(dataset)):
        loaded = dataset.load(index)
        if isinstance(loaded, Sample):
            size = (loaded.image.shape[1], loaded.image.shape[0])
            scale = working_scale(size, working, settings.input_size)
            sampled = as_sampled(loaded.skeleton, scale, settings.tile_step if test_set.resampled else 0)
            cases.append(Case(loaded.name, sampled, loaded.skeleton))
    report = evaluate_cases(cases, workers=workers)
    return _store(path_of(CEILING, "exact", test_set, folder), report.cases, report.rows)


def as_sampled(skeleton: Skeleton, scale: float, grid_px: float) -> Skeleton:
    """Return the skeleton with nodes where a network would place them.

    Args:
        skeleton: ground truth, in pixels of the original image.
        scale: working size over original size.
        grid_px: spacing of the network's grid at the working size, px; 0 keeps the nodes.

    Returns:
        The skeleton in pixels of the original image.
    """
    plain = skeleton.with_inferred_axes
    if grid_px <= 1:
        return plain
    there = plain.transform([[scale, 0, 0], [0, scale, 0]], image_size=skeleton.image_size)
    sampled = there.sample_at_grid_crossings(grid_px)
    return sampled.transform([[1 / scale, 0, 0], [0, 1 / scale, 0]], image_size=skeleton.image_size)


def _store(path: Path, cases: Any, rows: Any) -> Path:
    columns = columns_of(rows)
    document = {"images": [case.name for case in cases], **_counts(cases), "columns": columns}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
    return path


def _counts(cases: Any) -> dict[str, list[list[float]]]:
    """Plants and length (px) per image: predicted, then annotated."""
    pairs = [(case.prediction, case.ground_truth) for case in cases]
    return {
        "plants": [[len(one.roots) for one in pair] for pair in pairs],
        "length_px": [[round(one.length, 1) for one in pair] for pair in pairs],
    }


def read(path: Path) -> list[dict[str, float]]:
    """Return the stored rows of a measurement, F1 included."""
    document = json.loads(path.read_text(encoding="utf-8"))
    columns = document["columns"]
    count = len(next(iter(columns.values())))
    rows = [
        {name: math.nan if values[k] is None else float(values[k]) for name, values in columns.items()}
        for k in range(count)
    ]
    for row, (predicted, annotated) in zip(rows, document["length_px"], strict=True):
        row |= {f"{stem}_f1": math.nan for stem in ("topo", "topo_paper")}  # of the means, by `summarize`
        row |= {"predicted_px": predicted, "annotated_px": annotated}
    return rows
