"""The Hungarian method as a Triton kernel: one program of one or a few warps assigns the nodes of one image.

The method adds one node at a time and searches a shortest augmenting path: from the new node, through the tokens of
other nodes, to a free token. Then every node on the path moves to the next token. Dual prices keep all reduced costs at
0 or above, so the search is Dijkstra's algorithm. The state of a token (its price, its node, the price of that node)
is held in registers; a step reads one row of costs. The arithmetic is float64, as in SciPy: both find the same total.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treeformer.nn.kernels._triton import jit, tl, triton

MAX_TOKENS = 1024  # their state is held in registers


def can_assign(cost: Tensor) -> bool:
    """Return True if the kernel supports costs (B,M,K): CUDA with Triton, and M ≤ K ≤ `MAX_TOKENS`."""
    return triton is not None and cost.is_cuda and cost.shape[1] <= cost.shape[2] <= MAX_TOKENS


def assign(cost: Tensor, mask: Tensor) -> Tensor:
    """Assign tokens to nodes on the GPU, as `treeformer.nn.matching.assign` does on the CPU.

    The cost is (B,M,K), finite, M at most K; the mask (B,M) is True for a real node.
    """
    batch, nodes, tokens = cost.shape
    token = torch.full((batch, nodes), -1, dtype=torch.int64, device=cost.device)
    if token.numel():
        width = max(triton.next_power_of_2(tokens), 32)
        real = mask.contiguous().view(torch.uint8)
        with torch.cuda.device(cost.get_device()):
            _hungarian[(batch,)](
                cost.float().contiguous(), real, token, nodes, tokens, WIDTH=width, num_warps=max(width // 256, 1)
            )
    return token


@jit
def _hungarian(
    cost_ptr: tl.tensor, real_ptr: tl.tensor, result_ptr: tl.tensor, nodes: tl.tensor, tokens: tl.tensor,
    WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    """Assign by cost (B,nodes,tokens) float32, real (B,nodes) uint8; result (B,nodes) int64 is initialized with −1."""
    image = tl.program_id(0).to(tl.int64)
    cost_ptr += image * nodes * tokens
    token = tl.arange(0, WIDTH)
    inside = token < tokens
    node_of = tl.full([WIDTH], -1, tl.int32)
    node_price = tl.zeros([WIDTH], tl.float64)  # of the token's node
    price = tl.zeros([WIDTH], tl.float64)  # of the token
    infinite = tl.full([WIDTH], float("inf"), tl.float64)
    for new in range(nodes):
        real = tl.load(real_ptr + image * nodes + new) != 0
        distance = infinite  # length of the shortest path from the new node to each token …
        previous = tl.full([WIDTH], -1, tl.int32)  # … and the token before it on that path; −1 for none
        visited = tl.full([WIDTH], 0, tl.int32)
        new_price = tl.full([], 0.0, tl.float64)
        at_token = tl.full([], -1, tl.int32)
        at_node, at_price = new + 0, new_price
        searching = real
        while searching:
            cost = tl.load(cost_ptr + at_node * tokens + token, mask=inside, other=float("inf")).to(tl.float64)
            reduced = cost - at_price - price
            shorter = (visited == 0) & (reduced < distance)
            distance = tl.where(shorter, reduced, distance)
            previous = tl.where(shorter, at_token, previous)
            open_distance = tl.where(visited == 0, distance, infinite)
            step = tl.min(open_distance, axis=0)
            nearest = tl.min(tl.where(open_distance == step, token, WIDTH - 1), axis=0)
            new_price += step
            node_price = tl.where(visited != 0, node_price + step, node_price)
            price = tl.where(visited != 0, price - step, price)
            distance = tl.where(visited != 0, distance, distance - step)
            current = token == nearest
            at_node = tl.max(tl.where(current, node_of, -1), axis=0)
            at_price = tl.sum(tl.where(current, node_price, 0.0), axis=0)
            visited = tl.where(current, 1, visited)
            at_token = nearest
            searching = at_node >= 0
        # Back along the path: each token takes the node of the token before it, the first token takes the new node.
        while at_token >= 0:
            current = token == at_token
            last = tl.max(tl.where(current, previous, -1), axis=0)
            source = token == last
            moved = tl.where(last >= 0, tl.max(tl.where(source, node_of, -1), axis=0), new)
            moved_price = tl.where(last >= 0, tl.sum(tl.where(source, node_price, 0.0), axis=0), new_price)
            node_of = tl.where(current, moved, node_of)
            node_price = tl.where(current, moved_price, node_price)
            at_token = last
    tl.store(result_ptr + image * nodes + node_of, token.to(tl.int64), mask=node_of >= 0)
