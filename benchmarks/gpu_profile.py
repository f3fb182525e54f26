"""Show where the time of prediction on a GPU goes: copies, kernels, and time in which the GPU waits for the host.

PYTHONPATH=src python -m benchmarks.gpu_profile src/treeformer/weights/default src/treeformer/weights/small
PYTHONPATH=src python -m benchmarks.gpu_profile src/treeformer/weights/default --batch 1

A batch of rendered drawings and their photographs is predicted by the torch engine, from pixels to candidates. The
tree of each image, which the processor decodes, is not part of it. Kernels are listed by their total time.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from treeformer import synthetic
from treeformer.hub.model_folder import open_model
from treeformer.inference.engine import input_memory
from treeformer.inference.open_engine import open_engine

WARM_UP = 8  # calls until all CUDA graphs exist
CALLS = 10


def images(count: int) -> np.ndarray:
    """Return (count,512,512,3) RGB: drawings and photographs in turn, each repeated."""
    made = [synthetic.make_image("paper", synthetic.STYLES[k % 2], synthetic.SPLITS["test"][k])[0] for k in range(16)]
    return np.stack([made[k % 16] for k in range(count)])


def print_profile(model: str, pixels: np.ndarray, device: str | None, rows: int) -> None:
    """Print the milliseconds per call of the engine, and of the kernels that take most of it."""
    engine = open_engine(open_model(model), "torch", device=device)
    memory = input_memory(engine, len(pixels))
    memory[:] = pixels
    pixels = memory
    for _ in range(WARM_UP):
        engine(pixels)
    began = time.perf_counter()
    for _ in range(CALLS):
        engine(pixels)
    wall = (time.perf_counter() - began) / CALLS * 1e3
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiler:
        for _ in range(CALLS):
            engine(pixels)
    on_gpu = [
        (event.key, event.self_device_time_total / CALLS / 1e3, event.count / CALLS)
        for event in profiler.key_averages()
        if event.self_device_time_total > 0 and event.self_cpu_time_total == 0
    ]
    upload = sum(ms for name, ms, _ in on_gpu if "HtoD" in name)
    download = sum(ms for name, ms, _ in on_gpu if "DtoH" in name)
    total = sum(ms for _, ms, _ in on_gpu)
    print(
        f"{model}, batch {len(pixels)}: {wall:.2f} ms per call, {len(pixels) / wall * 1e3:.0f} images/s; "
        f"GPU busy {total:.2f} ms, of which upload {upload:.2f}, download {download:.2f}"
    )
    for name, ms, count in sorted(on_gpu, key=lambda event: -event[1])[:rows]:
        print(f"  {ms:8.3f} ms {count:7.1f} times  {name[:90]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="model folders")
    parser.add_argument("--batch", type=int, nargs="+", default=[64], help="images per call")
    parser.add_argument("--device", help="torch device, by default a GPU if there is one")
    parser.add_argument("--rows", type=int, default=18, help="number of kernels to list")
    arguments = parser.parse_args()
    for model in arguments.models:
        for batch in arguments.batch:
            print_profile(model, images(batch), arguments.device, arguments.rows)


if __name__ == "__main__":
    main()
