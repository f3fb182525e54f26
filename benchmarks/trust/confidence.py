"""What edge scores are worth: calibration of the edges of a set, and whether doubtful images are the wrong ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeformer.metrics import correct_edges, expected_calibration_error, reliability
from treeformer.skeleton import Skeleton

DEFAULT_THRESHOLD = 0.5


def assess(pairs: Iterable[tuple[Skeleton, Skeleton]]) -> dict[str, Any]:
    """Compare scores with outcomes.

    Args:
        pairs: prediction and ground truth of each image.

    Returns:
        `edges`: number, fraction correct, calibration error, probability that a correct edge has a higher score than a
        wrong one; `bins`: mean score and fraction correct of groups of edges; `images`: of each image with a
        prediction, the mean score of its length, the fraction of its length that is wrong, and the fraction that the
        model doubts.
    """
    scores, outcomes, images = [], [], []
    for prediction, ground_truth in pairs:
        score, length = prediction.edge_score, prediction.edge_length
        if score is None or not prediction.length:
            continue
        is_correct = correct_edges(prediction, ground_truth)
        doubted = score < prediction.metadata.get("low_confidence_threshold", DEFAULT_THRESHOLD)
        shares = [float((length * part).sum() / length.sum()) for part in (score, ~is_correct, doubted)]
        images.append([round(share, 4) for share in shares])
        scores.append(score)
        outcomes.append(is_correct)
    score, outcome = (np.concatenate(parts) if parts else np.zeros(0) for parts in (scores, outcomes))
    edges = [len(score), float(outcome.mean()) if len(score) else 0.0]
    edges += [expected_calibration_error(score, outcome), order(score, outcome)]
    return {
        "edges": [None if np.isnan(value) else round(value, 4) for value in edges],
        "bins": [[round(one.score, 4), round(one.correct, 4)] for one in reliability(score, outcome)],
        "images": images,
    }


def order(score: NDArray[np.float64], is_correct: NDArray[np.bool_]) -> float:
    """Return the probability that a correct edge has a higher score than a wrong one (AUC); ties count half."""
    from scipy.stats import rankdata

    correct = np.asarray(is_correct, dtype=bool)
    right, wrong = int(correct.sum()), int((~correct).sum())
    if not right or not wrong:
        return float("nan")
    return float((rankdata(score)[correct].sum() - right * (right + 1) / 2) / (right * wrong))


def risk(images: Sequence[Sequence[float]], coverage: float) -> tuple[float, float]:
    """Return the wrong fraction of the images that remain if the least confident ones are put aside.

    Args:
        images: mean score, wrong fraction and doubted fraction of each image.
        coverage: fraction of the images to keep, 0 to 1; at least one is kept.

    Returns:
        The mean wrong fraction of the most confident images, and the least that any choice of as many images has.
        Images of equal confidence count with their mean.
    """
    table = np.asarray(images, dtype=np.float64)
    kept = max(1, round(coverage * len(table)))
    _, tie = np.unique(table[:, 0], return_inverse=True)
    wrong = (np.bincount(tie, table[:, 1]) / np.bincount(tie))[tie]
    chosen = np.argsort(-table[:, 0], kind="stable")[:kept]
    return float(wrong[chosen].mean()), float(np.sort(table[:, 1])[:kept].mean())
