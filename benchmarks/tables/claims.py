"""Which of the paper's claims held on which domain, from the stored results.

python -m benchmarks.tables.claims                print the table
python -m benchmarks.tables.claims --markdown     write it into docs/lab/claims.md
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.tables import results
from benchmarks.tables.build import compared, published
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.results import Result
from benchmarks.tables.show import wrapped, write_markdown
from benchmarks.tables.spec import TABLES, Table

from treeformer.errors import TreeformerError
from treeformer.metrics import Estimate

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "claims.md"
SHOWN = {
    "synthetic": "drawings",
    "osr-roots": "osr-roots",
    "barley-roots": "barley-roots",
    "grapevine": "grapevine (20 of the paper's 255 test images)",
    "vine": "synthetic vines",
}
PAPER_DOMAINS = ("synthetic", "root", "grapevine")
MEASURES = {"topo_paper_f1": "F1", "smd_paper": "SMD", "tree_of_edges_rate": "trees, %"}
NOT_RUN, NOTHING = "not run", "—"


@dataclass(frozen=True)
class Claim:
    """One claim: a row of a table is better than another row.

    Attributes:
        text: the claim.
        tables: keys of `TABLES`; the first that has the domain is used.
        row: the row that should be better.
        versus: the row to compare with.
        metric: key of the metric.
        expected: "higher" or "lower" than the other row, or the "same".
        single_plant: leave out domains with several plants per image, where a tree is wrong.
    """

    text: str
    tables: tuple[str, ...]
    row: str
    versus: str
    metric: str = "topo_paper_f1"
    expected: Literal["higher", "lower", "same"] = "higher"
    single_plant: bool = False

    def table_of(self, domain: str) -> Table | None:
        """Return the table in which a domain is compared, None if there is none."""
        if self.single_plant and not DOMAINS[domain].one_plant:
            return None
        return next((TABLES[name] for name in self.tables if domain in TABLES[name].domains), None)


CLAIMS = (
    Claim("a spanning tree at inference improves the unconstrained network", ("table1",), "test-time", "unconstrained"),
    Claim("SFS in training improves it further", ("sfs", "table1"), "ours", "test-time"),
    Claim("the same", ("sfs", "table1"), "ours", "test-time", "smd_paper", "lower"),
    Claim("SFS in training alone is better than no constraint", ("table1",), "train-time", "unconstrained"),
    Claim("the same", ("table1",), "train-time", "unconstrained", "tree_of_edges_rate", single_plant=True),
    Claim("ours is better than the two-stage method", ("table1",), "ours", "two-stage"),
    Claim("the same", ("table1",), "ours", "two-stage", "smd_paper", "lower"),
    Claim("a spanning tree joins two-stage nodes better than shortest paths", ("mst-dijkstra",), "mst", "dijkstra"),
    Claim("the same", ("mst-dijkstra",), "mst", "dijkstra", "smd_paper", "lower"),
    *(Claim(f"Λ = 10 is better than Λ = {other}", ("lambda",), "10", other) for other in ("2", "5", "100")),
    Claim("the distance as a factor of the cost changes nothing", ("distance-cost",), "distance", "margin",
          expected="same"),
    Claim("the same", ("distance-cost",), "distance", "margin", "smd_paper", "same"),
    Claim("a feature pyramid is better than hourglasses", ("vinet",), "fpn", "hourglass"),
    Claim("several classes are better than one", ("vinet",), "fpn", "binary"),
    Claim("the same", ("vinet",), "fpn", "binary", "smd_paper", "lower"),
    Claim("GGT with SFS stays behind ours", ("ggt",), "ours", "ggt-sfs"),
    Claim("SFS improves GGT with a spanning tree", ("ggt",), "ggt-sfs", "ggt-test-time"),
)  # fmt: skip


def verdict(claim: Claim, difference: Estimate) -> str:
    """Return what a difference says of a claim.

    "held" and "reversed" need an interval that excludes zero. A claim of no effect can only be "refuted" or "open".
    """
    sign = {"higher": 1, "lower": -1, "same": 0}[claim.expected]
    if difference.low <= 0 <= difference.high:
        return "open"
    if not sign:
        return "refuted"
    return "held" if sign * difference.value > 0 else "reversed"


def shown(metric: str, difference: float) -> str:
    """Format a difference with its sign."""
    scale, form = {"smd_paper": (1.0, "+.1e"), "tree_of_edges_rate": (100.0, "+.1f")}.get(metric, (1.0, "+.3f"))
    mantissa, *exponent = f"{scale * difference:{form}}".split("e")
    return "e".join([mantissa.replace("-", "−"), *exponent])


def cell(claim: Claim, domain: str, available: Mapping[str, Result]) -> tuple[str, str]:
    """Return the verdict on a domain and the text of its cell."""
    table = claim.table_of(domain)
    if table is None:
        return NOTHING, NOTHING
    row, versus = (next(one for one in table.rows if one.name == name) for name in (claim.row, claim.versus))
    differences = compared(table, domain, row, versus, available)
    if differences is None:
        return NOT_RUN, NOT_RUN
    found = differences[claim.metric]
    value, low, high = (shown(claim.metric, one) for one in (found.value, found.low, found.high))
    corrected = ""
    if claim.metric == "topo_paper_f1":
        corrected = f", corrected {shown('topo_f1', differences['topo_f1'].value)}"
    word = verdict(claim, found)
    return word, f"{word}: {value} [{low}, {high}]{corrected}"


def of_paper(claim: Claim) -> str:
    """Return the paper's differences by domain, from the first table that has its figures."""
    source = next((published()[name] for name in claim.tables if name in published()), {})
    if claim.tables == ("mst-dijkstra",):  # measured with several classes
        source, claim = published()["vinet"], Claim("", (), "fpn", "dijkstra", claim.metric)
    parts = []
    for domain in PAPER_DOMAINS:
        row, versus = (source.get(domain, {}).get(name, {}).get(claim.metric) for name in (claim.row, claim.versus))
        parts.append(NOTHING if row is None or versus is None else shown(claim.metric, row - versus))
    return " / ".join(parts)


def markdown(available: Mapping[str, Result]) -> str:
    """Return the table of the claims, and how many comparisons ended how."""
    headings = ["claim", "measure", "paper: drawings / roots / grapevine", *SHOWN.values()]
    lines = [wrapped("`python -m benchmarks.tables.claims --markdown`"), ""]
    lines += [f"| {' | '.join(line)} |" for line in (headings, ["---"] * len(headings))]
    words = {domain: Counter[str]() for domain in SHOWN}
    for claim in CLAIMS:
        cells = []
        for domain in SHOWN:
            word, text = cell(claim, domain, available)
            words[domain][word] += 1
            cells.append(text)
        lines.append(f"| {claim.text} | {MEASURES[claim.metric]} | {of_paper(claim)} | {' | '.join(cells)} |")
    kinds = ("held", "open", "reversed", "refuted", NOT_RUN)
    lines += ["", f"|  | {' | '.join(kinds)} |", f"|{' --- |' * (len(kinds) + 1)}"]
    lines += [f"| {title} | {' | '.join(str(words[name][kind]) for kind in kinds)} |" for name, title in SHOWN.items()]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables.claims",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--results", type=Path, default=results.FOLDER, help="folder of the result files")
    parser.add_argument("--markdown", type=Path, nargs="?", const=PAGE, metavar="PAGE", help="write into this page")
    options = parser.parse_args(arguments)
    try:
        text = markdown(results.read_all(options.results))
        if options.markdown:
            write_markdown(options.markdown, "claims", text)
        else:
            print(text, end="")
    except TreeformerError as error:
        sys.exit(f"claims: {error}")


if __name__ == "__main__":
    main()
