"""A small untrained network with varied predictions, thresholds and images for it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from treeformer._util.arrays import ImageArray
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.synthetic import make_image

SIDE = 64
LARGE = 1e5  # a variance that float16 cannot hold
THRESHOLDS = {"node_threshold": 0.3, "candidate_threshold": 0.25, "root_threshold": 0.6, "min_peak_heat": 0.0245}


def network(**options: Any) -> TreeFormer:
    """Return an untrained network with all heads, whose predictions differ between images and between tokens.

    Args:
        **options: Fields of `TreeFormerConfig` to change.
    """
    torch.manual_seed(5)  # with this seed the heat and the scores of different images overlap
    small = {"backbone_blocks": (1, 1), "decoder_layers": 1, "relation_min_stride": 16}  # because tracing is slow
    heads = {"node_kinds": True, "center_lines": True}
    model = TreeFormer(TreeFormerConfig.tiny(**({"tokens": 24} | small | heads | options)))
    with torch.no_grad():
        for head in (*model.decoder.node_heads, model.root_head):
            head.weight.mul_(3)
            head.bias.zero_()
        model.heat_map.layers[-1].weight.mul_(100)
        model.attribute_head.weight.normal_()
        for name, parameter in model.named_parameters():
            if name.startswith(TreeFormer.new_parts[1:]):
                parameter.normal_(std=0.5)
        model.backbone.bn1.running_var[0] = LARGE
    return model.eval()


def drawn_and_painted(count: int) -> ImageArray:
    """Return (count,SIDE,SIDE,3) images of plants, by turns in the styles paper and photo."""
    styles = itertools.islice(itertools.cycle(["paper", "photo"]), count)
    return np.stack([make_image("paper", style, seed, (SIDE, SIDE))[0] for seed, style in enumerate(styles)])
