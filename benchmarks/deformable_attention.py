"""Deformable attention in training on a GPU: plain torch, compiled, against the kernels; prints a table.

    PYTHONPATH=src python benchmarks/deformable_attention.py
    PYTHONPATH=src python benchmarks/deformable_attention.py --variants    # and other sizes of the kernels' blocks

An encoder layer's attention of the configuration `paper` and a decoder layer's of `default`, 512×512 images,
bfloat16, forward and backward, all its linear layers included, recorded as a CUDA graph; medians. Then the kernels
alone: bytes of the values read (bfloat16, every corner counted), additions into the gradients of values that the
corners would take one by one, and each kernel's own time.
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
    "as it is": {},
    "read 32 rows": {"READ_NUMBERS": 512},
    "add 64 rows": {"ADD_NUMBERS": 1024},
    "add 16 rows, 2 warps": {"ADD_NUMBERS": 256, "ADD_WARPS": 2},
}


@dataclass(frozen=True)
class Case:
    """One layer's attention: its shape, and where its queries lie."""

    name: str
    config: TreeFormerConfig
    strides: tuple[int, ...]
    channels: tuple[int, ...]
    queries: int | None  # at random places; None: every cell is a query
    batch: int

    def make(self) -> tuple[DeformableAttention, list[Tensor], list[FeatureLevel]]:
        """The attention, query and points, and levels; places spread by about a cell, as after some training."""
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


def recorded_ms(call: Callable[[], object]) -> float:
    """The device's own time for a call."""
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
    """Attention without the kernels."""
    choose = deformable_triton.can_read
    deformable_triton.can_read = lambda query: False
    try:
        yield
    finally:
        deformable_triton.can_read = choose


@contextmanager
def constants(changes: dict[str, int]) -> Iterator[None]:
    """Other sizes of the kernels' blocks."""
    before = {name: getattr(deformable_triton, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(deformable_triton, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(deformable_triton, name, value)


def training_step(case: Case) -> tuple[Callable[[], list[Tensor]], list[str]]:
    """A call that gives what attention gives and all its gradients, compiled, and their names."""
    module, tensors, levels = case.make()
    attention = torch.compile(module, fullgraph=True, dynamic=False)
    learned = dict(module.named_parameters()) | {"query": tensors[0]}
    learned |= {f"cells of stride {level.stride}": level.cells for level in levels}
    gradient = torch.randn(tensors[0].shape, device="cuda")

    def step() -> list[Tensor]:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            result = attention(*tensors, levels)
        # Without its history, which would belong to the stream of this call and could not be recorded in another.
        return [result.detach(), *torch.autograd.grad(result, list(learned.values()), gradient.to(result.dtype))]

    return step, ["output", *learned]


def furthest(found: list[Tensor], expected: list[Tensor], names: list[str]) -> tuple[float, str]:
    """The largest difference, as a part of the largest number of its tensor, and where."""
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
        before = recorded_ms(step)
    step, _ = training_step(case)
    found = step()
    after = recorded_ms(step)
    apart, where = furthest(found, expected, names)
    print(
        f"{case.name:17} {case.batch:>5} {expected[0].shape[1]:>7} {before:>9.2f} {after:>10.2f} {before / after:>6.2f}"
        f"   {apart:.4f} ({where})",
        flush=True,
    )


class Kernels:
    """The two operators with the inputs that one layer gives them."""

    def __init__(self, case: Case) -> None:
        taken: list[tuple[Tensor, Tensor, Tensor, list[tuple[int, int, int]]]] = []
        module, tensors, levels = case.make()
        read = deformable_triton.read

        def listen(values, places, weights, shapes):
            taken.append((values.detach(), places.detach().float(), weights.detach().float(), shapes))
            return read(values, places, weights, shapes)

        deformable_triton.read = listen
        try:
            with torch.autocast("cuda", torch.bfloat16):
                module(*tensors, levels)
        finally:
            deformable_triton.read = read
        *self.inputs, shapes = taken[0]
        self.shapes = [number for shape in shapes for number in shape]
        self.gradient = torch.randn_like(self.forward())
        self.corners = self.gradient.numel() * self.inputs[2].shape[3] * self.inputs[2].shape[4] * 4

    def forward(self) -> Tensor:
        return torch.ops.treeformer.read_places(*self.inputs, self.shapes)

    def backward(self) -> tuple[Tensor, Tensor, Tensor]:
        return torch.ops.treeformer.read_places_backward(self.gradient, *self.inputs, self.shapes)

    def parts(self) -> str:
        """Milliseconds of each kernel, by the profiler."""
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
    print(f"{'variant':23} {'forward ms':>10} {'GB/s':>7} {'backward ms':>11} {'10⁹ additions/s':>16}   ms of each")
    for name, changes in variants.items():
        try:
            with constants(changes):
                forward, backward = recorded_ms(kernels.forward), recorded_ms(kernels.backward)
                parts = kernels.parts()
        except Exception as error:  # a block too large for the device says so, and the others still run
            print(f"{name:23} {type(error).__name__}: {str(error).splitlines()[0][:90]}", flush=True)
            continue
        print(
            f"{name:23} {forward:>10.2f} {kernels.corners * 2 / forward / 1e6:>7.0f} {backward:>11.2f} "
            f"{kernels.corners / backward / 1e6:>16.0f}   {parts}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs=2, default=(64, 128), help="images, of paper and of default")
    parser.add_argument("--variants", action="store_true", help="other block sizes, on the paper's encoder")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("Nothing measured: it needs a GPU (CUDA, and Triton).")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {deformable_triton.triton.__version__}")
    print(
        f"{'attention of':17} {'batch':>5} {'queries':>7} {'plain, ms':>9} {'kernel, ms':>10} {'ratio':>6}   apart by"
    )
    all_cases = cases(arguments.batch)
    for case in all_cases:
        whole_attention(case)
    for case in all_cases:
        several = arguments.variants and case is all_cases[0]
        kernels_alone(case, VARIANTS if several else {"as it is": {}})


if __name__ == "__main__":
    main()
