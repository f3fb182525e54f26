"""Attributes of nodes: radius and direction to the parent, predicted from the decoder's tokens by one linear layer.

The three outputs per token are log(r + 0.5), with the radius r in px of the network's input, and (dx, dy), the unit
vector from the node to its parent. The logarithm makes errors relative. The offset keeps it finite for thin branches.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

ATTRIBUTES = 3
"""Outputs per node: log(r + 0.5), dx, dy."""
RADIUS_OFFSET_PX = 0.5
"""Added to the radius before the logarithm, px."""
RADIUS_PRIOR_PX = 2.0  # the predicted radius before training
SMOOTH_BELOW = 0.1  # errors below this are penalized by their square: a tenth of the radius, a tenth of a unit vector


class AttributeHead(nn.Linear):
    """The linear layer from tokens to attributes. Before training it predicts 2 px and no direction."""

    def __init__(self, width: int) -> None:
        super().__init__(width, ATTRIBUTES)

    def reset_parameters(self) -> None:
        """Set the initial values. No random number is drawn, so that the rest of a network does not depend on it."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
        nn.init.constant_(self.bias[0], math.log(RADIUS_PRIOR_PX + RADIUS_OFFSET_PX))


def encode_radius(radius: Tensor) -> Tensor:
    """Return log(r + 0.5) of radii in px.

    >>> encode_radius(torch.tensor([0.5])).item()
    0.0
    """
    return (radius + RADIUS_OFFSET_PX).log()


def attribute_losses(attributes: Tensor, radius: Tensor, direction: Tensor, matched: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of smooth L1 losses of radii and of directions over matched nodes with known targets.

    `attributes` (B,M,3) is the prediction for each target node, `radius` (B,M), px, and `direction` (B,M,2), unit
    vectors to the parents, are NaN if unknown. `matched` (B,M) is False for padding and for nodes without a token.
    """
    predicted = attributes.float()
    target = torch.cat([encode_radius(radius)[..., None], direction], dim=-1)
    known = target.isfinite() & matched[..., None]
    # Unknown targets become 0 before the loss: NaN times a mask of 0 would remain NaN.
    loss = functional.smooth_l1_loss(predicted, target.nan_to_num(), reduction="none", beta=SMOOTH_BELOW) * known
    return loss[..., 0].sum(), loss[..., 1:].sum()
