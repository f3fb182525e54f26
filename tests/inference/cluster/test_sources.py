"""Sources, ids and manifests: every image is listed once, in folders, lists and tar files."""

from __future__ import annotations

import json
import os
import random
import tarfile
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import pyarrow as pa
from pyarrow import parquet

from tests.inference.cluster_runs import (
    JOB,
    MODEL_HASH,
    fake_predictor,
    make_plan,
    make_tar,
    plain_results,
    results,
    run_shard,
)
from treeformer import FormatError, TreeformerError
from treeformer.hub.model_folder import CONFIG, WEIGHTS
from treeformer.inference.batch import plan
from treeformer.inference.cluster import manifest, storage
from treeformer.inference.cluster.job import Job, hash_settings
from treeformer.inference.cluster.manifest import ManifestReader, read_manifests
from treeformer.inference.cluster.sources import ImageEntry, list_images
from treeformer.inference.cluster.storage import Folder
from treeformer.results.layout import SERIES_LIST


def test_a_folder_lists_the_images_that_predict_would(images, out):
    (images / "notes.md").write_text("no image")
    (images / ".hidden.png").write_bytes(b"")
    (images / "a.overlay.jpg").write_bytes(b"")
    found = list(list_images([str(images)]))
    assert [entry.path for entry in found] == [str(job.image) for job in plan([images], out)]
    for entry in found:
        status = Path(entry.path).stat()
        assert entry[1:] == (status.st_size, status.st_mtime_ns, -1)


def test_figures_of_a_series_and_of_a_model_are_not_listed(images, out):
    expected = list(list_images([str(images)]))
    results, model = images / "plate 7" / "results", images / "model"
    for file in (
        results / SERIES_LIST,
        results / "lengths.png",
        results / "kymographs" / "1.1.png",
        model / WEIGHTS,
        model / CONFIG,
        model / "accuracy.png",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    assert list(list_images([str(images)])) == expected
    assert [str(job.image) for job in plan([images], out)] == [entry.path for entry in expected]
    # A folder that is given by name is searched.
    assert [entry.name for entry in list_images([str(results)])] == ["lengths.png", "1.1.png"]


def test_lists_and_tables_name_the_same_images(images, tmp_path):
    expected = sorted(list_images([str(images)]))
    lines = [os.path.relpath(entry.path, tmp_path) for entry in expected]
    (tmp_path / "list.txt").write_text("\n".join(lines[:4]) + "\r\n\n" + "\n".join(map(str, lines[4:])))
    pd.DataFrame({"path": lines, "note": 1}).to_csv(tmp_path / "table.csv", index=False)
    full = pd.DataFrame([entry[:3] for entry in expected], columns=["path", "size", "mtime"])
    full.to_csv(tmp_path / "full.csv", index=False)
    for name in ("list.txt", "table.csv"):
        (tmp_path / f"windows-{name}").write_bytes(b"\xef\xbb\xbf" + (tmp_path / name).read_bytes())
    full.to_parquet(tmp_path / "full.parquet")
    full[["path"]].to_parquet(tmp_path / "paths.parquet")
    names = ("list.txt", "table.csv", "full.csv", "full.parquet", "paths.parquet")
    for name in (*names, "windows-list.txt", "windows-table.csv"):
        assert sorted(list_images([str(tmp_path / name)])) == expected, name


@pytest.mark.parametrize("name", ["0001.tar", "0001.TAR", "a.tar.gz::b.tar"])
def test_members_of_a_tar_file_are_found_where_they_lie(images, tmp_path, name):
    files = sorted(images.glob("*.png"))
    shard = make_tar(tmp_path / name, files)
    found = list(list_images([str(shard)]))
    assert [entry.path for entry in found] == [f"{shard}::{file.name}" for file in files]
    for entry, file in zip(found, files, strict=True):
        assert (entry.file, entry.name) == (str(shard), file.name)
        assert storage.read_bytes(entry.file, entry.offset, entry.size) == file.read_bytes()
    assert next(list_images([str(tmp_path)])).path.startswith(str(shard)), "shards in folders are found"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.png", None, "no such file"),
        ("none", None, "no such file"),
        ("empty/", b"", "contains no image"),
        ("empty.txt", b"\n", "contains no image"),
        ("a.csv", b"file\na.png\n", "no column 'path'"),
        ("a.csv", b'path,size\n"a.png",many\n', "not a readable CSV"),
        ("a.parquet", b"PAR1", "not a readable Parquet"),
        ("a.tar", b"x" * 2000, "not a readable tar"),
        ("a.tar.gz", b"x", "unpack"),
        ("none.txt", None, "no such file"),
    ],
)
def test_a_source_that_cannot_be_read_is_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(FormatError, match=message) as error:
        list(list_images([str(path)]))
    assert "\n" not in str(error.value)


def write_table(target: Path, **columns) -> Path:
    parquet.write_table(pa.table(columns), target)
    return target


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"path": [1, 2]}, "the column 'path' must be text, not int64"),
        ({"path": [["a.png"], []]}, "the column 'path' must be text, not list"),
        ({"path": ["a.png", None]}, "the column 'path' has empty cells"),
        ({"path": pa.nulls(2)}, "the column 'path' has empty cells"),
        ({"size": ["1", "many"]}, "the column 'size' must be whole numbers"),
        ({"size": [11430.5, 1.0]}, "the column 'size' must be whole numbers"),
        ({"size": [float("inf"), 1.0]}, "the column 'size' must be whole numbers"),
        ({"size": [[1], [2]]}, "the column 'size' must be whole numbers"),
        ({"mtime": ["yesterday", "1"]}, "the column 'mtime' must be whole numbers"),
        ({"mtime": [0.5, 1.0]}, "the column 'mtime' must be whole numbers"),
    ],
)
def test_a_column_of_another_type_is_one_line(tmp_path, columns, message):
    table = write_table(
        tmp_path / "a.parquet", **({"path": ["a.png", "b.png"], "size": [1, 2], "mtime": [3, 4]} | columns)
    )
    with pytest.raises(FormatError, match=message) as error:
        list(list_images([str(table)]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "content"), [("a.csv", "path,path\na.png,b.png\n"), ("a.parquet", None)])
def test_a_repeated_column_is_one_line(tmp_path, name, content):
    if content is None:
        parquet.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["path", "path"]), tmp_path / name)
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(FormatError, match="there are several columns 'path'"):
        list(list_images([str(tmp_path / name)]))


def test_columns_of_similar_types_are_converted(tmp_path):
    """Bytes may be any file name; NaN is an empty cell, as in tables that pandas wrote."""
    texts = pa.array(["a.png", "b.png"])
    for paths in (texts, texts.cast(pa.large_string()), texts.cast(pa.binary()), texts.dictionary_encode()):
        table = write_table(tmp_path / "a.parquet", path=paths, size=[1.0, float("nan")], mtime=["3", "4"])
        assert list(list_images([str(table)])) == [
            ImageEntry(f"{tmp_path}/a.png", 1, 3),
            ImageEntry(f"{tmp_path}/b.png", -1, 4),
        ]
    table = write_table(tmp_path / "b.parquet", path=pa.array([b"\xe4.png"]))
    assert [entry.path for entry in list_images([str(table)])] == [f"{tmp_path}/\udce4.png"]


def test_a_name_with_a_nul_character_is_a_missing_file(tmp_path):
    (tmp_path / "list.txt").write_bytes(b"a\0b.png\n")
    assert [entry.size for entry in list_images([str(tmp_path / "list.txt")])] == [-1]


def test_an_id_depends_on_path_size_time_place_and_settings():
    image = ImageEntry("/a/b.png", 10, 20, 30)
    others = [
        ImageEntry("/a/c.png", 10, 20, 30),
        *(image._replace(**{name: 5}) for name in ("size", "mtime", "offset")),
    ]
    ids = {manifest.image_id(one, b"key") for one in (image, *others)} | {manifest.image_id(image, b"other")}
    assert len(ids) == 6
    assert manifest.image_id(image, b"key") == manifest.image_id(ImageEntry(*image), b"key")
    assert all(len(id_) == manifest.ID_BYTES for id_ in ids)
    settings = [JOB.settings("0"), JOB.settings("1"), Job(model="fake", traits=False, min_confidence=0.4).settings("0")]
    assert len({hash_settings(one) for one in settings}) == 3


few_paths = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=12)


@given(few_paths, st.integers(1, 4))
def test_the_last_row_of_each_path_counts(paths, number_of_hashes):
    """Compare with a dictionary; different paths may share a hash."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "ROWS_PER_GROUP", 5)
        spool = Path(folder, "rows.parquet")
        parquet.write_table(pa.table({"path": pa.array(paths, pa.binary())}), spool)
        hashes = np.array([path[0] % number_of_hashes for path in paths], dtype=int)
        last = manifest._is_last(hashes, spool)
    row_of = {path: row for row, path in enumerate(paths)}
    assert np.flatnonzero(last).tolist() == sorted(row_of.values())


def test_a_path_that_is_named_twice_is_one_image(images, out, tmp_path):
    """Also if a table states another size or time, or a tar file holds several members of one name."""
    files = sorted(images.glob("*.png"))
    full = pd.DataFrame([entry[:3] for entry in list_images([str(images)])], columns=["path", "size", "mtime"])
    full.assign(mtime=5).to_csv(tmp_path / "table.csv", index=False)
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        for file in files[:2]:
            archive.add(file, "a.png")
    sources = (images, tmp_path / "table.csv", tmp_path / "s.tar")
    make_plan(out, *sources)
    run_shard(out)
    found = results(out)  # checks that each path occurs once
    assert len(found) == len(full) + 1
    replaced = next(row for path, row in found.items() if "::" in path)
    plain = plain_results(images, tmp_path / "plain", fake_predictor())
    nodes = [json.loads(text)["nodes"] for text in (replaced["skeleton"], plain[str(files[1])])]
    assert nodes[0] == nodes[1], "the last member replaces those before it, as in tar"
    assert make_plan(out, *sources) == [], "the same command finds nothing new"


@pytest.mark.parametrize("task_images", [1, 3, 7, 100])
def test_tasks_divide_a_manifest_into_its_rows(out, monkeypatch, task_images):
    monkeypatch.setattr(manifest, "ROWS_PER_GROUP", 5)
    folder = Folder.at(str(out))
    key = start_job(folder)
    images = [ImageEntry(f"/{k // 2:03d}.png", k // 2, 0) for k in range(60)]  # each twice
    images[7] = images[7]._replace(path="/\udce4.png")
    added = manifest.add_images(folder, iter(images), key, task_images=task_images)
    unique = list(dict.fromkeys(images))
    assert read_manifests(folder) == [added]
    assert added.count == len(unique)
    reader = ManifestReader(folder)
    rows = [row for task in added.tasks() for row in reader.images(task)]
    assert [image for _, image in rows] == unique
    random.Random(0).shuffle(tasks := added.tasks())
    for task in tasks:
        assert reader.images(task) == rows[task.start : task.start + task.count]
    assert manifest.add_images(folder, iter(unique), key) is None, "nothing is new"
    second = manifest.add_images(folder, [*unique, ImageEntry("/new.png", 1, 1), unique[0]._replace(mtime=9)], key)
    assert second.count == 2
    assert [one.name for one in read_manifests(folder)] == [added.name, second.name]


def start_job(folder: Folder) -> bytes:
    from treeformer.inference.cluster.job import open_job

    return open_job(folder, JOB, MODEL_HASH)


def test_settings_that_change_while_images_are_listed_are_one_line(out):
    """Otherwise results of different settings would mix: settings without a plan may be replaced."""
    from treeformer.inference.cluster.job import open_job

    folder = Folder.at(str(out))
    key = open_job(folder, JOB, MODEL_HASH)

    def images():
        yield ImageEntry("/a.png", 1, 0)
        open_job(folder, JOB, "the hash of another model")

    with pytest.raises(TreeformerError, match="a run with other settings has started here"):
        manifest.add_images(folder, images(), key)
    assert read_manifests(folder) == []


def test_two_jobs_that_start_in_the_same_moment_do_not_mix(images, out, monkeypatch):
    """Both find no plan and store their settings. The one whose settings were replaced must not use those."""
    from treeformer.inference.cluster import job

    both = threading.Barrier(2)
    open_job = job.open_job

    def open_together(*arguments):
        key = open_job(*arguments)
        both.wait()
        return key

    monkeypatch.setattr(job, "open_job", open_together)
    plans, errors = [], []

    def start(settings):
        try:
            plans.append((settings, make_plan(out, images, job=settings)))
        except TreeformerError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=start, args=(one,)) for one in (JOB, replace(JOB, min_confidence=0.9))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [(winner, tasks)], [error] = plans, errors
    assert error.endswith("a run with other settings has started here: choose another output")
    assert json.loads((out / "job.json").read_bytes())["min_confidence"] == winner.min_confidence
    assert len(tasks) == sum(len(one.tasks()) for one in read_manifests(Folder.at(str(out))))


@pytest.mark.slow
def test_few_images_make_many_tasks_and_many_images_tasks_of_256(out):
    folder = Folder.at(str(out))
    key = start_job(folder)
    small = manifest.add_images(folder, (ImageEntry(f"/{k}.png", 1, 0) for k in range(300)), key)
    assert (small.task_images, len(small.tasks())) == (2, 150)
    large = manifest.add_images(folder, (ImageEntry(f"/l{k}.png", 1, 0) for k in range(70_000)), key)
    assert (large.task_images, len(large.tasks())) == (256, 274)
