"""`python -m treeformer.cli` is `treeformer`."""

from treeformer.cli import main

main()
