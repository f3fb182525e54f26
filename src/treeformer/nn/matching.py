"""Hungarian matching of tokens to the nodes of the ground truth."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from treeformer._util.arrays import BoolArray, Float32Array, IntArray
from treeformer._util.cores import usable_cores
from treeformer.nn.kernels import assignment as assignment_triton
from treeformer.nn.targets import Targets

WORST = 1e8  # replaces NaN and infinities: chosen only if nothing else is left
MAX_THREADS = 16


@dataclass
class Matching:
    """The token of each target node."""

    token: Tensor  # (B,M) int64; 0 if `found` is False
    found: Tensor  # (B,M) bool; False for padding, and for nodes without a token because there are too few tokens


@torch.no_grad()
def match(
    node_logits: Tensor, points: Tensor, targets: Targets, *, score_weight: float, point_weight: float
) -> Matching:
    """Return the cheapest one-to-one matching of each image, at the cost point_weight · L1 − score_weight · p.

    p is the sigmoid of the node logits (B,K); L1 is the distance of the points (B,K,2), px.
    """
    distance = (targets.points[:, :, None] - points[:, None]).abs().sum(-1)  # (B,M,K)
    cost = point_weight * distance - score_weight * node_logits.float().sigmoid()[:, None]
    cost = cost.float().nan_to_num(nan=WORST, posinf=WORST, neginf=WORST)
    if assignment_triton.can_assign(cost):
        token = assignment_triton.assign(cost, targets.mask)
    else:
        token = torch.from_numpy(assign(cost.cpu().numpy(), targets.mask.cpu().numpy())).to(cost.device)
    return Matching(token.clamp(min=0), token >= 0)


def assign(cost: Float32Array, mask: BoolArray) -> NDArray[np.int64]:
    """Assign tokens to nodes at the lowest total cost (B,M,K), finite, separately for each image.

    The result (B,M) is the token of each real node in `mask`; −1 for padding and if there are too few tokens. SciPy
    releases the global interpreter lock, so the images are solved in threads.

    Example:
        >>> assign(np.array([[[1.0, 0.0], [5.0, 0.0]]], np.float32), np.array([[True, True]])).tolist()
        [[0, 1]]
    """
    result = np.full(mask.shape, -1, dtype=np.int64)

    def solve(images: IntArray) -> None:
        for image in images:
            real = np.flatnonzero(mask[image])
            row, column = linear_sum_assignment(cost[image, real])
            result[image, real[row]] = column

    threads = min(MAX_THREADS, usable_cores(), len(mask))
    if threads < 2:
        solve(np.arange(len(mask)))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(solve, np.array_split(np.arange(len(mask)), threads)))
    return result
