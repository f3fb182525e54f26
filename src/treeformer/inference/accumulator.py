"""Collect the network's output tile by tile and turn it into the skeleton of the image."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer._util.images import ImageSource
from treeformer.decoding.attributes import direction_cost, radius_px
from treeformer.decoding.curves import bend
from treeformer.decoding.decode import decode, decode_pairs
from treeformer.decoding.duplicates import suppress_duplicates
from treeformer.decoding.line_map import LineTile
from treeformer.decoding.postprocess import PLACE_DIGITS, postprocess
from treeformer.decoding.spanning import all_pairs
from treeformer.decoding.structured import Structure
from treeformer.inference import tiles
from treeformer.inference.auto_scale import MIN_BASE_SCORE, choose_working_size, move_bases
from treeformer.inference.engine import RawPrediction
from treeformer.inference.options import PredictionOptions
from treeformer.inference.tiles import Tile, TileGraph
from treeformer.inference.views import View
from treeformer.skeleton import Skeleton

# Tiles whose edge costs are kept in full, at most 256 kB each. Beyond that, tiles are reduced to sparse graphs.
MAX_PENDING_TILES = 32
MIN_BASE_LOGIT = math.log(MIN_BASE_SCORE / (1 - MIN_BASE_SCORE))


@dataclass
class TileAccumulator:
    """The network's output for the tiles of one image, and what it takes to decode it. Contains no pixels."""

    options: PredictionOptions
    original_size: tuple[int, int]  # (width, height) px of the original image
    scaled_size: tuple[int, int]  # (width, height) px of the image at its working size
    tiles: list[Tile]  # all tiles of the image, in the order in which they are predicted
    image_name: str | None  # None if the image was not read from a file
    # sparse graphs of the first tiles. Stays empty if the image is a single tile.
    graphs: list[TileGraph] = field(default_factory=list)
    # node scores (K,), points (K,2) px of the input, edge costs (K,K), root logits (K,) and, if the model has them,
    # attributes (K,3) of the tiles that follow those in `graphs`
    pending: list[tuple[FloatArray, ...]] = field(default_factory=list)
    # maps of center lines of the tiles that have been added; stays empty if the model has none
    lines: list[LineTile] = field(default_factory=list)
    # the image, to open it again for a second pass; None if it cannot be opened again
    source: ImageSource | View | None = None
    # input of the first pass is pure noise. If no plant is found there, there is no second pass.
    is_noise: bool = False
    # output of a pass over the whole image, which decides about roots; None if there was none
    first_pass: TileAccumulator | None = None
    result: Skeleton | None = None  # the skeleton, after it was decoded

    def add(self, raw: RawPrediction, row: int) -> None:
        """Add the engine's output for the next tile, which is one row of a batch."""
        tile = self.tiles[len(self.graphs) + len(self.pending)]
        score, points, cost, logit = raw.node_score[row], raw.points[row], raw.edge_cost[row], raw.root_logit[row]
        min_score = self.options.node_threshold if len(self.tiles) == 1 else self.options.min_score
        kept = np.flatnonzero((score >= min_score) & tiles.inside(points, *tile.size))
        output = score[kept], points[kept], cost[kept[:, None], kept], logit[kept]
        self.pending.append(output if raw.attributes is None else (*output, raw.attributes[row][kept]))
        if raw.lines is not None and self.options.curves:
            self.lines.append(LineTile.of(raw.lines[row], tile.size, (tile.left, tile.top), tile.core))
        if len(self.pending) > MAX_PENDING_TILES:
            self._reduce_pending()

    def _reduce_pending(self) -> None:
        thresholds = {name: getattr(self.options, name) for name in ("min_score", "node_threshold")}
        for output in self.pending:
            self.graphs.append(tiles.tile_graph(self.tiles[len(self.graphs)], *output, **thresholds))
        self.pending.clear()

    @property
    def is_complete(self) -> bool:
        """True if the output for every tile has been added."""
        return len(self.graphs) + len(self.pending) == len(self.tiles)

    def skeleton(self) -> Skeleton:
        """Return the skeleton of the image, in px of the original image. Requires `is_complete`."""
        if self.result is None:
            self.result = self._decode()
        return self.result

    def second_pass(self) -> PredictionOptions | None:
        """Return the options of a second pass, if a scale rule chooses a larger size. Requires `is_complete`."""
        rule, longest = self.options.scale_rule, max(self.scaled_size)
        if rule is None or longest >= max(self.original_size):
            return None
        # The nodes on curves would count more than others.
        forest = self._decode(curves=False) if self.lines else self.skeleton()
        if self.is_noise and not len(forest):
            return None
        size = choose_working_size(forest, rule, longest, self.options.fixed_px)
        return self.options.at_size(size, is_final=True) if size > longest else None

    def bases(self) -> FloatArray:
        """Return (B,2) the likely roots of an image of one tile, px of the original image, the surest first."""
        score, points, _, logit, *_ = self.pending[0]
        likely = np.flatnonzero((score >= self.options.node_threshold) & (logit >= MIN_BASE_LOGIT))
        likely = likely[np.argsort(-logit[likely], kind="stable")]
        bases: FloatArray = self._to_original(points[likely])
        return bases

    def _to_original(self, points: FloatArray) -> FloatArray:
        """Convert points, (K,2) px of the scaled image, to px of the original image."""
        scale = np.divide(self.original_size, self.scaled_size)
        return (np.clip(points, 0.0, self.scaled_size) * scale).round(PLACE_DIGITS)

    def _decode(self, *, curves: bool = True) -> Skeleton:
        forest = self._decode_tile() if len(self.tiles) == 1 else self._decode_tiles()
        if self.first_pass is not None:
            forest = move_bases(forest, self.first_pass.bases())
        return postprocess(
            forest,
            edge_threshold=self.options.edge_threshold,
            unsure_plants=self.options.unsure_plants,
            single_plant=self.options.single_plant,
            calibration=self.options.edge_calibration,
            low_confidence=self.options.low_confidence,
            bend=self._bend if curves and self.lines else None,
            image_name=self.image_name,
            metadata=self.options.metadata,
        )

    def _bend(self, forest: Skeleton) -> Skeleton:
        """Replace the edges of a forest, in px of the original image, by curves along the center lines."""
        curved = bend(forest, self.lines, np.divide(self.original_size, self.scaled_size))
        return curved.replace(nodes=np.clip(curved.nodes, 0.0, self.original_size).round(PLACE_DIGITS))

    def _decode_tile(self) -> Skeleton:
        """Decode an image of a single tile, with the costs of all edges."""
        score, points, cost, logit, *others = self.pending[0]
        attributes = others[0] if others else None
        lower, higher = all_pairs(len(score))
        pairs = np.stack([lower, higher], axis=1)
        score = self._without_duplicates(score, points, pairs, cost[lower, higher])
        extra = None
        if attributes is not None and self.options.direction_weight:
            extra = np.zeros(cost.shape)
            extra[lower, higher] = direction_cost(points, pairs, attributes, self.options.direction_weight)
            extra += extra.T
        place, options = self._to_original(points), self._decode_options(points, attributes)
        return decode(score, place, cost, logit, extra_cost=extra, **options)

    def _decode_tiles(self) -> Skeleton:
        """Decode an image of several tiles, with the costs of edges inside tiles."""
        self._reduce_pending()
        graph = tiles.merge(self.tiles, self.graphs)
        score = self._without_duplicates(graph.node_score, graph.points, graph.pairs, graph.pair_cost)
        extra = None
        if graph.attributes is not None and self.options.direction_weight:
            extra = direction_cost(graph.points, graph.pairs, graph.attributes, self.options.direction_weight)
        place, options = self._to_original(graph.points), self._decode_options(graph.points, graph.attributes)
        return decode_pairs(score, place, graph.pairs, graph.pair_cost, graph.root_logit, extra_cost=extra, **options)

    def _without_duplicates(
        self, score: FloatArray, points: FloatArray, pairs: IntArray, pair_cost: FloatArray
    ) -> FloatArray:
        return suppress_duplicates(score, points, pairs, pair_cost, self.options.node_threshold)

    def _decode_options(self, points: FloatArray, attributes: FloatArray | None) -> dict[str, Any]:
        """Return the options that `decode` and `decode_pairs` share."""
        scale = max(self.original_size) / max(self.scaled_size)
        structure = None
        if self.options.structure is not None and self.options.tile_step > 1 and attributes is not None:
            of_nodes = points.astype(np.float64), attributes[:, 1:].astype(np.float64)
            structure = Structure(*of_nodes, self.options.tile_step, self.options.structure)
        return {
            "node_threshold": self.options.node_threshold,
            "root_threshold": self.options.root_threshold,
            "single_plant": self.options.single_plant,
            "image_size": self.original_size,
            "structure": structure,
            "radius": None if attributes is None else radius_px(attributes, scale),
        }
