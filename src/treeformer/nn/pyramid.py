"""Turn a backbone's stages into the feature levels that the transformer reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from treeformer.nn.convolution import conv_add


class FeaturePyramid(nn.Module):
    """Feature pyramid network: coarse features are upsampled and added to finer ones.

    A stride-2 convolution on the last stage adds one more, coarsest level. The finest level has channels of its own,
    `fine_width`: it has most of the cells and therefore most of the cost. `channels` are those of the stages and
    `widths` those of the levels, fine to coarse.
    """

    def __init__(self, channels: Sequence[int], width: int, fine_width: int) -> None:
        super().__init__()
        widths = [fine_width, *[width] * (len(channels) - 1)]
        self.coarsest = nn.Conv2d(channels[-1], width, 3, 2, 1)
        self.lateral = nn.ModuleList(nn.Conv2d(c, w, 1) for c, w in zip(channels, widths, strict=True))
        self.narrow = nn.Conv2d(width, fine_width, 1)
        self.smooth = nn.ModuleList(nn.Conv2d(w, w, 3, padding=1) for w in widths)
        self.widths = [*widths, width]

    def forward(self, stages: Sequence[Tensor]) -> list[Tensor]:
        """Map stages (B,channels[i],h,w), fine to coarse, to levels (B,widths[i],h,w) and one coarser level."""
        above = conv_add(self.coarsest, stages[-1])
        levels = [above]
        lateral, smooth = ([cast(nn.Conv2d, conv) for conv in convs] for convs in (self.lateral, self.smooth))
        for index in reversed(range(len(stages))):
            if index == 0:
                above = conv_add(self.narrow, above)
            above = conv_add(lateral[index], stages[index], above)
            levels.insert(0, conv_add(smooth[index], above))
        return levels


class LevelProjections(nn.Module):
    """The levels of Deformable DETR: a 1×1 convolution and group normalization per stage.

    A stride-2 convolution on the last stage adds one more, coarsest level. `channels` are those of the stages and
    `widths` those of the levels, fine to coarse.
    """

    def __init__(self, channels: Sequence[int], width: int, groups: int = 32) -> None:
        super().__init__()
        self.project = nn.ModuleList(
            nn.Sequential(nn.Conv2d(count, width, 1), nn.GroupNorm(groups, width)) for count in channels
        )
        self.coarsest = nn.Sequential(nn.Conv2d(channels[-1], width, 3, 2, 1), nn.GroupNorm(groups, width))
        self.widths = [width] * (len(channels) + 1)

    def forward(self, stages: Sequence[Tensor]) -> list[Tensor]:
        """Map stages (B,channels[i],h,w), fine to coarse, to levels (B,width,h,w) and one coarser level."""
        levels = [project(stage) for project, stage in zip(self.project, stages, strict=True)]
        return [*levels, self.coarsest(stages[-1])]
