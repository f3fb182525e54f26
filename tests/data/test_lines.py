"""Annotated lines become a forest that covers each root once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from treeformer import Axis, Skeleton
from treeformer.data.prepare.barley_roots import bending, find_false_traces, join_bases
from treeformer.data.prepare.lines import (
    LOOSEST_OVERLAP_PX,
    Line,
    lines_of,
    merge_overlaps,
    skeleton_of,
    snap,
    too_short,
    without,
)

EMPTY = Skeleton([], [])


def line(points, parent: int | None = None, plant: int = 0, **record) -> Line:
    return Line(np.asarray(points, dtype=float), parent, plant, Axis(nodes=(), **record))


def every_pixel(points: np.ndarray) -> np.ndarray:
    """Return places along a line, about one pixel apart."""
    places = [points[0]]
    for start, end in itertools.pairwise(points):
        steps = max(1, int(np.ceil(np.linalg.norm(end - start))))
        places += [start + (end - start) * k / steps for k in range(1, steps + 1)]
    return np.asarray(places)


def distance_to(skeleton: Skeleton, places: np.ndarray) -> np.ndarray:
    best = np.full(len(places), np.inf)
    for u, v in skeleton.edges:
        a, b = skeleton.nodes[u], skeleton.nodes[v]
        t = np.clip((places - a) @ (b - a) / max((b - a) @ (b - a), 1e-12), 0, 1)
        best = np.minimum(best, np.linalg.norm(places - a - t[:, None] * (b - a), axis=1))
    return best


def test_lines_and_back() -> None:
    """Parents come first, and the properties of axes and plants are kept."""
    skeleton = Skeleton(
        [(0, 0), (0, 10), (0, 20), (8, 10)],
        [(0, 1), (1, 2), (1, 3)],
        root=0,
        axes=[Axis((1, 3), parent=1, id="lateral", metadata={"spline": "old"}), Axis((0, 1, 2), label="tap")],
        edge_axis=[1, 1, 0],
        plant=[0, 0, 0, 0],
    )
    lines = lines_of(skeleton)
    assert [(item.record.label, item.parent) for item in lines] == [("tap", None), ("", 0)]
    joined = skeleton_of(lines, skeleton)
    assert joined.is_tree
    assert joined.length == skeleton.length
    assert [axis.id for axis in joined.axes] == ["", "lateral"]
    assert joined.axes[1].metadata == {}  # it refers to the old scale


def test_a_lateral_next_to_its_parent_is_snapped_to_it() -> None:
    parent, off = line([(0, 0), (0, 100)]), line([(3, 40), (20, 45)], parent=0)
    (trunk, lateral), distances = snap([parent, off])
    assert distances.tolist() == [3.0]
    assert trunk.points.tolist() == [[0, 0], [0, 40], [0, 100]]
    assert lateral.points.tolist() == [[0, 40], [20, 45]]
    skeleton = skeleton_of([trunk, lateral], EMPTY)
    assert skeleton.is_tree
    assert len(skeleton) == 4
    assert sorted(skeleton.degree.tolist()) == [1, 1, 1, 3]


def test_a_lateral_far_from_its_parent_keeps_its_first_point() -> None:
    (_, lateral), distances = snap([line([(0, 0), (0, 100)]), line([(30, 40), (50, 45)], parent=0)])
    assert distances.tolist() == [30.0]
    assert lateral.points.tolist() == [[0, 40], [30, 40], [50, 45]]


def test_junctions_within_a_pixel_are_merged() -> None:
    lines = [
        line([(0, 0), (0, 100)]),
        line([(2, 40), (20, 45)], parent=0),
        line([(-2, 40.8), (-20, 45)], parent=0),
        line([(2, 0.5), (20, 3)], parent=0),  # at the base
        line([(-2, 60), (-20, 70)], parent=0),
    ]
    snapped, _ = snap(lines)
    assert snapped[0].points.tolist() == [[0, 0], [0, 40], [0, 60], [0, 100]]
    assert snapped[2].points[0].tolist() == [0, 40]
    assert snapped[3].points[0].tolist() == [0, 0]
    assert skeleton_of(snapped, EMPTY).edge_length.min() > 1


def test_laterals_of_laterals_follow_their_parent() -> None:
    lines = [line([(0, 0), (0, 100)]), line([(4, 40), (44, 40)], parent=0), line([(20, 43), (20, 60)], parent=1)]
    skeleton = skeleton_of(snap(lines)[0], EMPTY)
    assert skeleton.is_tree
    assert skeleton.length == pytest.approx(100 + 44 + 20)


def test_overlapping_roots_are_merged() -> None:
    """Two roots overlap for 40 px, then separate: the result is a Y, not two lines side by side."""
    lines = [line([(50, 0), (50, 40), (30, 90)]), line([(50, 0), (51, 40), (70, 80)])]
    merged, overlaps = merge_overlaps(lines)
    skeleton = skeleton_of(snap(merged)[0], EMPTY)
    assert skeleton.is_tree
    assert sorted(skeleton.degree[skeleton.degree != 2].tolist()) == [1, 1, 1, 3]
    junction = skeleton.nodes[skeleton.degree == 3][0]
    assert 38 <= junction[1] <= 46
    assert overlaps.vanished == 0
    assert overlaps.merged_px == pytest.approx(42, abs=4)
    assert merged[1].parent == 0  # it has become a lateral


def test_imprecise_overlaps_are_merged() -> None:
    wobbly = line([(50, 0), (53, 10), (50, 20), (50, 60), (80, 90)])
    merged, overlaps = merge_overlaps([line([(50, 0), (50, 150)]), wobbly])
    assert overlaps.merged_px > 55
    assert merged[1].points[0][1] > 55


def test_a_root_that_joins_another_ends_there() -> None:
    lines = [
        line([(0, 0), (0, 200)]),
        line([(0, 20), (50, 60), (150, 60)], parent=0),
        line([(0, 60), (60, 61), (140, 61)], parent=0),
    ]
    merged, overlaps = merge_overlaps(lines)
    assert overlaps.merged_px == pytest.approx(90, abs=8)
    assert len(merged) == 3
    assert 40 <= merged[2].points[-1][0] <= 55
    assert skeleton_of(snap(merged)[0], EMPTY).is_tree


def test_a_root_drawn_twice_is_kept_once() -> None:
    lines = [line([(0, 0), (0, 100)]), line([(0, 0), (1, 80)]), line([(1, 50), (40, 60)], parent=1)]
    merged, overlaps = merge_overlaps(lines)
    assert overlaps.vanished == 1
    assert [item.parent for item in merged] == [None, 0]  # the lateral of the second is attached to the first
    assert skeleton_of(snap(merged)[0], EMPTY).is_tree


def test_short_laterals_crossings_and_other_plants_are_not_merged() -> None:
    lines = [
        line([(0, 0), (0, 100)]),
        line([(0, 50), (4, 50)], parent=0),  # a lateral of 4 px
        line([(0, 10), (60, 70)], parent=0),
        line([(0, 70), (60, 10)], parent=0),  # crosses the previous line
        line([(30, 0), (30, 90)], plant=1),
        line([(31, 0), (31, 90)], plant=2),  # next to it, but another plant
    ]
    merged, overlaps = merge_overlaps(lines)
    assert overlaps.merged_px == 0
    assert overlaps.vanished == 0
    assert sum(item.length for item in merged) == pytest.approx(sum(item.length for item in lines))


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 9))
def test_random_lines_become_a_forest_that_covers_them(seed: int, count: int) -> None:
    """The result has one tree per plant, is not longer than the lines, and is close to all of them."""
    rng = np.random.default_rng(seed)
    lines: list[Line] = []
    for index in range(count):
        plant = int(rng.integers(0, 2))
        seed_point = np.array([60.0 + 80 * plant, 5.0])
        earlier = [k for k, item in enumerate(lines) if item.plant == plant]
        parent = int(rng.choice(earlier)) if earlier and rng.random() < 0.6 else None
        if earlier and rng.random() < 0.5:  # trace an earlier line imprecisely, then leave it
            over = lines[int(rng.choice(earlier))].points
            steps = np.concatenate([over[: rng.integers(2, len(over) + 1)], rng.uniform(0, 200, (1, 2))])
            steps = steps + rng.normal(0, 1.0, steps.shape)
        else:
            steps = np.cumsum(rng.normal((0, 14), 12, (int(rng.integers(2, 8)), 2)), axis=0) + seed_point
        if parent is not None:
            steps[0] = lines[parent].points[rng.integers(len(lines[parent].points))] + rng.normal(0, 1, 2)
        else:
            steps[0] = seed_point
        lines.append(line(steps, parent, plant, id=str(index)))
    merged, overlaps = merge_overlaps(lines)
    snapped, _ = snap(merged)
    skeleton = skeleton_of(without(snapped, too_short(snapped)), EMPTY)
    assert skeleton.is_forest
    assert len(skeleton.component_root) == len({item.plant for item in lines})
    drawn_px = sum(item.length for item in lines)
    # Snapping may add a short edge to each line.
    assert skeleton.length <= drawn_px - overlaps.merged_px + 2 * LOOSEST_OVERLAP_PX * count + 1e-6
    for item in lines:
        assert distance_to(skeleton, every_pixel(item.points)).max() < 2 * LOOSEST_OVERLAP_PX


def test_removing_a_line_removes_its_laterals() -> None:
    lines = [line([(0, 0), (0, 9)]), line([(0, 5), (5, 5)], 0), line([(3, 5), (3, 9)], 1), line([(0, 2), (5, 2)], 0)]
    assert [item.parent for item in without(lines, {1})] == [None, 0]
    assert too_short([line([(0, 0), (0, 0.5)]), line([(0, 0), (0, 9)], 0), line([(0, 3), (0.3, 3)], 1)]) == {2}


def test_a_tip_belongs_to_the_plant_whose_root_bends_least() -> None:
    """Two roots cross. Each tip is traced from both seeds; the false traces turn at the crossing."""
    crossing, left, right = (50, 50), (20, 0), (80, 0)
    lines = [
        line([left, crossing, (80, 100)], plant=0),
        line([left, crossing, (20, 100)], plant=0),
        line([right, crossing, (20, 100)], plant=1),
        line([right, crossing, (80, 100)], plant=1),
        line([right, (90, 100)], plant=1),
    ]
    assert find_false_traces(lines) == {1, 3}
    assert bending(np.array([(0, 0), (0, 5), (0, 5), (5, 5), (5, 0)], dtype=float)) == pytest.approx(np.pi)


def test_two_sides_of_a_seed_become_one_base() -> None:
    main = [line([(100, 50), (90, 120)]), line([(100, 50), (100, 130)])]
    near = line([(100.5, 50), (130, 120)])
    parallel = [line([(110, 55), (140, 100)]), line([(110, 55), (150, 90)])]
    far = line([(160, 50), (160, 120)])
    lines, joined = join_bases([*main, near, *parallel, far])
    assert joined == 3
    skeleton = skeleton_of(lines, EMPTY)
    assert skeleton.is_forest
    assert len(skeleton.component_root) == 2  # the distant root stays separate
    assert [item.points[0].tolist() for item in lines] == [[100, 50]] * 4 + [[110, 55], [160, 50]]
    assert lines[4].parent == 3
