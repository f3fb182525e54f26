"""Images of any size through a network of one size: the scale, the tiles, and one graph out of what the tiles say.

An image is scaled, and where it is then larger than the network's input it is cut into tiles that overlap. A tile
cannot know how a plant goes on beyond its border, so every tile has a part of its own, up to the middle of each
overlap, and its word weighs less towards its inner borders. `merge` makes one graph of all of them, and
`treeformer.decoding.decode.decode_pairs` finds one spanning tree over the whole image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from treeformer._util.arrays import FloatArray, ImageArray, IntArray
from treeformer._util.images import LazyImage
from treeformer.decoding.decode import LARGEST, bounded
from treeformer.decoding.spanning import minimum_spanning_tree

# Neighboring tiles share at least this much, px.
OVERLAP_PX = 128
# Nodes of two tiles at most this far apart may be one: both tiles have them in the same place, but for their errors.
MERGE_RADIUS_PX = 6.0
# Of each node of a tile so many of its cheapest edges are kept, and the tile's own spanning tree.
PAIRS_A_NODE = 12
# A node this far outside the image, in the padding, is taken to be on its border; one farther out is none.
OUTSIDE_PX = 4.0
# This near to an inner border a tile is not believed: it sees ends where lines are cut.
BLIND_PX = 16
LEAST_WEIGHT = 1e-3


def working_scale(size: tuple[int, int], working_size: int | None, input_size: int) -> float:
    """The factor by which the sides of an image of (width, height) px are multiplied before it is cut into tiles.

    Images longer than `working_size` are reduced to it (None: never); images shorter than the network's input are
    enlarged to it; others stay as they are.

    >>> working_scale((4000, 3000), 1000, 512), working_scale((128, 64), 1000, 512), working_scale((800, 9), 1000, 512)
    (0.25, 4.0, 1.0)
    """
    longest = max(size)
    target = longest if working_size is None else min(longest, working_size)
    return max(target, input_size) / longest


class Tile(NamedTuple):
    """A part of the scaled image: what is cut out, px, and the part of it whose nodes are the tile's own."""

    left: int
    top: int
    right: int
    bottom: int
    own: tuple[float, float, float, float]  # left, top, right, bottom; infinite where there is no further tile

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) px."""
        return self.right - self.left, self.bottom - self.top

    def weight(self, points: FloatArray) -> FloatArray:
        """(K,) what the tile's word on points (K,2) counts: 1 away from inner borders, falling to almost 0 there."""
        weight: FloatArray = np.clip(self._from_border(points) / OVERLAP_PX, LEAST_WEIGHT, 1.0).prod(axis=1)
        return weight

    def trusts(self, points: FloatArray) -> NDArray[np.bool_]:
        """(K,) whether points (K,2) are so far from the inner borders that the tile can tell ends from cuts."""
        distance = self._from_border(points)
        return (distance[:, 0] >= BLIND_PX) & (distance[:, 1] >= BLIND_PX)

    def _from_border(self, points: FloatArray) -> FloatArray:
        """(K,2) px to the nearest inner border on the left or right, and above or below."""
        low = np.where(np.isfinite(self.own[:2]), points - (self.left, self.top), np.inf)
        high = np.where(np.isfinite(self.own[2:]), (self.right, self.bottom) - points, np.inf)
        return np.minimum(low, high)

    def owns(self, points: FloatArray) -> NDArray[np.bool_]:
        """(K,) whether points (K,2) lie in the tile's own part."""
        x, y = points[:, 0], points[:, 1]
        left, top, right, bottom = self.own
        return (left <= x) & (x < right) & (top <= y) & (y < bottom)


def tile_grid(size: tuple[int, int], side: int, step: int = 1) -> list[Tile]:
    """Tiles of at most `side` px that cover an image of (width, height) px, row by row, at about equal distances.

    step: tiles begin at multiples of it. Where a network puts nodes on the lines of a grid (`Skeleton.sample_at_grid_crossings`),
    tiles that begin at multiples of its spacing have them in the same places.

    >>> [(tile.left, tile.right) for tile in tile_grid((1000, 300), 512)]
    [(0, 512), (244, 756), (488, 1000)]
    """
    columns, rows = (_intervals(length, side, step) for length in size)
    return [
        Tile(left, top, right, bottom, (own_left, own_top, own_right, own_bottom))
        for top, bottom, own_top, own_bottom in rows
        for left, right, own_left, own_right in columns
    ]


def _intervals(length: int, side: int, step: int) -> list[tuple[int, int, float, float]]:
    """First, last, first of one's own and last of one's own px of each tile along one side."""
    step = min(step, side // 4)
    overlap = min(OVERLAP_PX, side // 2) + step - 1
    count = 1 if length <= side else -(-(length - overlap) // (side - overlap))
    even = np.linspace(0, max(0, length - side), count)
    first = (step * np.ceil(even / step) if step > 1 else np.rint(even)).astype(int).tolist()
    last = [min(start + side, length) for start in first]
    seams = [(start + end) / 2 for start, end in zip(first[1:], last, strict=False)]
    return list(zip(first, last, [-np.inf, *seams], [*seams, np.inf], strict=True))


def cut(image: LazyImage, tile: Tile, side: int) -> ImageArray:
    """(side, side, 3) RGB of a tile; where the image ends, the median color of the image's border there."""
    pixels = image.part((tile.left, tile.top, tile.right, tile.bottom))
    height, width = pixels.shape[:2]
    if (height, width) == (side, side):
        return pixels
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    padded = np.empty((side, side, 3), dtype=np.uint8)
    padded[:] = np.median(border, axis=0)
    padded[:height, :width] = pixels
    return padded


def inside(points: FloatArray, width: int, height: int) -> NDArray[np.bool_]:
    """(K,) whether points (K,2) of an input lie in its image of so many px, or almost; False for NaN."""
    x, y = points[:, 0] + OUTSIDE_PX, points[:, 1] + OUTSIDE_PX
    return (x >= 0) & (x <= width + 2 * OUTSIDE_PX) & (y >= 0) & (y <= height + 2 * OUTSIDE_PX)


class TileGraph(NamedTuple):
    """Nodes, and the edges that are known among them; what `treeformer.decoding.decode.decode_pairs` takes."""

    node_score: FloatArray  # (K,)
    points: FloatArray  # (K,2) px of the scaled image
    pairs: IntArray  # (E,2), i < j, rising
    pair_cost: FloatArray  # (E,)
    root_logit: FloatArray  # (K,)


def tile_graph(
    tile: Tile,
    node_score: FloatArray,
    points: FloatArray,
    edge_cost: FloatArray,
    root_logit: FloatArray,
    *,
    min_score: float,
    node_threshold: float,
) -> TileGraph:
    """What the network says of one tile: its candidates and the edges among them that may matter.

    That is each node's cheapest edges, and the spanning tree of the nodes above the threshold: without other tiles the
    result is the tree that all edges would have given, and memory does not grow with the square of the nodes.

    Args:
        node_score: (K,).
        points: (K,2) px of the input.
        edge_cost: (K,K).
        root_logit: (K,).
        min_score: nodes below are left out.
        node_threshold: nodes below take no part in the spanning tree.
    """
    kept = np.flatnonzero((node_score >= min_score) & inside(points, *tile.size))
    score = node_score[kept].astype(np.float64)
    cost = bounded(edge_cost[np.ix_(kept, kept)].astype(np.float64), nan=LARGEST)
    cost = (cost + cost.T) / 2
    place = np.clip(points[kept].astype(np.float64), 0.0, tile.size) + np.array([tile.left, tile.top])
    chosen = np.zeros(cost.shape, dtype=bool)
    likely = np.flatnonzero(score >= node_threshold)
    tree = likely[minimum_spanning_tree(cost[np.ix_(likely, likely)])]
    chosen[tree[:, 0], tree[:, 1]] = True
    np.fill_diagonal(cost, np.inf)
    cheapest = np.argsort(cost, axis=1, kind="stable")[:, :PAIRS_A_NODE]
    chosen[np.arange(len(kept))[:, None], cheapest] = True
    pairs = np.argwhere(np.triu(chosen | chosen.T, 1))
    logit = bounded(root_logit[kept].astype(np.float64), nan=-LARGEST)
    return TileGraph(score, place, pairs, cost[pairs[:, 0], pairs[:, 1]], logit)


def merge(tiles: Sequence[Tile], graphs: Sequence[TileGraph]) -> TileGraph:
    """One graph of the whole image.

    Nodes of different tiles that are each other's nearest within the merge radius are one node, never two of the
    same tile. A node stays if it lies in its tile's own part, or if two tiles agree on it that both trust their eyes
    there. Scores, places, root logits and edge costs are means, weighted by `Tile.weight`. An edge too long for the
    overlap, of which two tiles see one end each, is found by `_long_edges`.
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
    own = np.concatenate([tile.owns(graph.points) for tile, graph in zip(tiles, graphs, strict=True)])
    trusted = np.concatenate([tile.trusts(graph.points) for tile, graph in zip(tiles, graphs, strict=True)])

    group = _same_nodes(points, tile_of)
    stays = (np.bincount(group, weights=trusted) > 1) | (np.bincount(group, weights=own) > 0)
    count = int(stays.sum())
    node = np.where(stays[group], (np.cumsum(stays) - 1)[group], -1)
    member = np.flatnonzero(node >= 0)

    def mean(values: FloatArray) -> FloatArray:
        return _weighted_mean(node[member], values[member], weight[member], count)

    long_pairs, long_cost = _long_edges(tiles, points, tile_of, pairs, cost, stays[group])
    pairs, cost = np.concatenate([pairs, long_pairs]), np.concatenate([cost, long_cost])
    ends = np.sort(node[pairs], axis=1)
    known = np.flatnonzero((ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1]))
    key, place = np.unique(ends[known, 0] * count + ends[known, 1], return_inverse=True)
    trust = weight[pairs[known, 0]] * weight[pairs[known, 1]]
    return TileGraph(
        mean(score),
        np.stack([mean(points[:, 0]), mean(points[:, 1])], axis=1),
        np.stack(np.divmod(key, max(count, 1)), axis=1),
        _weighted_mean(place, cost[known], trust, len(key)),
        mean(logit),
    )


def _long_edges(
    tiles: Sequence[Tile],
    points: FloatArray,
    tile_of: IntArray,
    pairs: IntArray,
    cost: FloatArray,
    stays: NDArray[np.bool_],
) -> tuple[IntArray, FloatArray]:
    """Pairs (P,2) of nodes of two tiles that one straight edge joins, and their costs (P,).

    A line that leaves a tile ends there, for this tile, in a node at the border, which does not stay: the next tile
    owns that place and sees nothing but a line. Where two likely edges end so, and each of the two loose ends lies on
    the other edge, they are two views of one edge.
    """
    loose = ~stays[pairs]
    half = np.flatnonzero((loose.sum(axis=1) == 1) & (cost < 0))
    inner = np.where(loose[half, 0], pairs[half, 1], pairs[half, 0])
    outer = np.where(loose[half, 0], pairs[half, 0], pairs[half, 1])
    of_tile = [np.flatnonzero(tile_of[inner] == tile) for tile in range(len(tiles))]
    boxes = np.array([tile[:4] for tile in tiles])
    found: list[IntArray] = []
    for tile, ours in enumerate(of_tile):
        later = boxes[tile + 1 :] if len(ours) else boxes[:0]
        shared = np.minimum(later[:, 2:], boxes[tile, 2:]) - np.maximum(later[:, :2], boxes[tile, :2])
        for other in np.flatnonzero(shared.min(axis=1) > 0) + tile + 1:
            theirs = of_tile[other]
            near_theirs = _distance(points[outer[ours]][:, None], points[inner[theirs]], points[outer[theirs]])
            near_ours = _distance(points[outer[theirs]][:, None], points[inner[ours]], points[outer[ours]]).T
            i, j = np.nonzero(np.maximum(near_theirs, near_ours) <= MERGE_RADIUS_PX)
            found.append(np.stack([ours[i], theirs[j]], axis=1))
    both = np.concatenate([np.zeros((0, 2), dtype=np.intp), *found])
    return inner[both], cost[half[both]].mean(axis=1)


def _distance(points: FloatArray, begin: FloatArray, end: FloatArray) -> FloatArray:
    """(P,S) how far points (P,1,2) are from segments between (S,2) and (S,2)."""
    along = end - begin
    share = ((points - begin) * along).sum(axis=-1) / np.maximum((along**2).sum(axis=-1), 1e-12)
    off = points - begin - np.clip(share, 0.0, 1.0)[..., None] * along
    distance: FloatArray = np.hypot(off[..., 0], off[..., 1])
    return distance


def _weighted_mean(place: IntArray, values: FloatArray, weight: FloatArray, count: int) -> FloatArray:
    """(count,) the mean of the values that share a place; each place has one or more."""
    mean: FloatArray = np.bincount(place, values * weight, count) / np.bincount(place, weight, count)
    return mean


def _same_nodes(points: FloatArray, tile_of: IntArray) -> IntArray:
    """(M,) the group of each node, numbered by lowest member: nodes of different tiles that are one node."""
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
    """(P,2) nodes of two tiles, each the other's nearest in that tile and within the merge radius; nearest first."""
    if len(points) == 0:
        return np.zeros((0, 2), dtype=np.intp)
    near = cKDTree(points).query_pairs(MERGE_RADIUS_PX, output_type="ndarray")
    near = near[tile_of[near[:, 0]] != tile_of[near[:, 1]]]
    one, other = np.concatenate([near, near[:, ::-1]]).T
    distance = np.hypot(*(points[one] - points[other]).T)
    order = np.lexsort((other, distance, tile_of[other], one))
    asked = np.stack([one[order], tile_of[other[order]]], axis=1)
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (asked[1:] != asked[:-1]).any(axis=1)
    nearest = order[is_first]
    answered = np.isin(one[nearest] * len(points) + other[nearest], other[nearest] * len(points) + one[nearest])
    found = nearest[answered & (one[nearest] < other[nearest])]
    found = found[np.lexsort((other[found], one[found], distance[found]))]
    return np.stack([one[found], other[found]], axis=1)
