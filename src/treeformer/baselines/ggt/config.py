"""Settings of a GGT, checked."""

from __future__ import annotations

from dataclasses import dataclass

from treeformer._util.config import convert_fields
from treeformer.errors import TreeformerError
from treeformer.models.config import Constraint, Regime
from treeformer.models.ranges import check_blocks, check_ranges

# Minimum values of numbers, by setting.
MINIMUM = {
    "backbone_channels": 1,
    "frozen_stages": 0,
    "max_nodes": 1,
    "width": 4,
    "layers": 1,
    "heads": 1,
    "feed_forward": 1,
    "dropout": 0,
    "relation_hidden": 1,
    "suppression": 0,
    "end_weight": 0,
    "point_weight": 0,
    "root_weight": 0,
    "edge_weight": 0,
}


@dataclass(frozen=True)
class GGTConfig(Regime):
    """Architecture and losses of a GGT. Its number of parameters is about that of the default TreeFormer."""

    # ---- image features: the backbone of TreeFormer, so that both start from the same weights

    backbone_blocks: tuple[int, ...] = (3, 4, 6)
    """Bottlenecks per ResNet stage. The decoder attends to the last stage."""

    backbone_channels: int = 64
    """Channels of the backbone's stem."""

    frozen_stages: int = 1
    """Number of backbone parts that are not trained: 1 is the stem, 2 adds layer1, and so on."""

    # ---- decoder

    max_nodes: int = 160
    """Largest number of nodes per image."""

    width: int = 256
    """Channels of a step, as in GGT."""

    layers: int = 6
    """Layers of the decoder. GGT has 12, without attention to the image."""

    heads: int = 8
    """Attention heads, as in GGT."""

    feed_forward: int = 1024
    """Hidden channels of the feed-forward blocks. GGT has 2048."""

    dropout: float = 0.0
    """Dropout probability, as in GGT."""

    relation_hidden: int = 128
    """Hidden channels of the adjacency head, half the width as in GGT."""

    # ---- tree constraint

    constraint: Constraint = "both"
    """When edges are projected onto a tree: never, at inference, in training, or in both."""

    suppression: float = 10.0
    """Λ of the SFS layer, Eq. (8), a logit."""

    # ---- training; all losses are sums over nodes, divided by the number of nodes

    end_weight: float = 1.0
    """Weight of the cross entropy of "another node or the end". GGT has no such loss."""

    point_weight: float = 0.05
    """Weight of the point loss, per px of L1 distance. GGT weights coordinates and adjacency 1 : 1 in its own units."""

    root_weight: float = 1.0
    """Weight of the root loss, as in TreeFormer."""

    edge_weight: float = 1.0
    """Weight of both terms of Eq. (11)."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_ranges(self, MINIMUM)
        check_blocks(self.backbone_blocks)
        if self.width % self.heads or self.width % 4:
            raise TreeformerError(f"width {self.width} is not a multiple of 4 and of the {self.heads} heads")

    @property
    def edge_term_weights(self) -> tuple[float, float]:
        """Weights of the unconstrained and of the constrained term of Eq. (11), with the same sum in every regime.

        The released code of TreeFormer does the same: 3 and 3 with the constraint, 6 without it.
        """
        return (1.0, 1.0) if self.constrained_in_training else (2.0, 0.0)
