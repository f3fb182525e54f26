"""The decoder: layers in which tokens attend to each other and to the image, with node and point heads on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from treeformer.nn.deformable_attention import FeatureLevel
from treeformer.nn.positions import cell_centers, sine_positions
from treeformer.nn.transformer import MLP, DecoderLayer

POINT_STEP_PX = 8.0  # the step for an output of 1 of a point head
NODE_PRIOR = 0.1  # probability that a token is a node, before training


class Decoded(NamedTuple):
    """The decoder's output for Q object tokens; L is the number of supervised layers."""

    tokens: Tensor  # (B,Q,width), the object tokens after the last layer
    relation: Tensor  # (B,width), the relation token after the last layer
    node_logits: Tensor  # (L,B,Q)
    points: Tensor  # (L,B,Q,2) px


class Decoder(nn.Module):
    """A stack of decoder layers for the object tokens and the relation token; see `treeformer.nn.transformer`.

    The object tokens read the levels with a stride of at least `min_stride`, whose channels are `channels`, fine to
    coarse; the relation token those of at least `relation_min_stride`, px. Auxiliary decoders predict nodes and points
    after every layer, not only after the last. Absolute ones predict points as fractions of the image's longer side
    instead of steps from the tokens' points.
    """

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        sampling_points: int,
        channels: Sequence[int],
        min_stride: int,
        feed_forward: int,
        dropout: float,
        relation_min_stride: int,
        auxiliary: bool,
        absolute: bool,
    ) -> None:
        super().__init__()
        self.min_stride, self.relation_min_stride = min_stride, relation_min_stride
        self.absolute = absolute
        self.relation_content = nn.Parameter(torch.randn(width))
        self.relation_position = nn.Parameter(torch.randn(width))
        self.layers = nn.ModuleList(
            DecoderLayer(width, heads, sampling_points, channels, feed_forward, dropout) for _ in range(layers)
        )
        # The heads belong to the last layers: all of them, or only the very last.
        supervised = layers if auxiliary else 1
        node_heads = [nn.Linear(width, 1) for _ in range(supervised)]
        point_heads = [MLP(width, width, width, 2) for _ in range(supervised)]
        for node_head in node_heads:
            set_prior_(node_head, NODE_PRIOR)
        if not absolute:
            for point_head in point_heads:  # at first the points hardly move
                nn.init.normal_(point_head.output_layer.weight, std=1e-3)
                nn.init.zeros_(point_head.output_layer.bias)
        self.node_heads = nn.ModuleList(node_heads)
        self.point_heads = nn.ModuleList(point_heads)

    def forward(
        self,
        content: Tensor,
        positions: Tensor,
        points: Tensor,
        levels: Sequence[FeatureLevel],
        mask: Tensor | None = None,
    ) -> Decoded:
        """Decode the object tokens from their content and positions, (B,Q,width), and reference points (B,Q,2), px.

        The levels are ordered fine to coarse. In the mask, (B,1,Q+1,Q+1), the relation token is the last; True = may
        attend.
        """
        scene, scene_positions = self._scene(levels)
        relation_shape = (content.shape[0], 1, content.shape[2])
        tokens = torch.cat([content, self.relation_content.expand(relation_shape)], dim=1)
        side = max(levels[0].height, levels[0].width) * levels[0].stride
        all_positions = torch.cat([positions, self.relation_position.expand(relation_shape)], dim=1)
        all_logits, all_points = [], []
        read = [level for level in levels if level.stride >= self.min_stride]
        for index, layer in enumerate(self.layers):
            tokens = layer(tokens, all_positions, points, read, scene, scene_positions, mask)
            from_end = index - len(self.layers)
            if -from_end <= len(self.node_heads):
                all_logits.append(self.node_heads[from_end](tokens[:, :-1]).float().squeeze(-1))
                step = self.point_heads[from_end](tokens[:, :-1]).float()
                all_points.append(step.sigmoid() * side if self.absolute else points + POINT_STEP_PX * step)
        return Decoded(tokens[:, :-1], tokens[:, -1], torch.stack(all_logits), torch.stack(all_points))

    def _scene(self, levels: Sequence[FeatureLevel]) -> tuple[Tensor, Tensor]:
        """The cells that the relation token reads, (B,S,width), and their positions (S,width)."""
        coarse = [level for level in levels if level.stride >= self.relation_min_stride]
        cells = torch.cat([level.cells for level in coarse], dim=1)
        centers = [cell_centers(level.height, level.width, level.stride, cells.device) for level in coarse]
        return cells, sine_positions(torch.cat(centers), cells.shape[-1])


def set_prior_(layer: nn.Linear, probability: float) -> None:
    """Set the bias of a layer of logits so that they stand for a probability before training."""
    nn.init.constant_(layer.bias, torch.tensor(probability).logit().item())
