"""Hungarian matching: which token answers for which node of the ground truth."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from treeformer.nn.kernels import assignment as assignment_triton
from treeformer.nn.targets import Targets

WORST = 1e8  # stands for NaN and infinities: never chosen while anything else is left
MAX_THREADS = 16


@dataclass
class Matching:
    """The token of each target node."""

    token: Tensor  # (B,M) int64; 0 where `found` is False
    found: Tensor  # (B,M) bool; False for padding, and for nodes that were left over when tokens ran out


@torch.no_grad()
def match(
    node_logits: Tensor, points: Tensor, targets: Targets, *, score_weight: float, point_weight: float
) -> Matching:
    """The cheapest one-to-one assignment of each image, at the cost point_weight · L1 in px − score_weight · p.

    Args:
        node_logits: (B,K).
        points: (B,K,2) px.
    """
    distance = (targets.points[:, :, None] - points[:, None]).abs().sum(-1)  # (B,M,K)
    cost = point_weight * distance - score_weight * node_logits.float().sigmoid()[:, None]
    cost = cost.float().nan_to_num(nan=WORST, posinf=WORST, neginf=WORST)
    if assignment_triton.can_assign(cost):
        token = assignment_triton.assign(cost, targets.mask)
    else:
        token = torch.from_numpy(assign(cost.cpu().numpy(), targets.mask.cpu().numpy())).to(cost.device)
    return Matching(token.clamp(min=0), token >= 0)


def assign(cost: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The token of each real node, −1 where there is none: finite cost (B,M,K), mask (B,M) → (B,M).

    Each image's tokens compete for its own nodes only. SciPy lets go of Python's lock, so threads solve them.
    """
    result = np.full(mask.shape, -1, dtype=np.int64)

    def solve(images: NDArray[np.intp]) -> None:
        for image in images:
            real = np.flatnonzero(mask[image])
            row, column = linear_sum_assignment(cost[image, real])
            result[image, real[row]] = column

    threads = min(MAX_THREADS, os.cpu_count() or 1, len(mask))
    if threads < 2:
        solve(np.arange(len(mask)))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(solve, np.array_split(np.arange(len(mask)), threads)))
    return result
