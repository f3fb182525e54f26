"""The attribute head and its losses. Explicit loops are compared in tests/models/test_criterion.py."""

from __future__ import annotations

import math

import pytest
import torch

from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.nn.attributes import AttributeHead, attribute_losses, encode_radius
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton

NAN = math.nan


@pytest.mark.slow
def test_before_training_the_radius_is_2_px_and_there_is_no_direction():
    state = torch.get_rng_state()
    head = AttributeHead(8)
    assert torch.equal(torch.get_rng_state(), state), "the other weights of a network do not depend on the head"
    attributes = head(torch.randn(2, 3, 8))
    assert attributes.shape == (2, 3, 3)
    torch.testing.assert_close(attributes[..., 0].exp() - 0.5, torch.full((2, 3), 2.0))
    assert not attributes[..., 1:].any()


def test_unknown_targets_and_unmatched_nodes_have_no_loss_and_no_gradient():
    attributes = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    radius = torch.tensor([[1.0, NAN, 3.0, 4.0]])
    direction = torch.tensor([[[NAN, NAN], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]])
    matched = torch.tensor([[True, True, False, True]])
    sum(attribute_losses(attributes, radius, direction, matched)).backward()
    assert attributes.grad.isfinite().all()
    assert (attributes.grad != 0).tolist() == [
        [[True, False, False], [False, True, True], [False, False, False], [True, True, True]]
    ]


def test_a_perfect_prediction_has_no_loss():
    radius, direction = torch.tensor([[0.0, 7.0]]), torch.tensor([[[0.6, 0.8], [-1.0, 0.0]]])
    perfect = torch.cat([encode_radius(radius)[..., None], direction], dim=-1)
    losses = attribute_losses(perfect, radius, direction, torch.ones(1, 2, dtype=torch.bool))
    assert [loss.item() for loss in losses] == [0.0, 0.0]
    relative = attribute_losses(perfect + 0.3, radius, direction, torch.ones(1, 2, dtype=torch.bool))
    assert [loss.item() for loss in relative] == pytest.approx([2 * 0.25, 4 * 0.25]), "linear beyond 0.1"


@pytest.mark.slow
def test_radii_and_directions_are_learned(one_thread):
    """On one image with thin and thick branches, the losses of both attributes fall to a fraction."""
    torch.manual_seed(0)
    model = TreeFormer(TreeFormerConfig.tiny(tokens=12))
    tree = Skeleton(
        [(32, 60), (32, 34), (12, 12), (52, 10)], [(0, 1), (1, 2), (1, 3)], root=0, radius=[5.0, 4.0, 1.0, 2.0]
    )
    image = torch.ones(1, 3, 64, 64)
    for start, end in tree.edges:
        for step in torch.linspace(0, 1, 60).tolist():
            x, y = (1 - step) * tree.nodes[start] + step * tree.nodes[end]
            r = (1 - step) * tree.radius[start] + step * tree.radius[end]
            image[..., max(0, int(y - r)) : int(y + r) + 1, max(0, int(x - r)) : int(x + r) + 1] = 0
    targets = Targets.from_skeletons([tree])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    first: dict[str, float] = {}
    for _ in range(80):
        losses = model.loss(model(image, targets), targets)
        shares = {
            name: losses[name].item() / first.setdefault(name, losses[name].item()) for name in ("radius", "direction")
        }
        if max(shares.values()) < 0.3:
            return
        optimizer.zero_grad()
        sum(losses.values()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    pytest.fail(f"after 80 steps: {shares}")
