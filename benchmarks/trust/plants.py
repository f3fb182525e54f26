"""Which predicted plant is which true plant: those that share most of their lines."""

from __future__ import annotations

import numpy as np

from treeformer.metrics import line_distance
from treeformer.skeleton import Skeleton

# Plants that share a smaller part of their lengths only cross.
MIN_SHARED = 0.1


def match_plants(prediction: Skeleton, ground_truth: Skeleton) -> list[tuple[int, int]]:
    """Match plants one to one so that the matched ones share as much length as possible.

    Two plants share the length of each that lies near the other, within the gate of `line_distance`.

    Args:
        prediction: the predicted plants, with an image size.
        ground_truth: the true plants of the same image.

    Returns:
        Pairs of indices into `prediction.plants` and `ground_truth.plants`.
    """
    from scipy.optimize import linear_sum_assignment

    found, true = prediction.plants, ground_truth.plants
    shared = np.array([[_shared(one, other) for other in true] for one in found]).reshape(len(found), len(true))
    total = np.array([[one.length + other.length for other in true] for one in found]).reshape(shared.shape)
    pairs = zip(*linear_sum_assignment(-shared), strict=True)
    return [(int(i), int(j)) for i, j in pairs if shared[i, j] > 0 and shared[i, j] >= MIN_SHARED * total[i, j]]


def _shared(one: Skeleton, other: Skeleton) -> float:
    ends = ((one, other), (other, one))
    return sum(line_distance(a, b).within * a.length for a, b in ends if a.length and b.length)
