"""A causal transformer decoder over a sequence and an image: all steps in one pass, or step by step with a cache.

Steps are (B,S,width), the last S of T.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from treeformer.nn.transformer import Attention, FeedForward

KeysValues = tuple[Tensor, Tensor]
"""Keys and values of one attention, (B,heads,S,width/heads) each."""


class CausalLayer(nn.Module):
    """Attention of each step to itself and the steps before it, then to the image; post-norm."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.among_steps = Attention(width, heads, dropout)
        self.norm_steps = nn.LayerNorm(width)
        self.to_image = Attention(width, heads, dropout)
        self.norm_image = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, image: KeysValues, past: KeysValues | None) -> tuple[Tensor, KeysValues]:
        """Process the last S of T steps from the keys and values of the first ones; return those of all T as well."""
        keys, values = self.among_steps.project(tokens, tokens)
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
        >>> image = decoder.project_image(torch.rand(1, 5, 8), torch.rand(5, 8))
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

    def project_image(self, cells: Tensor, positions: Tensor) -> list[KeysValues]:
        """Compute the keys and values of an image for each layer, once per image instead of once per step.

        Cells are (B,C,width), with positional embeddings (C,width).
        """
        result = []
        for layer in self.layers:
            assert isinstance(layer, CausalLayer)
            result.append(layer.to_image.project(cells + positions, cells))
        return result

    def forward(
        self, tokens: Tensor, image: list[KeysValues], past: list[KeysValues] | None = None
    ) -> tuple[Tensor, list[KeysValues]]:
        """Process the steps that follow those in `past`; return also the `past` of the following steps."""
        present = []
        for index, layer in enumerate(self.layers):
            tokens, keys_values = layer(tokens, image[index], past[index] if past is not None else None)
            present.append(keys_values)
        return tokens, present
