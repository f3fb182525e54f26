"""The two-stage baseline: ViNet as the paper re-implements it (supplement, "Two-stage baseline").

image → node confidence and branch direction maps → nodes → resistivities → a tree; see docs/two-stage.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.baselines.two_stage.decode import decode_maps
from treeformer.baselines.two_stage.hourglass import StackedHourglass
from treeformer.baselines.two_stage.map_head import CHANNELS_A_CLASS, FEATURE_STRIDE, MapHead, split_maps
from treeformer.baselines.two_stage.target_maps import Maps, map_errors, target_maps
from treeformer.errors import TreeformerError
from treeformer.nn.backbone import ResNet
from treeformer.nn.pyramid import FeaturePyramid
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton

# The rows of the supplement's parameter table; the column "image size" is the data's.
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
# With a larger one resistivities would leave the range of numbers.
LARGEST_POWER = 50


@dataclass(frozen=True)
class TwoStageConfig:
    """Network, maps and decoding. The values given here are the paper's for its synthetic set, where it gives any."""

    # ---- the network
    network: Literal["fpn", "hourglass"] = "fpn"  # the paper's, or ViNet's
    backbone_blocks: tuple[int, ...] = (3, 4, 6, 3)  # of the feature pyramid: a ResNet-50
    backbone_channels: int = 64
    frozen_stages: int = 1  # parts of the backbone that are not trained, as in TreeFormer
    width: int = 256  # channels of the pyramid's levels and of the hourglasses
    fine_width: int = 128  # channels of the pyramid's finest level
    hourglass_stacks: int = 2
    hourglass_depth: int = 4  # halvings in each hourglass

    # ---- the maps: columns of the supplement's parameter table
    map_stride: int = 1  # image px a cell: "map size"; 1, 2 or 4
    node_diameter_px: float = 4.0  # "node confidence diameter": width at half height of a node's Gaussian
    edge_width_px: float = 5.0  # "edge direction width"
    classes: int = 1  # of nodes and edges; 1 is the paper's "binary", for which an image needs no classes

    # ---- node extraction: the other columns
    node_search_px: float = 9.0  # "node search distance" d
    node_peak_share: float = 0.97  # τ_m
    node_threshold: float = 0.5  # τ_n
    max_nodes: int = 300  # ours: a bound of what a poor map can cost

    # ---- edges
    edges: Literal["mst", "dijkstra"] = "mst"  # the paper's, or ViNet's
    segment_points: int = 32  # places at which the direction map is read between two nodes
    distance_power: float = 1.1  # resistivity = distance^1.1 / alignment^4
    alignment_power: float = 4.0

    # ---- training: squared errors of the maps
    node_weight: float = 10.0  # a node covers about 9 px of its map, an edge about 300 of the other
    direction_weight: float = 1.0

    def __post_init__(self) -> None:
        for name, allowed in get_type_hints(type(self)).items():
            choices = get_args(allowed) if getattr(allowed, "__origin__", None) is Literal else ()
            if choices and getattr(self, name) not in choices:
                raise TreeformerError(f"{name} is {getattr(self, name)!r}, one of {', '.join(choices)} is needed")
        object.__setattr__(self, "backbone_blocks", tuple(self.backbone_blocks))
        if self.map_stride not in (1, 2, 4):
            raise TreeformerError(f"map_stride is {self.map_stride}, one of 1, 2, 4 is needed")
        for name in ("classes", "hourglass_stacks", "hourglass_depth", "segment_points", "max_nodes"):
            if getattr(self, name) < 1:
                raise TreeformerError(f"{name} is {getattr(self, name)}, at least 1 is needed")
        for name in ("node_diameter_px", "edge_width_px"):
            if not getattr(self, name) > 0:
                raise TreeformerError(f"{name} is {getattr(self, name)}, a positive number is needed")
        for name in ("distance_power", "alignment_power"):
            if not 0 <= getattr(self, name) <= LARGEST_POWER:
                raise TreeformerError(f"{name} is {getattr(self, name)}, a number from 0 to {LARGEST_POWER} is needed")
        if self.network == "hourglass" and self.width % 32:
            raise TreeformerError(f"width {self.width} is not a multiple of 32, which the hourglass needs")

    @classmethod
    def paper(cls, domain: Literal["synthetic", "root", "grapevine"] = "synthetic", **changes: Any) -> TwoStageConfig:
        """With the row of the supplement's parameter table for one of the paper's domains."""
        if domain not in PAPER_PARAMETERS:
            raise TreeformerError(f"no parameters for {domain!r}: choose one of {', '.join(PAPER_PARAMETERS)}")
        return cls(**(PAPER_PARAMETERS[domain] | changes))

    @classmethod
    def hourglass(cls, **changes: Any) -> TwoStageConfig:
        """With ViNet's kind of network."""
        return cls(**({"network": "hourglass"} | changes))


@dataclass
class MapOutput:
    """The answer of `TwoStage.forward`."""

    maps: Maps  # of cells of `map_stride` px
    early: tuple[Maps, ...] = ()  # at stride 4, of all hourglasses but the last


class TwoStage(nn.Module):
    """A network for the two maps, and the second stage behind `decode`.

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
            predicted = CHANNELS_A_CLASS * config.classes
            self.hourglass = StackedHourglass(config.hourglass_stacks, config.hourglass_depth, config.width, predicted)
            self.coarsest_stride = FEATURE_STRIDE * 2**config.hourglass_depth
            channels = config.width
        self.head = MapHead(channels, config.classes, config.map_stride)
        self._losses = map_losses

    def forward(self, images: Tensor, targets: Targets | None = None) -> MapOutput:
        """(B,3,H,W) RGB in [0,1], sides multiples of the coarsest stride → maps. The targets are not looked at."""
        height, width = images.shape[-2:]
        if height % self.coarsest_stride or width % self.coarsest_stride:
            raise TreeformerError(f"an image of {width}×{height} px; multiples of {self.coarsest_stride} are needed")
        return self.predict_maps(images)

    def predict_maps(self, images: Tensor) -> MapOutput:
        """The first stage."""
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
        """What the maps `like` should have been: (B,C,h,w) and (B,C,2,h,w)."""
        config = self.config
        height, width = like.nodes.shape[-2:]
        stride = config.map_stride
        return target_maps(
            targets, config.classes, (height, width), stride, config.node_diameter_px, config.edge_width_px
        )

    def loss(self, output: MapOutput, targets: Targets, node_count: Tensor | None = None) -> dict[str, Tensor]:
        """Weighted losses by name; their sum is what to minimize. See `map_losses`."""
        if node_count is None:
            node_count = targets.mask.sum().clamp(min=1)
        target = self.target(targets, output.maps)
        early = None
        if output.early:
            config, size = self.config, tuple(output.early[0].nodes.shape[-2:])
            drawn = (config.node_diameter_px, config.edge_width_px)
            early = target_maps(targets, config.classes, size, FEATURE_STRIDE, *drawn)
        return self._losses(self.config, output, target, early, node_count)

    @torch.no_grad()
    def map_errors(self, output: MapOutput, targets: Targets) -> dict[str, float]:
        """Mean squared errors of the maps of a batch, as in the supplement's table: of "nodes" and "directions"."""
        nodes, directions = map_errors(output.maps, self.target(targets, output.maps))
        return {"nodes": float(nodes), "directions": float(directions)}

    @torch.no_grad()
    def decode(self, output: MapOutput, **options: Any) -> list[Skeleton]:
        """One skeleton an image, one tree each; options as in `treeformer.baselines.two_stage.decode.decode_maps`."""
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
        """`torch.compile` with `options` for the network and the losses; the true maps are drawn outside."""
        options.setdefault("dynamic", False)
        self.predict_maps = torch.compile(self.predict_maps, **options)  # type: ignore[method-assign]
        self._losses = torch.compile(self._losses, **options)


def map_losses(
    config: TwoStageConfig, output: MapOutput, target: Maps, early_target: Maps | None, node_count: Tensor
) -> dict[str, Tensor]:
    """Squared errors of both maps, summed over the image's area in px, for each true node.

    Up to the number of nodes that is the mean squared error. Losses named `early_…` are those of the hourglasses before
    the last.
    """
    result = _squared_errors(config, output.maps, target, config.map_stride, node_count)
    for maps in output.early:
        early = _squared_errors(config, maps, early_target, FEATURE_STRIDE, node_count)
        for name, value in early.items():
            result[f"early_{name}"] = result.get(f"early_{name}", 0.0) + value
    return result


def _squared_errors(
    config: TwoStageConfig, maps: Maps, target: Maps, stride: int, node_count: Tensor
) -> dict[str, Tensor]:
    nodes, directions = ((ours - true).square().sum() for ours, true in zip(maps, target, strict=True))
    area = stride**2 / node_count
    return {"node": config.node_weight * area * nodes, "direction": config.direction_weight * area * directions}
