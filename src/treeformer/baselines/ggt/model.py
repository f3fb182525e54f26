"""GGT, the autoregressive baseline: generates a graph from an image, node by node in breadth-first order.

backbone → cells; per step: previous node → causal decoder → end or not, point, edges to earlier nodes
Based on the Generative Graph Transformer of Belli and Kipf (2019). docs/lab/ggt.md explains the differences.

Images are (B,3,H,W) RGB in [0,1]; H and W are multiples of the backbone's stride, 16 px.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.baselines.ggt.breadth_first import sort_breadth_first
from treeformer.baselines.ggt.causal import CausalDecoder, KeysValues
from treeformer.baselines.ggt.config import GGTConfig
from treeformer.decoding.decode import decode
from treeformer.errors import TreeformerError
from treeformer.nn.backbone import ResNet
from treeformer.nn.losses import edge_losses
from treeformer.nn.positions import cell_centers, sine_positions
from treeformer.nn.sfs import SFS, edge_margin
from treeformer.nn.targets import Targets
from treeformer.nn.transformer import MLP
from treeformer.skeleton import Skeleton


@dataclass
class GGTOutput:
    """Output of a GGT for B images: N nodes each, in the order in which they are generated."""

    node_logits: Tensor  # (B,N) log-odds that another node follows. −inf after the end of the sequence.
    points: Tensor  # (B,N,2) px
    root_logits: Tensor  # (B,N) log-odds of being the root of a plant
    edge_logits: Tensor  # (B,N,N,2) logits of [no edge, edge], symmetric, 0 on the diagonal
    end_logits: Tensor | None = None  # (B,) log-odds that another node follows after the N nodes. Only in training.
    target: Targets | None = None  # targets in breadth-first order; only in training


class StepPrediction(NamedTuple):
    """Predictions of S steps for the next node."""

    node_logits: Tensor  # (B,S)
    points: Tensor  # (B,S,2) px
    root_logits: Tensor  # (B,S)


class GGT(nn.Module):
    """The network.

    Example:
        >>> small = GGTConfig(backbone_blocks=(1, 1), backbone_channels=8, width=32, layers=1, max_nodes=4)
        >>> model = GGT(small).eval()
        >>> model.decode(model(torch.rand(1, 3, 64, 64)))[0].is_forest
        True
    """

    def __init__(self, config: GGTConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or GGTConfig()
        width = config.width
        self.backbone = ResNet(config.backbone_blocks, config.backbone_channels, config.frozen_stages)
        self.project = nn.Conv2d(self.backbone.channels[-1], width, 1)
        self.norm_cells = nn.LayerNorm(width)
        # Row 0 is the start token. Row i + 1 stands for node i, as a step of the sequence and as a neighbor.
        self.steps = nn.Parameter(torch.randn(config.max_nodes + 1, width))
        self.place = nn.Linear(width, width)
        self.neighbors = nn.Linear(width, width, bias=False)
        self.norm_steps = nn.LayerNorm(width)
        self.decoder = CausalDecoder(config.layers, width, config.heads, config.feed_forward, config.dropout)
        self.node_head = nn.Linear(width, 1)
        self.point_head = MLP(width, width, width, 2)
        self.root_head = nn.Linear(width, 1)
        self.edge_from = nn.Linear(width, config.relation_hidden)
        self.edge_to = nn.Linear(width, config.relation_hidden)
        self.edge_head = MLP(config.relation_hidden, config.relation_hidden, 2)
        self.sfs = SFS(config.suppression)
        self._losses = losses

    # ---- forward ------------------------------------------------------------------------------

    def forward(self, images: Tensor, targets: Targets | None = None) -> GGTOutput:
        """Predict the graphs of images. In training, each step gets the true nodes before it; all steps run at once.

        At most `max_nodes` target nodes are possible.
        """
        if targets is None:
            return self.generate(images)
        count, largest = targets.points.shape[1], self.config.max_nodes
        if count > largest:
            raise TreeformerError(f"the targets have {count} nodes, but max_nodes is {largest}")
        return self.forward_teacher_forced(images, sort_breadth_first(targets))

    def forward_teacher_forced(self, images: Tensor, target: Targets) -> GGTOutput:
        """Predict all steps at once, each from the true nodes, in breadth-first order, before it."""
        count = target.points.shape[1]
        image = self.encode(images)
        start = self.start_token(len(images))
        tokens = torch.cat([start, self.embed_nodes(target.points, target.adjacency.tril(-1), first=0)], dim=1)
        hidden, _ = self.decoder(tokens, image)
        predicted = self.predict_nodes(hidden, side_px=max(images.shape[-2:]))
        # Step i predicts node i, which is an input from step i + 1 on.
        edge_logits = self.predict_edges(hidden[:, :count], hidden[:, 1:])
        return GGTOutput(
            predicted.node_logits[:, :count],
            predicted.points[:, :count],
            predicted.root_logits[:, :count],
            symmetric(edge_logits),
            predicted.node_logits[:, count],
            target,
        )

    @torch.no_grad()
    def generate(self, images: Tensor) -> GGTOutput:
        """Predict node by node, each step from the predictions before it, until the graphs of all images have ended.

        N is the largest number of nodes in an image.
        """
        batch, largest = len(images), self.config.max_nodes
        output = GGTOutput(
            node_logits=images.new_full((batch, largest), -torch.inf),
            points=images.new_zeros(batch, largest, 2),
            root_logits=images.new_zeros(batch, largest),
            edge_logits=images.new_zeros(batch, largest, largest, 2),
        )
        image, past, token = self.encode(images), None, self.start_token(batch)
        known = token[:, :0]
        unfinished = torch.ones(batch, dtype=torch.bool, device=images.device)
        count = 0
        while count < largest:
            hidden, past = self.decoder(token, image, past)
            if count:
                known = torch.cat([known, hidden], dim=1)
            predicted = self.predict_nodes(hidden, side_px=max(images.shape[-2:]))
            unfinished = unfinished & (predicted.node_logits[:, 0] > 0)
            if not unfinished.any():
                break
            row = self.predict_edges(hidden, known)
            output.node_logits[:, count] = predicted.node_logits[:, 0].masked_fill(~unfinished, -torch.inf)
            output.points[:, count] = predicted.points[:, 0]
            output.root_logits[:, count] = predicted.root_logits[:, 0]
            output.edge_logits[:, count, :count] = row[:, 0]
            token = self.embed_nodes(predicted.points, edge_margin(row) < 0, first=count)
            count += 1
        edge_logits = symmetric(output.edge_logits[:, :count, :count])
        return GGTOutput(
            output.node_logits[:, :count], output.points[:, :count], output.root_logits[:, :count], edge_logits
        )

    # ---- parts --------------------------------------------------------------------------------

    def encode(self, images: Tensor) -> list[KeysValues]:
        """Compute the keys and values of images for each decoder layer."""
        stride = self.backbone.strides[-1]
        height, width = images.shape[-2:]
        if height % stride or width % stride:
            raise TreeformerError(f"image size must be a multiple of {stride} px, not {width}×{height} px")
        cells = self.norm_cells(self.project(self.backbone(images)[-1]).flatten(2).transpose(1, 2))
        centers = cell_centers(height // stride, width // stride, stride, images.device)
        return self.decoder.project_image(cells, sine_positions(centers, self.config.width))

    def start_token(self, batch: int) -> Tensor:
        """Return the input of the first step, (B,1,width)."""
        start: Tensor = self.norm_steps(self.steps[:1])
        return start.expand(batch, 1, -1)

    def embed_nodes(self, points: Tensor, rows: Tensor, *, first: int) -> Tensor:
        """Return the inputs (B,n,width) of the steps that follow consecutive nodes (B,n,2), px.

        `rows` (B,n,k) are their edges to the nodes 0 … k − 1, and `first` is the index of the first of these nodes.
        """
        neighbors = self.neighbors(rows.to(self.steps.dtype) @ self.steps[1 : rows.shape[2] + 1])
        own = self.steps[first + 1 : first + 1 + points.shape[1]]
        tokens: Tensor = self.norm_steps(self.place(sine_positions(points, self.config.width)) + neighbors + own)
        return tokens

    def predict_nodes(self, hidden: Tensor, side_px: float) -> StepPrediction:
        """Predict the next node of each step (B,S,width); points are fractions of the longer side, `side_px`."""
        points = self.point_head(hidden).float().sigmoid() * side_px
        node_logits = self.node_head(hidden).float().squeeze(-1)
        return StepPrediction(node_logits, points, self.root_head(hidden).float().squeeze(-1))

    def predict_edges(self, hidden: Tensor, known: Tensor) -> Tensor:
        """Predict the edges (B,S,K,2), [no edge, edge], between the next nodes and known nodes.

        `hidden` (B,S,width) are the steps that predict the next nodes, `known` (B,K,width) those whose inputs are the
        known ones.
        """
        pairs = self.edge_from(hidden)[:, :, None] + self.edge_to(known)[:, None]
        logits: Tensor = self.edge_head(functional.relu(pairs))
        return logits.float()

    # ---- training and use ---------------------------------------------------------------------

    def loss(self, output: GGTOutput, targets: Targets, node_count: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the weighted losses by name, see `losses`, for the output of `forward` with these targets.

        By default, sums are divided by the number of ground-truth nodes, at least 1.
        """
        if node_count is None:
            node_count = targets.mask.sum().clamp(min=1)
        return self._losses(self.config, self.sfs, output, node_count)

    @torch.no_grad()
    def decode(self, output: GGTOutput, **options: Any) -> list[Skeleton]:
        """Decode an output that was computed without targets; options are those of `treeformer.decoding.decode`."""
        options.setdefault("constrained", self.config.constrained_at_inference)
        arrays = (output.node_logits.sigmoid(), output.points, edge_margin(output.edge_logits), output.root_logits)
        images = zip(*(array.float().cpu().numpy() for array in arrays), strict=True)
        return [decode(*image, **options) for image in images]

    def compile_parts(self, **options: Any) -> None:
        """Compile the parts with fixed shapes, the training pass and the losses, with `torch.compile(**options)`."""
        options.setdefault("dynamic", False)
        compiled: Any = torch.compile(self.forward_teacher_forced, **options)
        self.forward_teacher_forced = compiled  # type: ignore[method-assign]  # for this instance only
        self._losses = torch.compile(self._losses, **options)


def losses(config: GGTConfig, sfs: SFS, output: GGTOutput, node_count: Tensor) -> dict[str, Tensor]:
    """Compute the weighted losses by name: end, point, root, edge, edge_constrained. Their sum is the objective.

    Sums over nodes are divided by `node_count`. The output must have targets.
    """
    target, end_logits = output.target, output.end_logits
    if target is None or end_logits is None:
        raise TreeformerError("the output has no targets: pass them to the model")
    mask = target.mask
    # For an image of n nodes, n + 1 steps predict whether another node follows.
    node_follows = functional.pad(mask, (0, 1))
    is_supervised = functional.pad(mask, (1, 0), value=True)
    node_logits = torch.cat([output.node_logits, end_logits[:, None]], dim=1)
    end = functional.binary_cross_entropy_with_logits(node_logits, node_follows.float(), reduction="none")
    distance = (output.points - target.points).abs().sum(-1)
    root = functional.binary_cross_entropy_with_logits(output.root_logits, target.root.float(), reduction="none")
    has_root = target.root.any(1, keepdim=True) & mask
    layer = sfs if config.constrained_in_training else None
    pairs = (mask[:, :, None] & mask[:, None, :]).float()
    unconstrained, constrained = edge_losses(
        output.edge_logits, target.adjacency, pairs, mask, output.root_logits, layer
    )
    first, second = config.edge_term_weights
    result = {
        "end": config.end_weight * (end * is_supervised).sum() / node_count,
        "point": config.point_weight * (distance * mask).sum() / node_count,
        "root": config.root_weight * (root * has_root).sum() / node_count,
        "edge": config.edge_weight * first * unconstrained / node_count,
    }
    if layer is not None:
        result["edge_constrained"] = config.edge_weight * second * constrained / node_count
    return result


def symmetric(rows: Tensor) -> Tensor:
    """Mirror the lower triangle of (B,N,N,C) to the upper one and set the diagonal to 0."""
    lower = rows * torch.ones(rows.shape[1:3], device=rows.device).tril(-1)[..., None]
    return lower + lower.transpose(1, 2)
