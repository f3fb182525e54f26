"""Start a network from the weights of a wider and deeper one.

Every layer of the narrow network gets a subset of the channels of the wide one. The convolutions are then fitted, from
the image to the heat map: a layer reads what the narrow network computes so far, and its weights are the least squares
solution for the chosen channels of the wide network on a few images. Channels that are left out are thus replaced by
combinations of the others, and biases, which training does not change in the backbone, are set. Tokens, decoder and
heads take over their parts of the weights. Predictions are worse until the network has been trained again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.errors import TreeformerError
from treeformer.models.config import TreeFormerConfig
from treeformer.models.shrink import kept
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.backbone import Bottleneck, FrozenBatchNorm, ResNet, conv_norm
from treeformer.nn.heat_map import HeatMapHead
from treeformer.nn.pyramid import FeaturePyramid

MOST_CELLS = 12_000
"""Largest number of cells on which a convolution is fitted."""

RIDGE = 1e-3
"""Weight of the penalty on the weights of a fitted convolution, relative to the mean variance of its inputs."""

HEADED = ("query", "key", "value", "values", "offsets", "weights")
"""Layers of an attention whose outputs are grouped by heads."""


def spread(count: int, wanted: int) -> Tensor:
    """Return `wanted` evenly spaced indices of `count` channels, (wanted,) int64 in ascending order.

    More than `count` are an error.

    >>> spread(8, 4).tolist()
    [0, 2, 4, 6]
    """
    if wanted > count:
        raise TreeformerError(f"{wanted} channels cannot be taken from {count}")
    return torch.arange(wanted) * count // wanted


@torch.no_grad()
def narrow(wide: TreeFormer, target: TreeFormer, images: Tensor, *, seed: int = 0) -> None:
    """Fill the network `target` with weights that imitate a wider one.

    The target has at most as many blocks, layers and channels, and is the same kind of network. The convolutions are
    fitted on `images` (B,3,H,W), RGB in [0,1], at cells that are chosen with the seed.
    """
    for model in (wide, target):
        if not isinstance(model.neck, FeaturePyramid) or model.heat_map is None:
            raise TreeformerError("only a network with a pyramid and a heat map can be started from a wider one")
    _check_kind(wide.config, target.config)
    modes = wide.training, target.training
    wide.eval(), target.eval()
    generator = torch.Generator().manual_seed(seed)
    stages = _fit_backbone(cast(ResNet, wide.backbone), cast(ResNet, target.backbone), images, generator)
    fine = _fit_neck(cast(FeaturePyramid, wide.neck), cast(FeaturePyramid, target.neck), stages, generator)
    _fit_heat_map(cast(HeatMapHead, wide.heat_map), cast(HeatMapHead, target.heat_map), fine, generator)
    target.load_state_dict(_sliced(wide, target), strict=False)
    wide.train(modes[0]), target.train(modes[1])


def _check_kind(wide: TreeFormerConfig, target: TreeFormerConfig) -> None:
    """Check the settings that make another kind of network: each tensor of the target is a part of one of `wide`."""
    if (wide.backbone, target.backbone) != ("resnet", "resnet"):
        raise TreeformerError("only a network with a ResNet can be started from a wider one")
    if len(wide.backbone_blocks) != len(target.backbone_blocks):
        raise TreeformerError("a network with another number of stages cannot be started from a wider one")
    if target.decoder_min_stride < wide.decoder_min_stride:
        raise TreeformerError("the wider network does not read levels of this stride")
    same = ["heatmap_upsampling"]
    same += ["num_harmonics"] if target.num_harmonics else []
    same += ["segment_points"] if target.segment_channels else []
    for name in same:
        if getattr(wide, name) != getattr(target, name):
            raise TreeformerError(f"{name} is {getattr(target, name)}, but {getattr(wide, name)} in the wider network")
    if target.segment_channels and not wide.segment_channels:
        raise TreeformerError("segment_channels must be 0, because the wider network does not read segments")


def _fit_backbone(
    wide: ResNet, target: ResNet, images: Tensor, generator: torch.Generator
) -> list[tuple[Tensor, Tensor]]:
    """Fill the backbone. Return the features of both networks per stage."""
    images = (images - wide.mean) / wide.std
    whole = conv_norm(images, wide.conv1, wide.bn1)
    blocks = [list(cast(nn.Sequential, getattr(wide, name))) for name in wide.stage_names]
    first = cast(Bottleneck, blocks[0][0])
    assert first.downsample is not None
    channels = _important(whole.relu(), [first.conv1, cast(nn.Conv2d, first.downsample[0])], target.conv1.out_channels)
    _set(target.conv1, target.bn1, *(part[channels] for part in wide.bn1.fold_into(wide.conv1)))
    whole = functional.max_pool2d(whole, 3, 2, 1).relu()
    part = functional.max_pool2d(conv_norm(images, target.conv1, target.bn1), 3, 2, 1).relu()
    stages = []
    for index, name in enumerate(target.stage_names):
        stack = [cast(Bottleneck, block) for block in blocks[index]]
        wanted = [cast(Bottleneck, block) for block in cast(nn.Sequential, getattr(target, name))]
        indices = kept(len(stack), len(wanted))
        # The channels of a stage are those of all its blocks, because the shortcuts add them up.
        last = whole
        for block in stack:
            last = block(last)
        readers = [block.conv1 for block in stack[1:]]
        if index + 1 < len(blocks):
            following = cast(Bottleneck, blocks[index + 1][0])
            assert following.downsample is not None
            readers += [following.conv1, cast(nn.Conv2d, following.downsample[0])]
        channels = _important(last, readers, wanted[0].conv3.out_channels)
        for number, block in enumerate(stack):
            if number in indices:
                whole, part = _fit_block(block, wanted[indices.index(number)], whole, part, channels, generator)
            else:
                whole = block(whole)
        stages.append((whole, part))
    return stages


def _fit_block(
    wide: Bottleneck, target: Bottleneck, whole: Tensor, part: Tensor, channels: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Fill one block. Return its output in the wide and in the narrow network."""
    first = conv_norm(whole, wide.conv1, wide.bn1)
    inner = _important(first.relu(), [wide.conv2], target.conv1.out_channels)
    hidden = _fit_norm(target.conv1, target.bn1, part, first[:, inner], generator).relu()
    second = conv_norm(first.relu(), wide.conv2, wide.bn2)
    inner = _important(second.relu(), [wide.conv3], target.conv2.out_channels)
    hidden = _fit_norm(target.conv2, target.bn2, hidden, second[:, inner], generator).relu()
    shortcut, short = whole, part
    if wide.downsample is not None and target.downsample is not None:
        conv, norm = cast(nn.Conv2d, wide.downsample[0]), cast(FrozenBatchNorm, wide.downsample[1])
        shortcut = conv_norm(whole, conv, norm)
        conv, norm = cast(nn.Conv2d, target.downsample[0]), cast(FrozenBatchNorm, target.downsample[1])
        short = _fit_norm(conv, norm, part, shortcut[:, channels], generator)
    total = conv_norm(second.relu(), wide.conv3, wide.bn3) + shortcut
    rest = _fit_norm(target.conv3, target.bn3, hidden, total[:, channels] - short, generator)
    return total.relu(), (rest + short).relu()


def _fit_neck(
    wide: FeaturePyramid, target: FeaturePyramid, stages: Sequence[tuple[Tensor, Tensor]], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Fill the pyramid. Return its finest level in both networks."""
    above = wide.coarsest(stages[-1][0])
    short = _fit(target.coarsest, stages[-1][1], above[:, _outputs(wide.coarsest, target.coarsest)], generator)
    for index in reversed(range(len(stages))):
        whole, part = stages[index]
        if index == 0:
            above = wide.narrow(above)
            short = _fit(target.narrow, short, above[:, _outputs(wide.narrow, target.narrow)], generator)
        lateral, smooth = cast(nn.Conv2d, target.lateral[index]), cast(nn.Conv2d, target.smooth[index])
        channels = _outputs(cast(nn.Conv2d, wide.lateral[index]), lateral)
        above = wide.lateral[index](whole) + functional.interpolate(above, scale_factor=2.0, mode="nearest")
        short = functional.interpolate(short, scale_factor=2.0, mode="nearest")
        short = short + _fit(lateral, part, above[:, channels] - short, generator)
        level = wide.smooth[index](above)
        level_part = _fit(smooth, short, level[:, channels], generator)
    return level, level_part


def _fit_heat_map(
    wide: HeatMapHead, target: HeatMapHead, fine: tuple[Tensor, Tensor], generator: torch.Generator
) -> None:
    """Fill the head of the heat map."""
    first, last = (cast(nn.Conv2d, wide.layers[index]) for index in (0, 2))
    hidden, output = (cast(nn.Conv2d, target.layers[index]) for index in (0, 2))
    channels = _outputs(first, hidden)
    whole = first(fine[0])
    part = _fit(hidden, fine[1], whole[:, channels], generator)
    if wide.phase is not None and target.phase is not None:
        target.phase.weight.copy_(wide.phase.weight[channels])
    # The phase, which shifts the hidden values a little, is left out of the fit.
    _fit(output, part.relu(), last(whole.relu()), generator)


def _important(features: Tensor, readers: Sequence[nn.Conv2d], wanted: int) -> Tensor:
    """Choose channels of (B,C,h,w) with large deviations that the next layers read with large weights: (wanted,)."""
    if wanted > features.shape[1]:
        raise TreeformerError(f"{wanted} channels cannot be taken from {features.shape[1]}")
    weight = features.std((0, 2, 3))
    if readers:
        weight = weight * sum(reader.weight.square().sum((0, 2, 3)) for reader in readers).sqrt()  # type: ignore[union-attr]
    return weight.topk(wanted).indices.sort().values


def _outputs(wide: nn.Conv2d, target: nn.Conv2d) -> Tensor:
    return spread(wide.out_channels, target.out_channels)


def _fit_norm(
    conv: nn.Conv2d, norm: FrozenBatchNorm, features: Tensor, wanted: Tensor, generator: torch.Generator
) -> Tensor:
    """Fit a convolution with the normalization after it, and return its output."""
    _set(conv, norm, *least_squares(conv, features, wanted, generator))
    return conv_norm(features, conv, norm)


def _fit(conv: nn.Conv2d, features: Tensor, wanted: Tensor, generator: torch.Generator) -> Tensor:
    """Fit a convolution with a bias, and return its output."""
    weight, bias = least_squares(conv, features, wanted, generator)
    assert conv.bias is not None
    conv.weight.copy_(weight)
    conv.bias.copy_(bias)
    return cast(Tensor, conv(features))


def _set(conv: nn.Conv2d, norm: FrozenBatchNorm, weight: Tensor, bias: Tensor) -> None:
    conv.weight.copy_(weight)
    norm.weight.fill_(1.0)
    norm.bias.copy_(bias)
    norm.running_mean.zero_()
    norm.running_var.fill_(1.0 - norm.eps)


def least_squares(
    conv: nn.Conv2d, features: Tensor, wanted: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Fit weights (C',C,k,k) and biases (C',) of a convolution to its desired output.

    Size, stride and padding are those of `conv`; its input `features` is (B,C,h,w), the output `wanted` (B,C',h',w').
    Half of the cells are drawn at random. The other half are those whose output differs most from the mean: plants
    cover only a small part of most images.
    """
    target = wanted.permute(0, 2, 3, 1).flatten(0, 2)  # (cells,C')
    cells = torch.randperm(len(target), generator=generator)[:MOST_CELLS]
    if len(target) > MOST_CELLS:
        far = (target - target.mean(0)).square().sum(1).topk(MOST_CELLS // 2).indices
        cells = torch.cat([cells[: MOST_CELLS // 2], far])
    size, stride, padding = (cast(tuple[int, int], value)[0] for value in (conv.kernel_size, conv.stride, conv.padding))
    height, width = wanted.shape[-2:]
    padded = functional.pad(features, [padding] * 4)
    image, rest = cells // (height * width), cells % (height * width)
    top, left = rest // width * stride, rest % width * stride
    rows = [padded[image, :, top + dy, left + dx] for dy in range(size) for dx in range(size)]
    inputs = torch.stack(rows, dim=-1).flatten(1).double()  # (cells,C·k·k)
    outputs = target[cells].double()
    mean_in, mean_out = inputs.mean(0), outputs.mean(0)
    inputs, outputs = inputs - mean_in, outputs - mean_out
    gram = inputs.T @ inputs
    gram.diagonal().add_(RIDGE * gram.diagonal().mean() + 1e-9)
    weight = torch.linalg.solve(gram, inputs.T @ outputs).T  # (C',C·k·k)
    bias = mean_out - weight @ mean_in
    return weight.view(len(weight), features.shape[1], size, size).float(), bias.float()


def _sliced(wide: TreeFormer, target: TreeFormer) -> dict[str, Tensor]:
    """Return the weights after the heat map: those of the wide network for the chosen channels, heads and layers."""
    source, config = wide.config, target.config
    layers = kept(source.decoder_layers, config.decoder_layers)
    dropped = sum(source.decoder_min_stride <= stride < config.decoder_min_stride for stride in wide.strides)
    weights = wide.state_dict()
    result = {}
    for name, tensor in target.state_dict().items():
        if name.startswith(("backbone.", "neck.", "heat_map.", "center_lines.")):
            continue
        parts = name.split(".")
        if parts[0] == "decoder" and parts[1] in ("layers", "node_heads", "point_heads"):
            supervised = parts[1] == "layers" or source.auxiliary_losses
            parts[2] = str(layers[int(parts[2])] if supervised else 0)
        if "values" in parts:
            place = parts.index("values") + 1
            width = {config.width: source.width, config.fine_width: source.fine_width}[int(parts[place])]
            parts[place] = str(width)
        if name.startswith(target.new_parts) and name not in weights:
            continue  # the wide network is of an earlier version
        wide_tensor = weights[".".join(parts)]
        rows = _rows(parts, wide_tensor.shape[0], tensor.shape[0], source, config, dropped)
        wide_tensor = wide_tensor[rows]
        if tensor.ndim == 2:
            count, wanted = wide_tensor.shape[1], tensor.shape[1]
            # The sum has fewer terms; the root keeps its deviation if they are independent.
            wide_tensor = wide_tensor[:, _columns(parts, count, wanted, source, config)] * (count / wanted) ** 0.5
        result[name] = wide_tensor
    return result


def _rows(
    parts: Sequence[str],
    count: int,
    wanted: int,
    source: TreeFormerConfig,
    config: TreeFormerConfig,
    dropped: int,
) -> Tensor:
    """Choose outputs of a layer: whole heads and sampling points of the levels that are read; or any channels."""
    if not any(part in HEADED for part in parts):
        return spread(count, wanted)
    index = torch.arange(count).view(source.heads, -1)[spread(source.heads, config.heads)]
    if "offsets" in parts or "weights" in parts:
        points = spread(source.sampling_points, config.sampling_points)
        numbers = 2 if "offsets" in parts else 1
        return index.view(config.heads, -1, source.sampling_points, numbers)[:, dropped:, points].flatten()
    return index[:, spread(index.shape[1], wanted // config.heads)].flatten()


def _columns(
    parts: Sequence[str], count: int, wanted: int, source: TreeFormerConfig, config: TreeFormerConfig
) -> Tensor:
    """Choose inputs of a layer: the outputs of the layer before it."""
    if "output" in parts:  # the output layer of an attention
        heads = torch.arange(count).view(source.heads, -1)[spread(source.heads, config.heads)]
        return heads[:, spread(heads.shape[1], wanted // config.heads)].flatten()
    if parts[-2] in ("even_segment", "odd_segment"):  # samples × channels, then two numbers
        samples = torch.arange(count - 2).view(-1, source.segment_channels)
        chosen = samples[:, spread(source.segment_channels, config.segment_channels)].flatten()
        return torch.cat([chosen, torch.tensor([count - 2, count - 1])])
    return spread(count, wanted)
