"""The relation head: for every pair of nodes, is there an edge?

The paper's head is a perceptron on [h_i, h_j, r]: two object tokens and the relation token. Its first layer is linear,
so it is W₁h_i + W₂h_j + W₃r, and the three matrices need to be applied once a token, not once a pair. Written with the
sum and the difference of the two tokens it splits into an even part E, which stays when i and j change places, and an
odd part O, which changes its sign; their matrices are (W₁ + W₂)/2 and (W₁ − W₂)/2. So the head looks at a pair from
both sides, E + O and E − O, and the mean of the two answers is symmetric.

Beyond the paper, the head may look along the segment between two nodes, and may ask a second time, when the first
answers tell which other edges leave the two nodes, and in which directions (`treeformer.nn.edge_context`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn.deformable_attention import FeatureLevel, sample
from treeformer.nn.edge_context import edge_context
from treeformer.nn.in_use import is_inference_on_gpu
from treeformer.nn.transformer import MLP

DISTANCE_SCALE_PX = 64.0
MOST_CERTAIN = 12.0  # margins beyond this are all the same


class RelationHead(nn.Module):
    """Symmetric edge logits for all pairs of nodes.

    Args:
        width: channels of the tokens.
        hidden: channels of the head's hidden layers.
        fine_channels: channels of the finest level; 0 where the head does not look at the image.
        segment_channels: channels of the map that is read along the segment between two nodes.
        segment_points: places on the segment, an even number.
        num_harmonics: angular harmonics of the other edges at both nodes, for the second answer; 0: there is none.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        fine_channels: int = 0,
        segment_channels: int = 32,
        segment_points: int = 16,
        num_harmonics: int = 0,
    ) -> None:
        super().__init__()
        self.even_tokens = nn.Linear(width, hidden, bias=False)
        self.odd_tokens = nn.Linear(width, hidden, bias=False)
        self.relation = nn.Linear(width, hidden)
        self.tail = MLP(hidden, hidden, 2)
        self.segment_points = segment_points
        self.segment_map: nn.Linear | None = None
        if fine_channels:
            self.segment_map = nn.Linear(fine_channels, segment_channels)
            half = segment_channels * segment_points // 2
            self.even_segment = nn.Linear(half + 2, hidden, bias=False)
            self.odd_segment = nn.Linear(half + 2, hidden, bias=False)
        self.num_harmonics = num_harmonics
        if num_harmonics:
            self.pair_again = nn.Linear(hidden, hidden, bias=False)
            self.context = nn.Linear(2 * 4 * num_harmonics + 1, hidden)
            self.correction = nn.Linear(hidden, 2)
            nn.init.zeros_(self.correction.weight)  # the second answer begins as the first
            nn.init.zeros_(self.correction.bias)

    def forward(self, tokens: Tensor, relation: Tensor, points: Tensor, fine: FeatureLevel, scores: Tensor) -> Tensor:
        """Logits [no edge, edge] of every pair.

        Args:
            tokens: (B,N,width), the objects.
            relation: (B,width).
            points: (B,N,2) px; no gradient flows through them.
            fine: the finest level, read along the segments.
            scores: (B,N) probabilities of being a node: what edges to it count in the context of others.

        Returns:
            (B,N,N,2) float32, symmetric in i and j; 0 on the diagonal.
        """
        count = tokens.shape[1]
        first, second, pair_of = pairs_among(count, tokens.device)
        even, odd = self.even_tokens(tokens), self.odd_tokens(tokens)
        if not is_inference_on_gpu(tokens):
            # float32 before the gathers: their backward adds a hundred rows into one.
            even, odd = even.float(), odd.float()
        even = even.index_select(1, first) + even.index_select(1, second) + self.relation(relation)[:, None]
        odd = odd.index_select(1, first) - odd.index_select(1, second)
        start, end = (points.detach().index_select(1, nodes) for nodes in (first, second))
        if self.segment_map is not None:
            step = (end - start) / DISTANCE_SCALE_PX
            # The root of zero has no finite slope; two nodes may share a place.
            distance = (step.square().sum(-1, keepdim=True) + 1e-12).sqrt()
            sums, differences = read_along(start, end, mapped(fine, self.segment_map), self.segment_points)
            even = with_parts(even, self.even_segment, [sums, distance, torch.log1p(8 * distance)])
            odd = with_parts(odd, self.odd_segment, [differences, step])
        one_way, other_way = functional.relu(even + odd), functional.relu(even - odd)
        logits = (self.tail(one_way) + self.tail(other_way)).float() / 2
        if self.num_harmonics:
            margin = logits[..., :1] - logits[..., 1:]
            likely = spread(torch.sigmoid(-margin), pair_of)[..., 0] * (scores[:, :, None] * scores[:, None]).detach()
            seen = edge_context(points.detach(), likely, self.num_harmonics).flatten(1, 2).to(one_way.dtype)
            at_first = seen.index_select(1, first * count + second)
            at_second = seen.index_select(1, second * count + first)
            bounded = margin.clamp(-MOST_CERTAIN, MOST_CERTAIN) / MOST_CERTAIN
            for way, ends in ((one_way, (at_first, at_second)), (other_way, (at_second, at_first))):
                again = with_parts(self.pair_again(way), self.context, [*ends, bounded])
                logits = logits + self.correction(functional.relu(again)).float() / 2
        return spread(logits, pair_of)


def with_parts(total: Tensor, layer: nn.Linear, parts: list[Tensor]) -> Tensor:
    """total + layer(all parts side by side): total (B,P,hidden), which may be overwritten, parts (B,P,…).

    In use on a GPU the parts are multiplied one by one: putting them side by side would take longer than that, and a
    width that is not a multiple of 8 keeps tensor cores from the product.
    """
    if not is_inference_on_gpu(total):
        return total + layer(torch.cat(parts, dim=-1))
    blocks = layer.weight.split([part.shape[-1] for part in parts], dim=1)
    aligned = [(part, block) for part, block in zip(parts, blocks, strict=True) if part.shape[-1] % 8 == 0]
    narrow = [(part, block) for part, block in zip(parts, blocks, strict=True) if part.shape[-1] % 8]
    if narrow:
        part, block = (torch.cat(both, dim=-1) for both in zip(*narrow, strict=True))
        spare = (0, -part.shape[-1] % 8)
        aligned.append((functional.pad(part, spare), functional.pad(block, spare)))
    if layer.bias is not None:
        total = total + layer.bias.to(total.dtype)
    flat = total.flatten(0, -2)
    for part, block in aligned:
        flat.addmm_(part.flatten(0, -2).to(total.dtype), block.to(total.dtype).contiguous().t())
    return flat.view(total.shape)


def spread(pairs: Tensor, pair_of: Tensor) -> Tensor:
    """(B,P,C) of pairs → (B,N,N,C), symmetric, 0 on the diagonal; pair_of (N,N) as `pairs_among` gives it."""
    # Row 0 is the diagonal's.
    rows = functional.pad(pairs, (0, 0, 1, 0)).index_select(1, pair_of.flatten())
    return rows.view(pairs.shape[0], *pair_of.shape, pairs.shape[-1])


def mapped(level: FeatureLevel, layer: nn.Linear) -> FeatureLevel:
    """The level with a layer applied to each of its cells."""
    return level._replace(cells=layer(level.cells))


def read_along(start: Tensor, end: Tensor, level: FeatureLevel, count: int) -> tuple[Tensor, Tensor]:
    """What a level shows at `count` places on segments, start and end (B,P,2) px: even and odd parts.

    Places at the same distance from either end are added and subtracted: (B,P,channels·count/2) each.
    """
    along = (torch.arange(count, device=start.device) + 0.5) / count
    places = start[:, :, None] + (end - start)[:, :, None] * along[:, None]  # (B,P,T,2)
    near, far = sample(level, places).chunk(2, dim=2)
    far = far.flip(2)
    return (near + far).flatten(2), (near - far).flatten(2)


def pairs_among(count: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The P = count·(count−1)/2 pairs (i < j) in the order of j, in closed form: a table would bound the count.

    Returns:
        first, second: (P,) int64, i and j of each pair.
        pair_of: (count,count) int64, 1 + the number of the pair; 0 on the diagonal.
    """
    number = torch.arange(count * (count - 1) // 2, device=device)
    # j is the largest whole number with j(j−1)/2 ≤ number; the root is exact where its argument is a square.
    second = ((1 + (1 + 8 * number.double()).sqrt()) / 2).long()
    first = number - second * (second - 1) // 2
    node = torch.arange(count, device=device)
    low, high = torch.minimum(node[:, None], node), torch.maximum(node[:, None], node)
    pair_of = (high * (high - 1) // 2 + low + 1) * (low != high)
    return first, second, pair_of
