"""`export` prints the CPU time of the parts of an export."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from treeformer.finetuning import plan
from treeformer.hub.model_folder import WEIGHTS, open_model
from treeformer.inference.predictor import Predictor
from treeformer.models import onnx_graph, quantize
from treeformer.models.export import load_weights, write_weights


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--model", default="default")


def main(args: argparse.Namespace) -> None:
    """Print the CPU time of the parts of an export."""
    start = open_model(args.model)
    network = load_weights(start)
    images: list[np.ndarray] = []

    def show(part: str, work: Callable[[], object]) -> None:
        print(f"| {part} | {plan.timed(time.process_time, work):.1f} |", flush=True)

    def quantized() -> None:
        quantize.quantize(graph, ranges[0])

    print("| part | CPU time, s |\n| --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        show("write the weights", lambda: write_weights(folder / WEIGHTS, network))
        show("trace the network", lambda: onnx_graph.trace(network, start.config))
        show("draw 16 synthetic images", lambda: images.extend(quantize.calibration_images(start.config.input_size)))
        graph, ranges = onnx_graph.read_graph(start), []
        show("measure ranges, 16 images", lambda: ranges.append(quantize.measure(graph, folder, images)))
        show("convert to 8 bits", quantized)
    predictor = Predictor(start, engine="onnx")
    show("predict one image", lambda: predictor.predict(images[1]))
