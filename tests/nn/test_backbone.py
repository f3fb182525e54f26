"""The backbone: batch normalization, parameter names, loading."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from treeformer.errors import FormatError
from treeformer.hub import safetensors
from treeformer.nn.backbone import FrozenBatchNorm, ResNet, conv_norm, load_backbone


def test_frozen_batch_norm_is_batch_norm_in_eval_mode():
    torch.manual_seed(0)
    conv, plain, frozen = nn.Conv2d(3, 5, 3, 2, 1, bias=False), nn.BatchNorm2d(5).eval(), FrozenBatchNorm(5)
    state = {name: torch.rand(5) + 0.1 for name in ("weight", "bias", "running_mean", "running_var")}
    plain.load_state_dict(state, strict=False)
    frozen.load_state_dict(state)
    image = torch.randn(2, 3, 9, 8)
    torch.testing.assert_close(conv_norm(image, conv, frozen), plain(conv(image)))


def test_frozen_batch_norm_has_no_parameters_and_ignores_training_mode():
    backbone = ResNet((1, 1), 8)
    assert not [name for name, _ in backbone.named_parameters() if "bn" in name or "downsample.1" in name]
    image = torch.rand(1, 3, 64, 64)
    for training, evaluation in zip(backbone.train()(image), backbone.eval()(image), strict=True):
        torch.testing.assert_close(training, evaluation)


def test_the_relu_of_the_stem_may_follow_the_pooling():
    """Both keep the order of numbers; gradients of the stem are the same too."""
    torch.manual_seed(0)
    backbone = ResNet((1,), 8)
    torch.nn.init.normal_(backbone.bn1.bias)
    images = torch.rand(2, 3, 32, 32)
    normalized = (images - backbone.mean) / backbone.std
    relu_first = torch.relu(conv_norm(normalized, backbone.conv1, backbone.bn1))
    expected = backbone.layer1(nn.functional.max_pool2d(relu_first, 3, 2, 1))
    expected.square().sum().backward()
    gradient, backbone.conv1.weight.grad = backbone.conv1.weight.grad, None
    [found] = backbone(images)
    found.square().sum().backward()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(backbone.conv1.weight.grad, gradient, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("frozen", [0, 2])
def test_fused_convolutions_have_the_same_gradients(frozen):
    torch.manual_seed(0)
    plain, fused = (ResNet((1, 2), 4, frozen, fused=fused).double() for fused in (False, True))
    for name, buffer in plain.named_buffers():
        if name.endswith(("bias", "running_mean")):
            torch.nn.init.normal_(buffer)
    fused.load_state_dict(plain.state_dict())
    images = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    found = []
    for backbone in (plain.train(), fused.train()):
        stages = backbone(images)
        sum(stage.square().sum() for stage in stages).backward()
        found.append([*stages, *(p.grad for p in backbone.parameters() if p.requires_grad)])
    assert len(found[0]) == 2 + (1 + 4 + 7 if not frozen else 7)
    for expected, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        torch.testing.assert_close(fused.eval()(images)[-1], found[0][1], rtol=1e-10, atol=1e-10)


def test_stages_have_the_declared_strides_and_channels():
    backbone = ResNet((1, 2, 1), 8)
    stages = backbone(torch.rand(1, 3, 64, 96))
    assert [tuple(stage.shape) for stage in stages] == [(1, 32, 16, 24), (1, 64, 8, 12), (1, 128, 4, 6)]
    assert backbone.channels == [32, 64, 128]
    assert backbone.strides == [4, 8, 16]
    assert backbone.layer2[0].conv1.stride == (2, 2), "in version 1 the first convolution has the stride"


def test_images_are_normalized_as_on_imagenet():
    backbone = ResNet((1,), 4)
    gray = torch.tensor([0.485, 0.456, 0.406])[:, None, None].expand(1, 3, 32, 32)
    with torch.no_grad():
        features = backbone(gray)[0]
    assert float(features.abs().max()) == pytest.approx(0, abs=1e-5), "the mean color is normalized to zero"


def test_frozen_stages_get_no_gradient():
    backbone = ResNet((1, 1), 8, frozen_stages=2)
    backbone(torch.rand(1, 3, 64, 64))[-1].sum().backward()
    trained = {name.split(".")[0] for name, parameter in backbone.named_parameters() if parameter.grad is not None}
    assert trained == {"layer2"}


@pytest.mark.slow
def test_imagenet_weights_fit_a_whole_resnet_50_name_by_name(real_data):
    path = real_data("../weights") / "resnet50-imagenet-v1-fp16.safetensors"
    backbone = ResNet((3, 4, 6, 3))
    assert backbone.state_dict().keys() == safetensors.read_header(path)[0].keys()
    load_backbone(backbone, path)
    stored = safetensors.read(path)
    for name, tensor in backbone.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), stored[name].astype(np.float32))
    part = ResNet((3, 4, 6))
    load_backbone(part, path)
    image = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(part(image), backbone(image)[:3])
        assert 0.1 < part(image)[-1].std() < 10


@pytest.fixture
def stored():
    return {name: tensor.numpy() for name, tensor in ResNet((1, 1), 8).state_dict().items()}


def test_only_the_classifier_and_later_stages_are_ignored(tmp_path, stored):
    path = tmp_path / "weights.safetensors"
    counter = {"bn1.num_batches_tracked": np.array(0)}  # as torchvision's state_dict() has it
    safetensors.write(path, stored | counter | {"fc.weight": np.ones((2, 2), np.float32)})
    load_backbone(ResNet((1,), 8), path)
    safetensors.write(path, stored | {"conv2.weight": np.ones((2, 2), np.float32)})
    with pytest.raises(FormatError, match=r"conv2\.weight is not part of a ResNet"):
        load_backbone(ResNet((1,), 8), path)


def test_missing_weights_and_wrong_shapes_are_errors(tmp_path, stored):
    path = tmp_path / "weights.safetensors"
    safetensors.write(path, {name: array for name, array in stored.items() if name != "layer1.0.conv2.weight"})
    with pytest.raises(FormatError, match=r"no weights for layer1\.0\.conv2\.weight"):
        load_backbone(ResNet((1,), 8), path)
    safetensors.write(path, stored)
    with pytest.raises(FormatError, match=r"conv1\.weight has shape \(8, 3, 7, 7\), expected \(16, 3, 7, 7\)"):
        load_backbone(ResNet((1,), 16), path)


def test_folding_the_batch_norms_changes_nothing():
    torch.manual_seed(0)
    backbone = ResNet((1, 2), 8)
    for module in backbone.modules():
        if isinstance(module, FrozenBatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    image, names = torch.rand(1, 3, 64, 64), backbone.state_dict().keys()
    with torch.no_grad():
        before = backbone(image)
        backbone.fold_batch_norms(torch.float32)
        for parameter in backbone.parameters():
            parameter.fill_(torch.nan)  # only the folded weights are used
        torch.testing.assert_close(backbone(image), before)
    assert backbone.state_dict().keys() == names


@pytest.mark.skipif(not torch.cuda.is_available(), reason="cuDNN needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_fused_kernel_equals_separate_ones(dtype):
    torch.manual_seed(0)
    backbone = ResNet((1, 2), 16).cuda().to(memory_format=torch.channels_last).eval()
    for module in backbone.modules():
        if isinstance(module, FrozenBatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            module.bias.normal_()
    images = torch.rand(2, 3, 64, 96, device="cuda").contiguous(memory_format=torch.channels_last)
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        expected = [stage.detach() for stage in backbone(images)]
        with torch.no_grad():
            found = backbone(images)
    for actual, wanted in zip(found, expected, strict=True):
        assert actual.dtype == wanted.dtype == dtype
        torch.testing.assert_close(actual, wanted, atol=0.02 * wanted.abs().max().item(), rtol=0.02)
