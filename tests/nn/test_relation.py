"""The relation head, compared with the paper's MLP on [h_i, h_j, r] for single ordered pairs."""

from __future__ import annotations

import pytest
import torch

from treeformer.nn.deformable_attention import as_level, sample
from treeformer.nn.edge_context import edge_context
from treeformer.nn.line_evidence import POINTS, blurred_lines, segment_evidence
from treeformer.nn.node_kind import WIDTH, direction_evidence
from treeformer.nn.relation import DISTANCE_SCALE_PX, MOST_CERTAIN, RelationHead, node_pairs, segment_samples


def read_segment(reader, level, p_i, p_j, count):
    """Sums and differences of `count` samples of a map from i to j and from j to i."""
    locations = torch.stack([p_i + (k + 0.5) / count * (p_j - p_i) for k in range(count)])
    samples = reader(sample(level, locations[None])[0])
    sums = [samples[k] + samples[count - 1 - k] for k in range(count // 2)]
    return sums, [samples[k] - samples[count - 1 - k] for k in range(count // 2)]


def one_direction(head: RelationHead, h_i, h_j, relation, p_i, p_j, fine, tail=True):
    """Logits (2,) of an ordered pair: W₁h_i + W₂h_j + W₃r, the samples of the segment, and the rest of the MLP."""
    even, odd = head.even_tokens.weight, head.odd_tokens.weight
    hidden = (even + odd) @ h_i + (even - odd) @ h_j + head.relation(relation)
    if head.segment_map is not None:
        sums, differences = read_segment(head.segment_map, fine, p_i, p_j, head.segment_points)
        step = (p_j - p_i) / DISTANCE_SCALE_PX
        distance = step.norm()
        hidden = hidden + head.even_segment(torch.cat([*sums, distance[None], torch.log1p(8 * distance)[None]]))
        hidden = hidden + head.odd_segment(torch.cat([*differences, step]))
    return head.tail(hidden.relu()) if tail else hidden


@pytest.fixture(params=[0, 6], ids=["tokens only", "with the image"])
def setting(request):
    torch.manual_seed(0)
    head = RelationHead(8, 12, fine_channels=request.param, segment_channels=3, segment_points=4)
    fine = as_level(torch.randn(2, 6, 10, 10), 4)
    return head, torch.randn(2, 5, 8), torch.randn(2, 8), 8 + 24 * torch.rand(2, 5, 2), fine, torch.rand(2, 5)


def test_the_result_is_the_mean_of_both_directions_of_the_papers_head(setting):
    head, tokens, relation, points, fine, scores = setting
    logits = head(tokens, relation, points, fine, scores)
    assert logits.shape == (2, 5, 5, 2)
    for b in range(2):
        image = fine._replace(cells=fine.cells[b : b + 1])
        for i in range(5):
            for j in range(5):
                if i == j:
                    assert logits[b, i, i].tolist() == [0, 0]
                    continue
                forward, backward = (
                    one_direction(head, tokens[b, k], tokens[b, m], relation[b], points[b, k], points[b, m], image)
                    for k, m in ((i, j), (j, i))
                )
                torch.testing.assert_close(logits[b, i, j], (forward + backward) / 2, atol=1e-5, rtol=1e-4)


def test_renumbering_the_nodes_renumbers_the_edges(setting):
    head, tokens, relation, points, fine, scores = setting
    order = torch.tensor([3, 0, 4, 1, 2])
    logits = head(tokens, relation, points, fine, scores)
    renumbered = head(tokens[:, order], relation, points[:, order], fine, scores[:, order])
    torch.testing.assert_close(renumbered, logits[:, order][:, :, order], atol=1e-5, rtol=1e-4)


def test_fewer_nodes_have_the_same_logits(setting):
    head, tokens, relation, points, fine, scores = setting
    logits = head(tokens, relation, points, fine, scores)
    torch.testing.assert_close(head(tokens[:, :3], relation, points[:, :3], fine, scores[:, :3]), logits[:, :3, :3])
    for count in (0, 1):
        assert (
            head(tokens[:, :count], relation, points[:, :count], fine, scores[:, :count]).tolist()
            == [[[[0, 0]] * count] * count] * 2
        )


def test_coinciding_nodes_have_finite_gradients(setting):
    head, tokens, relation, points, fine, scores = setting
    head(tokens, relation, torch.full_like(points, 9.0), fine, scores).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in head.parameters())


def with_context():
    """A head without context, the same head with a second prediction, and inputs."""
    torch.manual_seed(0)
    plain = RelationHead(8, 12, fine_channels=6, segment_channels=3, segment_points=4)
    twice = RelationHead(8, 12, fine_channels=6, segment_channels=3, segment_points=4, num_harmonics=3)
    twice.load_state_dict(plain.state_dict(), strict=False)
    inputs = (
        torch.randn(1, 5, 8),
        torch.randn(1, 8),
        8 + 24 * torch.rand(1, 5, 2),
        as_level(torch.randn(1, 6, 10, 10), 4),
    )
    return plain, twice, (*inputs, torch.rand(1, 5))


def test_the_second_prediction_initially_equals_the_first():
    plain, twice, inputs = with_context()
    torch.testing.assert_close(twice(*inputs), plain(*inputs))


def test_the_second_prediction_equals_the_loop():
    plain, twice, inputs = with_context()
    with torch.no_grad():
        twice.correction.weight += torch.randn(2, 12)
    tokens, relation, points, fine, scores = inputs
    first, second = plain(*inputs)[0], twice(*inputs)[0]
    margin = first[..., 0] - first[..., 1]
    bounded = (margin / MOST_CERTAIN).clamp(-1, 1)
    likely = (-margin).sigmoid() * scores[0][:, None] * scores[0]
    context_matrix = edge_context(points, likely[None], 3)[0]
    for i in range(5):
        for j in range(5):
            if i == j:
                assert second[i, i].tolist() == [0, 0]
                continue
            total = first[i, j].clone()
            for a, b in ((i, j), (j, i)):
                sides = (tokens[0, a], tokens[0, b], relation[0], points[0, a], points[0, b], fine)
                hidden = one_direction(plain, *sides, tail=False).relu()
                context = torch.cat([context_matrix[a, b], context_matrix[b, a], bounded[i, j, None]])
                total += twice.correction((twice.pair_again(hidden) + twice.context(context)).relu()) / 2
            torch.testing.assert_close(second[i, j], total, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("reads", [(True, False), (False, True), (True, True)], ids=["lines", "kinds", "both"])
@torch.no_grad()
def test_evidence_is_added_to_the_hidden_layer(monkeypatch, reads):
    """Pair by pair, also on the code path of inference on a GPU."""
    torch.manual_seed(0)
    head = RelationHead(
        8, 12, fine_channels=6, segment_channels=3, segment_points=4, reads_lines=reads[0], reads_kinds=reads[1]
    )
    tokens, relation, points = torch.randn(1, 5, 8), torch.randn(1, 8), 8 + 24 * torch.rand(1, 5, 2)
    fine, lines = as_level(torch.randn(1, 6, 10, 10), 4), blurred_lines(torch.randn(1, 3, 20, 20))
    kinds = torch.randn(1, 5, WIDTH)
    inputs = tokens, relation, points, fine, torch.rand(1, 5), lines if reads[0] else None, kinds if reads[1] else None
    plain = RelationHead(8, 12, fine_channels=6, segment_channels=3, segment_points=4)
    plain.load_state_dict(head.state_dict(), strict=False)
    assert torch.equal(head(*inputs), plain(*inputs[:5])), "zero at first"
    layers = [getattr(head, name) for name in ("even_evidence", "odd_evidence") if hasattr(head, name)]
    for layer in layers:
        layer.weight.normal_()
    found = head(*inputs)
    for i in range(5):
        for j in range(5):
            if i == j:
                continue
            unit = (points[0, j] - points[0, i]) / (points[0, j] - points[0, i]).norm()
            x, y = unit.view(2, 1, 1)
            parts, difference = [], 0.0
            if reads[0]:
                samples = segment_samples(points[:, [i]], points[:, [j]], lines, POINTS)
                parts.append(segment_evidence(samples, x, y)[0, 0])
            if reads[1]:
                there, back = direction_evidence(kinds, torch.tensor([i]), torch.tensor([j]), x, y)
                parts.append(torch.stack([there + back, there * back])[:, 0, 0])
                difference = head.odd_evidence.weight[:, 0] * (there - back)[0, 0]
            even = head.even_evidence.weight @ torch.cat(parts)
            ends = (tokens[0, i], tokens[0, j], relation[0], points[0, i], points[0, j], fine)
            logits = sum(
                head.tail((one_direction(plain, *order, tail=False) + even + sign * difference).relu()) / 2
                for order, sign in ((ends, 1), ((ends[1], ends[0], ends[2], ends[4], ends[3], ends[5]), -1))
            )
            torch.testing.assert_close(found[0, i, j], logits, atol=1e-4, rtol=1e-4)
    for module in ("relation", "deformable_attention"):
        monkeypatch.setattr(f"treeformer.nn.{module}.is_inference_on_gpu", lambda tensor: True)
    torch.testing.assert_close(head(*inputs), found, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sizes", [(3, 4, 3), (4, 4, 2), (8, 8, 4)], ids=["none", "some", "most"])
@torch.no_grad()
def test_separate_products_equal_one_product_of_concatenated_parts(monkeypatch, sizes):
    """The code path of inference on a GPU; none, some or most of the widths are multiples of 8."""
    torch.manual_seed(0)
    channels, count, orders = sizes
    head = RelationHead(8, 12, fine_channels=6, segment_channels=channels, segment_points=count, num_harmonics=orders)
    head.correction.weight.normal_()
    fine, points = as_level(torch.randn(2, 6, 10, 10), 4), 8 + 24 * torch.rand(2, 5, 2)
    inputs = torch.randn(2, 5, 8), torch.randn(2, 8), points, fine, torch.rand(2, 5)
    before = [tensor.clone() for tensor in (*inputs[:3], inputs[4])]
    expected = head(*inputs)
    for module in ("relation", "deformable_attention"):
        monkeypatch.setattr(f"treeformer.nn.{module}.is_inference_on_gpu", lambda tensor: True)
    for _ in range(2):
        torch.testing.assert_close(head(*inputs), expected, atol=1e-5, rtol=1e-4)
    assert all(torch.equal(old, new) for old, new in zip(before, (*inputs[:3], inputs[4]), strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_inference_on_a_gpu_agrees_with_training():
    torch.manual_seed(0)
    head = RelationHead(192, 128, fine_channels=96, segment_channels=32, segment_points=8, num_harmonics=8).cuda()
    with torch.no_grad():
        head.correction.weight.normal_(std=0.1)
    fine = as_level(torch.randn(3, 96, 32, 32, device="cuda").bfloat16(), 4)
    tokens, relation, points = torch.randn(3, 40, 192), torch.randn(3, 192), 128 * torch.rand(3, 40, 2)
    inputs = *(tensor.cuda() for tensor in (tokens, relation, points)), fine, torch.rand(3, 40, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        trained = head(*inputs).detach()
        with torch.inference_mode():
            found = head(*inputs)
    assert found.dtype == torch.float32
    assert trained.std() > 0.1
    assert (found - trained).abs().mean() < 0.01 * trained.std()
    torch.testing.assert_close(found, trained, atol=0.1 * trained.std().item(), rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2, 3, 320])
def test_pairs_in_closed_form_equal_two_loops(count):
    expected = [(i, j) for j in range(count) for i in range(j)]
    first, second, pair_of = node_pairs(count, torch.device("cpu"))
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected
    table = torch.zeros(count, count, dtype=torch.long)
    for number, (i, j) in enumerate(expected):
        table[i, j] = table[j, i] = number + 1
    assert torch.equal(pair_of, table)
