"""The two-stage baseline: ViNet as re-implemented in the paper (supplement, "Two-stage baseline").

image → node confidence and branch direction maps → nodes → resistivities → a tree; see docs/lab/two-stage.md

Images are (B,3,H,W) RGB in [0,1]; H and W are multiples of `coarsest_stride`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer._util.config import convert_fields
from treeformer.baselines.two_stage.decode import decode_maps
from treeformer.baselines.two_stage.hourglass import StackedHourglass
from treeformer.baselines.two_stage.map_head import CHANNELS_PER_CLASS, FEATURE_STRIDE, MapHead, split_maps
from treeformer.baselines.two_stage.target_maps import Maps, map_errors, target_maps
from treeformer.errors import TreeformerError
from treeformer.models.ranges import check_blocks, check_ranges
from treeformer.nn.backbone import ResNet
from treeformer.nn.pyramid import FeaturePyramid
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton

# Rows of the supplement's parameter table. The column "image size" belongs to the data.
PAPER_PARAMETERS: dict[str, dict[str, Any]] = {
    "synthetic": {
        "map_stride": 1,
        "node_diameter_px": 4.0,
        "edge_width_px": 5.0,
        "node_search_px": 9.0,
        "node_peak_share": 0.97,
        "node_threshold": 0.5,
    },
    "root": {
        "map_stride": 1,
        "node_diameter_px": 3.0,
        "edge_width_px": 5.0,
        "node_search_px": 7.0,
        "node_peak_share": 0.99,
        "node_threshold": 0.3,
    },
    "grapevine": {
        "map_stride": 4,
        "node_diameter_px": 3.0,
        "edge_width_px": 10.0,
        "node_search_px": 25.0,
        "node_peak_share": 0.97,
        "node_threshold": 0.5,
    },
}
MAX_POWER = 50  # with larger powers, resistivities would overflow
# Minimum and maximum values of numbers, by setting.
MINIMUM = {
    "backbone_channels": 1,
    "frozen_stages": 0,
    "width": 1,
    "fine_width": 1,
    "node_diameter_px": 0,
    "edge_width_px": 0,
    "node_search_px": 0,
    "node_peak_share": 0,
    "node_threshold": 0,
    "node_weight": 0,
    "direction_weight": 0,
}
MAXIMUM = {"node_diameter_px": 1e3, "edge_width_px": 1e3, "node_search_px": 1e4}


@dataclass(frozen=True)
class TwoStageConfig:
    """Network, maps and decoding. The default values are those of the paper for its synthetic set, if it gives any."""

    # ---- network

    network: Literal["fpn", "hourglass"] = "fpn"
    """Feature pyramid as in the paper, or stacked hourglasses as in ViNet."""

    backbone_blocks: tuple[int, ...] = (3, 4, 6, 3)
    """Bottlenecks per ResNet stage of the feature pyramid. The default is a ResNet-50."""

    backbone_channels: int = 64
    """Channels of the backbone's stem."""

    frozen_stages: int = 1
    """Number of backbone parts that are not trained, as in TreeFormer."""

    width: int = 256
    """Channels of the pyramid's levels and of the hourglasses."""

    fine_width: int = 128
    """Channels of the finest level of the pyramid."""

    hourglass_stacks: int = 2
    """Number of hourglasses."""

    hourglass_depth: int = 4
    """Halvings of the resolution per hourglass."""

    # ---- maps: columns of the supplement's parameter table

    map_stride: int = 1
    """Side of a map cell ("map size"), px: 1, 2 or 4."""

    node_diameter_px: float = 4.0
    """Full width at half maximum of a node's Gaussian ("node confidence diameter"), px."""

    edge_width_px: float = 5.0
    """Width of the band around an edge ("edge direction width"), px."""

    classes: int = 1
    """Classes of nodes and edges. 1 is the paper's "binary", for which images need no class labels."""

    # ---- node extraction: the other columns

    node_search_px: float = 9.0
    """Distance within which a node must be a maximum ("node search distance" d), px."""

    node_peak_share: float = 0.97
    """τ_m, smallest ratio of a node's confidence to the highest confidence within d."""

    node_threshold: float = 0.5
    """τ_n, smallest confidence of a node."""

    max_nodes: int = 300
    """Largest number of nodes. Not in the paper; bounds the time to decode a poor map."""

    # ---- edges

    edges: Literal["mst", "dijkstra"] = "mst"
    """Minimum spanning tree as in the paper, or shortest paths as in ViNet."""

    segment_points: int = 32
    """Samples of the direction map between two nodes."""

    distance_power: float = 1.1
    """Power of the distance in resistivity = distance^1.1 / alignment^4."""

    alignment_power: float = 4.0
    """Power of the alignment in the resistivity."""

    # ---- training: squared errors of the maps

    node_weight: float = 10.0
    """Weight of the node map. A node covers about 9 px of its map, an edge about 300 px of the other."""

    direction_weight: float = 1.0
    """Weight of the direction map."""

    def __post_init__(self) -> None:
        convert_fields(self)
        if self.map_stride not in (1, 2, 4):
            raise TreeformerError(f"map_stride must be one of 1, 2, 4, not {self.map_stride}")
        for name in ("classes", "hourglass_stacks", "hourglass_depth", "segment_points", "max_nodes"):
            if getattr(self, name) < 1:
                raise TreeformerError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("node_diameter_px", "edge_width_px"):
            if not getattr(self, name) > 0:
                raise TreeformerError(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("distance_power", "alignment_power"):
            if not 0 <= getattr(self, name) <= MAX_POWER:
                raise TreeformerError(f"{name} must be from 0 to {MAX_POWER}, not {getattr(self, name)}")
        if self.network == "hourglass" and self.width % 32:
            raise TreeformerError(f"width {self.width} is not a multiple of 32, as the hourglass requires")
        check_ranges(self, MINIMUM, MAXIMUM)
        check_blocks(self.backbone_blocks)

    @classmethod
    def paper(cls, domain: Literal["synthetic", "root", "grapevine"] = "synthetic", **changes: Any) -> TwoStageConfig:
        """Return the configuration of one of the paper's domains, from the supplement's parameter table."""
        if domain not in PAPER_PARAMETERS:
            raise TreeformerError(f"domain must be one of {', '.join(PAPER_PARAMETERS)}, not {domain!r}")
        return cls(**(PAPER_PARAMETERS[domain] | changes))

    @classmethod
    def hourglass(cls, **changes: Any) -> TwoStageConfig:
        """Return a configuration with ViNet's network, stacked hourglasses."""
        return cls(**({"network": "hourglass"} | changes))


@dataclass
class MapOutput:
    """Output of `TwoStage.forward`."""

    maps: Maps  # cells of `map_stride` px
    early: tuple[Maps, ...] = ()  # at stride 4 from all hourglasses but the last


class TwoStage(nn.Module):
    """A network that predicts the two maps. Its `decode` runs the second stage.

    Attributes:
        coarsest_stride: the sides of images are multiples of this, px

    Example:
        >>> config = TwoStageConfig(backbone_blocks=(1, 1), backbone_channels=8, width=16, fine_width=16)
        >>> output = TwoStage(config).eval()(torch.rand(1, 3, 64, 64))
        >>> tuple(output.maps.nodes.shape), tuple(output.maps.directions.shape)
        ((1, 1, 64, 64), (1, 1, 2, 64, 64))
    """

    def __init__(self, config: TwoStageConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or TwoStageConfig()
        if config.network == "fpn":
            self.backbone = ResNet(config.backbone_blocks, config.backbone_channels, config.frozen_stages)
            self.pyramid = FeaturePyramid(self.backbone.channels, config.width, config.fine_width)
            self.bring_down = nn.ModuleList(nn.Conv2d(width, config.fine_width, 1) for width in self.pyramid.widths[1:])
            self.coarsest_stride = 2 * self.backbone.strides[-1]
            channels = config.fine_width
        else:
            predicted = CHANNELS_PER_CLASS * config.classes
            self.hourglass = StackedHourglass(config.hourglass_stacks, config.hourglass_depth, config.width, predicted)
            self.coarsest_stride = FEATURE_STRIDE * 2**config.hourglass_depth
            channels = config.width
        self.head = MapHead(channels, config.classes, config.map_stride)
        self._losses = map_losses

    def forward(self, images: Tensor, targets: Targets | None = None) -> MapOutput:
        """Predict the maps of images. `targets`, a parameter of all models of the training loop, is not used."""
        height, width = images.shape[-2:]
        stride = self.coarsest_stride
        if height % stride or width % stride:
            raise TreeformerError(f"image size must be a multiple of {stride} px, not {width}×{height} px")
        return self.predict_maps(images)

    def predict_maps(self, images: Tensor) -> MapOutput:
        """Run the network on images (B,3,H,W) RGB in [0,1], without checking their size."""
        if self.config.network == "hourglass":
            features, early = self.hourglass(images)
            return MapOutput(self.head(features, images), tuple(split_maps(channels) for channels in early))
        fine, *coarse = self.pyramid(self.backbone(images))
        down = self.bring_down[-1](coarse[-1])
        for level, bring_down in zip(coarse[-2::-1], list(self.bring_down)[-2::-1], strict=True):
            down = bring_down(level) + functional.interpolate(down, scale_factor=2.0, mode="nearest")
        features = functional.relu(fine + functional.interpolate(down, scale_factor=2.0, mode="nearest"))
        return MapOutput(self.head(features, images))

    def target(self, targets: Targets, like: Maps) -> Maps:
        """Draw the target maps in the size of other maps."""
        config = self.config
        height, width = like.nodes.shape[-2:]
        stride = config.map_stride
        return target_maps(
            targets, config.classes, (height, width), stride, config.node_diameter_px, config.edge_width_px
        )

    def loss(self, output: MapOutput, targets: Targets, node_count: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the weighted losses by name, see `map_losses`.

        By default, sums are divided by the number of ground-truth nodes, at least 1.
        """
        if node_count is None:
            node_count = targets.mask.sum().clamp(min=1)
        target = self.target(targets, output.maps)
        early = None
        if output.early:
            config = self.config
            height, width = output.early[0].nodes.shape[-2:]
            sizes_px = (config.node_diameter_px, config.edge_width_px)
            early = target_maps(targets, config.classes, (height, width), FEATURE_STRIDE, *sizes_px)
        return self._losses(self.config, output, target, early, node_count)

    @torch.no_grad()
    def map_errors(self, output: MapOutput, targets: Targets) -> dict[str, float]:
        """Compute the mean squared errors of "nodes" and "directions" of a batch, as in the supplement's table."""
        nodes, directions = map_errors(output.maps, self.target(targets, output.maps))
        return {"nodes": float(nodes), "directions": float(directions)}

    @torch.no_grad()
    def decode(self, output: MapOutput, **options: Any) -> list[Skeleton]:
        """Decode the maps, each image into one tree. Options of `decode_maps` replace those of the configuration."""
        config = self.config
        chosen: dict[str, Any] = {
            "stride": config.map_stride,
            "search_px": config.node_search_px,
            "peak_share": config.node_peak_share,
            "node_threshold": config.node_threshold,
            "max_nodes": config.max_nodes,
            "segment_points": config.segment_points,
            "distance_power": config.distance_power,
            "alignment_power": config.alignment_power,
            "edges": config.edges,
        }
        maps = (channels.float().cpu().numpy() for channels in output.maps)
        return [decode_maps(nodes, flow, **(chosen | options)) for nodes, flow in zip(*maps, strict=True)]

    def compile_parts(self, **options: Any) -> None:
        """Compile the network and the losses, but not the drawing of targets, with `torch.compile(**options)`."""
        options.setdefault("dynamic", False)
        compiled: Any = torch.compile(self.predict_maps, **options)
        self.predict_maps = compiled  # type: ignore[method-assign]  # for this instance only
        self._losses = torch.compile(self._losses, **options)


def map_losses(
    config: TwoStageConfig, output: MapOutput, target: Maps, early_target: Maps | None, node_count: Tensor
) -> dict[str, Tensor]:
    """Compute the squared errors of both maps, summed over the image area in px² and divided by the number of nodes.

    Except for that divisor this is the mean squared error. Losses named `early_…` are those of the hourglasses before
    the last, which have a target of their own.
    """
    result = _squared_errors(config, output.maps, target, config.map_stride, node_count)
    if early_target is not None:
        for maps in output.early:
            early = _squared_errors(config, maps, early_target, FEATURE_STRIDE, node_count)
            for name, value in early.items():
                result[f"early_{name}"] = result.get(f"early_{name}", 0.0) + value
    return result


def _squared_errors(
    config: TwoStageConfig, maps: Maps, target: Maps, stride: int, node_count: Tensor
) -> dict[str, Tensor]:
    """Compute the weighted squared errors of maps with cells of `stride` px."""
    nodes, directions = ((ours - true).square().sum() for ours, true in zip(maps, target, strict=True))
    area = stride**2 / node_count
    return {"node": config.node_weight * area * nodes, "direction": config.direction_weight * area * directions}
