"""The smallest and largest values of the settings of a network."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from treeformer._util.text import short_repr
from treeformer.errors import TreeformerError

# Minimum values of numbers, by setting.
MINIMUM = {
    "backbone_channels": 1,
    "frozen_stages": 0,
    "width": 4,
    "fine_width": 1,
    "encoder_layers": 0,
    "tokens": 1,
    "heatmap_upsampling": 1,
    "grid_px": 0,
    "decoder_layers": 1,
    "heads": 1,
    "sampling_points": 1,
    "feed_forward": 1,
    "dropout": 0,
    "decoder_min_stride": 1,
    "relation_min_stride": 1,
    "relation_hidden": 1,
    "segment_channels": 0,
    "segment_points": 2,
    "num_harmonics": 0,
    "suppression": 0,
    "denoising_px": 0,
    "num_negative_tokens": 0,
    "node_threshold": 0,
    "heat_sigma": 1e-3,
    "match_score": 0,
    "match_point": 0,
    "heat_weight": 0,
    "offset_weight": 0,
    "node_weight": 0,
    "point_weight": 0,
    "point_loss_scale_px": 0,
    "box_weight": 0,
    "box_side_px": 1e-3,
    "root_weight": 0,
    "radius_weight": 0,
    "parent_direction_weight": 0,
    "kind_weight": 0,
    "neighbor_weight": 0,
    "line_weight": 0,
    "tangent_weight": 0,
    "edge_weight": 0,
    "hard_pair_weight": 0,
    "hard_pair_px": 0,
    "denoising_weight": 0,
}
# Maximum values, by setting. Other whole numbers fit 32 bits, other numbers are finite.
MAXIMUM = {"dropout": 1.0, "node_threshold": 2.0}
MAX_WHOLE_NUMBER, MAX_NUMBER = 2**31 - 1, sys.float_info.max


def check_ranges(
    settings: object, minimum: Mapping[str, float] = MINIMUM, maximum: Mapping[str, float] = MAXIMUM
) -> None:
    """Reject numbers among the settings of a network that are too small, too large, infinite or NaN.

    `minimum` and `maximum` map settings to their limits, by default those of a `TreeFormerConfig`.
    """
    for name, low in minimum.items():
        value = getattr(settings, name)
        high = maximum.get(name, MAX_WHOLE_NUMBER if isinstance(value, int) else MAX_NUMBER)
        if not low <= value <= high:  # also true for NaN
            bound = f"at most {high:g}" if value > high else f"at least {low:g}"
            raise TreeformerError(f"{name} must be {bound}, not {short_repr(value)}")


def check_blocks(blocks: tuple[int, ...], stages: int = 1) -> None:
    """Reject a backbone with fewer than `stages` stages, or with a stage without a bottleneck.

    `blocks` are the bottlenecks per stage.
    """
    if len(blocks) < stages or min(blocks) < 1:
        raise TreeformerError(f"backbone_blocks must be {stages} or more numbers of at least 1, not {list(blocks)}")


def check_tinyvit(blocks: tuple[int, ...], channels: int) -> None:
    """Check the sizes of a TinyViT, which has four stages and halves and quarters of its first channels.

    `blocks` are the blocks per stage. `channels` are those of the first stage, a multiple of 4.
    """
    if len(blocks) != 4:
        raise TreeformerError(f"backbone 'tinyvit' needs 4 backbone_blocks, such as [2, 2, 6, 2], not {list(blocks)}")
    if channels % 4:
        raise TreeformerError(f"backbone 'tinyvit' needs backbone_channels that are a multiple of 4, not {channels}")
