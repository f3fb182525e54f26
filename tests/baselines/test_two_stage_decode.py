"""Decoding of maps: extraction and resistivity compared with loops, and a valid tree for any numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.strategies import examples
from treeformer.baselines.two_stage.decode import (
    alignments,
    decode_maps,
    extract_nodes,
    resistivity,
    shortest_path_tree,
    source_of_flow,
)
from treeformer.errors import TreeformerError


def bumps(size, *places, height=1.0, sigma=1.7):
    """Return (h,w) float32: Gaussians at (x, y) px. A place may have its own height as third number."""
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    result = np.zeros(size)
    for at_x, at_y, *own in places:
        bump = (own[0] if own else height) * np.exp(-((x - at_x) ** 2 + (y - at_y) ** 2) / (2 * sigma**2))
        result = np.maximum(result, bump)
    return result.astype(np.float32)


def reference_points(confidence, stride, search_px, peak_share, node_threshold):
    """Apply the rule cell by cell and group cells by flooding. Return sorted points."""
    highest = confidence.max(axis=0)
    height, width = highest.shape
    reach = int(search_px / stride)
    candidates = set()
    for y in range(height):
        for x in range(width):
            near = highest[max(0, y - reach) : y + reach + 1, max(0, x - reach) : x + reach + 1].max()
            if highest[y, x] > 0 and highest[y, x] >= node_threshold and highest[y, x] >= peak_share * near:
                candidates.add((x, y))
    points = []
    while candidates:
        group, edge = [], [candidates.pop()]
        while edge:
            x, y = edge.pop()
            group.append((x, y))
            neighbors = {(x + i, y + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & candidates
            candidates -= neighbors
            edge += neighbors
        weight = np.array([highest[y, x] for x, y in group], dtype=np.float64)
        points.append(tuple((np.array(group) + 0.5).T @ weight / weight.sum() * stride))
    return sorted(points)


@settings(max_examples=examples(40))
@given(
    confidence=hnp.arrays(np.float32, (2, 9, 11), elements=st.sampled_from([0.0, 0.2, 0.5, 0.6, 0.98, 1.0])),
    stride=st.sampled_from([1, 2]),
    search=st.integers(0, 6),
    share=st.sampled_from([0.5, 0.97, 1.0]),
    threshold=st.sampled_from([0.0, 0.5, 0.99]),
)
def test_extraction_equals_the_reference(confidence, stride, search, share, threshold):
    options = {"stride": stride, "search_px": search, "peak_share": share, "node_threshold": threshold}
    found = extract_nodes(confidence, **options, max_nodes=1000)
    expected = reference_points(confidence, stride, search, share, threshold)
    np.testing.assert_allclose(sorted(map(tuple, found.points.tolist())), expected, atol=1e-9)


def extract(confidence, **changes):
    options = {"stride": 1, "search_px": 9.0, "peak_share": 0.97, "node_threshold": 0.5, "max_nodes": 100} | changes
    return extract_nodes(confidence[None] if confidence.ndim == 2 else confidence, **options)


def test_each_parameter_has_its_effect():
    pair = bumps((40, 40), (10.5, 10.5), (17.5, 10.5, 0.8))
    assert extract(pair).points.tolist() == [[10.5, 10.5]], "the lower one is within the search distance"
    assert len(extract(pair, search_px=5.0).points) == 2
    assert len(extract(pair, peak_share=0.79).points) == 2, "high enough beside the higher one"
    assert len(extract(0.45 * pair).points) == 0, "below the threshold"
    assert len(extract(0.45 * pair, node_threshold=0.4).points) == 1
    best = extract(pair, search_px=5.0, max_nodes=1)
    assert best.points.tolist() == [[10.5, 10.5]], "the most confident is kept"
    assert best.score.tolist() == [1.0]


def test_the_class_is_that_of_the_highest_map():
    maps = np.stack([bumps((40, 40), (10.5, 10.5, 0.6)), bumps((40, 40), (10.5, 10.5, 0.9), (30.5, 30.5))])
    maps[0] = np.maximum(maps[0], bumps((40, 40), (30.5, 10.5)))
    found = extract(maps)
    by_place = {tuple(point): kind for point, kind in zip(found.points.tolist(), found.kind.tolist(), strict=True)}
    assert by_place == {(10.5, 10.5): 1, (30.5, 30.5): 1, (30.5, 10.5): 0}


def reference_alignment(p, q, flow, stride, count):
    height, width = flow.shape[1:]
    length = math.dist(p, q)
    total = 0.0
    for k in range(count):
        t = (k + 0.5) / count
        x, y = (p[0] + t * (q[0] - p[0])) / stride, (p[1] + t * (q[1] - p[1])) / stride
        column, row = min(max(int(x), 0), width - 1), min(max(int(y), 0), height - 1)
        v = flow[:, row, column]
        total += (v[0] * (q[0] - p[0]) + v[1] * (q[1] - p[1])) / length
    return total / count


def test_alignment_and_resistivity_equal_the_reference():
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 60, (9, 2))
    flow = rng.uniform(-1, 1, (3, 2, 30, 28)).astype(np.float32)  # the last points lie beyond the map
    alignment, kind = alignments(points, flow, stride=2, segment_points=7)
    cost = resistivity(points, alignment, 1.1, 4.0)
    for i in range(9):
        for j in range(9):
            if i == j:
                assert alignment[i, j] == cost[i, j] == 0
                continue
            each = [reference_alignment(points[i], points[j], layer, 2, 7) for layer in flow]
            best = int(np.argmax(np.abs(each)))
            assert kind[i, j] == best
            assert alignment[i, j] == pytest.approx(each[best], abs=1e-5)
            strength = min(max(abs(alignment[i, j]), 1e-3), 1.0)
            assert cost[i, j] == pytest.approx(math.dist(points[i], points[j]) ** 1.1 / strength**4)


def stroke(size, *lines):
    """Return (1,2,h,w): unit vectors within 2.5 px of segments (x0, y0, x1, y1)."""
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    flow = np.zeros((1, 2, *size), np.float32)
    for x0, y0, x1, y1 in lines:
        length = math.hypot(x1 - x0, y1 - y0)
        u = np.array([(x1 - x0) / length, (y1 - y0) / length])
        t = np.clip((x - x0) * u[0] + (y - y0) * u[1], 0, length)
        near = np.hypot(x - x0 - t * u[0], y - y0 - t * u[1]) <= 2.5
        flow[0][:, near] = u[:, None]
    return flow


# A Y with its root at the bottom, and a node between root and fork.
Y_NODES = bumps((64, 64), (32.5, 60.5), (32.5, 45.5), (32.5, 30.5), (15.5, 8.5), (50.5, 8.5))[None]
Y_FLOW = stroke((64, 64), (32.5, 30.5, 15.5, 8.5), (32.5, 30.5, 50.5, 8.5), (32.5, 60.5, 32.5, 30.5))


@pytest.mark.parametrize("edges", ["mst", "dijkstra"])
def test_maps_of_a_y_decode_into_a_y(edges):
    found = decode_maps(Y_NODES, Y_FLOW, edges=edges, image_size=(64, 64))
    places = [tuple(node) for node in found.nodes.tolist()]
    joined = {frozenset((places[i], places[j])) for i, j in found.edges.tolist()}
    up = [(32.5, 60.5), (32.5, 45.5), (32.5, 30.5)]
    assert joined == {frozenset(pair) for pair in [up[:2], up[1:], [up[2], (15.5, 8.5)], [up[2], (50.5, 8.5)]]}
    assert places[found.root] == up[0]
    assert found.edge_score.min() > 0.9
    assert found.image_size == (64, 64)


def test_with_a_distance_power_of_1_shortest_paths_skip_nodes():
    """The reason for a distance power above 1."""
    dots = bumps((16, 64), (6.5, 8.5), (30.5, 9.5), (56.5, 8.5))[None]  # the middle node is 1 px off the line
    flow = stroke((16, 64), (6.5, 8.5, 56.5, 8.5))
    plain = decode_maps(dots, flow, edges="dijkstra", distance_power=1.0, alignment_power=1.0)
    default = decode_maps(dots, flow, edges="dijkstra")
    assert plain.degree.max() == default.degree.max() == 2
    assert sorted(plain.edge_length.tolist())[-1] == pytest.approx(50)
    assert sorted(default.edge_length.tolist())[-1] == pytest.approx(26, abs=0.1)


def test_the_root_is_the_source_of_most_directions():
    edges = np.array([(0, 1), (1, 2), (1, 3), (3, 4)])
    for root in range(5):
        graph = nx.Graph(edges.tolist())
        alignment = np.zeros((5, 5))
        for parent, child in nx.bfs_edges(graph, root):
            alignment[parent, child], alignment[child, parent] = 0.9, -0.9
        assert source_of_flow(edges, alignment) == root
        alignment[edges[0, 0], edges[0, 1]], alignment[edges[0, 1], edges[0, 0]] = 0.0, 0.0
        assert source_of_flow(edges, alignment) in (root, *edges[0].tolist())


def test_shortest_path_trees_equal_those_of_networkx():
    rng = np.random.default_rng(0)
    for count in (1, 2, 9):
        cost = rng.uniform(1, 9, (count, count))
        cost += cost.T
        np.fill_diagonal(cost, 0)
        graph = nx.Graph([(i, j, {"weight": cost[i, j]}) for i in range(count) for j in range(i)])
        tree = nx.Graph(shortest_path_tree(cost, 0).tolist())
        for node in range(1, count):
            length = nx.dijkstra_path_length(graph, 0, node)
            path = nx.shortest_path(tree, 0, node)
            assert sum(cost[a, b] for a, b in pairwise(path)) == pytest.approx(length)
        assert len(tree.edges) == count - 1


anything = st.floats(allow_nan=True, allow_infinity=True, width=32)


@settings(max_examples=examples(60))
@given(
    nodes=hnp.arrays(np.float32, (2, 12, 10), elements=anything),
    flow=hnp.arrays(np.float32, (2, 2, 12, 10), elements=anything),
    edges=st.sampled_from(["mst", "dijkstra"]),
    search=st.floats(0, 20),
    threshold=st.floats(0, 1),
)
def test_any_numbers_give_a_rooted_tree(nodes, flow, edges, search, threshold):
    found = decode_maps(
        nodes, flow, edges=edges, stride=4, search_px=search, node_threshold=threshold, image_size=(38, 46)
    )
    assert found.is_tree or len(found) == 0
    assert len(found.roots) == min(1, len(found))
    assert ((found.nodes >= 0) & (found.nodes <= (38, 46))).all()
    assert ((found.edge_score >= 0) & (found.edge_score <= 1)).all()
    assert len(found.metadata["edge_kind"]) == len(found.edges)
    assert len(found.metadata["node_kind"]) == len(found)


@pytest.mark.parametrize("edges", ["mst", "dijkstra"])
@pytest.mark.parametrize("powers", [(50.0, 50.0), (1.1, 200.0), (300.0, 4.0)])
def test_overflowing_costs_still_give_one_tree(edges, powers):
    """The largest powers of a config overflow in an image of 4096 px."""
    dots = bumps((64, 64), (5.5, 5.5), (50.5, 50.5), (60.5, 20.5))[None]
    settings = {"distance_power": powers[0], "alignment_power": powers[1], "edges": edges}
    found = decode_maps(dots, np.zeros((1, 2, 64, 64)), stride=64, search_px=128, **settings)
    assert len(found) == 3
    assert found.is_tree


@pytest.mark.parametrize("edges", ["mst", "dijkstra"])
def test_two_nodes_in_one_place_are_joined(edges):
    """A dot within a ring: their mean positions are equal, and the edge between them has a cost of 0."""
    ring = np.zeros((32, 32), np.float32)
    ring[8:17, 8:17] = 1.0
    ring[9:16, 9:16] = 0.0
    ring[12, 12] = 1.0
    found = decode_maps(ring[None], np.zeros((1, 2, 32, 32)), search_px=3, edges=edges)
    assert found.nodes.tolist() == [[12.5, 12.5], [12.5, 12.5]]
    assert found.is_tree


def test_empty_maps_single_nodes_and_nan():
    blank = np.zeros((1, 2, 32, 32), np.float32)
    assert len(decode_maps(np.zeros((1, 32, 32)), blank)) == 0
    assert len(decode_maps(np.full((1, 32, 32), np.nan), np.full((1, 2, 32, 32), np.nan))) == 0
    for edges in ("mst", "dijkstra"):
        single = decode_maps(bumps((32, 32), (9.5, 12.5))[None], blank, edges=edges)
        assert single.nodes.tolist() == [[9.5, 12.5]]
        assert single.is_tree
        assert single.root == 0
        apart = decode_maps(bumps((32, 32), (5.5, 5.5), (25.5, 25.5))[None], np.full_like(blank, np.nan), edges=edges)
        assert apart.is_tree, "two nodes are joined even if no direction supports it"
        assert apart.edge_score.tolist() == [0.0]


def test_invalid_arguments_give_one_line_errors():
    with pytest.raises(TreeformerError, match="edges must be one of mst, dijkstra, not 'prim'"):
        decode_maps(Y_NODES, Y_FLOW, edges="prim")
    with pytest.raises(TreeformerError, match="the shapes of the maps do not match"):
        decode_maps(Y_NODES, Y_FLOW[:, :, 1:])
