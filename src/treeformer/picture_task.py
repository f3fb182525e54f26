"""One picture on its way from pixels to a skeleton: what was asked for, its tiles, and what came back of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from treeformer import tiles
from treeformer.axes import FloatArray
from treeformer.branches import BoolArray, components
from treeformer.decode import decode, decode_pairs
from treeformer.derive import part
from treeformer.doubles import without_doubles
from treeformer.engines import RawPrediction
from treeformer.errors import TreeformerError
from treeformer.images import Picture, Pixels, Source, open_picture
from treeformer.model_folder import ModelFolder
from treeformer.skeleton import Skeleton
from treeformer.tiles import Graph, Tile

# Places are given to a hundredth of a pixel and confidences to four digits: batches, which the network adds up in
# different orders, differ below, and so at most in the last of them.
PLACE_DIGITS, SCORE_DIGITS = 2, 4
# What an engine leaves out, or fills up with, has a score of 0, and is no node whatever the threshold.
LEAST_SCORE = float(np.finfo(np.float32).tiny)
# The axis of a root goes on along the straightest way that leads at least this share as far as the farthest: a
# predicted main root would otherwise end at the first lateral that is better in line (benchmarks/predicted_axes.py).
LEAST_REACH_OF_ROOTS = 1 / 3
# Of so many tiles all edges are kept until someone has time for them, 256 kB each at most; then the likely ones alone.
MOST_WITH_ALL_EDGES = 32

WorkingSize = int | Literal["full"] | None


class Options:
    """What was asked for, checked, with the model's own values where nothing was.

    Attributes:
        working_px: the length that longer pictures are reduced to; None: never.
        node_threshold: least confidence of a node in the tree; the model's candidates have no lower one.
        least_score: least score of a candidate in one tile.
        edge_threshold: least confidence of an edge; 0 keeps the spanning tree whole.
        unsure_plants: whether a plant may stay without a single node that is likelier than not.
        tile_step: tiles begin at multiples of it, px.
    """

    def __init__(
        self, model: ModelFolder, working_size: WorkingSize, plants: int | None, min_confidence: float | None
    ) -> None:
        settings = model.config
        if isinstance(working_size, int) and working_size < 1:
            raise TreeformerError(f"the working size must be a positive number of pixels, not {working_size}")
        if isinstance(working_size, str) and working_size != "full":
            raise TreeformerError(f"the working size is a number of pixels or 'full', not {working_size!r}")
        if plants not in (None, 1):
            raise TreeformerError(f"plants can be 1, for one tree, or left out, not {plants}")
        if min_confidence is not None and not 0 <= min_confidence <= 1:
            raise TreeformerError(f"the least confidence must lie between 0 and 1, not {min_confidence}")
        wanted = settings.working_size if working_size is None else working_size
        self.working_px = None if isinstance(wanted, str) else wanted
        asked = settings.node_threshold if min_confidence is None else min_confidence
        self.least_score = max(settings.candidate_score, LEAST_SCORE)
        self.node_threshold = max(asked, self.least_score)
        self.root_threshold = settings.root_threshold
        self.single_plant = plants == 1
        self.tile_step = settings.tile_step
        self.edge_threshold = 0.0 if self.single_plant else min_confidence or 0.0
        self.unsure_plants = min_confidence is not None
        self.model_name = model.path.name


@dataclass
class Decoding:
    """What is known of a picture while its tiles come in, and what it takes to make its skeleton; no pixels.

    Attributes:
        original_size, scaled_size: (width, height) px.
    """

    options: Options
    original_size: tuple[int, int]
    scaled_size: tuple[int, int]
    tiles: list[Tile]
    image_name: str | None
    graphs: list[Graph] = field(default_factory=list)  # of the first tiles, where there are several
    numbers: list[tuple[FloatArray, ...]] = field(default_factory=list)  # of the next ones: all edges of likely nodes

    def add(self, raw: RawPrediction, row: int) -> None:
        """Take one picture of a batch as the next tile; quick, until there are many."""
        tile = self.tiles[len(self.graphs) + len(self.numbers)]
        score, points, cost, logit = (array[row] for array in raw)
        least_score = self.options.node_threshold if len(self.tiles) == 1 else self.options.least_score
        kept = np.flatnonzero((score >= least_score) & tiles.inside(points, *tile.size))
        self.numbers.append((score[kept], points[kept], cost[kept[:, None], kept], logit[kept]))
        if len(self.numbers) > MOST_WITH_ALL_EDGES:
            self._make_graphs()

    def _make_graphs(self) -> None:
        thresholds = {name: getattr(self.options, name) for name in ("least_score", "node_threshold")}
        for numbers in self.numbers:
            self.graphs.append(tiles.tile_graph(self.tiles[len(self.graphs)], *numbers, **thresholds))
        self.numbers.clear()

    @property
    def is_complete(self) -> bool:
        """Whether all tiles are there."""
        return len(self.graphs) + len(self.numbers) == len(self.tiles)

    def skeleton(self) -> Skeleton:
        """The picture's skeleton, once all tiles are there."""
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
            without_doubles(score, points, pairs, pair_cost, self.options.node_threshold),
            (np.clip(points, 0.0, self.scaled_size) * scale).round(PLACE_DIGITS),
            *rest,
            **thresholds,
            single_plant=self.options.single_plant,
            image_size=self.original_size,
        )
        if self.options.edge_threshold:
            found = without_unlikely_edges(found, self.options.edge_threshold)
        if not self.options.unsure_plants:
            found = without_unsure_plants(found)
        assert found.node_score is not None
        assert found.edge_score is not None
        stated = found.replace(
            node_score=found.node_score.round(SCORE_DIGITS),
            edge_score=found.edge_score.round(SCORE_DIGITS),
            plant=found.plant_of_node,
            image_name=self.image_name,
            metadata={"model": self.options.model_name},
        )
        return stated.with_axes(np.where(is_below_base(stated), LEAST_REACH_OF_ROOTS, 0.0))


def is_below_base(skeleton: Skeleton) -> BoolArray:
    """(N,) whether the tree of each node lies, by its length, below the base: whether it is of roots, not of shoots."""
    base = skeleton.nodes[skeleton.bases, 1][skeleton.piece]
    below = (skeleton.nodes[:, 1] - base)[skeleton.edges].mean(axis=1) * skeleton.edge_length
    down: BoolArray = np.bincount(skeleton.piece[skeleton.edges[:, 0]], below, len(skeleton.bases)) > 0
    return down[skeleton.piece]


def without_unlikely_edges(skeleton: Skeleton, least_score: float) -> Skeleton:
    """The forest without the edges below a confidence, and without the nodes that this leaves alone.

    A piece that comes off begins where it was cut off.
    """
    assert skeleton.edge_score is not None
    assert skeleton.node_score is not None
    likely = skeleton.edge_score >= least_score
    edges = skeleton.edges[likely]
    degree = np.bincount(edges.ravel(), minlength=len(skeleton))
    stays = (degree > 0) | (skeleton.degree == 0)
    piece = components(edges, len(skeleton))
    first = np.lexsort((skeleton.depth, piece))
    base = first[np.unique(piece[first], return_index=True)[1]]
    number = np.cumsum(stays) - 1
    return Skeleton(
        skeleton.nodes[stays],
        number[edges],
        root=number[base[stays[base]]],
        node_score=skeleton.node_score[stays],
        edge_score=skeleton.edge_score[likely],
        image_size=skeleton.image_size,
    )


def without_unsure_plants(skeleton: Skeleton) -> Skeleton:
    """The forest without the trees of which no node is likelier than not: darkness and noise give such trees."""
    assert skeleton.node_score is not None
    return part(skeleton, np.isin(skeleton.piece, skeleton.piece[skeleton.node_score >= 0.5]))


@dataclass
class PictureTask:
    """A picture that is to be predicted; `first` is the first tile's input, ready."""

    picture: Picture | None  # None where the first tile is all of it
    decoding: Decoding
    side: int  # of the engine's input
    first: Pixels

    def inputs(self) -> Iterator[Pixels]:
        """(side, side, 3) of each tile, one at a time."""
        yield self.first
        for tile in self.decoding.tiles[1:]:
            assert self.picture is not None
            yield tiles.cut(self.picture, tile, self.side)


class TooLargeError(Exception):
    """A picture is larger than was asked for; none of its pixels has been read."""


def begin(image: Source, options: Options, side: int, most_pixels: float = math.inf) -> PictureTask:
    """Open a picture and plan its tiles of `side` px; TooLargeError where it has more pixels at its working size."""

    def scale(size: tuple[int, int]) -> float:
        factor = tiles.working_scale(size, options.working_px, side)
        if size[0] * size[1] * factor**2 > most_pixels:
            raise TooLargeError
        return factor

    picture = open_picture(image, scale)
    name = Path(image).name if isinstance(image, str | os.PathLike) else None
    grid = tiles.tile_grid(picture.size, side, options.tile_step)
    decoding = Decoding(options, picture.original_size, picture.size, grid, name)
    first = tiles.cut(picture, grid[0], side)
    return PictureTask(picture if len(grid) > 1 else None, decoding, side, first)


def begin_or_error(
    image: Source, options: Options, side: int, most_pixels: float = math.inf
) -> PictureTask | TreeformerError:
    """As `begin`, with the error as a value where the picture cannot be read."""
    try:
        return begin(image, options, side, most_pixels)
    except TreeformerError as error:
        return error
