"""Transformer layers for object tokens and one relation token.

The layers are those of Deformable DETR (post-norm, ReLU) with RelationFormer's relation token: object tokens read the
image near their points, the relation token reads all of it.

Q is the number of queries, S that of cells. `width` is the number of channels of tokens and cells, `hidden` that of the
feed-forward parts, `points` of a layer the number of sampling locations per head and level. A mask is True for keys to
which a query may attend; without a mask, it may attend to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.deformable_attention import DeformableAttention, FeatureLevel
from treeformer.nn.positions import cell_centers, sine_positions


class Attention(nn.Module):
    """Dense multi-head attention of queries (B,Q,width) to keys and values (B,S,width), with a mask (B,1,Q,S).

    `width` is a multiple of `heads`.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        xavier_(self)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend to keys and values."""
        return self.attend(query, *self.project(key, value), mask)

    def project(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Project keys and values once, for several calls of `attend`, to (B,heads,S,width/heads)."""
        return self._split(self.key(key)), self._split(self.value(value))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend to keys and values that `project` returned."""
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            self._split(self.query(query)), keys, values, mask, dropout_p=dropout
        )
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result

    def _split(self, tokens: Tensor) -> Tensor:
        """(B,S,width) -> (B,heads,S,width/heads)."""
        return torch.unflatten(tokens, -1, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear layers with a ReLU between them, added to the input and normalized."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)
        xavier_(self)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (…,width) to (…,width)."""
        result: Tensor = self.norm(tokens + self.dropout(self.layers(tokens)))
        return result


class EncoderLayer(nn.Module):
    """Deformable self-attention of all cells: every cell reads a few locations near itself on all levels."""

    def __init__(self, width: int, heads: int, points: int, levels: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = DeformableAttention(width, heads, points, [width] * levels)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden, dropout)

    def forward(self, levels: Sequence[FeatureLevel], positions: Tensor, points: Tensor) -> Tensor:
        """Return the new cells (B,S,width) of all levels.

        `positions` (S,width) are added to the queries; `points` (S,2), px, are the centers of the cells.
        """
        cells = torch.cat([level.cells for level in levels], dim=1)
        read = self.attention(cells + positions, points.expand(cells.shape[0], -1, -1), levels)
        result: Tensor = self.feed_forward(self.norm(cells + self.dropout(read)))
        return result


class Encoder(nn.Module):
    """A stack of encoder layers. Cells have a sine encoding of their position and a learned one of their level."""

    def __init__(
        self, layers: int, width: int, heads: int, points: int, levels: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.level_embedding = nn.Parameter(torch.randn(levels, width))
        self.layers = nn.ModuleList(EncoderLayer(width, heads, points, levels, hidden, dropout) for _ in range(layers))

    def forward(self, levels: Sequence[FeatureLevel]) -> list[FeatureLevel]:
        """Return the levels with new cells; all have the same width."""
        device, width = self.level_embedding.device, self.level_embedding.shape[1]
        centers = [cell_centers(level.height, level.width, level.stride, device) for level in levels]
        positions = torch.cat(
            [sine_positions(center, width) + self.level_embedding[i] for i, center in enumerate(centers)]
        )
        points = torch.cat(centers)
        levels = list(levels)
        sizes = [level.height * level.width for level in levels]
        for layer in self.layers:
            parts = layer(levels, positions, points).split(sizes, dim=1)
            levels = [level._replace(cells=part) for level, part in zip(levels, parts, strict=True)]
        return levels


class DecoderLayer(nn.Module):
    """Self-attention among all tokens, attention to the image, and a feed-forward part.

    Object tokens attend to the image by deformable attention, the relation token by dense attention.
    """

    def __init__(
        self, width: int, heads: int, points: int, channels: Sequence[int], hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.among_tokens = Attention(width, heads, dropout)
        self.norm_tokens = nn.LayerNorm(width)
        self.objects_to_image = DeformableAttention(width, heads, points, channels)
        self.relation_to_image = Attention(width, heads, dropout)
        self.norm_image = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        points: Tensor,
        levels: Sequence[FeatureLevel],
        scene: Tensor,
        scene_positions: Tensor,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Update the tokens (B,Q+1,width): the object tokens, then the relation token.

        `positions`, of the same shape, are added to queries and keys; `points` (B,Q,2), px, are the reference points of
        the object tokens, which read the levels. The relation token reads the scene (B,S,width); `scene_positions`
        (S,width) are added to its keys.
        """
        positioned = tokens + positions
        tokens = self.norm_tokens(tokens + self.dropout(self.among_tokens(positioned, positioned, tokens, mask)))
        positioned = tokens + positions
        from_objects = self.objects_to_image(positioned[:, :-1], points, levels)
        from_relation = self.relation_to_image(positioned[:, -1:], scene + scene_positions, scene)
        read = torch.cat([from_objects, from_relation.to(from_objects.dtype)], dim=1)
        result: Tensor = self.feed_forward(self.norm_image(tokens + self.dropout(read)))
        return result


class MLP(nn.Sequential):
    """Linear layers with ReLU between them; `widths` are the channels from input to output."""

    def __init__(self, *widths: int) -> None:
        layers: list[nn.Module] = []
        for width_in, width_out in pairwise(widths):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        super().__init__(*layers[:-1])

    @property
    def output_layer(self) -> nn.Linear:
        """The last linear layer."""
        return cast(nn.Linear, self[-1])


def xavier_(module: nn.Module) -> None:
    """Initialize every linear layer of a module with Xavier weights and zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
