"""Reproduce the paper's figures from the weights that `python -m benchmarks.tables … --run` wrote to runs/.

python -m benchmarks.figures panels           one PNG per domain: input, two-stage, regimes, ours, ground truth
python -m benchmarks.figures out-of-domain    models trained on one domain, applied to all others
python -m benchmarks.figures out-of-domain --markdown   write its figures into docs/lab/results.md (no weights needed)
python -m benchmarks.figures maps             maps of the two-stage method, FPN and hourglass
python -m benchmarks.figures curves           validation during training, from benchmarks/results/ (no weights needed)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures.sheet import save_small
from benchmarks.tables import results
from benchmarks.tables.__main__ import PAGE
from benchmarks.tables.recipes import REAL, REHEARSAL
from benchmarks.tables.show import write_markdown

from treeformer.errors import TreeformerError

PANEL_DOMAINS = ("synthetic", "osr-roots", "barley-roots", "grapevine")
IMAGES = Path(__file__).parents[2] / "docs" / "images"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", choices=["panels", "out-of-domain", "maps", "curves"])
    parser.add_argument("--domain", nargs="+", choices=PANEL_DOMAINS, help="only the panels of these domains")
    parser.add_argument(
        "--images", nargs="+", type=int, default=[0, 1], help="indices in the test set, for panels and maps"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the runs shown in panels")
    parser.add_argument("--count", type=int, default=10, help="images per set for the out-of-domain figures")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the weights")
    parser.add_argument("--results", type=Path, default=results.FOLDER, help="folder of the result files")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the prepared sets")
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder of the PNG files to write")
    parser.add_argument(
        "--markdown",
        type=Path,
        nargs="?",
        const=PAGE,
        metavar="PAGE",
        help="write the out-of-domain figures into this page",
    )
    parser.add_argument("--rehearse", action="store_true", help="use the weights of a rehearsal")
    options = parser.parse_args(arguments)
    try:
        for path in draw(options):
            print(path)
    except TreeformerError as error:
        sys.exit(f"figures: {error}")


def draw(options: argparse.Namespace) -> list[Path]:
    """Draw the requested figure and return the paths of its files."""
    out: Path = options.output
    scale = REHEARSAL if options.rehearse else REAL
    if options.figure == "curves":
        from benchmarks.figures.curves import curves

        curves(results.read_all(options.results), out / "curves.png")
        return [out / "curves.png"]
    table: Path = options.results / "figures" / "out-of-domain.json"
    if options.markdown:
        from benchmarks.figures.out_of_domain import as_markdown, read_figures

        write_markdown(options.markdown, "out-of-domain", as_markdown(read_figures(table)))
        return [options.markdown]
    from benchmarks.figures.predict import Models

    models = Models(options.runs)
    if options.figure == "out-of-domain":
        from benchmarks.figures.out_of_domain import out_of_domain, write_figures

        page, figures = out_of_domain(models, options.data, count=options.count, scale=scale)
        write_figures(figures, table)
        save_small(page, out / "out-of-domain.png")
        return [out / "out-of-domain.png", table]
    if options.figure == "maps":
        from benchmarks.figures.maps import maps

        save_small(maps(models, options.data, index=options.images[0], scale=scale), out / "maps.webp")
        return [out / "maps.webp"]
    from benchmarks.figures.panels import panel

    paths = []
    for domain in options.domain or PANEL_DOMAINS:
        try:
            page = panel(domain, models, options.data, indices=options.images, scale=scale, seed=options.seed)
        except TreeformerError as error:
            print(f"{domain}: skipped, {error}", file=sys.stderr)
            continue
        paths.append(out / f"panels-{domain}.png")
        save_small(page, paths[-1])
    return paths


if __name__ == "__main__":
    main()
