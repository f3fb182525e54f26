"""The transformer: object tokens and one relation token, which look at each other and at the image.

Deformable DETR's layers (post-norm, ReLU) with RelationFormer's relation token: object tokens read the image near their
points, the relation token reads all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.deformable_attention import DeformableAttention, FeatureLevel
from treeformer.nn.positions import cell_centers, sine_positions


class Attention(nn.Module):
    """Dense multi-head attention."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        xavier_(self)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B,Q,width), (B,S,width), (B,S,width), mask (B,1,Q,S) bool, True = may look → (B,Q,width)."""
        return self.attend(query, *self.remember(key, value), mask)

    def remember(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """What is looked at, as `look` takes it: (B,S,width), (B,S,width) → twice (B,heads,S,width/heads)."""
        return self._split(self.key(key)), self._split(self.value(value))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """Query (B,Q,width) at what `remember` gave → (B,Q,width)."""
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            self._split(self.query(query)), keys, values, mask, dropout_p=dropout
        )
        return self.output(mixed.transpose(1, 2).flatten(2))

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear layers around a ReLU, added to the input and normalized."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)
        xavier_(self)

    def forward(self, tokens: Tensor) -> Tensor:
        """(…,width) → (…,width)."""
        return self.norm(tokens + self.dropout(self.layers(tokens)))


class EncoderLayer(nn.Module):
    """Every cell of every level reads a few places near itself on all levels."""

    def __init__(self, width: int, heads: int, points: int, levels: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = DeformableAttention(width, heads, points, [width] * levels)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden, dropout)

    def forward(self, levels: Sequence[FeatureLevel], positions: Tensor, points: Tensor) -> Tensor:
        """The cells of all levels (B,S,width) anew.

        Positions (S,width) are added to the queries; points (S,2) px are the cells' centers.
        """
        cells = torch.cat([level.cells for level in levels], dim=1)
        read = self.attention(cells + positions, points.expand(cells.shape[0], -1, -1), levels)
        return self.feed_forward(self.norm(cells + self.dropout(read)))


class Encoder(nn.Module):
    """A stack of encoder layers; cells know their place (sine) and their level (learned)."""

    def __init__(
        self, layers: int, width: int, heads: int, points: int, levels: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.level_embedding = nn.Parameter(torch.randn(levels, width))
        self.layers = nn.ModuleList(EncoderLayer(width, heads, points, levels, hidden, dropout) for _ in range(layers))

    def forward(self, levels: Sequence[FeatureLevel]) -> list[FeatureLevel]:
        """Levels in, levels out, all of the same width."""
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
    """Self-attention among all tokens, then each kind's own look at the image, then a feed-forward part."""

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
        """One round.

        Args:
            tokens: (B,Q+1,width): the object tokens, then the relation token.
            positions: (B,Q+1,width), added wherever a token asks or is asked.
            points: (B,Q,2) px, where the object tokens are.
            levels: the image for the object tokens.
            scene: (B,S,width): the image for the relation token.
            scene_positions: (S,width).
            mask: (B,1,Q+1,Q+1) bool, True = may look.
        """
        placed = tokens + positions
        tokens = self.norm_tokens(tokens + self.dropout(self.among_tokens(placed, placed, tokens, mask)))
        placed = tokens + positions
        from_objects = self.objects_to_image(placed[:, :-1], points, levels)
        from_relation = self.relation_to_image(placed[:, -1:], scene + scene_positions, scene)
        read = torch.cat([from_objects, from_relation.to(from_objects.dtype)], dim=1)
        return self.feed_forward(self.norm_image(tokens + self.dropout(read)))


class MLP(nn.Sequential):
    """Linear layers with ReLU between them."""

    def __init__(self, *widths: int) -> None:
        layers: list[nn.Module] = []
        for width_in, width_out in pairwise(widths):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        super().__init__(*layers[:-1])


def xavier_(module: nn.Module) -> None:
    """Xavier weights and zero biases for every linear layer inside."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
