"""Measure training speed in images per second, with images rendered on the fly, and the cost of SFS.

PYTHONPATH=src python benchmarks/train_step.py --models default paper --batch 64 --steps 40 --workers 14

For each model, measures the step on one repeated batch, with and without SFS, and the step fed by worker processes that
render 512×512 images of style `paper`. A GPU runs bf16 and compiled code, a CPU float32.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml

from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.loader import Batch, BatchSizes, on_device, training_loader
from treeformer.data.mixture import MixtureDataset
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.training.step import CudaGraphStep, TrainingStep


def make(settings: dict[str, Any], device: torch.device, compiled: bool) -> tuple[TreeFormer, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = TreeFormer(TreeFormerConfig(**settings)).to(device).train()
    if device.type == "cuda":
        model = model.to(memory_format=torch.channels_last)
    if compiled:
        model.compile_parts()
    parameters = [p for p in model.parameters() if p.requires_grad]
    return model, torch.optim.AdamW(parameters, lr=1e-4, fused=device.type == "cuda")


class Step:
    """A complete update step; on a GPU as CUDA graphs, as in training."""

    def __init__(self, settings: dict[str, Any], example: Batch, device: torch.device, graphs: bool) -> None:
        self.model, self.optimizer = make(settings, device, compiled=device.type == "cuda")
        bf16 = device.type == "cuda"
        self.step = TrainingStep(self.model, bf16=bf16)
        self.graph = CudaGraphStep(self.model, example, bf16=bf16) if graphs else None

    def __call__(self, batch: Batch) -> None:
        node_count = batch.targets.mask.sum().clamp(min=1).float()
        if self.graph is not None:
            self.graph(batch, node_count)
        else:
            self.optimizer.zero_grad(set_to_none=True)
            self.step(batch.images, batch.targets, node_count)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


def seconds(work: Callable[[], None], steps: int, device: torch.device) -> float:
    """Return seconds per call, the median of three rounds."""
    rounds = []
    for _ in range(3):
        _wait(device)
        began = time.perf_counter()
        for _ in range(steps):
            work()
        _wait(device)
        rounds.append((time.perf_counter() - began) / steps)
    return sorted(rounds)[1]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["default", "paper"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--max-nodes", type=int, default=100)
    parser.add_argument("--tokens", type=int, help="object tokens; default: as configured")
    parser.add_argument("--image-size", type=int, default=512, help="side of the images, px")
    parser.add_argument(
        "--options", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the models to change"
    )
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="write a profile of the step into this folder")
    parser.add_argument("--no-graphs", action="store_true", help="run without CUDA graphs")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True

    options = {key: yaml.safe_load(value) for key, value in (entry.split("=", 1) for entry in arguments.options)}
    data = DataConfig(max_nodes=arguments.max_nodes, image_size=arguments.image_size)
    stream = MixtureDataset([SourceConfig(presets=("paper",), styles=("paper",))], data, seed=0)

    cuda = device.type == "cuda"
    loader = training_loader(stream, BatchSizes(arguments.batch), workers=arguments.workers, pin=cuda)
    batches = on_device(loader, device)
    fixed = next(batches)
    nodes = float(fixed.targets.mask.sum() / arguments.batch)
    print(f"{device}, batch {arguments.batch}, {nodes:.0f} nodes per image, torch {torch.__version__}")
    print(f"{'model':10} {'without SFS':>12} {'with SFS':>12} {'ratio':>7} {'with data':>12}   compile   memory")
    for name in arguments.models:
        rates, compile_s = {}, {}
        for constraint in ("test", "both"):
            began = time.perf_counter()
            settings = asdict(getattr(TreeFormerConfig, name)()) | {"constraint": constraint}
            if arguments.tokens:
                settings["tokens"] = arguments.tokens
            settings |= options
            step = Step(settings, fixed, device, graphs=cuda and not arguments.no_graphs)
            for _ in range(3):
                step(fixed)
            _wait(device)
            compile_s[constraint] = time.perf_counter() - began
            rates[constraint] = seconds(lambda: step(fixed), arguments.steps, device)  # noqa: B023
        memory = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0
        fed = seconds(lambda: step(next(batches)), arguments.steps, device)  # noqa: B023
        per_s = {key: arguments.batch / value for key, value in rates.items()}
        print(
            f"{name:10} {per_s['test']:8.0f} im/s {per_s['both']:8.0f} im/s {rates['both'] / rates['test']:7.3f} "
            f"{arguments.batch / fed:8.0f} im/s {compile_s['test']:4.0f} + {compile_s['both']:.0f} s {memory:6.1f} GiB",
            flush=True,
        )
        if arguments.profile:
            write_profile(arguments.profile / f"{name}.txt", lambda: step(fixed), device)  # noqa: B023


def write_profile(path: Path, work: Callable[[], None], device: torch.device) -> None:
    """Write a table of the kernels of three calls, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    with profile(activities=activities) as profiler:
        for _ in range(3):
            work()
        _wait(device)
    order = "self_cuda_time_total" if device.type == "cuda" else "self_cpu_time_total"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(profiler.key_averages().table(sort_by=order, row_limit=60, max_name_column_width=90))


if __name__ == "__main__":
    main()
