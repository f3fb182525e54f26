"""Measure the cost of one image with each engine: processor time, time on two cores, loading and memory.

python benchmarks/engines.py MODEL [--repeat 5] [--parts] [--accuracy 40]

Times are minima over several runs. "CPU" is processor time with one thread, which hardly depends on other programs on
the machine. With two threads, "busier of two" is the mean processor time of the busier thread, close to the wall time
on an idle machine (Linux only), and "clock" is the measured wall time. Each engine runs in its own process, so that
memory is measured separately. On x86, ONNX Runtime renames the convolutions of the float32 graph, so that they count
as "the rest".
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from treeformer.hub.model_folder import open_model
from treeformer.inference.open_engine import open_engine
from treeformer.inference.predictor import Predictor
from treeformer.metrics import evaluate_pair
from treeformer.synthetic import make_image

ENGINES = (("onnx", "float32"), ("onnx", "int8"), ("torch", "auto"))
SEED = 120_000  # seed of the first test image
METRICS = ("topo_paper_f1", "node_f1", "edge_f1", "tree_rate")
PARTS = ("backbone", "neck", "heat_map", "decoder", "relation_head")


def measure(model: str, engine: str, precision: str, repeat: int) -> dict[str, float]:
    """Measure seconds and megabytes of one engine in this process."""
    folder = open_model(model)
    image = test_image(folder.config.input_size)
    options = {"engine": engine, "precision": precision, "device": "cpu"}
    start = time.process_time()
    one_thread = open_engine(folder, threads=1, **options)
    result = {"load": time.process_time() - start}
    result["cpu"] = min(seconds(time.process_time, one_thread, image) for _ in range(repeat))
    result["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    two_threads = open_engine(folder, threads=2, **options)
    two_threads(image)
    before = thread_seconds()
    result["clock"] = min(seconds(time.perf_counter, two_threads, image) for _ in range(repeat))
    result["busier"] = max(spent - before.get(thread, 0) for thread, spent in thread_seconds().items()) / repeat
    result["candidates"] = one_thread(image).node_score.shape[1]
    return result


def seconds(clock, engine, image: np.ndarray) -> float:
    start = clock()
    engine(image)
    return clock() - start


def thread_seconds() -> dict[str, float]:
    """Return the processor time of each thread of this process so far."""
    return {
        task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in Path("/proc/self/task").iterdir()
    }


def test_image(side: int) -> np.ndarray:
    return make_image("paper", "paper", SEED, (side, side))[0][None]


def parts(model: str, precision: str, repeat: int) -> dict[str, float]:
    """Return the milliseconds of each part of the network, from ONNX Runtime's profile with one thread."""
    import onnxruntime

    folder = open_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.enable_mem_reuse, options.enable_profiling = False, True
    with tempfile.TemporaryDirectory() as folder_name:
        options.profile_file_prefix = str(Path(folder_name) / "profile")
        session = onnxruntime.InferenceSession(folder.graph(precision), options, providers=["CPUExecutionProvider"])
        for _ in range(repeat + 1):
            session.run(None, {"images": test_image(folder.config.input_size)})
        events = json.loads(Path(session.end_profiling()).read_text())
    lowest: dict[str, list[float]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            lowest.setdefault(event["name"], []).append(event["dur"] / 1e3)
    total: Counter[str] = Counter()
    for name, times in lowest.items():
        part = name.split("/")[0].split(".")[0]
        total[part if part in PARTS else "the rest"] += min(times)
    return dict(total)


def accuracy(model: str, count: int) -> None:
    """Print the accuracy of each engine on drawings, and its agreement with the first engine."""
    folder = open_model(model)
    side = folder.config.input_size
    images = [make_image("paper", "paper", SEED + index, (side, side)) for index in range(count)]
    print(f"\n| engine | {' | '.join(METRICS)} | edge_f1 to the first engine |\n| --- | --- | --- | --- | --- | --- |")
    first = None
    for engine, precision in ENGINES:
        run = open_engine(folder, engine, precision=precision, device="cpu")
        predictor = Predictor(folder, engine=run)
        trees = [predictor.predict(image) for image, _ in images]
        rows = [evaluate_pair(tree, ground_truth) for tree, (_, ground_truth) in zip(trees, images, strict=True)]
        first = first or trees
        same = np.mean([evaluate_pair(one, other)["edge_f1"] for one, other in zip(trees, first, strict=True)])
        means = " | ".join(f"{np.mean([float(row[name]) for row in rows]):.4f}" for name in METRICS)
        print(f"| {engine} {precision} | {means} | {same:.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--parts", action="store_true", help="also measure the parts of the network")
    parser.add_argument(
        "--accuracy", type=int, default=0, metavar="IMAGES", help="also measure the accuracy on this many images"
    )
    parser.add_argument("--only", nargs=2, metavar=("ENGINE", "PRECISION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.model, *options.only, options.repeat)))
        return
    print("| engine | CPU, s | ratio | busier of two, s | clock, s | loading, s | peak memory, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    reference = None
    for engine in ENGINES:
        command = [sys.executable, __file__, options.model, "--repeat", str(options.repeat), "--only", *engine]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        reference = reference or found["cpu"]
        name = " ".join(engine).removesuffix(" auto")
        print(
            f"| {name} | {found['cpu']:.2f} | {found['cpu'] / reference:.2f} | {found['busier']:.2f} "
            f"| {found['clock']:.2f} | {found['load']:.1f} | {found['memory']:.0f} |"
        )
    print(f"\ncandidates in the network's output: {found['candidates']}")
    if options.parts:
        columns = [parts(options.model, precision, options.repeat) for precision in ("float32", "int8")]
        print("\n| part | float32, ms | int8, ms |\n| --- | --- | --- |")
        for part in (*PARTS, "the rest"):
            print(f"| {part} | " + " | ".join(f"{column.get(part, 0):.0f}" for column in columns) + " |")
    if options.accuracy:
        accuracy(options.model, options.accuracy)


if __name__ == "__main__":
    main()
