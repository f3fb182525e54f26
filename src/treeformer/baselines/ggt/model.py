"""GGT, the autoregressive baseline: an image in; a graph told node by node, breadth-first, out.

backbone → cells; at each step the last node told → masked decoder → is there a node more, where, joined to whom before
After the Generative Graph Transformer of Belli and Kipf (2019); docs/ggt.md says what differs, and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.baselines.ggt.breadth_first import told_in_order
from treeformer.baselines.ggt.causal import CausalDecoder, Remembered
from treeformer.decoding.decode import decode
from treeformer.errors import TreeformerError
from treeformer.models.config import Constraint, Regime
from treeformer.nn.backbone import ResNet
from treeformer.nn.losses import edge_losses
from treeformer.nn.positions import cell_centers, sine_positions
from treeformer.nn.sfs import SFS, edge_margin
from treeformer.nn.targets import Targets
from treeformer.nn.transformer import MLP
from treeformer.skeleton import Skeleton


@dataclass(frozen=True)
class GGTConfig(Regime):
    """Architecture and loss of a GGT; about as many parameters as the default TreeFormer has."""

    # ---- image features: the TreeFormer's own trunk, so that both start from the same weights
    backbone_blocks: tuple[int, ...] = (3, 4, 6)  # bottlenecks of each ResNet stage; the last stage is what is read
    backbone_channels: int = 64  # channels of the backbone's stem
    frozen_stages: int = 1  # parts of the backbone that are not trained: 1 the stem, 2 also layer1, …

    # ---- decoder
    max_nodes: int = 160  # the most nodes it can tell
    width: int = 256  # channels of a step, as GGT's
    layers: int = 6  # GGT has 12, without attention to the image in them
    heads: int = 8  # as GGT's
    feed_forward: int = 1024  # hidden channels between attentions; GGT has 2048
    dropout: float = 0.0  # as GGT's
    relation_hidden: int = 128  # hidden channels of the adjacency head, half the width as GGT's

    # ---- the tree constraint
    constraint: Constraint = "both"  # when edges are projected onto a tree: never, at inference, in training, in both
    suppression: float = 10.0  # Λ of the SFS layer

    # ---- training; all losses are sums over nodes divided by the number of nodes
    end_weight: float = 1.0  # of the cross entropy of "a node more or the end"; GGT has no such loss
    point_weight: float = 0.05  # a pixel of L1 distance; GGT weighs coordinates and adjacency 1 : 1 in its own units
    root_weight: float = 1.0  # as the TreeFormer's
    edge_weight: float = 1.0  # of both terms of Eq. (11)

    def __post_init__(self) -> None:
        if self.constraint not in get_args(Constraint):
            choices = ", ".join(get_args(Constraint))
            raise TreeformerError(f"constraint is {self.constraint!r}, one of {choices} is needed")
        object.__setattr__(self, "backbone_blocks", tuple(self.backbone_blocks))
        if self.width % self.heads or self.width % 4:
            raise TreeformerError(f"width {self.width} is not a multiple of 4 and of the {self.heads} heads")

    @property
    def edge_term_weights(self) -> tuple[float, float]:
        """Weights of the unconstrained and of the constrained term of Eq. (11), of the same sum in every regime.

        So are the released code's of TreeFormer: 3 and 3 with the constraint, 6 without.
        """
        return (1.0, 1.0) if self.constrained_in_training else (2.0, 0.0)


@dataclass
class Told:
    """What a GGT answers for B images: N nodes each, in the order in which they are told."""

    node_logits: Tensor  # (B,N) log-odds that there is a node more; -inf after the end
    points: Tensor  # (B,N,2) px
    root_logits: Tensor  # (B,N) log-odds of being the root of a plant
    edge_logits: Tensor  # (B,N,N,2) [no edge, edge], symmetric, 0 on the diagonal
    end_logits: Tensor | None = None  # (B,) in training: log-odds that there is a node after the N nodes
    target: Targets | None = None  # in training: the targets in the order in which they are told


class Said(NamedTuple):
    """What the heads make of S steps."""

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
        # Row 0 is the beginning; row i + 1 stands for node i, as a step of the sequence and as a neighbor.
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

    def forward(self, images: Tensor, targets: Targets | None = None) -> Told:
        """Tell the graphs of images.

        Args:
            images: (B,3,H,W) RGB in [0,1]; H and W are multiples of the backbone's stride (16).
            targets: given in training: every step is told the true nodes before it, and all steps run at once.
        """
        if targets is None:
            return self.tell(images)
        if targets.points.shape[1] > self.config.max_nodes:
            raise TreeformerError(f"targets of {targets.points.shape[1]} nodes for at most {self.config.max_nodes}")
        return self.follow(images, told_in_order(targets))

    def follow(self, images: Tensor, target: Targets) -> Told:
        """All steps at once, each after the true nodes before it: (B,3,H,W), targets in order → what is said then."""
        count = target.points.shape[1]
        image = self.encode(images)
        begin = self.begin(len(images))
        tokens = torch.cat([begin, self.step(target.points, target.adjacency.tril(-1), first=0)], dim=1)
        hidden, _ = self.decoder(tokens, image)
        said = self.say(hidden, side_px=max(images.shape[-2:]))
        # Node i is asked about at step i, before it is known, and is itself known from step i + 1 on.
        edge_logits = self.join(hidden[:, :count], hidden[:, 1:])
        return Told(
            said.node_logits[:, :count],
            said.points[:, :count],
            said.root_logits[:, :count],
            symmetric(edge_logits),
            said.node_logits[:, count],
            target,
        )

    @torch.no_grad()
    def tell(self, images: Tensor) -> Told:
        """Node by node, each step after what was said before, until all images have ended."""
        batch, most = len(images), self.config.max_nodes
        told = Told(
            node_logits=images.new_full((batch, most), -torch.inf),
            points=images.new_zeros(batch, most, 2),
            root_logits=images.new_zeros(batch, most),
            edge_logits=images.new_zeros(batch, most, most, 2),
        )
        image, past, token = self.encode(images), None, self.begin(batch)
        known = token[:, :0]
        going = torch.ones(batch, dtype=torch.bool, device=images.device)
        count = 0
        while count < most:
            hidden, past = self.decoder(token, image, past)
            if count:
                known = torch.cat([known, hidden], dim=1)
            said = self.say(hidden, side_px=max(images.shape[-2:]))
            going = going & (said.node_logits[:, 0] > 0)
            if not going.any():
                break
            row = self.join(hidden, known)
            told.node_logits[:, count] = said.node_logits[:, 0].masked_fill(~going, -torch.inf)
            told.points[:, count] = said.points[:, 0]
            told.root_logits[:, count] = said.root_logits[:, 0]
            told.edge_logits[:, count, :count] = row[:, 0]
            token = self.step(said.points, edge_margin(row) < 0, first=count)
            count += 1
        edge_logits = symmetric(told.edge_logits[:, :count, :count])
        return Told(told.node_logits[:, :count], told.points[:, :count], told.root_logits[:, :count], edge_logits)

    # ---- parts --------------------------------------------------------------------------------

    def encode(self, images: Tensor) -> list[Remembered]:
        """The image (B,3,H,W) as each decoder layer remembers it."""
        stride = self.backbone.strides[-1]
        height, width = images.shape[-2:]
        if height % stride or width % stride:
            raise TreeformerError(f"an image of {width}×{height} px; multiples of {stride} are needed")
        cells = self.norm_cells(self.project(self.backbone(images)[-1]).flatten(2).transpose(1, 2))
        centers = cell_centers(height // stride, width // stride, stride, images.device)
        return self.decoder.remember(cells, sine_positions(centers, self.config.width))

    def begin(self, batch: int) -> Tensor:
        """The step before the first node: (B,1,width)."""
        return self.norm_steps(self.steps[:1]).expand(batch, 1, -1)

    def step(self, points: Tensor, rows: Tensor, *, first: int) -> Tensor:
        """The steps that hear of nodes `first`, `first` + 1, …

        Args:
            points: (B,n,2) px, the nodes.
            rows: (B,n,k) bool, whether they are joined to the nodes 0 … k − 1.
            first: the number of the first of them.

        Returns:
            (B,n,width).
        """
        joined = self.neighbors(rows.to(self.steps.dtype) @ self.steps[1 : rows.shape[2] + 1])
        own = self.steps[first + 1 : first + 1 + points.shape[1]]
        return self.norm_steps(self.place(sine_positions(points, self.config.width)) + joined + own)

    def say(self, hidden: Tensor, side_px: float) -> Said:
        """What (B,S,width) steps say of the node to come; points are fractions of the image's longer side."""
        points = self.point_head(hidden).float().sigmoid() * side_px
        return Said(self.node_head(hidden).float().squeeze(-1), points, self.root_head(hidden).float().squeeze(-1))

    def join(self, asking: Tensor, known: Tensor) -> Tensor:
        """Edge logits (B,S,K,2) between the nodes to come at S steps (B,S,width) and K known ones (B,K,width)."""
        pairs = self.edge_from(asking)[:, :, None] + self.edge_to(known)[:, None]
        return self.edge_head(functional.relu(pairs)).float()

    # ---- training and use ---------------------------------------------------------------------

    def loss(self, output: Told, targets: Targets, node_count: Tensor | None = None) -> dict[str, Tensor]:
        """Weighted losses by name; their sum is what to minimize. See `losses`."""
        if node_count is None:
            node_count = targets.mask.sum().clamp(min=1)
        return self._losses(self.config, self.sfs, output, node_count)

    @torch.no_grad()
    def decode(self, output: Told, **options: Any) -> list[Skeleton]:
        """One skeleton an image; options as in `treeformer.decoding.decode.decode`. For outputs made without targets."""
        options.setdefault("constrained", self.config.constrained_at_inference)
        arrays = (output.node_logits.sigmoid(), output.points, edge_margin(output.edge_logits), output.root_logits)
        images = zip(*(array.float().cpu().numpy() for array in arrays), strict=True)
        return [decode(*image, **options) for image in images]

    def compile_parts(self, **options: Any) -> None:
        """`torch.compile` with `options` for all that has fixed shapes: the training pass and the losses."""
        options.setdefault("dynamic", False)
        self.follow = torch.compile(self.follow, **options)  # type: ignore[method-assign]
        self._losses = torch.compile(self._losses, **options)


def losses(config: GGTConfig, sfs: SFS, output: Told, node_count: Tensor) -> dict[str, Tensor]:
    """Weighted losses by name: end, point, root, edge, edge_constrained; sums over nodes, over `node_count`."""
    target = output.target
    mask = target.mask
    # An image of n nodes asks n + 1 times whether there is one more.
    more = functional.pad(mask, (0, 1))
    asked = functional.pad(mask, (1, 0), value=True)
    answers = torch.cat([output.node_logits, output.end_logits[:, None]], dim=1)
    end = functional.binary_cross_entropy_with_logits(answers, more.float(), reduction="none")
    distance = (output.points - target.points).abs().sum(-1)
    root = functional.binary_cross_entropy_with_logits(output.root_logits, target.root.float(), reduction="none")
    says_roots = target.root.any(1, keepdim=True) & mask
    layer = sfs if config.constrained_in_training else None
    pairs = (mask[:, :, None] & mask[:, None, :]).float()
    unconstrained, constrained = edge_losses(
        output.edge_logits, target.adjacency, pairs, mask, output.root_logits, layer
    )
    first, second = config.edge_term_weights
    result = {
        "end": config.end_weight * (end * asked).sum() / node_count,
        "point": config.point_weight * (distance * mask).sum() / node_count,
        "root": config.root_weight * (root * says_roots).sum() / node_count,
        "edge": config.edge_weight * first * unconstrained / node_count,
    }
    if layer is not None:
        result["edge_constrained"] = config.edge_weight * second * constrained / node_count
    return result


def symmetric(rows: Tensor) -> Tensor:
    """(B,N,N,C), of which only the part below the diagonal counts, mirrored to above it; 0 on the diagonal."""
    lower = rows * torch.ones(rows.shape[1:3], device=rows.device).tril(-1)[..., None]
    return lower + lower.transpose(1, 2)
