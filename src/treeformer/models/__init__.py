"""TreeFormer: configuration, network, criterion, and model folders."""

from treeformer.models.config import TreeFormerConfig
from treeformer.models.export import from_pretrained, save_pretrained
from treeformer.models.inference_model import InferenceModel
from treeformer.models.outputs import Output
from treeformer.models.treeformer import TreeFormer

__all__ = ["InferenceModel", "Output", "TreeFormer", "TreeFormerConfig", "from_pretrained", "save_pretrained"]
