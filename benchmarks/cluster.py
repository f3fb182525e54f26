"""Overhead of `predict-cluster` over `predict`, memory per model, and the cost of a resume with millions of ids.

    PYTHONPATH=src:. python benchmarks/cluster.py throughput --images 64 --rounds 3
    PYTHONPATH=src:. python benchmarks/cluster.py resume --ids 10000000

`throughput` predicts the same images with the default model in processes of one thread: plain `predict`, one shard, and
Ray with one and two actors, in turn, several rounds. Each process notes time, CPU time and memory at every call of the
network. The figures are those between the first and the last call, so starting up is excluded. On a machine with other
work, CPU seconds per image are more reliable than images per second.

`resume` plans images that do not exist, marks half of the tasks as finished, and measures each step in a new process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from treeformer.hub.model_folder import open_model
from treeformer.inference.cluster.job import Job, open_job
from treeformer.inference.cluster.manifest import PARTS, add_images, read_manifests, unfinished
from treeformer.inference.cluster.run import plan, predict_shard
from treeformer.inference.cluster.sources import ImageEntry
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.cluster.worker import load_predictor
from treeformer.inference.predictor import Predictor
from treeformer.inference.provenance import model_hash

JOB = Job(engine="onnx")
NOTES = "TREEFORMER_BENCHMARK_NOTES"
MODES = ("predict", "shard", "ray-1", "ray-2")


class NotingEngine:
    """An engine that notes time, CPU time and memory of its process at every call."""

    def __init__(self, engine, file) -> None:
        self.engine, self.file = engine, file

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def __call__(self, images):
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([time.time(), time.process_time(), len(images), memory]), file=self.file, flush=True)
        return self.engine(images)


def noting_predictor(job: Job, threads: int | None) -> Predictor:
    predictor = load_predictor(job, threads)
    path = Path(os.environ[NOTES]) / f"{os.getpid()}.jsonl"
    predictor.engine = NotingEngine(predictor.engine, path.open("w", encoding="utf-8"))
    return predictor


# ---- throughput ----------------------------------------------------------------------------------


def run_mode(mode: str, images: Path, output: Path) -> None:
    """Predict all images; called in a process of its own."""
    if mode == "predict":
        from treeformer.inference.batch import plan as plan_files
        from treeformer.inference.batch import predict_files, traits_of

        jobs = plan_files([images], output)
        predict_files(jobs, noting_predictor(JOB, 1), workers=2)
        begin = time.process_time()
        traits_of(jobs)
        (output / "traits_seconds").write_text(str(time.process_time() - begin))
        return
    folder = Folder.at(str(output))
    tasks = plan(folder, JOB, [str(images)], task_images=8)
    if mode == "shard":
        predict_shard(folder, JOB, tasks, threads=1, workers=2, make_predictor=noting_predictor)
        return
    from treeformer.inference.cluster.ray_run import connection, predict_with_ray

    actors = int(mode.removeprefix("ray-"))
    with connection(None, cpus=actors):
        predict_with_ray(folder, JOB, tasks, actors=actors, make_predictor=noting_predictor)


def steady_state(notes: Path) -> dict[str, float]:
    """Return images per second of all processes together, CPU seconds per image, and memory per process, MB."""
    rate = cpu = images = memory = 0.0
    for path in notes.glob("*.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][1:]  # the first warms up
        if len(rows) < 2:
            continue
        count = sum(row[2] for row in rows[:-1])
        rate += count / (rows[-1][0] - rows[0][0])
        cpu, images = cpu + rows[-1][1] - rows[0][1], images + count
        memory = max(memory, rows[-1][3])
    return {"images_per_s": rate, "cpu_s_per_image": cpu / images, "memory_mb": memory}


def throughput(count: int, rounds: int) -> None:
    from PIL import Image

    from treeformer import synthetic

    figures: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory(prefix="treeformer-benchmark-") as temporary:
        images = Path(temporary) / "images"
        images.mkdir()
        for seed in range(count):
            plant = synthetic.generate("paper", 160_000 + seed)
            Image.fromarray(synthetic.render(plant, "paper", seed)).save(images / f"{seed:05d}.png")
        for number in range(rounds):
            for mode in MODES:
                notes, output = (Path(temporary) / f"{what}-{mode}-{number}" for what in ("notes", "out"))
                notes.mkdir()
                command = [sys.executable, __file__, "mode", mode, str(images), str(output)]
                # Ray gives up after a minute if other work delays its start.
                patience = {"RAY_raylet_start_wait_time_s": "300"}
                environment = patience | os.environ | {NOTES: str(notes), "OMP_NUM_THREADS": "1"}
                subprocess.run(command, check=True, env=environment)
                figures[mode].append(steady_state(notes))
                if mode == "predict":  # `predict` measures traits at the end, the others with each image
                    seconds = float((output / "traits_seconds").read_text())
                    figures[mode][-1]["cpu_s_per_image"] += seconds / count
                    rate = figures[mode][-1]["images_per_s"]
                    figures[mode][-1]["images_per_s"] = 1 / (1 / rate + seconds / count)
                print(number, mode, figures[mode][-1], flush=True)
    print("| mode | images/s | CPU s per image | CPU of predict | memory per process, MB |")
    print("| --- | --- | --- | --- | --- |")
    base = statistics.median(row["cpu_s_per_image"] for row in figures["predict"])
    for mode in MODES:
        rate, cpu, memory = (
            statistics.median(row[name] for row in figures[mode])
            for name in ("images_per_s", "cpu_s_per_image", "memory_mb")
        )
        print(f"| {mode} | {rate:.2f} | {cpu:.3f} | {100 * cpu / base:.0f} % | {memory:.0f} |")


# ---- resume --------------------------------------------------------------------------------------


def example_images(count: int) -> Iterator[ImageEntry]:
    for number in range(count):
        yield ImageEntry(
            f"s3://plants/2024/field-{number % 977:03d}/plot/image-{number:08d}.jpg", 400_000 + number, number
        )


def resume_step(step: str, output: Path, count: int) -> None:
    """Run one step; called in a process of its own. Prints seconds and peak memory."""
    folder = Folder.at(str(output))
    begin, cpu = time.perf_counter(), time.process_time()
    if step in ("plan", "list again"):
        key = open_job(folder, JOB, model_hash(open_model()))
        added = add_images(folder, example_images(count), key)
        assert (added is None) == (step == "list again")
    tasks = unfinished(folder)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {step} | {seconds:.1f} | {cpu:.1f} | {memory:.0f} | {sum(task.count for task in tasks):,} |", flush=True)


def resume(count: int) -> None:
    print("| step | seconds | CPU seconds | peak memory, MB | images to do |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory(prefix="treeformer-benchmark-") as temporary:
        output = Path(temporary) / "out"
        command = [sys.executable, __file__, "resume-step"]
        subprocess.run([*command, "plan", str(output), str(count)], check=True)
        (output / PARTS).mkdir()
        for manifest in read_manifests(Folder.at(str(output))):
            for task in manifest.tasks()[::2]:
                (output / PARTS / task.part).touch()
        for step in ("continue", "list again"):
            subprocess.run([*command, step, str(output), str(count)], check=True)
        size = sum(path.stat().st_size for path in (output / "manifests").iterdir())
        print(f"the manifest has {size / 1e6:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("throughput")
    one.add_argument("--images", type=int, default=64)
    one.add_argument("--rounds", type=int, default=3)
    commands.add_parser("resume").add_argument("--ids", type=int, default=10_000_000)
    for name in ("mode", "resume-step"):  # internal
        commands.add_parser(name).add_argument("arguments", nargs=3)
    given = parser.parse_args()
    if given.command == "throughput":
        throughput(given.images, given.rounds)
    elif given.command == "resume":
        resume(given.ids)
    elif given.command == "mode":
        mode, images, output = given.arguments
        run_mode(mode, Path(images), Path(output))
    else:
        step, output, count = given.arguments
        resume_step(step, Path(output), int(count))


if __name__ == "__main__":
    main()
