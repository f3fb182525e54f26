"""Settings of a TreeFormer: one frozen dataclass and its named configurations.

They are `default`, `small`, `paper` and `tiny`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from treeformer._util.config import build, convert_fields
from treeformer.errors import TreeformerError
from treeformer.models.ranges import check_blocks, check_ranges, check_tinyvit

Constraint = Literal["none", "test", "train", "both"]
"""When edges are projected onto a tree: never, at inference, in training, or in both."""

FORMER_NAMES = {
    "heat_parts": "heatmap_upsampling",
    "spare_tokens": "num_negative_tokens",
    "context_orders": "num_harmonics",
    "point_reach_px": "point_loss_scale_px",
}
"""Setting names of earlier versions, found in their model folders and checkpoints, mapped to the current names."""


class Regime:
    """The paper's four regimes, for every configuration with a `constraint`."""

    constraint: Constraint  # when edges are projected onto a tree

    @property
    def constrained_in_training(self) -> bool:
        """True if training has a tree loss: that of the SFS layer, or the one that replaces it."""
        return self.constraint in ("train", "both")

    @property
    def constrained_at_inference(self) -> bool:
        """True if the decoded graph is a spanning tree. Otherwise every likely edge is kept."""
        return self.constraint in ("test", "both")


@dataclass(frozen=True)
class TreeFormerConfig(Regime):
    """Architecture and losses of a TreeFormer.

    The default values are those of `default()`, except for `node_attributes`: model folders that were written before
    this setting existed have no attribute head.
    """

    # ---- image features

    backbone: Literal["resnet", "tinyvit"] = "resnet"
    """Kind of the backbone."""

    backbone_blocks: tuple[int, ...] = (3, 4, 6)
    """Blocks per stage. (3, 4, 6, 3) is a full ResNet-50, (2, 2, 6, 2) a TinyViT-5M."""

    backbone_channels: int = 64
    """Channels of the backbone's stem. In a TinyViT, a multiple of 4."""

    frozen_stages: int = 1
    """Number of backbone parts that are not trained: 1 is the stem, 2 adds the stage of stride 4, and so on. 4 freezes
    a whole TinyViT."""

    neck: Literal["pyramid", "encoder"] = "pyramid"
    """Feature pyramid from stride 4 on, or the encoder of Deformable DETR from stride 8 on."""

    width: int = 192
    """Channels of the tokens and of all feature levels except the finest level of the pyramid."""

    fine_width: int = 96
    """Channels of the finest level of the pyramid."""

    encoder_layers: int = 0
    """Layers of the neck "encoder"."""

    # ---- tokens and decoder

    tokens: int = 160
    """Number of object tokens, which is the largest number of nodes per image."""

    token_source: Literal["heat_map", "learned"] = "heat_map"
    """Initial object tokens: at the peaks of the heat map, or learned."""

    heatmap_upsampling: int = 2
    """Cells of the heat map along each side of one cell of the finest level: 1, 2 or 4."""

    grid_px: float = 44.0
    """Spacing of the grid on which the nodes of curves lie, px, a multiple of the stride 4. 0 means no grid."""

    decoder_layers: int = 4
    """Layers of the decoder."""

    heads: int = 8
    """Heads of every attention."""

    sampling_points: int = 4
    """Points that each head of a deformable attention samples per level."""

    feed_forward: int = 768
    """Hidden channels of the feed-forward blocks between attentions."""

    dropout: float = 0.0
    """Dropout probability in encoder and decoder."""

    decoder_min_stride: int = 4
    """Smallest stride of the levels that the object tokens attend to, px. 4 is the finest level of the pyramid."""

    relation_min_stride: int = 32
    """Smallest stride of the levels that the relation token attends to, px."""

    # ---- heads

    relation_hidden: int = 128
    """Hidden channels of the relation head."""

    segment_channels: int = 32
    """Channels that the relation head samples along a segment. 0 means that it does not read the image."""

    segment_points: int = 8
    """Samples per segment, an even number."""

    num_harmonics: int = 8
    """Angular harmonics of the other edges at a pair's nodes, input of a second edge prediction. 0 disables it."""

    node_attributes: bool = False
    """Predict the radius of each node and the direction to its parent."""

    node_kinds: bool = False
    """Predict kind and degree of each node and the directions of all its neighbors, and let the relation head read
    these directions."""

    center_lines: bool = False
    """Predict a map of the center lines of all branches and of their tangents, and let the relation head read it along
    the segment of a pair."""

    # ---- tree constraint

    constraint: Constraint = "both"
    """When edges are projected onto a tree: never, at inference, in training, or in both."""

    tree_loss: Literal["sfs", "likelihood", "hinge"] = "sfs"
    """Second edge loss, if training is constrained."""

    suppression: float = 10.0
    """Λ of the SFS layer, Eq. (8), a logit."""

    edge_cost: Literal["margin", "distance"] = "margin"
    """Edge cost of the spanning tree: f⁻ − f⁺, or y⁻ times the distance of the nodes in px."""

    # ---- training

    gather_gradients: bool = False
    """Compute the gradients of the relation head's gathers by other gathers instead of atomic additions."""

    fused_convolutions: bool = False
    """Compute convolution, normalization, sum and ReLU of the backbone by one operation in training too."""

    auxiliary_losses: bool = True
    """Apply node and point losses after every decoder layer instead of only the last."""

    denoising: bool = False
    """Add tokens at displaced ground-truth nodes, which need no matching."""

    denoising_px: float = 3.0
    """Standard deviation of that displacement along each axis, px."""

    num_negative_tokens: int = 16
    """Largest number of unmatched tokens in the edge losses. The most confident are taken."""

    node_threshold: float = 0.5
    """Probability from which an unmatched token counts as a (false) node in training. Above 1, none does."""

    heat_sigma: float = 0.8
    """Standard deviation of the Gaussians of the heat map, in cells."""

    match_score: float = 1.0
    """Matching cost of the node probability."""

    match_point: float = 0.1
    """Matching cost per px of L1 distance."""

    node_loss: Literal["focal", "balanced"] = "focal"
    """Focal loss, or cross entropy with class weights 0.8 and 0.2."""

    edge_weights: Literal["paper", "released"] = "paper"
    """Weights of the two terms of Eq. (11): 1 and 1, or those of the released code, 1.5 and 12."""

    heat_weight: float = 1.0
    """Weight of the heat map loss."""

    offset_weight: float = 0.2
    """Weight of the offset loss, per px of L1 distance."""

    node_weight: float = 2.0
    """Weight of the node loss."""

    point_weight: float = 0.2
    """Weight of the point loss, per px of L1 distance."""

    point_loss_scale_px: float = 4.0
    """L1 distance at which the slope of the logarithmic point loss is halved, px. 0 selects the plain L1 loss."""

    box_weight: float = 0.0
    """Weight of 1 − GIoU of two squares of side `box_side_px` around the points."""

    box_side_px: float = 8.0
    """Side of those squares, px."""

    root_weight: float = 1.0
    """Weight of the root loss."""

    radius_weight: float = 1.0
    """Weight of the loss of log(r + 0.5), with the radius r in px."""

    parent_direction_weight: float = 0.5
    """Weight of the loss of the unit vector to the parent."""

    kind_weight: float = 0.2
    """Weight of the losses of kind and degree of nodes."""

    neighbor_weight: float = 0.1
    """Weight of the loss of the directions of a node's neighbors, per direction."""

    line_weight: float = 0.05
    """Weight of the loss of the center lines, per cell of 2 px."""

    tangent_weight: float = 0.02
    """Weight of the loss of the tangents of center lines, per cell of 2 px."""

    edge_weight: float = 1.0
    """Weight of both edge losses."""

    hard_pair_weight: float = 1.0
    """Weight of pairs that are easily confused, relative to the others: a true edge with a third node beside it, and
    the pairs of this node and the ends of the edge."""

    hard_pair_px: float = 4.0
    """Largest distance of the third node from the edge, px."""

    denoising_weight: float = 1.0
    """Weight of all losses of the denoising tokens."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_ranges(self)
        if self.width % self.heads or self.width % 4:
            raise TreeformerError(f"width {self.width} is not a multiple of 4 and of the {self.heads} heads")
        if self.neck == "encoder" and self.width % 32:
            raise TreeformerError(
                f"width {self.width} is not a multiple of 32, the number of normalization groups in the encoder"
            )
        if self.tree_loss != "sfs" and self.edge_cost != "margin":
            raise TreeformerError(
                f"tree_loss {self.tree_loss!r} needs edge_cost 'margin', but edge_cost is {self.edge_cost!r}"
            )
        if self.backbone == "tinyvit":
            check_tinyvit(self.backbone_blocks, self.backbone_channels)
        # The encoder starts at the second stage.
        check_blocks(self.backbone_blocks, stages=1 if self.neck == "pyramid" else 2)
        # The last two stages of a TinyViT have the same stride.
        coarsest = 4 * 2 ** (3 if self.backbone == "tinyvit" else len(self.backbone_blocks))
        if self.decoder_min_stride > coarsest:
            raise TreeformerError(
                f"decoder_min_stride must be at most {coarsest}, the coarsest stride, not {self.decoder_min_stride}"
            )
        if self.relation_min_stride > coarsest:
            raise TreeformerError(
                f"relation_min_stride must be at most {coarsest}, the coarsest stride, not {self.relation_min_stride}"
            )
        if self.neck == "pyramid" and self.relation_min_stride <= 4 and self.fine_width != self.width:
            raise TreeformerError(
                f"relation_min_stride must be at least 8, not {self.relation_min_stride}: the finest level has"
                f" {self.fine_width} channels, not {self.width}"
            )
        if self.heatmap_upsampling not in (1, 2, 4):
            raise TreeformerError(f"heatmap_upsampling must be one of 1, 2, 4, not {self.heatmap_upsampling}")
        if self.segment_points % 2:
            raise TreeformerError(f"segment_points must be an even number, not {self.segment_points}")

    @classmethod
    def default(cls, **changes: Any) -> TreeFormerConfig:
        """Return the default, which trains in minutes: tokens at heat map peaks, edges read along their segments."""
        return cls(**({"node_attributes": True} | changes))

    @classmethod
    def small(cls, **changes: Any) -> TreeFormerConfig:
        """Return a default of 2.1 million parameters, for browsers and laptops; it learns by distillation."""
        settings: dict[str, Any] = {
            "backbone_blocks": (2, 3, 5),
            "backbone_channels": 24,
            "frozen_stages": 0,
            "width": 96,
            "fine_width": 48,
            "decoder_layers": 2,
            "decoder_min_stride": 8,
            "heads": 4,
            "feed_forward": 384,
            "relation_hidden": 64,
            "segment_channels": 16,
            "node_attributes": True,
        }
        return cls(**(settings | changes))

    @classmethod
    def paper(cls, **changes: Any) -> TreeFormerConfig:
        """Return RelationFormer on Deformable DETR, as described in the paper, in the sizes of its released code."""
        settings: dict[str, Any] = {
            "backbone_blocks": (3, 4, 6, 3),
            "frozen_stages": 2,
            "neck": "encoder",
            "width": 128,
            "encoder_layers": 4,
            "tokens": 600,
            "token_source": "learned",
            "grid_px": 0.0,
            "feed_forward": 128,
            "dropout": 0.15,
            "relation_min_stride": 8,
            "segment_channels": 0,
            "num_harmonics": 0,
            "auxiliary_losses": False,
            "denoising": False,
            # The released weights refer to an image side of 1. They are converted to px of a 512×512 image.
            "match_score": 3.0,
            "match_point": 5 / 512,
            "node_loss": "balanced",
            "node_weight": 3.0,
            "point_weight": 5 / 512,
            "point_loss_scale_px": 0.0,
            "box_weight": 2.0,
        }
        return cls(**(settings | changes))

    @classmethod
    def tiny(cls, **changes: Any) -> TreeFormerConfig:
        """Return a small default for tests and laptops. It learns a few images on a CPU in minutes."""
        settings: dict[str, Any] = {
            "backbone_blocks": (1, 1, 1),
            "backbone_channels": 16,
            "frozen_stages": 0,
            "width": 64,
            "fine_width": 32,
            "tokens": 32,
            "decoder_layers": 2,
            "heads": 4,
            "sampling_points": 2,
            "feed_forward": 128,
            "relation_hidden": 64,
            "segment_channels": 16,
            "segment_points": 8,
            "node_attributes": True,
        }
        return cls(**(settings | changes))

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> TreeFormerConfig:
        """Return the configuration that `dataclasses.asdict` turned into `settings`, with current or former names.

        Raises:
            TreeformerError: If a setting is unknown or has an invalid value.

        >>> TreeFormerConfig.from_dict({"spare_tokens": 8}).num_negative_tokens
        8
        """
        settings = {FORMER_NAMES.get(name, name): value for name, value in settings.items()}
        unknown = sorted(settings.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise TreeformerError(f"TreeFormer has no setting {unknown[0]!r}")
        return build(cls, settings, "settings")

    @property
    def edge_term_weights(self) -> tuple[float, float]:
        """Weights of the unconstrained and of the constrained term of Eq. (11).

        Those of the released code are 1.5 and 12, or 3 without the constraint. They are scaled to the paper's sum of 2.
        """
        if self.edge_weights == "paper":
            return (1.0, 1.0) if self.constrained_in_training else (1.0, 0.0)
        scale = 2 / (1.5 + 12)
        return (1.5 * scale, 12 * scale) if self.constrained_in_training else (3 * scale, 0.0)
