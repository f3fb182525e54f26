"""Tables, emergence and the combined skeleton, on cases that are computed by hand."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pytest

from tests.timeseries.series_factory import comb, frames, series_of
from treeformer import Series, Skeleton, TreeformerError
from treeformer.timeseries.combined import age_offset
from treeformer.timeseries.emergence import appearance_times, emergence
from treeformer.timeseries.tables import AXES, AXES_OVER_TIME

# A main root that grows 20 px per day, and a lateral at 30 px that emerges between days 2 and 4 and grows 6 px per day.
DAYS = (1.0, 2.0, 4.0, 6.0)
GROWN = [comb(40, []), comb(60, []), comb(100, [(30, 8)]), comb(140, [(30, 20)])]


@pytest.fixture(scope="module")
def series():
    return Series(zip(DAYS, GROWN, strict=True), register=False)


def test_axes_over_time(series):
    table = series.axes_over_time()
    assert tuple(table) == AXES_OVER_TIME
    main = table[table["axis"] == "1.1"]
    assert main["time"].tolist() == list(DAYS)
    assert main["length"].tolist() == [40, 60, 100, 140]
    assert main["growth_rate"].tolist()[1:] == [20, 20, 20]
    assert math.isnan(main["growth_rate"].iloc[0])
    assert main["tip_angle"].tolist() == [0] * 4
    lateral = table[table["axis"] == "1.1.1"]
    assert lateral[["parent", "order", "tip_x", "tip_y", "tip_angle", "unit"]].values.tolist() == [
        ["1.1", 1, 108, 40, 90, "px"],
        ["1.1", 1, 120, 40, 90, "px"],
    ]
    in_mm = series.axes_over_time(px_per_mm=10)
    assert in_mm["length"].tolist() == pytest.approx((table["length"] / 10).tolist())
    assert in_mm["growth_rate"].max() == pytest.approx(2)
    assert set(in_mm["unit"]) == {"mm"}


def test_axes(series):
    table = series.axes().set_index("axis")
    assert tuple(table.reset_index()[list(AXES)]) == AXES
    lateral = table.loc["1.1.1"]
    assert (lateral["emergence_from"], lateral["emergence_to"]) == (2, 4)
    assert lateral["emergence_time"] == pytest.approx(4 - 8 / 6)
    assert lateral["base_position"] == 30
    assert (lateral["max_growth_rate"], lateral["max_growth_from"], lateral["max_growth_to"]) == (6, 4, 6)
    main = table.loc["1.1"]
    assert (main["first_seen"], main["last_seen"], main["dates_seen"], main["final_length"]) == (1, 6, 4, 140)
    assert math.isnan(main["emergence_time"])


def test_the_doubtful_length_of_plants_does_not_depend_on_the_scale():
    metadata = {"low_confidence_threshold": 0.5, "rsml": {"unit": "mm", "resolution": "2"}}
    nodes = [(9, 9), (9, 39), (9, 49)]
    one, two = (
        Skeleton(nodes, [(0, 1), (1, 2)], root=0, edge_score=[0.9, 0.4], metadata=each)
        for each in (metadata, {**metadata, "rsml": {}})
    )
    made = Series([(1, one), (2, two)], register=False)
    for scale in (None, 10):
        table = made.plants_over_time(px_per_mm=scale)
        assert table["low_confidence_length_fraction"].tolist() == [0.25, 0.25]
    assert set(made.plants_over_time()["unit"]) == {"px"}


def test_plants_over_time(series):
    table = series.plants_over_time()
    assert table["time"].tolist() == list(DAYS)
    assert table["total_length"].tolist() == [40, 60, 108, 160]
    assert table["total_length_growth_rate"].tolist()[1:] == [20, 24, 26]
    assert table["axis_count_order_1"].tolist() == [0, 0, 1, 1]
    assert table["monotone_total_length"].tolist() == [40, 60, 108, 160]


def test_no_plant_loses_length():
    """At the third date, a half of the left plant was not found. The right plant is first found at the second date."""
    left, right = [40, 60, 30, 90, 100], [None, 20, 25, 30, 35]
    dates = []
    for a, b in zip(left, right, strict=True):
        nodes, edges = [(60, 20), (60, 20 + a)], [(0, 1)]
        if b is not None:
            nodes, edges = [*nodes, (160, 20), (160, 20 + b)], [*edges, (2, 3)]
        dates.append(Skeleton(nodes, edges, root=[0, 2][: len(edges)], image_size=(200, 200)))
    table = Series(zip((0, 1, 2, 4, 5), dates, strict=True), register=False).plants_over_time()
    assert [rows["total_length"].tolist() for _, rows in table.groupby("plant_id")] == [left, right[1:]]
    monotone = [rows["monotone_total_length"].tolist() for _, rows in table.groupby("plant_id")]
    assert monotone == [[40, 50, 50, 90, 100], right[1:]]
    rates = [rows["monotone_total_length_growth_rate"].tolist()[1:] for _, rows in table.groupby("plant_id")]
    assert rates == [[10, 0, 20, 10], [5, 2.5, 5]]


def test_plants_without_axes_have_no_identity():
    """At the first date, two plants are single nodes."""
    seeds = Skeleton([(60, 20), (60, 50), (110, 20), (160, 20)], [(0, 1)], root=[0, 2, 3], image_size=(200, 200))
    table = Series([(0, seeds), (1, comb(50, [], x=60.0))], register=False).plants_over_time()
    assert table["plant_id"].tolist() == ["1", "", "", "1"]
    assert table["monotone_total_length"].tolist() == pytest.approx([30, 0, 0, 50])
    assert table["monotone_total_length_growth_rate"].tolist()[3] == pytest.approx(20)


@pytest.mark.parametrize("nodes", [(0, 0, 0), (0, 0, 1), (2, 2, 2)])
def test_single_nodes_do_not_change_the_growth_of_plants(nodes):
    """The order of the plants differs between the dates, so that their numbers say nothing."""

    def plate(lengths, order, single):
        points = [point for k in order for point in ((60 + 150 * k, 50), (60 + 150 * k, 50 + lengths[k]))]
        points += [(700, 300 + 50 * k) for k in range(single)]
        roots = [0, 2, 4, *range(6, 6 + single)]
        return Skeleton(points, [(0, 1), (2, 3), (4, 5)], root=roots, image_size=(800, 800))

    plants = (((50, 100, 200), (0, 1, 2)), ((60, 120, 230), (2, 0, 1)), ((70, 140, 260), (1, 0, 2)))
    skeletons = [plate(*plant, single) for plant, single in zip(plants, nodes, strict=True)]
    table = Series(enumerate(skeletons), register=False).plants_over_time()
    assert len(table) == 9 + sum(nodes)
    growth = {name: rows["total_length_growth"].tolist()[1:] for name, rows in table.groupby("plant_id") if name}
    assert growth == {"1": [10, 10], "2": [20, 20], "3": [30, 30]}
    assert table.loc[table["plant_id"] == "", "total_length_growth"].isna().all()


def test_a_rotated_date_is_measured_upright():
    upright = comb(60, [(20, 30), (40, 12)])
    turn = math.radians(20)
    cos, sin = math.cos(turn), math.sin(turn)
    turned = upright.transform([[cos, -sin, 60], [sin, cos, -20]], image_size=(300, 300))
    series = Series([(0, turned), (1, comb(64, [(20, 33), (40, 15)]))])
    angle = series.axes_over_time().query("axis == '1.1'")["tip_angle"]
    assert angle.tolist() == pytest.approx([0, 0], abs=3)
    assert series.plants_over_time()["depth"].tolist() == pytest.approx([60, 64], abs=2)


def test_emergence_without_a_rate_is_the_middle(series):
    once = Series([(0, comb(90, [])), (4, comb(99, [(30, 8)]))], register=False)
    lateral = once.tracks[1]
    assert emergence(lateral, once.times) == (2, 0, 4)


def test_a_place_appears_at_the_first_date_that_shows_it(series):
    main, lateral = series.tracks
    places = np.array([0.0, 40.0, 50.0, 60.0, 60.4, 61.0, 140.0, 999.0])
    assert appearance_times(main, series.times, places).tolist() == [1, 1, 2, 2, 2, 4, 6, 6]
    assert appearance_times(lateral, series.times, np.array([0.0, 8.0, 14.0])).tolist() == [4, 4, 6]


def test_the_combined_skeleton(series):
    whole = series.combined()
    assert whole.is_tree
    assert [axis.id for axis in whole.axes] == ["1.1", "1.1.1"]
    main, lateral = whole.axes
    assert lateral.nodes[0] in main.nodes
    assert lateral.parent == 0
    for axis in whole.axes:
        (age,) = axis.functions
        assert age.name == "age"
        assert len(age.samples) == len(axis.nodes)
        assert list(age.samples) == sorted(age.samples)
    assert main.functions[0].samples[-1] == 6
    assert whole.length == pytest.approx(160)
    assert whole.metadata["rsml"]["property-definitions"] == [{"label": "age", "type": "real"}]


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "seed"), [("plate", 0), ("several", 3)])
def test_combined_skeletons_of_generated_series_are_forests(preset, seed):
    dates = frames(preset, seed, 4)
    whole = series_of(dates).combined()
    assert whole.is_forest
    assert whole.length == pytest.approx(dates[-1].skeleton.length, rel=0.05)
    for axis in whole.axes:
        assert axis.parent is None or axis.nodes[0] in whole.axes[axis.parent].nodes


def test_ages_are_positive():
    assert age_offset(np.array([3.0, 5.0])) == 0
    assert age_offset(np.array([0.0, 1.0, 4.0])) == 2
    assert age_offset(np.array([-1.0])) == 2


def test_tables_of_an_empty_series():
    empty = Series([(0, Skeleton([], []))])
    assert [len(table) for table in (empty.axes_over_time(), empty.axes(), empty.plants_over_time())] == [0, 0, 0]
    assert len(empty.combined()) == 0


@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_the_resolution_is_checked(series, value):
    with pytest.raises(TreeformerError, match="px_per_mm"):
        series.axes(px_per_mm=value)


def test_ages_are_days_only_if_the_times_are_dates():
    definitions = [
        Series([(time, comb(40, []))]).combined().metadata["rsml"]["property-definitions"]
        for time in (3.0, date(2026, 3, 1))
    ]
    assert definitions == [[{"label": "age", "type": "real"}], [{"label": "age", "type": "real", "unit": "day"}]]
