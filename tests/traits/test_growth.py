"""Growth over a series of images."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from treeformer import Plant, Skeleton, TreeformerError
from treeformer.traits import growth, measure


def two_plants(first: float, second: float, ids: tuple[str, str] = ("", ""), **options: Any) -> Skeleton:
    """Return two straight plants of these lengths, the second with a lateral of 2 px at its top."""
    nodes = [(0, 0), (0, first), (50, 0), (50, 1), (50, second), (52, 1)]
    return Skeleton(
        nodes, [(0, 1), (2, 3), (3, 4), (3, 5)], root=[0, 2], plant=[0, 0, 1, 1, 1, 1],
        plant_records=[Plant(id=ids[0]), Plant(id=ids[1])], **options,
    )  # fmt: skip


def test_growth_per_plant_and_interval() -> None:
    table = growth([(6.0, two_plants(9, 20)), (0.0, two_plants(4, 10)), (2.0, two_plants(5, 16))])
    assert table["plant"].tolist() == [0, 0, 1, 1]
    assert table["time_start"].tolist() == [0.0, 2.0, 0.0, 2.0]
    assert table["time_end"].tolist() == [2.0, 6.0, 2.0, 6.0]
    assert table["total_length_growth"].tolist() == [1.0, 4.0, 6.0, 4.0]
    assert table["total_length_growth_rate"].tolist() == [0.5, 1.0, 3.0, 1.0]
    assert table["primary_length_growth_rate"].tolist() == [0.5, 1.0, 3.0, 1.0]


def test_growth_matches_plants_by_id() -> None:
    table = growth([(0, two_plants(4, 10, ("a", "b"))), (1, two_plants(13, 5, ("b", "a")))])
    assert dict(zip(table["plant_id"], table["primary_length_growth"], strict=True)) == {"a": 1.0, "b": 3.0}


def test_growth_with_column_names_of_archidart_and_in_mm() -> None:
    table = growth([(0, two_plants(4, 10)), (2, two_plants(8, 14))], px_per_mm=2, column_names="archidart")
    assert list(table)[-2:] == ["GRTR", "GR1R"]
    assert table["GRTR"].tolist() == [1.0, 1.0]
    assert table["unit"].tolist() == ["mm", "mm"]
    with pytest.raises(TreeformerError, match="rootnav has no column names for series traits"):
        growth([(0, two_plants(4, 10))], column_names="rootnav")


def test_growth_of_a_table() -> None:
    tables = [measure(two_plants(4 + t, 10)).assign(time=t) for t in (0, 3)]
    assert growth(pd.concat(tables))["total_length_growth"].tolist() == [3.0, 0.0]
    with pytest.raises(TreeformerError, match="growth requires a plant table with a column time"):
        growth(measure(two_plants(4, 10)))


def test_growth_of_a_table_that_was_written_and_read(tmp_path) -> None:
    """Pandas reads the empty ids of a table written by `treeformer traits -o` as NaN."""
    line = [measure(Skeleton([(0, 0), (0, 4 + t)], [(0, 1)])).assign(time=t) for t in (0, 3)]
    pd.concat(line).to_csv(tmp_path / "traits.csv", index=False)
    assert growth(pd.read_csv(tmp_path / "traits.csv"))["total_length_growth"].tolist() == [3.0]


def test_a_single_node_without_id_does_not_change_how_plants_are_matched() -> None:
    tables = [measure(two_plants(4 + t, 10)).assign(time=t, plant_id=["a", "b"]) for t in (0, 3)]
    swapped = tables[1].assign(plant=[1, 0])
    node = measure(Skeleton([(50, 5)], [], root=0)).assign(time=3, plant=2)
    for empty in ("", math.nan):
        table = growth(pd.concat([tables[0], swapped, node.assign(plant_id=empty), node.assign(plant_id=empty)]))
        assert dict(zip(table["plant_id"], table["total_length_growth"], strict=True)) == {"a": 3.0, "b": 0.0}


def in_sequence(index: Any, length: float, label: str = "plate 3") -> Skeleton:
    return two_plants(
        length, 10, metadata={"rsml": {"time-sequence": {"label": label, "index": index, "unified": True}}}
    )


def test_growth_uses_the_time_sequence_of_rsml() -> None:
    assert growth([in_sequence(1, 4), in_sequence(3, 10)])["total_length_growth_rate"].tolist() == [3.0, 0.0]
    with pytest.raises(TreeformerError, match="the series mixes several time-sequences: plate 3, plate 4"):
        growth([in_sequence(1, 4), in_sequence(2, 4, "plate 4")])
    with pytest.raises(TreeformerError, match="image 1 of the series has no time"):
        growth([in_sequence(1, 4), two_plants(4, 10)])


def test_growth_needs_time_to_pass() -> None:
    assert len(growth([(1, two_plants(4, 10))])) == 0
    assert len(growth([])) == 0
    with pytest.raises(TreeformerError, match=r"plant 0 is measured twice at time 1\.0"):
        growth([(1, two_plants(4, 10)), (1, two_plants(5, 10))])
    with pytest.raises(TreeformerError, match="the time of image 0 of the series is nan"):
        growth([(math.nan, two_plants(4, 10))])
    scanned = {"rsml": {"unit": "mm", "resolution": "10"}}
    with pytest.raises(TreeformerError, match="partly in px and partly in mm"):
        growth([(1, two_plants(4, 10)), (2, two_plants(4, 10, metadata=scanned))])


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([("a", "skeleton")], "the time of image 0 of the series is 'a', not a finite number"),
        ([(None, "skeleton")], "the time of image 0 of the series is None"),
        ([(1, "skeleton", 2)], r"image 0 of the series must be a skeleton or a pair \(time, skeleton\)"),
        ([5], "image 0 of the series must be a skeleton or a pair"),
    ],
)
def test_anything_else_than_times_and_skeletons_is_an_error(series, message):
    with pytest.raises(TreeformerError, match=message):
        growth(series)


@pytest.mark.parametrize("time", ["b", math.nan, math.inf, None])
def test_a_time_in_a_table_that_is_no_number_is_an_error(time):
    """NaN and infinity gave growth rates of NaN and 0."""
    table = pd.concat([measure(Skeleton([(0, 0), (0, 4)], [(0, 1)]))] * 2)
    table["time"] = pd.Series([1.0, time], dtype=object).to_numpy()
    with pytest.raises(TreeformerError, match=r"a time is .*, not a finite number"):
        growth(table)
