"""Every metric of one image, and the table of a whole set with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.errors import TreeformerError
from treeformer.metrics._inputs import GraphLike, Scores
from treeformer.metrics.smd import street_mover_distance, street_mover_distance_paper
from treeformer.metrics.structure import structure
from treeformer.metrics.topo import topo
from treeformer.metrics.topo_paper import topo_paper

Row = Mapping[str, float]

# Over a set, F1 is the harmonic mean of the mean precision and the mean recall, as in the paper; not the mean of F1s.
SCORED = ("topo", "topo_paper", "topo_paper_full", "node", "edge", "keypoint")

BOOTSTRAP_SAMPLES = 1000
CONFIDENCE = 0.95


def evaluate_pair(
    prediction: GraphLike,
    ground_truth: GraphLike,
    *,
    radius_px: float | None = None,
    image_size: tuple[int, int] | None = None,
) -> dict[str, float]:
    """All metrics of one image by name; rates (tree, exact …) are 0 or 1. Arguments as in `structure`.

    >>> line = [(0, 256), (512, 256)], [(0, 1)]
    >>> evaluate_pair(line, line, image_size=(512, 512))["topo_f1"]
    1.0
    """
    counted = structure(prediction, ground_truth, radius_px=radius_px, image_size=image_size)
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
    return row | {
        "tree_rate": float(counted.tree),
        "tree_of_edges_rate": float(counted.tree_of_edges),
        "forest_rate": float(counted.forest),
        "exact_rate": float(counted.exact),
        "length_error": counted.length_error,
        "tip_error": float(counted.tip_error),
        "branch_point_error": float(counted.branch_point_error),
    }


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over a set of images with its 95 % interval, by the bootstrap over images."""

    value: float
    low: float
    high: float


def summarize(rows: Sequence[Row], *, seed: int = 0) -> dict[str, Estimate]:
    """The figures of a set, from one row an image as `evaluate_pair` gives them; at least one row.

    Means over the images (NaN left out), except F1, which is the harmonic mean of mean precision and mean recall. The
    interval holds the middle 95 % of 1,000 sets drawn with replacement.
    """
    return {name: _estimate(values) for name, values in _drawn(rows, seed).items()}


def differences(rows: Sequence[Row], reference: Sequence[Row], *, seed: int = 0) -> dict[str, Estimate]:
    """How much higher the figures of a set are than those of another answer to the same images, in the same order.

    Both are drawn alike: what makes an image hard counts for both, so the interval is that of the difference, and much
    narrower than the two intervals of `summarize` let expect.
    """
    if len(rows) != len(reference):
        raise TreeformerError(f"{len(rows)} images cannot be compared with {len(reference)}")
    ours, theirs = _drawn(rows, seed), _drawn(reference, seed)
    return {name: _estimate(ours[name] - theirs[name]) for name in ours if name in theirs}


def _drawn(rows: Sequence[Row], seed: int) -> dict[str, FloatArray]:
    """Every figure over all images, then over each of 1,000 sets of images drawn with replacement."""
    if not rows:
        raise TreeformerError("there is no image to sum up")
    names = list(rows[0])
    table = np.asarray([[row[name] for name in names] for row in rows], dtype=np.float64)
    rng = np.random.default_rng(seed)
    # How often each image is drawn, one set a row: means of all columns are then one product.
    drawn = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=BOOTSTRAP_SAMPLES)
    return _means(table, np.vstack([np.ones((1, len(rows))), drawn]), names)


def _estimate(values: FloatArray) -> Estimate:
    """A figure and its interval from what `_drawn` gives."""
    if not np.isfinite(values[0]):
        return Estimate(*[float("nan")] * 3)
    tail = (1 - CONFIDENCE) / 2
    return Estimate(float(values[0]), *(float(bound) for bound in np.nanquantile(values[1:], (tail, 1 - tail))))


def _means(table: FloatArray, weights: FloatArray, names: Sequence[str]) -> dict[str, FloatArray]:
    """The mean of every column for each row of weights, with the F1 columns replaced."""
    known = np.isfinite(table)
    total = weights @ np.where(known, table, 0.0)
    count = weights @ known.astype(np.float64)
    mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    columns = dict(zip(names, mean.T, strict=True))
    for name in SCORED:
        if f"{name}_f1" in columns:
            precision, recall = columns[f"{name}_precision"], columns[f"{name}_recall"]
            both = precision + recall
            columns[f"{name}_f1"] = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)
    return columns
