"""Measure the CPU time per image of the backbones, and of whole networks with them as exported model folders.

PYTHONPATH=src:. python -m benchmarks.backbone_speed

One thread, process time, the least of several calls in turn. Weights are random, which does not change the time. The
8-bit graph rounds convolutions only: attention and the linear layers of a TinyViT stay in float32.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from treeformer.hub.model_folder import open_model
from treeformer.inference.open_engine import open_engine
from treeformer.models import TreeFormer, TreeFormerConfig, save_pretrained
from treeformer.synthetic import make_image

BACKBONES: dict[str, dict[str, Any]] = {
    "ResNet-50, stages 1 to 3": {},
    "TinyViT-5M": {"backbone": "tinyvit", "backbone_blocks": (2, 2, 6, 2)},
}
INPUT_PX = 512


def least_seconds(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least process time of each call, s; the calls take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.process_time()
            call()
            found[name].append(time.process_time() - began)
    return {name: min(seconds[1:]) for name, seconds in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024], help="sides of the images, px")
    parser.add_argument("--rounds", type=int, default=6, help="calls, of which the first is not counted")
    args = parser.parse_args()
    torch.set_num_threads(1)
    networks = {name: TreeFormer(TreeFormerConfig.default(**options)).eval() for name, options in BACKBONES.items()}
    calls: dict[str, Callable[[], object]] = {}
    for side in args.sizes:
        image = torch.rand(1, 3, side, side).contiguous(memory_format=torch.channels_last)
        for name, network in networks.items():
            calls[f"{name} alone, torch, {side} px"] = lambda n=network, i=image: n.backbone(i)
    with TemporaryDirectory() as folder, torch.inference_mode():
        print_times(least_seconds(calls, args.rounds))
        pixels = make_image("vine", "photo", 0, (INPUT_PX, INPUT_PX))[0][None]
        calls = {}
        for name, network in networks.items():
            with torch.inference_mode(False):
                path = save_pretrained(network, Path(folder, name), input_size=INPUT_PX, working_size=INPUT_PX).path
            for precision in ("float32", "int8"):
                engine = open_engine(open_model(str(path)), "onnx", precision=precision, threads=1)
                calls[f"network with {name}, {precision}, {INPUT_PX} px"] = lambda e=engine: e(
                    np.ascontiguousarray(pixels)
                )
        print_times(least_seconds(calls, args.rounds))


def print_times(seconds: dict[str, float]) -> None:
    """Print one line per measurement."""
    for name, value in seconds.items():
        print(f"{name}: {value:.3f} s", flush=True)


if __name__ == "__main__":
    main()
