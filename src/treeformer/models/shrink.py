"""Start a network from the weights of a deeper one: leave out blocks, layers and the finest levels.

Widths stay as they are. In a residual network the first block of a stage changes the size, and the last ones are what
the next stage has learned to read; blocks between them are left out. The same holds for the layers of the decoder.
Predictions are worse until the network has been trained again.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from treeformer.errors import TreeformerError
from treeformer.models.config import TreeFormerConfig

BLOCK = re.compile(r"backbone\.layer(\d+)\.(\d+)\.(.+)")
LAYER = re.compile(r"decoder\.(layers|node_heads|point_heads)\.(\d+)\.(.+)")
SAMPLING = ("objects_to_image.offsets.", "objects_to_image.weights.")


def kept(count: int, wanted: int) -> list[int]:
    """Return the indices to keep: the first one, and the last ones.

    Args:
        count: number of blocks or layers.
        wanted: how many to keep, at least 1.

    Returns:
        Indices in ascending order.

    Raises:
        TreeformerError: if more are wanted than there are, or none.

    >>> kept(6, 4)
    [0, 3, 4, 5]
    """
    if not 1 <= wanted <= count:
        raise TreeformerError(f"{wanted} blocks or layers cannot be taken from {count}")
    return [0, *range(count - wanted + 1, count)]


def shrink(weights: dict[str, Tensor], source: TreeFormerConfig, target: TreeFormerConfig) -> dict[str, Tensor]:
    """Select the weights of a shallower network.

    Args:
        weights: Weights of the deeper network by name.
        source: Its configuration. Its tokens come from a heat map on a pyramid.
        target: Configuration of the shallower network: fewer blocks per stage, fewer decoder layers, or a larger
            `decoder_min_stride`.

    Returns:
        The weights of the shallower network by name. They are views of the given ones where possible.

    Raises:
        TreeformerError: If a part of the target is larger than that of the source, or the widths differ.
    """
    if (source.backbone, target.backbone) != ("resnet", "resnet"):
        raise TreeformerError("only a network with a ResNet can be started from a deeper one")
    if len(source.backbone_blocks) != len(target.backbone_blocks):
        raise TreeformerError("a network with another number of stages cannot be started from these weights")
    if source.neck != "pyramid" or target.neck != "pyramid":
        raise TreeformerError("only a network with a pyramid can be started from a deeper one")
    if target.decoder_min_stride < source.decoder_min_stride:
        raise TreeformerError("the deeper network does not read levels of this stride")
    blocks = [kept(*counts) for counts in zip(source.backbone_blocks, target.backbone_blocks, strict=True)]
    layers = kept(source.decoder_layers, target.decoder_layers)
    strides = [4 * 2**index for index in range(len(source.backbone_blocks) + 1)]
    read = [stride for stride in strides if stride >= source.decoder_min_stride]
    dropped = sum(stride < target.decoder_min_stride for stride in read)
    # The finest level of the pyramid has its own width, and with it its own value projection.
    fine_values = f".objects_to_image.values.{source.fine_width}."
    without_fine = dropped and source.decoder_min_stride <= strides[0] and source.fine_width != source.width
    result = {}
    for name, tensor in weights.items():
        renamed: str | None = name
        if match := BLOCK.fullmatch(name):
            stage, block, rest = match.groups()
            chosen = blocks[int(stage) - 1]
            renamed = f"backbone.layer{stage}.{chosen.index(int(block))}.{rest}" if int(block) in chosen else None
        elif match := LAYER.fullmatch(name):
            part, layer, rest = match.groups()
            chosen = layers if part == "layers" or source.auxiliary_losses else [0]
            renamed = f"decoder.{part}.{chosen.index(int(layer))}.{rest}" if int(layer) in chosen else None
            if without_fine and fine_values in name:
                renamed = None
            elif dropped and rest.startswith(SAMPLING):
                tensor = _without_levels(tensor, source.heads, len(read), dropped)
        if renamed is not None:
            result[renamed] = tensor
    return result


def _without_levels(tensor: Tensor, heads: int, levels: int, dropped: int) -> Tensor:
    """Leave out the rows of the finest levels from a layer that predicts offsets or weights: (heads·levels·…,…)."""
    split = torch.unflatten(tensor, 0, (heads, levels, -1))
    return split[:, dropped:].flatten(0, 2)
