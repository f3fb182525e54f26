"""TreeFormer, Sec. 4 of the paper: an image in; nodes, edges and roots out.

backbone → feature levels → object tokens and one relation token → decoder → node, point and root heads → relation head
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.decoding.decode import decode
from treeformer.errors import TreeformerError
from treeformer.models.config import TreeFormerConfig
from treeformer.models.criterion import losses
from treeformer.models.outputs import Output, Predictions
from treeformer.nn.backbone import Bottleneck, ResNet
from treeformer.nn.decoder import Decoded, Decoder, set_prior_
from treeformer.nn.deformable_attention import FeatureLevel, as_level, sample
from treeformer.nn.heat_map import HeatMapHead, cell_points, peaks
from treeformer.nn.matching import Matching, match
from treeformer.nn.positions import sine_positions
from treeformer.nn.pyramid import FeaturePyramid, LevelProjections
from treeformer.nn.relation import RelationHead
from treeformer.nn.sfs import SFS, edge_margin
from treeformer.nn.targets import Targets
from treeformer.nn.transformer import DecoderLayer, Encoder, EncoderLayer
from treeformer.skeleton import Skeleton

FEWEST_TOKENS = 2  # sizes 0 and 1 are special cases to torch.export
ROOT_PRIOR = 0.02  # probability of a token to be a root, before training
COMPILED_PARTS = (Bottleneck, FeaturePyramid, LevelProjections, HeatMapHead, EncoderLayer, DecoderLayer, RelationHead)


class Features(NamedTuple):
    """What `TreeFormer.encode` makes of images, before any token looks at them."""

    levels: list[FeatureLevel]  # fine to coarse
    heat: Tensor | None  # (B,h,w); None, as all that follows, where tokens are learned
    offsets: Tensor | None  # (B,h·w,2)
    cell: Tensor | None  # (B,tokens) of the heat map, where tokens begin, the hottest first …
    heat_there: Tensor | None  # … and the heat of those (B,tokens), in [0,1]


class Detection(NamedTuple):
    """What `TreeFormer.detect` finds: everything but the edges."""

    decoded: Decoded  # of the object tokens, and after them the denoising tokens
    root_logits: Tensor  # (B,Q)
    fine: FeatureLevel  # the finest level
    heat: Tensor | None  # (B,h,w)
    offsets: Tensor | None  # (B,h·w,2)
    active: Tensor | None = None  # (B,Q) bool: tokens at a peak that is hot enough; None: all


class TreeFormer(nn.Module):
    """The network; `config` chooses between the paper's and ours, and sizes.

    Example:
        >>> model = TreeFormer(TreeFormerConfig.tiny()).eval()
        >>> output = model(torch.rand(1, 3, 64, 64))
        >>> tuple(output.node_logits.shape), tuple(output.points.shape), tuple(output.edge_logits.shape)
        ((1, 32), (1, 32, 2), (1, 32, 32, 2))
        >>> model.decode(output)[0].is_forest
        True
    """

    supports_cuda_graphs = True  # on a GPU a training step never waits for the device: it can be a CUDA graph

    def __init__(self, config: TreeFormerConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or TreeFormerConfig.default()
        width = config.width
        self.backbone = ResNet(config.backbone_blocks, config.backbone_channels, config.frozen_stages)
        self.neck: FeaturePyramid | LevelProjections
        self.encoder: Encoder | None = None
        strides = self.backbone.strides
        if config.neck == "pyramid":
            self.neck = FeaturePyramid(self.backbone.channels, width, config.fine_width)
            self.strides = [*strides, 2 * strides[-1]]
        else:
            self.neck = LevelProjections(self.backbone.channels[1:], width)
            self.strides = [*strides[1:], 2 * strides[-1]]
            self.encoder = Encoder(
                config.encoder_layers,
                width,
                config.heads,
                config.sampling_points,
                len(self.strides),
                config.feed_forward,
                config.dropout,
            )
        self.heat_stride = self.strides[0] // config.heatmap_upsampling
        channels = self.neck.widths
        learned = config.token_source == "learned"
        self.heat_map: HeatMapHead | None = None
        if learned:
            self.learned_content = nn.Parameter(torch.randn(config.tokens, width))
            self.learned_position = nn.Parameter(torch.randn(config.tokens, width))
            self.learned_point = nn.Linear(width, 2)
        else:
            self.heat_map = HeatMapHead(channels[0], config.heatmap_upsampling, config.grid_px)
        if not learned or config.denoising:
            self.token_content = nn.Sequential(nn.Linear(channels[0], width), nn.LayerNorm(width))
            self.token_position = nn.Linear(width, width)
        self.decoder = Decoder(
            layers=config.decoder_layers,
            width=width,
            heads=config.heads,
            sampling_points=config.sampling_points,
            channels=channels,
            feed_forward=config.feed_forward,
            dropout=config.dropout,
            relation_min_stride=config.relation_min_stride,
            auxiliary=config.auxiliary_losses,
            absolute=learned,
        )
        self.root_head = nn.Linear(width, 1)
        set_prior_(self.root_head, ROOT_PRIOR)
        self.relation_head = RelationHead(
            width,
            config.relation_hidden,
            fine_channels=channels[0] if config.segment_channels else 0,
            segment_channels=config.segment_channels,
            segment_points=config.segment_points,
            num_harmonics=config.num_harmonics,
        )
        self.sfs = SFS(config.suppression)
        self._losses = losses

    # ---- forward ------------------------------------------------------------------------------

    def forward(self, images: Tensor, targets: Targets | None = None) -> Output:
        """Predict nodes, edges and roots.

        Args:
            images: (B,3,H,W) RGB in [0,1]; H and W are multiples of the coarsest stride (32; 64 for the paper's).
            targets: given in training. Tokens are matched, edges are predicted only among the matched and the most
                confident of the others, and denoising tokens are added.
        """
        if targets is None:
            found = self.detect(images)
            tokens, relation, node_logits, points = found.decoded
            edge_logits = self.predict_edges(tokens, relation, points[-1], found.fine, node_logits[-1].sigmoid())
            return Output(
                node_logits, points, found.root_logits, edge_logits, found.heat, found.offsets, self.heat_stride
            )
        count = self.config.tokens
        if targets.points.shape[1] > count:
            raise TreeformerError(f"targets of {targets.points.shape[1]} nodes for {count} tokens")
        noisy = noisy_mask = denoising = None
        if self.config.denoising:
            noisy = targets.points + self.config.denoising_px * torch.randn_like(targets.points)
            noisy_mask = targets.mask
        found = self.detect(images, noisy, noisy_mask)
        tokens, relation, node_logits, points = found.decoded
        if self.config.denoising:
            scores = node_logits[-1, :, count:].sigmoid()
            noisy_edges = self.predict_edges(tokens[:, count:], relation, points[-1, :, count:], found.fine, scores)
            denoising = Predictions(
                node_logits[:, :, count:], points[:, :, count:], found.root_logits[:, count:], noisy_edges
            )
        matching = self.match(node_logits[-1, :, :count], points[-1, :, :count], targets)
        selection = self.select(node_logits[-1, :, :count], matching)
        index = selection[..., None]
        edge_logits = self.predict_edges(
            tokens.gather(1, index.expand(-1, -1, tokens.shape[-1])),
            relation,
            points[-1].gather(1, index.expand(-1, -1, 2)),
            found.fine,
            node_logits[-1].gather(1, selection).sigmoid(),
        )
        return Output(
            node_logits[:, :, :count],
            points[:, :, :count],
            found.root_logits[:, :count],
            edge_logits,
            found.heat,
            found.offsets,
            self.heat_stride,
            matching,
            selection,
            denoising,
        )

    def detect(
        self,
        images: Tensor,
        noisy_points: Tensor | None = None,
        noisy_mask: Tensor | None = None,
        min_peak_heat: float = 0.0,
    ) -> Detection:
        """Everything up to the edges.

        Args:
            images: (B,3,H,W).
            noisy_points: (B,D,2) px, where denoising tokens begin; None for none.
            noisy_mask: (B,D) bool, the real ones among them.
            min_peak_heat: no token begins at a colder peak. There are as many as the image of the batch with the most
                needs; those that another one does not need are seen by none of its tokens. Not with denoising.
        """
        features = self.encode(images)
        active = None
        if min_peak_heat and features.heat_there is not None:
            active = features.heat_there >= min_peak_heat
            count = active.sum(1).max().clamp(min=FEWEST_TOKENS).item()
            torch._check(count >= FEWEST_TOKENS)
            torch._check(count <= self.config.tokens)
            active = active[:, :count]
        return self.decode_tokens(features, active, noisy_points, noisy_mask)

    def encode(self, images: Tensor) -> Features:
        """The first half of `detect`: (B,3,H,W) → what the image shows, and where tokens may begin."""
        height, width = images.shape[-2:]
        if height % self.strides[-1] or width % self.strides[-1]:
            raise TreeformerError(f"an image of {width}×{height} px; multiples of {self.strides[-1]} are needed")
        maps = self.neck(self.backbone(images)[-len(self.neck.widths) + 1 :])
        levels = [as_level(feature_map, stride) for feature_map, stride in zip(maps, self.strides, strict=True)]
        if self.encoder is not None:
            levels = self.encoder(levels)
        if self.heat_map is None:
            return Features(levels, None, None, None, None)
        heat, offsets = self.heat_map(maps[0], levels[0].stride)
        return Features(levels, heat, offsets, *peaks(heat.detach(), self.config.tokens))

    def decode_tokens(
        self,
        features: Features,
        active: Tensor | None = None,
        noisy_points: Tensor | None = None,
        noisy_mask: Tensor | None = None,
    ) -> Detection:
        """The second half of `detect`: the tokens.

        Args:
            features: what `encode` gave.
            begun: (B,Q) bool: there are Q tokens, and only these are looked at by others; None: all there are.
            noisy_points, noisy_mask: as in `detect`.
        """
        levels = features.levels
        mask = None
        if features.cell is not None and features.offsets is not None:
            cell = features.cell
            if active is not None:
                cell = cell[:, : active.shape[1]]
                mask = functional.pad(active, (0, 1), value=True)[:, None, None, :]  # and the relation token
            width = levels[0].width * self.config.heatmap_upsampling
            points = cell_points(cell, features.offsets.detach(), width, self.heat_stride)
            content, positions = self._content_at(levels[0], points), self._encode(points)
        else:
            # Isotropic: both coordinates are fractions of the longer side.
            side = max(levels[0].height, levels[0].width) * levels[0].stride
            points = self.learned_point(self.learned_position).float().sigmoid() * side
            content, positions, points = (
                tensor.expand(levels[0].cells.shape[0], -1, -1)
                for tensor in (self.learned_content, self.learned_position, points)
            )
        if noisy_points is not None and noisy_mask is not None:
            content = torch.cat([content, self._content_at(levels[0], noisy_points)], dim=1)
            positions = torch.cat([positions, self._encode(noisy_points)], dim=1)
            points = torch.cat([points, noisy_points], dim=1)
            mask = denoising_mask(noisy_mask, self.config.tokens)
        decoded = self.decoder(content, positions, points, levels, mask)
        root_logits = self.root_head(decoded.tokens).float().squeeze(-1)
        return Detection(decoded, root_logits, levels[0], features.heat, features.offsets, active)

    def predict_edges(
        self, tokens: Tensor, relation: Tensor, points: Tensor, fine: FeatureLevel, scores: Tensor
    ) -> Tensor:
        """Edge logits (B,N,N,2) among some tokens (B,N,width) at points (B,N,2) px that are nodes at scores (B,N)."""
        logits: Tensor = self.relation_head(tokens, relation, points, fine, scores)
        return logits

    def match(self, node_logits: Tensor, points: Tensor, targets: Targets) -> Matching:
        """Which object token, of (B,K) and (B,K,2), answers for which node of the ground truth."""
        weights = {"score_weight": self.config.match_score, "point_weight": self.config.match_point}
        return match(node_logits, points, targets, **weights)

    @torch.no_grad()
    def select(self, node_logits: Tensor, matching: Matching) -> Tensor:
        """The tokens whose edges are trained: all matched ones first, then the most confident others; (B,R) indices."""
        size = min(self.config.tokens, matching.token.shape[1] + self.config.num_negative_tokens)
        matched = torch.zeros_like(node_logits).scatter_add(1, matching.token, matching.found.to(node_logits.dtype))
        return (2 * matched + node_logits.sigmoid()).topk(size, dim=1).indices

    def _content_at(self, fine: FeatureLevel, points: Tensor) -> Tensor:
        """What tokens at points (B,Q,2) px begin with: (B,Q,width), the image there."""
        content: Tensor = self.token_content(sample(fine, points))
        return content

    def _encode(self, points: Tensor) -> Tensor:
        """Positions (B,Q,width) of tokens at points (B,Q,2) px."""
        positions: Tensor = self.token_position(sine_positions(points, self.config.width))
        return positions

    # ---- training and use ---------------------------------------------------------------------

    def loss(self, output: Output, targets: Targets, node_count: Tensor | None = None) -> dict[str, Tensor]:
        """Weighted losses by name; their sum is what to minimize. See `treeformer.models.criterion.losses`."""
        if output.matching is None:
            output.matching = self.match(output.node_logits, output.points, targets)
        return self._losses(self.config, self.sfs, output, targets, node_count)

    @torch.no_grad()
    def decode(self, output: Output, **options: Any) -> list[Skeleton]:
        """One skeleton an image; options as in `treeformer.decoding.decode.decode`. For outputs made without targets."""
        options.setdefault("constrained", self.config.constrained_at_inference)
        options.setdefault("distance_cost", self.config.edge_cost == "distance")
        score = output.node_logits.float().sigmoid()
        arrays = (score, output.points.float(), edge_margin(output.edge_logits), output.root_logits.float())
        images = zip(*(array.cpu().numpy() for array in arrays), strict=True)
        return [decode(*image, **options) for image in images]

    def compile_parts(self, **options: Any) -> None:
        """`torch.compile` with `options` for the parts that take the time; all have fixed shapes.

        Part by part, not as a whole: the many bottlenecks and layers of one shape are compiled once, not each.
        """
        options.setdefault("dynamic", False)  # the relation head sees two sizes: not one program for any size
        for part in self.modules():
            if isinstance(part, COMPILED_PARTS):
                part.forward = torch.compile(part.forward, **options)
        self._losses = torch.compile(self._losses, **options)


def denoising_mask(noisy_mask: Tensor, objects: int) -> Tensor:
    """Who may look at whom, (B,1,T,T) for objects, D denoising tokens and the relation token, in this order.

    Objects and the relation token see each other and never a denoising token, which knows the ground truth. A denoising token
    sees itself, the other real ones of its image and the relation token.
    """
    batch, extra = noisy_mask.shape
    yes = noisy_mask.new_ones(batch, 1)
    no = ~yes.expand(-1, objects)
    seen_by_others = torch.cat([~no, torch.zeros_like(noisy_mask), yes], dim=1)
    seen_by_noisy = torch.cat([no, noisy_mask, yes], dim=1)
    is_noisy = torch.cat([no, torch.ones_like(noisy_mask), ~yes], dim=1)
    mask = torch.where(is_noisy[:, :, None], seen_by_noisy[:, None, :], seen_by_others[:, None, :])
    itself = torch.eye(objects + extra + 1, dtype=torch.bool, device=noisy_mask.device)
    return (mask | itself)[:, None]
