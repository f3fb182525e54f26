"""The head that predicts node confidence and branch direction maps from features at stride 4."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

from treeformer.baselines.two_stage.target_maps import Maps

FEATURE_STRIDE = 4
CHANNELS_PER_CLASS = 3  # confidence, and x and y of the direction


class MapHead(nn.Module):
    """Upsample like a feature pyramid. The lateral input is the image, because the backbone has no finer stage.

    The cells of the maps have 4, 2 or 1 px. Channels are halved at each doubling of the resolution, down to
    `min_channels`.
    """

    def __init__(self, channels: int, classes: int, stride: int, min_channels: int = 32) -> None:
        super().__init__()
        self.strides = [s for s in (2, 1) if s >= stride]
        widths = [channels]
        for _ in self.strides:
            widths.append(max(widths[-1] // 2, min(min_channels, channels)))
        pairs = list(pairwise(widths))
        self.narrow = nn.ModuleList(nn.Conv2d(above, width, 1) for above, width in pairs)
        self.lateral = nn.ModuleList(nn.Conv2d(3, width, 3, padding=1) for _, width in pairs)
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _, width in pairs)
        self.last = nn.Conv2d(widths[-1], CHANNELS_PER_CLASS * classes, 1)
        nn.init.normal_(self.last.weight, std=0.01)
        assert self.last.bias is not None
        nn.init.zeros_(self.last.bias)

    def forward(self, features: Tensor, images: Tensor) -> Maps:
        """Predict the maps from features (B,channels,H/4,W/4) and images (B,3,H,W), RGB in [0,1]."""
        for index, stride in enumerate(self.strides):
            above = functional.interpolate(self.narrow[index](features), scale_factor=2.0, mode="nearest")
            image = functional.avg_pool2d(images, stride) - 0.5
            features = functional.relu(self.smooth[index](functional.relu(above + self.lateral[index](image))))
        return split_maps(self.last(features))


def split_maps(channels: Tensor) -> Maps:
    """Split (B,3·C,h,w) into C confidences, which come first, and C directions, both in float32."""
    batch, count, height, width = channels.shape
    classes = count // CHANNELS_PER_CLASS
    values = channels.float()
    return Maps(values[:, :classes], values[:, classes:].reshape(batch, classes, 2, height, width))
