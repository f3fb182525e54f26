"""Object storage, against a local server of moto: sources, results and files, and incomplete uploads."""

from __future__ import annotations

import io
import logging
import os
import tarfile
from importlib.util import find_spec

import pandas as pd
import pytest

pytest.importorskip("pyarrow")
if os.name == "nt":
    pytest.skip("clusters run Linux", allow_module_level=True)
if any(find_spec(name) is None for name in ("moto", "flask")):  # importing moto takes a second in every test process
    pytest.skip("moto[server] is not installed", allow_module_level=True)

from pyarrow import fs

from tests.inference.cluster_runs import fake_predictor, make_plan, plain_results, results, run_shard, write_images
from treeformer import FormatError
from treeformer.inference.cluster import storage
from treeformer.inference.cluster.job import Job
from treeformer.inference.cluster.sources import list_images
from treeformer.inference.cluster.storage import Folder
from treeformer.results.layout import SERIES_LIST

BUCKET = "plants"


@pytest.fixture(scope="module")
def bucket():
    """Return Arrow's file system of a server with one empty bucket. The environment names the server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "no_proxy": host,
        }.items():
            environment.setenv(name, value)
        storage._file_system.cache_clear()
        system = fs.S3FileSystem(
            region="us-east-1", endpoint_override=f"http://{host}:{port}", allow_bucket_creation=True
        )
        system.create_dir(BUCKET)
        yield system
        storage._file_system.cache_clear()
        server.stop()


@pytest.fixture
def uploaded(bucket, tmp_path, request):
    """Upload nine images, one of them broken; return the local folder and the address."""
    prefix = f"{BUCKET}/{request.node.name}/im äges #1"
    for file in write_images(tmp_path / "images", 9):
        with bucket.open_output_stream(f"{prefix}/day 2/{file.name}") as stream:
            stream.write(file.read_bytes())
    (tmp_path / "images" / "00004.png").write_bytes(b"broken")
    with bucket.open_output_stream(f"{prefix}/day 2/00004.png") as stream:
        stream.write(b"broken")
    with bucket.open_output_stream(f"{prefix}/notes.txt") as stream:
        stream.write(b"no image")
    return tmp_path / "images", f"s3://{prefix}"


def by_name(rows: dict[str, dict]) -> dict[str, bytes | None]:
    return {path.rpartition("/")[2].rpartition("::")[2]: row["skeleton"] for path, row in rows.items()}


@pytest.mark.slow
def test_images_and_results_in_object_storage(bucket, uploaded, tmp_path):
    local, source = uploaded
    output = source.rpartition("/")[0] + "/out"
    job = Job(model="fake", formats=("rsml",), overlay=True)
    make_plan(output, source, job=job, task_images=2)
    first = run_shard(output, "1/2", job=job)
    assert make_plan(output, source, job=job), "the other shard is left"
    second = run_shard(output, "2/2", job=job, workers=2)
    assert (first.images + second.images, first.failed + second.failed) == (9, 1)
    rows = results(output, traits=f"{output}/traits.csv")
    plain = plain_results(local, tmp_path / "plain", fake_predictor())
    expected = {path.rpartition("/")[2]: skeleton for path, skeleton in plain.items()} | {"00004.png": None}
    assert by_name(rows) == expected
    assert all(path.startswith(f"{source}/day 2/") for path in rows)
    stem = f"{output}/files/{source.removeprefix('s3://')}/day 2/00000.png"
    assert b"<rsml" in storage.read_bytes(f"{stem}.rsml")
    assert storage.read_bytes(f"{stem}.overlay.jpg")[:2] == b"\xff\xd8"
    assert len(pd.read_csv(io.BytesIO(storage.read_bytes(f"{output}/traits.csv")))) == 8


def test_figures_of_a_series_are_not_listed_in_object_storage(bucket, uploaded):
    _, source = uploaded
    expected = list(list_images([source]))
    results = f"{source.removeprefix('s3://')}/plate 7/results"
    for name in (SERIES_LIST, "lengths.png", "kymographs/1.1.png"):
        with bucket.open_output_stream(f"{results}/{name}") as stream:
            stream.write(b"figure")
    assert list(list_images([source])) == expected
    assert [entry.name for entry in list_images([f"s3://{results}"])] == ["1.1.png", "lengths.png"]


@pytest.mark.slow
def test_a_shard_of_tar_is_read_in_parts(bucket, uploaded, tmp_path):
    local, source = uploaded
    with tarfile.open(tmp_path / "0.tar", "w") as archive:
        archive.add(local, "plants")
    address = f"{source}/0.tar"
    with bucket.open_output_stream(address.removeprefix("s3://")) as stream:
        stream.write((tmp_path / "0.tar").read_bytes())
    make_plan(tmp_path / "out", address)
    assert run_shard(tmp_path / "out").failed == 1
    plain = plain_results(local, tmp_path / "plain", fake_predictor())
    found = {name: skeleton for name, skeleton in by_name(results(tmp_path / "out")).items() if skeleton}
    assert found == {path.rpartition("/")[2]: skeleton for path, skeleton in plain.items()}


@pytest.mark.slow
def test_lists_may_mix_disks_and_object_storage(uploaded, tmp_path):
    local, source = uploaded
    lines = [f"{source}/day 2/00000.png", f"{source}/none.png", str(local / "00001.png")]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    found = list(list_images([str(tmp_path / "list.txt")]))
    assert [entry.path for entry in found] == lines
    assert [entry.size for entry in found] == [
        (local / "00000.png").stat().st_size,
        -1,
        (local / lines[2]).stat().st_size,
    ]
    assert found[0].mtime > 0


@pytest.mark.slow
def test_results_below_the_images_are_not_images(uploaded):
    _, source = uploaded
    job = Job(model="fake", traits=False, overlay=True)
    for _ in range(2):
        make_plan(f"{source}/out", source, job=job)
        run_shard(f"{source}/out", job=job)
    assert len(results(f"{source}/out")) == 9


@pytest.mark.parametrize("source", ["s3://plants/none/", "s3://plants/none.png", "s3://no-such-bucket/a/", "x9://a/b"])
def test_what_is_not_there_is_one_line(bucket, source):
    with pytest.raises(FormatError) as error:
        list(list_images([source]))
    assert "\n" not in str(error.value)


def test_a_failed_upload_leaves_nothing(bucket):
    folder = Folder.at(f"s3://{BUCKET}/uploads/")
    folder.check_writable()
    with pytest.raises(ZeroDivisionError), folder.writing("a.bin") as file:
        file.write(b"half")
        1 / 0  # noqa: B018
    assert not folder.exists("a.bin")
    folder.write("a.bin", b"whole")
    assert folder.read("a.bin") == b"whole"
    assert folder.names("") == ["a.bin"]
    folder.delete("a.bin")
    folder.delete("a.bin")
    assert folder.names("") == []


@pytest.mark.slow
def test_a_bucket_that_refuses_is_one_line(uploaded):
    with pytest.raises(FormatError, match="cannot be written") as error:
        make_plan("s3://no-such-bucket/out", uploaded[1])
    assert "\n" not in str(error.value)
