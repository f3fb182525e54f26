"""`Skeleton`: a plant's skeleton as a graph of points, with its axes, plants and roots."""

from treeformer.skeleton.axes import Axis, Function, Plant
from treeformer.skeleton.skeleton import Skeleton

__all__ = ["Axis", "Function", "Plant", "Skeleton"]
