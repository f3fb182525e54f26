"""The models that can be trained, by the names that configurations use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from treeformer.baselines.ggt.model import GGT, GGTConfig
from treeformer.baselines.two_stage.model import TwoStage, TwoStageConfig
from treeformer.models.config import TreeFormerConfig
from treeformer.models.treeformer import TreeFormer


class Kind(NamedTuple):
    """A kind of model: a function that makes its configuration, and the module that takes it.

    The training loop asks of a module, beside being a torch module: `config`, a frozen dataclass;
    `forward(images, targets)`; `loss(output, targets, node_count)`; `decode(output, image_size=…)`;
    `compile_parts()`. A submodule called `backbone` starts from trained weights and learns at its own rate.
    """

    settings: Callable[[], Any]
    module: Callable[[Any], Any]


MODELS: dict[str, Kind] = {
    "default": Kind(TreeFormerConfig.default, TreeFormer),
    "paper": Kind(TreeFormerConfig.paper, TreeFormer),
    "tiny": Kind(TreeFormerConfig.tiny, TreeFormer),
    "two_stage": Kind(TwoStageConfig, TwoStage),
    "hourglass": Kind(TwoStageConfig.hourglass, TwoStage),
    "ggt": Kind(GGTConfig, GGT),
}
