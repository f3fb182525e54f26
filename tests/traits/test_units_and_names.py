"""Units, invalid options, and the column names of other tools."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.traits.figures import row
from treeformer import Skeleton, TreeformerError
from treeformer.traits import STATISTICS, measure


def test_millimeters(comb: Skeleton) -> None:
    found = row(comb, px_per_mm=4)
    assert found["unit"] == "mm"
    assert found["total_length"] == 70 / 4
    assert found["convex_hull_area"] == 300 / 16
    assert found["lateral_density"] == pytest.approx(3 / 10)
    assert found["solidity"] == pytest.approx((70 / 4) / (300 / 16))
    assert found["axis_length_order_1"] == 7.5
    assert found["lateral_length_p95"] == 2.5
    assert (found["tip_count"], found["lateral_emergence_angle_mean"], found["width_depth_ratio"]) == (4, 90.0, 0.25)
    axis = measure(comb, level="axis", px_per_mm=4)
    assert (axis["length"][0], axis["chord_length"][0], axis["tortuosity"][0]) == (10.0, 10.0, 1.0)
    assert measure(comb, level="segment", px_per_mm=4)["length"].tolist() == [2.5] * 7


def test_the_resolution_of_rsml_counts_unless_another_is_given(comb: Skeleton) -> None:
    scanned = comb.replace(metadata={"rsml": {"unit": "inch", "resolution": "254"}})
    assert (row(scanned)["unit"], row(scanned)["total_length"]) == ("mm", pytest.approx(7.0))
    assert row(scanned, px_per_mm=2)["total_length"] == 35.0
    assert row(comb.replace(metadata={"rsml": {"unit": "pixel", "resolution": "1"}}))["unit"] == "px"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "leaf"}, "level must be one of plant, axis, segment, not 'leaf'"),
        (
            {"column_names": "smartroot"},
            "column_names must be one of treeformer, sleap-roots, archidart, rootnav, not 'smartroot'",
        ),
        ({"columns": "few"}, "columns must be one of all, compact, not 'few'"),
        ({"px_per_mm": 0}, "px_per_mm must be a positive number, not 0"),
        ({"px_per_mm": 1e-200}, "px_per_mm must be between 1e-09 and 1e\\+09, not 1e-200"),
        ({"px_per_mm": math.nan}, "px_per_mm must be a positive number, not nan"),
        (
            {"level": "segment", "column_names": "rootnav"},
            "rootnav has no column names for segment traits: use column_names=treeformer",
        ),
    ],
)
def test_wrong_options(comb: Skeleton, options: Any, message: str) -> None:
    with pytest.raises(TreeformerError, match=f"^{message}$"):
        measure(comb, **options)


FRONT = {"plant": ["plant", "plant_id", "plant_label", "unit"]}
FRONT["axis"] = [*FRONT["plant"][:3], "axis", "axis_id", "axis_label", "parent_axis", "order", "unit"]


def nine(prefix: str) -> list[str]:
    return [f"{prefix}_{name}" for name in STATISTICS]


@pytest.mark.parametrize(
    ("column_names", "level", "expected"),
    [
        (
            "sleap-roots",
            "plant",
            [
                *["network_length", "primary_length", "lateral_count", "total_lateral_length", "base_ct_density"],
                *["network_width_depth_ratio", "chull_area", "network_solidity"],
                *["primary_angle_proximal", "primary_angle_distal", "curve_index"],
                *nine("scanline_intersection_counts"),
                *nine("lateral_lengths"),
                *nine("lateral_angles_proximal"),
                *nine("lateral_angles_distal"),
            ],
        ),
        (
            "archidart",
            "plant",
            [
                *["TRL", "L1R", "TNLR", "TLRL", "D2LR", "Magnitude", "Height", "Width", "ConvexhullXY", "Altitude"],
                *["ExtPathLength", "TN1R", "N2LR", "N3LR", "L2LR", "L3LR"],
            ],
        ),
        (
            "rootnav",
            "plant",
            [
                *["Total Length", "Lateral Root Count", "Number.of.Root.Tips", "Number.of.Branch.Points", "Depth"],
                *["Maximum.Width", "Convex Hull Area", "Average.Diameter", "Surface.Area", "Volume"],
            ],
        ),
        ("sleap-roots", "axis", ["lengths", "base_tip_dists", "angles_proximal", "angles_distal", "curve_index"]),
        ("archidart", "axis", ["length", "branching.angle", "tortuosity", "nlat"]),
        ("rootnav", "axis", ["Total Length", "Emergence Angle", "Tip Angle", "Tortuosity", "Lateral Root Count"]),
    ],
)
def test_columns_of_other_tools(nested: Skeleton, column_names: Any, level: Any, expected: list[str]) -> None:
    assert list(measure(nested, column_names=column_names, level=level)) == FRONT[level] + expected
    assert list(measure(Skeleton([], []), column_names=column_names, level=level))[: len(FRONT[level])] == FRONT[level]


def test_what_sleap_roots_means_by_its_names(star: Skeleton, off_the_line: Skeleton) -> None:
    found = row(star, column_names="sleap-roots")
    assert (found["primary_length"], found["network_length"]) == (10.0, 18.0)
    found = row(off_the_line, column_names="sleap-roots")
    assert (found["network_length"], found["chull_area"]) == (14.0, 25.0)
    assert found["network_solidity"] == pytest.approx(14 / 25)
    assert found["base_ct_density"] == pytest.approx(1 / 10)
    straight = row(Skeleton([(0, 0), (0, 5)], [(0, 1)], root=0), column_names="sleap-roots")
    assert straight[["chull_area", "network_solidity", "network_width_depth_ratio"]].isna().all()


def test_what_sleap_roots_means_by_its_angles(bent: Skeleton) -> None:
    found = row(bent, column_names="sleap-roots")
    assert found["primary_angle_proximal"] == pytest.approx(math.degrees(math.atan(3 / 4)))
    assert found["primary_angle_distal"] == pytest.approx(math.degrees(math.atan(5 / 10)))
    assert found["curve_index"] == pytest.approx((19 - math.hypot(5, 10)) / 19)


def test_what_archidart_means_by_its_names(nested: Skeleton, bent: Skeleton) -> None:
    found = row(nested, column_names="archidart")
    assert (found["D2LR"], found["TNLR"], found["N2LR"], found["L3LR"], found["TN1R"]) == (1 / 8, 2, 1, 2.0, 1)
    assert (row(bent, column_names="archidart")["D2LR"], row(bent, column_names="archidart")["L1R"]) == (0.0, 19.0)
    axes = measure(nested, level="axis", column_names="archidart")
    assert axes["order"].tolist() == [1, 2, 3]
    assert axes["branching.angle"].tolist() == [0.0, 90.0, 90.0]


def test_what_rootnav_means_by_its_names(y_shape: Skeleton, bent: Skeleton) -> None:
    axes = measure(y_shape, level="axis", column_names="rootnav")
    ours = measure(y_shape, level="axis")
    assert axes["Emergence Angle"].tolist() == [180.0, ours["branching_angle"][1]]
    assert measure(bent, level="axis", column_names="rootnav")["Tortuosity"][0] == pytest.approx(19 / math.hypot(5, 10))
