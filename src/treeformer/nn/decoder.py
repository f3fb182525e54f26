"""The decoder: rounds of tokens looking at each other and at the image, with node and point heads after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from treeformer.nn.deformable_attention import FeatureLevel
from treeformer.nn.positions import cell_centers, sine_positions
from treeformer.nn.transformer import MLP, DecoderLayer

POINT_STEP_PX = 8.0  # what an output of 1 of a point head means
NODE_PRIOR = 0.1  # probability of a token to be a node, before training


class Decoded(NamedTuple):
    """What the decoder makes of Q object tokens; L is the number of supervised layers."""

    tokens: Tensor  # (B,Q,width)
    relation: Tensor  # (B,width)
    node_logits: Tensor  # (L,B,Q)
    points: Tensor  # (L,B,Q,2) px


class Decoder(nn.Module):
    """Object tokens and the relation token through a stack of layers.

    Args:
        layers, width, heads, sampling_points, channels, feed_forward, dropout: of the decoder layers.
        relation_min_stride: the relation token reads the levels from this stride on.
        auxiliary: nodes and points are predicted after every layer, not only the last.
        absolute: points are fractions of the image's longer side instead of steps from where the tokens began.
    """

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        sampling_points: int,
        channels: Sequence[int],
        feed_forward: int,
        dropout: float,
        relation_min_stride: int,
        auxiliary: bool,
        absolute: bool,
    ) -> None:
        super().__init__()
        self.relation_min_stride = relation_min_stride
        self.absolute = absolute
        self.relation_content = nn.Parameter(torch.randn(width))
        self.relation_position = nn.Parameter(torch.randn(width))
        self.layers = nn.ModuleList(
            DecoderLayer(width, heads, sampling_points, channels, feed_forward, dropout) for _ in range(layers)
        )
        # The heads belong to the last layers: to all of them, or to the very last alone.
        supervised = layers if auxiliary else 1
        self.node_heads = nn.ModuleList(nn.Linear(width, 1) for _ in range(supervised))
        self.point_heads = nn.ModuleList(MLP(width, width, width, 2) for _ in range(supervised))
        for head in self.node_heads:
            set_prior_(head, NODE_PRIOR)
        if not absolute:
            for head in self.point_heads:  # that hardly moves anything at first
                nn.init.normal_(head[-1].weight, std=1e-3)
                nn.init.zeros_(head[-1].bias)

    def forward(
        self,
        content: Tensor,
        positions: Tensor,
        points: Tensor,
        levels: Sequence[FeatureLevel],
        mask: Tensor | None = None,
    ) -> Decoded:
        """Decode.

        Args:
            content, positions: (B,Q,width) of the object tokens.
            points: (B,Q,2) px, where they begin.
            levels: the image, fine to coarse.
            mask: (B,1,Q+1,Q+1) bool, True = may look; the relation token is the last.
        """
        scene, scene_positions = self._scene(levels)
        relation_shape = (content.shape[0], 1, content.shape[2])
        tokens = torch.cat([content, self.relation_content.expand(relation_shape)], dim=1)
        side = max(levels[0].height, levels[0].width) * levels[0].stride
        placed = torch.cat([positions, self.relation_position.expand(relation_shape)], dim=1)
        all_logits, all_points = [], []
        for index, layer in enumerate(self.layers):
            tokens = layer(tokens, placed, points, levels, scene, scene_positions, mask)
            after_last = index - len(self.layers)
            if -after_last <= len(self.node_heads):
                all_logits.append(self.node_heads[after_last](tokens[:, :-1]).float().squeeze(-1))
                step = self.point_heads[after_last](tokens[:, :-1]).float()
                all_points.append(step.sigmoid() * side if self.absolute else points + POINT_STEP_PX * step)
        return Decoded(tokens[:, :-1], tokens[:, -1], torch.stack(all_logits), torch.stack(all_points))

    def _scene(self, levels: Sequence[FeatureLevel]) -> tuple[Tensor, Tensor]:
        """What the relation token reads: cells (B,S,width) and their positions (S,width)."""
        coarse = [level for level in levels if level.stride >= self.relation_min_stride]
        cells = torch.cat([level.cells for level in coarse], dim=1)
        centers = [cell_centers(level.height, level.width, level.stride, cells.device) for level in coarse]
        return cells, sine_positions(torch.cat(centers), cells.shape[-1])


def set_prior_(layer: nn.Linear, probability: float) -> None:
    """Let a logit stand for this probability before training."""
    nn.init.constant_(layer.bias, torch.tensor(probability).logit().item())
