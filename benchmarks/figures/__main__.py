"""The paper's figures, from the weights that `python -m benchmarks.tables … --run` left in runs/.

python -m benchmarks.figures panels           input, two-stage, unconstrained, test-time, ours, ground truth, a PNG a domain
python -m benchmarks.figures out-of-domain    a model trained on one domain alone, on all others
python -m benchmarks.figures out-of-domain --markdown   … its figures into docs/results.md (no weights needed)
python -m benchmarks.figures maps             the two-stage method's maps, FPN and hourglass
python -m benchmarks.figures curves           validation over training, from benchmarks/results/ (no weights needed)
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
    """Parse and draw."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", choices=["panels", "out-of-domain", "maps", "curves"])
    parser.add_argument("--domain", nargs="+", choices=PANEL_DOMAINS, help="panels of these domains alone")
    parser.add_argument("--images", nargs="+", type=int, default=[0, 1], help="places in the test set, for panels")
    parser.add_argument("--seed", type=int, default=0, help="of the runs whose weights are shown in panels")
    parser.add_argument("--count", type=int, default=10, help="images of each set behind the figures out of domain")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the weights")
    parser.add_argument("--results", type=Path, default=results.FOLDER, help="folder of the result files")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the prepared sets")
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder of the PNG files")
    parser.add_argument(
        "--markdown", type=Path, nargs="?", const=PAGE, metavar="PAGE", help="write the figures out of domain there"
    )
    parser.add_argument("--rehearse", action="store_true", help="with the weights of a rehearsal")
    options = parser.parse_args(arguments)
    try:
        for path in draw(options):
            print(path)
    except TreeformerError as error:
        sys.exit(f"figures: {error}")


def draw(options: argparse.Namespace) -> list[Path]:
    """Draw what is asked for; the files' paths."""
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

        save_small(maps(models, options.data, index=options.images[0], scale=scale), out / "maps.png")
        return [out / "maps.png"]
    from benchmarks.figures.panels import panel

    paths = []
    for domain in options.domain or PANEL_DOMAINS:
        try:
            page = panel(domain, models, options.data, indices=options.images, scale=scale, seed=options.seed)
        except TreeformerError as error:
            print(f"{domain}: passed over, {error}", file=sys.stderr)
            continue
        paths.append(out / f"panels-{domain}.png")
        save_small(page, paths[-1])
    return paths


if __name__ == "__main__":
    main()
