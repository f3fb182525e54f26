"""What a TreeFormer answers: tensors with documented shapes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from treeformer.nn.matching import Matching


@dataclass
class Predictions:
    """What is said about Q tokens of each of B images; L is the number of supervised decoder layers."""

    layer_node_logits: Tensor  # (L,B,Q) log-odds of being a node, after each layer
    layer_points: Tensor  # (L,B,Q,2) px
    root_logits: Tensor  # (B,Q) log-odds of being the root of a plant
    edge_logits: Tensor  # (B,R,R,2) [no edge, edge], symmetric; R = Q, or fewer where `Output.selection` says which

    @property
    def node_logits(self) -> Tensor:
        """(B,Q), of the last layer."""
        return self.layer_node_logits[-1]

    @property
    def points(self) -> Tensor:
        """(B,Q,2) px, of the last layer."""
        return self.layer_points[-1]


@dataclass
class Output(Predictions):
    """The answer of `TreeFormer.forward`: predictions for the K object tokens, and what training needs besides."""

    heat: Tensor | None = None  # (B,h,w) logits of the node heat map
    offsets: Tensor | None = None  # (B,h·w,2) from cell centers to nodes, in cells
    heat_stride: int = 0  # px a cell
    matching: Matching | None = None  # where targets were given
    selection: Tensor | None = None  # (B,R) the tokens that `edge_logits` are about; None: all of them
    denoising: Predictions | None = None  # for tokens at displaced true nodes, one for each target
