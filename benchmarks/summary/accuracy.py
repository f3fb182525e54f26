"""Tables of accuracy: the shipped model on every set, and beside the baselines and the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from benchmarks.protocol.measure import CEILING, FOLDER, path_of, read
from benchmarks.protocol.sets import HUNDRED, QUICK, SETS, TestSet
from benchmarks.protocol.show import line, tips
from benchmarks.tables import results
from benchmarks.tables.build import build
from benchmarks.tables.spec import TABLES

from treeformer.errors import TreeformerError
from treeformer.metrics import Estimate, summarize

PRECISION = "int8"
KINDS = {
    "drawings": "drawings of the paper's L-system",
    "photographs": "rendered photographs of the L-system",
    "osr-roots prepared": "oilseed rape roots, photographs (1024 px)",
    "osr-roots published": "the same at published size (2,500 px)",
    "barley-roots prepared": "barley roots, photographs (512 px)",
    "barley-roots published": "the same at published size (about 1,540 px)",
    "barley-roots test2": "other barley plates at published size",
    "single-guyot prepared": "winter vines, photographs (504 px), never trained on",
    "single-guyot published": "the same at published size (1,008 px)",
    "taproot": "tap roots, rendered",
    "seedling": "seedlings, rendered",
    "several": "several plants, rendered",
    "plate": "agar plates, rendered",
    "plate-rosette": "plates with rosettes, rendered",
    "vine": "vines, rendered",
    "orchard": "orchard trees, rendered",
    "potted-shoot": "potted shoots, rendered",
    "vineyard": "winter vineyards, rendered",
    "orchard-row": "orchard trees in rows, rendered",
    "vineyard in Blender": "vineyards, rendered with Blender",
    "orchard in Blender": "orchard trees, rendered with Blender",
    "empty": "photographs without a plant, rendered",
}
"""Sets of the protocol in the order of the table, with what they show."""
DOMAINS = {"synthetic": "drawings", "osr-roots": "osr-roots prepared", "barley-roots": "barley-roots prepared"}
"""Domains of the paper's tables, with the same kind of images in the protocol."""


def measured(label: str, name: str, folder: Path = FOLDER) -> tuple[TestSet, Path] | None:
    """Find the measurement with most images of a set.

    Args:
        label: of the model.
        name: key of `SETS`.
        folder: of all measurements.

    Returns:
        The set and the file, or None if the set was not measured.
    """
    for test_set in (SETS[name], HUNDRED.get(f"{name}, 100 images"), QUICK.get(f"{name}, quick")):
        if test_set is not None and (path := path_of(label, PRECISION, test_set, folder)).exists():
            return test_set, path
    return None


def by_set(label: str, folder: Path = FOLDER) -> str:
    """Return the table of the shipped model over all sets.

    Args:
        label: of the model, `version-N`.
        folder: of all measurements.

    Returns:
        Markdown.

    Raises:
        TreeformerError: if nothing was measured with this label.
    """
    lines = []
    for name, kind in KINDS.items():
        found = measured(label, name, folder)
        lines.append(_set_row(kind, *found, folder) if found else f"| {kind} | — |" + " |" * 7)
    if not any(measured(label, name, folder) for name in KINDS):
        raise TreeformerError(f"{folder}: no measurements of {label}")
    head = (
        "| images | number | TOPO F1, paper's code | TOPO F1, corrected | highest possible | exact trees "
        "| tip F1 | 95 % of the line within | median length error |"
    )
    command = f"`python -m benchmarks.protocol measure {label}=default`; rows of 40 images: with `--quick`"
    return "\n".join([command, "", head, "|" + " --- |" * 9, *lines, ""])


def _set_row(kind: str, test_set: TestSet, path: Path, folder: Path) -> str:
    rows = read(path)
    figures = summarize(rows)
    if figures["annotated_px"].value == 0:
        clean = sum(row["predicted_px"] == 0 for row in rows)
        return f"| {kind} | {len(rows)} | {clean} without a false plant |" + " |" * 6
    ceiling = path_of(CEILING, "exact", test_set, folder)
    highest = summarize(read(ceiling)) if ceiling.exists() else {}
    best = " / ".join(f"{highest[name].value:.3f}" for name in ("topo_paper_f1", "topo_f1")) if highest else "—"
    errors = np.abs([row["length_error"] for row in rows])
    cells = [kind, str(len(rows)), _interval(figures["topo_paper_f1"]), _interval(figures["topo_f1"]), best]
    cells += [f"{100 * figures['exact_rate'].value:.0f} %", tips(figures).replace(", ", ",\u00a0"), line(figures)]
    cells.append(f"{100 * np.nanmedian(errors):.1f} %")
    return f"| {' | '.join(cells)} |"


def _interval(estimate: Estimate) -> str:
    # A space that does not break keeps the brackets on one line of a narrow cell.
    return f"{estimate.value:.3f} [{estimate.low:.3f},\u00a0{estimate.high:.3f}]"


def against_baselines(label: str, folder: Path = FOLDER, tables: Path = results.FOLDER) -> str:
    """Return the table of the shipped model, the paper's regimes and the baselines.

    Args:
        label: of the model, `version-N`.
        folder: of the measurements of the protocol.
        tables: of the results of the paper's tables.

    Returns:
        Markdown: one row per method, one column per domain, corrected F1 in parentheses.
    """
    found = results.read_all(tables)
    rows: dict[str, dict[str, str]] = {}
    for name, methods in (("table1", None), ("ggt", ("ggt", "ggt-sfs"))):
        built = build(TABLES[name], found)
        titles = {row.title for row in TABLES[name].rows if methods is None or row.name in methods}
        for domain, block in zip(built.table.domains, built.blocks, strict=True):
            for row in block.rows:
                if domain in DOMAINS and row.title in titles:
                    cells = rows.setdefault(row.title, {})
                    cells[domain] = _pair(row.figures)
                    if "topo_paper_f1" in row.published:
                        cells[f"paper {block.paper_domain}"] = f"{row.published['topo_paper_f1']:.3f}"
    shipped = {
        domain: _pair(summarize(read(place[1])))
        for domain, name in DOMAINS.items()
        if (place := measured(label, name, folder)) is not None
    }
    rows[f"the shipped model, {label.replace('-', ' ')}"] = shipped
    columns = [*DOMAINS, "paper synthetic", "paper root"]
    headings = ["drawings", "osr-roots", "barley-roots", "paper: its drawings", "paper: its roots (private)"]
    lines = [_line(title, [cells.get(column, "—") for column in columns]) for title, cells in rows.items()]
    command = "`python -m benchmarks.tables table1` and `ggt`; 6 minutes of training per row but the last"
    return "\n".join([command, "", _line("method", headings), "|" + " --- |" * 6, *lines, ""])


def _pair(figures: Mapping[str, Estimate]) -> str:
    """Return both scores with their intervals, on two lines of one cell."""
    if "topo_paper_f1" not in figures:
        return "—"
    return f"{_interval(figures['topo_paper_f1'])}<br>({_interval(figures['topo_f1'])})"


def _line(first: str, cells: Sequence[str]) -> str:
    return f"| {first} | {' | '.join(cells)} |"
