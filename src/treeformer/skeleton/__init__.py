"""`Skeleton`: the skeleton of one or several plants as a graph of points, with axes, plants and roots."""

from treeformer.skeleton.axes import Axis, AxisFunction, Plant
from treeformer.skeleton.skeleton import Skeleton

__all__ = ["Axis", "AxisFunction", "Plant", "Skeleton"]
