"""The originals that the editor keeps, `NAME.orig.rsml`, are left out wherever a folder of skeleton files is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from treeformer import Skeleton
from treeformer._util.files import is_backup
from treeformer.cli import app
from treeformer.data.folder_dataset import find_pairs
from treeformer.formats import read, write
from treeformer.metrics.report import folder_cases


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three dates with corrected skeletons and the originals of two of them."""
    found = tmp_path / "rsml"
    for day in range(3):
        plant = Skeleton([(20.0, 5.0), (20.0, 40.0 + 9 * day)], [(0, 1)], root=0, image_size=(64, 64))
        write(plant, found / f"day{day}.rsml")
        Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(found / f"day{day}.png")
    for name in ("day1.orig.rsml", "day2.orig.rsml", "day2.orig-2.rsml"):
        write(read(found / "day0.rsml"), found / name)
    return found


def run(*arguments: object) -> None:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)


def test_a_backup_is_beside_its_file(folder: Path):
    assert [file.name for file in sorted(folder.glob("*.rsml")) if is_backup(file)] == [
        "day1.orig.rsml",
        "day2.orig-2.rsml",
        "day2.orig.rsml",
    ]
    (folder / "day1.rsml").unlink()
    assert not is_backup(folder / "day1.orig.rsml")
    assert not is_backup(folder / "day0.rsml")


@pytest.mark.slow
def test_series(folder: Path, tmp_path: Path):
    run("series", folder, "-o", tmp_path / "out", "--no-figures")
    assert sorted(file.name for file in (tmp_path / "out" / "rsml").iterdir()) == [f"day{k}.rsml" for k in range(3)]


def test_traits(folder: Path, tmp_path: Path):
    run("traits", folder, "-o", tmp_path / "traits.csv")
    assert len(pd.read_csv(tmp_path / "traits.csv")) == 3


def test_evaluate(folder: Path):
    cases, without_ground_truth = folder_cases(folder, folder)
    assert [case.name for case in cases] == ["day0", "day1", "day2"]
    assert without_ground_truth == []


def test_convert(folder: Path, tmp_path: Path):
    run("convert", folder, tmp_path / "swc", "--format", "swc")
    assert sorted(file.name for file in (tmp_path / "swc").rglob("*.swc")) == ["day0.swc", "day1.swc", "day2.swc"]


def test_training_pairs(folder: Path):
    pairs, skipped = find_pairs(folder)
    assert [skeleton.name for _, skeleton in pairs] == ["day0.rsml", "day1.rsml", "day2.rsml"]
    assert skipped == []
