"""The combined RSML file through the rules of archiDART's reader."""

from __future__ import annotations

import pytest

from tests.timeseries.archidart_reader import read_ages
from tests.timeseries.series_factory import comb, frames, line, series_of
from treeformer import Axis, Series, Skeleton, write
from treeformer.timeseries.combined import age_offset


def through_a_file(series: Series, tmp_path):
    write(series.combined(), tmp_path / "series.rsml")
    return read_ages(tmp_path / "series.rsml")


def test_lengths_and_growth_rates_are_those_of_the_series(tmp_path):
    """The axes are straight: points between base and tip come from the dates alone."""
    grown = [comb(40, []), comb(60, []), comb(100, [(30, 8)]), comb(140, [(30, 20)])]
    series = Series(zip((1.0, 2.0, 4.0, 6.0), grown, strict=True), register=False)
    (roots,) = through_a_file(series, tmp_path)
    assert roots["1.1"].length == pytest.approx({1: 40, 2: 60, 4: 100, 6: 140})
    assert roots["1.1"].growth == pytest.approx({1: 40, 2: 20, 4: 20, 6: 20})
    assert roots["1.1.1"].length == pytest.approx({1: 0, 2: 0, 4: 8, 6: 20})
    assert roots["1.1.1"].growth == pytest.approx({4: 4, 6: 6})
    assert roots["1.1.1"].mother == "1.1"


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "seed"), [("plate", 0), ("several", 3)])
def test_generated_series(preset, seed, tmp_path):
    dates = frames(preset, seed, 4)
    series = series_of(dates)
    plants = through_a_file(series, tmp_path)
    read = {name: root for roots in plants for name, root in roots.items()}
    assert read.keys() == {track.id for track in series.tracks}
    offset = age_offset(series.times)
    for track in series.tracks:
        length = read[track.id].length
        # At a date at which no axis of the plant grew, the length is that of the date before.
        at_date = [
            max([px for date, px in length.items() if date <= time + offset], default=0.0)
            for time in series.times[track.dates].tolist()
        ]
        assert at_date == pytest.approx(track.monotone_length.clip(max=max(length.values())).tolist(), abs=1.5)


def test_a_plant_of_one_date_is_readable(tmp_path):
    """archiDART stops with an error if all points of a plant have the same age."""
    for times in ((1.0, 2.0, 3.0), (0.25, 0.5, 0.75)):
        alone = [
            (times[0], line((20, 10), (20, 60))),
            (times[1], Skeleton([(20, 10), (20, 70), (150, 10), (150, 90)], [(0, 1), (2, 3)], root=[0, 2])),
            (times[2], line((20, 10), (20, 80))),
        ]
        plants = through_a_file(Series(alone, register=False, tolerance_px=3), tmp_path)
        assert [list(roots) for roots in plants] == [["1.1"], ["2.1"]]
        assert max(plants[1]["2.1"].length.values()) == pytest.approx(80)


def test_axes_without_length_are_left_out(tmp_path):
    """Their laterals belong to the next axis above."""
    nodes = [(50, 10), (50, 90), (50, 50), (50, 50), (80, 50)]
    axes = [Axis((0, 2, 1)), Axis((2, 3), parent=0), Axis((3, 4), parent=1)]
    flat = Skeleton(
        nodes, [(0, 2), (2, 1), (2, 3), (3, 4)], root=0, axes=axes, edge_axis=[0, 0, 1, 2], image_size=(200, 200)
    )
    series = Series([(1, flat), (3, flat)], register=False)
    assert any(track.length.max() == 0 for track in series.tracks)
    (roots,) = through_a_file(series, tmp_path)
    assert len(roots) == len(series.tracks) - 1
    assert sum(max(root.length.values()) for root in roots.values()) == pytest.approx(110)
