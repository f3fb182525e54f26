"""Prediction in shards: every image once, whatever is killed, and equal to plain `predict`."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("pyarrow")


from tests.inference.cluster_runs import (
    MODEL_HASH,
    fake_predictor,
    make_plan,
    make_tar,
    plain_results,
    results,
    run_shard,
    write_images,
)
from treeformer import TreeformerError
from treeformer.inference.cluster.job import Job
from treeformer.inference.cluster.rows import TRAITS, file_name
from treeformer.inference.cluster.run import parse_shard
from treeformer.inference.cluster.sources import ImageEntry
from treeformer.traits import measure_files


@pytest.mark.slow
def test_results_are_those_of_predict(images, out, tmp_path):
    make_plan(out, images)
    assert run_shard(out).images == 12
    rows = results(out)
    plain = plain_results(images, tmp_path / "plain", fake_predictor())
    assert {path: row["skeleton"] for path, row in rows.items()} == plain
    assert len(set(plain.values())) == 9, "images of different names differ"
    assert {row["model_hash"] for row in rows.values()} == {MODEL_HASH}
    assert all(row["error"] is None for row in rows.values())


@pytest.mark.slow
def test_the_resolution_is_stored_as_in_predict(images, out, tmp_path):
    job = Job(model="fake", px_per_mm=11.8)
    make_plan(out, images, job=job)
    run_shard(out, job=job)
    plain = plain_results(images, tmp_path / "plain", fake_predictor(), px_per_mm=11.8)
    assert {path: row["skeleton"] for path, row in results(out).items()} == plain
    assert all(b'"11.8"' in skeleton for skeleton in plain.values())


@pytest.mark.slow
def test_several_views_as_in_predict(images, out, tmp_path):
    job = Job(model="fake", traits=False, views=3)
    make_plan(out, images, job=job)
    run_shard(out, job=job)
    plain = plain_results(images, tmp_path / "plain", fake_predictor(), views=3)
    assert {path: row["skeleton"] for path, row in results(out).items()} == plain
    assert all(b'"views"' in skeleton for skeleton in plain.values())
    with pytest.raises(TreeformerError, match="holds a run with views 3, not 1"):
        make_plan(out)


def test_views_that_fail_as_a_stream_are_predicted_image_by_image(images, out):
    def breaks_in_a_stream(job, threads):
        model = fake_predictor()
        predict_many = model.predict_many

        def break_streams(paths, **options):
            paths = list(paths)
            if len(paths) > 1:
                raise MemoryError
            yield from predict_many(paths, **options)

        model.predict_many = break_streams
        return model

    job = Job(model="fake", traits=False, views=2)
    make_plan(out, images, job=job)
    run_shard(out, job=job, make_predictor=breaks_in_a_stream)
    assert all(b'"views"' in row["skeleton"] for row in results(out).values())


def test_a_number_of_views_out_of_range_is_refused_at_once(images, out):
    with pytest.raises(TreeformerError, match="number of views"):
        make_plan(out, images, job=Job(model="fake", views=7))
    assert not out.exists()


def test_tar_members_and_lists_give_the_same_skeletons(images, out, tmp_path):
    files = sorted(images.glob("*.png"))
    make_plan(out, make_tar(tmp_path / "s.tar", files[:5]), *files[5:])
    run_shard(out)
    plain = plain_results(images, tmp_path / "plain", fake_predictor())
    by_name = {path.rpartition("/")[2].rpartition("::")[2]: row["skeleton"] for path, row in results(out).items()}
    assert by_name == {file.name: plain[str(file)] for file in files}


def test_a_member_whose_name_is_too_long_for_a_file_is_a_row_with_an_error(images, out, tmp_path):
    file = images / "00000.png"
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        for name in ("long" * 70 + ".png", "short.png"):
            archive.add(file, name)
    make_plan(out, tmp_path / "s.tar")
    assert run_shard(out).failed == 1
    long, short = results(out).values()
    assert (long["error"], short["error"]) == ("its name is too long for a file", None)


@pytest.mark.parametrize("options", [{"overlay": True}, {"formats": ("rsml",)}])
def test_a_name_that_is_too_long_for_a_file_beside_the_table_is_a_row_with_an_error(images, out, options):
    job = Job(model="fake", traits=False, **options)
    file = images / "00000.png"
    file.rename(file.with_stem("l" * 251))
    make_plan(out, images, job=job)
    assert run_shard(out, job=job).failed == 1
    [row] = [row for row in results(out).values() if row["error"]]
    assert (row["error"], row["skeleton"]) == ("its name is too long for a file", None)


@pytest.mark.parametrize("workers", [0, 3])
def test_an_unreadable_image_is_a_row_with_an_error(images, out, tmp_path, workers):
    (images / "broken.png").write_bytes(b"\x89PNG garbage")
    (tmp_path / "list.txt").write_text(f"{images}/gone.png\n{images}/00000.png\n{images}/gone too.png")
    make_plan(out, tmp_path / "list.txt", images, task_images=4)
    changed = images / "00003.png"
    changed.write_bytes(changed.read_bytes() + b"more")
    report = run_shard(out, workers=workers)
    assert (report.images, report.failed) == (15, 4)
    errors = {Path(path).name: row["error"] for path, row in results(out).items() if row["error"]}
    assert errors.keys() == {"gone.png", "gone too.png", "broken.png", "00003.png"}
    assert errors["gone.png"] == "no such file"
    assert errors["broken.png"] == "not an image in a known format"
    assert "changed since it was listed" in errors["00003.png"]


def test_an_image_that_breaks_the_engine_is_a_row_with_an_error(images, out):
    class Fragile:
        def __init__(self, engine):
            self.engine = engine

        def __getattr__(self, name):
            return getattr(self.engine, name)

        def __call__(self, pixels):
            if (pixels[0, 0, 0] == (4, 0, 5)).all():
                raise MemoryError("too large")
            return self.engine(pixels)

    def fragile(job, threads):
        model = fake_predictor()
        model.engine = Fragile(model.engine)
        return model

    make_plan(out, images, task_images=3)
    assert run_shard(out, make_predictor=fragile).failed == 1
    errors = [row for row in results(out).values() if row["error"]]
    assert [(Path(row["path"]).name, row["error"]) for row in errors] == [
        ("00004.png", "prediction failed: MemoryError: too large")
    ]


def test_shards_have_no_image_in_common_and_merge(images, out):
    make_plan(out, images, task_images=2)
    counts = []
    for shard in ("2/3", "1/3"):
        counts.append(run_shard(out, shard).images)
    with pytest.raises(TreeformerError, match=f"{12 - sum(counts)} images have no result yet"):
        results(out)
    assert len(results(out, partial=True)) == sum(counts) < 12
    # The number of shards may change: what has no result yet is done.
    counts += [run_shard(out, "1/2").images, run_shard(out, "2/2").images]
    assert sum(counts) == 12
    assert len(results(out)) == 12
    assert run_shard(out).images == 0


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/3/5", ""])
def test_a_wrong_shard_is_one_line(text):
    with pytest.raises(TreeformerError, match="i/n"):
        parse_shard(text)


def test_a_run_that_is_stopped_anywhere_continues(images, out):
    class StoppedError(Exception):
        pass

    def stop(done, total):
        if random.random() < 0.4:
            raise StoppedError

    make_plan(out, images, task_images=2)
    rounds = 0
    while make_plan(out, images):
        rounds += 1
        try:
            run_shard(out, progress=stop)
        except StoppedError:
            continue
    assert len(results(out)) == 12
    assert rounds >= 1


def test_no_temporary_copy_stays(images, out, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    make_plan(out, make_tar(tmp_path / "s.tar", sorted(images.glob("*.png"))))
    run_shard(out)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.slow
def test_formats_and_overlays_lie_in_the_same_storage(images, out, tmp_path):
    job = Job(model="fake", formats=("rsml", "json", "coco"), overlay=True, px_per_mm=2.0)
    make_plan(out, images, job=job)
    run_shard(out, job=job)
    for path, row in results(out).items():
        stem = out / "files" / path.removeprefix("/")
        assert Path(f"{stem}.json").read_bytes() == row["skeleton"]
        for ending in (".rsml", ".coco.json", ".overlay.jpg"):
            assert Path(f"{stem}{ending}").stat().st_size > 100


def test_file_names_stay_in_the_folder_and_differ():
    paths = ["/a/b.png", "/a/b.jpg", "s3://bucket/a/b.png", "/x/../../b.png"]
    names = [file_name(ImageEntry(path, 0, 0), ".rsml") for path in paths]
    names.append(file_name(ImageEntry("/a/s.tar::b.png", 0, 0, 5), ".rsml"))
    assert names == [
        "files/a/b.png.rsml",
        "files/a/b.jpg.rsml",
        "files/bucket/a/b.png.rsml",
        "files/x/b.png.rsml",
        "files/a/s.tar/b.png.rsml",
    ]


@pytest.mark.slow
def test_traits_are_those_of_predict(images, out, tmp_path):
    from PIL import Image

    Image.new("RGB", (64, 64), "white").save(images / "blank.png")
    job = Job(model="fake", px_per_mm=2.0)
    make_plan(out, images, job=job)
    run_shard(out, job=job)
    rows = results(out, traits=str(tmp_path / "t" / "traits.csv"))
    table = pd.read_csv(tmp_path / "t" / "traits.csv")
    plain_results(images, tmp_path / "plain", fake_predictor())
    expected, failures = measure_files(sorted((tmp_path / "plain").rglob("*.json")), px_per_mm=2.0)
    assert not failures
    expected.to_csv(tmp_path / "expected.csv", index=False)
    order = ["image", "total_length"]
    left = table.drop(columns="file").sort_values(order, ignore_index=True)
    right = pd.read_csv(tmp_path / "expected.csv").drop(columns="file").sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(left, right, check_dtype=False)
    assert set(table["file"]) == set(rows)
    assert [len(row["traits"]) for row in rows.values()] == [1] * 13
    assert tuple(name for name in table if name not in ("image", "file")) == TRAITS


@pytest.mark.slow
def test_killed_shards_continue(tmp_path, out):
    write_images(tmp_path / "images", 40)
    make_plan(out, tmp_path / "images", task_images=3)
    environment = os.environ | {"TEST_ENGINE_SECONDS": "0.02"}
    folder = out / "parts"
    for kill_after in (1, 4, 9):
        command = [sys.executable, "-m", "tests.inference.cluster_runs", "1/1", str(out)]
        process = subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[3])
        while process.poll() is None and (not folder.is_dir() or len(list(folder.iterdir())) < kill_after):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    run_shard(out)
    rows = results(out)
    plain = plain_results(tmp_path / "images", tmp_path / "plain", fake_predictor())
    assert {path: row["skeleton"] for path, row in rows.items()} == plain
