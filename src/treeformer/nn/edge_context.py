"""What else happens at the two ends of an edge: the directions in which the other likely edges leave.

A pair of nodes, looked at alone, cannot know that a branch already goes on straight, or that another edge starts almost
in the same direction. So edges are asked for twice: with the first answers as weights, the directions of all edges at a
node are summed up as angular harmonics, Σ_k p_ik·e^{imθ_ik} for m = 0, 1, …. Seen from the pair (i, j), its own share
is taken out and the sum turned into the frame of the edge, so that the answer depends on the angles between edges, not
on how the image is turned.
"""

from __future__ import annotations

import torch
from torch import Tensor

LENGTH_SCALE_PX = 64.0
LONGEST = 3.0  # of those scales: longer edges count no more


def edge_context(points: Tensor, likely: Tensor, orders: int) -> Tensor:
    """How the other edges leave node i, seen from the edge (i, j).

    Args:
        points: (B,N,2) px.
        likely: (B,N,N) how likely an edge is, in [0,1], symmetric; the diagonal is not looked at.
        orders: harmonics m = 0 … orders − 1.

    Returns:
        (B,N,N,4·orders): real and imaginary parts, plain and weighted with the edges' lengths. Entry [i, j] is about
        node i; that of node j is its transpose, [j, i].
    """
    step = points[:, None] - points[:, :, None]  # [i, j]: from i to j
    length = (step.square().sum(-1) + 1e-12).sqrt()
    itself = torch.eye(points.shape[1], dtype=torch.bool, device=points.device)
    likely = likely.masked_fill(itself, 0.0)
    turned = _powers(step / length[..., None], orders)  # (B,N,N,orders,2)
    weights = torch.stack([likely, likely * (length / LENGTH_SCALE_PX).clamp(max=LONGEST)], dim=-1)  # (B,N,N,2)
    shares = weights[..., :, None, None] * turned[..., None, :, :]  # (B,N,N,2,orders,2)
    others = shares.sum(2, keepdim=True) - shares
    cosine, sine = turned[..., None, :, 0], turned[..., None, :, 1]
    real, imaginary = others[..., 0], others[..., 1]
    seen = torch.stack([real * cosine + imaginary * sine, imaginary * cosine - real * sine], dim=-1)
    return seen.flatten(3)


def _powers(direction: Tensor, orders: int) -> Tensor:
    """(…,2) unit vectors as complex numbers → their powers 0 … orders − 1, (…,orders,2)."""
    x, y = direction.unbind(-1)
    real, imaginary = torch.ones_like(x), torch.zeros_like(y)
    found = []
    for _ in range(orders):
        found.append(torch.stack([real, imaginary], dim=-1))
        real, imaginary = real * x - imaginary * y, real * y + imaginary * x
    return torch.stack(found, dim=-2)
