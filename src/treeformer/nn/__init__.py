"""Network layers and losses in torch.

`SFS` and `minimum_spanning_tree` can be used in other models: they take plain tensors and need no other layer.
"""

from treeformer.nn.sfs import SFS
from treeformer.nn.spanning import minimum_spanning_tree

__all__ = ["SFS", "minimum_spanning_tree"]
