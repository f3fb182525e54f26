"""Images of any size through a network of fixed input size: scaling, tiling, and merging the tiles' graphs.

An image is scaled. If it is then larger than the network's input, it is cut into overlapping tiles. A tile does not
show how a plant continues beyond its border. Therefore every tile has a core region, which ends in the middle of each
overlap, and its output has less weight towards its inner borders. `merge` combines the graphs of all tiles into one,
and `treeformer.decoding.decode.decode_pairs` finds one spanning tree over the whole image.

`input_size` and `side` are the side of the network's input, px. Nodes have scores (K,), points (K,2), root logits (K,),
log-odds, and attributes (K,3), see `RawPrediction`; costs are f⁻ − f⁺.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, ImageArray, IntArray
from treeformer._util.images import LazyImage
from treeformer._util.search_tree import search_tree
from treeformer.decoding.decode import LARGEST, bounded
from treeformer.decoding.spanning import minimum_spanning_tree

# Minimum overlap of neighboring tiles, px.
OVERLAP_PX = 128
# Maximum distance between predictions of one node in two tiles. Both show the same pixels, so only errors differ.
MERGE_RADIUS_PX = 6.0
# Number of cheapest edges kept per node of a tile, in addition to the tile's spanning tree.
PAIRS_PER_NODE = 12
# Nodes in the padding, up to this far outside the image, are moved to its border. Nodes farther out are dropped.
OUTSIDE_PX = 4.0
# Width of the zone along inner borders in which predictions are unreliable: lines that are cut there look like tips.
BORDER_PX = 16
MIN_WEIGHT = 1e-3


def working_scale(size: tuple[int, int], working_size: int | None, input_size: int) -> float:
    """Return the factor by which an image of a size (width, height), px, is scaled before it is cut into tiles.

    Images longer than `working_size` are reduced to it. Images shorter than the network's input are enlarged to it.
    Other images keep their size.

    Example:
        >>> working_scale((4000, 3000), 1000, 512)
        0.25
        >>> working_scale((128, 64), 1000, 512)
        4.0
        >>> working_scale((800, 9), 1000, 512)
        1.0
    """
    longest = max(size)
    target = longest if working_size is None else min(longest, working_size)
    return max(target, input_size) / longest


class Tile(NamedTuple):
    """A rectangle of the scaled image, with a core region. Every point of the image is in the core of one tile."""

    left: int
    top: int
    right: int  # exclusive
    bottom: int  # exclusive
    # left, top, right and bottom of the core region, px; infinite at the borders of the image
    core: tuple[float, float, float, float]

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) px."""
        return self.right - self.left, self.bottom - self.top

    def weight(self, points: FloatArray) -> FloatArray:
        """Return the weight (K,) of the tile's output at points (K,2) px: 1, falling to almost 0 at inner borders."""
        weight: FloatArray = np.clip(self._border_distance(points) / OVERLAP_PX, MIN_WEIGHT, 1.0).prod(axis=1)
        return weight

    def is_reliable(self, points: FloatArray) -> BoolArray:
        """Return a mask (K,): True for points (K,2) px at least `BORDER_PX` from the tile's inner borders."""
        distance = self._border_distance(points)
        return (distance[:, 0] >= BORDER_PX) & (distance[:, 1] >= BORDER_PX)

    def _border_distance(self, points: FloatArray) -> FloatArray:
        """Return the horizontal and vertical distance (K,2) px to the nearest inner border."""
        low = np.where(np.isfinite(self.core[:2]), points - (self.left, self.top), np.inf)
        high = np.where(np.isfinite(self.core[2:]), (self.right, self.bottom) - points, np.inf)
        return np.minimum(low, high)

    def in_core(self, points: FloatArray) -> BoolArray:
        """Return a mask (K,): True for points (K,2) px in the tile's core region."""
        x, y = points[:, 0], points[:, 1]
        left, top, right, bottom = self.core
        return (left <= x) & (x < right) & (top <= y) & (y < bottom)


def tile_grid(size: tuple[int, int], side: int, step: int = 1) -> list[Tile]:
    """Cover a scaled image with overlapping tiles of at most `side` px at about equal distances, row by row.

    Tiles start at multiples of `step`, px. If a network places nodes on the lines of a grid
    (`Skeleton.sample_at_grid_crossings`), all tiles then have them at the same positions.

    Example:
        >>> [(tile.left, tile.right) for tile in tile_grid((1000, 300), 512)]
        [(0, 512), (244, 756), (488, 1000)]
    """
    columns, rows = (_intervals(length, side, step) for length in size)
    return [
        Tile(left, top, right, bottom, (core_left, core_top, core_right, core_bottom))
        for top, bottom, core_top, core_bottom in rows
        for left, right, core_left, core_right in columns
    ]


def _intervals(length: int, side: int, step: int) -> list[tuple[int, int, float, float]]:
    """Return start, end, start of the core and end of the core of each tile along one side, px."""
    if length <= side:
        return [(0, length, -np.inf, np.inf)]
    step = min(step, side // 4)
    overlap = min(OVERLAP_PX, side // 2) + step - 1
    count = -(-(length - overlap) // (side - overlap))
    even = np.linspace(0, length - side, count)
    starts = (step * np.ceil(even / step) if step > 1 else np.rint(even)).astype(int).tolist()
    ends = [min(start + side, length) for start in starts]
    seams = [(start + end) / 2 for start, end in zip(starts[1:], ends, strict=False)]
    return list(zip(starts, ends, [-np.inf, *seams], [*seams, np.inf], strict=True))


def cut(image: LazyImage, tile: Tile, side: int) -> ImageArray:
    """Cut a tile out of an image and pad it to the network's input with the median color of the tile's border."""
    pixels = image.part((tile.left, tile.top, tile.right, tile.bottom))
    height, width = pixels.shape[:2]
    if (height, width) == (side, side):
        return pixels
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    padded = np.empty((side, side, 3), dtype=np.uint8)
    padded[:] = np.median(border, axis=0)
    padded[:height, :width] = pixels
    return padded


def inside(points: FloatArray, width: int, height: int) -> BoolArray:
    """Return which points (K,2), px of the input, lie at most `OUTSIDE_PX` outside a tile; NaN is outside."""
    x, y = points[:, 0] + OUTSIDE_PX, points[:, 1] + OUTSIDE_PX
    return (x >= 0) & (x <= width + 2 * OUTSIDE_PX) & (y >= 0) & (y <= height + 2 * OUTSIDE_PX)


class TileGraph(NamedTuple):
    """Node candidates and the costs of some edges between them: the input of `decode_pairs`."""

    node_score: FloatArray  # (K,)
    points: FloatArray  # (K,2) px of the scaled image
    pairs: IntArray  # (E,2) node indices, i < j, in ascending order
    pair_cost: FloatArray  # (E,)
    root_logit: FloatArray  # (K,)
    attributes: FloatArray | None = None  # (K,3), None if the model has none


def tile_graph(
    tile: Tile,
    node_score: FloatArray,
    points: FloatArray,
    edge_cost: FloatArray,
    root_logit: FloatArray,
    attributes: FloatArray | None = None,
    *,
    min_score: float,
    node_threshold: float,
) -> TileGraph:
    """Reduce the network's output for one tile to the edges that may matter, in px of the scaled image.

    These are the cheapest edges of each node, and the spanning tree of the nodes above the threshold. A single tile
    decodes to the same tree as with all edges, and memory does not grow with the square of the number of nodes. Points
    are in px of the input, costs (K,K); candidates below `min_score` are dropped.
    """
    kept = np.flatnonzero((node_score >= min_score) & inside(points, *tile.size))
    score = node_score[kept].astype(np.float64)
    cost = bounded(edge_cost[np.ix_(kept, kept)].astype(np.float64), nan=LARGEST)
    cost = (cost + cost.T) / 2
    position = np.clip(points[kept].astype(np.float64), 0.0, tile.size) + np.array([tile.left, tile.top])
    chosen = np.zeros(cost.shape, dtype=bool)
    likely = np.flatnonzero(score >= node_threshold)
    tree = likely[minimum_spanning_tree(cost[np.ix_(likely, likely)])]
    chosen[tree[:, 0], tree[:, 1]] = True
    np.fill_diagonal(cost, np.inf)
    cheapest = np.argsort(cost, axis=1, kind="stable")[:, :PAIRS_PER_NODE]
    chosen[np.arange(len(kept))[:, None], cheapest] = True
    pairs = np.argwhere(np.triu(chosen | chosen.T, 1))
    logit = bounded(root_logit[kept].astype(np.float64), nan=-LARGEST)
    of_nodes = None if attributes is None else attributes[kept].astype(np.float64)
    return TileGraph(score, position, pairs, cost[pairs[:, 0], pairs[:, 1]], logit, of_nodes)


def merge(tiles: Sequence[Tile], graphs: Sequence[TileGraph]) -> TileGraph:
    """Merge the graphs of all tiles into one graph of the image.

    Nodes of different tiles are the same node if each is the other's nearest neighbor within `MERGE_RADIUS_PX`. Two
    nodes of one tile are never merged. A node is kept if it lies in its tile's core region, or if two tiles predict it
    at least `BORDER_PX` from their inner borders. Scores, positions, root logits and edge costs are means, weighted by
    `Tile.weight`. An edge that is longer than the overlap, so that each of two tiles shows one end, is found by
    `_long_edges`.
    """
    sizes = [len(graph.node_score) for graph in graphs]
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
    tile_of = np.repeat(np.arange(len(tiles)), sizes)
    score, points, cost, logit = (
        np.concatenate([getattr(graph, name) for graph in graphs])
        for name in ("node_score", "points", "pair_cost", "root_logit")
    )
    pairs = np.concatenate([graph.pairs + start for graph, start in zip(graphs, first, strict=True)])
    weight = np.concatenate([tile.weight(graph.points) for tile, graph in zip(tiles, graphs, strict=True)])
    in_core = np.concatenate([tile.in_core(graph.points) for tile, graph in zip(tiles, graphs, strict=True)])
    reliable = np.concatenate([tile.is_reliable(graph.points) for tile, graph in zip(tiles, graphs, strict=True)])

    group = _group_nodes(points, tile_of)
    is_kept = (np.bincount(group, weights=reliable) > 1) | (np.bincount(group, weights=in_core) > 0)
    count = int(is_kept.sum())
    node = np.where(is_kept[group], (np.cumsum(is_kept) - 1)[group], -1)
    member = np.flatnonzero(node >= 0)

    def mean(values: FloatArray) -> FloatArray:
        return _weighted_mean(node[member], values[member], weight[member], count)

    attributes = None
    if all(graph.attributes is not None for graph in graphs):
        stacked = np.concatenate([graph.attributes for graph in graphs if graph.attributes is not None])
        attributes = np.stack([mean(column) for column in stacked.T], axis=1)
    long_pairs, long_cost = _long_edges(tiles, points, tile_of, pairs, cost, is_kept[group])
    pairs, cost = np.concatenate([pairs, long_pairs]), np.concatenate([cost, long_cost])
    ends = np.sort(node[pairs], axis=1)
    valid = np.flatnonzero((ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1]))
    key, index = np.unique(ends[valid, 0] * count + ends[valid, 1], return_inverse=True)
    pair_weight = weight[pairs[valid, 0]] * weight[pairs[valid, 1]]
    return TileGraph(
        mean(score),
        np.stack([mean(points[:, 0]), mean(points[:, 1])], axis=1),
        np.stack(np.divmod(key, max(count, 1)), axis=1),
        _weighted_mean(index, cost[valid], pair_weight, len(key)),
        mean(logit),
        attributes,
    )


def _long_edges(
    tiles: Sequence[Tile],
    points: FloatArray,
    tile_of: IntArray,
    pairs: IntArray,
    cost: FloatArray,
    is_kept: BoolArray,
) -> tuple[IntArray, FloatArray]:
    """Find pairs (P,2) of nodes of two tiles that one straight edge joins, and their costs (P,).

    If a line leaves a tile, the tile predicts a node at its border. That node is dropped, because it lies in the core
    of the next tile, which shows only a line there. If two likely edges end in such a dropped node, and each dropped
    node lies on the other edge, they are two views of one edge.
    """
    is_loose = ~is_kept[pairs]
    half = np.flatnonzero((is_loose.sum(axis=1) == 1) & (cost < 0))
    inner = np.where(is_loose[half, 0], pairs[half, 1], pairs[half, 0])
    outer = np.where(is_loose[half, 0], pairs[half, 0], pairs[half, 1])
    half_of_tile = [np.flatnonzero(tile_of[inner] == tile) for tile in range(len(tiles))]
    boxes = np.array([tile[:4] for tile in tiles])
    found: list[IntArray] = []
    for tile, ours in enumerate(half_of_tile):
        later = boxes[tile + 1 :] if len(ours) else boxes[:0]
        overlap = np.minimum(later[:, 2:], boxes[tile, 2:]) - np.maximum(later[:, :2], boxes[tile, :2])
        for neighbor in np.flatnonzero(overlap.min(axis=1) > 0) + tile + 1:
            theirs = half_of_tile[neighbor]
            to_theirs = _segment_distance(points[outer[ours]][:, None], points[inner[theirs]], points[outer[theirs]])
            to_ours = _segment_distance(points[outer[theirs]][:, None], points[inner[ours]], points[outer[ours]]).T
            i, j = np.nonzero(np.maximum(to_theirs, to_ours) <= MERGE_RADIUS_PX)
            found.append(np.stack([ours[i], theirs[j]], axis=1))
    both = np.concatenate([np.zeros((0, 2), dtype=np.intp), *found])
    return inner[both], cost[half[both]].mean(axis=1)


def _segment_distance(points: FloatArray, start: FloatArray, end: FloatArray) -> FloatArray:
    """Return the distance (P,S) px of points (P,1,2) from segments between start (S,2) and end (S,2)."""
    along = end - start
    fraction = ((points - start) * along).sum(axis=-1) / np.maximum((along**2).sum(axis=-1), 1e-12)
    offset = points - start - np.clip(fraction, 0.0, 1.0)[..., None] * along
    distance: FloatArray = np.hypot(offset[..., 0], offset[..., 1])
    return distance


def _weighted_mean(index: IntArray, values: FloatArray, weight: FloatArray, count: int) -> FloatArray:
    """Return the weighted mean (count,) of the values that share an index. Every index occurs."""
    mean: FloatArray = np.bincount(index, values * weight, count) / np.bincount(index, weight, count)
    return mean


def _group_nodes(points: FloatArray, tile_of: IntArray) -> IntArray:
    """Return the group (M,) of each node. Nodes of different tiles that are the same node share a group."""
    group = np.arange(len(points))
    members: dict[int, list[int]] = {}
    for i, j in _mutual_nearest(points, tile_of).tolist():
        ours, theirs = int(group[i]), int(group[j])
        joined = members.get(ours, [ours]) + members.get(theirs, [theirs])
        tiles = tile_of[joined]
        if ours != theirs and len(set(tiles.tolist())) == len(joined):
            lowest = min(joined)
            members[lowest] = joined
            group[joined] = lowest
    numbers: IntArray = np.unique(group, return_inverse=True)[1]
    return numbers


def _mutual_nearest(points: FloatArray, tile_of: IntArray) -> IntArray:
    """Return pairs (P,2) of nodes of two tiles, each the other's nearest there and in reach, nearest pairs first."""
    if len(points) == 0:
        return np.zeros((0, 2), dtype=np.intp)
    close = search_tree(points).query_pairs(MERGE_RADIUS_PX, output_type="ndarray")
    close = close[tile_of[close[:, 0]] != tile_of[close[:, 1]]]
    source, target = np.concatenate([close, close[:, ::-1]]).T
    distance = np.hypot(*(points[source] - points[target]).T)
    order = np.lexsort((target, distance, tile_of[target], source))
    query = np.stack([source[order], tile_of[target[order]]], axis=1)
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (query[1:] != query[:-1]).any(axis=1)
    nearest = order[is_first]
    forward = source[nearest] * len(points) + target[nearest]
    backward = target[nearest] * len(points) + source[nearest]
    found = nearest[np.isin(forward, backward) & (source[nearest] < target[nearest])]
    found = found[np.lexsort((target[found], source[found], distance[found]))]
    return np.stack([source[found], target[found]], axis=1)
