"""Collect the network's output tile by tile and turn it into the image's skeleton."""

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

# Of so many tiles all edges are kept until someone has time for them, 256 kB each at most; then the likely ones alone.
MOST_WITH_ALL_EDGES = 32


@dataclass
class TileAccumulator:
    """What is known of an image while its tiles come in, and what it takes to make its skeleton; no pixels.

    Attributes:
        original_size, scaled_size: (width, height) px.
    """

    options: PredictionOptions
    original_size: tuple[int, int]
    scaled_size: tuple[int, int]
    tiles: list[Tile]
    image_name: str | None
    graphs: list[TileGraph] = field(default_factory=list)  # of the first tiles, where there are several
    numbers: list[tuple[FloatArray, ...]] = field(default_factory=list)  # of the next ones: all edges of likely nodes

    def add(self, raw: RawPrediction, row: int) -> None:
        """Take one image of a batch as the next tile; quick, until there are many."""
        tile = self.tiles[len(self.graphs) + len(self.numbers)]
        score, points, cost, logit = (array[row] for array in raw)
        min_score = self.options.node_threshold if len(self.tiles) == 1 else self.options.min_score
        kept = np.flatnonzero((score >= min_score) & tiles.inside(points, *tile.size))
        self.numbers.append((score[kept], points[kept], cost[kept[:, None], kept], logit[kept]))
        if len(self.numbers) > MOST_WITH_ALL_EDGES:
            self._make_graphs()

    def _make_graphs(self) -> None:
        thresholds = {name: getattr(self.options, name) for name in ("min_score", "node_threshold")}
        for numbers in self.numbers:
            self.graphs.append(tiles.tile_graph(self.tiles[len(self.graphs)], *numbers, **thresholds))
        self.numbers.clear()

    @property
    def is_complete(self) -> bool:
        """Whether all tiles are there."""
        return len(self.graphs) + len(self.numbers) == len(self.tiles)

    def skeleton(self) -> Skeleton:
        """The image's skeleton, once all tiles are there."""
        thresholds = {name: getattr(self.options, name) for name in ("node_threshold", "root_threshold")}
        scale = np.divide(self.original_size, self.scaled_size)
        if len(self.tiles) == 1:
            numbers, tree_of = self.numbers[0], decode
            pairs = np.stack(np.triu_indices(len(numbers[0]), 1), axis=1)
            pair_cost = numbers[2][pairs[:, 0], pairs[:, 1]]
        else:
            self._make_graphs()
            graph = tiles.merge(self.tiles, self.graphs)
            numbers, tree_of = graph, decode_pairs  # type: ignore[assignment]
            pairs, pair_cost = graph.pairs, graph.pair_cost
        score, points, *rest = numbers
        found: Skeleton = tree_of(
            suppress_duplicates(score, points, pairs, pair_cost, self.options.node_threshold),
            (np.clip(points, 0.0, self.scaled_size) * scale).round(PLACE_DIGITS),
            *rest,
            **thresholds,
            single_plant=self.options.single_plant,
            image_size=self.original_size,
        )
        return postprocess(
            found,
            edge_threshold=self.options.edge_threshold,
            unsure_plants=self.options.unsure_plants,
            image_name=self.image_name,
            model_name=self.options.model_name,
        )
