"""The image backbone: a ResNet-50 (version 1) with frozen batch normalization, as many of its stages as are wanted."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.errors import FormatError
from treeformer.hub import safetensors
from treeformer.nn.in_use import is_inference_on_gpu

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
BATCH_COUNTER = ".num_batches_tracked"
EXPANSION = 4  # a bottleneck's output has four times the channels of its middle


class FrozenBatchNorm(nn.Module):
    """Batch normalization with fixed statistics and a fixed affine map: y = scale · x + shift, a channel each."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.kept: tuple[Tensor, Tensor] | None = None

    def affine(self) -> tuple[Tensor, Tensor]:
        """(channels,) scale and shift."""
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        return scale, self.bias - self.running_mean * scale

    def folded_into(self, conv: nn.Conv2d) -> tuple[Tensor, Tensor]:
        """Weights and biases of the convolution with this normalization after it."""
        if self.kept is not None:
            return self.kept
        scale, shift = self.affine()
        return conv.weight * scale[:, None, None, None], shift


def conv_norm(image: Tensor, conv: nn.Conv2d, norm: FrozenBatchNorm) -> Tensor:
    """norm(conv(image)), the scale folded into the weights: one pass over the image instead of three."""
    return functional.conv2d(image, *norm.folded_into(conv), conv.stride, conv.padding)


def conv_norm_relu(image: Tensor, conv: nn.Conv2d, norm: FrozenBatchNorm, shortcut: Tensor | None = None) -> Tensor:
    """relu(norm(conv(image)) + shortcut)."""
    if is_inference_on_gpu(image):
        return _in_one_kernel(image, conv, norm, shortcut)
    inner = conv_norm(image, conv, norm)
    return functional.relu(inner if shortcut is None else inner + shortcut)


def _in_one_kernel(image: Tensor, conv: nn.Conv2d, norm: FrozenBatchNorm, shortcut: Tensor | None) -> Tensor:
    """The same by cuDNN, for use on a GPU: adding a bias, a sum and ReLU cost as much as the convolutions do."""
    weight, shift = norm.folded_into(conv)
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else image.dtype
    rest = shift.to(dtype), conv.stride, conv.padding, conv.dilation, conv.groups
    if shortcut is None:
        return torch.cudnn_convolution_relu(image.to(dtype), weight.to(dtype), *rest)
    return torch.cudnn_convolution_add_relu(image.to(dtype), weight.to(dtype), shortcut.to(dtype), 1.0, *rest)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 convolutions and a shortcut. In version 1 the stride sits on the first of them."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        channels_out = EXPANSION * channels
        self.conv1 = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
        self.bn1 = FrozenBatchNorm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = FrozenBatchNorm(channels)
        self.conv3 = nn.Conv2d(channels, channels_out, 1, bias=False)
        self.bn3 = FrozenBatchNorm(channels_out)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or channels_in != channels_out:
            shortcut = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, FrozenBatchNorm(channels_out))

    def forward(self, image: Tensor) -> Tensor:
        """(B,channels_in,H,W) → (B,4·channels,H/stride,W/stride)."""
        inner = conv_norm_relu(image, self.conv1, self.bn1)
        inner = conv_norm_relu(inner, self.conv2, self.bn2)
        shortcut = image if self.downsample is None else conv_norm(image, self.downsample[0], self.downsample[1])
        return conv_norm_relu(inner, self.conv3, self.bn3, shortcut)


class ResNet(nn.Module):
    """The stem and the first stages of a ResNet; parameters are named as in torchvision.

    Args:
        blocks: bottlenecks in each stage; (3, 4, 6) are the first three stages of a ResNet-50.
        base_channels: channels of the stem.
        frozen_stages: how many parts are not trained, from the stem on: 2 freezes the stem and `layer1`.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, blocks: Sequence[int], base_channels: int = 64, frozen_stages: int = 0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)
        self.conv1 = nn.Conv2d(3, base_channels, 7, 2, 3, bias=False)
        self.bn1 = FrozenBatchNorm(base_channels)
        self.stage_names = [f"layer{index + 1}" for index in range(len(blocks))]
        self.channels = [base_channels * 2**index * EXPANSION for index in range(len(blocks))]
        self.strides = [4 * 2**index for index in range(len(blocks))]
        channels_in = base_channels
        for index, (name, count) in enumerate(zip(self.stage_names, blocks, strict=True)):
            inner = base_channels * 2**index
            first = Bottleneck(channels_in, inner, stride=1 if index == 0 else 2)
            channels_in = inner * EXPANSION
            rest = [Bottleneck(channels_in, inner, stride=1) for _ in range(count - 1)]
            self.add_module(name, nn.Sequential(first, *rest))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        for part in [self.conv1, *(getattr(self, name) for name in self.stage_names)][:frozen_stages]:
            part.requires_grad_(False)

    def forward(self, images: Tensor) -> list[Tensor]:
        """(B,3,H,W) RGB in [0,1] → each stage's features (B,channels[i],H/strides[i],W/strides[i])."""
        # A whole row each: with one number a channel, ONNX Runtime would take three pixels' values at a time.
        mean, std = (number.expand(-1, -1, images.shape[-1]) for number in (self.mean, self.std))
        features = (images - mean) / std
        features = conv_norm_relu(features, self.conv1, self.bn1)
        features = functional.max_pool2d(features, 3, 2, 1)
        stages = []
        for name in self.stage_names:
            features = getattr(self, name)(features)
            stages.append(features)
        return stages

    @torch.no_grad()
    def keep_folded(self, dtype: torch.dtype) -> None:
        """From now on for use alone: fold the normalizations into the convolutions once, not at every call.

        Weights that are loaded or moved later count no more.
        """
        for part in self.modules():
            if isinstance(part, ResNet):
                pairs = [(part.conv1, part.bn1)]
            elif isinstance(part, Bottleneck):
                pairs = [(part.conv1, part.bn1), (part.conv2, part.bn2), (part.conv3, part.bn3)]
                pairs += [tuple(part.downsample)] if part.downsample is not None else []
            else:
                continue
            for conv, norm in pairs:
                weight, shift = norm.folded_into(conv)
                norm.kept = weight.to(dtype), shift.to(dtype)


def load_backbone(backbone: ResNet, path: str | os.PathLike[str]) -> None:
    """Fill a backbone from a safetensors file with torchvision's names; later stages in the file are left out."""
    stored = safetensors.read(path)
    wanted = backbone.state_dict()
    for name, tensor in wanted.items():
        if name not in stored:
            raise FormatError(f"{path}: no weights for {name}")
        if stored[name].shape != tuple(tensor.shape):
            raise FormatError(f"{path}: {name} has shape {stored[name].shape}, not {tuple(tensor.shape)}")
    rest = stored.keys() - wanted.keys()
    # torchvision's layers also count the batches they have seen, which changes nothing in what they see.
    unused = sorted(name for name in rest if not name.startswith(("layer", "fc.")) and not name.endswith(BATCH_COUNTER))
    if unused:
        raise FormatError(f"{path}: {unused[0]} has no place in this backbone")
    backbone.load_state_dict({name: torch.tensor(stored[name]).float() for name in wanted})
