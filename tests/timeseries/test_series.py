"""Identities over time, on generated series and on cases that are small enough to check by hand."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime

import numpy as np
import pytest

from tests.timeseries.series_factory import comb, frames, line, score_of, series_of, without_ids
from treeformer import Series, Skeleton, TreeformerError
from treeformer.timeseries.baseline import nearest_tracks
from treeformer.timeseries.costs import MAX_COST, NEIGHBOR_DATES, assign, identity_costs, importance
from treeformer.timeseries.matching import Track, _Solver
from treeformer.timeseries.metrics import identity_score
from treeformer.timeseries.paths import arc_length, axis_paths, paths_of_lines
from treeformer.timeseries.rejoining import rejoin_tracks


@pytest.mark.parametrize(("preset", "seed"), [("plate", 0), ("taproot", 1), ("seedling", 105), ("several", 3)])
def test_axes_of_generated_series_keep_their_identity(preset, seed):
    dates = frames(preset, seed, 6)
    series = series_of(dates)
    assert score_of(series, dates).f1 >= 0.98
    plants = [
        (frame.skeleton.plant_records[plant].id, skeleton.plant_records[plant].id)
        for frame, skeleton in zip(dates, series.skeletons, strict=True)
        for plant in np.unique(frame.skeleton.plant_of_node).tolist()
    ]
    assert identity_score(plants).f1 == 1.0


@pytest.mark.slow
def test_the_baseline_makes_more_errors():
    dates = frames("taproot", 105, 8)
    series = series_of(dates)
    paths = [axis_paths(without_ids(frame.skeleton), 3.0)[0] for frame in dates]
    ids = nearest_tracks(paths, series.tolerance_px)
    observations = [
        (axis.id, str(ids[d][k])) for d, frame in enumerate(dates) for k, axis in enumerate(frame.skeleton.axes)
    ]
    assert identity_score(observations).errors > 2 * score_of(series, dates).errors


@pytest.mark.slow
def test_dates_may_be_out_of_order():
    dates = frames("several", 2, 5)
    pairs = [(frame.time, without_ids(frame.skeleton)) for frame in dates]
    in_order, reversed_ = Series(pairs), Series(pairs[::-1])
    assert np.array_equal(in_order.times, reversed_.times)
    assert in_order.skeletons == reversed_.skeletons


def test_ids_and_time_sequence():
    young, old = comb(60, [(20, 12)]), comb(100, [(20, 30), (50, 10)])
    series = Series([(0, young), (2, old)], label="plate 7")
    assert [[axis.id for axis in s.axes] for s in series.skeletons] == [["1.1", "1.1.1"], ["1.1", "1.1.1", "1.1.2"]]
    assert [s.metadata["rsml"]["time-sequence"]["index"] for s in series.skeletons] == [0, 1]
    assert series.skeletons[1].metadata["rsml"]["time-sequence"] == {"label": "plate 7", "index": 1, "unified": True}
    tracks = {track.id: track for track in series.tracks}
    assert list(tracks) == ["1.1", "1.1.1", "1.1.2"]
    assert tracks["1.1.1"].length.tolist() == pytest.approx([12, 30], rel=0.02)
    assert tracks["1.1.2"].dates.tolist() == [1]
    assert tracks["1.1.2"].parent == "1.1"
    assert tracks["1.1.2"].base_position == pytest.approx(50, abs=1)
    assert series.warnings == ()


def test_one_date():
    series = Series([(4.0, comb(60, [(20, 12)]))])
    assert repr(series) == "<Series: 1 dates, 1 plants, 2 axes>"
    assert series.registrations[0].method == "reference"
    assert [axis.id for axis in series.skeletons[0].axes] == ["1.1", "1.1.1"]


def test_a_missing_axis_comes_back():
    """A lateral that one date does not show keeps its identity, and so does one that only one date does not show."""
    full = [(20, 12.0), (40, 9.0), (60, 7.0)]
    grown = [[(at, length + 4 * k) for at, length in full] for k in range(5)]
    grown[2] = [grown[2][0], grown[2][2]]
    grown[4] = grown[4][1:]
    series = Series([(k, comb(90 + 8 * k, laterals)) for k, laterals in enumerate(grown)])
    seen = {track.id: track.dates.tolist() for track in series.tracks}
    assert seen == {"1.1": [0, 1, 2, 3, 4], "1.1.1": [0, 1, 2, 3], "1.1.2": [0, 1, 3, 4], "1.1.3": [0, 1, 2, 3, 4]}


def test_a_false_axis_gets_an_identity_of_its_own():
    series = Series([(0, comb(80, [(20, 12)])), (1, comb(90, [(20, 15), (60, 14)])), (2, comb(99, [(20, 20)]))])
    assert [track.dates.tolist() for track in series.tracks] == [[0, 1, 2], [0, 1, 2], [1]]


def test_a_stub_does_not_take_the_place_of_a_long_axis():
    """Both lie on the only template; the stub a little nearer."""
    stub_and_axis = np.array([[0.1], [0.3]])
    assert assign(stub_and_axis, 3.0) == [(0, 0)]
    assert assign(stub_and_axis, 3.0, importance(np.array([1.0, 9.0]))) == [(1, 0)]


def test_the_least_total_cost_with_weights_against_all_assignments():
    rng = np.random.default_rng(3)
    for _ in range(40):
        cost, weight = rng.uniform(0, 4, (3, 4)), rng.uniform(0.2, 3, 3)
        best = max(
            sum(max(3 - cost[i, j], 0) * weight[i] for i, j in enumerate(columns))
            for columns in itertools.permutations(range(4), 3)
        )
        pairs = assign(cost, 3.0, weight)
        assert sum((3 - cost[i, j]) * weight[i] for i, j in pairs) == pytest.approx(best)
        assert all(cost[i, j] < 3 for i, j in pairs)


def solver_of(skeletons, tolerance_px=6.0) -> _Solver:
    dates = [axis_paths(skeleton, 3.0)[0] for skeleton in skeletons]
    plants = [np.zeros(1, dtype=np.intp)] * len(dates)
    return _Solver(dates, plants, np.arange(float(len(dates))), len(dates) - 1, tolerance_px, 3.0)


def test_costs_of_observations_against_a_slow_reference():
    """The mean over the axes of a track at other dates."""
    solver = solver_of([comb(60 + 3 * k, [(20, 5 + 2 * k), (26, 16 - k)][: 1 + k % 3]) for k in range(12)])
    dates = solver.dates
    solver.solve()
    for now in (0, 5, 11):
        default = np.full((len(dates[now]), len(solver.tracks)), 7.0)
        costs = solver._costs_of_observations(now, default)
        for axis, (number, track) in itertools.product(range(len(dates[now])), enumerate(solver.tracks)):
            some = []
            for other, observed in track.observed.items():
                if other != now and abs(other - now) <= NEIGHBOR_DATES:
                    pair = sorted([(now, axis), (other, observed)])
                    some.append(min(slow_identity_cost(*((dates[d], k) for d, k in pair), 6.0), 2 * MAX_COST))
            assert costs[axis, number] == pytest.approx(np.mean(some) if some else 7.0)
    assert len([track for track in solver.tracks if track.observed]) == 3


def slow_identity_cost(earlier, later, tolerance_px: float) -> float:
    """The cost of two axes, given as (paths of a date, number), term by term."""
    (a, i), (b, j) = earlier, later
    shorter, longer = sorted([a.path(i), b.path(j)], key=lambda path: float(arc_length(path)[-1]))
    distance = [min(min(math.dist(p, q) for q in longer), 3 * tolerance_px) for p in shorter]
    whole, distal = np.mean(distance), np.mean(distance[len(distance) // 2 :])
    ahead = [k for k, place in enumerate(arc_length(longer)) if place <= arc_length(shorter)[-1] + 1e-6][-1]
    tip = min(min(math.dist(longer[ahead], p) for p in shorter), 3 * tolerance_px)
    lines = [path[-1] - path[0] for path in (a.path(i), b.path(j))]
    turn = 0.5 - 0.5 * float(np.dot(*lines)) / math.hypot(*lines[0]) / math.hypot(*lines[1])
    shrunk = (a.length[i] - 1.1 * b.length[j]) / tolerance_px - 0.5
    is_main = (a.parent[i] < 0) != (b.parent[j] < 0)
    path = 0.5 * whole + 1.2 * distal + 0.15 * tip
    return float(path / tolerance_px + 1.4 * turn + 0.37 * min(max(shrunk, 0.0), 6.0) + 0.4 * is_main)


def test_the_base_of_an_axis_does_not_decide():
    """A lateral that begins at a wrong place is the one on which its second half lies."""
    true, other = [(0, 0), (20, 0), (60, 0)], [(0, 14), (20, 14), (60, 14)]
    wrong_base = [(0, 10), (6, 4), (12, 0), (50, 0)]
    before = paths_of_lines([np.array(wrong_base, dtype=float)], np.array([-1]), np.array([0]))
    after = paths_of_lines([np.array(some, dtype=float) for some in (true, other)], np.full(2, -1), np.zeros(2, int))
    before, after = (one.moved(one.points) for one in (before, after))
    cost = identity_costs(before, after, 7.0)[0]
    assert cost[0] < cost[1]


def test_identities_exchanged_from_one_date_on_are_joined_again():
    solver = solver_of([comb(60 + 9 * k, [(20, 8 + 3 * k), (29, 8 + 3 * k)]) for k in range(6)])
    solver.solve()
    expected = [assigned.tolist() for assigned in solver.assigned]
    main, upper, lower = expected[0]
    for day in range(3):
        solver.observe(day, 1, lower)
        solver.observe(day, 2, upper)
    rejoin_tracks(solver)
    # One of the two tracks has all dates of each lateral; which of them does not matter.
    assert [assigned.tolist() for assigned in solver.assigned] == [[main, lower, upper]] * 6
    for number, track in enumerate(solver.tracks):
        assert all(solver.assigned[day][axis] == number for day, axis in track.observed.items())


def test_a_track_with_a_long_gap_is_not_overwritten():
    """A track that is seen again only after many dates keeps its axes if its first part is joined with another."""
    laterals = [[(20, 10.0)] if k in (0, 29) else [(20, 10 + 0.1 * k)] for k in range(30)]
    solver = solver_of([comb(60 + k, some) for k, some in enumerate(laterals)])
    solver.solve()
    (track,) = {int(assigned[1]) for assigned in solver.assigned}
    solver.tracks.append(Track())
    for day in range(1, 29):
        del solver.tracks[track].observed[day]
        solver.observe(day, 1, len(solver.tracks) - 1)
    rejoin_tracks(solver)
    for day, assigned in enumerate(solver.assigned):
        assert len(set(assigned.tolist())) == 2
        for axis, number in enumerate(assigned.tolist()):
            assert solver.tracks[number].observed[day] == axis
    assert len({int(assigned[1]) for assigned in solver.assigned[:29]}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("dates", [200, pytest.param(500, marks=pytest.mark.long)])
def test_hundreds_of_dates(dates):
    lengths = [(5 + 0.1 * k, max(0.1 * k - 10, 0)) for k in range(dates)]
    series = Series([(k, comb(30 + 0.4 * k, [(20, first), (60, second)])) for k, (first, second) in enumerate(lengths)])
    assert len(series) == dates
    assert [len(track.dates) for track in series.tracks] == [dates, dates, dates - 101]
    assert all(registration.succeeded for registration in series.registrations)


def test_a_repeated_frame_and_missing_dates():
    """The plate moves between the dates. Date 3 repeats date 2, and four days are missing after it."""
    grown = [comb(40 + 12 * k, [(20, 6 + 3 * k), (35, 4 * k)]) for k in (0, 1, 2, 2, 7, 8)]
    moved = [s.transform([[1, 0, 5 * k], [0, 1, -3 * k]], image_size=(300, 300)) for k, s in enumerate(grown)]
    series = Series(zip((0, 1, 2, 3, 7, 8), moved, strict=True))
    assert [track.dates.tolist() for track in series.tracks] == [list(range(6)), list(range(6)), [1, 2, 3, 4, 5]]
    assert series.tracks[0].length.tolist() == pytest.approx([40, 52, 64, 64, 124, 136], rel=0.02)
    assert series.warnings == ()


def test_a_plant_that_dies():
    both = [(k, two_plants(50 + 9 * k, 40 + 9 * k)) for k in range(3)]
    series = Series([*both, (3, two_plants(80, None)), (4, two_plants(90, None))])
    left, right = series.tracks
    assert (left.dates.tolist(), right.dates.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 2])
    assert {plant.id for plant in series.skeletons[4].plant_records} == {left.plant}


def two_plants(left: float, right: float | None, *, joined: bool = False) -> Skeleton:
    nodes = [(60.0, 20.0), (60.0, 20.0 + left)]
    edges, roots = [(0, 1)], [0]
    if right is not None:
        nodes += [(110.0, 20.0), (110.0, 20.0 + right)]
        edges.append((2, 3))
        roots.append(2)
        if joined:
            edges.append((1, 3))
            roots = [0]
    return Skeleton(nodes, edges, root=roots, image_size=(200, 200))


def test_two_plants_that_touch():
    """At the last date the tips touch, and the skeleton is one tree: both plants keep their main axis before."""
    apart = [two_plants(40 + 10 * k, 40 + 10 * k) for k in range(4)]
    series = Series([*enumerate(apart), (4, two_plants(85, 85, joined=True))])
    assert [[axis.id for axis in skeleton.axes] for skeleton in series.skeletons[:4]] == [["1.1", "2.1"]] * 4
    assert series.skeletons[4].axes[0].id == "1.1"


def test_an_empty_image():
    series = Series([(0, comb(50, [])), (1, Skeleton([], [], image_name="b.png")), (2, comb(70, []))])
    assert [len(skeleton.axes) for skeleton in series.skeletons] == [1, 0, 1]
    assert series.tracks[0].dates.tolist() == [0, 2]
    assert series.warnings == ("b.png: no plant at time 1",)


def test_only_empty_images():
    series = Series([(0, Skeleton([], [])), (1, Skeleton([], []))])
    assert series.tracks == ()
    assert len(series.warnings) == 2


@pytest.mark.slow
def test_a_date_that_cannot_be_registered_is_named():
    rng = np.random.default_rng(0)
    noise = Skeleton(rng.uniform(0, 290, (40, 2)), [(k, k + 1) for k in range(39)], root=0, image_size=(300, 300))
    series = Series([(0, comb(60, [(20, 12)])), (1, noise), (2, comb(90, [(20, 20)]))])
    assert any("date 1: could not be registered" in warning for warning in series.warnings)


def test_an_image_of_another_size_is_named_and_does_not_change_the_tolerance():
    """The first image was scanned at twice the resolution."""
    dates = [comb(60 + 30 * k, [(20, 12 + 9 * k), (45, 20 + 5 * k)]) for k in range(4)]
    double = dates[0].transform([[2, 0, 0], [0, 2, 0]], image_size=(600, 600))
    series = Series(enumerate([double, *dates[1:]]))
    assert series.tolerance_px == pytest.approx(0.015 * 300)
    line = "date 0: its image is 600 px long, that of the reference date 300 px; scale it like that"
    assert series.warnings[0] == line
    assert not any("px long" in warning for warning in series.warnings[1:])


def test_an_axis_that_shrinks_is_named():
    series = Series([(0, line((50, 10), (50, 60))), (1, line((50, 10), (50, 110))), (2, line((50, 10), (50, 80)))])
    assert series.tracks[0].monotone_length.tolist() == pytest.approx([50, 85, 85], rel=0.005)
    assert len(series.warnings) == 1
    assert "axis 1.1: becomes 30 px shorter at time 2 (1 of 2 intervals)" in series.warnings[0]


def test_dates_become_days():
    skeletons = [line((50, 10), (50, 60 + k)) for k in range(3)]
    days = Series(zip((date(2026, 3, 1), date(2026, 3, 3), date(2026, 3, 2)), skeletons, strict=True))
    assert days.times.tolist() == [0, 1, 2]
    hours = Series(
        zip((datetime(2026, 3, 1, 0), datetime(2026, 3, 1, 12), datetime(2026, 3, 2, 0)), skeletons, strict=True)
    )
    assert hours.times.tolist() == [0, 0.5, 1]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "at least one date"),
        ([(1, line((0, 0), (0, 9))), (1, line((0, 0), (0, 9)))], "have the time 1"),
        ([(float("nan"), line((0, 0), (0, 9)))], "not a finite number"),
        ([("today", line((0, 0), (0, 9)))], "must be numbers or dates"),
        ([(1, line((0, 0), (0, 9))), (date(2026, 1, 1), line((0, 0), (0, 9)))], "all numbers or all dates"),
        ([line((0, 0), (0, 9))], "item 0 of the series is not a (time, Skeleton) pair"),
        (
            [
                (datetime(2026, 1, 1, tzinfo=UTC), line((0, 0), (0, 9))),
                (datetime(2026, 1, 2), line((0, 0), (0, 9))),
            ],
            "time zone",
        ),
    ],
)
def test_mistakes_are_one_line(pairs, message):
    with pytest.raises(TreeformerError) as error:
        Series(pairs)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_cycle_and_a_bad_tolerance_are_errors():
    ring = Skeleton([(0, 0), (9, 0), (9, 9)], [(0, 1), (1, 2), (2, 0)])
    with pytest.raises(TreeformerError, match="cycle"):
        Series([(0, ring)])
    with pytest.raises(TreeformerError, match="tolerance_px"):
        Series([(0, line((0, 0), (0, 9)))], tolerance_px=0)


def two_roots(left: float, right: float, joined: bool = False) -> Skeleton:
    """Two straight roots, or one tree in which their tips are joined."""
    nodes = [(60, 20), (60, 20 + left), (160, 20), (160, 20 + right)]
    edges = [(0, 1), (2, 3)]
    return Skeleton(nodes, [*edges, (1, 3)] if joined else edges, root=[0] if joined else [0, 2], image_size=(300, 300))


def test_plants_that_become_one_tree_are_a_warning():
    lengths = [(60 + 10 * k, 50 + 8 * k) for k in range(6)]
    merging = Series([(k, two_roots(*pair, joined=k >= 4)) for k, pair in enumerate(lengths)], register=False)
    assert merging.warnings == ("plant 2: ends at time 4; it may have become a part of plant 1",)
    left = [line((60, 20), (60, 20 + length)).replace(image_size=(300, 300)) for length, _ in lengths]
    growing = [two_roots(*pair) if k < 4 else left[k] for k, pair in enumerate(lengths)]
    assert Series(enumerate(growing), register=False).warnings == ()


def rows_of_roots(*roots: tuple[float, float]) -> Skeleton:
    """Straight roots, given as (x, length)."""
    nodes = [point for x, length in roots for point in ((x, 100.0), (x, 100.0 + length))]
    edges = [(2 * k, 2 * k + 1) for k in range(len(roots))]
    return Skeleton(nodes, edges, root=[first for first, _ in edges], image_size=(1000, 1000))


@pytest.mark.parametrize("gap", [40, 100])
def test_a_plant_that_ends_is_not_taken_for_a_neighbor_that_appears(gap):
    """The tolerance is 15 px, and the plate does not move."""
    before = [rows_of_roots((300, 100 + 50 * k), (800, 80 + 60 * k)) for k in range(3)]
    after = [rows_of_roots((300 + gap, 60 + 50 * k), (800, 260 + 60 * k)) for k in range(3)]
    series = Series(enumerate([*before, *after]), register=False)
    assert sorted(track.dates.tolist() for track in series.tracks) == [[0, 1, 2], [0, 1, 2, 3, 4, 5], [3, 4, 5]]


@pytest.mark.parametrize("shift", [40, 100])
def test_a_plant_that_moves_on_its_plate_keeps_its_identity(shift):
    dates = [rows_of_roots((300 + shift * (k > 2), 100 + 50 * k), (800, 80 + 60 * k)) for k in range(6)]
    assert [track.dates.tolist() for track in Series(enumerate(dates)).tracks] == [[0, 1, 2, 3, 4, 5]] * 2


def test_the_lateral_of_a_plant_that_ends_is_not_continued_by_a_neighbor():
    """The lateral of the right plant lies near the end of a lateral that the left plant makes later."""

    def date(k: int) -> Skeleton:
        left, right = 200.0, 300.0
        nodes = [(left, 100.0), (left, 262.0), (left, 400.0 + 20 * k)]
        edges, roots = [(0, 1), (1, 2)], [0]
        if k < 3:
            nodes += [(right, 100.0), (right, 250.0), (right, 400.0 + 20 * k), (right + 45, 250.0)]
            edges += [(3, 4), (4, 5), (4, 6)]
            roots.append(3)
        else:
            nodes.append((right + 45, 262.0))
            edges.append((1, 3))
        return Skeleton(nodes, edges, root=roots, image_size=(1000, 1000))

    series = Series([(k, date(k)) for k in range(6)], register=False)
    assert [(track.id, track.dates.tolist()) for track in series.tracks] == [
        ("1.1", [0, 1, 2, 3, 4, 5]),
        ("1.1.1", [3, 4, 5]),
        ("2.1", [0, 1, 2]),
        ("2.1.1", [0, 1, 2]),
    ]
