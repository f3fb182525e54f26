"""Compare the time of models for one 512 px image on a CPU, as ratios within one run.

PYTHONPATH=src python benchmarks/model_sizes.py VERSION5 default small random:small random:default,decoder_layers=3

An entry is a model folder, or "random:" with a named configuration and changes of it: a network with random weights,
exported to a temporary folder. Random weights find no nodes, so these networks get `--tokens` tokens, all of which are
candidates. The engines take turns, image by image, and the lowest of `--repeat` times counts. "CPU" is the processor
time with one thread, "two threads" the elapsed time with two. Both depend on other programs on the machine; the ratios
to the first entry depend less. "prediction" is the elapsed time from array to skeleton with two threads and default
settings, for model folders only. `--parts` adds the time of each part from ONNX Runtime's profile with one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnxruntime
import yaml

from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder, open_model
from treeformer.inference.onnx_engine import OnnxEngine
from treeformer.inference.predictor import Predictor
from treeformer.synthetic import make_image

RANDOM, CONFIGURATIONS = "random:", ("default", "small", "paper", "tiny")
SEED = 120_000  # seed of the first test image
PARTS = ("backbone", "neck", "heat_map", "center_lines", "decoder", "relation_head")


def open_entry(entry: str, tokens: int, temporary: Path) -> ModelFolder:
    """Open a model folder, or export a network with random weights."""
    if not entry.startswith(RANDOM):
        return open_model(entry)
    import torch

    from treeformer.models import TreeFormer, TreeFormerConfig
    from treeformer.models.export import save_pretrained

    name, *changes = entry.removeprefix(RANDOM).split(",", 1)
    if name not in CONFIGURATIONS:
        raise TreeformerError(f"{entry}: the configuration must be one of {', '.join(CONFIGURATIONS)}, not {name!r}")
    try:
        options = yaml.safe_load("{" + changes[0].replace("=", ": ") + "}") if changes else {}
    except yaml.YAMLError as error:
        raise TreeformerError(f"{entry}: {str(error).splitlines()[0]}") from None
    torch.manual_seed(0)
    settings = asdict(getattr(TreeFormerConfig, name)(tokens=tokens))
    config = TreeFormerConfig.from_dict(settings | options)
    return save_pretrained(TreeFormer(config).eval(), temporary, candidate_threshold=0.0, min_peak_heat=0.0)


def lowest(works: list[Callable[[], object]], clock: Callable[[], float], repeat: int) -> list[float]:
    """Return the lowest time of each function in ms. They take turns, so that all meet the same conditions."""
    times = [[] for _ in works]
    for _ in range(repeat + 1):  # the first round allocates memory
        for work, measured in zip(works, times, strict=True):
            start = clock()
            work()
            measured.append(1e3 * (clock() - start))
    return [min(measured[1:]) for measured in times]


def parts(folder: ModelFolder, image: np.ndarray, repeat: int) -> dict[str, float]:
    """Return the milliseconds of each part of the network with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.enable_mem_reuse, options.enable_profiling = False, True
    with tempfile.TemporaryDirectory() as name:
        options.profile_file_prefix = str(Path(name) / "profile")
        session = onnxruntime.InferenceSession(folder.graph(), options, providers=["CPUExecutionProvider"])
        for _ in range(repeat + 1):
            session.run(None, {"images": image})
        events = json.loads(Path(session.end_profiling()).read_text())
    shortest: dict[str, float] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            shortest[event["name"]] = min(shortest.get(event["name"], np.inf), event["dur"] / 1e3)
    total = dict.fromkeys((*PARTS, "the rest"), 0.0)
    for name, spent in shortest.items():
        part = name.split("/")[0].split(".")[0]
        total[part if part in PARTS else "the rest"] += spent
    return total


def parameters(folder: ModelFolder) -> float:
    """Return the number of weights in millions."""
    from treeformer.hub import safetensors

    entries, _ = safetensors.read_header(folder.weights)
    return sum(int(np.prod(entry.shape)) for entry in entries.values()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=64, help="tokens and candidates of networks with random weights")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--style", default="paper")
    parser.add_argument("--parts", action="store_true", help="also measure the parts of the networks")
    arguments = parser.parse_args()
    try:
        measure(arguments)
    except TreeformerError as error:
        sys.exit(f"model_sizes: {error}")


def measure(arguments: argparse.Namespace) -> None:
    """Open the models, measure them and print the tables."""
    with tempfile.TemporaryDirectory() as name:
        folders = [
            open_entry(entry, arguments.tokens, Path(name) / str(index)) for index, entry in enumerate(arguments.models)
        ]
        image = make_image(arguments.preset, arguments.style, SEED, (512, 512))[0]
        engines = [OnnxEngine(folder, threads=1) for folder in folders]
        found = [engine(image[None]).node_score.shape[1] for engine in engines]
        cpu = lowest([lambda e=engine: e(image[None]) for engine in engines], time.process_time, arguments.repeat)
        engines = [OnnxEngine(folder, threads=2) for folder in folders]
        wall = lowest([lambda e=engine: e(image[None]) for engine in engines], time.perf_counter, arguments.repeat)
        trained = [entry for entry in arguments.models if not entry.startswith(RANDOM)]
        predictors = [Predictor(entry, engine="onnx", threads=2) for entry in trained]
        works = [lambda p=predictor: p.predict(image) for predictor in predictors]
        whole = dict(zip(trained, lowest(works, time.perf_counter, arguments.repeat), strict=True))
        sizes = [sum(file.stat().st_size for file in folder.path.iterdir()) / 1e6 for folder in folders]
        print(
            "| model | parameters, M | folder, MB | candidates | CPU, ms | ratio | two threads, ms | ratio "
            "| prediction, ms | ratio |\n| " + " | ".join(["---"] * 10) + " |"
        )
        for index, entry in enumerate(arguments.models):
            total = whole.get(entry)
            ratio = f"{total:.0f} | {total / whole[trained[0]]:.2f}" if total else " | "
            print(
                f"| {entry} | {parameters(folders[index]):.2f} | {sizes[index]:.1f} | {found[index]} "
                f"| {cpu[index]:.0f} | {cpu[index] / cpu[0]:.2f} | {wall[index]:.0f} | {wall[index] / wall[0]:.2f} "
                f"| {ratio} |"
            )
        if arguments.parts:
            columns = [parts(folder, image[None], arguments.repeat) for folder in folders]
            print("\n| part, ms | " + " | ".join(arguments.models) + " |\n| --- |" + " --- |" * len(columns))
            for part in (*PARTS, "the rest"):
                print(f"| {part} | " + " | ".join(f"{column[part]:.1f}" for column in columns) + " |")


if __name__ == "__main__":
    main()
