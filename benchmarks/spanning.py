"""Check all implementations of minimum spanning trees and measure their speed.

    PYTHONPATH=src python benchmarks/spanning.py            # CPU, and CUDA if available
    PYTHONPATH=src python benchmarks/spanning.py --quick    # fewer checks and repetitions

All times start from the cost matrix. CPU implementations are called in turn within one run and medians are reported,
so that ratios hold on a busy machine too. The exit code is 1 if any tree is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from statistics import median

import networkx as nx
import numpy as np
import scipy
import scipy.sparse.csgraph
import torch

from treeformer.decoding import spanning as single
from treeformer.nn import minimum_spanning_tree
from treeformer.nn.kernels import spanning as spanning_triton

KINDS = ("distinct", "ties", "asymmetric", "holes", "wild")
CPU_BATCH = 16
CPU_NODES = (64, 128, 205, 256)
CUDA_SIZES = ((64, 100), (64, 200), (256, 200), (64, 512), (64, 1024))  # (graphs, nodes)
CUDA_TARGET_MS = {(64, 200): 0.2}
INPUT_SETS = 5


def random_batch(kind: str, graphs: int, nodes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return costs (B,N,N) and masks (B,N); "wild" mixes NaN, infinities, signed zeros and very large numbers."""
    rng = np.random.default_rng(seed)
    shape = (graphs, nodes, nodes)
    cost = rng.normal(size=shape)
    if kind == "ties":
        cost = rng.integers(-2, 3, shape) * rng.choice([-1.0, 1.0], shape)
    if kind == "holes":
        cost[rng.random(shape) < 0.6] = np.inf
    if kind == "wild":
        cost = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1.0], shape)
    if kind != "asymmetric":
        cost = np.where(np.tri(nodes, dtype=bool), cost, cost.transpose(0, 2, 1))
    mask = rng.random((graphs, nodes)) < np.linspace(0, 1.2, graphs)[:, None]
    return torch.from_numpy(cost.astype(np.float32)), torch.from_numpy(mask)


def by_networkx(cost: np.ndarray) -> list[tuple[int, int]]:
    """Compute the tree with Kruskal's algorithm as the paper does; the graph is built from a list of edges."""
    i, j = np.triu_indices(len(cost), 1)
    graph = nx.Graph()
    graph.add_weighted_edges_from(zip(i.tolist(), j.tolist(), cost[i, j].tolist(), strict=True))
    return list(nx.minimum_spanning_tree(graph).edges())


def by_scipy(cost: np.ndarray) -> list[tuple[int, int]]:
    """Compute the tree with SciPy, which reads 0 as no edge; costs are shifted above 0 first."""
    tree = scipy.sparse.csgraph.minimum_spanning_tree(cost - (cost.min() - 1)).tocoo()
    return list(zip(tree.row.tolist(), tree.col.tolist(), strict=True))


def weight(cost: np.ndarray, edges) -> float:
    return float(sum(cost[i, j] for i, j in edges))


def check_cpu(graphs_per_size: int) -> tuple[int, int]:
    """Compare total weights with NetworkX. Returns the numbers of checked and wrong graphs."""
    checked = wrong = 0
    for nodes in (2, 3, 5, 8, 13, 24):
        for kind in ("distinct", "ties"):
            cost, _ = random_batch(kind, graphs_per_size, nodes, seed=nodes)
            for matrix, tree in zip(cost.double().numpy(), minimum_spanning_tree(cost).numpy(), strict=True):
                checked += 1
                wrong += abs(weight(matrix, np.argwhere(np.triu(tree))) - weight(matrix, by_networkx(matrix))) > 1e-6
    return checked, wrong


def check_kernel(device: str, rounds: int) -> tuple[int, int]:
    """Compare the kernel's edges with those of the CPU. Returns the numbers of checked and wrong graphs."""
    checked = wrong = 0
    sizes = (2, 3, 17, 32, 33) if device == "cpu" else (2, 3, 17, 32, 33, 64, 100, 129, 205, 256, 300, 513, 1024)
    for round_ in range(rounds):
        for nodes in sizes:
            for kind in KINDS:
                graphs = 8 if nodes > 300 or device == "cpu" else 48
                cost, mask = random_batch(kind, graphs, nodes, seed=1000 * round_ + nodes)
                for dtype in (torch.float32, torch.bfloat16):
                    tree = spanning_triton.minimum_spanning_tree(cost.to(device, dtype), mask.to(device)).cpu()
                    checked += graphs
                    wrong += int((tree != minimum_spanning_tree(cost.to(dtype), mask)).any(-1).any(-1).sum())
    return checked, wrong


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def cpu_table(repeats: int) -> None:
    print(f"\nCPU, float32, ms per graph, and speedup over NetworkX (batch {CPU_BATCH}, medians of {repeats})")
    print(
        f"{'nodes':>6} {'NetworkX':>10} {'SciPy':>16} {'treeformer.decoding.spanning':>22} {'treeformer.nn, batch':>22}"
    )
    for nodes in CPU_NODES:
        times: dict[str, list[float]] = {"networkx": [], "scipy": [], "single": [], "batch": []}
        for repeat in range(repeats):
            rng = np.random.default_rng(repeat)
            cost = rng.normal(size=(CPU_BATCH, nodes, nodes)).astype(np.float32)
            cost = np.maximum(cost, cost.transpose(0, 2, 1))
            tensor = torch.from_numpy(cost)
            times["networkx"].append(milliseconds(lambda matrix=cost[0]: by_networkx(matrix)))
            times["scipy"].append(milliseconds(lambda matrix=cost[0]: by_scipy(matrix)))
            times["single"].append(milliseconds(lambda matrix=cost[0]: single.minimum_spanning_tree(matrix)))
            times["batch"].append(milliseconds(lambda batch=tensor: minimum_spanning_tree(batch)) / CPU_BATCH)
        middle = {name: median(values) for name, values in times.items()}
        cells = [
            f"{middle[name]:8.3f} ({middle['networkx'] / middle[name]:4.0f}×)" for name in ("scipy", "single", "batch")
        ]
        print(f"{nodes:>6} {middle['networkx']:>10.2f} {cells[0]:>16} {cells[1]:>22} {cells[2]:>22}")


def call_ms(inputs: list[tuple[torch.Tensor, torch.Tensor]], call: Callable, repeats: int) -> float:
    """Return the median time of single calls on an idle device, Python and launches included."""
    times = []
    for repeat in range(repeats * len(inputs)):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        call(*inputs[repeat % len(inputs)])
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return median(times)


def device_ms(inputs: list[tuple[torch.Tensor, torch.Tensor]], call: Callable, repeats: int) -> float:
    """Return the median time of replays of a CUDA graph, one graph per set of inputs."""
    times = []
    for cost, mask in inputs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call(cost, mask)
        for _ in range(repeats):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
    return median(times)


def cuda_table(repeats: int) -> None:
    print(
        f"\n{torch.cuda.get_device_name()}, float32, ms per batch, medians over {INPUT_SETS} sets of inputs × {repeats}"
    )
    print(
        "call: one call on an idle device, Python and launches included; device: the kernels alone, by warps per graph"
    )
    print(f"{'graphs':>6} {'nodes':>6} {'call':>8} {'device':>8} {'1 warp':>8} {'2':>8} {'4':>8} {'8':>8}")
    for graphs, nodes in CUDA_SIZES:
        inputs = []
        for seed in range(INPUT_SETS):
            generator = torch.Generator(device="cuda").manual_seed(seed)
            cost = torch.randn(graphs, nodes, nodes, device="cuda", generator=generator)
            inputs.append((cost, torch.ones(graphs, nodes, dtype=torch.bool, device="cuda")))
        for call in (minimum_spanning_tree, spanning_triton.minimum_spanning_tree):
            call(*inputs[0])
        whole = call_ms(inputs, minimum_spanning_tree, repeats)
        row = [whole, device_ms(inputs, minimum_spanning_tree, repeats)]
        for warps in (1, 2, 4, 8):

            def with_warps(cost: torch.Tensor, mask: torch.Tensor, warps: int = warps) -> torch.Tensor:
                return spanning_triton.minimum_spanning_tree(cost, mask, warps=warps)

            with_warps(*inputs[0])
            row.append(device_ms(inputs, with_warps, repeats))
        target = CUDA_TARGET_MS.get((graphs, nodes))
        verdict = "" if target is None else f"  target {target} ms: {'met' if whole <= target else 'MISSED'}"
        print(f"{graphs:>6} {nodes:>6} " + " ".join(f"{value:8.3f}" for value in row) + verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer checks and repetitions")
    quick = parser.parse_args().quick
    print(f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}, ", end="")
    print(f"NetworkX {nx.__version__}, SciPy {scipy.__version__}")
    interpreted = os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton") is not None
    checked, wrong = check_cpu(20 if quick else 250)
    print(f"CPU compared with NetworkX, total weight: {checked} graphs, {wrong} wrong")
    failures = wrong
    if torch.cuda.is_available() or interpreted:
        checked, wrong = check_kernel("cuda" if torch.cuda.is_available() else "cpu", rounds=1 if quick else 3)
        print(f"kernel compared with CPU, edges: {checked} graphs, {wrong} wrong")
        failures += wrong
    else:
        print("kernel compared with CPU: SKIPPED, no CUDA device (TRITON_INTERPRET=1 with Triton runs it on the CPU)")
    cpu_table(repeats=3 if quick else 9)
    if torch.cuda.is_available():
        cuda_table(repeats=10 if quick else 50)
    else:
        print("\nCUDA rows: SKIPPED, no CUDA device")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
