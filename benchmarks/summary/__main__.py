"""Write docs/how-good-how-fast.md from stored results.

python -m benchmarks.summary             the tables, from benchmarks/results/ (neither model nor images needed)
python -m benchmarks.summary --gallery   also draw the images of the page: a typical and the worst one of each set

The results come from `python -m benchmarks.protocol measure version-N=default` (for older versions with `--quick`),
from `python -m benchmarks.tables all --run` and from
`benchmarks/predict.py --store benchmarks/results/speed/NAME.json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.summary import accuracy, speed
from benchmarks.tables.show import write_markdown

from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import open_model

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-good-how-fast.md"


def label() -> str:
    """Return the label of the shipped weights in the stored results."""
    return f"version-{open_model('default').config.version}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.summary", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="page with the markers of the tables")
    parser.add_argument("--gallery", action="store_true", help="also draw the images")
    parser.add_argument("--images", type=Path, default=DOCS / "images", help="folder of the images to write")
    options = parser.parse_args(arguments)
    try:
        write_markdown(options.page, "accuracy", accuracy.by_set(label()))
        write_markdown(options.page, "baselines", accuracy.against_baselines(label()))
        write_markdown(options.page, "speed", speed.table())
        if options.gallery:
            from benchmarks.summary.gallery import gallery

            for path in gallery(label(), options.images):
                print(path)
    except TreeformerError as error:
        sys.exit(f"summary: {error}")


if __name__ == "__main__":
    main()
