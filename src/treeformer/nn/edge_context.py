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
    """Describe how the other edges leave node i, as seen from the edge (i, j).

    Args:
        points: (B,N,2) px.
        likely: (B,N,N) probability of each edge in [0,1], symmetric; the diagonal is ignored.
        orders: number of harmonics, m = 0 … orders − 1.

    Returns:
        (B,N,N,4·orders): real and imaginary parts, first unweighted, then weighted by the lengths of the edges. Entry
        [i, j] describes node i; node j is described by its transpose, [j, i].
    """
    step = points[:, None] - points[:, :, None]  # [i, j]: from i to j
    length = (step.square().sum(-1) + 1e-12).sqrt()
    diagonal = torch.eye(points.shape[1], dtype=torch.bool, device=points.device)
    likely = likely.masked_fill(diagonal, 0.0)
    powers = _powers(step / length[..., None], orders)  # (B,N,N,orders,2)
    weights = torch.stack([likely, likely * (length / LENGTH_SCALE_PX).clamp(max=LONGEST)], dim=-1)  # (B,N,N,2)
    terms = weights[..., :, None, None] * powers[..., None, :, :]  # (B,N,N,2,orders,2)
    others = terms.sum(2, keepdim=True) - terms
    cosine, sine = powers[..., None, :, 0], powers[..., None, :, 1]
    real, imaginary = others[..., 0], others[..., 1]
    rotated = torch.stack([real * cosine + imaginary * sine, imaginary * cosine - real * sine], dim=-1)
    return rotated.flatten(3)


def _powers(direction: Tensor, orders: int) -> Tensor:
    """Unit vectors (…,2) as complex numbers -> their powers 0 … orders − 1, (…,orders,2)."""
    x, y = direction.unbind(-1)
    real, imaginary = torch.ones_like(x), torch.zeros_like(y)
    powers = []
    for _ in range(orders):
        powers.append(torch.stack([real, imaginary], dim=-1))
        real, imaginary = real * x - imaginary * y, real * y + imaginary * x
    return torch.stack(powers, dim=-2)
