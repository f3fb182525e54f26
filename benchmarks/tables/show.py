"""A built table on the screen, or as Markdown between the markers of a page."""

from __future__ import annotations

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
TOPO = ("topo_paper_precision", "topo_paper_recall", "topo_paper_f1")


def cell(column: Column, estimate: Estimate | None) -> str:
    """A mean and half its 95 % interval, `0.974 ± 0.004`; without the interval where the column has none."""
    if estimate is None or estimate.value != estimate.value:
        return NOTHING
    if not column.interval:
        return f"{estimate.value * column.scale:{column.form}}"
    half = (estimate.high - estimate.low) / 2
    form = ".0e" if column.form.endswith("e") else column.form
    return f"{estimate.value * column.scale:{column.form}} ± {half * column.scale:{form}}"


def paper_figures(row: BuiltRow, built: Built) -> dict[str, str]:
    """What the paper has of SMD, TOPO precision / recall / F1, tree rate, and of what only this table has."""
    figures = row.published
    found = {"SMD": f"{figures['smd_paper']:.2e}"} if "smd_paper" in figures else {}
    topo = [f"{figures[name]:.3f}" for name in TOPO if name in figures]
    found |= {"P / R / F1": " / ".join(topo)} if topo else {}
    if "tree_of_edges_rate" in figures:
        found["trees"] = f"{100 * figures['tree_of_edges_rate']:.1f} %"
    own = built.table.extra_columns
    return found | {one.heading: f"{figures[one.metric]:{one.form}}" for one in own if one.metric in figures}


def runs_cell(row: BuiltRow) -> str:
    """TOPO F1 as coded of each run."""
    return " / ".join(f"{figures['topo_paper_f1']:.3f}" for figures in row.by_run.values()) or NOTHING


def against_cell(row: BuiltRow) -> str:
    """By how much TOPO F1 as coded and corrected is higher than that of the reference row; nothing in that row itself."""
    if not row.against:
        return NOTHING
    found = [row.against[name] for name in ("topo_paper_f1", "topo_f1")]
    return ", ".join(f"{one.value:+.3f} ± {(one.high - one.low) / 2:.3f}".replace("-", "−") for one in found)


def lines(built: Built, block: Block) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a block, as text."""
    several = len(built.table.seeds) > 1
    headings = ["", *(column.heading for column in built.table.columns)]
    [reference] = [row.title for row in built.table.rows if row.name == built.table.reference]
    headings += [f"F1 as coded, corrected, less those of “{reference}”"]
    headings += ["F1 as coded of each run"] if several else []
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
    """One table a domain, for a terminal."""
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
    """The whole table as Markdown, with what it stands on and what is missing."""
    source = f" · paper: {built.source}" if built.source else ""
    parts = [f"`python -m benchmarks.tables {built.table.name}`{source}", ""]
    for block in built.blocks:
        headings, rows = lines(built, block)
        parts += [f"**{block.title}**", ""]
        parts += [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}"]
        parts += [f"| {' | '.join(row)} |" for row in rows]
        parts += ["", f"*{block.facts}.*", ""]
    if built.table.note:
        parts += [built.table.note, ""]
    if built.missing:
        parts += ["Missing:", "", *(f"- {line}" for line in built.missing), ""]
    return "\n".join(parts).rstrip() + "\n"


def write_markdown(page: Path, name: str, text: str) -> None:
    """Put a table between its markers, `<!-- NAME -->` and `<!-- end NAME -->`, in a page."""
    try:
        whole = page.read_text(encoding="utf-8")
    except OSError as error:
        raise TreeformerError(f"{page}: {error.strerror}") from None
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
    head, found, rest = whole.partition(begin)
    _, also_found, tail = rest.partition(end)
    if not (found and also_found):
        raise TreeformerError(f"{page}: no place for {name}: the lines {begin.strip()} and {end} are needed")
    with atomic_write(page) as temporary:
        temporary.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")
