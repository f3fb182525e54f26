"""TreeFormer with a TinyViT: settings, a training step, and export to ONNX in float32 and 8 bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

from tests.models.untrained import SIDE, THRESHOLDS, drawn_and_painted
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import open_model
from treeformer.inference.open_engine import open_engine
from treeformer.models import TreeFormer, TreeFormerConfig, save_pretrained
from treeformer.models.shrink import shrink
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton

TINYVIT = {"backbone": "tinyvit", "backbone_blocks": (1, 1, 1, 1), "backbone_channels": 16}


def network(**options) -> TreeFormer:
    torch.manual_seed(5)
    model = TreeFormer(TreeFormerConfig.tiny(**(TINYVIT | {"tokens": 24, "decoder_layers": 1} | options)))
    with torch.no_grad():
        for head in (*model.decoder.node_heads, model.root_head):
            head.weight.mul_(3)
            head.bias.zero_()
        model.heat_map.layers[-1].weight.mul_(100)
    return model.eval()


def test_old_settings_mean_a_resnet():
    assert TreeFormerConfig.from_dict({"backbone_blocks": [1, 1, 1]}).backbone == "resnet"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backbone_blocks": (3, 4, 6)}, r"needs 4 backbone_blocks, such as \[2, 2, 6, 2\]"),
        ({"backbone_channels": 18}, "a multiple of 4, not 18"),
        ({"relation_min_stride": 64}, "relation_min_stride must be at most 32"),
    ],
)
def test_sizes_that_a_tinyvit_cannot_have_are_one_line_errors(changes, message):
    with pytest.raises(TreeformerError, match=message):
        TreeFormerConfig.tiny(**(TINYVIT | changes))


def test_a_network_with_a_tinyvit_is_not_made_smaller():
    config = TreeFormerConfig.tiny(**TINYVIT)
    with pytest.raises(TreeformerError, match="only a network with a ResNet"):
        shrink({}, config, config)


@pytest.mark.parametrize("frozen", [1, 4])
def test_a_training_step_reaches_every_trained_weight_of_the_backbone(frozen):
    model = network(frozen_stages=frozen).train()
    assert model.strides == [4, 8, 16, 32]
    line = Skeleton([(8, 8), (40, 40), (40, 56)], [(0, 1), (1, 2)])
    targets = Targets.from_skeletons([line])
    sum(model.loss(model(torch.rand(1, 3, SIDE, SIDE), targets), targets).values()).backward()
    trained = {name for name, parameter in model.backbone.named_parameters() if parameter.grad is not None}
    expected = {name for name, _ in model.backbone.named_parameters() if not name.startswith("stem") and frozen == 1}
    assert trained == expected


@pytest.mark.slow
def test_exported_networks_give_the_same_numbers_and_keep_attention_in_float(tmp_path):
    images = drawn_and_painted(3)
    save_pretrained(network(), tmp_path, images=list(images), input_size=SIDE, working_size=SIDE, **THRESHOLDS)
    folder = open_model(str(tmp_path))
    found, expected = (open_engine(folder, kind, **options)(images) for kind, options in (
        ("onnx", {"precision": "float32"}), ("torch", {}),
    ))  # fmt: skip
    for first, second, name in zip(found, expected, found._fields, strict=True):
        if first is None:  # an output of heads that this network does not have
            assert second is None
            continue
        assert first.shape == second.shape
        np.testing.assert_allclose(first, second, atol=2e-3, rtol=1e-3, err_msg=name)
    rounded = open_engine(folder, "onnx", precision="int8")(images)
    assert np.abs(rounded.node_score - found.node_score).max() < 0.1
    graph = onnx.load(folder.graph("int8"), load_external_data=False).graph
    in_8_bits = {output for node in graph.node if node.op_type == "DequantizeLinear" for output in node.output}
    backbone = [node for node in graph.node if node.name.startswith("backbone")]
    products = [node for node in backbone if node.op_type in ("MatMul", "Gemm")]
    convolutions = [node for node in backbone if node.op_type == "Conv" and set(node.input) & in_8_bits]
    assert products
    assert not any(set(node.input) & in_8_bits for node in products)
    assert convolutions
