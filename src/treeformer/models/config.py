"""The settings of a TreeFormer: one frozen record, and the three configurations that have names."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from treeformer.errors import TreeformerError

Constraint = Literal["none", "test", "train", "both"]


class Regime:
    """What the paper's four regimes mean, for every configuration that has a `constraint`."""

    constraint: Constraint

    @property
    def constrained_in_training(self) -> bool:
        """Whether a loss of the whole tree takes part: that of the SFS layer, or another in its place."""
        return self.constraint in ("train", "both")

    @property
    def constrained_at_inference(self) -> bool:
        """Whether the decoded graph is a spanning tree; otherwise every likely edge is kept."""
        return self.constraint in ("test", "both")


# Settings that model folders and checkpoints of earlier versions call differently.
FORMER_NAMES = {
    "heat_parts": "heatmap_upsampling",
    "spare_tokens": "num_negative_tokens",
    "context_orders": "num_harmonics",
    "point_reach_px": "point_loss_scale_px",
}


@dataclass(frozen=True)
class TreeFormerConfig(Regime):
    """Architecture and loss of a TreeFormer. The values given here are those of `default()`."""

    # ---- image features
    backbone_blocks: tuple[int, ...] = (3, 4, 6)  # bottlenecks of each ResNet stage; (3, 4, 6, 3) is all of a ResNet-50
    backbone_channels: int = 64  # channels of the backbone's stem
    frozen_stages: int = 1  # parts of the backbone that are not trained: 1 the stem, 2 also layer1, …
    neck: Literal["pyramid", "encoder"] = "pyramid"  # from stride 4 on, or Deformable DETR's encoder from stride 8 on
    width: int = 192  # channels of tokens and of all levels but the finest
    fine_width: int = 96  # channels of the finest level of the pyramid
    encoder_layers: int = 0  # of the neck "encoder"

    # ---- tokens and decoder
    tokens: int = 160  # object tokens: the most nodes an image can have
    token_source: Literal["heat_map", "learned"] = "heat_map"  # where object tokens begin
    heatmap_upsampling: int = 2  # cells of the heat map along each side of a cell of the finest level: 1, 2 or 4
    grid_px: float = 44.0  # spacing of the grid that nodes of curves lie on, a multiple of the stride 4; 0: of none
    decoder_layers: int = 4
    heads: int = 8  # of every attention
    sampling_points: int = 4  # that a head of deformable attention reads on each level
    feed_forward: int = 768  # hidden channels between attentions
    dropout: float = 0.0
    relation_min_stride: int = 32  # the relation token reads all cells of the levels from this stride on

    # ---- heads
    relation_hidden: int = 128  # hidden channels of the relation head
    segment_channels: int = (
        32  # channels that the relation head reads along a segment; 0: it does not look at the image
    )
    segment_points: int = 8  # places on a segment, an even number
    num_harmonics: int = 8  # angular harmonics of the other edges at a pair's nodes, for a second answer; 0: none

    # ---- the tree constraint
    constraint: Constraint = "both"  # when edges are projected onto a tree: never, at inference, in training, in both
    tree_loss: Literal["sfs", "likelihood", "hinge"] = "sfs"  # the second edge loss, where training has the constraint
    suppression: float = 10.0  # Λ of the SFS layer
    edge_cost: Literal["margin", "distance"] = "margin"  # of the spanning tree: f⁻ − f⁺, or y⁻ times the node distance

    # ---- training
    auxiliary_losses: bool = True  # node and point losses after every decoder layer, not only the last
    denoising: bool = False  # extra tokens at displaced true nodes, which need no matching
    denoising_px: float = 3.0  # standard deviation of the displacement along each axis
    num_negative_tokens: int = 16  # unmatched tokens, the most confident, that take part in the edge losses at most
    node_threshold: float = 0.5  # probability from which an unmatched token counts as a (false) node in training
    heat_sigma: float = 0.8  # of the heat map's Gaussians, in cells
    match_score: float = 1.0  # matching cost: of the node probability …
    match_point: float = 0.1  # … and of a pixel of L1 distance
    node_loss: Literal["focal", "balanced"] = "focal"  # or cross entropy with class weights 0.8 to 0.2
    edge_weights: Literal["paper", "released"] = "paper"  # of Eq. (11): 1 to 1, or the released code's 1.5 to 12
    heat_weight: float = 1.0
    offset_weight: float = 0.2  # a pixel of L1 distance
    node_weight: float = 2.0
    point_weight: float = 0.2  # a pixel of L1 distance …
    point_loss_scale_px: float = 4.0  # … which counts less and less beyond this: its slope is halved here; 0: as it is
    box_weight: float = 0.0  # of 1 − GIoU of boxes of a fixed side around the points …
    box_side_px: float = 8.0  # … and that side
    root_weight: float = 1.0
    edge_weight: float = 1.0
    denoising_weight: float = 1.0  # of all losses of the denoising tokens

    def __post_init__(self) -> None:
        for name, allowed in get_type_hints(type(self)).items():
            choices = get_args(allowed) if getattr(allowed, "__origin__", None) is Literal else ()
            if choices and getattr(self, name) not in choices:
                raise TreeformerError(f"{name} is {getattr(self, name)!r}, one of {', '.join(choices)} is needed")
        object.__setattr__(self, "backbone_blocks", tuple(self.backbone_blocks))
        if self.width % self.heads or self.width % 4:
            raise TreeformerError(f"width {self.width} is not a multiple of 4 and of the {self.heads} heads")
        if self.neck == "encoder" and self.width % 32:
            raise TreeformerError(
                f"width {self.width} is not a multiple of 32, the groups of the encoder's normalization"
            )
        if self.tree_loss != "sfs" and self.edge_cost != "margin":
            raise TreeformerError(
                f"tree_loss {self.tree_loss!r} scores edges by margin; edge_cost is {self.edge_cost!r}"
            )
        if self.heatmap_upsampling not in (1, 2, 4):
            raise TreeformerError(f"heatmap_upsampling is {self.heatmap_upsampling}, one of 1, 2, 4 is needed")
        if self.segment_points % 2:
            raise TreeformerError(f"segment_points is {self.segment_points}, an even number is needed")

    @classmethod
    def default(cls, **changes: Any) -> TreeFormerConfig:
        """Learns in minutes: tokens at heat-map peaks, a relation head that looks along the segments."""
        return cls(**changes)

    @classmethod
    def paper(cls, **changes: Any) -> TreeFormerConfig:
        """RelationFormer on Deformable DETR, as the paper describes it and its released code sizes it."""
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
            # The released weights, from sides of 1 to pixels of a 512×512 image.
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
        """The default in small, for tests and laptops: learns a handful of images on a CPU in minutes."""
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
        }
        return cls(**(settings | changes))

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> TreeFormerConfig:
        """Make a configuration from what `dataclasses.asdict` gave, under current or former names.

        Raises:
            TreeformerError: if a setting is unknown.
        """
        settings = {FORMER_NAMES.get(name, name): value for name, value in settings.items()}
        unknown = sorted(settings.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise TreeformerError(f"a TreeFormer has no setting {unknown[0]!r}")
        return cls(**settings)

    @property
    def edge_term_weights(self) -> tuple[float, float]:
        """Weights of the unconstrained and of the constrained term of Eq. (11).

        The released code's come out as 1.5 to 12, and 3 without the constraint; here scaled to the paper's sum of 2.
        """
        if self.edge_weights == "paper":
            return (1.0, 1.0) if self.constrained_in_training else (1.0, 0.0)
        scale = 2 / (1.5 + 12)
        return (1.5 * scale, 12 * scale) if self.constrained_in_training else (3 * scale, 0.0)
