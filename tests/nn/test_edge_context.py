"""The directions of the other edges at a node, compared with explicit sums."""

from __future__ import annotations

import cmath
import math

import torch

from treeformer.nn.edge_context import LENGTH_SCALE_PX, LONGEST, edge_context


def context_by_loop(points, likely, i, j, orders):
    result = {weighted: [0j] * orders for weighted in (False, True)}
    own_angle = cmath.phase(complex(*(points[j] - points[i]).tolist()))
    for k in range(len(points)):
        if k in (i, j):
            continue
        step = complex(*(points[k] - points[i]).tolist())
        for weighted in (False, True):
            weight = likely[i, k].item() * (min(abs(step) / LENGTH_SCALE_PX, LONGEST) if weighted else 1.0)
            for m in range(orders):
                result[weighted][m] += weight * cmath.exp(1j * m * (cmath.phase(step) - own_angle))
    return [part for weighted in (False, True) for z in result[weighted] for part in (z.real, z.imag)]


def random_input():
    torch.manual_seed(0)
    likely = torch.rand(2, 6, 6)
    return 300 * torch.rand(2, 6, 2), (likely + likely.transpose(1, 2)) / 2


def test_it_is_the_sum_over_the_other_edges():
    points, likely = random_input()
    context = edge_context(points, likely, 4)
    assert context.shape == (2, 6, 6, 16)
    for b in range(2):
        for i in range(6):
            for j in range(6):
                if i != j:
                    expected = torch.tensor(context_by_loop(points[b], likely[b], i, j, 4), dtype=torch.float32)
                    torch.testing.assert_close(context[b, i, j], expected, atol=1e-4, rtol=1e-4)


def test_rotating_and_shifting_the_image_changes_nothing():
    points, likely = random_input()
    rotation = torch.tensor([[math.cos(1.0), math.sin(1.0)], [-math.sin(1.0), math.cos(1.0)]])
    torch.testing.assert_close(
        edge_context(points @ rotation + 50.0, likely, 5), edge_context(points, likely, 5), atol=1e-3, rtol=1e-3
    )


def test_coinciding_nodes_have_finite_gradients():
    points, likely = torch.zeros(1, 3, 2), torch.rand(1, 3, 3, requires_grad=True)
    edge_context(points, likely, 3).square().sum().backward()
    assert torch.isfinite(likely.grad).all()
