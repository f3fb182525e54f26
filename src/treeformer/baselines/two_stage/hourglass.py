"""A stacked hourglass network, which computes features at stride 4 by repeated down- and upsampling."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.backbone import IMAGENET_MEAN, IMAGENET_STD

STEM_CHANNELS = 64
GROUP_CHANNELS = 8  # channels per normalization group


class Residual(nn.Module):
    """Three convolutions, each preceded by normalization and ReLU, and a shortcut.

    Group normalization behaves the same in training and at inference, and on any number of devices.
    """

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        inner = channels // 2
        self.layers = nn.Sequential(
            *_convolution(channels_in, inner, 1), *_convolution(inner, inner, 3), *_convolution(inner, channels, 1)
        )
        self.shortcut = nn.Identity() if channels_in == channels else nn.Conv2d(channels_in, channels, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Map (B,channels_in,h,w) to (B,channels,h,w)."""
        result: Tensor = self.layers(features) + self.shortcut(features)
        return result


def _convolution(channels_in: int, channels: int, size: int) -> list[nn.Module]:
    """Return normalization, ReLU and a size×size convolution."""
    normalize = nn.GroupNorm(channels_in // GROUP_CHANNELS, channels_in)
    return [normalize, nn.ReLU(), nn.Conv2d(channels_in, channels, size, padding=size // 2)]


class Hourglass(nn.Module):
    """Halve the resolution `depth` times and double it again, with a skip connection at every resolution."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.across = Residual(width, width)
        self.down = Residual(width, width)
        self.inside = Hourglass(width, depth - 1) if depth > 1 else Residual(width, width)
        self.up = Residual(width, width)

    def forward(self, features: Tensor) -> Tensor:
        """Map (B,width,h,w) to the same shape. h and w are multiples of 2^depth."""
        coarse = self.up(self.inside(self.down(functional.max_pool2d(features, 2))))
        result: Tensor = self.across(features) + functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        return result


class StackedHourglass(nn.Module):
    """Residual blocks down to stride 4, then hourglasses. Each but the last makes a prediction that the next one reads.

    `depth` is the number of halvings per hourglass: the sides of images are multiples of 4 · 2^depth px. `width` is a
    multiple of 32, and `predicted` is the number of channels of the predictions.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, stacks: int, depth: int, width: int, predicted: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)
        self.stem = nn.Sequential(
            nn.Conv2d(3, STEM_CHANNELS, 7, 2, 3),
            Residual(STEM_CHANNELS, width // 2),
            nn.MaxPool2d(2),
            Residual(width // 2, width // 2),
            Residual(width // 2, width),
        )
        self.hourglasses = nn.ModuleList(Hourglass(width, depth) for _ in range(stacks))
        self.finish = nn.ModuleList(
            nn.Sequential(Residual(width, width), nn.Conv2d(width, width, 1), nn.ReLU()) for _ in range(stacks)
        )
        self.predict = nn.ModuleList(nn.Conv2d(width, predicted, 1) for _ in range(stacks - 1))
        self.return_features = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(stacks - 1))
        self.return_prediction = nn.ModuleList(nn.Conv2d(predicted, width, 1) for _ in range(stacks - 1))

    def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Compute features (B,width,H/4,W/4) and the intermediate predictions (B,predicted,H/4,W/4) of RGB in [0,1]."""
        hidden = self.stem((images - self.mean) / self.std)
        predictions = []
        for index, hourglass in enumerate(self.hourglasses):
            features = self.finish[index](hourglass(hidden))
            if index < len(self.predict):
                predictions.append(self.predict[index](features))
                hidden = hidden + self.return_features[index](features) + self.return_prediction[index](predictions[-1])
        return features, predictions
