"""Sine encoding of points in pixels, the same along both axes (so that an image's shape does not matter)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SHORTEST_PX = 8.0  # wavelengths: from the distance of neighboring nodes …
LONGEST_PX = 4096.0  # … to several times the size of an image


def sine_positions(points: Tensor, width: int) -> Tensor:
    """(…,2) px → (…,width): sines and cosines of x, then of y, at width / 4 wavelengths each."""
    count = width // 4
    steps = torch.arange(count, device=points.device, dtype=torch.float32) / max(count - 1, 1)
    wavelengths = SHORTEST_PX * (LONGEST_PX / SHORTEST_PX) ** steps
    angles = points.float()[..., None] * (2 * math.pi / wavelengths)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def cell_centers(height: int, width: int, stride: int, device: torch.device) -> Tensor:
    """(height·width, 2) px: the centers of a feature map's cells, row by row."""
    y, x = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    return (torch.stack([x, y], dim=-1).reshape(-1, 2) + 0.5) * stride
