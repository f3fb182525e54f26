"""A leak between splits is an error that contains both files."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from treeformer import Skeleton, TreeformerError
from treeformer.data import check_splits
from treeformer.data.folder_dataset import write_pair
from treeformer.data.recipe import write_recipe
from treeformer.data.splits import plate_rule


@pytest.fixture
def folder(tmp_path: Path, comb: Skeleton) -> Path:
    rng = np.random.default_rng(0)
    for split, stems in (("train", ("12", "12R", "13")), ("valid", ("14",)), ("test", ("15", "16R"))):
        for stem in stems:
            write_pair(rng.integers(0, 256, (50, 40, 3), dtype=np.uint8), comb, tmp_path / split, stem)
    return tmp_path


def move(folder: Path, old: str, new: str, copy: bool = False) -> None:
    transfer = shutil.copy if copy else shutil.move
    for suffix in (".png", ".json"):
        transfer(folder / f"{old}{suffix}", folder / f"{new}{suffix}")


def test_splits_without_a_leak_are_counted(folder: Path) -> None:
    assert check_splits(folder) == {"train": 3, "valid": 1, "test": 2}


def test_the_same_name_in_two_splits(folder: Path) -> None:
    move(folder, "test/15", "test/13")
    with pytest.raises(TreeformerError, match=r"test/13\.png \(test\).*same plate '13'.*train/13\.png \(train\)"):
        check_splits(folder)


def test_the_same_plate_in_two_splits(folder: Path) -> None:
    """Only the pattern in dataset.yaml shows that 12 and 12R are the same plate."""
    move(folder, "train/12R", "test/12R")
    assert check_splits(folder)["test"] == 3
    write_recipe(folder, {"plate": "[0-9]+"})
    with pytest.raises(TreeformerError, match=r"test/12R\.png.*same plate '12'.*train/12\.png"):
        check_splits(folder)


def test_the_same_image_under_two_names(folder: Path) -> None:
    move(folder, "train/13", "valid/99", copy=True)
    with pytest.raises(TreeformerError, match=r"valid/99\.png \(valid\) is the same image as .*train/13\.png"):
        check_splits(folder)


def test_the_same_image_twice_in_one_split_is_not_a_leak(folder: Path) -> None:
    move(folder, "train/13", "train/99", copy=True)
    assert check_splits(folder)["train"] == 4


def test_no_splits_and_an_invalid_pattern(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TreeformerError, match="nothing to compare"):
        check_splits(tmp_path / "empty")
    write_recipe(folder, {"plate": "["})
    with pytest.raises(TreeformerError, match=r"dataset\.yaml: plate is not a regular expression"):
        check_splits(folder)
    write_recipe(folder, {"plate": ["12", "13"]})
    with pytest.raises(TreeformerError, match=r"dataset\.yaml: plate must be a text, not \['12', '13'\]"):
        check_splits(folder)


def test_names_that_match_no_character_are_plates_of_their_own() -> None:
    rule = plate_rule(r"\d*", Path("dataset.yaml"))
    assert [rule(stem) for stem in ("426R", "control", "blank")] == ["426", "control", "blank"]
