"""Plans, tasks, shards and collected tables: every image once, whatever is killed, and equal to plain `predict`."""

from __future__ import annotations

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
if os.name == "nt":
    pytest.skip("clusters run Linux", allow_module_level=True)

import pyarrow as pa
from pyarrow import parquet

from tests.inference.cluster_runs import (
    JOB,
    MODEL_HASH,
    fake_predictor,
    make_plan,
    plain_results,
    results,
    run_shard,
    write_images,
)
from tests.test_cli import one_line, run  # noqa: F401
from treeformer import FormatError, TreeformerError
from treeformer.inference.cluster import collect as collecting
from treeformer.inference.cluster import manifest, storage
from treeformer.inference.cluster.job import Job, hash_settings
from treeformer.inference.cluster.manifest import ManifestReader, read_manifests
from treeformer.inference.cluster.rows import SCHEMA, TRAITS, file_name
from treeformer.inference.cluster.run import parse_shard
from treeformer.inference.cluster.sources import ImageEntry, list_images
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.cluster.worker import TaskRunner
from treeformer.traits import measure_files


@pytest.fixture
def images(tmp_path) -> Path:
    write_images(tmp_path / "im äges" / "day 2", 3)
    write_images(tmp_path / "im äges", 9)
    return tmp_path / "im äges"


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


# ---- sources -------------------------------------------------------------------------------------


def make_tar(path: Path, files: list[Path]) -> Path:
    with tarfile.open(path, "w") as archive:
        for file in files:
            archive.add(file, file.name)
            note = tarfile.TarInfo(f"{file.stem}.json")
            note.size = 2
            archive.addfile(note, io.BytesIO(b"{}"))
    return path


def test_a_folder_lists_the_images_that_predict_would(images, out):
    (images / "notes.md").write_text("no image")
    (images / ".hidden.png").write_bytes(b"")
    (images / "a.overlay.jpg").write_bytes(b"")
    found = list(list_images([str(images)]))
    from treeformer.inference.batch import plan

    assert [entry.path for entry in found] == [str(job.image) for job in plan([images], out)]
    for entry in found:
        status = Path(entry.path).stat()
        assert entry[1:] == (status.st_size, status.st_mtime_ns, -1)


def test_lists_and_tables_name_the_same_images(images, tmp_path):
    expected = sorted(list_images([str(images)]))
    lines = [os.path.relpath(entry.path, tmp_path) for entry in expected]
    (tmp_path / "list.txt").write_text("\n".join(lines[:4]) + "\r\n\n" + "\n".join(map(str, lines[4:])))
    pd.DataFrame({"path": lines, "note": 1}).to_csv(tmp_path / "table.csv", index=False)
    full = pd.DataFrame([entry[:3] for entry in expected], columns=["path", "size", "mtime"])
    full.to_csv(tmp_path / "full.csv", index=False)
    full.to_parquet(tmp_path / "full.parquet")
    full[["path"]].to_parquet(tmp_path / "paths.parquet")
    for name in ("list.txt", "table.csv", "full.csv", "full.parquet", "paths.parquet"):
        assert sorted(list_images([str(tmp_path / name)])) == expected, name


def test_members_of_a_tar_file_are_found_where_they_lie(images, tmp_path):
    files = sorted(images.glob("*.png"))
    shard = make_tar(tmp_path / "0001.tar", files)
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


# ---- ids and manifests ---------------------------------------------------------------------------


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


few_ids = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)).map(lambda ab: b"%08d%08d" % ab), max_size=12)


@given(st.lists(few_ids, max_size=3), few_ids)
def test_new_ids_are_those_of_a_set(chunks, known):
    """Compare with a set; half of an id may be shared by different ids."""
    kind = pa.binary(manifest.ID_BYTES)
    seen, expected = set(known), []
    for id_ in (id_ for chunk in chunks for id_ in chunk):
        expected.append(id_ not in seen)
        seen.add(id_)
    columns = pa.chunked_array([pa.array(chunk, type=kind) for chunk in chunks], type=kind)
    new = manifest._is_new(columns, pa.chunked_array([pa.array(known, type=kind)], type=kind))
    assert new.tolist() == expected


@pytest.mark.parametrize("task_images", [1, 3, 7, 100])
def test_tasks_divide_a_manifest_into_its_rows(out, monkeypatch, task_images):
    monkeypatch.setattr(manifest, "ROWS_PER_GROUP", 5)
    folder = Folder.at(str(out))
    manifest_of(folder)
    images = [ImageEntry(f"/{k // 2:03d}.png", k // 2, 0) for k in range(60)]  # each twice
    images[7] = images[7]._replace(path="/\udce4.png")
    added = manifest.add_images(folder, iter(images), task_images=task_images)
    unique = list(dict.fromkeys(images))
    assert read_manifests(folder) == [added]
    assert added.count == len(unique)
    reader = ManifestReader(folder)
    rows = [row for task in added.tasks() for row in reader.images(task)]
    assert [image for _, image in rows] == unique
    random.Random(0).shuffle(tasks := added.tasks())
    for task in tasks:
        assert reader.images(task) == rows[task.start : task.start + task.count]
    assert manifest.add_images(folder, iter(unique)) is None, "nothing is new"
    second = manifest.add_images(folder, [*unique, ImageEntry("/new.png", 1, 1), unique[0]._replace(mtime=9)])
    assert second.count == 2
    assert [one.name for one in read_manifests(folder)] == [added.name, second.name]


def manifest_of(folder: Folder) -> None:
    from treeformer.inference.cluster.job import open_job

    open_job(folder, JOB, MODEL_HASH)


@pytest.mark.slow
def test_few_images_make_many_tasks_and_many_images_tasks_of_256(out):
    folder = Folder.at(str(out))
    manifest_of(folder)
    small = manifest.add_images(folder, (ImageEntry(f"/{k}.png", 1, 0) for k in range(300)))
    assert (small.task_images, len(small.tasks())) == (2, 150)
    large = manifest.add_images(folder, (ImageEntry(f"/l{k}.png", 1, 0) for k in range(70_000)))
    assert (large.task_images, len(large.tasks())) == (256, 274)


# ---- prediction in shards ------------------------------------------------------------------------


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


def test_tar_members_and_lists_give_the_same_skeletons(images, out, tmp_path):
    files = sorted(images.glob("*.png"))
    make_plan(out, make_tar(tmp_path / "s.tar", files[:5]), *files[5:])
    run_shard(out)
    plain = plain_results(images, tmp_path / "plain", fake_predictor())
    by_name = {path.rpartition("/")[2].rpartition("::")[2]: row["skeleton"] for path, row in results(out).items()}
    assert by_name == {file.name: plain[str(file)] for file in files}


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


# ---- collecting ----------------------------------------------------------------------------------


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
    assert not (out / "results" / "index.json").exists()
    assert run_shard(out).images == 5
    assert results(out) == whole


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


@pytest.mark.parametrize("rows_per_file", [1, 5, 12, 100])
def test_result_files_have_equal_length(images, out, rows_per_file, monkeypatch):
    monkeypatch.setattr(collecting, "BYTES_AT_ONCE", 2000)
    make_plan(out, images, task_images=4)
    run_shard(out)
    rows = results(out, rows_per_file=rows_per_file)
    index = json.loads((out / "results" / "index.json").read_text())
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


# ---- the command line ----------------------------------------------------------------------------


@pytest.fixture
def fake_model(monkeypatch):
    monkeypatch.setattr("treeformer.inference.cluster.worker.Predictor", lambda *_, **__: fake_predictor())
    monkeypatch.setattr("treeformer.inference.cluster.run.open_model", lambda _: fake_predictor().model)


@pytest.mark.slow
def test_plan_shards_and_collect(run, images, out, tmp_path, fake_model):  # noqa: F811
    code, _, err = run("predict-cluster", images, "-o", out, "--plan-only", "--task-images", 5)
    assert (code, one_line(err)) == (0, f"12 images to be predicted, in 3 tasks, in {out}")
    assert "2 images" in one_line(run("predict-cluster", "-o", out, "--shard", "3/3")[2])
    code, _, err = run("collect", out)
    assert (code, one_line(err)) == (
        2,
        f"treeformer: {out}: 10 images have no result yet: run predict-cluster again",
    )
    assert "10 images" in one_line(run("predict-cluster", images, "-o", out, "--shard", "1/1")[2])
    code, _, err = run("collect", out, "--traits", tmp_path / "t.csv")
    assert (code, one_line(err)) == (0, f"12 images in {out}/results")
    assert len(pd.read_csv(tmp_path / "t.csv")) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.png", "--shard", "1/1"), "none.png: no such file"),
        (("--shard", "1/1"), "there is no job.json"),
        ((".", "--shard", "2/1"), "i/n"),
        ((".", "--shard", "1/1", "--address", "auto"), "without Ray"),
        ((".", "--shard", "1/1", "--format", "jpeg"), "unknown format"),
        ((".", "--shard", "1/1", "--working-size", "big"), "--working-size"),
        ((".", "--shard", "1/1", "--px-per-mm", "0"), "px_per_mm"),
        ((".", "--shard", "1/1", "--min-confidence", "7"), "confidence"),
    ],
)
def test_a_mistake_is_one_line(run, images, monkeypatch, fake_model, arguments, message):  # noqa: F811
    monkeypatch.chdir(images)
    code, _, err = run("predict-cluster", *arguments, "-o", "out")
    assert code == 2
    assert message in one_line(err)


def test_collecting_nothing_is_one_line(run, tmp_path):  # noqa: F811
    code, _, err = run("collect", tmp_path)
    assert code == 2
    assert "there is no job.json" in one_line(err)


def test_a_missing_package_is_one_line(run, images, monkeypatch):  # noqa: F811
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = run("predict-cluster", images, "-o", "out")
    assert code == 2
    assert "pip install 'treeformer[ray]'" in one_line(err)


def test_the_commands_in_the_guide_exist():
    """Every `treeformer` command in docs/cluster.md, in scripts and manifests too, has known options."""
    import typer.main
    from typer.core import TyperGroup

    from treeformer.cli import app

    text = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    joined = re.sub(r"\\?\n +(?=--|treeformer)", " ", blocks)
    uses = re.findall(r"treeformer (predict-cluster|collect)\b([^\n\"#]*)", joined)
    assert len(uses) >= 10
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, rest in uses:
        known = {option for parameter in group.commands[name].params for option in parameter.opts}
        used = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest.partition(" --wrap")[0]))
        assert used <= known, (name, used - known)
    manifest = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    cluster = manifest["spec"]["rayClusterSpec"]
    assert [group["groupName"] for group in cluster["workerGroupSpecs"]] == ["gpu"]
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}, "no actor on the head node"


# ---- kills ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_shards_continue(tmp_path, out):
    write_images(tmp_path / "images", 40)
    make_plan(out, tmp_path / "images", task_images=3)
    environment = os.environ | {"TEST_ENGINE_SECONDS": "0.02"}
    folder = out / "parts"
    for kill_after in (1, 4, 9):
        command = [sys.executable, "-m", "tests.inference.cluster_runs", "1/1", str(out)]
        process = subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2])
        while process.poll() is None and (not folder.is_dir() or len(list(folder.iterdir())) < kill_after):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    run_shard(out)
    rows = results(out)
    plain = plain_results(tmp_path / "images", tmp_path / "plain", fake_predictor())
    assert {path: row["skeleton"] for path, row in rows.items()} == plain
