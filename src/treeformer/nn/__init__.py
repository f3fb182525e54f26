"""Parts of networks, from here on in torch. `SFS` and `minimum_spanning_tree` need no other part of the project."""

from treeformer.nn.sfs import SFS
from treeformer.nn.spanning import minimum_spanning_tree

__all__ = ["SFS", "minimum_spanning_tree"]
