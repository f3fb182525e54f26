"""Draw validation curves of the four regimes from the results."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.results import Result
from benchmarks.tables.spec import OURS, TABLES, TEST_TIME, TRAIN_TIME, UNCONSTRAINED
from PIL import Image

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError

REGIMES = (UNCONSTRAINED, TEST_TIME, TRAIN_TIME, OURS)
COLORS = ("tab:gray", "tab:blue", "tab:orange", "tab:red")


def f1_curve(result: Result, decoding: str, kind: str = "topo") -> tuple[list[float], list[float]]:
    """Return the validation curve of a run.

    Args:
        result: the run.
        decoding: one of its decodings.
        kind: "topo" or "topo_paper".

    Returns:
        Minutes of training, and F1 as the harmonic mean of mean precision and mean recall.
    """
    precision, recall = (np.asarray(result.curve[f"{decoding}/{kind}_{side}"]) for side in ("precision", "recall"))
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return list(result.curve["minutes"]), f1.tolist()


def curves(results: Mapping[str, Result], path: Path) -> None:
    """Draw one panel per domain with one line per regime and seed. Domains without results are omitted.

    Args:
        results: results by name of the run.
        path: the PNG file to write.

    Raises:
        TreeformerError: if there is no result of any regime.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    table = TABLES["train-time"]
    available = {
        domain: [
            (row, seed) for row in REGIMES for seed in table.seeds if table.run_of(domain, row, seed).name in results
        ]
        for domain in table.domains
    }
    available = {domain: lines for domain, lines in available.items() if lines}
    if not available:
        raise TreeformerError("no result of any of the four regimes")
    figure, axes = plt.subplots(1, len(available), figsize=(4.2 * len(available), 3.4), squeeze=False)
    for axis, (domain, lines) in zip(axes[0], available.items(), strict=True):
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
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=110)
    with atomic_write(path) as temporary, Image.open(drawn) as image:  # a palette takes a third of the bytes
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(temporary, format="PNG", optimize=True)
    plt.close(figure)
