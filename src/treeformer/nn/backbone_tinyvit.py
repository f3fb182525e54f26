"""TinyViT: a backbone of convolutions at stride 4 and of attention within windows at strides 8 and 16.

Wu et al., TinyViT: Fast Pretraining Distillation for Small Vision Transformers, ECCV 2022. The batch normalizations are
frozen. Shapes: feature maps are (B,C,H,W), windows (W,N,C) with the N = side² cells of a window in rows; `side` is
counted in cells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.backbone import BATCH_COUNTER, Backbone, FrozenBatchNorm

WINDOWS = (7, 14, 7)  # sides of the windows in the three parts with attention, cells
EXPANSION = 4  # hidden channels of a block per channel
# Names in MobileSAM's file to names here. A part begins with the layer that changes the number of channels.
RENAMED = (
    (r"^patch_embed\.seq\.0\.", "stem.0."),
    (r"^patch_embed\.seq\.2\.", "stem.1."),
    (r"^layers\.0\.blocks\.", "stage1."),
    (r"^layers\.0\.downsample\.", "stage2.merge."),
    (r"^layers\.1\.blocks\.", "stage2.blocks."),
    (r"^layers\.1\.downsample\.", "stage3.first.merge."),
    (r"^layers\.2\.blocks\.", "stage3.first.blocks."),
    (r"^layers\.2\.downsample\.", "stage3.second.merge."),
    (r"^layers\.3\.blocks\.", "stage3.second.blocks."),
    (r"\.c\.weight$", ".conv.weight"),
    (r"\.bn\.", ".norm."),
)


class ConvNorm(nn.Module):
    """A convolution and its frozen batch normalization."""

    def __init__(self, channels_in: int, channels: int, side: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, side, stride, side // 2, groups=groups, bias=False)
        self.norm = FrozenBatchNorm(channels)

    def forward(self, features: Tensor) -> Tensor:
        """Map (B,channels_in,H,W) to (B,channels,H/stride,W/stride), rounded up."""
        conv = self.conv
        return functional.conv2d(
            features, *self.norm.fold_into(conv), conv.stride, conv.padding, conv.dilation, conv.groups
        )


class ThreeConvolutions(nn.Module):
    """1×1, 3×3 per channel and 1×1 convolutions with GELU between them."""

    def __init__(self, channels_in: int, hidden: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = ConvNorm(channels_in, hidden)
        self.conv2 = ConvNorm(hidden, hidden, 3, stride, groups=hidden)
        self.conv3 = ConvNorm(hidden, channels)

    def forward(self, features: Tensor) -> Tensor:
        """Map (B,channels_in,H,W) to (B,channels,H/stride,W/stride), rounded up."""
        inner = functional.gelu(self.conv1(features))
        result: Tensor = self.conv3(functional.gelu(self.conv2(inner)))
        return result


class ConvolutionBlock(ThreeConvolutions):
    """`ThreeConvolutions` with a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, EXPANSION * channels, channels)

    def forward(self, features: Tensor) -> Tensor:
        """Map (B,C,H,W) to the same shape."""
        return functional.gelu(features + super().forward(features))


class WindowAttention(nn.Module):
    """Self-attention within windows, with a learned bias per head and distance along both axes."""

    offset: Tensor

    def __init__(self, channels: int, heads: int, side: int) -> None:
        super().__init__()
        self.heads, self.side = heads, side
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.attention_biases = nn.Parameter(torch.zeros(heads, side * side))
        row, column = torch.arange(side * side) // side, torch.arange(side * side) % side
        offset = (row[:, None] - row).abs() * side + (column[:, None] - column).abs()
        self.register_buffer("offset", offset.flatten(), persistent=False)

    def forward(self, cells: Tensor) -> Tensor:
        """Map windows (W,N,C) to the same shape."""
        count, size, channels = cells.shape
        # Per head: query, key, value.
        parts = self.qkv(self.norm(cells)).view(count, size, self.heads, 3, -1)
        query, key, value = parts.permute(3, 0, 2, 1, 4).unbind(0)
        bias = self.attention_biases.index_select(1, self.offset).view(1, self.heads, size, size)
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1) + bias
        mixed = scores.softmax(-1).to(value.dtype) @ value
        result: Tensor = self.proj(mixed.transpose(1, 2).reshape(count, size, channels))
        return result


class FeedForward(nn.Module):
    """Normalization and two linear layers."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.fc1 = nn.Linear(channels, EXPANSION * channels)
        self.fc2 = nn.Linear(EXPANSION * channels, channels)

    def forward(self, cells: Tensor) -> Tensor:
        """Map (...,C) to the same shape."""
        result: Tensor = self.fc2(functional.gelu(self.fc1(self.norm(cells))))
        return result


class WindowBlock(nn.Module):
    """Window attention, a 3×3 convolution per channel, and a feed-forward network."""

    def __init__(self, channels: int, heads: int, side: int) -> None:
        super().__init__()
        self.attn = WindowAttention(channels, heads, side)
        self.local_conv = ConvNorm(channels, channels, 3, groups=channels)
        self.mlp = FeedForward(channels)

    def forward(self, features: Tensor) -> Tensor:
        """Map (B,C,H,W) to the same shape."""
        cells = features.permute(0, 2, 3, 1)
        cells = cells + within_windows(self.attn, cells, self.attn.side)
        cells = self.local_conv(cells.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        result: Tensor = (cells + self.mlp(cells)).permute(0, 3, 1, 2)
        return result


def within_windows(layer: nn.Module, cells: Tensor, side: int) -> Tensor:
    """Apply a layer to the windows of a map, which is padded with zeros on the right and below.

    The padding takes part in attention. The published weights were trained so.
    """
    batch, height, width, channels = cells.shape
    rows, columns = -(-height // side), -(-width // side)
    padded = functional.pad(cells, (0, 0, 0, columns * side - width, 0, rows * side - height))
    parts = padded.reshape(batch, rows, side, columns, side, channels).transpose(2, 3)
    windows: Tensor = layer(parts.reshape(-1, side * side, channels))
    whole = windows.view(batch, rows, columns, side, side, channels).transpose(2, 3)
    return whole.reshape(batch, rows * side, columns * side, channels)[:, :height, :width]


class WindowStage(nn.Module):
    """A change of channels and stride, and blocks with window attention."""

    def __init__(self, channels_in: int, channels: int, stride: int, count: int, heads: int, side: int) -> None:
        super().__init__()
        self.merge = ThreeConvolutions(channels_in, channels, channels, stride)
        self.blocks = nn.Sequential(*(WindowBlock(channels, heads, side) for _ in range(count)))

    def forward(self, features: Tensor) -> Tensor:
        """Map (B,channels_in,H,W) to (B,channels,H/stride,W/stride), rounded up."""
        result: Tensor = self.blocks(self.merge(features))
        return result


class TwoStages(nn.Module):
    """Two stages of one stride, whose outputs are concatenated."""

    def __init__(self, first: WindowStage, second: WindowStage) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, features: Tensor) -> Tensor:
        """Map (B,channels_in,H,W) to (B,channels of both,H/stride,W/stride)."""
        first = self.first(features)
        return torch.cat([first, self.second(first)], 1)


class TinyViT(Backbone):
    """The trunk of a TinyViT as MobileSAM uses it, with strides 4, 8 and 16.

    `blocks` are those of the stages at strides 4, 8, 16 and 16, and `base_channels` are the channels at stride 4, a
    multiple of 4; the others are 2, 2.5 and 5 times that. The first `frozen_stages` parts, counted from the stem, are
    not trained.

    Attributes:
        channels: output channels per stride. At stride 16, those of the last two stages together.
        strides: strides of the outputs, px.
        stage_names: names of the parts after the stem, one per stride.
    """

    def __init__(self, blocks: Sequence[int] = (2, 2, 6, 2), base_channels: int = 64, frozen_stages: int = 0) -> None:
        super().__init__()
        base = base_channels
        one, two, three, four = base, 2 * base, 5 * base // 2, 5 * base
        self.channels, self.strides = [one, two, three + four], [4, 8, 16]
        self.stage_names = ["stage1", "stage2", "stage3"]
        self.stem = nn.ModuleList([ConvNorm(3, base // 2, 3, 2), ConvNorm(base // 2, base, 3, 2)])
        self.stage1 = nn.Sequential(*(ConvolutionBlock(one) for _ in range(blocks[0])))
        heads = [2 * width // base for width in (two, three, four)]
        self.stage2 = WindowStage(one, two, 2, blocks[1], heads[0], WINDOWS[0])
        self.stage3 = TwoStages(
            WindowStage(two, three, 2, blocks[2], heads[1], WINDOWS[1]),
            WindowStage(three, four, 1, blocks[3], heads[2], WINDOWS[2]),
        )
        self._freeze("stem", frozen_stages)

    def _stem(self, images: Tensor) -> Tensor:
        """Map images (B,3,H,W) in [0,1] to features (B,base_channels,H/4,W/4), rounded up."""
        features: Tensor = self.stem[1](functional.gelu(self.stem[0](self._normalize(images))))
        return features

    @torch.no_grad()
    def fold_batch_norms(self, dtype: torch.dtype) -> None:
        """Fold the normalizations into the convolutions, see `Backbone.fold_batch_norms`."""
        for module in self.modules():
            if isinstance(module, ConvNorm):
                weight, shift = module.norm.fold_into(module.conv)
                module.norm.folded = weight.to(dtype), shift.to(dtype)

    def stored_name(self, name: str) -> str | None:
        """Return the name here of a weight in MobileSAM's file, None for a weight without effect."""
        if name.endswith(BATCH_COUNTER):
            return None
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        return name
