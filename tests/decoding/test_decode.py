"""Decoding: any numbers give a valid skeleton."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.strategies import examples
from treeformer.decoding.decode import decode, decode_pairs, shortest_gaps
from treeformer.decoding.spanning import spanning_forest
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton

anything = st.floats(allow_nan=True, allow_infinity=True, width=32)


@st.composite
def outputs(draw):
    count = draw(st.integers(0, 12))
    shapes = ((count,), (count, 2), (count, count), (count,))
    return [draw(hnp.arrays(np.float32, shape, elements=anything)) for shape in shapes]


def checked(skeleton: Skeleton) -> Skeleton:
    """Return the same skeleton after all checks of the constructor, which decoding leaves out."""
    return skeleton.replace(nodes=skeleton.nodes, edges=skeleton.edges, root=skeleton.roots)


@settings(deadline=None)
@given(numbers=outputs(), single_plant=st.booleans(), distance_cost=st.booleans(), threshold=st.floats(0, 1))
def test_any_numbers_give_a_rooted_forest(numbers, single_plant, distance_cost, threshold):
    options = {"root_threshold": threshold, "single_plant": single_plant, "distance_cost": distance_cost}
    anywhere = decode(*numbers, **options)
    assert checked(anywhere) == anywhere
    skeleton = decode(*numbers, **options, node_threshold=threshold, image_size=(64, 48))
    assert checked(skeleton) == skeleton
    assert skeleton.is_forest
    assert len(skeleton.roots) == len(skeleton) - len(skeleton.edges), "one root per tree"
    assert skeleton.is_tree or len(skeleton) == 0 or not single_plant
    assert ((skeleton.nodes >= 0) & (skeleton.nodes <= (64, 48))).all()
    assert ((skeleton.edge_score >= 0) & (skeleton.edge_score <= 1)).all()
    assert ((skeleton.node_score >= 0) & (skeleton.node_score <= 1)).all()


@settings(deadline=None)
@given(numbers=outputs())
def test_without_the_constraint_the_likely_edges_are_kept(numbers):
    score, points, cost, _ = numbers
    skeleton = decode(*numbers, constrained=False)
    assert checked(skeleton) == skeleton
    kept = np.flatnonzero((score >= 0.5) & np.isfinite(points).all(axis=1))
    assert len(skeleton) == len(kept)
    bounded = np.clip(np.nan_to_num(cost.astype(float), nan=1e6), -1e6, 1e6)
    expected = {
        (a, b) for a, i in enumerate(kept) for b, j in enumerate(kept) if a < b and bounded[i, j] + bounded[j, i] < 0
    }
    assert {tuple(edge) for edge in skeleton.edges.tolist()} == expected
    assert len(skeleton.roots) == len(set(skeleton.component.tolist()))


def test_without_the_constraint_the_likeliest_node_of_each_component_is_its_root():
    skeleton = decode([1] * 4, LINE, costs(e01=-4, e23=-4), [-3, -2, 5, 4], constrained=False)
    assert skeleton.roots.tolist() == [1, 2]


LINE = np.array([(0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (30.0, 0.0)])


def costs(**pairs: float) -> np.ndarray:
    """(4,4), 5 for all pairs but those given as `e01=-3`."""
    cost = np.full((4, 4), 5.0)
    for name, value in pairs.items():
        i, j = int(name[1]), int(name[2])
        cost[i, j] = cost[j, i] = value
    return cost


def test_unlikely_nodes_are_dropped_and_scores_are_kept():
    skeleton = decode([0.9, 0.2, 0.7, 0.6], LINE, costs(e02=-3, e23=-2, e01=-9), [1, 9, -1, -1])
    assert skeleton.nodes[:, 0].tolist() == [0, 20, 30]
    assert skeleton.edges.tolist() == [[0, 1], [1, 2]]
    assert skeleton.node_score.tolist() == [0.9, 0.7, 0.6]
    assert skeleton.edge_score == pytest.approx([1 / (1 + np.exp(-3)), 1 / (1 + np.exp(-2))])
    assert skeleton.roots.tolist() == [0]


def test_a_second_plant_needs_a_root_more_likely_than_the_edge_to_it():
    two_stems = costs(e01=-4, e23=-4)
    assert decode([1] * 4, LINE, two_stems, [3, -3, 2, -3]).roots.tolist() == [0, 2]
    joined = decode([1] * 4, LINE, costs(e01=-4, e12=-4, e23=-4), [3, -3, 2, -3])
    assert joined.is_tree
    assert joined.roots.tolist() == [0]
    unlikely = decode([1] * 4, LINE, two_stems, [3, -3, -1, -3])
    assert unlikely.is_tree, "a root below the threshold starts no plant, however unlikely the edge"
    assert decode([1] * 4, LINE, two_stems, [3, -3, -1, -3], root_threshold=0.1).roots.tolist() == [0, 2]
    assert decode([1] * 4, LINE, two_stems, [3, -3, 2, -3], single_plant=True).roots.tolist() == [0]


def test_an_isolated_root_beside_a_plant_is_left_out_if_an_edge_to_it_is_likely():
    for options in ({}, {"distance_cost": True}):
        parallel = decode([1] * 4, 9 * LINE, costs(e01=-4, e12=-4, e13=-1), [9, -3, -3, 3], **options)
        assert parallel.edges.tolist() == [[0, 1], [1, 2]]
        assert parallel.roots.tolist() == [0]
        assert len(parallel) == 3
    seedling = decode([1] * 4, LINE, costs(e01=-4, e12=-4, e13=1), [9, -3, -3, 3])
    assert seedling.roots.tolist() == [0, 3], "a root without a likely edge may be a plant that has just emerged"
    two = decode([1] * 4, LINE, costs(e01=-4, e23=-1), [9, -3, 3, 4])
    assert (len(two), two.roots.tolist()) == (3, [0, 2]), "of two isolated roots one is kept"
    assert decode([1] * 4, LINE, costs(e01=-4, e12=-4, e13=-1), [9, -3, -3, 3], single_plant=True).is_tree
    assert decode([1], LINE[:1], [[0]], [9]).roots.tolist() == [0], "the only node of an image is kept"


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 1, 3, 2], [3, 2, 1, 0]])
def test_an_isolated_root_beside_another_one_is_left_out_in_any_order(order):
    """Node 3 is joined to node 2 only, and node 2 to the plant: neither is a plant of its own."""
    cost = costs(e01=-4, e12=-1, e23=-1)[np.ix_(order, order)]
    found = decode([1] * 4, LINE[order], cost, np.array([9, -3, 3, 3])[order])
    assert sorted(found.nodes[:, 0].tolist()) == [0, 10]
    pairs = decode_pairs([1] * 4, LINE[order], *all_pairs(cost), np.array([9, -3, 3, 3])[order])
    assert pairs == found


@settings(deadline=None)
@given(numbers=outputs(), threshold=st.floats(0, 1))
def test_only_isolated_roots_are_left_out(numbers, threshold):
    score, points, cost, root = numbers
    kept = np.flatnonzero((score >= 0.5) & np.isfinite(points).all(axis=1))
    bounded = np.clip(np.nan_to_num(cost.astype(float), nan=1e6), -1e6, 1e6)[np.ix_(kept, kept)]
    logit = np.clip(np.nan_to_num(root.astype(float), nan=-1e6), -1e6, 1e6)[kept]
    likely = np.exp(-np.logaddexp(0, -logit)) > threshold
    edges, roots = spanning_forest(bounded, np.where(likely, -logit, 3e6 - logit))
    found = decode(*numbers, root_threshold=threshold)
    isolated = set(roots.tolist()) - set(edges.ravel().tolist())
    left_out = len(kept) - len(found)
    assert len(found.edges) == len(edges)
    assert len(found.roots) == len(roots) - left_out
    assert left_out <= len(isolated)
    assert len(found) > 0 or len(kept) == 0
    joined = {i for i in isolated for j in range(len(kept)) if j != i and bounded[i, j] + bounded[j, i] < 0}
    assert left_out <= len(joined)


def test_the_likeliest_root_is_taken_if_none_is_likely():
    skeleton = decode([1] * 4, LINE, costs(), [-3, -2, -5, -4])
    assert skeleton.is_tree
    assert skeleton.roots.tolist() == [1]


def test_the_tree_at_the_distance_cost_equals_networkx():
    rng = np.random.default_rng(0)
    points, margin = 100 * rng.random((9, 2)), rng.normal(size=(9, 9))
    margin += margin.T
    graph = nx.Graph()
    for i in range(9):
        for j in range(i):
            graph.add_edge(j, i, weight=math.dist(points[i], points[j]) / (1 + math.exp(-margin[i, j])))
    skeleton = decode([1] * 9, points, margin, [3] + [-3] * 8, distance_cost=True)
    assert {tuple(edge) for edge in skeleton.edges.tolist()} == set(nx.minimum_spanning_tree(graph).edges)
    assert skeleton.edges.tolist() != decode([1] * 9, points, margin, [3] + [-3] * 8).edges.tolist()
    assert skeleton.edge_score == pytest.approx([1 / (1 + math.exp(margin[i, j])) for i, j in skeleton.edges])


def test_a_second_plant_at_the_distance_cost_needs_a_likely_root_too():
    two_stems = costs(e01=-4, e23=-4)
    assert decode([1] * 4, LINE, two_stems, [3, -3, 2, -3], distance_cost=True).roots.tolist() == [0, 2]
    assert decode([1] * 4, LINE, two_stems, [3, -3, -1, -3], distance_cost=True).is_tree
    joined = decode([1] * 4, LINE, costs(e01=-4, e12=-4, e23=-4), [3, -3, 2, -3], distance_cost=True)
    assert joined.roots.tolist() == [0]


def test_nothing_found_is_an_empty_skeleton():
    skeleton = decode([0.1] * 4, LINE, costs(), [0] * 4, image_size=(9, 9))
    assert len(skeleton) == 0
    assert skeleton.image_size == (9, 9)
    assert len(decode([], np.zeros((0, 2)), np.zeros((0, 0)), [])) == 0


def test_arrays_of_different_lengths_are_an_error():
    with pytest.raises(TreeformerError, match="shapes of scores, points, costs and roots do not match"):
        decode([0.9] * 3, LINE, costs(), [0] * 4)


def all_pairs(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every pair and its cost, as `decode_pairs` expects them."""
    upper = np.triu_indices(len(cost), 1)
    bounded = np.clip(np.nan_to_num(cost.astype(float), nan=1e6), -1e6, 1e6)
    return np.stack(upper, axis=1), ((bounded + bounded.T) / 2)[upper]


@given(numbers=outputs(), single_plant=st.booleans(), threshold=st.floats(0, 1))
def test_both_decodings_agree_if_all_pairs_are_known(numbers, single_plant, threshold):
    score, points, cost, root = numbers
    options = {"node_threshold": threshold, "root_threshold": threshold, "single_plant": single_plant}
    dense = decode(score, points, cost, root, image_size=(64, 48), **options)
    assert decode_pairs(score, points, *all_pairs(cost), root, image_size=(64, 48), **options) == dense


@pytest.mark.slow
@pytest.mark.parametrize("single_plant", [False, True])
def test_both_decodings_agree_if_edges_and_roots_cost_the_same(single_plant):
    random = np.random.default_rng(0)
    for _ in range(200):
        count = int(random.integers(2, 7))
        cost = np.triu(random.integers(-2, 2, (count, count)), 1).astype(float)
        score, points, root = np.ones(count), random.random((count, 2)), random.integers(-2, 3, count)
        dense = decode(score, points, cost + cost.T, root, single_plant=single_plant)
        pairs = all_pairs(cost + cost.T)
        assert decode_pairs(score, points, *pairs, root, single_plant=single_plant) == dense


def test_points_whose_distance_overflows():
    far = [(0, 0), (1e200, 0), (-1e300, 1e300)]
    tree = decode_pairs([1] * 3, far, np.zeros((0, 2)), [], [0] * 3, single_plant=True, image_size=(9, 9))
    assert tree.is_tree
    assert len(tree) == 3


@pytest.mark.slow
@given(numbers=outputs(), single_plant=st.booleans(), data=st.data())
def test_any_known_pairs_give_a_rooted_forest(numbers, single_plant, data):
    score, points, cost, root = numbers
    pairs, margin = all_pairs(cost)
    known = data.draw(hnp.arrays(bool, len(pairs)))
    skeleton = decode_pairs(
        score, points, pairs[known], margin[known], root, single_plant=single_plant, image_size=(64, 48)
    )
    assert checked(skeleton) == skeleton
    assert skeleton.is_forest
    assert len(skeleton.roots) == len(skeleton) - len(skeleton.edges), "one root per tree"
    likely = (score >= 0.5) & np.isfinite(points).all(axis=1)
    assert (len(skeleton) > 0) == likely.any()
    if single_plant:
        assert len(skeleton) == likely.sum()
        assert skeleton.is_tree or len(skeleton) == 0


def test_components_that_no_tile_joins():
    pairs, cost = np.array([(0, 1), (2, 3)]), np.array([-4.0, -4.0])
    two = decode_pairs([1] * 4, LINE, pairs, cost, [3, -3, 2, -3])
    assert two.roots.tolist() == [0, 2], "a component with a likely root is a plant"
    single = decode_pairs([1] * 4, LINE, pairs, cost, [3, -3, -2, -3])
    assert single.nodes.tolist() == LINE[:2].tolist(), "a component without one is dropped"
    strongest = decode_pairs([0.6, 0.6, 0.9, 0.9], LINE, pairs, cost, [-3, -4, -5, -6])
    assert strongest.nodes.tolist() == LINE[2:].tolist(), "the strongest component is kept if there is no plant"
    forced = decode_pairs([1] * 4, LINE, pairs, cost, [3, -3, -2, -3], single_plant=True)
    assert forced.is_tree
    assert sorted(forced.edges.tolist()) == [[0, 1], [1, 2], [2, 3]]
    assert forced.edge_score[forced.edges.tolist().index([1, 2])] == 0


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 999), count=st.integers(2, 60), component_count=st.integers(1, 9))
@example(seed=0, count=180, component_count=2)
def test_gaps_are_the_shortest(seed, count, component_count):
    random = np.random.default_rng(seed)
    points, component = random.random((count, 2)), random.integers(0, component_count, count)
    edges = shortest_gaps(points, component)
    # Reference: Kruskal over all pairs; pairs within a component cost nothing.
    label, total = component.copy(), 0.0
    gap = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    for i, j in sorted(np.ndindex(count, count), key=lambda pair: gap[pair]):
        if label[i] != label[j]:
            total += gap[i, j]
            label[label == label[j]] = label[i]
    assert len(edges) == len(set(component.tolist())) - 1
    assert gap[edges[:, 0], edges[:, 1]].sum() == pytest.approx(total)
