"""The models that can be trained, by their names in configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from treeformer.baselines.ggt.config import GGTConfig
from treeformer.baselines.ggt.model import GGT
from treeformer.baselines.two_stage.model import TwoStage, TwoStageConfig
from treeformer.models.config import TreeFormerConfig
from treeformer.models.treeformer import TreeFormer


class TrainableModel(NamedTuple):
    """A model that the training loop can train.

    The loop needs a torch module with `config`, a frozen dataclass; `forward(images, targets)`;
    `loss(output, targets, node_count)`; `decode(output, image_size=…)`; and `compile_parts()`. A submodule named
    `backbone` may start from trained weights and has its own learning rate. A true attribute `supports_cuda_graphs`
    states that the training step never waits for the device. `new_parts` has the beginnings of the names of weights
    that may be missing in the weights that a run starts from. A true `has_variable_tokens` states that `forward` has
    the argument `tokens`, which crowded batches need.

    Attributes:
        settings: makes the default configuration.
        module: makes the module from a configuration.
    """

    settings: Callable[[], Any]
    module: Callable[[Any], Any]


MODELS: dict[str, TrainableModel] = {
    "default": TrainableModel(TreeFormerConfig.default, TreeFormer),
    "small": TrainableModel(TreeFormerConfig.small, TreeFormer),
    "paper": TrainableModel(TreeFormerConfig.paper, TreeFormer),
    "tiny": TrainableModel(TreeFormerConfig.tiny, TreeFormer),
    "two_stage": TrainableModel(TwoStageConfig, TwoStage),
    "hourglass": TrainableModel(TwoStageConfig.hourglass, TwoStage),
    "ggt": TrainableModel(GGTConfig, GGT),
}
