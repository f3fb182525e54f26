"""Traits of axes and segments: on small skeletons, and compared with slow reference implementations."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from tests.strategies import examples
from tests.traits.figures import forests, row
from treeformer import Axis, Skeleton
from treeformer.traits import measure


def test_a_bent_axis(bent: Skeleton) -> None:
    (axis,) = measure(bent, level="axis").to_dict("records")
    chord = math.hypot(5, 10)
    assert axis["length"] == 19.0
    assert axis["chord_length"] == pytest.approx(chord)
    assert axis["emergence_angle"] == pytest.approx(math.degrees(math.atan(3 / 4)))
    assert axis["tip_angle"] == 90.0
    assert axis["chord_angle"] == pytest.approx(math.degrees(math.atan(5 / 10)))
    assert axis["curve_index"] == pytest.approx((19 - chord) / 19)
    assert axis["tortuosity"] == pytest.approx(19 / chord)
    assert math.isnan(axis["branching_angle"])


def test_axes_of_a_y(y_shape: Skeleton) -> None:
    table = measure(y_shape, level="axis")
    assert table["order"].tolist() == [0, 1]
    assert table["parent_axis"].tolist() == [-1, 0]
    assert table["length"].tolist() == [9.0, 5.0]
    assert table["lateral_count"].tolist() == [1, 0]
    up_and_right = math.degrees(math.atan2(3, -4))
    assert table["emergence_angle"].tolist() == pytest.approx([180.0, up_and_right])
    assert table["tip_angle"].tolist() == pytest.approx([up_and_right, up_and_right])
    # The parent leads from (5, 9) through the branch point to (2, 1), the lateral from there by (3, -4).
    between = math.degrees(math.acos((3 * -3 + 4 * 8) / (5 * math.hypot(3, 8))))
    assert table["branching_angle"][1] == pytest.approx(between)


def test_a_lateral_off_its_parents_line(off_the_line: Skeleton) -> None:
    table = measure(off_the_line, level="axis")
    assert table["length"].tolist() == [10.0, 4.0]  # along the points of the file, without the 1 px to the junction
    assert table["branching_angle"][1] == 90.0
    assert table[["axis_id", "axis_label", "plant_id", "plant_label"]].values.tolist() == [
        ["main", "tap", "p7", "seventh"],
        ["side", "", "p7", "seventh"],
    ]
    found = row(off_the_line)
    assert (found["total_length"], found["primary_length"] + found["lateral_length"]) == (15.0, 14.0)


@pytest.mark.parametrize(("base", "edge", "expected"), [(0, (0, 2), 90.0), (1, (1, 2), 135.0)])
def test_a_lateral_at_either_end_of_its_parent(base: int, edge: tuple[int, int], expected: float) -> None:
    axes = [Axis(nodes=(0, 1)), Axis(nodes=(base, 2), parent=0)]
    skeleton = Skeleton([(0, 0), (0, 5), (5, 0)], [(0, 1), edge], root=0, axes=axes, edge_axis=[0, 1])
    assert measure(skeleton, level="axis")["branching_angle"][1] == pytest.approx(expected)


def test_a_straight_axis_is_straight_despite_rounding() -> None:
    for across in range(10):
        points = [(0.1 * across * k, 0.3 * k) for k in range(10)]
        line = Skeleton(points, [(k, k + 1) for k in range(9)], root=0)
        (axis,) = measure(line, level="axis").to_dict("records")
        assert 0 <= axis["curve_index"] < 1e-12
        assert axis["tortuosity"] >= 1


def test_an_axis_with_repeated_points() -> None:
    repeated = Skeleton([(0, 0), (0, 0), (4, 0), (4, 3), (4, 3)], [(0, 1), (1, 2), (2, 3), (3, 4)], root=0)
    (axis,) = measure(repeated, level="axis").to_dict("records")
    assert (axis["emergence_angle"], axis["tip_angle"], axis["length"]) == (90.0, 0.0, 7.0)


def test_segments_of_the_comb(comb: Skeleton) -> None:
    table = measure(comb, level="segment")
    assert sorted(zip(table["start_node"], table["end_node"], strict=True)) == sorted(
        [(0, 1), (1, 2), (2, 3), (3, 4), (1, 5), (2, 6), (3, 7)]
    )
    assert table["length"].tolist() == [10.0] * 7
    by_end = table.set_index("end_node")
    assert by_end["order"].sort_index().tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert by_end["external"].sort_index().tolist() == [False, False, False, True, True, True, True]
    assert by_end["chord_angle"].sort_index().tolist() == [0.0] * 4 + [90.0] * 3


def test_a_segment_ends_where_one_axis_passes_into_another() -> None:
    axes = [Axis(nodes=(0, 1)), Axis(nodes=(1, 2), parent=0)]
    relay = Skeleton([(0, 0), (0, 5), (0, 9)], [(0, 1), (1, 2)], root=0, axes=axes, edge_axis=[0, 1])
    table = measure(relay, level="segment")
    assert table[["axis", "order", "length"]].values.tolist() == [[0, 0, 5.0], [1, 1, 4.0]]
    assert table["external"].tolist() == [False, True]


def test_a_segment_follows_its_points(bent: Skeleton) -> None:
    (segment,) = measure(bent, level="segment").to_dict("records")
    assert (segment["start_node"], segment["end_node"], segment["length"]) == (0, 3, 19.0)
    assert segment["tortuosity"] == pytest.approx(19 / math.hypot(5, 10))


def slow_angle(vector: np.ndarray, other: np.ndarray) -> float:
    cosine = float(vector @ other) / (math.hypot(*vector) * math.hypot(*other))
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(30))
@given(forests)
def test_axes_against_slow_reference(forest: Skeleton) -> None:
    down = np.array([0.0, 1.0])
    for found, axis in zip(measure(forest, level="axis").to_dict("records"), forest.axes, strict=True):
        points = forest.nodes[list(axis.nodes)]
        length = sum(math.dist(a, b) for a, b in pairwise(points))
        assert found["length"] == pytest.approx(length)
        assert found["emergence_angle"] == pytest.approx(slow_angle(points[1] - points[0], down), abs=1e-5)
        assert found["tip_angle"] == pytest.approx(slow_angle(points[-1] - points[-2], down), abs=1e-5)
        assert found["chord_angle"] == pytest.approx(slow_angle(points[-1] - points[0], down), abs=1e-5)
        assert found["curve_index"] == pytest.approx(1 - math.dist(points[0], points[-1]) / length, abs=1e-9)
        if axis.parent is not None:
            parent = forest.axes[axis.parent].nodes
            at = parent.index(axis.nodes[0])
            direction = forest.nodes[parent[min(at + 1, len(parent) - 1)]] - forest.nodes[parent[max(at - 1, 0)]]
            assert found["branching_angle"] == pytest.approx(slow_angle(points[1] - points[0], direction), abs=1e-5)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(30))
@given(forests)
def test_segments_add_up_to_the_plants(forest: Skeleton) -> None:
    segments, plants = measure(forest, level="segment"), measure(forest).set_index("plant")
    by_plant = segments.groupby("plant")
    grown = plants["total_length"] > 0
    assert by_plant["length"].sum().tolist() == pytest.approx(plants.loc[grown, "total_length"].tolist())
    assert by_plant["external"].sum().tolist() == plants.loc[grown, "tip_count"].tolist()
