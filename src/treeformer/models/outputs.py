"""Outputs of a TreeFormer and of its parts: tensors with documented shapes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from torch import Tensor

from treeformer.nn.decoder import Decoded
from treeformer.nn.deformable_attention import FeatureLevel
from treeformer.nn.matching import Matching


class Features(NamedTuple):
    """Image features, computed by `TreeFormer.encode`. All fields but `levels` are None if the tokens are learned."""

    levels: list[FeatureLevel]  # fine to coarse
    heat: Tensor | None  # (B,h,w) logits of the heat map
    offsets: Tensor | None  # (B,h·w,2) from the cell centers to the nodes, in cells
    peak_cell: Tensor | None  # (B,tokens) int64, the cells of the heat map's peaks, the hottest first
    peak_heat: Tensor | None  # (B,tokens) heat of those peaks, in [0,1]
    lines: Tensor | None = None  # (B,3,H,W), see `treeformer.nn.center_line`; None without that head
    blurred: FeatureLevel | None = None  # `lines` as the relation head reads it, see `treeformer.nn.line_evidence`


class Scene(NamedTuple):
    """What the relation head reads besides the object tokens."""

    relation: Tensor  # (B,width), the relation tokens
    fine: FeatureLevel  # the finest feature level
    lines: FeatureLevel | None = None  # blurred, see `treeformer.nn.line_evidence`; None if the head does not read them

    def images(self, rows: Tensor) -> Scene:
        """Return the part of some images, (G,) int64."""
        fine, lines = (
            None if level is None else level._replace(cells=level.cells.index_select(0, rows))
            for level in (self.fine, self.lines)
        )
        assert fine is not None
        return Scene(self.relation.index_select(0, rows), fine, lines)


class Detection(NamedTuple):
    """Everything but the edges, computed by `TreeFormer.detect`."""

    decoded: Decoded  # the object tokens, followed by the denoising tokens
    root_logits: Tensor  # (B,Q)
    scene: Scene
    features: Features
    active: Tensor | None = None  # (B,Q) bool, True for a token at a peak that is hot enough; None means all tokens
    attributes: Tensor | None = None  # as in `Predictions`
    kinds: Tensor | None = None  # as in `Predictions`

    def tokens(self, part: slice) -> Detection:
        """Return the detection of some of the tokens."""
        content, relation, node_logits, points = self.decoded
        return self._replace(
            decoded=Decoded(content[:, part], relation, node_logits[:, :, part], points[:, :, part]),
            root_logits=self.root_logits[:, part],
            active=None if self.active is None else self.active[:, part],
            attributes=None if self.attributes is None else self.attributes[:, part],
            kinds=None if self.kinds is None else self.kinds[:, part],
        )

    def predictions(self, edge_logits: Tensor) -> Predictions:
        """Return the predictions with these edges, (B,R,R,2) logits."""
        _, _, node_logits, points = self.decoded
        return Predictions(node_logits, points, self.root_logits, edge_logits, self.attributes, self.kinds)


@dataclass
class Predictions:
    """Predictions for Q tokens in each of B images. L is the number of supervised decoder layers."""

    layer_node_logits: Tensor  # (L,B,Q) log-odds of being a node, after each layer
    layer_points: Tensor  # (L,B,Q,2) px, after each layer
    root_logits: Tensor  # (B,Q) log-odds of being the root of a plant
    # (B,R,R,2) logits of [no edge, edge], symmetric. R is Q, or less if `Output.selection` is given.
    edge_logits: Tensor
    # (B,Q,3) log(r + 0.5) with the radius r in px, and the unit vector (dx, dy) to the parent. None if the network has
    # no attribute head.
    attributes: Tensor | None = None
    # (B,Q,WIDTH) logits of kinds, degrees and directions of neighbors, see `treeformer.nn.node_kind`. None without that
    # head.
    kinds: Tensor | None = None

    @property
    def node_logits(self) -> Tensor:
        """Node logits of the last layer, (B,Q)."""
        return self.layer_node_logits[-1]

    @property
    def points(self) -> Tensor:
        """Points of the last layer, (B,Q,2) px."""
        return self.layer_points[-1]


@dataclass
class TeacherOutput:
    """What a teacher predicts for a batch; see `treeformer.models.distillation`. D tokens, R of them with edges."""

    start: Tensor  # (B,D,2) px, the initial points of the tokens
    mask: Tensor  # (B,D) bool, True for a token at a peak that is hot enough
    selection: Tensor  # (B,R) int64, the tokens that `edge_logits` refers to
    heat: Tensor  # (B,h,w) logits of the heat map
    offsets: Tensor  # (B,h·w,2) from the cell centers to the nodes, in cells
    node_logits: Tensor  # (B,D)
    points: Tensor  # (B,D,2) px, after the last layer
    root_logits: Tensor  # (B,D)
    edge_logits: Tensor  # (B,R,R,2) logits of [no edge, edge]
    attributes: Tensor | None = None  # (B,D,3), None if the teacher has no attribute head

    def clone(self) -> TeacherOutput:
        """Return a copy."""
        return TeacherOutput(*(None if tensor is None else tensor.clone() for tensor in self._tensors()))  # type: ignore[arg-type]

    def copy_(self, other: TeacherOutput) -> None:
        """Copy the values of a guide of the same shapes into these tensors."""
        for own, given in zip(self._tensors(), other._tensors(), strict=True):
            if own is not None and given is not None:
                own.copy_(given)

    def _tensors(self) -> list[Tensor | None]:
        return [getattr(self, field.name) for field in fields(self)]


@dataclass
class Output(Predictions):
    """Output of `TreeFormer.forward`: predictions for the object tokens, and what the losses need in addition.

    Attributes:
        heat: (B,h,w) logits of the node heat map. None if the tokens are learned.
        offsets: (B,h·w,2) from the cell centers to the nodes, in cells. None if the tokens are learned.
        heat_stride: Side of a heat map cell, px.
        matching: The token of each target node, if targets were given.
        selection: (B,R) int64, the tokens that `edge_logits` refers to. None means all tokens.
        denoising: Predictions for the tokens at displaced ground-truth nodes, one per target node.
        guided: Predictions for the tokens of a guide, whose edges are those among `TeacherOutput.selection`.
        lines: (B,3,H,W) map of center lines, see `treeformer.nn.center_line`. None without that head.
    """

    heat: Tensor | None = None
    offsets: Tensor | None = None
    heat_stride: int = 0
    matching: Matching | None = None
    selection: Tensor | None = None
    denoising: Predictions | None = None
    guided: Predictions | None = None
    lines: Tensor | None = None


def rows_of(values: Tensor, index: Tensor) -> Tensor:
    """Return some rows of each image: (B,Q,C) and an int64 index (B,K) to (B,K,C)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))
