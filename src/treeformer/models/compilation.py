"""Compile a network part by part with `torch.compile`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from treeformer.nn.backbone import Bottleneck
from treeformer.nn.backbone_tinyvit import ThreeConvolutions, WindowBlock
from treeformer.nn.fine_map import FineMap
from treeformer.nn.pyramid import FeaturePyramid, LevelProjections
from treeformer.nn.relation import RelationHead
from treeformer.nn.transformer import DecoderLayer, EncoderLayer

MAX_PROGRAMS = 64  # compiled programs per function
COMPILED_MODULES = (
    Bottleneck,
    ThreeConvolutions,
    WindowBlock,
    FeaturePyramid,
    LevelProjections,
    FineMap,
    EncoderLayer,
    DecoderLayer,
    RelationHead,
)


def compile_modules(model: nn.Module, **options: Any) -> None:
    """Compile the expensive modules of a network, all of which have fixed shapes, in place.

    The modules are compiled separately, so that bottlenecks and layers of the same shape are compiled only once.
    `options` are those of `torch.compile`.
    """
    # Every shape of a batch compiles the shared code of all bottlenecks and layers again. Beyond torch's limit of 8
    # programs per function, it would run eagerly.
    dynamo_config: Any = torch._dynamo.config
    dynamo_config.recompile_limit = max(dynamo_config.recompile_limit, MAX_PROGRAMS)
    for module in model.modules():
        if isinstance(module, Bottleneck) and module.fused:
            continue  # torch.compile does not know the fused operation
        if isinstance(module, COMPILED_MODULES):
            compiled: Any = torch.compile(module.forward, **options)
            module.forward = compiled  # type: ignore[method-assign]  # nn.Module calls the instance's forward
