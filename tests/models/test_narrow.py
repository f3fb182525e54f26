"""Starting a network from a wider one: the same network is copied, a narrower one imitates its features."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from treeformer.errors import TreeformerError
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.models.narrow import least_squares, narrow, spread


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    noise = torch.rand(4, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    return functional.interpolate(noise, size=(96, 96), mode="bilinear")


def network(**changes: object) -> TreeFormer:
    torch.manual_seed(0)
    model = TreeFormer(TreeFormerConfig.tiny(**changes))
    with torch.no_grad():  # an untrained correction is 0, and so is the phase
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return model.eval()


@pytest.mark.slow
def test_a_network_of_the_same_size_predicts_the_same(images: torch.Tensor) -> None:
    wide, copy = network(), TreeFormer(TreeFormerConfig.tiny()).eval()
    narrow(wide, copy, images)
    with torch.no_grad():
        expected, found = wide(images), copy(images)
    assert expected.heat is not None
    assert found.heat is not None
    torch.testing.assert_close(found.heat, expected.heat, rtol=0.02, atol=0.02)
    for name, value in wide.state_dict().items():
        if not name.startswith(("backbone.", "neck.", "heat_map.")):
            assert torch.equal(copy.state_dict()[name], value), name


@pytest.mark.slow
def test_a_narrow_network_imitates_the_features_of_the_wide_one(images: torch.Tensor) -> None:
    changes = {"backbone_channels": 8, "width": 32, "fine_width": 16, "heads": 2, "feed_forward": 64}
    changes |= {"relation_hidden": 32, "segment_channels": 8, "decoder_min_stride": 8, "decoder_layers": 1}
    wide, target = network(), TreeFormer(TreeFormerConfig.tiny(**changes)).eval()

    def error() -> float:
        with torch.no_grad():
            whole, part = wide.encode(images).levels[0].cells, target.encode(images).levels[0].cells
        whole = whole[..., spread(32, 16)]
        return float((part - whole).square().mean() / whole.var())

    before = error()
    narrow(wide, target, images)
    assert error() < 0.5 < before
    rows = target.decoder.layers[0].among_tokens.query.weight.shape  # type: ignore[union-attr]
    assert rows == (32, 32)


def test_whole_sampling_points_are_chosen(images: torch.Tensor) -> None:
    wide = network(sampling_points=4)
    target = TreeFormer(TreeFormerConfig.tiny(sampling_points=2)).eval()
    narrow(wide, target, images[:1])
    layer = "decoder.layers.0.objects_to_image"
    whole = wide.state_dict()[f"{layer}.offsets.bias"].view(4, 4, 4, 2)  # heads, levels, points, x and y
    assert torch.equal(target.state_dict()[f"{layer}.offsets.bias"], whole[:, :, [0, 2]].flatten())
    whole = wide.state_dict()[f"{layer}.weights.bias"].view(4, 4, 4)
    assert torch.equal(target.state_dict()[f"{layer}.weights.bias"], whole[:, :, [0, 2]].flatten())


def test_a_head_of_a_later_version_stays_as_it_is(images: torch.Tensor) -> None:
    target = TreeFormer(TreeFormerConfig.tiny(width=32)).eval()
    before = target.attribute_head.bias.clone()  # type: ignore[union-attr]
    narrow(network(node_attributes=False), target, images[:1])
    assert torch.equal(target.attribute_head.bias, before)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("wide", "target", "message"),
    [
        ({}, {"backbone_blocks": (1, 1)}, "another number of stages"),
        ({}, {"heatmap_upsampling": 1}, "heatmap_upsampling is 1, but 2 in the wider network"),
        ({}, {"segment_points": 4}, "segment_points is 4, but 8 in the wider network"),
        ({}, {"num_harmonics": 4}, "num_harmonics is 4, but 8 in the wider network"),
        ({"num_harmonics": 0}, {}, "num_harmonics is 8, but 0 in the wider network"),
        ({"segment_channels": 0}, {}, "segment_channels must be 0"),
        ({"decoder_min_stride": 8}, {}, "does not read levels of this stride"),
    ],
)
def test_another_kind_of_network_is_refused(images: torch.Tensor, wide: dict, target: dict, message: str) -> None:
    target = {"relation_min_stride": 16} | target
    with pytest.raises(TreeformerError, match=message):
        narrow(network(**wide), TreeFormer(TreeFormerConfig.tiny(**target)), images)


@pytest.mark.slow
def test_whole_heads_are_chosen(images: torch.Tensor) -> None:
    wide = network(heads=4)
    target = TreeFormer(TreeFormerConfig.tiny(heads=2, width=32)).eval()
    narrow(wide, target, images)
    whole = wide.state_dict()["decoder.layers.0.among_tokens.query.bias"].view(4, 16)
    assert torch.equal(target.state_dict()["decoder.layers.0.among_tokens.query.bias"], whole[[0, 2]].flatten())


def test_least_squares_finds_the_weights_of_a_convolution() -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 5, 3, stride=2, padding=1)
    features = torch.randn(2, 3, 32, 32)
    weight, bias = least_squares(conv, features, conv(features).detach(), torch.Generator().manual_seed(0))
    torch.testing.assert_close(weight, conv.weight.detach(), atol=0.01, rtol=0.01)
    assert conv.bias is not None
    torch.testing.assert_close(bias, conv.bias.detach(), atol=0.01, rtol=0.01)


@pytest.mark.slow
def test_a_larger_network_is_refused(images: torch.Tensor) -> None:
    with pytest.raises(TreeformerError, match="channels cannot be taken"):
        narrow(network(), TreeFormer(TreeFormerConfig.tiny(backbone_channels=32)), images)
    with pytest.raises(TreeformerError, match="blocks or layers cannot be taken"):
        narrow(network(), TreeFormer(TreeFormerConfig.tiny(decoder_layers=3)), images)
    with pytest.raises(TreeformerError, match="pyramid"):
        narrow(network(), TreeFormer(TreeFormerConfig.tiny(neck="encoder")), images)
