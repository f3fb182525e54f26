"""Calibrated edge scores: the probability that an edge of the decoded tree is correct.

The network scores each pair of nodes by itself. A spanning tree chooses among them, so an edge that it chose is more
often correct than its score says. A logistic regression on validation images corrects the score. It has four
coefficients: an intercept, the slopes of the logit of the network's score below and above 0.5, and the slope of the
logit of the lower node score of the two ends. They belong to the weights and are stored in the model folder
(`ModelSettings.edge_calibration`).
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray
from treeformer.errors import TreeformerError

EdgeCalibration = tuple[float, float, float, float]
"""Intercept, slope below a score of 0.5, slope above it, slope of the lower node score."""

# Scores are limited to this distance from 0 and 1, so that their logits are finite.
MIN_SCORE = 1e-6
# Weight of the squared coefficients in the fit. It keeps them finite if the edges can be separated.
RIDGE = 1e-3


def calibrate(edge_score: FloatArray, node_score: FloatArray, coefficients: EdgeCalibration) -> FloatArray:
    """Return calibrated edge scores (E,): the probabilities that edges are correct.

    `edge_score` (E,) are the network's probabilities, `node_score` (E,) the lower node scores of the two ends. An edge
    score of 0 stays 0: such an edge only joins two components.

    Example:
        >>> calibrate(np.array([0.0, 0.2, 0.9]), np.array([0.9, 0.9, 0.9]), (1.0, 0.5, 1.0, 0.0)).round(2).tolist()
        [0.0, 0.58, 0.96]
    """
    logit = _features(edge_score, node_score) @ np.asarray(coefficients)
    return np.where(edge_score == 0, 0.0, np.exp(-np.logaddexp(0.0, -logit)))


def fit_calibration(
    edge_score: FloatArray, node_score: FloatArray, is_correct: BoolArray, weight: FloatArray | None = None
) -> EdgeCalibration:
    """Fit the coefficients by logistic regression to the edges of decoded trees, correct and wrong ones.

    The scores (E,) are those of `calibrate`; for `is_correct` (E,) see `treeformer.metrics.correct_edges`. `weight`
    (E,) may be the inverse of the size of each edge's set; None weights all edges equally. Slopes are at least 0, so
    that a higher score never gives a lower calibrated one.
    """
    from scipy.optimize import minimize

    if not len(is_correct) or is_correct.all() or not is_correct.any():
        raise TreeformerError("calibration needs correct and wrong edges")
    features, sign = _features(edge_score, node_score), np.where(is_correct, 1.0, -1.0)
    share = np.ones(len(sign)) if weight is None else np.asarray(weight, dtype=np.float64)
    share = share * (len(sign) / share.sum())

    def loss(coefficients: FloatArray) -> tuple[float, FloatArray]:
        margin = sign * (features @ coefficients)
        value = (share * np.logaddexp(0.0, -margin)).sum() + RIDGE * (coefficients**2).sum()
        slope = -share * sign * np.exp(-np.logaddexp(0.0, margin))
        return float(value), slope @ features + 2 * RIDGE * coefficients

    bounds = [(None, None), (0.0, None), (0.0, None), (0.0, None)]
    found = minimize(loss, np.zeros(4), jac=True, method="L-BFGS-B", bounds=bounds)
    intercept, below, above, node = (float(value) for value in found.x)
    return intercept, below, above, node


def _features(edge_score: FloatArray, node_score: FloatArray) -> FloatArray:
    """Return (E,4): 1, the negative and the positive part of the edge score's logit, and the node score's logit."""
    edge, node = _logit(edge_score), _logit(node_score)
    return np.stack([np.ones(len(edge)), np.minimum(edge, 0.0), np.maximum(edge, 0.0), node], axis=1)


def _logit(score: FloatArray) -> FloatArray:
    limited = np.clip(score, MIN_SCORE, 1 - MIN_SCORE)
    logit: FloatArray = np.log(limited / (1 - limited))
    return logit
