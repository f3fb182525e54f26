"""Denoising tokens: tokens that start at noisy ground-truth points, in training only."""

from __future__ import annotations

import torch
from torch import Tensor


def denoising_mask(noisy_mask: Tensor, objects: int) -> Tensor:
    """Return the attention mask of object tokens, D denoising tokens and the relation token, in this order.

    `noisy_mask` (B,D) is True for valid denoising tokens. The result is (B,1,T,T) with T = objects + D + 1, True if the
    row's token attends to the column's token. Object tokens and the relation token attend to each other, but never to a
    denoising token, because it knows the ground truth. A denoising token attends to itself, to the other valid
    denoising tokens of its image and to the relation token.
    """
    batch, extra = noisy_mask.shape
    yes = noisy_mask.new_ones(batch, 1)
    no = ~yes.expand(-1, objects)
    seen_by_others = torch.cat([~no, torch.zeros_like(noisy_mask), yes], dim=1)
    seen_by_noisy = torch.cat([no, noisy_mask, yes], dim=1)
    is_noisy = torch.cat([no, torch.ones_like(noisy_mask), ~yes], dim=1)
    mask = torch.where(is_noisy[:, :, None], seen_by_noisy[:, None, :], seen_by_others[:, None, :])
    itself = torch.eye(objects + extra + 1, dtype=torch.bool, device=noisy_mask.device)
    return (mask | itself)[:, None]
