"""Sine encoding of points in pixels, with the same wavelengths along both axes, whatever the shape of the image."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Wavelengths range from the distance of neighboring nodes to several times the size of an image.
SHORTEST_PX = 8.0
LONGEST_PX = 4096.0


def sine_positions(points: Tensor, width: int) -> Tensor:
    """Encode points (…,2), px, as sines and cosines of x, then of y: (…,width) float32.

    `width` is a multiple of 4: width / 4 wavelengths per axis.

    Example:
        >>> sine_positions(torch.tensor([[0.0, 0.0]]), 4).tolist()
        [[0.0, 1.0, 0.0, 1.0]]
    """
    count = width // 4
    steps = torch.arange(count, device=points.device, dtype=torch.float32) / max(count - 1, 1)
    wavelengths = SHORTEST_PX * (LONGEST_PX / SHORTEST_PX) ** steps
    angles = points.float()[..., None] * (2 * math.pi / wavelengths)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def cell_centers(height: int, width: int, stride: int, device: torch.device) -> Tensor:
    """Return the centers (height·width,2), px, of a feature map's cells, row by row."""
    # Not `meshgrid`: ONNX Runtime would compute the centers, and what follows from them, again for every image.
    cell = torch.arange(height * width, device=device)
    return (torch.stack([cell % width, torch.div(cell, width, rounding_mode="floor")], dim=-1) + 0.5) * stride
