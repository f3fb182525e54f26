"""Networks that start from a deeper one: equal to it if nothing is left out, and every weight comes from it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

pytest.importorskip("torch")

import torch

from treeformer.errors import TreeformerError
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.models.shrink import kept, shrink
from treeformer.training import checkpoint
from treeformer.training.config import TrainingConfig
from treeformer.training.setup import make_model

DEEP = TreeFormerConfig.tiny(backbone_blocks=(1, 2, 3), backbone_channels=8, decoder_layers=3, tokens=6)


@pytest.fixture(scope="module")
def deep():
    torch.manual_seed(0)
    return TreeFormer(DEEP)


def test_nothing_changes_if_nothing_is_left_out(deep):
    weights = deep.state_dict()
    same = shrink(weights, DEEP, DEEP)
    assert list(same) == list(weights)
    assert all(torch.equal(same[name], tensor) for name, tensor in weights.items())


@pytest.mark.parametrize(
    "changes",
    [{"backbone_blocks": (1, 1, 2)}, {"decoder_layers": 2}, {"decoder_min_stride": 8}, {"decoder_min_stride": 16}],
)
def test_weights_fit_a_shallower_network(deep, changes):
    config = replace(DEEP, **changes)
    model = TreeFormer(config)
    model.load_state_dict(shrink(deep.state_dict(), DEEP, config))  # raises if a name or a shape does not fit
    assert model(torch.rand(1, 3, 64, 64)).node_logits.isfinite().all()


def test_the_first_and_the_last_parts_are_kept(deep):
    weights = deep.state_dict()
    found = shrink(weights, DEEP, replace(DEEP, backbone_blocks=(1, 2, 2), decoder_layers=2))
    for ours, theirs in (
        ("backbone.layer3.0.conv1.weight", "backbone.layer3.0.conv1.weight"),
        ("backbone.layer3.1.conv1.weight", "backbone.layer3.2.conv1.weight"),
        ("decoder.layers.1.norm_image.weight", "decoder.layers.2.norm_image.weight"),
        ("decoder.node_heads.1.weight", "decoder.node_heads.2.weight"),
    ):
        assert torch.equal(found[ours], weights[theirs])
    assert kept(4, 1) == [0]
    assert kept(4, 4) == [0, 1, 2, 3]


def test_a_level_without_weight_may_be_left_out(deep):
    """If the finest level has no attention weight, both networks predict the same."""
    model = TreeFormer(DEEP).eval()
    model.load_state_dict(deep.state_dict())
    for layer in model.decoder.layers:
        attention = layer.objects_to_image
        with torch.no_grad():
            attention.weights.bias.view(attention.heads, attention.levels, -1)[:, 0] = -100.0
    config = replace(DEEP, decoder_min_stride=8)
    smaller = TreeFormer(config).eval()
    smaller.load_state_dict(shrink(model.state_dict(), DEEP, config))
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(smaller(images).edge_logits, model(images).edge_logits, rtol=1e-4, atol=1e-4)


def test_a_run_starts_from_a_deeper_model(deep, tmp_path):
    path = tmp_path / "best.safetensors"
    metadata = {"config": json.dumps(asdict(DEEP))}
    checkpoint.write_tensors(path, deep.state_dict(), metadata)
    options = json.loads(json.dumps(asdict(replace(DEEP, backbone_blocks=(1, 1, 1)))))
    config = TrainingConfig(model="tiny", model_options=options, start_from=str(path))
    with pytest.raises(TreeformerError):
        make_model(config)
    model = make_model(replace(config, shrink_start=True))
    assert torch.equal(model.backbone.layer2[0].conv1.weight, deep.backbone.layer2[0].conv1.weight)
    checkpoint.write_tensors(path, deep.state_dict(), {})
    with pytest.raises(TreeformerError, match=r"shrink_start: .*best\.safetensors has no settings"):
        make_model(replace(config, shrink_start=True))


@pytest.mark.parametrize("model", ["ggt", "two_stage", "hourglass"])
def test_only_a_treeformer_starts_from_a_larger_one(model):
    with pytest.raises(TreeformerError, match=f"shrink_start: the model '{model}' cannot start from a larger"):
        make_model(TrainingConfig(model=model, start_from="default", shrink_start=True))


def test_larger_networks_are_rejected(deep):
    for changes, message in (
        ({"decoder_layers": 4}, "4 blocks or layers cannot be taken from 3"),
        ({"backbone_blocks": (1, 2), "relation_min_stride": 16}, "another number of stages"),
        ({"neck": "encoder"}, "only a network with a pyramid"),
    ):
        with pytest.raises(TreeformerError, match=message):
            shrink(deep.state_dict(), DEEP, replace(DEEP, **changes))
    with pytest.raises(TreeformerError, match="does not read levels"):
        shrink(deep.state_dict(), replace(DEEP, decoder_min_stride=8), DEEP)
