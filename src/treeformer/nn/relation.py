"""The relation head: predict an edge or no edge for every pair of nodes.

The paper's head is an MLP on [h_i, h_j, r]: two object tokens and the relation token. Its first layer is linear, that
is, W₁h_i + W₂h_j + W₃r, so the three matrices are applied once per token instead of once per pair. Written with the sum
and the difference of the two tokens, it has an even part E, which stays the same if i and j are exchanged, and an odd
part O, which changes its sign; their matrices are (W₁ + W₂)/2 and (W₁ − W₂)/2. The head computes both directions of a
pair, E + O and E − O. The mean of the two results is symmetric.

Beyond the paper, the head may read the image along the segment between two nodes. It may also predict a second time,
with the first predictions as context: which other edges leave the two nodes, and in which directions
(`treeformer.nn.edge_context`). Further inputs are the map of center lines along the segment
(`treeformer.nn.line_evidence`), and whether both nodes expect a neighbor in the direction of the other one
(`treeformer.nn.node_kind`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.nn import pairs
from treeformer.nn.deformable_attention import FeatureLevel, sample_at
from treeformer.nn.edge_context import edge_context
from treeformer.nn.inference_mode import is_inference_on_gpu
from treeformer.nn.kernels import segments as segments_triton
from treeformer.nn.line_evidence import NUMBERS, POINTS, segment_evidence
from treeformer.nn.node_kind import direction_evidence
from treeformer.nn.transformer import MLP

DISTANCE_SCALE_PX = 64.0
MOST_CERTAIN = 12.0  # margins are clamped to this


class RelationHead(nn.Module):
    """Symmetric edge logits for all pairs of nodes.

    `fine_channels`, those of the finest level, are 0 if the head does not read the image; `segment_channels` are those
    of the map that is read along a segment, at an even number of points. `num_harmonics` counts the angular harmonics
    of the other edges at both nodes; 0 disables the second prediction. With `reads_lines`, the map of center lines is
    read along the segment, with `reads_kinds` the predicted directions of the neighbors of both nodes. With
    `gather_gradients`, gradients of gathers are computed by gathers in training (`treeformer.nn.pairs`).
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
        reads_lines: bool = False,
        reads_kinds: bool = False,
        gather_gradients: bool = False,
    ) -> None:
        super().__init__()
        self.gather_gradients = gather_gradients
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
            nn.init.zeros_(self.correction.weight)  # at first both predictions are equal
            nn.init.zeros_(self.correction.bias)
        self.reads_lines, self.reads_kinds = reads_lines, reads_kinds
        if reads_lines or reads_kinds:
            self.even_evidence = zero_linear(NUMBERS * reads_lines + 2 * reads_kinds, hidden)
        if reads_kinds:
            self.odd_evidence = zero_linear(1, hidden)

    def forward(
        self,
        tokens: Tensor,
        relation: Tensor,
        points: Tensor,
        fine: FeatureLevel,
        scores: Tensor,
        lines: FeatureLevel | None = None,
        kinds: Tensor | None = None,
    ) -> Tensor:
        """Predict the logits [no edge, edge] of every pair: (B,N,N,2) float32, symmetric, 0 on the diagonal.

        Tokens are (B,N,width), the relation token (B,width), points (B,N,2) px, without gradient. Scores (B,N) are
        probabilities of being a node, the weights of edges in the context of other edges. `lines` are the blurred
        center lines (`treeformer.nn.line_evidence`), and `kinds` (B,N,WIDTH) the logits of `treeformer.nn.node_kind`,
        without gradient.
        """
        count = tokens.shape[1]
        first, second, pair_of = node_pairs(count, tokens.device)
        even, odd = self.even_tokens(tokens), self.odd_tokens(tokens)
        if not is_inference_on_gpu(tokens):
            # float32 before the gathers: their backward adds about a hundred rows into one.
            even, odd = even.float(), odd.float()
        by_gathers = self.gather_gradients and self.training
        if by_gathers:
            even, odd = (
                pairs.combine_ends(part, first, second, pair_of, sign) for part, sign in ((even, 1.0), (odd, -1.0))
            )
            even = even + self.relation(relation)[:, None]
        else:
            even = even.index_select(1, first) + even.index_select(1, second) + self.relation(relation)[:, None]
            odd = odd.index_select(1, first) - odd.index_select(1, second)
        start, end = (points.detach().index_select(1, nodes) for nodes in (first, second))
        if self.segment_map is not None:
            step = (end - start) / DISTANCE_SCALE_PX
            # The slope of the square root is infinite at zero, and two nodes may have the same point.
            distance = (step.square().sum(-1, keepdim=True) + 1e-12).sqrt()
            rows = self.segment_map(fine.cells.flatten(0, 1))
            segment_level = fine._replace(cells=rows.view(-1, fine.cells.shape[1], rows.shape[1]))
            sums, differences = sample_segments(start, end, segment_level, self.segment_points)
            even = add_linear(even, self.even_segment, [sums, distance, torch.log1p(8 * distance)])
            odd = add_linear(odd, self.odd_segment, [differences, step])
        if self.reads_lines or self.reads_kinds:
            step = (end - start).float()
            x, y = (step / (step.square().sum(-1, keepdim=True) + 1e-12).sqrt()).unbind(-1)
            evidence = []
            if lines is not None:
                evidence.append(segment_evidence(segment_samples(start, end, lines, POINTS), x, y))
            if kinds is not None:
                forward, backward = direction_evidence(kinds.detach(), first, second, x, y)
                evidence.append(torch.stack([forward + backward, forward * backward], dim=-1))
                odd = add_linear(odd, self.odd_evidence, [(forward - backward)[..., None]])
            even = add_linear(even, self.even_evidence, evidence)
        i_to_j, j_to_i = functional.relu(even + odd), functional.relu(even - odd)
        logits = (self.tail(i_to_j) + self.tail(j_to_i)).float() / 2
        if self.num_harmonics:
            margin = logits[..., :1] - logits[..., 1:]
            score_products = (scores[:, :, None] * scores[:, None]).detach()
            certain = torch.sigmoid(-margin)
            likely = (
                pairs.pairs_to_matrix(certain, first, second, pair_of)
                if by_gathers
                else pairs.expand_pairs(certain, pair_of)
            )
            context = edge_context(points.detach(), likely[..., 0] * score_products, self.num_harmonics).to(
                i_to_j.dtype
            )
            if by_gathers:
                at_first, at_second = pairs.both_directions(context, first, second, pair_of)
            else:
                context = context.flatten(1, 2)
                at_first = context.index_select(1, first * count + second)
                at_second = context.index_select(1, second * count + first)
            bounded = margin.clamp(-MOST_CERTAIN, MOST_CERTAIN) / MOST_CERTAIN
            for hidden, ends in ((i_to_j, (at_first, at_second)), (j_to_i, (at_second, at_first))):
                again = add_linear(self.pair_again(hidden), self.context, [*ends, bounded])
                logits = logits + self.correction(functional.relu(again)).float() / 2
        if by_gathers:
            return pairs.pairs_to_matrix(logits, first, second, pair_of)
        return pairs.expand_pairs(logits, pair_of)


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear layer of zeros. No random number is drawn: the rest of a network does not depend on it."""
    layer: nn.Linear = nn.utils.skip_init(  # type: ignore[no-untyped-call]  # torch does not annotate it
        nn.Linear, inputs, outputs, bias=False
    )
    nn.init.zeros_(layer.weight)
    return layer


def add_linear(total: Tensor, layer: nn.Linear, parts: list[Tensor]) -> Tensor:
    """Compute total + layer(concatenation of the parts), (B,P,hidden); `total` may be overwritten.

    Parts are (B,P,C_i). For inference on a GPU they are multiplied one by one: concatenating them would take longer,
    and a width that is not a multiple of 8 prevents the use of tensor cores.
    """
    if not is_inference_on_gpu(total):
        result: Tensor = total + layer(torch.cat(parts, dim=-1))
        return result
    blocks = torch.split(layer.weight, [part.shape[-1] for part in parts], dim=1)
    aligned = [(part, block) for part, block in zip(parts, blocks, strict=True) if part.shape[-1] % 8 == 0]
    narrow = [(part, block) for part, block in zip(parts, blocks, strict=True) if part.shape[-1] % 8]
    if narrow:
        part, block = (torch.cat(both, dim=-1) for both in zip(*narrow, strict=True))
        padding = (0, -part.shape[-1] % 8)
        aligned.append((functional.pad(part, padding), functional.pad(block, padding)))
    if layer.bias is not None:
        total = total + layer.bias.to(total.dtype)
    flat = total.flatten(0, -2)
    for part, block in aligned:
        flat.addmm_(part.flatten(0, -2).to(total.dtype), block.to(total.dtype).contiguous().t())
    return flat.view(total.shape)


def sample_segments(start: Tensor, end: Tensor, level: FeatureLevel, count: int) -> tuple[Tensor, Tensor]:
    """Sample a level along segments; return sums and differences of the samples at the same distance from either end.

    Starts and ends are (B,P,2) px, `count` is the even number of samples, and the results are (B,P,channels·count/2).
    """
    if is_inference_on_gpu(level.cells) and segments_triton.can_read(level.cells):
        return segments_triton.read(level.cells, start, end, (level.height, level.width, level.stride), count)
    samples = _sample_points(start, end, level, count)
    near, far = samples[:, :, : count // 2], samples[:, :, count // 2 :].flip(2)
    return (near + far).flatten(2), (near - far).flatten(2)


def segment_samples(start: Tensor, end: Tensor, level: FeatureLevel, count: int) -> Tensor:
    """Sample a level along segments (B,P,2) px: (B,P,count,channels), the samples of a segment in any order."""
    if is_inference_on_gpu(level.cells) and segments_triton.can_read(level.cells):
        both = sample_segments(start, end, level, count)
        sums, differences = (torch.unflatten(part, 2, (count // 2, -1)) for part in both)
        return torch.cat([sums + differences, sums - differences], dim=2) / 2
    return _sample_points(start, end, level, count)


def _sample_points(start: Tensor, end: Tensor, level: FeatureLevel, count: int) -> Tensor:
    """Sample a level (B,P,count,channels) along segments, from the start to the end."""
    fraction = (torch.arange(count, device=start.device) + 0.5) / count
    x, y = (  # (B,P,T), apart from each other: operations on rows of two numbers are slow on a CPU
        origin[..., None] + step[..., None] * fraction
        for origin, step in zip(start.float().unbind(-1), (end - start).float().unbind(-1), strict=True)
    )
    return sample_at(level, x, y)


def node_pairs(count: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return i and j of all P = count·(count−1)/2 pairs i < j, ordered by j, and `pair_of`; see `treeformer.nn.pairs`.

    They are computed in closed form: a precomputed table would limit the number of nodes.
    """
    number = torch.arange(count * (count - 1) // 2, device=device)
    # j is the largest integer with j(j−1)/2 ≤ number; the square root is exact if its argument is a square.
    second = ((1 + (1 + 8 * number.double()).sqrt()) / 2).long()
    first = number - second * (second - 1) // 2
    node = torch.arange(count, device=device)
    low, high = torch.minimum(node[:, None], node), torch.maximum(node[:, None], node)
    pair_of = (high * (high - 1) // 2 + low + 1) * (low != high)
    return first, second, pair_of
