"""A masked transformer over a sequence and an image: in one pass over all steps, or step by step with a memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from treeformer.nn.transformer import Attention, FeedForward

Remembered = tuple[Tensor, Tensor]
"""Keys and values (B,heads,S,width/heads) of one attention."""


class CausalLayer(nn.Module):
    """Each step looks at itself and the steps before it, then at the image; post-norm."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.among_steps = Attention(width, heads, dropout)
        self.norm_steps = nn.LayerNorm(width)
        self.to_image = Attention(width, heads, dropout)
        self.norm_image = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, image: Remembered, past: Remembered | None) -> tuple[Tensor, Remembered]:
        """The last S of T steps, (B,S,width), and what is remembered of the T − S before them → both anew."""
        keys, values = self.among_steps.remember(tokens, tokens)
        if past is not None:
            keys, values = torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)
        steps, known = tokens.shape[1], keys.shape[2]
        mask = torch.ones(steps, known, dtype=torch.bool, device=tokens.device).tril(known - steps)
        tokens = self.norm_steps(tokens + self.dropout(self.among_steps.attend(tokens, keys, values, mask)))
        tokens = self.norm_image(tokens + self.dropout(self.to_image.attend(tokens, *image)))
        return self.feed_forward(tokens), (keys, values)


class CausalDecoder(nn.Module):
    """A stack of causal layers.

    Example:
        >>> decoder = CausalDecoder(layers=2, width=8, heads=2, hidden=16, dropout=0.0)
        >>> image = decoder.remember(torch.rand(1, 5, 8), torch.rand(5, 8))
        >>> steps = torch.rand(1, 3, 8)
        >>> together, _ = decoder(steps, image)
        >>> first, past = decoder(steps[:, :1], image)
        >>> rest, _ = decoder(steps[:, 1:], image, past)
        >>> torch.allclose(torch.cat([first, rest], dim=1), together, atol=1e-5)
        True
    """

    def __init__(self, layers: int, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(CausalLayer(width, heads, hidden, dropout) for _ in range(layers))

    def remember(self, cells: Tensor, positions: Tensor) -> list[Remembered]:
        """The image's cells (B,C,width) at positions (C,width), for each layer: once an image, not once a step."""
        return [layer.to_image.remember(cells + positions, cells) for layer in self.layers]

    def forward(
        self, tokens: Tensor, image: list[Remembered], past: list[Remembered] | None = None
    ) -> tuple[Tensor, list[Remembered]]:
        """Steps (B,S,width) that follow those of `past` → (B,S,width), and the past of the steps after them."""
        present = []
        for index, layer in enumerate(self.layers):
            tokens, kept = layer(tokens, image[index], past[index] if past is not None else None)
            present.append(kept)
        return tokens, present
