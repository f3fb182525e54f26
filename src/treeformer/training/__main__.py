"""`python -m treeformer.training CONFIG.yaml [KEY=VALUE …] [-o FOLDER]`: the same command as `treeformer train`."""

from treeformer.training.command import main

if __name__ == "__main__":
    main()
