"""Measure speed and memory of prediction, from JPEG files to skeletons, and of its parts.

PYTHONPATH=src python benchmarks/predict.py                          # random weights, `default` and `paper`
PYTHONPATH=src python benchmarks/predict.py --models runs/export paper --cpu-images 20
PYTHONPATH=src python benchmarks/predict.py --without-network       # reading and decoding only

For each model, single 512×512 images are predicted with ONNX Runtime on two CPU cores, in a separate process whose peak
memory is reported. If there is a GPU, many images are predicted with torch. A name is a configuration with random
weights, which finds an arbitrary number of nodes (reported as nodes per image); a folder is a trained model. All
columns but `network` include reading the JPEG and decoding the tree. On the GPU, the time of single camera frames,
from array to skeleton, is measured too: the median and the 95th percentile.

`--without-network` needs neither model nor GPU. An engine with instant random output shows how many images per second
the rest allows, with threads and with processes, the cost of an image for the process of the network, and the time of a
camera frame.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from treeformer import synthetic
from treeformer._util.files import atomic_write
from treeformer.hub.model_folder import GRAPH, WEIGHTS, ModelFolder, ModelSettings, open_model, write_config
from treeformer.inference.engine import RawPrediction, input_memory
from treeformer.inference.open_engine import open_engine
from treeformer.inference.options import PredictionOptions
from treeformer.inference.predictor import Predictor
from treeformer.inference.prepare import prepare

CORES = 2
WARM_UP = 4  # batches before the measurement, for processes and kernels to start
GRAPH_WARM_UP = 8  # uses of a batch after which all its CUDA graphs exist (`inference/cuda_graphs.py`)
FRAMES = 200  # number of measured frames


def write_images(folder: Path, count: int) -> list[Path]:
    """Write JPEG files of synthetic plants, alternating between styles."""
    paths = []
    for number in range(count):
        image, _ = synthetic.make_image("paper", synthetic.STYLES[number % 2], synthetic.SPLITS["test"][number])
        paths.append(folder / f"{number}.jpg")
        Image.fromarray(image).save(paths[-1], quality=90)
    return paths


def export_random(name: str, folder: Path, graphs: bool) -> Path:
    """Write a model folder of a configuration with random weights; without `graphs`, only for torch."""
    import torch

    from treeformer.models import TreeFormer, TreeFormerConfig
    from treeformer.models.export import ARCHITECTURE, save_pretrained, write_weights

    torch.manual_seed(0)
    model = TreeFormer(getattr(TreeFormerConfig, name)()).eval()
    if graphs:
        save_pretrained(model, folder)
    else:
        folder.mkdir()
        write_weights(folder / WEIGHTS, model)
        (folder / GRAPH).touch()  # torch does not read it
        write_config(folder, ModelSettings(ARCHITECTURE, json.loads(json.dumps(asdict(model.config)))))
    return folder


def measure_cpu(model: str, paths: list[str], rounds: int) -> dict[str, float]:
    """Measure the seconds of each part for single images (median). Runs in its own process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    began = time.perf_counter()
    predictor = Predictor(model, engine="onnx", threads=CORES)
    predictor.predict(paths[0])
    first = time.perf_counter() - began
    options = PredictionOptions(predictor.model, None, None, None)
    parts: dict[str, list[float]] = {"read": [], "network": [], "tree": [], "all": [], "busy": []}
    nodes = []
    for number in range(rounds):
        marks, busy = [time.perf_counter()], time.process_time()
        task = prepare(paths[number % len(paths)], options, predictor.engine.input_size)
        pixels = np.stack(list(task.inputs()))
        marks.append(time.perf_counter())
        raw = predictor.engine(pixels)
        marks.append(time.perf_counter())
        task.accumulator.add(raw, 0)
        skeleton = task.accumulator.skeleton()
        marks.append(time.perf_counter())
        for name, value in zip(("read", "network", "tree"), np.diff(marks), strict=True):
            parts[name].append(float(value))
        parts["all"].append(marks[-1] - marks[0])
        parts["busy"].append((time.process_time() - busy) / CORES)
        nodes.append(len(skeleton))
    medians = {name: statistics.median(values) for name, values in parts.items()}
    return medians | {"first": first, "peak_mb": peak_mb(), "nodes": statistics.mean(nodes)}


def peak_mb() -> float:
    """Return the peak memory of this process. On Linux, `getrusage` would include the parent process."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)


def measure_gpu(model: str, paths: list[Path], count: int, batch: int, workers: int) -> dict[str, float]:
    import torch

    folder = open_model(model)
    engine = open_engine(folder, "torch")
    pixels = input_memory(engine, batch)
    for number in range(batch):
        pixels[number] = np.asarray(Image.open(paths[number % len(paths)]))
    for _ in range(GRAPH_WARM_UP):
        engine(pixels)
    began = time.perf_counter()
    for _ in range(10):
        engine(pixels)
    network = (time.perf_counter() - began) / (10 * batch)
    options = {"batch": batch, "workers": workers, "processes": True}
    predictor = Predictor(folder, engine=engine)
    row = measure_many(predictor, paths, count, **options) | measure_frames(predictor, paths)
    return row | {"network": network, "memory": torch.cuda.max_memory_allocated() / 2**30}


def measure_frames(predictor: Predictor, paths: list[Path], count: int = FRAMES) -> dict[str, float]:
    """Measure the seconds from array to skeleton for single frames: median, 95th percentile, mean processor time."""
    frames = [np.asarray(Image.open(path)) for path in paths]
    for number in range(GRAPH_WARM_UP * len(frames)):
        predictor.predict(frames[number % len(frames)])
    taken, busy = [], time.process_time()
    for number in range(count):
        began = time.perf_counter()
        predictor.predict(frames[number % len(frames)])
        taken.append(time.perf_counter() - began)
    busy = (time.process_time() - busy) / count
    return {"frame": statistics.median(taken), "slow_frame": float(np.quantile(taken, 0.95)), "frame_busy": busy}


def measure_many(predictor: Predictor, paths: list[Path], count: int, **options: int) -> dict[str, float]:
    """Measure images per second, and processor seconds per image of this process and of the others."""
    warm_up = WARM_UP * options["batch"]
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    nodes = []
    for number, result in enumerate(predictor.predict_many(many(paths, warm_up + count), **options)):
        if number == warm_up:
            began, busy = time.perf_counter(), time.process_time()
        nodes.append(len(result))
    rate, busy = (count - 1) / (time.perf_counter() - began), (time.process_time() - busy) / count
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    others_busy = (now.ru_utime + now.ru_stime - others.ru_utime - others.ru_stime) / (warm_up + count)
    return {"rate": rate, "nodes": statistics.mean(nodes), "busy": busy, "others_busy": others_busy}


def many(paths: list[Path], count: int) -> Iterable[Path]:
    return (paths[k % len(paths)] for k in range(count))


class StandIn:
    """Replaces a network: always 52 nodes and 256 candidates per image."""

    name, device, preferred_batch, input_size = "stand-in", "cpu", 64, 512

    def __init__(self, batch: int, nodes: int = 52, candidates: int = 256) -> None:
        random = np.random.default_rng(0)
        score = np.where(np.arange(candidates) < nodes, 0.9, 0.2) * np.ones((batch, 1))
        cost = random.normal(size=(batch, candidates, candidates))
        points, logit = random.uniform(0, 512, (batch, candidates, 2)), random.normal(-4, 1, (batch, candidates))
        numbers = (score, points, (cost + cost.swapaxes(1, 2)) / 2, logit)
        self.numbers = [array.astype(np.float32) for array in numbers]

    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        """Predict (B,512,512,3) RGB images."""
        return RawPrediction(*(array[: len(images)] for array in self.numbers))


def print_without_network(paths: list[Path], count: int, batch: int, workers: int) -> None:
    folder = ModelFolder(Path("stand-in"), ModelSettings("stand-in", {}, input_size=512, working_size=512))
    predictor = Predictor(folder, engine=StandIn(batch))
    print(
        f"no network, batch {batch}, {workers} workers, {count} images; CPU ms per image, others including their start"
    )
    frame = measure_frames(Predictor(folder, engine=StandIn(1)), paths)
    print(
        f"one frame: {frame['frame'] * 1e3:.2f} ms, 95 %: {frame['slow_frame'] * 1e3:.2f} ms, "
        f"processor time {frame['frame_busy'] * 1e3:.2f} ms",
        flush=True,
    )
    print(f"{'workers':12} {'images/s':>11} {'own CPU, ms':>12} {'others, ms':>11}")
    for name in ("threads", "processes"):
        options = {"batch": batch, "workers": workers, "processes": name == "processes"}
        row = measure_many(predictor, paths, count, **options)
        print(f"{name:12} {row['rate']:11.0f} {row['busy'] * 1e3:12.2f} {row['others_busy'] * 1e3:11.2f}", flush=True)


def machine() -> str:
    """Return the processor and the cores that this process may use."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{names[0].partition(':')[2].strip() if names else platform.machine()}, {cores} cores"


def version(folder: Path) -> str:
    """Return the version of the weights, "random" if they were not trained."""
    return open_model(folder).config.version or "random"


def store(figures: dict[str, object], path: Path | None) -> None:
    """Write the figures measured so far, if there is a file for them."""
    if path is not None:
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["default", "paper"], help="configurations, or model folders")
    parser.add_argument("--cpu-images", type=int, default=10, help="0: no CPU table")
    parser.add_argument("--gpu-images", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=128, help="images per call")
    parser.add_argument(
        "--workers", type=int, default=min(16, os.cpu_count() or 1), help="processes that read images and decode trees"
    )
    parser.add_argument("--without-network", action="store_true", help="measure only reading and decoding")
    parser.add_argument("--store", type=Path, metavar="FILE", help="also write the figures as JSON")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        model, *paths = arguments.child
        print(json.dumps(measure_cpu(model, paths, arguments.cpu_images)))
        return
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        sizes = (arguments.gpu_images, arguments.batch, arguments.workers)
        if arguments.without_network:
            print_without_network(write_images(scratch, 32), *sizes)
            return
        graphs = arguments.cpu_images > 0
        folders = {
            model: Path(model) if Path(model).is_dir() else export_random(model, scratch / model, graphs)
            for model in arguments.models
        }
        paths = write_images(scratch, 32)
        stored: dict[str, object] = {"machine": machine(), "versions": {m: version(f) for m, f in folders.items()}}
        if arguments.cpu_images:
            print(f"ONNX Runtime, one 512×512 JPEG at a time, {CORES} cores; seconds, median of {arguments.cpu_images}")
            print(
                f"{'model':12} {'all':>7} {'read':>7} {'network':>8} {'tree':>7} {'CPU time/2':>11} {'first':>7} "
                f"{'peak MB':>8} {'nodes':>6}"
            )
            for model, folder in folders.items():
                command = [sys.executable, __file__, "--cpu-images", str(arguments.cpu_images), "--child"]
                done = subprocess.run([*command, folder, *paths], capture_output=True, text=True, check=True)
                row = json.loads(done.stdout)
                stored[f"cpu {Path(model).name}"] = row
                print(
                    f"{Path(model).name:12} {row['all']:7.3f} {row['read']:7.4f} {row['network']:8.3f} "
                    f"{row['tree']:7.4f} {row['busy']:11.3f} {row['first']:7.2f} "
                    f"{row['peak_mb']:8.0f} {row['nodes']:6.0f}",
                    flush=True,
                )
                store(stored, arguments.store)
        try:
            import torch
        except ModuleNotFoundError:
            return
        if not torch.cuda.is_available():
            print("no GPU: no second table")
            return
        stored["gpu"] = torch.cuda.get_device_name()
        print(
            f"torch on {torch.cuda.get_device_name()}, batch {arguments.batch}, {arguments.workers} processes, "
            f"{arguments.gpu_images} images; CPU ms per image, others including their start"
        )
        print(
            f"{'model':12} {'images/s':>11} {'network alone':>14} {'own CPU, ms':>12} {'others, ms':>11} "
            f"{'nodes':>6} {'GPU GiB':>8} {'frame, ms':>10} {'95 %, ms':>9}"
        )
        for model, folder in folders.items():
            row = measure_gpu(str(folder), paths, *sizes)
            stored[f"gpu {Path(model).name}"] = row
            store(stored, arguments.store)
            print(
                f"{Path(model).name:12} {row['rate']:11.0f} {1 / row['network']:14.0f} {row['busy'] * 1e3:12.2f} "
                f"{row['others_busy'] * 1e3:11.2f} {row['nodes']:6.0f} {row['memory']:8.1f} "
                f"{row['frame'] * 1e3:10.2f} {row['slow_frame'] * 1e3:9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
