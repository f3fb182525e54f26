"""Gathers between nodes and pairs: values and gradients are those of torch's own operations."""

from __future__ import annotations

import pytest
import torch

from treeformer.nn.deformable_attention import FeatureLevel
from treeformer.nn.pairs import both_directions, combine_ends, expand_pairs, pairs_to_matrix
from treeformer.nn.relation import RelationHead, node_pairs


def gradients(function, *inputs):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    parts = output if isinstance(output, tuple) else (output,)
    weights = [torch.rand(part.shape, generator=torch.Generator().manual_seed(3), dtype=part.dtype) for part in parts]
    sum((part * weight).sum() for part, weight in zip(parts, weights, strict=True)).backward()
    return parts, [leaf.grad for leaf in leaves]


def check(ours, plain, *inputs):
    for found, expected in zip(gradients(ours, *inputs), gradients(plain, *inputs), strict=True):
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_values_and_gradients_are_those_of_index_select(count):
    torch.manual_seed(0)
    first, second, pair_of = node_pairs(count, torch.device("cpu"))
    values = torch.randn(2, count, 3, dtype=torch.float64)
    for sign in (1.0, -1.0):
        check(
            lambda v, s=sign: combine_ends(v, first, second, pair_of, s),
            lambda v, s=sign: v.index_select(1, first) + s * v.index_select(1, second),
            values,
        )
    matrix = torch.randn(2, count, count, 3, dtype=torch.float64)
    check(
        lambda m: both_directions(m, first, second, pair_of),
        lambda m: (m[:, first, second], m[:, second, first]),
        matrix,
    )
    pairs = torch.randn(2, len(first), 3, dtype=torch.float64)
    check(lambda p: pairs_to_matrix(p, first, second, pair_of), lambda p: expand_pairs(p, pair_of), pairs)
    assert torch.equal(expand_pairs(pairs, pair_of)[:, first, second], pairs)


def test_the_relation_head_has_the_same_gradients():
    torch.manual_seed(0)
    heads = [
        RelationHead(
            8, 6, fine_channels=4, segment_channels=4, segment_points=2, num_harmonics=2, gather_gradients=gathers
        ).double()
        for gathers in (False, True)
    ]
    for parameter in heads[0].parameters():
        torch.nn.init.normal_(parameter)
    heads[1].load_state_dict(heads[0].state_dict())
    tokens = torch.randn(2, 5, 8, dtype=torch.float64)
    relation, points = torch.randn(2, 8, dtype=torch.float64), 16 * torch.rand(2, 5, 2, dtype=torch.float64)
    cells, scores = torch.randn(2, 16, 4, dtype=torch.float64), torch.rand(2, 5, dtype=torch.float64)
    results = []
    for head in heads:

        def run(tokens, relation, cells, head=head):
            return head(tokens, relation, points, FeatureLevel(cells, 4, 4, 4), scores)

        outputs, inputs = gradients(run, tokens, relation, cells)
        results.append([*outputs, *inputs, *(parameter.grad for parameter in head.parameters())])
    assert len(results[0]) > 10
    for plain, found in zip(*results, strict=True):
        torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-4)
