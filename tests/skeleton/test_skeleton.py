"""Skeleton: construction, validation, rooted forests, axes and plants."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treeformer
from tests.growth import assert_less_than_quadratic
from tests.strategies import forests, graphs
from treeformer import Axis, AxisFunction, Plant, Skeleton, SkeletonError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([(0, 0), (1, float("nan"))], []), r"node 1 is at \(1.0, nan\): coordinates must be finite"),
        (([(float("inf"), 0)], []), "node 0"),
        (([(0, 0), (1, -1e16)], []), r"node 1 is at \(1.0, -1e\+16\): coordinates must be within ±10,000,000 px"),
        (([(1.1e7, 0)], []), "node 0 is at"),
        (([(10**400, 0)], []), "N×2"),
        (([(0, 0, 0)], []), "N×2"),
        (([("a", "b")], []), "N×2"),
        (([(0, 0), (1, 1)], [(0, 2)]), r"edge 0 \(0, 2\) refers to node 2, but there are 2 nodes"),
        (([(0, 0), (1, 1)], [(-1, 0)]), "refers to node -1"),
        (([(0, 0), (1, 1)], [(0, 1), (1, 1)]), "edge 1 joins node 1 to itself"),
        (([(0, 0), (1, 1)], [(0, 1), (1, 0)]), r"edge 1 \(1, 0\) repeats edge 0"),
        (([(0, 0), (1, 1)], [(0, 0.5)]), "edges must be whole numbers"),
        (([(0, 0), (1, 1)], [0, 1]), "E×2"),
    ],
)
def test_invalid_graphs_raise_a_one_line_error(arguments, message):
    with pytest.raises(SkeletonError, match=message) as error:
        Skeleton(*arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"root": 3}, "root 3 is not a node"),
        ({"root": [0, 1]}, "nodes 0 and 1 are both roots"),
        ({"radius": [1, -1, 1]}, "radius of node 1 is -1.0"),
        ({"radius": [1, 1]}, "there are 3 nodes"),
        ({"radius": [1, 1, 1e16]}, r"radius of node 2 is 1e\+16, more than 10,000,000"),
        ({"radius": [1, 1, float("inf")]}, "radius of node 2 is inf$"),
        ({"radius": [1, 1, 10**400]}, "radius must be numbers"),
        ({"image_size": (10**9, 5)}, "image_size has 1000000000 px, more than 10,000,000"),
        ({"image_size": (10**5000, 5)}, "image_size has a value of type int px"),
        ({"node_score": [0, float("nan"), 1]}, "node_score of node 1 is nan"),
        ({"edge_score": [0, 1]}, "there are 1 edges"),
        ({"plant": [0, -1, 0]}, "plant of node 1 is -1"),
        ({"image_size": (0, 5)}, "image_size must be positive"),
        ({"image_size": 5}, "width, height"),
        ({"edge_axis": [0]}, "without axes"),
        ({"axes": [Axis((0, 1))]}, "without edge_axis"),
        ({"axes": [Axis((0, 1))], "edge_axis": [1]}, "edge 0 is on axis 1, but there are 1 axes"),
        ({"axes": [Axis((0, 9))], "edge_axis": [0]}, "axis 0 goes through node 9"),
        ({"axes": [Axis((0, 1), parent=4)], "edge_axis": [0]}, "axis 0 has parent 4"),
        ({"axes": [Axis((0, 1), parent=1), Axis((0, 1), parent=0)], "edge_axis": [0]}, "its own ancestor"),
    ],
)
def test_invalid_attributes_raise_an_error_that_names_them(attributes, message):
    with pytest.raises(SkeletonError, match=message):
        Skeleton([(0, 0), (1, 1), (2, 2)], [(0, 1)], **attributes)


def test_a_skeleton_is_immutable(y_shape):
    with pytest.raises(ValueError, match="read-only"):
        y_shape.nodes[0] = 1
    with pytest.raises(AttributeError, match="immutable"):
        y_shape.nodes = 1
    with pytest.raises(TypeError):
        y_shape.metadata["a"] = 1
    source = np.zeros((1, 2))
    skeleton = Skeleton(source, [])
    source[0] = 9
    assert skeleton.nodes[0, 0] == 0


def test_copies_are_equal(y_shape):
    rich = y_shape.replace(radius=[1, 2, 3, np.nan], metadata={"a": [1, {"b": None}]})
    unpickled = pickle.loads(pickle.dumps(rich))
    assert unpickled == copy.deepcopy(rich) == rich.replace() == rich
    assert not unpickled.nodes.flags.writeable
    assert rich != y_shape
    assert rich != rich.replace(radius=[1, 2, 3, 3])


def test_no_node_and_one_node():
    empty, single = Skeleton([], []), Skeleton([(3, 4)], [], root=0)
    assert (empty.is_tree, empty.is_forest, single.is_tree, single.is_forest) == (False, True, True, True)
    for skeleton in (empty, single):
        assert skeleton.length == 0
        assert skeleton.axes == ()
        assert len(skeleton.plants) == len(skeleton)
        for same in (skeleton.resample(8), skeleton.contract(), skeleton.simplify(1), skeleton.transform(np.eye(3))):
            assert np.array_equal(same.nodes, skeleton.nodes)
        assert skeleton.parents.tolist() == [-1] * len(skeleton)
        assert skeleton.depth.tolist() == [0] * len(skeleton)
        assert Skeleton.from_networkx(skeleton.to_networkx()).nodes.tolist() == skeleton.nodes.tolist()
    assert single.nearest((0, 0)) == (0, 5.0)
    assert len(single.crop(5, 5, 9, 9)) == 0
    with pytest.raises(SkeletonError, match="no nearest"):
        empty.nearest((0, 0))


@pytest.mark.parametrize("points", [(1, 2, 3), [(1, 2, 3)], (np.nan, 1), [(0, 0), (np.inf, 0)], [], 5, "ab", None])
def test_nearest_to_an_invalid_point_raises_an_error(points):
    """Depth cameras, for example, return three numbers, or NaN where they see nothing."""
    with pytest.raises(SkeletonError, match="two finite numbers"):
        Skeleton([(3, 4)], []).nearest(points)


def test_cycles_are_found(ring):
    assert not ring.is_forest
    assert not ring.is_tree
    with pytest.raises(SkeletonError, match=r"node 0 lies on a cycle"):
        _ = ring.parents
    with pytest.raises(SkeletonError, match="own ancestor"):
        Skeleton.from_parents([(0, 0), (1, 1), (2, 2)], [-1, 2, 1])


@given(graphs())
def test_tree_and_forest_agree_with_networkx(skeleton):
    graph = skeleton.to_networkx()
    assert skeleton.is_tree == nx.is_tree(graph)
    assert skeleton.is_forest == nx.is_forest(graph)
    assert skeleton.degree.tolist() == [graph.degree[node] for node in range(len(skeleton))]


@given(forests(min_nodes=1))
def test_parents_and_depth_agree_with_networkx(skeleton):
    graph = skeleton.to_networkx()
    for root in skeleton.component_root.tolist():
        assert skeleton.parents[root] == -1
        for node, parent in nx.bfs_predecessors(graph, root):
            assert skeleton.parents[node] == parent
        for node, depth in nx.single_source_shortest_path_length(graph, root).items():
            assert skeleton.depth[node] == depth
        for node, distance in nx.single_source_dijkstra_path_length(graph, root, weight="length").items():
            assert skeleton.distance_from_root[node] == pytest.approx(distance)


@given(forests())
def test_networkx_round_trip(skeleton):
    back = Skeleton.from_networkx(skeleton.to_networkx())
    order = {tuple(sorted(edge)): score for edge, score in enumerate_edges(back)}
    assert order == {tuple(sorted(edge)): score for edge, score in enumerate_edges(skeleton)}
    assert np.array_equal(back.nodes, skeleton.nodes)
    assert np.array_equal(back.roots, skeleton.roots)
    assert back.image_size == skeleton.image_size
    if skeleton.radius is not None and np.isfinite(skeleton.radius).any():
        assert np.array_equal(back.radius, skeleton.radius, equal_nan=True)


def enumerate_edges(skeleton):
    scores = skeleton.edge_score if skeleton.edge_score is not None else np.zeros(len(skeleton.edges))
    return zip(skeleton.edges.tolist(), scores.tolist(), strict=True)


def test_from_networkx_takes_positions_and_any_names():
    graph = nx.DiGraph()
    graph.add_node("tip", pos=(1, 2))
    graph.add_node("base", pos=(3, 4))
    graph.add_edge("base", "tip")
    skeleton = Skeleton.from_networkx(graph)
    assert skeleton.nodes.tolist() == [[1, 2], [3, 4]]
    assert skeleton.root == 1
    graph.add_node("lost")
    with pytest.raises(SkeletonError, match="node lost has neither"):
        Skeleton.from_networkx(graph)


# ---- axes ----------------------------------------------------------------------------------------


def test_an_axis_continues_along_the_straightest_continuation(comb):
    assert [axis.nodes for axis in comb.axes] == [(0, 1, 2, 3, 4), (1, 5), (2, 6), (3, 7)]
    assert comb.axis_order.tolist() == [0, 1, 1, 1]
    assert [axis.parent for axis in comb.axes] == [None, 0, 0, 0]
    assert comb.edge_axis.tolist() == [0, 0, 0, 0, 1, 2, 3]


def test_ties_go_to_the_longer_continuation():
    fork = Skeleton([(0, 0), (0, 5), (-3, 9), (3, 9), (6, 13)], [(0, 1), (1, 2), (1, 3), (3, 4)], root=0)
    assert fork.axes[0].nodes == (0, 1, 3, 4)


def reach_below(skeleton, node):
    """Length of the longest path from a node to a tip below it, px: reference for `treeformer.skeleton.axes`."""
    below = [child for child in range(len(skeleton)) if skeleton.parents[child] == node]
    steps = [np.hypot(*(skeleton.nodes[child] - skeleton.nodes[node])) for child in below]
    return max((step + reach_below(skeleton, child) for step, child in zip(steps, below, strict=True)), default=0.0)


@pytest.mark.slow
@given(forests(), st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.9, 1.0]))
def test_an_axis_continues_along_the_straightest_of_the_far_reaching_continuations(forest, min_reach_fraction):
    inferred = forest.infer_axes(min_reach_fraction)
    assert inferred.has_explicit_axes
    assert (inferred.edge_axis >= 0).all()
    parents, component_root = inferred.parents, set(inferred.component_root.tolist())
    steps_along_axes = {(above, node) for axis in inferred.axes for above, node in itertools.pairwise(axis.nodes[1:])}
    for node in set(range(len(inferred))) - component_root:
        children = np.flatnonzero(parents == node)
        if len(children) == 0:
            continue
        steps = inferred.nodes[children] - inferred.nodes[node]
        length = np.hypot(*steps.T)
        reach = length + [reach_below(inferred, child) for child in children]
        incoming = inferred.nodes[node] - inferred.nodes[parents[node]]
        cosine = (steps @ incoming) / np.maximum(length * np.hypot(*incoming), 1e-300)
        [chosen] = [i for i, child in enumerate(children) if (node, child) in steps_along_axes]
        reaches_far = reach >= min_reach_fraction * reach.max() - 1e-9
        assert reaches_far[chosen]
        assert cosine[chosen] >= cosine[reaches_far].max() - 1e-6


def test_a_fraction_of_zero_gives_the_default_axes(comb):
    assert comb.infer_axes(0.0).axes == comb.axes
    for invalid in (-0.1, 1.1, math.nan, [0.5, 0.5], [[0.5]]):
        with pytest.raises(SkeletonError, match="min_reach_fraction"):
            comb.infer_axes(invalid)


def test_every_edge_at_a_root_begins_a_main_axis():
    star = Skeleton([(5, 5), (0, 0), (5, 0), (9, 0)], [(0, 1), (0, 2), (0, 3)], root=0)
    assert star.axis_order.tolist() == [0, 0, 0]


@given(forests(min_nodes=1))
def test_axes_agree_with_the_reference(skeleton):
    def reach(node):
        return max((skeleton.edge_length[edge_to(c)] + reach(c) for c in children(node)), default=0.0)

    def edge_to(node):
        pair = {node, int(skeleton.parents[node])}
        return next(e for e, ends in enumerate(skeleton.edges.tolist()) if set(ends) == pair)

    def children(node):
        return [c for c in range(len(skeleton)) if skeleton.parents[c] == node]

    def direction(node):
        step = skeleton.nodes[node] - skeleton.nodes[skeleton.parents[node]]
        return step / (np.linalg.norm(step) or 1.0)

    next_of = {}
    for node in range(len(skeleton)):
        if skeleton.parents[node] < 0 or not children(node):
            continue
        cosine = {c: float(direction(node) @ direction(c)) for c in children(node)}
        best = max(cosine.values())
        tied = [c for c in cosine if cosine[c] >= best - 1e-9]
        next_of[node] = min(tied, key=lambda c: (-(skeleton.edge_length[edge_to(c)] + reach(c)), c))
    for axis in skeleton.axes:
        assert skeleton.parents[axis.nodes[1]] == axis.nodes[0]
        for node, following in zip(axis.nodes[1:], axis.nodes[2:], strict=False):
            assert next_of[node] == following
        assert axis.nodes[-1] not in next_of
    assert sum(len(axis.nodes) - 1 for axis in skeleton.axes) == len(skeleton.edges)


# ---- plants --------------------------------------------------------------------------------------


def test_plants_run_from_left_to_right():
    forest = Skeleton([(9, 0), (9, 5), (1, 0), (1, 5), (5, 0)], [(0, 1), (2, 3)], root=[0, 2, 4], radius=range(5))
    assert forest.plant_of_node.tolist() == [2, 2, 0, 0, 1]
    assert [plant.nodes[0, 0] for plant in forest.plants] == [1, 5, 9]
    assert [plant.root for plant in forest.plants] == [0, 0, 0]
    assert forest.plants[2].radius.tolist() == [0, 1]


def test_a_plant_keeps_its_record_and_axes():
    axes = [
        Axis((0, 1), id="a", plant=1),
        Axis((2, 3), id="b", plant=0, functions=(AxisFunction("diameter", (1.0, 2.0)),)),
        Axis((3, 4), id="c", plant=0, parent=1),
    ]
    forest = Skeleton(
        np.arange(10).reshape(5, 2),
        [(0, 1), (2, 3), (3, 4)],
        axes=axes,
        edge_axis=[0, 1, 2],
        plant=[1, 1, 0, 0, 0],
        plant_records=[Plant("p0"), Plant("p1")],
    )
    first, second = forest.plants
    assert [plant.plant_records[0].id for plant in (first, second)] == ["p0", "p1"]
    assert [(axis.id, axis.nodes, axis.parent) for axis in first.axes] == [("b", (0, 1), None), ("c", (1, 2), 0)]
    assert first.axes[0].functions[0].samples == (1.0, 2.0)
    assert first.edge_axis.tolist() == [0, 1]
    with pytest.raises(SkeletonError, match="edge 0 joins two plants"):
        _ = forest.replace(plant=[0, 1, 0, 0, 0]).plants


def test_plants_keep_their_axes_when_a_rotation_renumbers_them(tmp_path):
    forest = Skeleton([(0, 0), (0, 9), (50, 0), (50, 5)], [(0, 1), (2, 3)], root=[0, 2]).infer_axes(0)
    turned = forest.transform([[-1, 0, 100], [0, -1, 100]])
    assert turned.plant_of_node.tolist() == [1, 1, 0, 0]
    for plant, length in zip(turned.plants, (5, 9), strict=True):
        assert plant.length == length
        assert [axis.nodes for axis in plant.axes] == [(0, 1)]
        assert plant.edge_axis.tolist() == [0]
    treeformer.write(turned, tmp_path / "a.rsml")
    assert [plant.length for plant in treeformer.read(tmp_path / "a.rsml").plants] == [5, 9]


@given(forests())
def test_plants_add_up(skeleton):
    assert sum(len(plant) for plant in skeleton.plants) == len(skeleton)
    assert sum(plant.length for plant in skeleton.plants) == pytest.approx(skeleton.length)
    assert all(plant.is_tree for plant in skeleton.plants)


# ---- size ----------------------------------------------------------------------------------------


STEPS = {
    "axes": lambda skeleton: skeleton.with_inferred_axes.axis_order,
    "plants": lambda skeleton: skeleton.with_inferred_axes.plants,
    "plants with axes": lambda skeleton: skeleton.plants,
    "resample": lambda skeleton: skeleton.resample(500),
    "contract": lambda skeleton: skeleton.contract(),
    "simplify": lambda skeleton: skeleton.simplify(20),
    "crop": lambda skeleton: skeleton.crop(1000, 1000, 3000, 3000),
    "largest": lambda skeleton: skeleton.largest(),
    "transform": lambda skeleton: skeleton.transform([[1, 0, 5], [0, 1, 5]]),
    "nearest": lambda skeleton: skeleton.nearest(skeleton.nodes),
    "equality": lambda skeleton: skeleton == skeleton.replace(),
}


def large_skeleton(kind: str, count: int) -> Skeleton:
    """A forest with stated axes."""
    rng = np.random.default_rng(0)
    parents = np.arange(count) - (1 if kind == "path" else rng.integers(1, 5, count))
    parents = np.where(parents >= 0, parents, np.where(np.arange(count) > 0, 0, -1))
    if kind == "many plants":
        first = np.arange(count) // 20 * 20
        parents = np.where(np.arange(count) == first, -1, np.maximum(parents, first))
    skeleton = Skeleton.from_parents(rng.uniform(0, 5000, (count, 2)), parents, radius=np.ones(count))
    return skeleton.replace(axes=skeleton.axes, edge_axis=skeleton.edge_axis)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bush", "path", "many plants"])
def test_time_grows_less_than_quadratically(kind):
    made = {count: large_skeleton(kind, count) for count in (1_000, 8_000)}
    for step in STEPS.values():
        # A fresh object per repetition: results are cached in it.
        assert_less_than_quadratic(lambda count, step=step: functools.partial(step, made[count].replace()), 1_000)


def test_axes_stay_with_their_plant_when_another_plant_is_cropped_away():
    forest = Skeleton([(50, 0), (50, 9), (0, 0), (0, 99)], [(0, 1), (2, 3)], root=[0, 2]).infer_axes(0)
    cropped = forest.crop(40, -5, 60, 20)
    assert [axis.plant for axis in cropped.axes] == [0]
    assert cropped.plants[0].edge_axis.tolist() == [0]
