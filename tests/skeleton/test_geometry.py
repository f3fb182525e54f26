"""Skeleton: resampling, cropping and moving, each against a slow reference."""

from __future__ import annotations

import math
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import forests, graphs
from treeformer import Axis, AxisFunction, Skeleton, SkeletonError


def branches_of(skeleton):
    """Reference for `Skeleton.branches`: follow a NetworkX graph from keypoint to keypoint."""
    graph = skeleton.to_networkx()
    keypoints = {node for node in graph if graph.degree[node] != 2} | set(skeleton.roots.tolist())
    found = []
    for start in keypoints:
        for first in graph[start]:
            path = [start, first]
            while path[-1] not in keypoints:
                path.append(next(node for node in graph[path[-1]] if node != path[-2]))
            if path[0] < path[-1]:
                found.append(path)
    return sorted(found, key=str)


@given(forests())
def test_branches_agree_with_the_reference(skeleton):
    fast = skeleton.branches
    paths = [fast.nodes[a:b].tolist() for a, b in zip(fast.start[:-1], fast.start[1:], strict=True)]
    assert sorted((p if p[0] < p[-1] else p[::-1] for p in paths), key=str) == branches_of(skeleton)


@given(forests(), st.floats(0.5, 60))
def test_resample_agrees_with_the_reference(skeleton, spacing):
    expected = [tuple(skeleton.nodes[node]) for node in np.flatnonzero(skeleton.is_keypoint)]
    edge_count = 0
    for path in branches_of(skeleton):
        line = shapely.LineString(skeleton.nodes[path])
        # Halfway between two counts the reference may round the other way.
        assume(abs(line.length / spacing % 1 - 0.5) > 1e-6)
        intervals = max(1, round(line.length / spacing))
        edge_count += intervals
        expected += [line.interpolate(k / intervals, normalized=True).coords[0] for k in range(1, intervals)]
    resampled = skeleton.resample(spacing)
    assert len(resampled.edges) == edge_count
    assert len(resampled) == len(expected)
    assert np.allclose(sorted_rows(resampled.nodes), sorted_rows(np.reshape(expected, (-1, 2))), atol=1e-6)
    assert resampled.is_forest
    assert (
        sorted_rows(resampled.nodes[resampled.roots]).tolist() == sorted_rows(skeleton.nodes[skeleton.roots]).tolist()
    )


def crossings_of(points, spacing):
    """Reference for the grid crossings of one branch: distances along it, step by step and line by line."""
    found, arc = [], 0.0
    for begin, end in pairwise(points):
        length = math.dist(begin, end)
        for first, second in zip(begin, end, strict=True):
            low, high = sorted((first / spacing - 0.5, second / spacing - 0.5))
            for line in range(math.floor(low) + 1, math.floor(high) + 1):
                found.append(arc + length * ((line + 0.5) * spacing - first) / (second - first))
        arc += length
    groups = []
    for distance in sorted(found):
        if groups and distance - groups[-1][-1] < spacing / 4:
            groups[-1].append(distance)
        else:
            groups.append([distance])
    means = [sum(group) / len(group) for group in groups]
    near = [abs(gap - spacing / 4) < 1e-6 for gap in [*np.diff(sorted(found)), *means, *(arc - m for m in means)]]
    return [mean for mean in means if spacing / 4 <= mean <= arc - spacing / 4], any(near)


@pytest.mark.slow
@given(forests(), st.floats(2, 90))
def test_grid_crossings_agree_with_the_reference(skeleton, spacing):
    expected = [tuple(skeleton.nodes[node]) for node in np.flatnonzero(skeleton.is_keypoint)]
    edge_count = 0
    for path in branches_of(skeleton):
        distances, is_ambiguous = crossings_of(skeleton.nodes[path].tolist(), spacing)
        assume(not is_ambiguous)  # rounding decides whether two crossings are merged
        edge_count += len(distances) + 1
        expected += [shapely.LineString(skeleton.nodes[path]).interpolate(distance).coords[0] for distance in distances]
    crossed = skeleton.sample_at_grid_crossings(spacing)
    assert len(crossed.edges) == edge_count
    assert len(crossed) == len(expected)
    assert np.allclose(sorted_rows(crossed.nodes), sorted_rows(np.reshape(expected, (-1, 2))), atol=1e-5)
    assert crossed.is_forest
    assert sorted_rows(crossed.nodes[crossed.roots]).tolist() == sorted_rows(skeleton.nodes[skeleton.roots]).tolist()


def test_grid_crossings_do_not_depend_on_where_the_branch_begins():
    curve = [(x, 50 + 30 * math.sin(x / 40)) for x in range(0, 200, 5)]
    line = Skeleton(curve, [(k, k + 1) for k in range(len(curve) - 1)])
    part = Skeleton(curve[7:], [(k, k + 1) for k in range(len(curve) - 8)])
    whole = {tuple(point) for point in line.sample_at_grid_crossings(44).nodes.round(6) if point[0] > 60}
    assert len(whole) > 3
    assert whole == {tuple(point) for point in part.sample_at_grid_crossings(44).nodes.round(6) if point[0] > 60}
    for bad in (0, -1, math.nan, math.inf):
        with pytest.raises(SkeletonError, match="spacing"):
            line.sample_at_grid_crossings(bad)


def sorted_rows(points):
    """Points in the order along an irrational direction, which rounding does not change."""
    points = np.asarray(points, dtype=float)
    return np.round(points[np.argsort(points @ (1.0, np.pi / 7))], 6) + 0.0


def test_resample_keeps_keypoints_and_spaces_equally(comb):
    fine = comb.resample(8)
    for point in comb.nodes[comb.is_keypoint]:
        assert fine.nearest(point)[1] == 0
    assert set(np.round(fine.edge_length, 9)) == {10.0}
    assert np.allclose(comb.resample(4).edge_length, 10 / 3)
    assert fine.length == comb.length
    for bad in (0, -1, math.nan, math.inf):
        with pytest.raises(SkeletonError, match="spacing"):
            comb.resample(bad)


def test_resample_interpolates_radii_and_takes_the_nearest_edge_score():
    line = Skeleton([(0, 0), (10, 0), (20, 0)], [(0, 1), (1, 2)], root=0, radius=[0, 1, 3], edge_score=[0.25, 0.75])
    fine = line.resample(5)
    order = np.argsort(fine.nodes[:, 0])
    assert fine.radius[order].tolist() == [0, 0.5, 1, 2, 3]
    by_position = np.argsort(fine.nodes[fine.edges].mean(axis=1)[:, 0])
    assert fine.edge_score[by_position].tolist() == [0.25, 0.25, 0.75, 0.75]
    assert line.contract().edge_score.tolist() == [0.25]


@given(graphs(), st.floats(1, 80))
def test_resampling_keeps_cycles(skeleton, spacing):
    cycles = len(skeleton.edges) - len(skeleton) + skeleton.component.max() + 1
    for changed in (skeleton.resample(spacing), skeleton.contract(), skeleton.simplify(spacing)):
        again = changed.replace()  # validates: no loops, no duplicates
        assert len(again.edges) - len(again) + again.component.max() + 1 == cycles
        assert again.component.max() == skeleton.component.max()


@given(forests())
def test_contract_agrees_with_networkx(skeleton):
    graph = nx.Graph(skeleton.to_networkx())
    for node in list(graph):
        if graph.degree[node] == 2 and node not in skeleton.roots:
            graph.add_edge(*graph[node])
            graph.remove_node(node)
    contracted = skeleton.contract()
    assert len(contracted) == len(graph)
    ends = {tuple(sorted((tuple(skeleton.nodes[u]), tuple(skeleton.nodes[v])))) for u, v in graph.edges}
    got = {tuple(sorted((tuple(contracted.nodes[u]), tuple(contracted.nodes[v])))) for u, v in contracted.edges}
    assert got == ends


@given(forests(), st.floats(0, 40))
def test_simplify_stays_within_tolerance(skeleton, tolerance):
    simple = skeleton.simplify(tolerance)
    kept = {tuple(point) for point in simple.nodes}
    assert kept <= {tuple(point) for point in skeleton.nodes}
    assert {tuple(point) for point in skeleton.nodes[skeleton.is_keypoint]} <= kept
    if len(skeleton.edges):
        lines = shapely.MultiLineString(list(simple.nodes[simple.edges]))
        dropped = shapely.points(skeleton.nodes[skeleton.degree > 0])
        assert shapely.distance(dropped, lines).max() <= tolerance + 1e-9
    assert len(skeleton.simplify(0)) >= len(simple)


def test_simplify_agrees_with_shapely_on_a_long_line():
    rng = np.random.default_rng(3)
    points = np.cumsum(rng.normal(size=(400, 2)), axis=0)
    line = Skeleton(points, [(k, k + 1) for k in range(399)], root=0)
    for tolerance in (0.5, 2.0, 8.0):
        expected = shapely.simplify(shapely.LineString(points), tolerance, preserve_topology=False)
        assert len(line.simplify(tolerance)) == len(expected.coords)


# ---- crop ----------------------------------------------------------------------------------------

boxes = st.tuples(st.integers(-60, 150), st.integers(-60, 150), st.integers(1, 200), st.integers(1, 200))


@given(forests(), boxes)
def test_crop_agrees_with_shapely(skeleton, box):
    left, top, width, height = box
    cut = skeleton.crop(left, top, left + width, top + height)
    frame = shapely.box(left, top, left + width, top + height)
    lines = shapely.linestrings(skeleton.nodes[skeleton.edges])
    assert cut.length == pytest.approx(shapely.length(shapely.intersection(lines, frame)).sum(), abs=1e-6)
    assert cut.is_forest
    assert cut.image_size == (width, height)
    assert (cut.nodes >= 0).all()
    assert (cut.nodes <= (width, height)).all()
    checked = cut.replace()
    assert len(checked.roots) == (checked.component.max(initial=-1) + 1)
    assert skeleton.crop(left, top, left + width, top + height, keep="largest").component.max(initial=0) == 0


def test_crop_cuts_at_the_frame_and_gives_each_component_a_root(comb):
    cut = comb.crop(12, 5, 18, 35)
    assert len(cut.plants) == 3
    assert set(map(tuple, cut.nodes.tolist())) == {(0, 5), (6, 5), (0, 15), (6, 15), (0, 25), (6, 25)}
    assert set(cut.nodes[cut.roots][:, 0]) == {0.0}  # the side nearest to the main axis
    with pytest.raises(SkeletonError, match="empty crop"):
        comb.crop(5, 5, 5, 9)


# ---- axes after changes --------------------------------------------------------------------------


@pytest.fixture
def with_axes() -> Skeleton:
    """A main axis and a lateral that begins 1 px off it: node 4 is the junction that a reader adds."""
    axes = [
        Axis((0, 1, 2), id="main", functions=(AxisFunction("diameter", (4.0, 3.0, 2.0)),)),
        Axis((3, 5), id="side", label="lateral", parent=0, properties={"a": "b"}),
    ]
    nodes = [(10, 0), (10, 20), (10, 40), (11, 10), (10, 10), (30, 10)]
    edges = [(0, 4), (4, 1), (1, 2), (4, 3), (3, 5)]
    return Skeleton(nodes, edges, root=0, axes=axes, edge_axis=[0, 0, 0, 1, 1])


def test_resampled_axes_follow_the_edges(with_axes):
    fine = with_axes.resample(5)
    main, side = fine.axes
    assert (main.id, side.id, side.label, side.properties, side.parent) == ("main", "side", "lateral", {"a": "b"}, 0)
    assert fine.nodes[list(main.nodes)][:, 1].tolist() == list(range(0, 41, 5))
    assert fine.nodes[list(side.nodes)].tolist() == [[10, 10], [15, 10], [20, 10], [25, 10], [30, 10]]
    assert main.functions == ()


def test_what_a_crop_keeps_is_one_of_two_words(comb):
    with pytest.raises(SkeletonError, match="keep must be 'forest' or 'largest', not 'x'"):
        comb.crop(0, 0, 9, 9, keep="x")


def test_cropped_axes_keep_their_ids(with_axes):
    cut = with_axes.crop(0, 0, 50, 30)
    assert [(axis.id, len(axis.nodes), axis.parent) for axis in cut.axes] == [("main", 4, None), ("side", 3, 0)]
    severed = with_axes.crop(9, 5, 50, 15)
    assert [axis.id for axis in severed.axes] == ["main", "side"]
    assert severed.nodes[severed.roots].tolist() == [[1, 0]]


def test_one_part_of_a_severed_axis_keeps_the_id():
    bow = Skeleton(
        [(0, 0), (10, 0), (10, 10), (0, 10)], [(0, 1), (1, 2), (2, 3)], root=0, axes=[Axis((0, 1, 2, 3), id="bow")],
        edge_axis=[0, 0, 0],
    )  # fmt: skip
    cut = bow.crop(0, -1, 5, 11)
    assert sorted(axis.id for axis in cut.axes) == ["", "bow"]
    assert cut.nodes[cut.axes[[a.id for a in cut.axes].index("bow")].nodes[0]].tolist() == [0, 1]


@pytest.mark.parametrize("change", [lambda s: s.resample(8), lambda s: s.contract(), lambda s: s.crop(0, 0, 99, 99)])
def test_a_lateral_that_begins_with_its_parent_stays_a_lateral(change):
    """The lateral and the main root share their first node, as RSML files may say."""
    axes = [Axis((0, 1, 2), id="main"), Axis((0, 3), id="lateral", parent=0), Axis((0, 4), id="finer", parent=1)]
    nodes = [(50, 5), (50, 40), (50, 80), (56, 8), (44, 8)]
    for order in ([0, 0, 1, 2], [1, 2, 0, 0], [2, 1, 0, 0]):
        edges = {0: [(0, 1), (1, 2)], 1: [(0, 3)], 2: [(0, 4)]}
        listed = [edges[axis].pop(0) for axis in order]
        changed = change(Skeleton(nodes, listed, root=0, axes=axes, edge_axis=order))
        parent_of = {axis.id: None if axis.parent is None else changed.axes[axis.parent].id for axis in changed.axes}
        assert parent_of == {"main": None, "lateral": "main", "finer": "lateral"}


def test_transform_scales_radii_and_diameters(with_axes):
    moved = with_axes.replace(radius=[1.0] * 6).transform([[0, 2, 1], [2, 0, 0]], image_size=(90, 90))
    assert moved.nodes[5].tolist() == [21, 60]
    assert moved.radius.tolist() == [2.0] * 6
    assert moved.axes[0].functions[0].samples == (8.0, 6.0, 4.0)
    assert moved.axes[0].nodes == (0, 1, 2)
    assert moved.image_size == (90, 90)
    for bad in (np.eye(2), [[1, 0, 0], [0, 1, math.nan]], [[1, 0, 0], [0, 1, 0], [0, 1, 1]]):
        with pytest.raises(SkeletonError, match="affine"):
            with_axes.transform(bad)


@pytest.mark.slow
@given(forests(min_nodes=1))
def test_nearest_agrees_with_brute_force(skeleton):
    points = np.asarray([(0, 0), (100, 30), (-5, 260)])
    index, distance = skeleton.nearest(points)
    table = np.linalg.norm(points[:, None] - skeleton.nodes[None], axis=2)
    assert np.allclose(distance, table.min(axis=1))
    assert np.allclose(table[range(3), index], distance)
