"""The models that can be trained, by the names that configurations use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from treeformer.models.config import TreeFormerConfig
from treeformer.models.ggt import GGT, GGTConfig
from treeformer.models.treeformer import TreeFormer
from treeformer.models.two_stage import TwoStage, TwoStageConfig
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton


class Trainable(Protocol):
    """What the training loop asks of a model, beside being a torch module.

    A part of it that is called `backbone` starts from trained weights and learns at its own rate.
    """

    config: Any  # a frozen dataclass

    def __call__(self, images: Tensor, targets: Targets | None = None) -> Any:
        """Predict (B,3,H,W) pictures in [0,1]; with their truth in training."""

    def loss(self, output: Any, targets: Targets, node_count: Tensor | None = None) -> dict[str, Tensor]:
        """Weighted losses by name, sums over nodes divided by `node_count`."""

    def decode(self, output: Any, *, image_size: tuple[int, int] | None = None) -> list[Skeleton]:
        """One skeleton a picture."""

    def compile_parts(self) -> None:
        """Compile what has fixed shapes."""


class Kind(NamedTuple):
    """A kind of model: how its settings are made, and the module that takes them."""

    settings: Callable[[], Any]
    module: Callable[[Any], Any]  # a torch module that is `Trainable`


MODELS: dict[str, Kind] = {
    "default": Kind(TreeFormerConfig.default, TreeFormer),
    "paper": Kind(TreeFormerConfig.paper, TreeFormer),
    "tiny": Kind(TreeFormerConfig.tiny, TreeFormer),
    "two_stage": Kind(TwoStageConfig, TwoStage),
    "hourglass": Kind(TwoStageConfig.hourglass, TwoStage),
    "ggt": Kind(GGTConfig, GGT),
}
