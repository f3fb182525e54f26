"""From a single picture of a plant to its skeleton: a tree of nodes and edges, never a broken graph."""

from typing import TYPE_CHECKING, Any

from treeformer.axes import Axis, Function, Plant
from treeformer.errors import FormatError, SkeletonError, TreeformerError
from treeformer.formats import read, read_all, write
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    from treeformer.prediction import load_model, predict

__version__ = "0.1.0"

__all__ = [
    "Axis",
    "FormatError",
    "Function",
    "Plant",
    "Skeleton",
    "SkeletonError",
    "TreeformerError",
    "__version__",
    "load_model",
    "predict",
    "read",
    "read_all",
    "write",
]


def __getattr__(name: str) -> Any:
    """What predicts is imported when it is first asked for: reading a file should not wait for it."""
    if name in ("load_model", "predict"):
        from treeformer import prediction

        return getattr(prediction, name)
    raise AttributeError(f"module 'treeformer' has no attribute {name!r}")
