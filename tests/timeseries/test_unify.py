"""One plant model of a series: what it corrects, and what it must not change."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.timeseries.series_factory import comb, frames, without_ids
from treeformer import Series, Skeleton
from treeformer.skeleton.provenance import is_uncorrected
from treeformer.timeseries.paths import arc_length
from treeformer.timeseries.plant_model import DateAxis, axes_along, best_growth, build_model

TOLERANCE = 4.5


def predicted(skeleton: Skeleton) -> Skeleton:
    """Give a skeleton the scores and radii of a prediction."""
    return skeleton.replace(
        node_score=np.full(len(skeleton), 0.9),
        edge_score=np.full(len(skeleton.edges), 0.8),
        radius=np.full(len(skeleton), 1.5),
    )


def grown(date: int) -> list[tuple[float, float]]:
    return [(20, 14.0 + 4 * date), (45, 6.0 + 4 * date), (70, 5.0 + 3 * date)]


def series_of(skeletons, *, unify: bool = True) -> Series:
    return Series(enumerate(skeletons), tolerance_px=TOLERANCE, register=False, unify=unify)


def ids_of(series: Series) -> list[list[str]]:
    return [sorted(axis.id for axis in skeleton.axes) for skeleton in series.skeletons]


def assert_valid(series: Series) -> None:
    for date, skeleton in enumerate(series.skeletons):
        assert skeleton.is_forest
        assert len({axis.id for axis in skeleton.axes}) == len(skeleton.axes)
        for axis in skeleton.axes:
            assert all(np.isin(pair, skeleton.edges).all() for pair in itertools.pairwise(axis.nodes))
            if axis.parent is not None:
                assert axis.nodes[0] in skeleton.axes[axis.parent].nodes
        for track in series.tracks:
            assert (date in track.dates) == any(axis.id == track.id for axis in skeleton.axes)


def test_a_missing_axis_is_filled_in_and_a_false_one_is_left_out():
    dates = [grown(k) for k in range(6)]
    del dates[3][1]
    dates[2].append((60, 12.0))
    series = series_of([predicted(comb(90 + 5 * k, some)) for k, some in enumerate(dates)])
    assert_valid(series)
    assert ids_of(series) == [["1.1", "1.1.1", "1.1.2", "1.1.3"]] * 6
    filled = series.skeletons[3]
    (axis,) = (axis for axis in filled.axes if axis.id == "1.1.2")
    assert 14 - TOLERANCE <= arc_length(filled.nodes[list(axis.nodes)])[-1] <= 22 + TOLERANCE
    assert filled.node_score[axis.nodes[-1]] == 0  # this date does not show it
    assert filled.node_score[filled.axes[0].nodes[-1]] == pytest.approx(0.9)
    assert filled.radius[filled.axes[0].nodes[-1]] == pytest.approx(1.5)


def test_a_wrong_arm_at_one_date_is_corrected():
    """At one date, the main axis turns into its lateral, and what follows of it is the lateral."""
    dates = [predicted(comb(90 + 5 * k, [(50, 20.0 + 4 * k)])) for k in range(5)]
    good = dates[2]
    stem, fork, tip, side = good.axes[0].nodes[0], *good.axes[0].nodes[1:], good.axes[1].nodes[1]
    axes = [(stem, fork, side), (fork, tip)]
    rank = {frozenset(pair): k for k, nodes in enumerate(axes) for pair in itertools.pairwise(nodes)}
    dates[2] = good.replace(
        axes=[type(good.axes[0])(axes[0]), type(good.axes[0])(axes[1], parent=0)],
        edge_axis=[rank[frozenset(pair)] for pair in good.edges.tolist()],
    )
    series = series_of(dates)
    assert_valid(series)
    lengths = [arc_length(s.nodes[list(s.axes[0].nodes)])[-1] for s in series.skeletons]
    assert lengths == pytest.approx([90, 95, 100, 105, 110], abs=3)
    raw = series_of(dates, unify=False)
    assert raw.skeletons[2].axes[0].nodes == axes[0]


def test_every_axis_is_a_part_of_one_path_and_never_shrinks():
    dates = frames("taproot", 4, 6, shift=0.0, rotation=0.0, scale=0.0)
    rng = np.random.default_rng(0)
    moved = [without_ids(f.skeleton).replace(nodes=f.skeleton.nodes + rng.normal(0, 0.5, f.skeleton.nodes.shape))
             for f in dates]  # fmt: skip
    axes = [[DateAxis(s.nodes[list(a.nodes)], 0, a.parent is None) for a in s.axes] for s in moved]
    model = build_model(axes, np.ones(6), 7.0)
    assert len(model) >= 4
    for index, axis in enumerate(model):
        assert axis.parent < index
        seen = axis.length[~np.isnan(axis.length)]
        assert (np.diff(seen) >= 0).all()
        assert not np.isnan(axis.length[int(np.argmax(~np.isnan(axis.length))) :]).any()
        assert seen[-1] <= arc_length(axis.line)[-1] + 1e-6
        if axis.parent >= 0:
            here = ~np.isnan(axis.length)
            assert (model[axis.parent].length[here] >= axis.place - 1e-6).all()


def test_a_corrected_date_is_not_changed_and_decides():
    """The corrected date has a lateral less than the predictions, and another place of one."""
    dates = [predicted(comb(90 + 5 * k, grown(k))) for k in range(5)]
    corrected = comb(100, [(20, 22.0), (45, 14.0)])
    series = series_of([*dates[:2], corrected, *dates[3:]])
    assert_valid(series)
    after = series.skeletons[2]
    assert np.array_equal(after.nodes, corrected.nodes)
    assert np.array_equal(after.edges, corrected.edges)
    assert [axis.nodes for axis in after.axes] == [axis.nodes for axis in corrected.axes]
    assert [axis.id for axis in after.axes] == ["1.1", "1.1.1", "1.1.2"]
    saved = predicted(comb(100, grown(2))).replace(metadata={"editor": {"accepted": True}})
    assert not is_uncorrected(saved)
    again = series_of([*dates[:2], saved, *dates[3:]])
    assert np.array_equal(again.skeletons[2].nodes, saved.nodes)
    assert np.array_equal(again.skeletons[2].node_score, saved.node_score)


def test_skeletons_without_scores_are_not_changed():
    skeletons = [comb(90 + 5 * k, grown(k)[: 2 + k % 2]) for k in range(4)]
    with_model, without = series_of(skeletons), series_of(skeletons, unify=False)
    assert with_model.skeletons == without.skeletons


def test_an_empty_date_stays_empty():
    dates = [predicted(comb(90 + 5 * k, grown(k))) for k in range(5)]
    dates[2] = Skeleton([], [], node_score=[], edge_score=[], image_size=(300, 300))
    series = series_of(dates)
    assert_valid(series)
    assert len(series.skeletons[2]) == 0
    assert ids_of(series) == [["1.1", "1.1.1", "1.1.2", "1.1.3"] if k != 2 else [] for k in range(5)]
    empty = series_of([dates[2], dates[2]])
    assert [len(skeleton) for skeleton in empty.skeletons] == [0, 0]


def test_one_date_is_not_changed():
    only = predicted(comb(90, grown(0)))
    series = series_of([only])
    assert np.array_equal(series.skeletons[0].nodes, only.nodes)
    assert ids_of(series) == [["1.1", "1.1.1", "1.1.2", "1.1.3"]]


def test_a_plant_that_dies_ends_at_the_last_date_that_shows_it():
    both = [predicted(_side_by_side(60 + 6 * k, 50 + 5 * k)) for k in range(4)]
    one = [predicted(comb(84 + 6 * k, [], x=60.0)) for k in range(4)]
    series = series_of([*both, *one])
    assert_valid(series)
    dates = sorted(track.dates.tolist() for track in series.tracks)
    assert dates == [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7]]


def _side_by_side(first: float, second: float) -> Skeleton:
    a, b = comb(first, [], x=60.0), comb(second, [], x=160.0)
    nodes = np.concatenate([a.nodes, b.nodes])
    edges = np.concatenate([a.edges, b.edges + len(a)])
    return Skeleton(nodes, edges, root=[0, len(a)], image_size=(300, 300))


def test_the_best_growth_against_all():
    rng = np.random.default_rng(5)
    for _ in range(30):
        gain = rng.integers(-2, 3, (3, 4)).astype(float)
        total, count = best_growth(gain)
        sums = {
            counts: sum(gain[date, :n].sum() for date, n in enumerate(counts))
            for counts in itertools.combinations_with_replacement(range(5), 3)
        }
        assert total == pytest.approx(max(sums.values()))
        assert sums[tuple(count.tolist())] == pytest.approx(total)


def test_a_longer_axis_of_a_later_date_extends_the_model():
    """The last date shows the axis elsewhere at first, so another date gives the path; its tip is that of the last."""
    straight = [np.array([(50.0, 10.0), (50.0, 80.0 + 3 * k)]) for k in range(6)]
    last = np.array([(50.0, 10.0), (53.5, 40.0), (50.0, 60.0), (50.0, 130.0)])
    (axis,) = build_model([[DateAxis(line, 0, True)] for line in (*straight, last)], np.ones(7), 6.0)
    assert axis.length[:6] == pytest.approx([70 + 3 * k for k in range(6)], abs=3)
    assert axis.length[6] == pytest.approx(120, abs=3)


def test_a_path_explains_axes_along_different_parts():
    axis = np.array([0] * 10 + [1] * 6 + [2] * 2 + [3] * 9)
    place = np.array([*range(10), *range(9, 15), 16, 17, *range(9)])
    assert axes_along(axis, place, 4) == [0, 1]
    assert axes_along(axis, place, 2) == [0, 1, 2]
