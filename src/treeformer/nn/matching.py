"""Hungarian matching: which token answers for which node of the truth."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from treeformer.nn.targets import Targets

WORST = 1e8  # stands for NaN and infinities: never chosen while anything else is left
MAX_THREADS = 16


@dataclass
class Matching:
    """The token of each target node."""

    token: Tensor  # (B,M) int64; 0 where `found` is False
    found: Tensor  # (B,M) bool; False for padding, and for nodes that were left over when tokens ran out


def match(
    node_logits: Tensor, points: Tensor, targets: Targets, *, score_weight: float, point_weight: float
) -> Matching:
    """The cheapest one-to-one assignment of each picture, at the cost point_weight · L1 in px − score_weight · p.

    Args:
        node_logits: (B,K).
        points: (B,K,2) px.
    """
    return start_matching(node_logits, points, targets, score_weight=score_weight, point_weight=point_weight)()


@torch.no_grad()
def start_matching(
    node_logits: Tensor, points: Tensor, targets: Targets, *, score_weight: float, point_weight: float
) -> Callable[[], Matching]:
    """As `match`, in two steps: the costs are on their way to the host; the function that is returned solves.

    What the caller asks of a GPU in between is done while the host solves. The costs of the whole batch, each picture's
    tokens against its own nodes only, travel in one piece. SciPy lets go of Python's lock, so threads solve them.
    """
    distance = (targets.points[:, :, None] - points[:, None]).abs().sum(-1)  # (B,M,K)
    cost = point_weight * distance - score_weight * node_logits.float().sigmoid()[:, None]
    packed = torch.cat([cost.float(), targets.mask[..., None].float()], dim=-1)
    arrived: torch.cuda.Event | None = None
    if packed.is_cuda:
        host = torch.empty(packed.shape, pin_memory=True).copy_(packed, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
    else:
        host = packed

    def solve() -> Matching:
        if arrived is not None:
            arrived.synchronize()
        table = host.numpy()
        token = torch.from_numpy(assign(table[..., :-1], table[..., -1] > 0)).to(packed.device, non_blocking=True)
        return Matching(token.clamp(min=0), token >= 0)

    return solve


def assign(cost: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The token of each real node, −1 where there is none: cost (B,M,K), mask (B,M) → (B,M)."""
    result = np.full(mask.shape, -1, dtype=np.int64)

    def solve(pictures: NDArray[np.intp]) -> None:
        for picture in pictures:
            real = np.flatnonzero(mask[picture])
            block = np.nan_to_num(cost[picture, real], nan=WORST, posinf=WORST, neginf=WORST)
            row, column = linear_sum_assignment(block)
            result[picture, real[row]] = column

    threads = min(MAX_THREADS, os.cpu_count() or 1, len(mask))
    if threads < 2:
        solve(np.arange(len(mask)))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(solve, np.array_split(np.arange(len(mask)), threads)))
    return result
