"""Prim's algorithm as a Triton kernel: one program, of a warp or a few, spans one graph.

A first kernel turns the costs into integer levels (the same in both directions, in the order of the costs). The second
runs Prim on keys (level, lower node, higher node) as `treeformer.decoding.spanning` does, and so finds the same tree.

What a step costs is the time one row of levels takes to arrive, so all else keeps out of its way: rows are padded to a
power of two and read without a mask (with one, ptxas waits for each of a thread's eight reads before the next), and the
state of a node is held in integers, because a thread has only seven predicates.
"""

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # torch for the CPU alone comes without Triton
    triton = tl = None

MAX_NODES = 4096  # the row of keys lives in registers
TILE = 32


def jit(kernel):
    """`triton.jit` where there is Triton; without it this module can still be imported."""
    return kernel if triton is None else triton.jit(kernel)


def can_span(cost: Tensor) -> bool:
    """Whether the kernels can take this batch: Triton is there, and costs and nodes fit their keys."""
    return triton is not None and cost.dtype != torch.float64 and cost.shape[-1] <= MAX_NODES


def minimum_spanning_tree(cost: Tensor, mask: Tensor, warps: int | None = None) -> Tensor:
    """The minimum spanning tree of each graph of a batch on CUDA.

    Args:
        cost: (B,N,N) float32, float16 or bfloat16, N at most `MAX_NODES`; otherwise as in `treeformer.nn.spanning`.
        mask: (B,N) bool, True for a real node.
        warps: warps a graph, None for `warps_for`'s choice; the benchmark asks for others.

    Returns:
        (B,N,N) bool adjacency, symmetric.
    """
    graphs, nodes = mask.shape
    tree = torch.zeros((graphs, nodes, nodes), dtype=torch.bool, device=cost.device)
    if graphs == 0 or nodes < 2:
        return tree
    cost, real = cost.contiguous(), mask.contiguous().view(torch.uint8)
    width = max(triton.next_power_of_2(nodes), TILE)
    level = torch.empty((graphs, nodes, width), dtype=torch.int32, device=cost.device)
    with torch.cuda.device_of(cost):
        edge_levels[(graphs, triton.cdiv(nodes, TILE), width // TILE)](cost, level, nodes, WIDTH=width, TILE=TILE)
        prim[(graphs,)](level, real, tree.view(torch.uint8), nodes, WIDTH=width, num_warps=warps or warps_for(width))
    return tree


def warps_for(width: int) -> int:
    """Eight keys a thread; graphs of up to 256 nodes need one warp and so no barrier."""
    return min(max(width // 256, 1), 8)


@jit
def edge_levels(cost_ptr, level_ptr, nodes, WIDTH: tl.constexpr, TILE: tl.constexpr):
    """cost (B,N,N) -> level (B,N,WIDTH) int32: the bits of the mean of both directions, in the order of the numbers."""
    graph = tl.program_id(0).to(tl.int64)
    cost_ptr += graph * nodes * nodes
    level_ptr += graph * nodes * WIDTH
    i = tl.program_id(1) * TILE + tl.arange(0, TILE)
    j = tl.program_id(2) * TILE + tl.arange(0, TILE)
    inside = (i < nodes)[:, None] & (j < nodes)[None, :]
    cost = tl.load(cost_ptr + i[:, None] * nodes + j[None, :], mask=inside, other=float("inf"))
    # The tile on the other side of the diagonal is read along its own rows and then turned.
    inside_back = (j < nodes)[:, None] & (i < nodes)[None, :]
    back = tl.load(cost_ptr + j[:, None] * nodes + i[None, :], mask=inside_back, other=float("inf"))
    mean = cost.to(tl.float32) * 0.5 + tl.trans(back).to(tl.float32) * 0.5
    mean = tl.where(mean == mean, mean, float("inf"))  # NaN to +inf
    mean = tl.where(mean == 0.0, 0.0, mean)  # -0.0 to 0.0
    bits = mean.to(tl.int32, bitcast=True)
    level = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    tl.store(level_ptr + i[:, None] * WIDTH + j[None, :], level, mask=(i < nodes)[:, None])


@jit
def prim(level_ptr, real_ptr, tree_ptr, nodes, WIDTH: tl.constexpr):
    """level (B,N,WIDTH) int32, real (B,N) uint8 -> ones in tree (B,N,N) uint8, which comes in as zeros."""
    graph = tl.program_id(0).to(tl.int64)
    level_ptr += graph * nodes * WIDTH
    tree_ptr += graph * nodes * nodes
    node = tl.arange(0, WIDTH)
    real = tl.load(real_ptr + graph * nodes + node, mask=node < nodes, other=0) != 0
    barred = tl.where(real, -0x7FFFFFFF, 0x7FFFFFFF)  # nodes in the tree, and padding: above any level
    reach = tl.full([WIDTH], 0x7FFFFFFFFFFFFFFF, tl.int64)  # the lowest key between a node and the tree so far
    nothing = tl.full([WIDTH], 0x7FFFFFFFFFFFFFFF, tl.int64)
    steps = tl.sum(real.to(tl.int32), axis=0) - 1
    newest = tl.min(tl.where(real, node, WIDTH), axis=0)
    for _ in range(steps):
        level = tl.load(level_ptr + newest * WIDTH + node)
        taken = node == newest
        barred = tl.where(taken, 0x7FFFFFFF, barred)
        # (lower node, higher node, whether the higher one is outside the tree) in 15 + 15 + 1 bits: of the two ways to
        # write it, the one with the lower node first is the lower number. The last bit never decides between edges.
        ends = tl.minimum((newest << 16) + (node << 1 | 1), (node << 16) + (newest << 1))
        key = tl.maximum(level, barred).to(tl.int64) << 32 | ends.to(tl.uint32).to(tl.int64)
        reach = tl.where(taken, nothing, tl.minimum(reach, key))
        # Two minima over 32 bits: a warp has an instruction for those, none for 64.
        reach_level = (reach >> 32).to(tl.int32)
        lowest = tl.min(reach_level, axis=0)
        edge = tl.min(tl.where(reach_level == lowest, reach.to(tl.int32), 0x7FFFFFFF), axis=0)
        lower, higher = edge >> 16, (edge >> 1) & 0x7FFF
        # Without a permitted edge (+inf) the new node begins the tree of another piece.
        permitted = lowest < 0x7F800000
        tl.store(tree_ptr + lower * nodes + higher, 1, mask=permitted)
        tl.store(tree_ptr + higher * nodes + lower, 1, mask=permitted)
        newest = tl.where((edge & 1) != 0, higher, lower)
