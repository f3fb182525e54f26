"""Synthetic results for tests of tables and figures."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.tables.recipes import RECIPES, Run, as_table
from benchmarks.tables.results import Result, columns_of


def row(precision: float = 0.8, recall: float = 0.5, smd: float = 1e-4, tree: float = 1.0) -> dict[str, float]:
    """Return the figures of one image."""
    found = {"smd_paper": smd, "smd": 10 * smd, "length_error": float("nan")}
    for name in ("topo_paper", "topo", "node", "edge", "keypoint"):
        found |= {f"{name}_precision": precision, f"{name}_recall": recall, f"{name}_f1": 0.0}
    return found | {"tree_of_edges_rate": tree, "tree_rate": tree, "forest_rate": 1.0, "exact_rate": 0.0}


def result(run: Run, rows: list[dict[str, float]], **changes: Any) -> Result:
    """Return a result of four minutes with the same figures for every decoding."""
    decodings = RECIPES[run.recipe].decodings
    curve = {"step": [250.0, 500.0], "minutes": [2.0, 4.0]}
    for name in decodings:
        curve |= {f"{name}/topo_precision": [0.5, 0.75], f"{name}/topo_recall": [0.0, 0.75]}
    made = Result(
        run=run.name,
        config=as_table(run.config(Path("data"))),
        seed=run.seed,
        commit="0123456789ab",
        machine={"device": "NVIDIA H200", "torch": "2.11.0"},
        backbone="resnet50.safetensors 0123" if RECIPES[run.recipe].has_backbone else "",
        minutes=4.0,
        trained_minutes=4.001,
        wall_minutes=7.5,
        steps=1000,
        images=128_000,
        edge_weight_total=2.0 if RECIPES[run.recipe].model in ("default", "ggt") else None,
        curve=curve,
        tests={name: columns_of(rows) for name in decodings},
        test_images=len(rows),
    )
    assert asdict(made)
    return replace(made, **changes)
