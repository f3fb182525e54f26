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
    """Return the indices to keep, in ascending order: the first one, and the last ones, `wanted` of `count`.

    `wanted` is at least 1 and at most `count`.

    >>> kept(6, 4)
    [0, 3, 4, 5]
    """
    if not 1 <= wanted <= count:
        raise TreeformerError(f"{wanted} blocks or layers cannot be taken from {count}")
    return [0, *range(count - wanted + 1, count)]


def shrink(weights: dict[str, Tensor], source: TreeFormerConfig, target: TreeFormerConfig) -> dict[str, Tensor]:
    """Select the weights of a shallower network by name; they are views of the given ones where possible.

    The tokens of the source come from a heat map on a pyramid. The target has fewer blocks per stage, fewer decoder
    layers, or a larger `decoder_min_stride`. Other widths or larger parts are an error.
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
