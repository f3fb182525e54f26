"""Image backbones: their common interface, and the first stages of a ResNet-50 (version 1).

Batch normalizations are frozen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.errors import FormatError
from treeformer.hub import safetensors
from treeformer.nn.inference_mode import is_inference_on_gpu
from treeformer.nn.kernels import stem as stem_triton

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
BATCH_COUNTER = ".num_batches_tracked"
EXPANSION = 4  # the output of a bottleneck has four times the channels of its inner layers


class Backbone(nn.Module):
    """Maps images to features at several strides: a stem, and stages that read each other's output."""

    channels: list[int]  # output channels of the stages
    strides: list[int]  # fine to coarse, px
    stage_names: list[str]  # of the submodules that are the stages
    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map RGB images (B,3,H,W) in [0,1] to the stages' features (B,channels[i],H/strides[i],W/strides[i])."""
        stages = []
        features = self._stem(images)
        for name in self.stage_names:
            features = getattr(self, name)(features)
            stages.append(features)
        return stages

    def _stem(self, images: Tensor) -> Tensor:
        """Map images (B,3,H,W) in [0,1] to the input of the first stage."""
        raise NotImplementedError

    def _normalize(self, images: Tensor) -> Tensor:
        """Subtract the mean of ImageNet and divide by its standard deviation."""
        # Expanded to whole rows: with one number per channel, ONNX Runtime would process only three values at a time.
        mean, std = (number.expand(-1, -1, images.shape[-1]) for number in (self.mean, self.std))
        return (images - mean) / std

    def _freeze(self, first: str, count: int) -> None:
        """Exclude `count` parts from training: the part `first`, then the stages."""
        for name in [first, *self.stage_names][:count]:
            getattr(self, name).requires_grad_(False)

    def fold_batch_norms(self, dtype: torch.dtype) -> None:
        """Fold the normalizations into the convolutions once instead of at every call, for inference only.

        Weights that are loaded or moved later have no effect.
        """
        raise NotImplementedError

    def stored_name(self, name: str) -> str | None:
        """Return the name here of a weight in a published file, None for a weight that is not used."""
        raise NotImplementedError


class FrozenBatchNorm(nn.Module):
    """Batch normalization with fixed statistics and a fixed affine map: y = scale · x + shift per channel.

    Attributes:
        folded: weight and bias of the preceding convolution with this layer folded in, after
            `ResNet.fold_batch_norms`
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.folded: tuple[Tensor, Tensor] | None = None

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return scale and shift, (channels,) each."""
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        return scale, self.bias - self.running_mean * scale

    def fold_into(self, conv: nn.Conv2d) -> tuple[Tensor, Tensor]:
        """Return weight and bias of a convolution that does the same as `conv` followed by this layer."""
        if self.folded is not None:
            return self.folded
        scale, shift = self.affine()
        return conv.weight * scale[:, None, None, None], shift


def conv_norm(image: Tensor, conv: nn.Conv2d, norm: FrozenBatchNorm) -> Tensor:
    """Compute norm(conv(image)) in one pass over the image, with the scale folded into the weights.

    The convolution has no bias and maps (B,C,H,W) to (B,channels,H',W').
    """
    return functional.conv2d(image, *norm.fold_into(conv), conv.stride, conv.padding)


def conv_norm_relu(image: Tensor, conv: nn.Conv2d, norm: FrozenBatchNorm, shortcut: Tensor | None = None) -> Tensor:
    """Compute relu(norm(conv(image)) + shortcut); None is no shortcut.

    The convolution has no bias and maps (B,C,H,W) to the shape of the shortcut, (B,channels,H',W').
    """
    if is_inference_on_gpu(image):
        return _fused_conv_norm_relu(image, conv, norm, shortcut)
    inner = conv_norm(image, conv, norm)
    return functional.relu(inner if shortcut is None else inner + shortcut)


def _fused_conv_norm_relu(
    image: Tensor, conv: nn.Conv2d, norm: FrozenBatchNorm, shortcut: Tensor | None, more_shift: Tensor | None = None
) -> Tensor:
    """`conv_norm_relu` as one cuDNN call: separate bias, sum and ReLU take as long as the convolutions do.

    `more_shift`, (channels,), is added to the shift of the normalization.
    """
    weight, shift = norm.fold_into(conv)
    if more_shift is not None:
        shift = shift + more_shift
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else image.dtype
    image, weight, bias = image.to(dtype), weight.to(dtype), shift.to(dtype)
    padding = cast(tuple[int, ...], conv.padding)  # never given by name ("same")
    if shortcut is None:
        return torch.cudnn_convolution_relu(image, weight, bias, conv.stride, padding, conv.dilation, conv.groups)
    return torch.cudnn_convolution_add_relu(
        image, weight, shortcut.to(dtype), 1.0, bias, conv.stride, padding, conv.dilation, conv.groups
    )


class _FusedConvRelu(torch.autograd.Function):
    """relu(convolution + bias + shortcut) as one operation with gradients.

    Plain operations write the convolution, read it for the sum and write the result. This one writes only the result,
    from which the gradient of the ReLU follows. On a GPU it is one call of cuDNN.
    """

    @staticmethod
    def forward(
        ctx: Any,
        image: Tensor,
        weight: Tensor,
        bias: Tensor,
        shortcut: Tensor | None,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
    ) -> Tensor:
        """Compute the output, see `conv_norm_relu`."""
        once = (1, 1)
        if image.device.type != "cuda":
            inner = functional.conv2d(image, weight, bias, stride, padding)
            output = functional.relu(inner if shortcut is None else inner + shortcut)
        elif shortcut is None:
            output = torch.cudnn_convolution_relu(image, weight, bias, stride, padding, once, 1)
        else:
            output = torch.cudnn_convolution_add_relu(image, weight, shortcut, 1.0, bias, stride, padding, once, 1)
        ctx.save_for_backward(image, weight, output)
        ctx.sizes = stride, padding, shortcut is not None
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of image, weight, bias and shortcut, as far as they are needed."""
        image, weight, output = ctx.saved_tensors
        stride, padding, has_shortcut = ctx.sizes
        inner = gradients[0] * (output > 0)
        wanted = list(ctx.needs_input_grad[:3])
        to_image, to_weight, to_bias = torch.ops.aten.convolution_backward(
            inner, image, weight, [weight.shape[0]], stride, padding, (1, 1), False, (0, 0), 1, wanted
        )
        return to_image, to_weight, to_bias, inner if has_shortcut else None, None, None


def fused_conv_norm_relu(
    image: Tensor, conv: nn.Conv2d, norm: FrozenBatchNorm, shortcut: Tensor | None = None
) -> Tensor:
    """Compute `conv_norm_relu` by `_FusedConvRelu`, in the precision of autocast."""
    kind = image.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else image.dtype
    weight, shift = norm.fold_into(conv)
    with torch.autocast(kind, enabled=False):
        result: Tensor = _FusedConvRelu.apply(  # type: ignore[no-untyped-call]
            image.to(dtype),
            weight.to(dtype),
            shift.to(dtype),
            None if shortcut is None else shortcut.to(dtype),
            conv.stride,
            conv.padding,
        )
    return result


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions and a shortcut. In version 1 the first convolution has the stride.

    `channels` are those of the inner layers; the output has `EXPANSION` times as many.
    """

    def __init__(self, channels_in: int, channels: int, stride: int, *, fused: bool = False) -> None:
        super().__init__()
        self.fused = fused
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
        """Map (B,channels_in,H,W) to (B,4·channels,H/stride,W/stride)."""
        layer = fused_conv_norm_relu if self.fused and self.training else conv_norm_relu
        inner = layer(image, self.conv1, self.bn1)
        inner = layer(inner, self.conv2, self.bn2)
        if self.downsample is None:
            return layer(inner, self.conv3, self.bn3, image)
        conv, norm = _shortcut_layers(self.downsample)
        if is_inference_on_gpu(image):
            # The shift of the shortcut is added with that of the last convolution, not in a pass over the map.
            weight, shift = norm.fold_into(conv)
            shortcut = functional.conv2d(image, weight, None, conv.stride)
            return _fused_conv_norm_relu(inner, self.conv3, self.bn3, shortcut, shift)
        return layer(inner, self.conv3, self.bn3, conv_norm(image, conv, norm))

    def conv_norm_pairs(self) -> list[tuple[nn.Conv2d, FrozenBatchNorm]]:
        """Return every convolution with the normalization after it."""
        pairs = [(self.conv1, self.bn1), (self.conv2, self.bn2), (self.conv3, self.bn3)]
        return pairs if self.downsample is None else [*pairs, _shortcut_layers(self.downsample)]


def _shortcut_layers(downsample: nn.Sequential) -> tuple[nn.Conv2d, FrozenBatchNorm]:
    return cast(nn.Conv2d, downsample[0]), cast(FrozenBatchNorm, downsample[1])


class ResNet(Backbone):
    """The stem and the first stages of a ResNet; parameters are named as in torchvision.

    There are `blocks` bottlenecks per stage; (3, 4, 6) are the first three stages of a ResNet-50. The stem has
    `base_channels` channels. `frozen_stages` counts the parts that are not trained, from the stem: 2 freezes the stem
    and `layer1`. `fused` selects `fused_conv_norm_relu` in training.

    Attributes:
        block_stem: weight and bias of the stem for blocks of pixels, after `fold_batch_norms`
    """

    def __init__(
        self, blocks: Sequence[int], base_channels: int = 64, frozen_stages: int = 0, *, fused: bool = False
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, base_channels, 7, 2, 3, bias=False)
        self.bn1 = FrozenBatchNorm(base_channels)
        self.block_stem: tuple[Tensor, Tensor] | None = None
        self.stage_names = [f"layer{index + 1}" for index in range(len(blocks))]
        self.channels = [base_channels * 2**index * EXPANSION for index in range(len(blocks))]
        self.strides = [4 * 2**index for index in range(len(blocks))]
        channels_in = base_channels
        for index, (name, count) in enumerate(zip(self.stage_names, blocks, strict=True)):
            inner = base_channels * 2**index
            first = Bottleneck(channels_in, inner, stride=1 if index == 0 else 2, fused=fused)
            channels_in = inner * EXPANSION
            rest = [Bottleneck(channels_in, inner, stride=1, fused=fused) for _ in range(count - 1)]
            self.add_module(name, nn.Sequential(first, *rest))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self._freeze("conv1", frozen_stages)

    def _stem(self, images: Tensor) -> Tensor:
        """Map images (B,3,H,W) in [0,1] to features (B,base_channels,H/4,W/4)."""
        if self.block_stem is not None and is_inference_on_gpu(images) and stem_triton.can_use(images):
            return self._stem_of_blocks(images, *self.block_stem)
        features = self._normalize(images)
        if is_inference_on_gpu(features):
            return functional.max_pool2d(conv_norm_relu(features, self.conv1, self.bn1), 3, 2, 1)
        # The same values: both operators keep the order of numbers. Here the ReLU has a quarter of the cells.
        return functional.relu(functional.max_pool2d(conv_norm(features, self.conv1, self.bn1), 3, 2, 1))

    def _stem_of_blocks(self, images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """`_stem` by `treeformer.nn.kernels.stem`, with the weights that `fold_batch_norms` rearranged."""
        scale = self.std.flatten().reciprocal()
        blocks = stem_triton.pixel_blocks(images, scale, -self.mean.flatten() * scale, weight.dtype)
        convolved = torch.cudnn_convolution_relu(blocks, weight, bias, (1, 1), (0, 0), (1, 1), 1)
        return stem_triton.max_pool(convolved)

    @torch.no_grad()
    def fold_batch_norms(self, dtype: torch.dtype) -> None:
        """Fold the normalizations into the convolutions, see `Backbone.fold_batch_norms`."""
        pairs = [(self.conv1, self.bn1)]
        for module in self.modules():
            if isinstance(module, Bottleneck):
                pairs += module.conv_norm_pairs()
        for conv, norm in pairs:
            weight, shift = norm.fold_into(conv)
            norm.folded = weight.to(dtype), shift.to(dtype)
        weight, bias = self.bn1.fold_into(self.conv1)
        self.block_stem = stem_triton.block_weight(weight), bias

    def stored_name(self, name: str) -> str | None:
        """Return the name here of a weight in a file with torchvision's names, None for a weight that is not used."""
        is_further = name.startswith(("layer", "fc.")) and name.partition(".")[0] not in self.stage_names
        # torchvision's normalization layers also count their batches, which has no effect on their output.
        return None if is_further or name.endswith(BATCH_COUNTER) else name


def load_backbone(backbone: Backbone, path: str | os.PathLike[str]) -> None:
    """Load a backbone from a safetensors file of published weights; further stages in the file are ignored.

    Args:
        backbone: the network to fill.
        path: the safetensors file, with the names of torchvision for a ResNet, of MobileSAM for a TinyViT.

    Raises:
        FormatError: if a weight is missing, has another shape, or is not part of the network.
    """
    kind = type(backbone).__name__
    renamed = {backbone.stored_name(name): array for name, array in safetensors.read(path).items()}
    stored = {name: array for name, array in renamed.items() if name is not None}
    wanted = backbone.state_dict()
    for name, tensor in wanted.items():
        if name not in stored:
            raise FormatError(f"{path}: no weights for {name}")
        if stored[name].shape != tuple(tensor.shape):
            raise FormatError(f"{path}: {name} has shape {stored[name].shape}, expected {tuple(tensor.shape)}")
    unused = sorted(stored.keys() - wanted.keys())
    if unused:
        raise FormatError(f"{path}: {unused[0]} is not part of a {kind}")
    backbone.load_state_dict({name: torch.tensor(stored[name]).float() for name in wanted})
