"""TreeFormer, Sec. 4 of the paper: predicts nodes, edges and roots from an image.

backbone → feature levels → object tokens and one relation token → decoder → node, point and root heads → relation head
Further heads, which the paper does not have, predict the radius of each node and the direction to its parent, kinds of
nodes with the directions of all neighbors, and a map of center lines.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.decoding.decode import decode
from treeformer.errors import TreeformerError
from treeformer.models.compilation import compile_modules
from treeformer.models.config import TreeFormerConfig
from treeformer.models.criterion import losses
from treeformer.models.outputs import Detection, Features, Output, Predictions, Scene, TeacherOutput, rows_of
from treeformer.models.token_count import MIN_TOKENS, read_token_count
from treeformer.nn.attributes import AttributeHead
from treeformer.nn.backbone import Backbone, ResNet
from treeformer.nn.backbone_tinyvit import TinyViT
from treeformer.nn.center_line import CenterLineHead
from treeformer.nn.decoder import Decoder, set_prior_
from treeformer.nn.deformable_attention import FeatureLevel, as_level, sample
from treeformer.nn.denoising import denoising_mask
from treeformer.nn.heat_map import HeatMapHead, cell_points, peaks
from treeformer.nn.line_evidence import blurred_lines
from treeformer.nn.matching import Matching, match
from treeformer.nn.node_kind import NodeKindHead
from treeformer.nn.positions import sine_positions
from treeformer.nn.pyramid import FeaturePyramid, LevelProjections
from treeformer.nn.relation import RelationHead
from treeformer.nn.sfs import SFS, edge_margin
from treeformer.nn.targets import Targets
from treeformer.nn.transformer import Encoder
from treeformer.skeleton import Skeleton

ROOT_PRIOR = 0.02  # probability that a token is a root, before training


class TreeFormer(nn.Module):
    """The network.

    Args:
        config: Architecture, sizes and losses; by default `TreeFormerConfig.default()`.

    Attributes:
        strides: Strides of the feature levels, fine to coarse, px.
        heat_stride: Side of a heat map cell, px.

    Example:
        >>> model = TreeFormer(TreeFormerConfig.tiny()).eval()
        >>> output = model(torch.rand(1, 3, 64, 64))
        >>> tuple(output.node_logits.shape), tuple(output.points.shape), tuple(output.edge_logits.shape)
        ((1, 32), (1, 32, 2), (1, 32, 32, 2))
        >>> model.decode(output)[0].is_forest
        True
    """

    supports_cuda_graphs = True  # a training step never waits for the GPU, so it can be captured as a CUDA graph
    # Weights that models of earlier versions lack. Their predictions do not depend on them at first.
    new_parts = ("attribute_head.", "kind_head.", "center_lines.", "relation_head.even_ev", "relation_head.odd_ev")

    def __init__(self, config: TreeFormerConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or TreeFormerConfig.default()
        width = config.width
        sizes = config.backbone_blocks, config.backbone_channels, config.frozen_stages
        self.backbone: Backbone = (
            TinyViT(*sizes) if config.backbone == "tinyvit" else ResNet(*sizes, fused=config.fused_convolutions)
        )
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
            channels=[
                count
                for count, stride in zip(channels, self.strides, strict=True)
                if stride >= config.decoder_min_stride
            ],
            min_stride=config.decoder_min_stride,
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
            reads_lines=config.center_lines,
            reads_kinds=config.node_kinds,
            gather_gradients=config.gather_gradients,
        )
        self.attribute_head = AttributeHead(width) if config.node_attributes else None
        self.kind_head = NodeKindHead(width) if config.node_kinds else None
        self.center_lines = CenterLineHead(channels[0], self.strides[0]) if config.center_lines else None
        self.sfs = SFS(config.suppression)
        self._losses = losses

    @property
    def has_variable_tokens(self) -> bool:
        """True if `forward` accepts any number of tokens, because they come from a heat map and have no weights."""
        return self.config.token_source == "heat_map"

    # ---- forward ------------------------------------------------------------------------------

    def forward(
        self,
        images: Tensor,
        targets: Targets | None = None,
        tokens: int | None = None,
        guide: TeacherOutput | None = None,
    ) -> Output:
        """Predict nodes, edges and roots.

        Args:
            images: (B,3,H,W) RGB in [0,1]. H and W are multiples of the coarsest stride: 32 px, or 64 px in `paper`.
            targets: Ground truth, given in training. Tokens are matched to it, edges are predicted only among the
                matched tokens and the most confident others, and denoising tokens are added if configured.
            tokens: Number of object tokens. None is that of the configuration. Learned tokens have no other number.
            guide: Predictions of a teacher. Further tokens start at its points, in the place of denoising tokens.

        Returns:
            The predictions. Without targets but with a guide, there are no edges among the object tokens.

        Raises:
            TreeformerError: If the image size is invalid, or the targets have more nodes than there are tokens.
        """
        if targets is None:
            return self._predict(images, tokens) if guide is None else self._follow(images, guide, tokens)
        count = self.config.tokens if tokens is None else tokens
        if targets.points.shape[1] > count:
            raise TreeformerError(
                f"the targets have {targets.points.shape[1]} nodes, but there are only {count} tokens"
            )
        noisy = noisy_mask = denoising = guided = None
        if guide is not None:
            noisy, noisy_mask = guide.start, guide.mask
        elif self.config.denoising:
            noisy = targets.points + self.config.denoising_px * torch.randn_like(targets.points)
            noisy_mask = targets.mask
        found = self.detect(images, noisy, noisy_mask, tokens=tokens)
        objects, others = found.tokens(slice(count)), found.tokens(slice(count, None))
        if guide is not None:
            guided = others.predictions(self._edges_among(others, guide.selection))
        elif self.config.denoising:
            denoising = others.predictions(self._edges_among_all(others))
        node_logits, points = objects.decoded.node_logits[-1], objects.decoded.points[-1]
        matching = self.match(node_logits, points, targets)
        selection = self.select(node_logits, matching)
        edge_logits = self._edges_among(found, selection)
        return self._output(objects, edge_logits, matching, selection, denoising, guided)

    def _predict(self, images: Tensor, tokens: int | None) -> Output:
        """Predict without targets: all object tokens, and the edges among them."""
        found = self.detect(images, tokens=tokens)
        return self._output(found, self._edges_among_all(found))

    def _follow(self, images: Tensor, guide: TeacherOutput, tokens: int | None) -> Output:
        """Predict without targets: the heat map, and the tokens of the guide."""
        count = self.config.tokens if tokens is None else tokens
        found = self.detect(images, guide.start, guide.mask, tokens=tokens)
        objects, others = found.tokens(slice(count)), found.tokens(slice(count, None))
        guided = others.predictions(self._edges_among(others, guide.selection))
        no_edges = found.decoded.node_logits.new_zeros(len(images), 0, 0, 2)
        return self._output(objects, no_edges, guided=guided)

    def _output(
        self,
        objects: Detection,
        edge_logits: Tensor,
        matching: Matching | None = None,
        selection: Tensor | None = None,
        denoising: Predictions | None = None,
        guided: Predictions | None = None,
    ) -> Output:
        """Return the output for the object tokens."""
        _, _, node_logits, points = objects.decoded
        return Output(
            node_logits,
            points,
            objects.root_logits,
            edge_logits,
            objects.attributes,
            objects.kinds,
            objects.features.heat,
            objects.features.offsets,
            self.heat_stride,
            matching,
            selection,
            denoising,
            guided,
            objects.features.lines,
        )

    def detect(
        self,
        images: Tensor,
        noisy_points: Tensor | None = None,
        noisy_mask: Tensor | None = None,
        min_peak_heat: float = 0.0,
        tokens: int | None = None,
    ) -> Detection:
        """Run the network up to the edges.

        Args:
            images: (B,3,H,W) RGB in [0,1].
            noisy_points: (B,D,2) px, initial points of the denoising tokens, or None.
            noisy_mask: (B,D) bool, False for padding.
            min_peak_heat: Smallest heat of a peak that gets a token. The number of tokens is the largest number of
                such peaks in an image of the batch. The surplus tokens of the other images are masked in attention.
                Not to be combined with denoising.
            tokens: Largest number of object tokens. None is that of the configuration.

        Returns:
            The decoded tokens with their root logits, and the image features that the edges need.
        """
        features = self.encode(images, tokens)
        active = None
        if min_peak_heat and features.peak_heat is not None:
            active = features.peak_heat >= min_peak_heat
            count = read_token_count(active.sum(1).max().clamp(min=MIN_TOKENS), active.shape[1])
            active = active[:, :count]
        return self.decode_tokens(features, active, noisy_points, noisy_mask)

    def encode(self, images: Tensor, tokens: int | None = None) -> Features:
        """Run the first half of `detect`: feature levels, heat map and its peaks.

        Args:
            images: (B,3,H,W) RGB in [0,1].
            tokens: Number of peaks. None is the number of tokens of the configuration.

        Returns:
            The features.

        Raises:
            TreeformerError: If H or W is not a multiple of the coarsest stride, or the tokens are learned and another
                number of them is requested.
        """
        if tokens is not None and tokens != self.config.tokens and not self.has_variable_tokens:
            raise TreeformerError(f"the network has {self.config.tokens} learned tokens, {tokens} were requested")
        height, width = images.shape[-2:]
        if height % self.strides[-1] or width % self.strides[-1]:
            raise TreeformerError(f"image size must be a multiple of {self.strides[-1]} px, not {width}×{height} px")
        maps = self.neck(self.backbone(images)[-len(self.neck.widths) + 1 :])
        levels = [as_level(feature_map, stride) for feature_map, stride in zip(maps, self.strides, strict=True)]
        if self.encoder is not None:
            levels = self.encoder(levels)
        lines = blurred = None
        if self.center_lines is not None:
            lines = self.center_lines(maps[0], levels[0].stride)
            blurred = blurred_lines(lines)
        if self.heat_map is None:
            return Features(levels, None, None, None, None, lines, blurred)
        heat, offsets = self.heat_map(maps[0], levels[0].stride)
        found = peaks(heat.detach(), self.config.tokens if tokens is None else tokens)
        return Features(levels, heat, offsets, *found, lines, blurred)

    def decode_tokens(
        self,
        features: Features,
        active: Tensor | None = None,
        noisy_points: Tensor | None = None,
        noisy_mask: Tensor | None = None,
    ) -> Detection:
        """Run the second half of `detect`: the decoder, and the heads that read its tokens.

        Args:
            features: Result of `encode`.
            active: (B,Q) bool. The first Q peaks get a token, and tokens attend only to active tokens. None decodes
                all tokens without a mask.
            noisy_points: (B,D,2) px, initial points of the denoising tokens, or None.
            noisy_mask: (B,D) bool, False for padding.

        Returns:
            The decoded tokens with their root logits, and the image features that the edges need.
        """
        levels = features.levels
        mask = None
        if features.peak_cell is not None and features.offsets is not None:
            cell = features.peak_cell
            if active is not None:
                cell = cell[:, : active.shape[1]]
                mask = functional.pad(active, (0, 1), value=True)[:, None, None, :]  # the relation token is last
            width = levels[0].width * self.config.heatmap_upsampling
            points = cell_points(cell, features.offsets.detach(), width, self.heat_stride)
            content, positions = self._content_at(levels[0], points), self._positions_at(points)
        else:
            # Both coordinates are fractions of the longer side, so that the scale is isotropic.
            side = max(levels[0].height, levels[0].width) * levels[0].stride
            points = self.learned_point(self.learned_position).float().sigmoid() * side
            content, positions, points = (
                tensor.expand(levels[0].cells.shape[0], -1, -1)
                for tensor in (self.learned_content, self.learned_position, points)
            )
        if noisy_points is not None and noisy_mask is not None:
            mask = denoising_mask(noisy_mask, content.shape[1])
            content = torch.cat([content, self._content_at(levels[0], noisy_points)], dim=1)
            positions = torch.cat([positions, self._positions_at(noisy_points)], dim=1)
            points = torch.cat([points, noisy_points], dim=1)
        decoded = self.decoder(content, positions, points, levels, mask)
        root_logits = self.root_head(decoded.tokens).float().squeeze(-1)
        attributes = None if self.attribute_head is None else self.attribute_head(decoded.tokens).float()
        kinds = None if self.kind_head is None else self.kind_head(decoded.tokens).float()
        scene = Scene(decoded.relation, levels[0], features.blurred)
        return Detection(decoded, root_logits, scene, features, active, attributes, kinds)

    def predict_edges(
        self, tokens: Tensor, scene: Scene, points: Tensor, scores: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        """Predict the edges among tokens.

        Args:
            tokens: (B,N,width).
            scene: What else the relation head reads.
            points: (B,N,2) px.
            scores: (B,N) node probabilities.
            kinds: (B,N,WIDTH) logits of the kinds, None without that head.

        Returns:
            (B,N,N,2) logits of [no edge, edge], symmetric.
        """
        logits: Tensor = self.relation_head(
            tokens, scene.relation, points, scene.fine, scores, lines=scene.lines, kinds=kinds
        )
        return logits

    def _edges_among_all(self, found: Detection) -> Tensor:
        """Return the logits (B,Q,Q,2) of the edges among all tokens."""
        content, _, node_logits, points = found.decoded
        return self.predict_edges(content, found.scene, points[-1], node_logits[-1].sigmoid(), found.kinds)

    def _edges_among(self, found: Detection, selection: Tensor) -> Tensor:
        """Return the logits (B,R,R,2) of the edges among the tokens with the indices `selection` (B,R)."""
        content, _, node_logits, points = found.decoded
        return self.predict_edges(
            rows_of(content, selection),
            found.scene,
            rows_of(points[-1], selection),
            node_logits[-1].gather(1, selection).sigmoid(),
            None if found.kinds is None else rows_of(found.kinds, selection),
        )

    def match(self, node_logits: Tensor, points: Tensor, targets: Targets) -> Matching:
        """Match object tokens to target nodes.

        Args:
            node_logits: (B,K).
            points: (B,K,2) px.
            targets: Ground truth of the batch.

        Returns:
            The token of each target node.
        """
        weights = {"score_weight": self.config.match_score, "point_weight": self.config.match_point}
        return match(node_logits, points, targets, **weights)

    @torch.no_grad()
    def select(self, node_logits: Tensor, matching: Matching) -> Tensor:
        """Select the tokens whose edges are trained: the matched tokens and the most confident others.

        Args:
            node_logits: (B,K).
            matching: The token of each target node.

        Returns:
            (B,R) int64 token indices, the matched tokens first.
        """
        size = min(node_logits.shape[1], matching.token.shape[1] + self.config.num_negative_tokens)
        matched = torch.zeros_like(node_logits).scatter_add(1, matching.token, matching.found.to(node_logits.dtype))
        return (2 * matched + node_logits.sigmoid()).topk(size, dim=1).indices

    def _content_at(self, fine: FeatureLevel, points: Tensor) -> Tensor:
        """Return the initial content (B,Q,width) of tokens at points (B,Q,2) px, sampled from the image."""
        content: Tensor = self.token_content(sample(fine, points))
        return content

    def _positions_at(self, points: Tensor) -> Tensor:
        """Return the positional embeddings (B,Q,width) of tokens at points (B,Q,2) px."""
        positions: Tensor = self.token_position(sine_positions(points, self.config.width))
        return positions

    # ---- training and use ---------------------------------------------------------------------

    def loss(self, output: Output, targets: Targets, node_count: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the weighted losses by name, see `treeformer.models.criterion.losses`.

        Args:
            output: Output of `forward`. It is matched to the targets if it has no matching yet.
            targets: Ground truth of the batch.
            node_count: Scalar that sums are divided by; by default the number of ground-truth nodes, at least 1.

        Returns:
            Scalars. Their sum is the training objective.
        """
        if output.matching is None:
            output.matching = self.match(output.node_logits, output.points, targets)
        return self._losses(self.config, self.sfs, output, targets, node_count)

    @torch.no_grad()
    def decode(self, output: Output, **options: Any) -> list[Skeleton]:
        """Decode an output that was computed without targets.

        Args:
            output: Output of `forward`.
            **options: Options of `treeformer.decoding.decode.decode`.

        Returns:
            One skeleton per image.
        """
        options.setdefault("constrained", self.config.constrained_at_inference)
        options.setdefault("distance_cost", self.config.edge_cost == "distance")
        score = output.node_logits.float().sigmoid()
        arrays = (score, output.points.float(), edge_margin(output.edge_logits), output.root_logits.float())
        images = zip(*(array.cpu().numpy() for array in arrays), strict=True)
        return [decode(*image, **options) for image in images]

    def compile_parts(self, **options: Any) -> None:
        """Compile the expensive modules and the losses with `torch.compile(**options)`; see `compile_modules`."""
        options.setdefault("dynamic", False)  # there are few shapes, and none needs a dynamic program
        compile_modules(self, **options)
        self._losses = torch.compile(self._losses, **options)
