"""From a single picture of a plant to its skeleton: a tree of nodes and edges, never a broken graph."""

from treeformer.axes import Axis, Function, Plant
from treeformer.errors import FormatError, SkeletonError, TreeformerError
from treeformer.formats import read, read_all, write
from treeformer.skeleton import Skeleton

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
    "read",
    "read_all",
    "write",
]
