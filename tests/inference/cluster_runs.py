"""Runs of the cluster code with a test engine, for the tests and for the processes that they start and kill.

`python -m tests.inference.cluster_runs ADDRESS OUTPUT` continues the plan in OUTPUT: with the Ray cluster at ADDRESS,
or as a shard if ADDRESS is of the form i/n.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from tests.inference.fake_engine import ColorEngine, drawn, predictor, random_tree
from treeformer.inference.batch import plan as plan_files
from treeformer.inference.batch import predict_files
from treeformer.inference.cluster.collect import collect, read_results
from treeformer.inference.cluster.job import Job
from treeformer.inference.cluster.run import parse_shard, plan, predict_shard
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.predictor import Predictor
from treeformer.inference.provenance import model_hash

SIDE = 64
TREE = random_tree(seed=1, count=8, size=(SIDE, SIDE), longest_edge=40)
JOB = Job(model="fake", traits=False)


class SlowEngine(ColorEngine):
    """Find the nodes of `TREE`; wait before each image, so that a kill finds unfinished work."""

    def __call__(self, images):
        time.sleep(float(os.environ.get("TEST_ENGINE_SECONDS", "0")))
        return super().__call__(images)


def fake_predictor(job: Job = JOB, threads: int | None = None) -> Predictor:
    return predictor(SlowEngine(TREE, SIDE))


MODEL_HASH = model_hash(fake_predictor().model)


def write_images(folder: Path, count: int) -> list[Path]:
    """Write images that all differ: each lacks other nodes of `TREE`."""
    folder.mkdir(parents=True, exist_ok=True)
    column, row = np.floor(TREE.nodes).astype(int).T
    paths = []
    for number in range(count):
        image = drawn(TREE)
        hidden = [k for k in range(len(TREE)) if number >> k & 1]
        image[row[hidden], column[hidden]] = 255
        image[0, 0] = number % 251, number // 251 % 251, 5
        paths.append(folder / f"{number:05d}.png")
        Image.fromarray(image).save(paths[-1], compress_level=1)
    return paths


def make_tar(path: Path, files: list[Path]) -> Path:
    """Write a tar file of images, each followed by a JSON file."""
    with tarfile.open(path, "w") as archive:
        for file in files:
            archive.add(file, file.name)
            note = tarfile.TarInfo(f"{file.stem}.json")
            note.size = 2
            archive.addfile(note, io.BytesIO(b"{}"))
    return path


def make_plan(output: str | Path, *sources: str | Path, job: Job = JOB, **options):
    return plan(Folder.at(str(output)), job, [str(source) for source in sources], model_hash=MODEL_HASH, **options)


def run_shard(output: str | Path, shard: str = "1/1", job: Job = JOB, tasks=None, **options):
    """Continue the plan in a folder with the test engine."""
    folder = Folder.at(str(output))
    tasks = make_plan(output, job=job) if tasks is None else tasks
    options = {"make_predictor": fake_predictor, "workers": 0} | options
    return predict_shard(folder, job, tasks, parse_shard(shard), **options)


def results(output: str | Path, **options) -> dict[str, dict]:
    """Collect a run. Return its rows by path; every path must occur once."""
    folder = Folder.at(str(output))
    report = collect(folder, **options)
    rows = [row for batch in read_results(folder) for row in batch.to_pylist()]
    by_path = {row["path"]: row for row in rows}
    assert len(rows) == len(by_path) == report.images
    assert len({row["id"] for row in rows}) == len(rows)
    return by_path


def plain_results(
    source: Path, output: Path, model: Predictor, px_per_mm: float | None = None, **options
) -> dict[str, bytes]:
    """Predict a folder as `treeformer predict` does. Return the JSON files by the path of the image."""
    jobs = plan_files([source], output, px_per_mm=px_per_mm)
    predict_files(jobs, model, workers=0, **options)
    return {str(job.image.absolute()): job.skeletons["json"].read_bytes() for job in jobs if job.is_done()}


def main() -> None:
    address, output = sys.argv[1:]
    tasks = make_plan(output)
    if "/" in address:
        run_shard(output, address, tasks=tasks)
        return
    from treeformer.inference.cluster.ray_run import connection, predict_with_ray

    options = {"cpus_per_actor": 0.5, "workers": 0, "make_predictor": fake_predictor}
    with connection(address):
        print(predict_with_ray(Folder.at(output), JOB, tasks, **options))


if __name__ == "__main__":
    main()
