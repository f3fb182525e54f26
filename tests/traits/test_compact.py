"""The compact table: its columns, rounding, and rows of images without a plant."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from treeformer import Skeleton
from treeformer.traits import COMPACT_COLUMNS, TRAITS, compact, measure, measure_files

NAMES = [
    "image", "plant", "unit", "total_length", "primary_length", "lateral_count", "lateral_length",
    "lateral_length_mean", "tip_count", "branch_point_count", "max_order", "depth", "width", "convex_hull_area",
    "mean_diameter", "surface_area", "volume", "main_curve_index", "lateral_emergence_angle_mean",
    "low_confidence_length_fraction", "note",
    "file",
]  # fmt: skip


def files(**skeletons: Skeleton) -> dict[str, Any]:
    """Return the arguments of `measure_files` for skeletons that are not in files."""
    by_name = {f"{name}.json": skeleton for name, skeleton in skeletons.items()}
    return {"paths": [Path("results") / name for name in by_name], "read": lambda path: by_name[path.name]}


def test_the_columns(comb: Skeleton) -> None:
    table, failures = measure_files(**files(comb=comb.replace(image_name="plates/comb.png")))
    assert failures == []
    assert list(table) == list(COMPACT_COLUMNS) == NAMES
    columns = {column for trait in TRAITS if trait.level == "plant" for column in trait.columns()}
    assert set(NAMES) - {"image", "plant", "unit", "note", "file"} <= columns
    assert table.iloc[0].dropna().to_dict() == {
        "image": "comb.png",
        "plant": 0,
        "unit": "px",
        "total_length": 70.0,
        "primary_length": 40.0,
        "lateral_count": 3,
        "lateral_length": 30.0,
        "lateral_length_mean": 10.0,
        "tip_count": 4,
        "branch_point_count": 3,
        "max_order": 1,
        "depth": 40.0,
        "width": 10.0,
        "convex_hull_area": 300.0,
        "main_curve_index": 0.0,
        "lateral_emergence_angle_mean": 90.0,
        "note": "",
        "file": str(Path("results") / "comb.json"),
    }


def test_the_file_is_given_if_the_image_is_unknown(comb: Skeleton) -> None:
    for columns in ("compact", "all"):
        table, _ = measure_files(
            **files(a=comb, b=comb.replace(image_name="C:\\plates\\ä 1.tif")),
            columns=columns,  # type: ignore[arg-type]
        )
        assert table.columns[0] == "image"
        assert table["image"].tolist() == ["a.json", "ä 1.tif"]


def test_six_significant_digits_in_the_compact_table_only(comb: Skeleton) -> None:
    third = comb.transform([(1 / 3, 0, 0), (0, 1000 / 3, 0)])
    exact, rounded = measure(third).iloc[0], measure(third, columns="compact").iloc[0]
    assert (rounded["width"], rounded["depth"]) == (3.33333, 13333.3)
    assert exact["width"] == pytest.approx(10 / 3, rel=1e-12)
    table, _ = measure_files(**files(third=third), columns="all")
    assert table["width"][0] == exact["width"]
    by_axis, _ = measure_files(**files(third=third), level="axis")
    assert by_axis["length"][1] == 3.33333
    assert list(by_axis)[:2] == ["image", "file"]
    assert "note" not in by_axis


def test_an_image_without_a_plant_has_a_row(comb: Skeleton) -> None:
    empty = Skeleton([], [], node_score=[], edge_score=[], image_name="bare.png", image_size=(9, 9))
    table, failures = measure_files(**files(bare=empty, comb=comb), px_per_mm=2)
    assert failures == []
    assert table["image"].tolist() == ["bare.png", "comb.json"]
    row = table.iloc[0]
    assert (row["note"], row["unit"], row["file"]) == ("no plant", "mm", str(Path("results") / "bare.json"))
    zeros = [name for name in NAMES if name.endswith(("length", "count", "area", "order", "depth", "width", "volume"))]
    assert len(zeros) == 12
    assert (row[zeros] == 0).all()
    assert set(row.index[row.isna()]) == {
        "plant", "lateral_length_mean", "mean_diameter", "main_curve_index", "lateral_emergence_angle_mean",
        "low_confidence_length_fraction",
    }  # fmt: skip
    assert table["tip_count"].tolist() == [0, 4]
    text = table.to_csv(index=False)
    assert text.splitlines()[1].startswith("bare.png,,mm,0.0,0.0,0,0.0,,0,0,0,")
    assert pd.read_csv(io.StringIO(text))["note"].isna().tolist() == [False, True]
    alone, _ = measure_files(**files(bare=empty))
    assert (len(alone), alone["note"][0], alone["unit"][0]) == (1, "no plant", "px")
    assert (alone.dtypes == table.dtypes).all()
    assert measure(empty, columns="compact")["note"].tolist() == ["no plant"]


@pytest.mark.parametrize("options", [{"columns": "all"}, {"level": "axis"}, {"column_names": "archidart"}])
def test_only_the_compact_plant_table_has_such_a_row(options: Any) -> None:
    table, failures = measure_files(**files(bare=Skeleton([], [])), **options)
    assert (len(table), failures, table.columns[0]) == (0, [], "image")


def test_no_files() -> None:
    table, failures = measure_files([])
    assert (list(table), len(table), failures) == (NAMES, 0, [])


def test_names_of_other_tools_imply_all_columns(comb: Skeleton) -> None:
    table, _ = measure_files(**files(comb=comb), column_names="sleap-roots", columns="compact")
    assert table["lateral_lengths_p95"].tolist() == [10.0]
    assert measure(comb, column_names="archidart", columns="compact").equals(measure(comb, column_names="archidart"))


def test_a_single_skeleton(comb: Skeleton) -> None:
    assert list(measure(comb, columns="compact")) == NAMES[:-1]
    assert measure(comb, columns="compact")["image"].tolist() == [""]
    assert "image" not in measure(comb)
    assert len(measure(comb).columns) > 100
    assert list(compact(measure(comb))) == NAMES[1:-1]


def test_one_row_per_plant(comb: Skeleton) -> None:
    two = Skeleton([(0, 0), (0, 5), (9, 0), (9, 3)], [(0, 1), (2, 3)], root=[0, 2], image_name="two.png")
    table, _ = measure_files(**files(two=two, comb=comb))
    assert table["image"].tolist() == ["two.png", "two.png", "comb.json"]
    assert table["plant"].tolist() == [0, 1, 0]
    assert table["total_length"].tolist() == [5.0, 3.0, 70.0]
