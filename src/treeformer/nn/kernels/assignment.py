"""The Hungarian method as a Triton kernel: one program, of a warp or a few, assigns the nodes of one image.

Shortest augmenting paths, node by node: from the new node the cheapest way is searched, through the tokens of other
nodes, to a token that is free; then every node on the way moves on by one token. Prices keep all reduced costs at 0 or
above, so a search is Dijkstra's. What belongs to a token (its price, its node, that node's price) lives in registers;
a step reads one row of costs. In float64, as SciPy does it, so both find the same total.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treeformer.nn.kernels.spanning import jit, tl, triton

MAX_TOKENS = 1024  # what belongs to them lives in registers


def can_assign(cost: Tensor) -> bool:
    """Whether the kernel can take costs (B,M,K): there are Triton and a GPU, and no fewer tokens than nodes."""
    return triton is not None and cost.is_cuda and cost.shape[1] <= cost.shape[2] <= MAX_TOKENS


def assign(cost: Tensor, mask: Tensor) -> Tensor:
    """The token of each real node, −1 where there is none; `treeformer.nn.matching.assign` on the GPU.

    Args:
        cost: (B,M,K) finite, M at most K.
        mask: (B,M) bool, True for a real node.

    Returns:
        (B,M) int64.
    """
    batch, nodes, tokens = cost.shape
    token = torch.full((batch, nodes), -1, dtype=torch.int64, device=cost.device)
    if token.numel():
        width = max(triton.next_power_of_2(tokens), 32)
        real = mask.contiguous().view(torch.uint8)
        with torch.cuda.device_of(cost):
            hungarian[(batch,)](
                cost.float().contiguous(), real, token, nodes, tokens, WIDTH=width, num_warps=max(width // 256, 1)
            )
    return token


@jit
def hungarian(cost_ptr, real_ptr, result_ptr, nodes, tokens, WIDTH: tl.constexpr):
    """cost (B,nodes,tokens) float32, real (B,nodes) uint8 -> result (B,nodes) int64, which comes in as −1."""
    image = tl.program_id(0).to(tl.int64)
    cost_ptr += image * nodes * tokens
    token = tl.arange(0, WIDTH)
    inside = token < tokens
    node_of = tl.full([WIDTH], -1, tl.int32)
    node_price = tl.zeros([WIDTH], tl.float64)  # of the token's node
    price = tl.zeros([WIDTH], tl.float64)  # of the token
    endless = tl.full([WIDTH], float("inf"), tl.float64)
    for new in range(nodes):
        real = tl.load(real_ptr + image * nodes + new) != 0
        way = endless  # the cheapest way from the new node to each token …
        before = tl.full([WIDTH], -1, tl.int32)  # … and the token before it there; −1: none
        passed = tl.full([WIDTH], 0, tl.int32)
        new_price = tl.full([], 0.0, tl.float64)
        at_token = tl.full([], -1, tl.int32)
        at_node, at_price = new + 0, new_price
        searching = real
        while searching:
            cost = tl.load(cost_ptr + at_node * tokens + token, mask=inside, other=float("inf")).to(tl.float64)
            reduced = cost - at_price - price
            nearer = (passed == 0) & (reduced < way)
            way = tl.where(nearer, reduced, way)
            before = tl.where(nearer, at_token, before)
            open_way = tl.where(passed == 0, way, endless)
            step = tl.min(open_way, axis=0)
            nearest = tl.min(tl.where(open_way == step, token, WIDTH - 1), axis=0)
            new_price += step
            node_price = tl.where(passed != 0, node_price + step, node_price)
            price = tl.where(passed != 0, price - step, price)
            way = tl.where(passed != 0, way, way - step)
            here = token == nearest
            at_node = tl.max(tl.where(here, node_of, -1), axis=0)
            at_price = tl.sum(tl.where(here, node_price, 0.0), axis=0)
            passed = tl.where(here, 1, passed)
            at_token = nearest
            searching = at_node >= 0
        # Back along the way: each token takes the node of the token before it, the first one the new node.
        while at_token >= 0:
            here = token == at_token
            last = tl.max(tl.where(here, before, -1), axis=0)
            there = token == last
            moved = tl.where(last >= 0, tl.max(tl.where(there, node_of, -1), axis=0), new)
            moved_price = tl.where(last >= 0, tl.sum(tl.where(there, node_price, 0.0), axis=0), new_price)
            node_of = tl.where(here, moved, node_of)
            node_price = tl.where(here, moved_price, node_price)
            at_token = last
    tl.store(result_ptr + image * nodes + node_of, token.to(tl.int64), mask=node_of >= 0)
