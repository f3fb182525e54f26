"""TinyViT: attention within windows against a slow reference, sizes of images, loading."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from treeformer.errors import FormatError
from treeformer.hub import safetensors
from treeformer.nn.backbone import BATCH_COUNTER, load_backbone
from treeformer.nn.backbone_tinyvit import ConvolutionBlock, TinyViT, WindowAttention, WindowBlock, within_windows

BLOCKS, BASE = (1, 1, 2, 1), 8


def tiny(**options) -> TinyViT:
    """Return a small backbone in which no weight is zero or one."""
    torch.manual_seed(0)
    backbone = TinyViT(BLOCKS, BASE, **options)
    for name, tensor in backbone.state_dict().items():
        if name.endswith(("running_var", "norm.weight")):
            tensor.uniform_(0.5, 1.5)
        elif tensor.ndim == 1 or name.endswith("attention_biases"):
            tensor.normal_(std=0.3)
    return backbone.eval()


def slow_attention(layer: WindowAttention, cells: np.ndarray) -> np.ndarray:
    """Attention in one window (N,C), cell by cell and head by head, from the definition."""
    weights = {name: tensor.detach().numpy() for name, tensor in layer.named_parameters()}
    side, heads, (count, channels) = layer.side, layer.heads, cells.shape
    size = channels // heads
    mean, variance = cells.mean(1, keepdims=True), cells.var(1, keepdims=True)
    normal = (cells - mean) / np.sqrt(variance + layer.norm.eps) * weights["norm.weight"] + weights["norm.bias"]
    parts = normal @ weights["qkv.weight"].T + weights["qkv.bias"]
    mixed = np.zeros((count, channels))
    for head in range(heads):
        first = 3 * size * head
        query, key, value = (parts[:, first + k * size : first + (k + 1) * size] for k in range(3))
        for i in range(count):
            scores = []
            for j in range(count):
                rows, columns = abs(i // side - j // side), abs(i % side - j % side)
                scores.append(query[i] @ key[j] / math.sqrt(size) + weights["attention_biases"][head][rows, columns])
            shares = np.exp(scores) / np.exp(scores).sum()
            mixed[i, head * size : (head + 1) * size] = shares @ value
    return mixed @ weights["proj.weight"].T + weights["proj.bias"]


def slow_windows(layer: WindowAttention, cells: np.ndarray) -> np.ndarray:
    """Attention in every window of a map (H,W,C); beyond the map are zeros."""
    side, (height, width, channels) = layer.side, cells.shape
    result = np.zeros_like(cells)
    for top in range(0, height, side):
        for left in range(0, width, side):
            window = np.zeros((side, side, channels))
            inside = cells[top : top + side, left : left + side]
            window[: inside.shape[0], : inside.shape[1]] = inside
            found = slow_attention(layer, window.reshape(-1, channels)).reshape(window.shape)
            result[top : top + side, left : left + side] = found[: inside.shape[0], : inside.shape[1]]
    return result


@pytest.mark.parametrize("shape", [(3, 3), (6, 3), (4, 7), (2, 2)])
def test_attention_within_windows_is_that_of_a_slow_reference(shape):
    torch.manual_seed(1)
    layer = WindowAttention(8, 2, 3).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    reference = WindowAttention(8, 2, 3).double()
    reference.load_state_dict(layer.state_dict())
    reference.attention_biases = nn.Parameter(layer.attention_biases.data.view(2, 3, 3))  # by rows and columns apart
    cells = torch.randn(2, *shape, 8, dtype=torch.float64)
    found = within_windows(layer, cells, 3)
    expected = np.stack([slow_windows(reference, image) for image in cells.numpy()])
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-12)


def test_moving_an_image_by_whole_windows_moves_the_attention():
    torch.manual_seed(0)
    layer = WindowAttention(8, 2, 4)
    nn.init.normal_(layer.attention_biases)
    cells = torch.randn(1, 8, 12, 8)
    moved = within_windows(layer, cells.roll((4, 8), (1, 2)), 4)
    torch.testing.assert_close(moved, within_windows(layer, cells, 4).roll((4, 8), (1, 2)))


def test_a_transposed_window_has_transposed_attention_if_its_biases_are_transposed():
    torch.manual_seed(0)
    layer, other = WindowAttention(8, 2, 4), WindowAttention(8, 2, 4)
    nn.init.normal_(layer.attention_biases)
    other.load_state_dict(layer.state_dict())
    other.attention_biases.data = layer.attention_biases.data.view(2, 4, 4).transpose(1, 2).reshape(2, 16)
    cells = torch.randn(1, 8, 4, 8)
    found = within_windows(other, cells.transpose(1, 2), 4).transpose(1, 2)
    torch.testing.assert_close(found, within_windows(layer, cells, 4))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (96, 64), (224, 448), (45, 77)])
def test_images_of_any_side_have_features_at_every_stride(height, width):
    backbone = tiny()
    with torch.no_grad():
        stages = backbone(torch.rand(2, 3, height, width))
    for features, channels, stride in zip(stages, backbone.channels, backbone.strides, strict=True):
        assert features.shape == (2, channels, -(-height // stride), -(-width // stride))


def plain_copy(backbone: TinyViT) -> TinyViT:
    """Return a copy that computes each layer with the plain modules of torch and a slow loop over windows."""
    copy = tiny()
    copy.load_state_dict(backbone.state_dict())

    def convolution(layer):
        norm = nn.BatchNorm2d(layer.conv.out_channels).eval()
        norm.load_state_dict(layer.norm.state_dict(), strict=False)
        return lambda features: norm(layer.conv(features))

    def attention(block):
        by_rows = WindowAttention(block.mlp.fc1.in_features, block.attn.heads, block.attn.side)
        by_rows.load_state_dict(block.attn.state_dict())
        by_rows.attention_biases = nn.Parameter(
            block.attn.attention_biases.data.view(block.attn.heads, block.attn.side, block.attn.side)
        )

        def forward(features):
            cells = features.permute(0, 2, 3, 1).detach().double().numpy()
            attended = torch.from_numpy(np.stack([image + slow_windows(by_rows, image) for image in cells]))
            local = convolution(block.local_conv)(attended.float().permute(0, 3, 1, 2))
            return local + block.mlp(local.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

        return forward

    for module in copy.modules():
        if isinstance(module, WindowBlock):
            module.forward = attention(module)
        elif isinstance(module, ConvolutionBlock):
            one, two, three = (convolution(layer) for layer in (module.conv1, module.conv2, module.conv3))
            gelu = nn.GELU()
            module.forward = lambda x, a=one, b=two, c=three, g=gelu: g(x + c(g(b(g(a(x))))))
    return copy


@pytest.mark.slow
def test_the_whole_backbone_is_that_of_a_slow_reference():
    backbone = tiny()
    images = torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        for found, expected in zip(backbone(images), plain_copy(backbone)(images), strict=True):
            torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-4)


def test_frozen_parts_have_no_gradients():
    for frozen, expected in ((1, {"stage1", "stage2", "stage3"}), (3, {"stage3"}), (4, set())):
        backbone = tiny(frozen_stages=frozen).train()
        assert {name.split(".")[0] for name, p in backbone.named_parameters() if p.requires_grad} == expected


def test_training_mode_changes_nothing():
    backbone, image = tiny(), torch.rand(1, 3, 64, 64)
    for training, evaluation in zip(backbone.train()(image), backbone.eval()(image), strict=True):
        assert torch.equal(training, evaluation)


def test_folding_the_batch_norms_changes_nothing():
    backbone, image = tiny(), torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        before = backbone(image)
        backbone.fold_batch_norms(torch.float32)
        for found, expected in zip(backbone(image), before, strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_published_weights_fit_name_by_name(real_data):
    path = real_data("../weights") / "mobilesam-tinyvit-trunk-fp16.safetensors"
    backbone = TinyViT()
    load_backbone(backbone, path)
    stored, state = safetensors.read(path), backbone.state_dict()
    assert len(stored) == 292
    counters = {name for name in stored if name.endswith(BATCH_COUNTER)}
    names = {name: backbone.stored_name(name) for name in stored.keys() - counters}
    assert sorted(names.values()) == sorted(state)
    for name, here in names.items():
        np.testing.assert_array_equal(state[here].numpy(), stored[name].astype(np.float32))
    with torch.no_grad():
        stages = backbone.eval()(torch.rand(1, 3, 64, 96))
    assert all(0.1 < features.std() < 10 for features in stages)


def test_a_file_of_another_network_is_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    weights = {name: tensor.numpy() for name, tensor in tiny().state_dict().items()}
    safetensors.write(path, weights | {"neck.0.weight": np.ones((2, 2), np.float32)})
    with pytest.raises(FormatError, match=r"neck\.0\.weight is not part of a TinyViT"):
        load_backbone(tiny(), path)
    safetensors.write(path, {name: array for name, array in weights.items() if name != "stem.0.conv.weight"})
    with pytest.raises(FormatError, match=r"no weights for stem\.0\.conv\.weight"):
        load_backbone(tiny(), path)
