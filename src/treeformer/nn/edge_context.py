"""Context of an edge: the directions in which other likely edges leave its two nodes.

A pair of nodes alone does not show that a branch already continues straight on, or that another edge starts in almost
the same direction. Therefore edges are predicted twice. With the first probabilities as weights, the directions of all
edges at node i are summed up as angular harmonics, Σ_k p_ik·e^{imθ_ik} for m = 0, 1, …. For the pair (i, j) its own
term is removed and the sum is rotated into the frame of the edge, so the result depends on the angles between edges and
not on the orientation of the image.
"""

from __future__ import annotations

import torch
from torch import Tensor

LENGTH_SCALE_PX = 64.0
LONGEST = 3.0  # in units of LENGTH_SCALE_PX: longer edges have the same weight


def edge_context(points: Tensor, likely: Tensor, orders: int) -> Tensor:
    """Describe how the other edges leave node i, as seen from the edge (i, j), by harmonics m = 0 … orders − 1.

    `points` are (B,N,2) px and `likely` (B,N,N) symmetric probabilities; the diagonal is ignored. The result is
    (B,N,N,4·orders): real and imaginary parts, first unweighted, then weighted by the lengths of the edges. Entry [i,
    j] describes node i; node j is described by its transpose, [j, i].
    """
    # Pairs are the last axes until the end: operations on long rows are several times faster on a CPU.
    x, y = (place[:, None] - place[:, :, None] for place in points.unbind(-1))  # (B,N,N), [i, j]: from i to j
    length = (x.square() + y.square() + 1e-12).sqrt()
    diagonal = torch.eye(points.shape[1], dtype=torch.bool, device=points.device)
    likely = likely.masked_fill(diagonal, 0.0)
    weights = torch.stack([likely, likely * (length / LENGTH_SCALE_PX).clamp(max=LONGEST)], dim=1)  # (B,2,N,N)
    cosine, sine = (part[:, None] for part in _powers(x / length, y / length, orders))  # (B,1,orders,N,N)
    real, imaginary = (
        term.sum(-1, keepdim=True) - term for term in (weights[:, :, None] * cosine, weights[:, :, None] * sine)
    )
    rotated = torch.stack([real * cosine + imaginary * sine, imaginary * cosine - real * sine], dim=3)
    return rotated.flatten(1, 3).movedim(1, -1)  # from (B,2,orders,2,N,N)


def _powers(x: Tensor, y: Tensor, orders: int) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts (B,orders,N,N) of the powers 0 … orders − 1 of the numbers x + iy, (B,N,N) each."""
    real, imaginary = [torch.ones_like(x)], [torch.zeros_like(y)]
    for _ in range(orders - 1):
        last = real[-1], imaginary[-1]
        real.append(last[0] * x - last[1] * y)
        imaginary.append(last[0] * y + last[1] * x)
    return torch.stack(real, dim=1), torch.stack(imaginary, dim=1)
