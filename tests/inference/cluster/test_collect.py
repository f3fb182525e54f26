"""Collected tables: one row per image, damaged parts made again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pandas
import pyarrow as pa
from pyarrow import parquet

from tests.inference.cluster_runs import (
    JOB,
    MODEL_HASH,
    fake_predictor,
    make_plan,
    results,
    run_shard,
)
from treeformer import TreeformerError
from treeformer.inference.cluster import collect as collecting
from treeformer.inference.cluster.job import Job
from treeformer.inference.cluster.rows import SCHEMA, TRAITS
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.cluster.worker import TaskRunner


def parts(out: Path) -> list[Path]:
    return sorted((out / "parts").iterdir())


def damage_truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def damage_ids(path: Path) -> None:
    table = parquet.read_table(path)
    parquet.write_table(table.set_column(0, "id", pa.array(["0" * 32] * len(table))), path)


def damage_rows(path: Path) -> None:
    parquet.write_table(parquet.read_table(path).slice(1), path)


def damage_schema(path: Path) -> None:
    parquet.write_table(parquet.read_table(path).drop_columns("error"), path)


@pytest.mark.parametrize("damage", [damage_truncate, damage_ids, damage_rows, damage_schema])
def test_a_damaged_part_is_removed_and_made_again(images, out, damage):
    make_plan(out, images, task_images=5)
    run_shard(out)
    whole = results(out)
    damage(parts(out)[1])
    with pytest.raises(TreeformerError, match="1 damaged part files were removed"):
        results(out)
    assert not (out / "results" / "_index.json").exists()
    assert run_shard(out).images == 5
    assert results(out) == whole


def test_results_of_another_version_are_not_taken_for_damaged(images, out):
    make_plan(out, images, task_images=5)
    run_shard(out)
    settings = json.loads((out / "job.json").read_text())
    (out / "job.json").write_text(json.dumps(settings | {"treeformer": "0.0.7"}))
    assert len(results(out)) == 12, "the columns are the same"
    for part in parts(out):
        damage_schema(part)
    before = {path: path.read_bytes() for path in [*parts(out), *(out / "results").iterdir()]}
    with pytest.raises(TreeformerError, match=r"made with treeformer 0\.0\.7 and have other columns"):
        results(out)
    assert {path: path.read_bytes() for path in [*parts(out), *(out / "results").iterdir()]} == before


def test_pandas_reads_the_folder_of_results(images, out):
    make_plan(out, images, task_images=5)
    run_shard(out)
    rows = results(out)
    table = pandas.read_parquet(out / "results", columns=["path", "skeleton", "error"])
    assert len(table) == len(rows)
    assert set(table["path"]) == set(rows)


@pytest.mark.slow
def test_files_of_killed_processes_are_removed(images, out):
    make_plan(out, images)
    run_shard(out)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    leftover = out / "parts" / f".x-{process.pid}-0123456789abcdef.parquet"
    leftover.write_bytes(b"half")
    assert len(results(out)) == 12
    assert not leftover.exists()


@pytest.mark.slow
def test_an_image_that_changed_has_its_newest_result_only(images, out):
    make_plan(out, images)
    run_shard(out)
    before = results(out)
    changed = images / "00002.png"
    changed.write_bytes((images / "00008.png").read_bytes())
    make_plan(out, images)
    assert run_shard(out).images == 1
    report = collecting.collect(Folder.at(str(out)))
    assert (report.images, report.duplicates) == (12, 1)
    after = results(out)
    assert after.keys() == before.keys()
    assert {path for path in after if after[path]["id"] != before[path]["id"]} == {str(changed)}


def test_two_plans_of_the_same_images_give_one_row_each(images, out):
    """Two processes that list the images at the same time do not see each other's plan."""
    make_plan(out, images / "day 2")
    other = out.parent / "other"
    make_plan(other, images)
    for file in (other / "manifests").iterdir():
        file.rename(out / "manifests" / file.name)
    assert run_shard(out).images == 15
    assert len(results(out)) == 12


@pytest.mark.slow
def test_failed_images_are_tried_again_on_request(images, out):
    (images / "late.png").write_bytes(b"")
    make_plan(out, images)
    assert run_shard(out).failed == 1
    assert make_plan(out, images) == [], "an error is a result"
    image = (images / "00001.png").read_bytes()
    os.utime(images / "late.png", ns=(0, 0))
    assert len(make_plan(out, retry_failed=True)) == 1
    assert len(make_plan(out, retry_failed=True)) == 1, "it is planned already"
    assert run_shard(out).failed == 1
    assert len(make_plan(out, images)) == 1, "the time has changed: it is a new image"
    (images / "late.png").write_bytes(image)
    make_plan(out, images)
    run_shard(out)
    rows = results(out)
    assert len(rows) == 13
    assert rows[str(images / "late.png")]["error"] is None
    assert make_plan(out, retry_failed=True) == []


def test_a_failed_image_that_was_replaced_is_not_tried_again_as_it_was(images, out):
    late = images / "late.png"
    late.write_bytes(b"")
    make_plan(out, images)
    assert run_shard(out).failed == 1
    late.write_bytes((images / "00001.png").read_bytes())
    assert len(make_plan(out, images, retry_failed=True)) == 1
    assert run_shard(out).failed == 0
    assert results(out)[str(late)]["error"] is None


@pytest.mark.parametrize("rows_per_file", [1, 5, 12, 100])
def test_result_files_have_equal_length(images, out, rows_per_file, monkeypatch):
    monkeypatch.setattr(collecting, "BYTES_AT_ONCE", 2000)
    make_plan(out, images, task_images=4)
    run_shard(out)
    rows = results(out, rows_per_file=rows_per_file)
    index = json.loads((out / "results" / "_index.json").read_text())
    assert index["rows"] == len(rows) == 12
    lengths = [parquet.read_metadata(out / "results" / name).num_rows for name in index["files"]]
    assert lengths[:-1] == [rows_per_file] * (len(lengths) - 1)
    assert sum(lengths) == 12
    assert parquet.read_schema(out / "results" / index["files"][0]).equals(SCHEMA)


def test_another_job_in_the_same_folder_is_refused(images, out):
    make_plan(out, images)
    with pytest.raises(TreeformerError, match=r"holds a run with min_confidence None, not 0\.5"):
        make_plan(out, images, job=Job(model="fake", traits=False, min_confidence=0.5))
    with pytest.raises(TreeformerError, match="another model"):
        (out / "job.json").write_text((out / "job.json").read_text().replace(MODEL_HASH, "0" * 32))
        TaskRunner(Folder.at(str(out)), JOB, make_predictor=fake_predictor)


def test_a_failed_write_leaves_nothing(out):
    folder = Folder.at(str(out))
    with pytest.raises(ZeroDivisionError), folder.writing("a/b.txt") as file:
        file.write(b"half")
        1 / 0  # noqa: B018
    assert not folder.exists("a/b.txt")
    assert folder.names("a") == []


@pytest.mark.parametrize("place", ["file/traits.csv", "."])
def test_a_wrong_file_for_traits_does_not_cost_the_results(images, out, tmp_path, place):
    job = replace(JOB, traits=True)
    make_plan(out, images, job=job)
    run_shard(out, job=job)
    collecting.collect(Folder.at(str(out)))
    before = {path.name: path.read_bytes() for path in (out / "results").iterdir()}
    (tmp_path / "file").touch()
    with pytest.raises(TreeformerError, match=r"cannot be written to|is a folder"):
        collecting.collect(Folder.at(str(out)), traits=str(tmp_path / place))
    assert {path.name: path.read_bytes() for path in (out / "results").iterdir()} == before


@pytest.mark.parametrize(
    ("path", "name"),
    [("/a/b.png", "b.png"), ("/a/S.TAR::c/d.png", "d.png"), ("/a/s.tar::d.png", "d.png"), ("/a/b::2.png", "b::2.png")],
)
def test_a_table_of_traits_names_the_image(path, name):
    plant = dict.fromkeys(TRAITS) | {"plant": 0, "unit": "px"}
    row = {"id": "0" * 32, "path": path, "model_hash": "", "skeleton": b"", "traits": [plant], "error": None}
    table = collecting.traits_table(pa.Table.from_pylist([row], schema=SCHEMA))
    assert (table.column("image").to_pylist(), table.column("file").to_pylist()) == ([name], [path])
