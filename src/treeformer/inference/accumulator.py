"""Collect the network's output tile by tile and turn it into the skeleton of the image."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.decoding.decode import decode, decode_pairs
from treeformer.decoding.duplicates import suppress_duplicates
from treeformer.decoding.postprocess import PLACE_DIGITS, postprocess
from treeformer.inference import tiles
from treeformer.inference.engine import RawPrediction
from treeformer.inference.options import PredictionOptions
from treeformer.inference.tiles import Tile, TileGraph
from treeformer.skeleton import Skeleton

# Tiles whose edge costs are kept in full, at most 256 kB each. Beyond that, tiles are reduced to sparse graphs.
MAX_PENDING_TILES = 32


@dataclass
class TileAccumulator:
    """The network's output for the tiles of one image, and what it takes to decode it. Contains no pixels.

    Attributes:
        options: the caller's options.
        original_size: (width, height) px of the original image.
        scaled_size: (width, height) px of the image at its working size.
        tiles: all tiles of the image, in the order in which they are predicted.
        image_name: file name of the image, None if it was not read from a file.
        graphs: sparse graphs of the first tiles. Stays empty if the image is a single tile.
        pending: node scores (K,), points (K,2) px of the input, edge costs (K,K) and root logits (K,) of the tiles
            that follow those in `graphs`.
    """

    options: PredictionOptions
    original_size: tuple[int, int]
    scaled_size: tuple[int, int]
    tiles: list[Tile]
    image_name: str | None
    graphs: list[TileGraph] = field(default_factory=list)
    pending: list[tuple[FloatArray, ...]] = field(default_factory=list)

    def add(self, raw: RawPrediction, row: int) -> None:
        """Add the output for the next tile.

        Args:
            raw: the engine's output for a batch.
            row: index of the tile in the batch.
        """
        tile = self.tiles[len(self.graphs) + len(self.pending)]
        score, points, cost, logit = raw.node_score[row], raw.points[row], raw.edge_cost[row], raw.root_logit[row]
        min_score = self.options.node_threshold if len(self.tiles) == 1 else self.options.min_score
        kept = np.flatnonzero((score >= min_score) & tiles.inside(points, *tile.size))
        self.pending.append((score[kept], points[kept], cost[kept[:, None], kept], logit[kept]))
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
        thresholds = {name: getattr(self.options, name) for name in ("node_threshold", "root_threshold")}
        scale = np.divide(self.original_size, self.scaled_size)
        if len(self.tiles) == 1:
            output, decode_output = self.pending[0], decode
            pairs = np.stack(np.triu_indices(len(output[0]), 1), axis=1)
            pair_cost = output[2][pairs[:, 0], pairs[:, 1]]
        else:
            self._reduce_pending()
            graph = tiles.merge(self.tiles, self.graphs)
            output, decode_output = graph, decode_pairs  # type: ignore[assignment]
            pairs, pair_cost = graph.pairs, graph.pair_cost
        score, points, *rest = output
        forest: Skeleton = decode_output(
            suppress_duplicates(score, points, pairs, pair_cost, self.options.node_threshold),
            (np.clip(points, 0.0, self.scaled_size) * scale).round(PLACE_DIGITS),
            *rest,
            **thresholds,
            single_plant=self.options.single_plant,
            image_size=self.original_size,
        )
        return postprocess(
            forest,
            edge_threshold=self.options.edge_threshold,
            unsure_plants=self.options.unsure_plants,
            calibration=self.options.edge_calibration,
            image_name=self.image_name,
            metadata=self.options.metadata,
        )
