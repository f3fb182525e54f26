"""Prim's algorithm as a Triton kernel: one program of one or a few warps spans one graph.

A first kernel maps costs to integer levels that have the same order and are equal in both directions. The second kernel
runs Prim's algorithm on keys (level, lower node, higher node), as `treeformer.decoding.spanning` does, and therefore
finds the same tree.

The time of a step is the latency of reading one row of levels. Rows are padded to a power of two and read without a
mask: with a mask, ptxas waits for each of a thread's eight reads before it issues the next. The state of a node is held
in integers because a thread has only seven predicate registers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treeformer.nn.kernels._triton import jit, tl, triton

MAX_NODES = 4096  # the row of keys is held in registers
TILE = 32


def can_span(cost: Tensor) -> bool:
    """Return True if the kernels support costs (B,N,N): Triton is installed, not float64, N ≤ `MAX_NODES`."""
    return triton is not None and cost.dtype != torch.float64 and cost.shape[-1] <= MAX_NODES


def minimum_spanning_tree(cost: Tensor, mask: Tensor, warps: int | None = None) -> Tensor:
    """Return the minimum spanning tree of each graph of a batch on CUDA: symmetric adjacency (B,N,N).

    The cost is (B,N,N) float32, float16 or bfloat16, N at most `MAX_NODES`, the mask (B,N); otherwise as in
    `treeformer.nn.spanning`. The warps per graph are chosen by `warps_for`; the benchmark tries other values.
    """
    graphs, nodes = mask.shape
    tree = torch.zeros((graphs, nodes, nodes), dtype=torch.bool, device=cost.device)
    if graphs == 0 or nodes < 2:
        return tree
    cost, real = cost.contiguous(), mask.contiguous().view(torch.uint8)
    width = max(triton.next_power_of_2(nodes), TILE)
    level = torch.empty((graphs, nodes, width), dtype=torch.int32, device=cost.device)
    with torch.cuda.device(cost.get_device()):
        _edge_levels[(graphs, triton.cdiv(nodes, TILE), width // TILE)](cost, level, nodes, WIDTH=width, TILE=TILE)
        _prim[(graphs,)](level, real, tree.view(torch.uint8), nodes, WIDTH=width, num_warps=warps or warps_for(width))
    return tree


def warps_for(width: int) -> int:
    """Return the number of warps for a row of keys: eight keys per thread, so up to 256 nodes need no barrier."""
    return min(max(width // 256, 1), 8)


@jit
def _edge_levels(
    cost_ptr: tl.tensor, level_ptr: tl.tensor, nodes: tl.tensor, WIDTH: tl.constexpr, TILE: tl.constexpr
) -> None:
    """Map cost (B,N,N) to level (B,N,WIDTH) int32: the bits of the mean of both directions, ordered as the costs."""
    graph = tl.program_id(0).to(tl.int64)
    cost_ptr += graph * nodes * nodes
    level_ptr += graph * nodes * WIDTH
    i = tl.program_id(1) * TILE + tl.arange(0, TILE)
    j = tl.program_id(2) * TILE + tl.arange(0, TILE)
    inside = (i < nodes)[:, None] & (j < nodes)[None, :]
    cost = tl.load(cost_ptr + i[:, None] * nodes + j[None, :], mask=inside, other=float("inf"))
    # The tile on the other side of the diagonal is read along its own rows and then transposed.
    inside_back = (j < nodes)[:, None] & (i < nodes)[None, :]
    back = tl.load(cost_ptr + j[:, None] * nodes + i[None, :], mask=inside_back, other=float("inf"))
    mean = cost.to(tl.float32) * 0.5 + tl.trans(back).to(tl.float32) * 0.5
    mean = tl.where(mean == mean, mean, float("inf"))  # NaN to +inf
    mean = tl.where(mean == 0.0, 0.0, mean)  # -0.0 to 0.0
    bits = mean.to(tl.int32, bitcast=True)
    level = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    tl.store(level_ptr + i[:, None] * WIDTH + j[None, :], level, mask=(i < nodes)[:, None])


@jit
def _prim(
    level_ptr: tl.tensor, real_ptr: tl.tensor, tree_ptr: tl.tensor, nodes: tl.tensor, WIDTH: tl.constexpr
) -> None:
    """Span by level (B,N,WIDTH) int32, real (B,N) uint8; edges are ones in tree (B,N,N) uint8, initialized with 0."""
    graph = tl.program_id(0).to(tl.int64)
    level_ptr += graph * nodes * WIDTH
    tree_ptr += graph * nodes * nodes
    node = tl.arange(0, WIDTH)
    real = tl.load(real_ptr + graph * nodes + node, mask=node < nodes, other=0) != 0
    barred = tl.where(real, -0x7FFFFFFF, 0x7FFFFFFF)  # above any level for nodes in the tree and for padding
    reach = tl.full([WIDTH], 0x7FFFFFFFFFFFFFFF, tl.int64)  # the lowest key between a node and the tree so far
    nothing = tl.full([WIDTH], 0x7FFFFFFFFFFFFFFF, tl.int64)
    steps = tl.sum(real.to(tl.int32), axis=0) - 1
    newest = tl.min(tl.where(real, node, WIDTH), axis=0)
    for _ in range(steps):
        level = tl.load(level_ptr + newest * WIDTH + node)
        taken = node == newest
        barred = tl.where(taken, 0x7FFFFFFF, barred)
        # (lower node, higher node, 1 if the higher one is outside the tree) in 15 + 15 + 1 bits. Of the two orders of
        # the nodes, the one with the lower node first is the lower number. The last bit never decides between edges.
        ends = tl.minimum((newest << 16) + (node << 1 | 1), (node << 16) + (newest << 1))
        key = tl.maximum(level, barred).to(tl.int64) << 32 | ends.to(tl.uint32).to(tl.int64)
        reach = tl.where(taken, nothing, tl.minimum(reach, key))
        # Two minima over 32 bits: a warp has an instruction for them, but none for 64 bits.
        reach_level = (reach >> 32).to(tl.int32)
        lowest = tl.min(reach_level, axis=0)
        edge = tl.min(tl.where(reach_level == lowest, reach.to(tl.int32), 0x7FFFFFFF), axis=0)
        lower, higher = edge >> 16, (edge >> 1) & 0x7FFF
        # Without a permitted edge (+inf) the new node starts the tree of another component.
        permitted = lowest < 0x7F800000
        tl.store(tree_ptr + lower * nodes + higher, 1, mask=permitted)
        tl.store(tree_ptr + higher * nodes + lower, 1, mask=permitted)
        newest = tl.where((edge & 1) != 0, higher, lower)
