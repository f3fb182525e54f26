"""The smallest and largest values of the settings of a network."""

from __future__ import annotations

import sys

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
    "edge_weight": 0,
    "denoising_weight": 0,
}
# Maximum values, by setting. Other whole numbers fit 32 bits, other numbers are finite.
MAXIMUM = {"dropout": 1.0, "node_threshold": 2.0}
MAX_WHOLE_NUMBER, MAX_NUMBER = 2**31 - 1, sys.float_info.max


def check_ranges(settings: object) -> None:
    """Check the numbers among the settings of a network.

    Args:
        settings: a `TreeFormerConfig`.

    Raises:
        TreeformerError: if a number is too small, too large, infinite or NaN.
    """
    for name, low in MINIMUM.items():
        value = getattr(settings, name)
        high = MAXIMUM.get(name, MAX_WHOLE_NUMBER if isinstance(value, int) else MAX_NUMBER)
        if not low <= value <= high:  # also true for NaN
            bound = f"at most {high:g}" if value > high else f"at least {low:g}"
            raise TreeformerError(f"{name} must be {bound}, not {short_repr(value)}")
