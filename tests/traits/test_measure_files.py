"""Tables of many files, run time, and the documentation of traits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.growth import assert_less_than_quadratic
from tests.traits.figures import random_forest
from treeformer import Skeleton, TreeformerError
from treeformer.traits import TRAITS, measure, measure_files
from treeformer.traits.definitions import IDENTIFYING
from treeformer.traits.names import CONVERTED

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "traits.md"
LEVELS = ("plant", "axis", "segment")


@pytest.mark.slow
def test_many_files_and_those_that_fail(comb: Skeleton, nested: Skeleton, ring: Skeleton) -> None:
    def read(path: Path) -> Skeleton:
        if path.name == "broken.rsml":
            raise TreeformerError("broken.rsml: ends too early")
        if path.name == "gone.rsml":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return {"comb": comb, "nested": nested, "ring": ring, "empty": Skeleton([], [])}[path.stem]

    names = ("comb", "broken", "nested", "gone", "ring", "empty")
    paths = [Path("plates") / f"{name}.rsml" for name in names]
    calls: list[tuple[int, int]] = []
    table, failures = measure_files(
        paths, columns="all", read=read, progress=lambda done, total: calls.append((done, total))
    )
    assert calls == [(k, 6) for k in range(1, 7)]
    assert list(table)[:3] == ["image", "file", "plant"]
    assert table["image"].tolist() == ["comb.rsml", "nested.rsml"]
    assert table["file"].tolist() == [str(paths[0]), str(paths[2])]
    assert table["axis_count_order_2"].tolist() == [0, 1]
    assert table["axis_length_order_2"].tolist() == [0.0, 2.0]
    assert failures[:2] == [f"{paths[1]}: ends too early", f"{paths[3]}: No such file or directory"]
    assert len(failures) == 3
    assert failures[2].startswith(f"{paths[4]}: node 0 lies on a cycle")
    renamed, _ = measure_files(paths, read=read, column_names="archidart", px_per_mm=2)
    assert renamed["N3LR"].tolist() == [0, 1]
    assert renamed["TRL"].tolist() == [35.0, 8.0]
    assert list(renamed)[:3] == ["image", "file", "plant"]
    by_axis, _ = measure_files(paths, read=read, level="axis")
    assert by_axis["file"].nunique() == 2
    assert len(by_axis) == 4 + 3


@pytest.mark.parametrize(
    "options",
    [{"scanlines": 1}, {"level": "segment", "column_names": "archidart"}, {"px_per_mm": -1}, {"columns": "few"}],
)
def test_invalid_options_raise_before_any_file_is_read(options: Any) -> None:
    with pytest.raises(TreeformerError):
        measure_files(["never-read.rsml"], read=lambda path: pytest.fail("read a file"), **options)


@pytest.mark.parametrize("path", ["plate.rsml", Path("plate.rsml")])
def test_a_single_path_is_refused(path: Any) -> None:
    with pytest.raises(TreeformerError, match=r"takes several files, and 'plate.rsml' is one path"):
        measure_files(path, read=lambda path: pytest.fail("read a file"))


def test_no_files(comb: Skeleton) -> None:
    table, failures = measure_files([], columns="all")
    assert failures == []
    assert len(table) == 0
    assert table.columns[:2].tolist() == ["image", "file"]
    assert set(measure(comb)) - set(table) == {"axis_count_order_1", "axis_length_order_1"}


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "plants", "straight_plants"), [("osr-roots", 20, 0), ("barley-roots", 302, 2)])
def test_real_roots(real_data: Callable[[str], Path], folder: str, plants: int, straight_plants: int) -> None:
    table, failures = measure_files(sorted(real_data(folder).rglob("*.rsml")))
    assert failures == []
    assert len(table) == plants
    assert (table["unit"] == "px").all()
    assert (table["total_length"] >= table["primary_length"] + table["lateral_length"] - 1e-6).all()
    assert (table["tip_count"] >= 1).all()
    assert (table["depth"] > 0).all()
    assert (table["convex_hull_area"] == 0).sum() == straight_plants


@pytest.mark.slow
def test_time_grows_less_than_quadratically() -> None:
    assert_less_than_quadratic(lambda count: functools.partial(measure, random_forest(0, [count])), 4_000)


def test_every_trait_is_a_column_and_every_column_a_trait(nested: Skeleton) -> None:
    for level in LEVELS:
        table = measure(nested, level=level)
        defined = [column for trait in TRAITS if trait.level == level for column in trait.columns(max_order=2)]
        assert len(defined) == len(set(defined))
        assert set(table) - set(IDENTIFYING) == set(defined) - set(IDENTIFYING)


def markdown_table() -> str:
    """Return `TRAITS` as the Markdown table in the documentation."""
    rows = [
        "| trait | level | unit | definition | sleap-roots | archiDART | RootNav / RhizoVision |",
        "| --- " * 7 + "|",
    ]
    for trait in TRAITS:
        others = (trait.sleap_roots, trait.archidart, trait.rootnav)
        cells = [f"`{trait.name}`", trait.level, trait.kind, trait.definition, *(f"`{o}`" if o else "" for o in others)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def test_the_documentation_has_the_table() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    assert markdown_table() in text
    for (tool, _, column), (_, meaning) in CONVERTED.items():
        assert f"| {tool} | `{column}` | {meaning} |" in text
