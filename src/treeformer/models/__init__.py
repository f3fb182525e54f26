"""Models: a config dataclass, a module and a decode step each."""

from treeformer.models.config import TreeFormerConfig
from treeformer.models.inference import InferenceModel
from treeformer.models.output import Output
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.targets import Targets

__all__ = ["InferenceModel", "Output", "Targets", "TreeFormer", "TreeFormerConfig"]
