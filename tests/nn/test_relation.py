"""The relation head, against the paper's perceptron on [h_i, h_j, r] one ordered pair at a time."""

from __future__ import annotations

import pytest
import torch

from treeformer.nn.deformable_attention import as_level, sample
from treeformer.nn.relation import DISTANCE_SCALE_PX, RelationHead, pairs_among


def read_one_way(reader, level, p_i, p_j, count):
    """What a map shows at each of `count` places from i to j, and the same from j to i: sums and differences."""
    places = torch.stack([p_i + (k + 0.5) / count * (p_j - p_i) for k in range(count)])
    seen = reader(sample(level, places[None])[0])
    sums = [seen[k] + seen[count - 1 - k] for k in range(count // 2)]
    return sums, [seen[k] - seen[count - 1 - k] for k in range(count // 2)]


def one_direction(head: RelationHead, h_i, h_j, relation, p_i, p_j, fine):
    """Logits (2,) of the ordered pair: W₁h_i + W₂h_j + W₃r, what lies along the way, and the rest of the perceptron."""
    even, odd = head.even_tokens.weight, head.odd_tokens.weight
    hidden = (even + odd) @ h_i + (even - odd) @ h_j + head.relation(relation)
    if head.segment_map is not None:
        sums, differences = read_one_way(head.segment_map, fine, p_i, p_j, head.segment_points)
        step = (p_j - p_i) / DISTANCE_SCALE_PX
        distance = step.norm()
        hidden = hidden + head.even_segment(torch.cat([*sums, distance[None], torch.log1p(8 * distance)[None]]))
        hidden = hidden + head.odd_segment(torch.cat([*differences, step]))
    return head.tail(hidden.relu())


@pytest.fixture(params=[0, 6], ids=["tokens alone", "with the image"])
def setting(request):
    torch.manual_seed(0)
    head = RelationHead(8, 12, fine_channels=request.param, segment_channels=3, segment_points=4)
    fine = as_level(torch.randn(2, 6, 10, 10), 4)
    return head, torch.randn(2, 5, 8), torch.randn(2, 8), 8 + 24 * torch.rand(2, 5, 2), fine


def test_it_is_the_mean_of_both_directions_of_the_papers_head(setting):
    head, tokens, relation, points, fine = setting
    logits = head(tokens, relation, points, fine)
    assert logits.shape == (2, 5, 5, 2)
    for b in range(2):
        picture = fine._replace(cells=fine.cells[b : b + 1])
        for i in range(5):
            for j in range(5):
                if i == j:
                    assert logits[b, i, i].tolist() == [0, 0]
                    continue
                there, back = (
                    one_direction(head, tokens[b, k], tokens[b, m], relation[b], points[b, k], points[b, m], picture)
                    for k, m in ((i, j), (j, i))
                )
                torch.testing.assert_close(logits[b, i, j], (there + back) / 2, atol=1e-5, rtol=1e-4)


def test_renumbering_the_nodes_renumbers_the_edges(setting):
    head, tokens, relation, points, fine = setting
    order = torch.tensor([3, 0, 4, 1, 2])
    logits = head(tokens, relation, points, fine)
    renumbered = head(tokens[:, order], relation, points[:, order], fine)
    torch.testing.assert_close(renumbered, logits[:, order][:, :, order], atol=1e-5, rtol=1e-4)


def test_fewer_nodes_give_the_same_answers(setting):
    head, tokens, relation, points, fine = setting
    logits = head(tokens, relation, points, fine)
    torch.testing.assert_close(head(tokens[:, :3], relation, points[:, :3], fine), logits[:, :3, :3])
    for count in (0, 1):
        assert head(tokens[:, :count], relation, points[:, :count], fine).tolist() == [[[[0, 0]] * count] * count] * 2


def test_two_nodes_in_one_place_have_finite_gradients(setting):
    head, tokens, relation, points, fine = setting
    head(tokens, relation, torch.full_like(points, 9.0), fine).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in head.parameters())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 320])
def test_pairs_in_closed_form_are_those_of_two_loops(count):
    expected = [(i, j) for j in range(count) for i in range(j)]
    first, second, pair_of = pairs_among(count, torch.device("cpu"))
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected
    table = torch.zeros(count, count, dtype=torch.long)
    for number, (i, j) in enumerate(expected):
        table[i, j] = table[j, i] = number + 1
    assert torch.equal(pair_of, table)
