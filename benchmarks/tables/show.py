"""Show a built table on the screen, or write it as Markdown between the markers of a page."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.tables.build import Block, Built, BuiltRow
from benchmarks.tables.spec import Column

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError
from treeformer.metrics import Estimate

if TYPE_CHECKING:
    from rich.table import Table as ScreenTable

NOTHING = "—"
PAGE_WIDTH = 100
TOPO = ("topo_paper_precision", "topo_paper_recall", "topo_paper_f1")


def cell(column: Column, estimate: Estimate | None) -> str:
    """Format a mean and half the width of its 95 % interval, as in `0.974 ± 0.004`."""
    if estimate is None or estimate.value != estimate.value:
        return NOTHING
    if not column.interval:
        return f"{estimate.value * column.scale:{column.form}}"
    half = (estimate.high - estimate.low) / 2
    form = ".0e" if column.form.endswith("e") else column.form
    return f"{estimate.value * column.scale:{column.form}} ± {half * column.scale:{form}}"


def paper_figures(row: BuiltRow, built: Built) -> dict[str, str]:
    """Format the paper's figures: SMD, TOPO precision / recall / F1, tree rate, and the table's own columns."""
    figures = row.published
    found = {"SMD": f"{figures['smd_paper']:.2e}"} if "smd_paper" in figures else {}
    topo = [f"{figures[name]:.3f}" for name in TOPO if name in figures]
    found |= {"P / R / F1": " / ".join(topo)} if topo else {}
    if "tree_of_edges_rate" in figures:
        found["trees"] = f"{100 * figures['tree_of_edges_rate']:.1f} %"
    columns = (column for column in built.table.extra_columns if column.metric in figures)
    return found | {column.heading: f"{figures[column.metric]:{column.form}}" for column in columns}


def runs_cell(row: BuiltRow) -> str:
    """Format TOPO F1 (paper code) of each run."""
    return " / ".join(f"{figures['topo_paper_f1']:.3f}" for figures in row.by_run.values()) or NOTHING


def against_cell(row: BuiltRow) -> str:
    """Format the difference of TOPO F1 (paper code, corrected) to the reference row; a dash in that row itself."""
    if not row.against:
        return NOTHING
    estimates = [row.against[name] for name in ("topo_paper_f1", "topo_f1")]
    return ", ".join(f"{e.value:+.3f} ± {(e.high - e.low) / 2:.3f}".replace("-", "−") for e in estimates)


def lines(built: Built, block: Block) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of a block as text."""
    several = len(built.table.seeds) > 1 or any(len(row.by_run) > 1 for row in block.rows)
    headings = ["", *(column.heading for column in built.table.columns)]
    [reference] = [row.title for row in built.table.rows if row.name == built.table.reference]
    headings += [f"ΔF1 to “{reference}” (paper code, corrected)"]
    headings += ["F1 (paper code) per run"] if several else []
    paper = [paper_figures(row, built) for row in block.rows]
    fullest = max(paper, key=len)
    headings += [f"paper ({block.paper_domain}): {', '.join(fullest)}"] if block.paper_domain else []
    rows = []
    for row, of_paper in zip(block.rows, paper, strict=True):
        cells = [row.title, *(cell(column, row.figures.get(column.metric)) for column in built.table.columns)]
        cells += [against_cell(row)]
        cells += [runs_cell(row)] if several else []
        rows.append([*cells, *([", ".join(of_paper.values()) or NOTHING] if block.paper_domain else [])])
    return headings, rows


def screen(built: Built) -> list[ScreenTable]:
    """Return one table per domain for a terminal."""
    from rich.table import Table as ScreenTable

    tables = []
    for block in built.blocks:
        table = ScreenTable(title=f"{built.table.name}: {block.title}", caption=block.facts, title_justify="left")
        headings, rows = lines(built, block)
        for number, heading in enumerate(headings):
            table.add_column(heading, justify="left" if number == 0 else "right")
        for row in rows:
            table.add_row(*row)
        tables.append(table)
    return tables


def markdown(built: Built) -> str:
    """Return the table as Markdown, with captions and missing rows."""
    source = f" · paper: {built.source}" if built.source else ""
    parts = [wrapped(f"`python -m benchmarks.tables {built.table.name}`{source}"), ""]
    for block in built.blocks:
        headings, rows = lines(built, block)
        parts += [f"**{block.title}**", ""]
        parts += [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}"]
        parts += [f"| {' | '.join(row)} |" for row in rows]
        parts += ["", wrapped(f"*{block.facts}.*"), ""]
    if built.table.note:
        parts += [wrapped(built.table.note), ""]
    if built.missing:
        parts += ["Missing:", "", *(wrapped(f"- {line}", indent="  ") for line in built.missing), ""]
    return "\n".join(parts).rstrip() + "\n"


def wrapped(text: str, indent: str = "") -> str:
    """Wrap a paragraph for the page.

    Args:
        text: one line.
        indent: prefix of all lines but the first.

    Returns:
        Lines of at most `PAGE_WIDTH` characters.
    """
    return textwrap.fill(text, PAGE_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def write_markdown(page: Path, name: str, text: str) -> None:
    """Write a table into a page, between the markers `<!-- NAME -->` and `<!-- end NAME -->`.

    Args:
        page: the Markdown file.
        name: name of the markers.
        text: the Markdown to insert.

    Raises:
        TreeformerError: if the page or one of its markers is missing.
    """
    try:
        content = page.read_text(encoding="utf-8")
    except OSError as error:
        raise TreeformerError(f"{page}: {error.strerror}") from None
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
    head, found, rest = content.partition(begin)
    _, also_found, tail = rest.partition(end)
    if not (found and also_found):
        raise TreeformerError(f"{page}: the markers {begin.strip()} and {end} are missing")
    with atomic_write(page) as temporary:
        temporary.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")
