"""The stacked hourglass, and the map head that both networks share."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from treeformer.baselines.two_stage.hourglass import Hourglass, StackedHourglass
from treeformer.baselines.two_stage.map_head import MapHead, split_maps


def test_shapes_and_intermediate_predictions():
    network = StackedHourglass(stacks=3, depth=2, width=32, predicted=6)
    features, predictions = network(torch.rand(2, 3, 48, 32))
    assert features.shape == (2, 32, 12, 8)
    assert [tuple(prediction.shape) for prediction in predictions] == [(2, 6, 12, 8)] * 2


def test_a_deeper_hourglass_has_a_larger_receptive_field():
    def reach(depth: int) -> int:
        torch.manual_seed(0)
        network = Hourglass(32, depth)
        for module in list(network.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.GroupNorm):  # it would connect all positions
                    setattr(module, name, nn.Identity())
        features = torch.randn(1, 32, 8, 64, requires_grad=True)
        network(features)[0, :, 0, 0].sum().backward()
        return int(features.grad.abs().sum((0, 1, 2)).nonzero().max())

    assert reach(1) < reach(2) < reach(3)


def test_an_hourglass_reads_the_prediction_of_the_previous_one():
    torch.manual_seed(0)
    network = StackedHourglass(stacks=2, depth=1, width=32, predicted=3).eval()
    image = torch.rand(1, 3, 16, 16)
    with torch.no_grad():
        before = network(image)[0]
        network.predict[0].bias += 1.0
        assert not torch.allclose(network(image)[0], before)


@pytest.mark.parametrize(("stride", "side"), [(4, 8), (2, 16), (1, 32)])
def test_the_head_upsamples_to_its_stride(stride, side):
    head = MapHead(channels=48, classes=2, stride=stride)
    maps = head(torch.rand(1, 48, 8, 8), torch.rand(1, 3, 32, 32))
    assert maps.nodes.shape == (1, 2, side, side)
    assert maps.directions.shape == (1, 2, 2, side, side)
    assert maps.nodes.dtype == torch.float32


def test_channels_are_confidences_then_directions_of_each_class():
    maps = split_maps(torch.arange(6.0).view(1, 6, 1, 1))
    assert maps.nodes.flatten().tolist() == [0, 1]
    assert maps.directions[0, :, :, 0, 0].tolist() == [[2, 3], [4, 5]]
