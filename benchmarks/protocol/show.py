"""The table of the protocol: each set with its ceiling, every model with intervals, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from benchmarks.protocol.measure import CEILING, FOLDER, path_of, read
from benchmarks.protocol.sets import ALL, TestSet

from treeformer.metrics import Estimate, differences, summarize

PRECISIONS = ("int8", "float32")
HEADER = (
    "| set | images | ceiling | model | TOPO F1, paper's code | difference | TOPO F1, corrected | difference | exact "
    "| tip F1 | 95 % of the line within | median length error, absolute | total length |"
)


def table(models: list[str], reference: str, folder: Path = FOLDER) -> str:
    """Return the Markdown table of all stored measurements.

    Args:
        models: labels, in the order of the rows.
        reference: label whose rows the differences are taken against.
        folder: of all measurements.

    Returns:
        A table with one row per set, model and precision.
    """
    lines = [HEADER, "| --- " * HEADER.count(" | ") + "| --- |"]
    for test_set in ALL.values():
        for model in models:
            for precision in PRECISIONS:
                path = path_of(model, precision, test_set, folder)
                if path.exists():
                    against = path_of(reference, precision, test_set, folder)
                    lines.append(_row(test_set, f"{model} {precision}", path, against, folder))
    return "\n".join(lines)


def _row(test_set: TestSet, label: str, path: Path, against: Path, folder: Path) -> str:
    rows = read(path)
    figures = summarize(rows)
    cells = [test_set.name, str(len(rows)), _ceiling(test_set, folder), label]
    other = differences(rows, read(against)) if against.exists() and against != path else None
    for metric in ("topo_paper_f1", "topo_f1"):
        value = figures[metric]
        cells.append(f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]")
        change = other[metric] if other is not None else None
        cells.append("" if change is None else f"{change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}]")
    cells.append(f"{100 * figures['exact_rate'].value:.0f} %")
    cells += [tips(figures), line(figures)]
    predicted, annotated = figures["predicted_px"].value, figures["annotated_px"].value
    if annotated == 0:  # images without a plant: every predicted pixel is wrong
        cells += ["", f"{predicted:.0f} px per image"]
    else:
        error = np.array([row["length_error"] for row in rows])
        cells += [f"{100 * np.nanmedian(np.abs(error)):.1f} %", f"{100 * (predicted / annotated - 1):+.1f} %"]
    return "| " + " | ".join(cells) + " |"


def tips(figures: Mapping[str, Estimate]) -> str:
    """Return the F1 of tips with its interval, or a dash for figures that were stored without it."""
    if "tip_f1" not in figures:
        return "—"
    value = figures["tip_f1"]
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"


def line(figures: Mapping[str, Estimate]) -> str:
    """Return how far 95 % of the predicted line is from the true one at most, and the reverse: median images, px."""
    names = ("predicted_line_p95_px", "true_line_p95_px")
    return " / ".join(f"{figures[name].median:.1f}" for name in names) + " px" if names[0] in figures else "—"


def _ceiling(test_set: TestSet, folder: Path) -> str:
    path = path_of(CEILING, "exact", test_set, folder)
    if not path.exists():
        return ""
    figures = summarize(read(path))
    return f"{figures['topo_paper_f1'].value:.3f} / {figures['topo_f1'].value:.3f}"
