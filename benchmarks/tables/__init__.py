"""The paper's tables: what is trained (domains, recipes), what a table shows (spec), results as files.

`python -m benchmarks.tables table1` rebuilds a table from `benchmarks/results/` without a GPU; `--run` trains.
"""
