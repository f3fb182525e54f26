"""The paper's tables: training runs (domains, recipes), table layouts (spec) and result files.

`python -m benchmarks.tables table1` rebuilds a table from `benchmarks/results/` without a GPU; `--run` trains.
"""
