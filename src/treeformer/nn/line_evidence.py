"""What the map of center lines says about an edge between two nodes: how much line there is along the segment.

Curves leave the straight segment by some pixels, so the map is read at several blurs. Each of them gives the mean, the
deviation and the lowest value along the segment, of the presence of a line and of a line with the edge's direction.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from treeformer.nn.center_line import LINE_STRIDE
from treeformer.nn.deformable_attention import FeatureLevel, as_level

BLURS = (1, 3, 7)
"""Sides of the squares over which the map is averaged, in cells of `EVIDENCE_STRIDE`."""
EVIDENCE_STRIDE = 2 * LINE_STRIDE
POINTS = 8
"""Samples along a segment, an even number."""
NUMBERS = 6 * len(BLURS)
"""Numbers per edge: three of the presence and three of the agreement, at each blur."""


def blurred_lines(lines: Tensor) -> FeatureLevel:
    """Return presence p, p·cos 2t and p·sin 2t at every blur, as a map of 3 · len(`BLURS`) channels.

    `lines` (B,3,H,W) is the output of a `CenterLineHead`. It gets no gradient: it has its own target.
    """
    lines = lines.detach()
    presence = lines[:, :1].sigmoid()
    cells = functional.avg_pool2d(torch.cat([presence, presence * lines[:, 1:]], dim=1), 2)
    return as_level(torch.cat([_blur(cells, side) for side in BLURS], dim=1), EVIDENCE_STRIDE)


def _blur(cells: Tensor, side: int) -> Tensor:
    """Average a map over squares, along rows and then along columns: ONNX Runtime is slow at large squares."""
    for kernel in ((1, side), (side, 1)):
        padding = kernel[0] // 2, kernel[1] // 2
        cells = functional.avg_pool2d(cells, kernel, 1, padding, count_include_pad=False) if side > 1 else cells
    return cells


def segment_evidence(samples: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Summarize samples of `blurred_lines` along segments: (B,P,`NUMBERS`), the same for both directions of the edge.

    The samples are (B,P,`POINTS`,3 · len(`BLURS`)) in any order; (x, y), (B,P) each, is the unit vector from i to j.
    """
    presence, cosine, sine = torch.unflatten(samples.float(), -1, (-1, 3)).unbind(-1)  # (B,P,points,blurs)
    double = [(x * x - y * y)[..., None, None], (2 * x * y)[..., None, None]]
    numbers = []
    for values in (presence, cosine * double[0] + sine * double[1]):
        mean = values.mean(2)
        deviation = ((values * values).mean(2) - mean * mean).clamp(min=0).sqrt()
        numbers += [mean, deviation, values.amin(2)]
    return torch.cat(numbers, dim=-1)
