"""Compare deformable attention in training on a GPU: compiled plain torch and the Triton kernels.

    PYTHONPATH=src python benchmarks/deformable_attention.py
    PYTHONPATH=src python benchmarks/deformable_attention.py --variants    # other block sizes, too

Measures the attention of an encoder layer of the configuration `paper` and of a decoder layer of `default`: 512×512
images, bfloat16, forward and backward pass, linear layers included, as a CUDA graph. Times are medians. Then measures
the kernels alone: bytes of values read (bfloat16, every corner counted), additions into the gradients of values (one
per corner), and the time of each kernel.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from treeformer.models.config import TreeFormerConfig
from treeformer.nn.deformable_attention import DeformableAttention, FeatureLevel
from treeformer.nn.kernels import deformable as deformable_triton
from treeformer.nn.positions import cell_centers

IMAGE = 512
REPEATS = 15
VARIANTS: dict[str, dict[str, int]] = {
    "current": {},
    "read 32 rows": {"READ_NUMBERS": 512},
    "add 64 rows": {"ADD_NUMBERS": 1024},
    "add 16 rows, 2 warps": {"ADD_NUMBERS": 256, "ADD_WARPS": 2},
}


@dataclass(frozen=True)
class Case:
    """The attention of one layer: its shape and the positions of its queries."""

    name: str
    config: TreeFormerConfig
    strides: tuple[int, ...]
    channels: tuple[int, ...]
    queries: int | None  # number of queries at random positions; None: one query per cell
    batch: int

    def make(self) -> tuple[DeformableAttention, list[Tensor], list[FeatureLevel]]:
        """Return the attention, query and points, and levels. Offsets are about one cell, as after some training."""
        torch.manual_seed(0)
        config = self.config
        module = DeformableAttention(config.width, config.heads, config.sampling_points, self.channels).cuda().train()
        for layer in (module.offsets, module.weights):
            torch.nn.init.normal_(layer.weight, std=1 / config.width**0.5)
        sides = [IMAGE // stride for stride in self.strides]
        levels = [
            FeatureLevel(
                torch.randn(self.batch, side * side, channels, device="cuda", requires_grad=True), side, side, stride
            )
            for side, channels, stride in zip(sides, self.channels, self.strides, strict=True)
        ]
        if self.queries is None:
            centers = [cell_centers(level.height, level.width, level.stride, "cuda") for level in levels]
            points = torch.cat(centers).expand(self.batch, -1, -1)
        else:
            points = torch.rand(self.batch, self.queries, 2, device="cuda") * IMAGE
        query = torch.randn(self.batch, points.shape[1], config.width, device="cuda", requires_grad=True)
        return module, [query, points], levels


def cases(batches: Sequence[int]) -> list[Case]:
    paper, default = TreeFormerConfig.paper(), TreeFormerConfig.default()
    return [
        Case("paper, encoder", paper, (8, 16, 32, 64), (paper.width,) * 4, None, batches[0]),
        Case("default, decoder", default, (4, 8, 16, 32), (default.fine_width, *(default.width,) * 3), 192, batches[1]),
    ]


def graph_ms(call: Callable[[], object]) -> float:
    """Return the median device time of a call, replayed as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()
    times = []
    for _ in range(REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    del kept
    return median(times[2:])


@contextmanager
def plain() -> Iterator[None]:
    """Disable the kernels."""
    choose = deformable_triton.can_read
    deformable_triton.can_read = lambda query: False
    try:
        yield
    finally:
        deformable_triton.can_read = choose


@contextmanager
def constants(changes: dict[str, int]) -> Iterator[None]:
    """Change constants of the kernels."""
    before = {name: getattr(deformable_triton, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(deformable_triton, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(deformable_triton, name, value)


def training_step(case: Case) -> tuple[Callable[[], list[Tensor]], list[str]]:
    """Return a compiled call that gives output and all gradients, and their names."""
    module, tensors, levels = case.make()
    attention = torch.compile(module, fullgraph=True, dynamic=False)
    learned = dict(module.named_parameters()) | {"query": tensors[0]}
    learned |= {f"cells of stride {level.stride}": level.cells for level in levels}
    gradient = torch.randn(tensors[0].shape, device="cuda")

    def step() -> list[Tensor]:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            result = attention(*tensors, levels)
        # Detached: the autograd history belongs to the stream of this call and cannot be captured in another.
        return [result.detach(), *torch.autograd.grad(result, list(learned.values()), gradient.to(result.dtype))]

    return step, ["output", *learned]


def largest_difference(found: list[Tensor], expected: list[Tensor], names: list[str]) -> tuple[float, str]:
    """Return the largest difference relative to the maximum of its tensor, and the name of that tensor."""
    apart = [
        ((mine.float() - other.float()).abs().max() / other.float().abs().max()).item()
        for mine, other in zip(found, expected, strict=True)
    ]
    return max(zip(apart, names, strict=True))


def whole_attention(case: Case) -> None:
    torch.compiler.reset()
    with plain():
        step, names = training_step(case)
        expected = step()
        before = graph_ms(step)
    step, _ = training_step(case)
    found = step()
    after = graph_ms(step)
    difference, where = largest_difference(found, expected, names)
    print(
        f"{case.name:17} {case.batch:>5} {expected[0].shape[1]:>7} {before:>9.2f} {after:>10.2f} {before / after:>6.2f}"
        f"   {difference:.4f} ({where})",
        flush=True,
    )


class Kernels:
    """The two operators with the inputs of one layer."""

    def __init__(self, case: Case) -> None:
        recorded: list[tuple[Tensor, Tensor, Tensor, list[tuple[int, int, int]]]] = []
        module, tensors, levels = case.make()
        read = deformable_triton.read

        def record(values, places, weights, shapes):
            recorded.append((values.detach(), places.detach().float(), weights.detach().float(), shapes))
            return read(values, places, weights, shapes)

        deformable_triton.read = record
        try:
            with torch.autocast("cuda", torch.bfloat16):
                module(*tensors, levels)
        finally:
            deformable_triton.read = read
        *self.inputs, shapes = recorded[0]
        self.shapes = [number for shape in shapes for number in shape]
        self.gradient = torch.randn_like(self.forward())
        self.corners = self.gradient.numel() * self.inputs[2].shape[3] * self.inputs[2].shape[4] * 4

    def forward(self) -> Tensor:
        return torch.ops.treeformer.read_locations(*self.inputs, self.shapes)

    def backward(self) -> tuple[Tensor, Tensor, Tensor]:
        return torch.ops.treeformer.read_locations_backward(self.gradient, *self.inputs, self.shapes)

    def parts(self) -> str:
        """Return the milliseconds of each kernel, measured by the profiler."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(3):
                self.forward()
                self.backward()
            torch.cuda.synchronize()
        spent = sorted((event.self_device_time_total / 3e3, event.key) for event in profile.key_averages())[::-1]
        return ", ".join(f"{name[:24]} {ms:.2f}" for ms, name in spent[:6] if ms > 0)


def kernels_alone(case: Case, variants: dict[str, dict[str, int]]) -> None:
    kernels = Kernels(case)
    print(f"\n{case.name}, batch {case.batch}: the kernels alone")
    print(f"{'variant':23} {'forward ms':>10} {'GB/s':>7} {'backward ms':>11} {'10⁹ additions/s':>16}   ms per kernel")
    for name, changes in variants.items():
        try:
            with constants(changes):
                forward, backward = graph_ms(kernels.forward), graph_ms(kernels.backward)
                parts = kernels.parts()
        except Exception as error:  # a block may be too large for the device; continue with the others
            print(f"{name:23} {type(error).__name__}: {str(error).splitlines()[0][:90]}", flush=True)
            continue
        print(
            f"{name:23} {forward:>10.2f} {kernels.corners * 2 / forward / 1e6:>7.0f} {backward:>11.2f} "
            f"{kernels.corners / backward / 1e6:>16.0f}   {parts}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs=2, default=(64, 128), help="batch sizes for paper and default")
    parser.add_argument("--variants", action="store_true", help="measure other block sizes on the paper's encoder")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("Nothing measured: this benchmark needs a GPU with CUDA and Triton.")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {deformable_triton.triton.__version__}")
    print(
        f"{'attention of':17} {'batch':>5} {'queries':>7} {'plain, ms':>9} {'kernel, ms':>10} {'ratio':>6}   difference"
    )
    all_cases = cases(arguments.batch)
    for case in all_cases:
        whole_attention(case)
    for case in all_cases:
        several = arguments.variants and case is all_cases[0]
        kernels_alone(case, VARIANTS if several else {"current": {}})


if __name__ == "__main__":
    main()
