"""All metrics of one image, and the summary of a data set with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import FloatArray
from treeformer._util.text import short_repr
from treeformer.errors import TreeformerError
from treeformer.metrics._inputs import GraphLike, Scores, pair
from treeformer.metrics.keypoints import KINDS, Counts, keypoints
from treeformer.metrics.line import line_distance
from treeformer.metrics.smd import street_mover_distance, street_mover_distance_paper
from treeformer.metrics.structure import structure
from treeformer.metrics.topo import topo
from treeformer.metrics.topo_paper import topo_paper

Row = Mapping[str, float]
"""The metrics of one image by name, as returned by `evaluate_pair`."""

# Over a data set, F1 is the harmonic mean of mean precision and mean recall, as in the paper, not the mean of F1s.
SCORED = ("topo", "topo_paper", "topo_paper_full", "node", "edge", "keypoint", *KINDS)
COUNTED = ("matched", "predicted", "true")

BOOTSTRAP_SAMPLES = 1000
CONFIDENCE = 0.95


def evaluate_pair(
    prediction: GraphLike,
    ground_truth: GraphLike,
    *,
    radius_px: float | None = None,
    image_size: tuple[int, int] | None = None,
) -> dict[str, float]:
    """Compute all metrics of one image.

    Args:
        prediction: a Skeleton, or arrays (nodes, edges) with nodes in px.
        ground_truth: the same for the ground truth.
        radius_px: maximum distance of matched nodes, px; 8/512 of the image's longer side by default.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.

    Returns:
        The metrics by name. Rates (`tree_rate`, `exact_rate`, …) are 0 or 1.

    Raises:
        SkeletonError: if a graph is invalid, or the image size is missing or ambiguous.

    Example:
        >>> line = [(0, 256), (512, 256)], [(0, 1)]
        >>> evaluate_pair(line, line, image_size=(512, 512))["topo_f1"]
        1.0
    """
    counted = structure(prediction, ground_truth, radius_px=radius_px, image_size=image_size)
    points = keypoints(prediction, ground_truth, radius_px=radius_px, image_size=image_size)
    row = {
        "smd": street_mover_distance(prediction, ground_truth, image_size=image_size),
        "smd_paper": street_mover_distance_paper(prediction, ground_truth, image_size=image_size),
    }
    scores: dict[str, Scores] = {
        "topo": topo(prediction, ground_truth, image_size=image_size),
        "topo_paper": topo_paper(prediction, ground_truth, image_size=image_size),
        "topo_paper_full": topo_paper(prediction, ground_truth, keypoints=False, image_size=image_size),
        "node": counted.nodes,
        "edge": counted.edges,
        "keypoint": counted.keypoints,
    }
    for name, value in scores.items():
        row |= {f"{name}_precision": value.precision, f"{name}_recall": value.recall, f"{name}_f1": value.f1}
    for kind in KINDS:
        counts: Counts = getattr(points, kind)
        row |= {f"{kind}_{name}": float(getattr(counts, name)) for name in COUNTED}
        row |= {f"{kind}_precision": counts.precision, f"{kind}_recall": counts.recall, f"{kind}_f1": counts.f1}
    _, _, size = pair(prediction, ground_truth, image_size)
    for name, ends in (("predicted", (prediction, ground_truth)), ("true", (ground_truth, prediction))):
        line = line_distance(*ends, image_size=size)
        row[f"{name}_line_within"] = line.within
        for part, distance in (("median", line.median), ("p95", line.p95), ("near_p95", line.near_p95)):
            row |= {f"{name}_line_{part}_px": distance, f"{name}_line_{part}": distance / max(size)}
    return row | {
        "tree_rate": float(counted.tree),
        "tree_of_edges_rate": float(counted.tree_of_edges),
        "forest_rate": float(counted.forest),
        "exact_rate": float(counted.exact),
        "length_error": counted.length_error,
    }


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric over a data set with its 95 % confidence interval, from a bootstrap over images.

    Attributes:
        value: the metric over all images.
        low: lower end of the interval.
        high: upper end of the interval.
        median: median of the images, or of their differences, which a single absurd image cannot move far.
    """

    value: float
    low: float
    high: float
    median: float = float("nan")


def summarize(rows: Sequence[Row], *, seed: int = 0) -> dict[str, Estimate]:
    """Summarize the metrics of a data set.

    Metrics are averaged over images; NaN values are ignored. F1 is the harmonic mean of mean precision and mean recall,
    or the mean if the rows lack one of them. Precision and recall of tips, branch points and bases are those of all
    points of the data set together, so an image with many of them counts more. The interval contains the middle 95 % of
    1,000 bootstrap samples.

    Args:
        rows: one row per image, as returned by `evaluate_pair`; at least one.
        seed: seed of the bootstrap.

    Returns:
        An estimate per metric.

    Raises:
        TreeformerError: if there are no rows, they differ in their metrics, or a value is not a number.

    Example:
        >>> summarize([{"smd": 0.25}, {"smd": 0.75}])["smd"].value
        0.5
    """
    images = _columns(rows)
    return {name: _estimate(values, images.get(name)) for name, values in _resample(rows, seed).items()}


def mean_metrics(rows: Sequence[Row]) -> Row:
    """Return the values of `summarize` without their intervals, which take most of its time.

    Args:
        rows: one row per image, as returned by `evaluate_pair`; at least one.

    Returns:
        One value per metric.

    Raises:
        TreeformerError: if there are no rows, they differ in their metrics, or a value is not a number.

    Example:
        >>> mean_metrics([{"smd": 0.25}, {"smd": 0.75}])
        {'smd': 0.5}
    """
    names, table = _table(rows)
    return {name: float(value[0]) for name, value in _means(table, np.ones((1, len(rows))), names).items()}


def differences(rows: Sequence[Row], reference: Sequence[Row], *, seed: int = 0) -> dict[str, Estimate]:
    """Estimate how much higher the metrics of one method are than those of another method on the same images.

    Paired bootstrap: both sets are resampled together, so the interval is narrower than the two separate intervals of
    `summarize` suggest.

    Args:
        rows: one row per image, as returned by `evaluate_pair`.
        reference: rows of the other method, for the same images in the same order.
        seed: seed of the bootstrap.

    Returns:
        An estimate of `rows` minus `reference` per metric that both have.

    Raises:
        TreeformerError: if there are no rows, rows differ in their metrics, a value is not a number, or the numbers of
            rows differ.
    """
    _check_rows(rows)
    _check_rows(reference)
    if len(rows) != len(reference):
        raise TreeformerError(f"{len(rows)} images cannot be compared with {len(reference)}")
    values, reference_values = _resample(rows, seed), _resample(reference, seed)
    images, reference_images = _columns(rows), _columns(reference)
    changes = {name: images[name] - reference_images[name] for name in images if name in reference_images}
    return {
        name: _estimate(values[name] - reference_values[name], changes.get(name))
        for name in values
        if name in reference_values
    }


def _resample(rows: Sequence[Row], seed: int) -> dict[str, FloatArray]:
    """Return each metric over all images, followed by its values over the bootstrap samples."""
    names, table = _table(rows)
    # One matrix product gives the means of all samples.
    return _means(table, np.vstack([np.ones((1, len(rows))), _sample_counts(len(rows), seed)]), names)


@lru_cache(maxsize=1)  # drawing them takes longer than all else, and one set is often compared with others
def _sample_counts(images: int, seed: int) -> NDArray[np.uint16]:
    """Return how often each bootstrap sample draws each image, one row per sample."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(images, np.full(images, 1 / images), size=BOOTSTRAP_SAMPLES).astype(np.uint16)


def _check_rows(rows: object) -> None:
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise TreeformerError("rows must be a list with one dictionary of numbers per image, as of evaluate_pair")


def _table(rows: Sequence[Row]) -> tuple[list[str], FloatArray]:
    """Return the names of the metrics, and one row of values per image."""
    _check_rows(rows)
    if not rows:
        raise TreeformerError("there are no images to summarize")
    names = list(rows[0])
    for number, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            name = next(name for name in [*names, *row] if name not in row or name not in rows[0])
            without = number if name in rows[0] else 0
            raise TreeformerError(f"all rows must have the same metrics, but row {without} has no {name!r}")
        for name, value in row.items():
            if not isinstance(value, int | float | np.number | np.bool_ | None):  # None: NaN in report.json
                raise TreeformerError(f"row {number}: {name} must be a number, not {short_repr(value)}")
    return names, np.asarray([[row[name] for name in names] for row in rows], dtype=np.float64)


def _columns(rows: Sequence[Row]) -> dict[str, FloatArray]:
    """Return the values of all images by metric."""
    names, table = _table(rows)
    return dict(zip(names, table.T, strict=True))


def _estimate(values: FloatArray, images: FloatArray | None) -> Estimate:
    """Convert the result of `_resample` for one metric, and its values of all images, to an estimate."""
    if not np.isfinite(values[0]):
        return Estimate(*[float("nan")] * 3)
    tail = (1 - CONFIDENCE) / 2
    known = values[1:][~np.isnan(values[1:])]  # np.nanquantile does the same at a tenth of the speed
    low, high = np.quantile(known, (tail, 1 - tail)).tolist()
    finite = images[np.isfinite(images)] if images is not None else known[:0]
    return Estimate(float(values[0]), low, high, float(np.median(finite)) if len(finite) else float("nan"))


def _means(table: FloatArray, weights: FloatArray, names: Sequence[str]) -> dict[str, FloatArray]:
    """Return the weighted mean of every column for each row of weights. Scores that have counts, and F1, follow."""
    known = np.isfinite(table)
    total = weights @ np.where(known, table, 0.0)
    count = weights @ known.astype(np.float64)
    mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    columns = dict(zip(names, mean.T, strict=True))
    for kind in KINDS:
        if {f"{kind}_{name}" for name in COUNTED} <= columns.keys():
            matched, predicted, true = (columns[f"{kind}_{name}"] for name in COUNTED)
            for name, of, other in (("precision", predicted, true), ("recall", true, predicted)):
                columns[f"{kind}_{name}"] = np.divide(matched, of, out=np.where(other > 0, 0.0, 1.0), where=of > 0)
            columns[f"{kind}_f1"] = np.full_like(matched, np.nan)
    for name in SCORED:
        if {f"{name}_f1", f"{name}_precision", f"{name}_recall"} <= columns.keys():
            precision, recall = columns[f"{name}_precision"], columns[f"{name}_recall"]
            both = precision + recall
            without = np.where(np.isnan(both), np.nan, 0.0)  # the F1 if both are 0, or one is unknown
            columns[f"{name}_f1"] = np.divide(2 * precision * recall, both, out=without, where=both > 0)
    return columns
