"""From results to a table: means, intervals, the paper's figures beside them, and what may not be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.recipes import RECIPES, Run, run_named
from benchmarks.tables.results import Result
from benchmarks.tables.spec import IMAGES_SEEN, Row, Table

from treeformer.metrics import Estimate, differences, summarize

PUBLISHED = Path(__file__).with_name("published.yaml")
# A run ends with the step that passes its minutes; steps are not all equally long.
SLACK_STEPS = 3


@dataclass(frozen=True)
class BuiltRow:
    """One row: figures by metric, those of each run, the paper's; or why there are none.

    against: how much higher the figures are than those of the table's reference row, image by image.
    """

    title: str
    figures: dict[str, Estimate]
    by_run: dict[Run, dict[str, float]]
    published: dict[str, float]
    missing: str = ""
    against: dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """The rows of one domain; paper_domain is "" where the paper has no such table."""

    title: str
    paper_domain: str
    rows: tuple[BuiltRow, ...]
    facts: str


@dataclass(frozen=True)
class Built:
    """A whole table."""

    table: Table
    source: str
    blocks: tuple[Block, ...]

    @property
    def missing(self) -> list[str]:
        """A line for every row without all its figures, or for a domain that has none."""
        found = []
        for block in self.blocks:
            if any(row.figures for row in block.rows):
                found += [f"{block.title}, {row.title}: {row.missing}" for row in block.rows if row.missing]
            else:
                rows = ", ".join(row.title for row in block.rows)
                reasons = dict.fromkeys(reason for row in block.rows for reason in row.missing.split("; "))
                found.append(f"{block.title}, all rows ({rows}): {'; '.join(reasons)}")
        return found


def published() -> dict[str, Any]:
    """The paper's figures: by table, domain of the paper, row, metric; and where they stand, under `source`."""
    import yaml

    tables = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    for name, table in tables.items():
        if "same_as" in table:
            tables[name] = tables[table["same_as"]] | {"source": table["source"]}
    return tables


def build(table: Table, results: Mapping[str, Result]) -> Built:
    """The table with what there is; rows without a result, or that may not be compared, say why."""
    paper = published().get(table.name, {"source": ""})
    domains = {key: value for key, value in paper.items() if key != "source"}
    blocks = []
    for name in table.domains:
        domain = DOMAINS[name]
        paper_domain = domain.paper if domain.paper in domains else next(iter(domains), "")
        of_paper = domains.get(paper_domain, {})
        runs, refused = set[str](), dict[str, str]()
        for alike in table.alike(name):
            there = {run.name for run in alike} & results.keys()
            refused |= refusals({run: results[run] for run in there})
            runs |= there
        rows = tuple(_row(table, name, row, results, refused, of_paper.get(row.name, {})) for row in table.rows)
        used = [results[run] for run in sorted(runs - refused.keys())]
        blocks.append(Block(domain.title, paper_domain, rows, facts(used) if used else domain.when_missing))
    return Built(table, paper["source"], tuple(blocks))


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
    means = {run: {name: e.value for name, e in summarize(rows).items()} for run, rows in by_run.items()}
    seen = float(np.mean([results[run.name].images for run in by_run]))
    figures = summarize(images) | {IMAGES_SEEN.metric: Estimate(seen, seen, seen)}
    against = {}
    reference = next((one for one in table.rows if one.name == table.reference != row.name), None)
    if reference:
        others = _by_run(table, domain, reference, results, refused)[0]
        if len(others) == len(by_run):
            against = differences(images, _images(others))
    return BuiltRow(row.title, figures, means, of_paper, "; ".join(reasons), against)


def _by_run(
    table: Table, domain: str, row: Row, results: Mapping[str, Result], refused: Mapping[str, str]
) -> tuple[dict[Run, list[dict[str, float]]], list[str]]:
    """The test images of a row by run, and why those of other runs are not there."""
    by_run: dict[Run, list[dict[str, float]]] = {}
    reasons = []
    for run in table.runs_for(domain, row):
        if run.name not in results:
            reasons.append(f"{run.name} was not run yet")
        elif run.name in refused:
            reasons.append(f"{run.name} is refused: {refused[run.name]}")
        elif row.decoding not in results[run.name].tests:
            reasons.append(f"{run.name} has no decoding {row.decoding!r}")
        else:
            by_run[run] = results[run.name].rows(row.decoding)
    return by_run, reasons


def _images(by_run: Mapping[Run, list[dict[str, float]]]) -> list[dict[str, float]]:
    """An image counts once: the mean of what the runs make of it. The interval is that of the test set."""
    return [_mean(rows) for rows in zip(*by_run.values(), strict=True)]


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def refusals(results: Mapping[str, Result]) -> dict[str, str]:
    """Which of these runs may not stand beside the others, and why: compute, data, start and loss must be equal.

    What most of them have is what counts as the rule.
    """
    found: dict[str, list[str]] = {}

    def compare(what: str, values: Mapping[str, Any]) -> None:
        common = Counter(str(value) for value in values.values()).most_common(1)
        for run, value in values.items():
            if str(value) != common[0][0]:
                found.setdefault(run, []).append(f"{what} {value} instead of {common[0][0]}")

    compare("minutes", {run: result.minutes for run, result in results.items()})
    compare("GPU", {run: result.machine.get("device") for run, result in results.items()})
    compare("runs side by side", {run: result.parallel for run, result in results.items()})
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
    """What the caption says of the runs behind a block: compute, data, start, machine, commit."""

    def said(values: list[Any]) -> str:
        return ", ".join(dict.fromkeys(str(value) for value in values))

    minutes, device = said([f"{r.minutes:g}" for r in results]), said([r.machine.get("device") for r in results])
    unit = "minute" if minutes == "1" else "minutes"
    starts = [r.backbone or "random weights" for r in results if RECIPES[run_named(r.run).recipe].has_backbone]
    seen = [result.images for result in results]
    span = f"{min(seen):,}" if min(seen) == max(seen) else f"{min(seen):,} to {max(seen):,}"
    parallel = said([r.parallel for r in results])
    weights = [f"{r.edge_weight_total:g}" for r in results if r.edge_weight_total is not None]
    return "; ".join(
        part
        for part in (
            f"{minutes} {unit} of training a row on one {device} (compiling, validating and writing are not counted)",
            f"{parallel} runs side by side on it" if parallel != "1" else "",
            f"{span} training images seen",
            f"{said([r.test_images for r in results])} test images",
            f"backbone from {said(starts)}",
            f"total weight of the edge losses {said(weights)}" if weights else "",
            f"seeds {said(sorted(r.seed for r in results))}",
            f"torch {said([r.machine.get('torch') for r in results])}",
            f"commit {said([r.commit for r in results])}",
        )
        if part
    )
