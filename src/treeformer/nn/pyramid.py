"""Turn a backbone's stages into the feature levels that the transformer reads."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.inference_mode import is_inference_on_gpu


class FeaturePyramid(nn.Module):
    """Feature pyramid network: coarse features are upsampled and added to finer ones.

    A stride-2 convolution on the last stage adds one more, coarsest level.

    Args:
        channels: channels of the stages, fine to coarse.
        width: channels of all levels except the finest.
        fine_width: channels of the finest level. It has most of the cells and therefore most of the cost.

    Attributes:
        widths: channels of the levels, fine to coarse.
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
        above = self.coarsest(stages[-1])
        levels = [above]
        for index in reversed(range(len(stages))):
            if index == 0:
                above = self.narrow(above)
            above = add_upsampled(self.lateral[index](stages[index]), above)
            levels.insert(0, self.smooth[index](above))
        return levels


def add_upsampled(fine: Tensor, coarse: Tensor) -> Tensor:
    """Add a map to one of twice its size; each of its cells is added to four.

    Args:
        fine: (B,C,2·h,2·w).
        coarse: (B,C,h,w).

    Returns:
        (B,C,2·h,2·w).
    """
    if is_inference_on_gpu(fine):  # autocast would enlarge the map in float32
        batch, channels, height, width = coarse.shape
        cells = fine.permute(0, 2, 3, 1).reshape(batch, height, 2, width, 2, channels)
        total = cells + coarse.permute(0, 2, 3, 1)[:, :, None, :, None]
        return total.flatten(3, 4).flatten(1, 2).permute(0, 3, 1, 2)
    return fine + functional.interpolate(coarse, scale_factor=2.0, mode="nearest")


class LevelProjections(nn.Module):
    """The levels of Deformable DETR: a 1×1 convolution and group normalization per stage.

    A stride-2 convolution on the last stage adds one more, coarsest level.

    Args:
        channels: channels of the stages, fine to coarse.
        width: channels of all levels.
        groups: groups of the normalization.

    Attributes:
        widths: channels of the levels, fine to coarse.
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
