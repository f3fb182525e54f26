"""From features at stride 4 to node confidence and branch direction maps at a finer stride."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

from treeformer.baselines.two_stage.target_maps import Maps

FEATURE_STRIDE = 4
CHANNELS_A_CLASS = 3  # confidence, and x and y of the direction


class MapHead(nn.Module):
    """Goes on as a feature pyramid does, where the backbone has no stage left: the image comes in from the side.

    Args:
        channels: of the features; halved at each doubling of the resolution, but not below `least_channels`.
        stride: px a cell of the maps: 4, 2 or 1.
    """

    def __init__(self, channels: int, classes: int, stride: int, least_channels: int = 32) -> None:
        super().__init__()
        self.strides = [s for s in (2, 1) if s >= stride]
        widths = [channels]
        for _ in self.strides:
            widths.append(max(widths[-1] // 2, min(least_channels, channels)))
        pairs = list(pairwise(widths))
        self.narrow = nn.ModuleList(nn.Conv2d(above, width, 1) for above, width in pairs)
        self.lateral = nn.ModuleList(nn.Conv2d(3, width, 3, padding=1) for _, width in pairs)
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _, width in pairs)
        self.last = nn.Conv2d(widths[-1], CHANNELS_A_CLASS * classes, 1)
        nn.init.normal_(self.last.weight, std=0.01)
        nn.init.zeros_(self.last.bias)

    def forward(self, features: Tensor, images: Tensor) -> Maps:
        """Features (B,channels,H/4,W/4) and their images (B,3,H,W) in [0,1] → maps of cells of `stride` px."""
        for index, stride in enumerate(self.strides):
            above = functional.interpolate(self.narrow[index](features), scale_factor=2.0, mode="nearest")
            image = functional.avg_pool2d(images, stride) - 0.5
            features = functional.relu(self.smooth[index](functional.relu(above + self.lateral[index](image))))
        return split_maps(self.last(features))


def split_maps(channels: Tensor) -> Maps:
    """(B,3·C,h,w) → the confidences, which come first, and the directions, in float32."""
    batch, count, height, width = channels.shape
    classes = count // CHANNELS_A_CLASS
    nodes, directions = channels.float().split([classes, 2 * classes], dim=1)
    return Maps(nodes, directions.reshape(batch, classes, 2, height, width))
