"""Lines joined into one forest: manual examples, and every rule against a slow search."""

from __future__ import annotations

import functools
import math
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.growth import assert_less_than_quadratic
from tests.strategies import examples
from treeformer import Skeleton, SkeletonError
from treeformer._util.arrays import FloatArray
from treeformer.formats.junctions import JoinedAxes, join_axes


def line(*points: tuple[float, float]) -> FloatArray:
    return np.array(points, dtype=float).reshape(-1, 2)


def skeleton(joined: JoinedAxes) -> Skeleton:
    return Skeleton(joined.nodes, joined.edges, root=joined.roots, plant=joined.plant)


TRUNK = line((0, 0), (0, 10), (0, 20))


def test_a_base_off_the_line_gets_a_junction_within_the_segment():
    joined = join_axes([TRUNK, line((2, 5), (9, 5))], [None, 0], [0, 0])
    assert joined.nodes.tolist() == [[0, 0], [0, 10], [0, 20], [2, 5], [9, 5], [0, 5]]
    assert joined.edges.tolist() == [[0, 5], [5, 1], [1, 2], [5, 3], [3, 4]]
    assert joined.edge_axis.tolist() == [0, 0, 0, 1, 1]
    assert joined.axis_nodes == [(0, 1, 2), (3, 4)]
    assert joined.roots.tolist() == [0]


def test_a_base_nearest_to_a_node_is_joined_to_that_node():
    joined = join_axes([TRUNK, line((2, 10), (9, 10)), line((1, 25), (1, 30))], [None, 0, 0], [0, 0, 0])
    assert joined.edges.tolist() == [[0, 1], [1, 2], [1, 3], [3, 4], [2, 5], [5, 6]]


def test_a_base_on_a_point_of_the_parent_is_that_node():
    joined = join_axes([TRUNK, line((0, 10), (9, 10))], [None, 0], [0, 0])
    assert joined.axis_nodes == [(0, 1, 2), (1, 3)]
    assert joined.edges.tolist() == [[0, 1], [1, 2], [1, 3]]


def test_a_base_exactly_on_the_line_is_the_junction_itself():
    joined = join_axes([TRUNK, line((0, 4), (9, 4))], [None, 0], [0, 0])
    assert joined.edges.tolist() == [[0, 3], [3, 1], [1, 2], [3, 4]]
    assert joined.edge_axis.tolist() == [0, 0, 0, 1]
    assert joined.axis_nodes == [(0, 1, 2), (3, 4)]


def test_laterals_on_one_segment_split_it_in_order_and_share_a_place():
    laterals = [line((1, 8), (5, 8)), line((-1, 3), (-5, 3)), line((2, 8), (2, 9)), line((0, 3), (9, 9))]
    joined = join_axes([line((0, 0), (0, 10)), *laterals], [None, 0, 0, 0, 0], [0] * 5)
    on_trunk = joined.edges[joined.edge_axis == 0]
    assert joined.nodes[on_trunk].tolist() == [[[0, 0], [0, 3]], [[0, 3], [0, 8]], [[0, 8], [0, 10]]]
    # 0.3 is not exact in floating point: the foot of the second lateral is 4e-16 off the fourth's first point.
    assert on_trunk[0, 1] == joined.axis_nodes[4][0]  # the fourth lateral's first point lies there
    assert skeleton(joined).is_tree
    assert len(joined.nodes) == 2 + 8 + 1


def test_lines_do_not_merge_with_themselves():
    closed = line((0, 0), (5, 0), (5, 5), (0, 0), (0, 0))
    joined = join_axes([closed], [None], [0])
    assert joined.axis_nodes == [(0, 1, 2, 3, 4)]
    assert skeleton(joined).is_tree


def test_of_several_points_of_the_parent_in_one_place_the_first_is_shared():
    joined = join_axes([line((0, 0), (5, 0), (5, 0)), line((5, 0), (5, 5))], [None, 0], [0, 0])
    assert joined.axis_nodes[1][0] == 1


def test_main_axes_share_a_seed_within_a_plant_only():
    star = [line((0, 0), (5, 5)), line((0, 0), (-5, 5)), line((0, 0), (0, 5))]
    joined = join_axes(star, [None] * 3, [0, 0, 1])
    assert joined.axis_nodes == [(0, 1), (0, 2), (3, 4)]
    assert joined.roots.tolist() == [0, 3]
    assert joined.plant.tolist() == [0, 0, 0, 1, 1]


def test_a_lateral_of_an_axis_without_points_joins_the_next_ancestor_or_is_a_root():
    joined = join_axes([TRUNK, line(), line((1, 5), (2, 5))], [None, 0, 1], [0, 0, 0])
    assert skeleton(joined).is_tree
    assert joined.axis_nodes[1] == ()
    alone = join_axes([line(), line((1, 5), (2, 5))], [None, 0], [0, 0])
    assert alone.roots.tolist() == [0]
    assert alone.edges.tolist() == [[0, 1]]


def test_a_parent_of_one_point():
    joined = join_axes([line((0, 0)), line((1, 5), (2, 5))], [None, 0], [0, 0])
    assert joined.edges.tolist() == [[0, 1], [1, 2]]


def test_no_lines():
    joined = join_axes([], [], [])
    assert joined.nodes.shape == (0, 2)
    assert joined.edges.shape == (0, 2)


def test_a_parent_after_its_lateral_is_an_error():
    with pytest.raises(SkeletonError, match="axis 0 has parent 1"):
        join_axes([TRUNK, TRUNK], [1, None], [0, 0])


def distance_to_line(point: FloatArray, points: FloatArray) -> float:
    """Slow reference: compute the distance to each segment by its ends and the foot of the perpendicular."""
    best = min(math.dist(point, end) for end in points)
    for a, b in pairwise(points):
        length = math.dist(a, b)
        if length > 0:
            along = float((point - a) @ (b - a)) / length
            if 0 <= along <= length:
                best = min(best, math.dist(point, a + (b - a) * (along / length)))
    return best


coarse = st.integers(0, 4).map(float)
fine = st.floats(0, 4).map(lambda value: round(value, 6))


@st.composite
def systems(draw: st.DrawFn) -> tuple[list[FloatArray], list[int | None], list[int]]:
    """Draw lines on a coarse grid, where points often coincide, or on a fine one, where they rarely do."""
    number = draw(st.sampled_from([coarse, fine]))
    lines, parents, plants = [], [], []
    for axis in range(draw(st.integers(0, 7))):
        parent = draw(st.none() | st.integers(0, axis - 1)) if axis else None
        points = draw(st.lists(st.tuples(number, number), max_size=5))
        lines.append(line(*points))
        parents.append(parent)
        plants.append(draw(st.integers(0, 1)) if parent is None else plants[parent])
    return lines, parents, plants


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(300))
@given(systems())
def test_every_rule_holds(system: tuple[list[FloatArray], list[int | None], list[int]]):
    lines, parents, plants = system
    joined = join_axes(lines, parents, plants)
    built = skeleton(joined)  # the constructor checks for self-loops, duplicate edges and one root per component
    assert built.is_forest
    assert len(built.component_root) == len(joined.roots)
    part = [nx.Graph() for _ in lines]  # the edges of each axis
    for (u, v), axis in zip(joined.edges.tolist(), joined.edge_axis.tolist(), strict=True):
        assert joined.plant[u] == joined.plant[v] == plants[axis]
        part[axis].add_edge(u, v)

    for axis, points in enumerate(lines):
        nodes = joined.axis_nodes[axis]
        assert np.array_equal(joined.nodes[list(nodes)], points)
        assert len(set(nodes)) == len(nodes)
        covered = 0
        for start, end in pairwise(nodes):
            # Consecutive points are connected by edges of this axis, through junctions on the segment in order.
            path = nx.shortest_path(part[axis], start, end)
            assert not set(path[1:-1]) & set(nodes)
            steps = [math.dist(joined.nodes[u], joined.nodes[v]) for u, v in pairwise(path)]
            assert sum(steps) == pytest.approx(math.dist(joined.nodes[start], joined.nodes[end]), abs=1e-9)
            covered += len(steps)
        assert part[axis].number_of_edges() in (covered, covered + 1)  # one more if the base is joined by an edge

        ancestor = parents[axis]
        while ancestor is not None and not len(lines[ancestor]):
            ancestor = parents[ancestor]
        if not len(points):
            continue
        if ancestor is None:
            assert nodes[0] in joined.roots
            continue
        if any(np.array_equal(points[0], point) for point in lines[ancestor]):
            assert nodes[0] in joined.axis_nodes[ancestor]
            continue
        gap = distance_to_line(points[0], lines[ancestor])
        on_parent = set(part[ancestor]) | set(joined.axis_nodes[ancestor])
        if nodes[0] in on_parent:  # the base is the junction
            assert gap == pytest.approx(0, abs=1e-9)
        else:
            (hook,) = set(part[axis][nodes[0]]) & on_parent
            assert math.dist(joined.nodes[hook], points[0]) == pytest.approx(gap, abs=1e-9)


def test_huge_and_tiny_coordinates_neither_overflow_nor_warn():
    for scale in (1e-300, 1e300):
        joined = join_axes([TRUNK * scale, line((2, 5), (9, 5)) * scale], [None, 0], [0, 0])
        assert joined.nodes[5] == pytest.approx(np.array([0, 5 * scale]))


def many_lines(plants: int) -> tuple[list[np.ndarray], list[int | None], list[int]]:
    rng = np.random.default_rng(0)
    lines, parents, owners = [], [], []
    for plant in range(plants):
        main = len(lines)
        lines.append(np.cumsum(rng.normal(size=(1000, 2)), axis=0))
        parents.append(None)
        owners.append(plant)
        for _ in range(100):
            lines.append(np.cumsum(rng.normal(size=(40, 2)), axis=0) + lines[main][rng.integers(1000)] + 0.25)
            parents.append(main)
            owners.append(plant)
    return lines, parents, owners


@pytest.mark.slow
def test_time_grows_less_than_quadratically_with_the_plants():
    assert_less_than_quadratic(lambda plants: functools.partial(join_axes, *many_lines(plants)), 2)
    joined = join_axes(*many_lines(20))
    assert len(joined.nodes) >= 100_000
    assert skeleton(joined).is_forest
