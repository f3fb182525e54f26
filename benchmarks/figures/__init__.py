"""The paper's figures, from the weights and results of the tables' runs: `python -m benchmarks.figures --help`."""
