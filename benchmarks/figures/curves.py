"""Validation over training for the four regimes, from the results alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.results import Result
from benchmarks.tables.spec import OURS, TABLES, TEST_TIME, TRAIN_TIME, UNCONSTRAINED

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError

REGIMES = (UNCONSTRAINED, TEST_TIME, TRAIN_TIME, OURS)
COLORS = ("tab:gray", "tab:blue", "tab:orange", "tab:red")


def f1_curve(result: Result, decoding: str, kind: str = "topo") -> tuple[list[float], list[float]]:
    """Minutes of training, and F1 as the harmonic mean of mean precision and mean recall."""
    precision, recall = (np.asarray(result.curve[f"{decoding}/{kind}_{side}"]) for side in ("precision", "recall"))
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)
    return list(result.curve["minutes"]), f1.tolist()


def curves(results: Mapping[str, Result], path: Path) -> None:
    """A panel a domain, a line a regime and seed; domains without results are left out."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    table = TABLES["train-time"]
    there = {
        domain: [
            (row, seed) for row in REGIMES for seed in table.seeds if table.run_of(domain, row, seed).name in results
        ]
        for domain in table.domains
    }
    there = {domain: lines for domain, lines in there.items() if lines}
    if not there:
        raise TreeformerError("no result of any of the four regimes to draw")
    figure, axes = plt.subplots(1, len(there), figsize=(4.2 * len(there), 3.4), squeeze=False)
    for axis, (domain, lines) in zip(axes[0], there.items(), strict=True):
        for row, seed in lines:
            minutes, f1 = f1_curve(results[table.run_of(domain, row, seed).name], row.decoding)
            color, first = COLORS[REGIMES.index(row)], seed == table.seeds[0]
            axis.plot(minutes, f1, color=color, linestyle="-" if first else "--", label=row.title if first else None)
        axis.set_title(DOMAINS[domain].title.replace("`", ""), fontsize=9)
        axis.set_xlabel("minutes of training")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("TOPO F1, validation images")
    axes[0][0].legend(fontsize=7, title="dashed: second seed", title_fontsize=7)
    figure.tight_layout()
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=110)
    plt.close(figure)
