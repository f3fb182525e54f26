"""`python -m treeformer` is `treeformer`."""

from treeformer.cli import main

main()
