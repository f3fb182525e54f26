"""Tables of a report for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from rich.table import Table

from treeformer.metrics.evaluation import COUNTED, Estimate, Row
from treeformer.metrics.keypoints import KINDS

# Metrics in the first table, in this order. The files contain all metrics.
SHOWN = (
    "topo_f1", "topo_precision", "topo_recall", "topo_paper_f1", "topo_paper_precision", "topo_paper_recall", "smd",
    "smd_paper", "node_f1", "edge_f1", "keypoint_f1", "tree_rate", "tree_of_edges_rate", "forest_rate", "exact_rate",
    "length_error",
)  # fmt: skip
LINES = {"predicted": "predicted, to the true line", "true": "true, to the predicted line"}
# An image that contributes more than this to a mean of errors is named.
DOMINANT = 0.5
MIN_IMAGES = 5


def report_tables(rows: Sequence[Row], summary: Mapping[str, Estimate]) -> list[Table]:
    """Return the tables: main metrics with intervals and median images; the line; tips, branch points and bases.

    `rows` has one row of metrics per image, `summary` the same over all images.
    """
    return [_metric_table(rows, summary), _line_table(summary), _keypoint_table(rows, summary)]


def _metric_table(rows: Sequence[Row], summary: Mapping[str, Estimate]) -> Table:
    """Return the main metrics with their intervals and the medians of the images."""
    table = _empty(f"{len(rows)} images", ("figure", "value", "95 % from", "to", "median image"))
    for name in SHOWN:
        estimate = summary[name]
        numbers = (estimate.value, estimate.low, estimate.high, estimate.median)
        table.add_row(name, *(f"{number:.4g}" for number in numbers))
    return table


def _line_table(summary: Mapping[str, Estimate]) -> Table:
    """Return how far the predicted line and the true line are apart: means of the images."""
    table = _empty("", ("line", "near", "median", "95 % within", "95 % of near within"))
    for name, title in LINES.items():
        near, *distances = (summary[f"{name}_line_{part}"].value for part in ("within", "median_px", "p95_px"))
        distances.append(summary[f"{name}_line_near_p95_px"].value)
        table.add_row(title, f"{100 * near:.1f} %", *(f"{distance:.1f} px" for distance in distances))
    return table


def _keypoint_table(rows: Sequence[Row], summary: Mapping[str, Estimate]) -> Table:
    """Return the counts and scores of tips, branch points and bases over all images."""
    table = _empty("", ("keypoints", "true", "missed", "false", "precision", "recall", "F1", "95 % interval"))
    for kind in KINDS:
        matched, predicted, true = (int(sum(row[f"{kind}_{name}"] for row in rows)) for name in COUNTED)
        scores = [summary[f"{kind}_{name}"] for name in ("precision", "recall", "f1")]
        cells = [str(true), str(true - matched), str(predicted - matched)]
        cells += [*(f"{score.value:.3f}" for score in scores), f"{scores[-1].low:.3f} to {scores[-1].high:.3f}"]
        table.add_row(kind.replace("_", " ") + "s", *cells)
    return table


def dominated(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Find the means of errors to which one image contributes more than all others; return one line per metric."""
    remarks = []
    for metric in ("smd", "smd_paper", "length_error"):
        values = np.nan_to_num(np.abs(np.asarray([row[metric] for row in rows], dtype=np.float64)))
        worst = int(np.argmax(values))
        if len(rows) >= MIN_IMAGES and values[worst] > DOMINANT * values.sum():
            share = 100 * values[worst] / values.sum()
            remarks.append(f"{share:.0f} % of {metric} is from one image, {names[worst]}: see the median image")
    return remarks


def _empty(title: str, headings: Iterable[str]) -> Table:
    table = Table(title=title or None, box=None, pad_edge=False, title_justify="left")
    for heading in headings:  # do not truncate numbers on a narrow screen
        table.add_column(heading, justify="right" if table.columns else "left", overflow="fold")
    return table
