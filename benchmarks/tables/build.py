"""Build a table from results: means, intervals, the paper's figures, and rejected comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.recipes import RECIPES, Run, run_named
from benchmarks.tables.results import Result
from benchmarks.tables.spec import IMAGES_SEEN, Row, Table

from treeformer.metrics import Estimate, differences, mean_metrics, summarize

PUBLISHED = Path(__file__).with_name("published.yaml")
# A run ends with the step that exceeds its minutes, and steps differ in length.
SLACK_STEPS = 3


@dataclass(frozen=True)
class BuiltRow:
    """One row.

    Attributes:
        title: text of the first column.
        figures: means over the test images, by metric.
        by_run: means of each run, by metric.
        published: the paper's figures, by metric.
        missing: why runs are missing, "" if none is.
        against: differences to the table's reference row, paired by image.
    """

    title: str
    figures: dict[str, Estimate]
    by_run: dict[Run, dict[str, float]]
    published: dict[str, float]
    missing: str = ""
    against: dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """The rows of one domain. `paper_domain` is "" if the paper has no such table."""

    title: str
    paper_domain: str
    rows: tuple[BuiltRow, ...]
    facts: str


@dataclass(frozen=True)
class Built:
    """A table with its figures."""

    table: Table
    source: str
    blocks: tuple[Block, ...]

    @property
    def missing(self) -> list[str]:
        """Return one line per incomplete row, or one per domain without any result."""
        lines = []
        for block in self.blocks:
            if any(row.figures for row in block.rows):
                lines += [f"{block.title}, {row.title}: {row.missing}" for row in block.rows if row.missing]
            else:
                rows = ", ".join(row.title for row in block.rows)
                reasons = dict.fromkeys(reason for row in block.rows for reason in row.missing.split("; "))
                lines.append(f"{block.title}, all rows ({rows}): {'; '.join(reasons)}")
        return lines


@cache
def published() -> dict[str, Any]:
    """Return the paper's figures by table, domain, row and metric. `source` says where in the paper they are."""
    import yaml

    tables = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    for name, table in tables.items():
        if "same_as" in table:
            tables[name] = tables[table["same_as"]] | {"source": table["source"]}
    return tables


def build(table: Table, results: Mapping[str, Result]) -> Built:
    """Build a table from the available results.

    Args:
        table: the layout.
        results: results by the name of the run.

    Returns:
        The table. Rows state why a run is missing or rejected.
    """
    paper = published().get(table.name, {"source": ""})
    domains = {key: value for key, value in paper.items() if key != "source"}
    blocks = []
    for name in table.domains:
        domain = DOMAINS[name]
        paper_domain = domain.paper if domain.paper in domains else next(iter(domains), "")
        of_paper = domains.get(paper_domain, {})
        runs, refused = comparable(table, name, results)
        rows = tuple(_row(table, name, row, results, refused, of_paper.get(row.name, {})) for row in table.rows)
        used = [results[run] for run in sorted(runs)]
        blocks.append(Block(domain.title, paper_domain, rows, facts(used) if used else domain.when_missing))
    return Built(table, paper["source"], tuple(blocks))


def comparable(table: Table, domain: str, results: Mapping[str, Result]) -> tuple[set[str], dict[str, str]]:
    """Return the runs of a domain that may be compared, and the rejected ones with the reasons."""
    found, refused = set[str](), dict[str, str]()
    for group in table.comparable_groups(domain):
        available = {run.name for run in group} & results.keys()
        refused |= refusals({run: results[run] for run in available})
        found |= available
    return found - refused.keys(), refused


def compared(
    table: Table, domain: str, row: Row, reference: Row, results: Mapping[str, Result]
) -> dict[str, Estimate] | None:
    """Return how much higher the figures of a row are than those of another, paired by image; None without runs."""
    refused = comparable(table, domain, results)[1]
    rows, others = (_by_run(table, domain, one, results, refused)[0] for one in (row, reference))
    return differences(_images(rows), _images(others)) if rows and len(rows) == len(others) else None


def _row(
    table: Table,
    domain: str,
    row: Row,
    results: Mapping[str, Result],
    refused: Mapping[str, str],
    of_paper: dict[str, float],
) -> BuiltRow:
    by_run, reasons = _by_run(table, domain, row, results, refused)
    if not by_run:
        return BuiltRow(row.title, {}, {}, of_paper, "; ".join(reasons))
    images = _images(by_run)
    means = {run: mean_metrics(rows) for run, rows in by_run.items()}
    seen = float(np.mean([results[run.name].images for run in by_run]))
    figures = summarize(images) | {IMAGES_SEEN.metric: Estimate(seen, seen, seen)}
    against = {}
    reference = next((one for one in table.rows if one.name == table.reference != row.name), None)
    if reference:
        against = compared(table, domain, row, reference, results) or {}
    return BuiltRow(row.title, figures, means, of_paper, "; ".join(reasons), against)


def _by_run(
    table: Table, domain: str, row: Row, results: Mapping[str, Result], refused: Mapping[str, str]
) -> tuple[dict[Run, list[dict[str, float]]], list[str]]:
    """Return the test figures of a row by run, and why other runs are missing."""
    by_run: dict[Run, list[dict[str, float]]] = {}
    reasons = []
    for run in table.runs_for(domain, row):
        if run.name not in results:
            reasons.append(f"{run.name} has not been run")
        elif run.name in refused:
            reasons.append(f"{run.name} is rejected: {refused[run.name]}")
        elif row.decoding not in results[run.name].tests:
            reasons.append(f"{run.name} has no decoding {row.decoding!r}")
        else:
            by_run[run] = results[run.name].rows(row.decoding)
    return by_run, reasons


def _images(by_run: Mapping[Run, list[dict[str, float]]]) -> list[dict[str, float]]:
    """Average each test image over the runs, so that intervals describe the test set only."""
    return [_mean(rows) for rows in zip(*by_run.values(), strict=True)]


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    values = np.array([[row[name] for name in rows[0]] for row in rows]).mean(axis=0)
    return dict(zip(rows[0], values.tolist(), strict=True))


def refusals(results: Mapping[str, Result]) -> dict[str, str]:
    """Return the runs that may not be compared with the others, with the reasons.

    Compute, data, initial weights and total loss weight must be equal. The most common value is taken as the norm.
    """
    found: dict[str, list[str]] = {}

    def compare(what: str, values: Mapping[str, Any]) -> None:
        common = Counter(str(value) for value in values.values()).most_common(1)
        for run, value in values.items():
            if str(value) != common[0][0]:
                found.setdefault(run, []).append(f"{what} {value} instead of {common[0][0]}")

    compare("minutes", {run: result.minutes for run, result in results.items()})
    compare("GPU", {run: result.machine.get("device") for run, result in results.items()})
    compare("parallel runs", {run: result.parallel for run, result in results.items()})
    compare("training images", {run: result.config["data"]["train"] for run, result in results.items()})
    compare("batch", {run: result.config["batch_size"] for run, result in results.items()})
    compare("image size", {run: result.config["data"]["image_size"] for run, result in results.items()})
    compare("test images", {run: result.test_images for run, result in results.items()})
    with_backbone = {run: r for run, r in results.items() if RECIPES[run_named(run).recipe].has_backbone}
    compare("backbone weights", {run: result.backbone or "none" for run, result in with_backbone.items()})
    with_edges = {run: r.edge_weight_total for run, r in results.items() if r.edge_weight_total is not None}
    compare("total weight of edge losses", with_edges)
    for run, result in results.items():
        slack = SLACK_STEPS * result.trained_minutes / max(1, result.steps)
        if not (0 <= result.trained_minutes - result.minutes <= slack):
            found.setdefault(run, []).append(f"trained {result.trained_minutes:.2f} of {result.minutes:g} minutes")
    return {run: ", ".join(reasons) for run, reasons in found.items()}


def facts(results: Sequence[Result]) -> str:
    """Return the caption of a block: compute, data, initial weights, machine, commit."""

    def joined(values: list[Any]) -> str:
        return ", ".join(dict.fromkeys(str(value) for value in values))

    minutes, device = joined([f"{r.minutes:g}" for r in results]), joined([r.machine.get("device") for r in results])
    unit = "minute" if minutes == "1" else "minutes"
    starts = [r.backbone or "random weights" for r in results if RECIPES[run_named(r.run).recipe].has_backbone]
    seen = [result.images for result in results]
    span = f"{min(seen):,}" if min(seen) == max(seen) else f"{min(seen):,} to {max(seen):,}"
    parallel = joined([r.parallel for r in results])
    weights = [f"{r.edge_weight_total:g}" for r in results if r.edge_weight_total is not None]
    return "; ".join(
        part
        for part in (
            f"{minutes} {unit} of training per row on one {device} "
            "(compilation, validation and checkpoints not counted)",
            f"{parallel} parallel runs on it" if parallel != "1" else "",
            f"{span} training images seen",
            f"{joined([r.test_images for r in results])} test images",
            f"backbone from {joined(starts)}",
            f"total weight of the edge losses {joined(weights)}" if weights else "",
            f"seeds {joined(sorted(r.seed for r in results))}",
            f"torch {joined([r.machine.get('torch') for r in results])}",
            f"commit {joined([r.commit for r in results])}",
        )
        if part
    )
