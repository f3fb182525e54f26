"""Tiles: the grid covers the image, padding is neutral, and merged tiles give the tree of the whole image."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.inference.fake_engine import ColorEngine, drawn, predictor, random_tree
from tests.strategies import examples
from treeformer import Skeleton
from treeformer._util.images import open_lazy
from treeformer.decoding.decode import decode, decode_pairs
from treeformer.inference.tiles import OVERLAP_PX, TileGraph, cut, merge, tile_graph, tile_grid, working_scale


def as_sets(skeleton: Skeleton, digits: int = 2) -> tuple[set, set, set]:
    """Return nodes, edges and roots by position, independent of the order of the nodes."""
    position = [tuple(point) for point in skeleton.nodes.round(digits).tolist()]
    edges = {frozenset((position[a], position[b])) for a, b in skeleton.edges.tolist()}
    return set(position), edges, {position[root] for root in skeleton.roots}


def assert_same_within(found: Skeleton, ground_truth: Skeleton, tolerance_px: float) -> None:
    index, distance = ground_truth.nearest(found.nodes)
    assert sorted(index) == list(range(len(ground_truth)))
    assert distance.max() <= tolerance_px
    assert {frozenset(edge) for edge in index[found.edges].tolist()} == {
        frozenset(e) for e in ground_truth.edges.tolist()
    }
    assert sorted(index[found.roots]) == sorted(ground_truth.roots)


@pytest.mark.slow
@given(
    width=st.integers(1, 3000),
    height=st.integers(1, 700),
    side=st.sampled_from([64, 512]),
    step=st.sampled_from([1, 11, 44]),
)
def test_the_grid_covers_the_image_and_every_point_is_in_one_core(width, height, side, step):
    grid = tile_grid((width, height), side, step)
    step = min(step, side // 4)
    assert all(tile.left % step == tile.top % step == 0 for tile in grid)
    for (_, right), (left, _) in pairwise(sorted({(tile.left, tile.right) for tile in grid})):
        assert right - left >= min(OVERLAP_PX, side // 2), "the overlap is large enough"
    x = np.linspace(0, width, 37)
    y = np.linspace(0, height, 31)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    cores = np.zeros(len(points), dtype=int)
    for tile in grid:
        assert 0 <= tile.left < tile.right <= width
        assert 0 <= tile.top < tile.bottom <= height
        assert max(tile.right - tile.left, tile.bottom - tile.top) <= side
        in_core = tile.in_core(points)
        cores += in_core
        inside = (points >= tile[:2]).all(axis=1) & (points <= tile[2:4]).all(axis=1)
        assert inside[in_core].all(), "a tile contains its core"
    assert (cores == 1).all()


def test_images_are_reduced_to_the_working_size_or_enlarged_to_the_input_size():
    assert working_scale((4000, 2000), 1000, 512) == 0.25
    assert working_scale((4000, 2000), None, 512) == 1
    assert working_scale((100, 50), None, 512) == 5.12
    assert working_scale((600, 600), 1000, 512) == 1
    assert working_scale((600, 600), 300, 512) == pytest.approx(512 / 600), "never below the input size"


def test_padding_has_the_color_of_the_border():
    image = np.full((20, 30, 3), (10, 200, 30), dtype=np.uint8)
    image[5:15, 5:25] = 0
    (tile,) = tile_grid((30, 20), 64)
    padded = cut(open_lazy(image), tile, 64)
    assert (padded[:20, :30] == image).all()
    assert (padded[20:] == (10, 200, 30)).all()
    assert (padded[:, 30:] == (10, 200, 30)).all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(300, 290), (128, 700), (500, 90)])
@pytest.mark.parametrize("plants", [1, 3])
@pytest.mark.parametrize("jitter_px", [0.0, 1.0])
def test_tiles_give_the_tree_of_the_whole_image(size, plants, jitter_px):
    ground_truth = random_tree(seed=sum(size), count=150, size=size, longest_edge=45, plants=plants)
    image = drawn(ground_truth)
    whole = predictor(ColorEngine(ground_truth, max(size))).predict(image)
    assert as_sets(whole) == as_sets(ground_truth)
    tiled = predictor(ColorEngine(ground_truth, 128, jitter_px)).predict(image, working_size="full")
    assert len(tile_grid(size, 128)) > 3
    if jitter_px == 0:
        assert as_sets(tiled) == as_sets(whole)
        assert tiled.plant.max() == plants - 1
        return
    assert_same_within(tiled, ground_truth, jitter_px + 0.01)


def test_an_edge_is_found_if_no_tile_contains_both_ends():
    ground_truth = Skeleton([(20.5, 40.5), (150.5, 60.5)], [(0, 1)], root=0, image_size=(300, 100))
    lines = predictor(ColorEngine(ground_truth, 128, sees_lines=True)).predict(drawn(ground_truth), working_size="full")
    assert as_sets(lines) == as_sets(ground_truth)
    blind = predictor(ColorEngine(ground_truth, 128)).predict(drawn(ground_truth), working_size="full")
    assert len(blind) == 1, "without the cut line the second node has no edge"
    forced = predictor(ColorEngine(ground_truth, 128)).predict(
        drawn(ground_truth), working_size="full", single_plant=True
    )
    assert as_sets(forced) == as_sets(ground_truth)
    assert forced.edge_score.tolist() == [0]


def test_lines_that_are_cut_at_borders_leave_no_nodes_there():
    ground_truth = random_tree(seed=5, count=60, size=(400, 300), longest_edge=60)
    tiled = predictor(ColorEngine(ground_truth, 128, sees_lines=True)).predict(drawn(ground_truth), working_size="full")
    assert_same_within(tiled, ground_truth, 1.0)


anything = st.floats(allow_nan=True, allow_infinity=True, width=32)


@st.composite
def outputs(draw, count: int | None = None, points=anything):
    count = draw(st.integers(0, 12)) if count is None else count
    return [
        draw(hnp.arrays(np.float32, shape, elements=elements))
        for shape, elements in (
            ((count,), anything),
            ((count, 2), points),
            ((count, count), anything),
            ((count,), anything),
        )
    ]


@pytest.mark.slow
@given(numbers=outputs(count=20, points=st.floats(0, 64, width=32)), threshold=st.floats(0.1, 1))
def test_the_kept_edges_of_a_tile_give_the_tree_of_all_edges(numbers, threshold):
    (tile,) = tile_grid((64, 64), 64)
    graph = tile_graph(tile, *numbers, min_score=0.1, node_threshold=threshold)
    assert len(graph.pairs) < 20 * 19 / 2 or len(graph.node_score) < 20 or np.isnan(numbers[2]).any()
    options = {"node_threshold": threshold, "image_size": (64, 64)}
    assert decode_pairs(*merge([tile], [graph])[:5], **options) == decode(*numbers, **options)


def test_two_clusters_of_a_tile_stay_joined():
    """The cheapest edges of each node are in its own cluster. The edge between clusters is kept as part of the tree.

    The last node would join all nodes at a lower cost, but it is too unlikely for the tree.
    """
    random = np.random.default_rng(0)
    cluster = np.arange(41) // 20
    cost = random.normal(-3, 1, (41, 41)) + 9 * (cluster[:, None] != cluster)
    cost[40], cost[:, 40] = -9, -9
    score, root = np.where(cluster < 2, 0.9, 0.2), np.where(np.arange(41) == 0, 3.0, -3.0)
    numbers = score, random.uniform(0, 64, (41, 2)), cost + cost.T, root
    (tile,) = tile_grid((64, 64), 64)
    graph = tile_graph(tile, *numbers, min_score=0.1, node_threshold=0.5)
    assert len(graph.pairs) < 41 * 40 / 2
    tree = decode_pairs(*merge([tile], [graph])[:5], image_size=(64, 64))
    assert tree == decode(*numbers, image_size=(64, 64))
    assert len(tree) == 40


def test_a_node_in_the_padding_is_moved_to_the_border():
    (tile,) = tile_grid((60, 50), 64)
    points = np.array([(-3.0, 20), (63, 53), (30, 55)])
    graph = tile_graph(tile, np.ones(3), points, np.zeros((3, 3)), np.zeros(3), min_score=0.1, node_threshold=0.5)
    assert graph.points.tolist() == [[0, 20], [60, 50]], "nodes farther out are dropped"


def two_half_edges(inner: tuple[float, float], outer: tuple[float, float]) -> TileGraph:
    """Merge two tiles: the left one has an edge from (30, 50) to its border, the right one from inner to outer."""
    grid = tile_grid((140, 100), 100)
    edge, cost = np.array([(0, 1)]), np.array([-4.0])
    views = (np.array([(30.0, 50), (98, 50)]), np.array([inner, outer], dtype=float))
    return merge(grid, [TileGraph(np.full(2, 0.9), points, edge, cost, np.zeros(2)) for points in views])


def test_two_views_are_one_edge_only_if_each_end_lies_on_the_other_line():
    assert two_half_edges((110, 50), (42, 50)).pairs.tolist() == [[0, 1]]
    across = two_half_edges(
        (110, 38), (42, 95)
    )  # the left end lies on it, but its own end is 45 px below the left edge
    assert len(across.points) == 2
    assert across.pairs.tolist() == []


def test_nodes_and_edges_of_two_tiles_are_weighted_means():
    """The weight of a tile grows with the distance from its border, for edges as for nodes."""
    left, right = grid = tile_grid((140, 100), 100)
    points = np.array([(80.0, 50), (84, 60)])
    graphs = [
        TileGraph(np.full(2, score), points, np.array([(0, 1)]), np.array([score]), np.full(2, score))
        for score in (0.0, 1)
    ]
    weights = np.stack([left.weight(points), right.weight(points)])
    assert (weights[0] != weights[1]).all()
    merged = merge(grid, graphs)
    assert merged.points.tolist() == points.tolist()
    expected = weights[1] / weights.sum(axis=0)
    assert merged.node_score == pytest.approx(expected)
    assert merged.root_logit == pytest.approx(expected)
    both = weights.prod(axis=1)
    assert merged.pair_cost == pytest.approx([both[1] / both.sum()])


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(data=st.data(), width=st.integers(1, 300), height=st.integers(1, 200), single_plant=st.booleans())
def test_any_numbers_of_any_tiles_give_a_forest_inside_the_image(data, width, height, single_plant):
    grid = tile_grid((width, height), 64)
    points = st.floats(-9, 80, width=32) | anything
    graphs = [
        tile_graph(tile, *data.draw(outputs(count=4, points=points)), min_score=0.1, node_threshold=0.5)
        for tile in grid
    ]
    merged = merge(grid, graphs)
    skeleton = decode_pairs(*merged[:5], single_plant=single_plant, image_size=(width, height))
    assert skeleton.is_forest
    assert len(skeleton.roots) == len(skeleton) - len(skeleton.edges)
    assert ((skeleton.nodes >= 0) & (skeleton.nodes <= (width, height))).all()
    assert np.array_equal(merged.points, np.clip(merged.points, 0, (width, height)))


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), count=st.integers(0, 40), size=st.sampled_from([(150, 64), (110, 110)]))
@example(seed=0, count=0, size=(150, 64))
def test_merging_agrees_with_a_slow_reference(seed, count, size):
    random = np.random.default_rng(seed)
    grid = tile_grid(size, 64)
    centers = random.uniform(0, size, (count, 2))
    graphs = []
    for tile in grid:
        points = centers + random.normal(0, 1.5, centers.shape)
        kept = ((points >= tile[:2]) & (points <= tile[2:4])).all(axis=1) & (random.random(count) < 0.9)
        empty = np.zeros((0, 2), dtype=int)
        graphs.append(TileGraph(np.full(kept.sum(), 0.9), points[kept], empty, np.zeros(0), np.zeros(kept.sum())))
    expected = slow_merge(grid, [graph.points for graph in graphs])
    found = merge(grid, graphs).points
    assert len(found) == len(expected)
    assert np.allclose(sorted(found.tolist()), sorted(expected))


def slow_merge(grid, points_of_tiles) -> list[list[float]]:
    """Join pairs in order of distance, if both are nearest to each other and no tile occurs twice in a group."""
    nodes = [(t, tuple(p)) for t, points in enumerate(points_of_tiles) for p in points.tolist()]
    gap = {
        (a, b): np.hypot(*np.subtract(nodes[a][1], nodes[b][1])) for a in range(len(nodes)) for b in range(len(nodes))
    }

    def nearest(a: int, tile: int) -> int:
        return min((b for b in range(len(nodes)) if nodes[b][0] == tile), key=lambda b: gap[a, b])

    def reliable(a: int) -> bool:
        tile, (x, y) = grid[nodes[a][0]], nodes[a][1]
        right, bottom = max(t.right for t in grid), max(t.bottom for t in grid)
        return (
            (tile.left == 0 or x - tile.left >= 16)
            and (tile.top == 0 or y - tile.top >= 16)
            and (tile.right == right or tile.right - x >= 16)
            and (tile.bottom == bottom or tile.bottom - y >= 16)
        )

    group = {a: {a} for a in range(len(nodes))}
    for (a, b), distance in sorted(gap.items(), key=lambda item: item[1]):
        (t, _), (u, _) = nodes[a], nodes[b]
        if a < b and t != u and distance <= 6 and nearest(a, u) == b and nearest(b, t) == a:
            joined = group[a] | group[b]
            if len({nodes[c][0] for c in joined}) == len(joined):
                for c in joined:
                    group[c] = joined
    result = []
    for members in {frozenset(g) for g in group.values()}:
        points = np.array([nodes[c][1] for c in members])
        tiles = [grid[nodes[c][0]] for c in members]
        in_core = [tile.in_core(point[None])[0] for tile, point in zip(tiles, points, strict=True)]
        if sum(map(reliable, members)) > 1 or any(in_core):
            weight = np.array([tile.weight(point[None])[0] for tile, point in zip(tiles, points, strict=True)])
            result.append((weight @ points / weight.sum()).tolist())
    return result
