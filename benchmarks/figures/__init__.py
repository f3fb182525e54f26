"""The paper's figures, from weights and results of the tables: `python -m benchmarks.figures --help`."""
