"""A small network, and settings for it, with which an engine has something to say."""

from __future__ import annotations

import torch

from treeformer.models import TreeFormer, TreeFormerConfig

SIDE = 64
LARGE = 1e5  # a variance that float16 cannot hold
THRESHOLDS = {"node_threshold": 0.45, "candidate_score": 0.4, "root_threshold": 0.45, "peak_heat": 0.03}


def network():
    """An untrained network, but one that says something else about every picture and every token."""
    torch.manual_seed(0)
    small = {"backbone_blocks": (1, 1), "decoder_layers": 1, "relation_min_stride": 16}  # tracing takes its time
    model = TreeFormer(TreeFormerConfig.tiny(tokens=24, **small))
    with torch.no_grad():
        for head, bias in ((model.decoder.node_heads[-1], -3.4), (model.root_head, -1.0)):
            head.weight.mul_(3)
            head.bias.fill_(bias)
        model.heat_map.layers[-1].weight.mul_(100)
        model.backbone.bn1.running_var[0] = LARGE
    return model.eval()
