"""Write the tables of docs/what-you-can-trust.md: traits and confidence against the ground truth.

python -m benchmarks.trust                        from benchmarks/results/trust (neither model nor images needed)
python -m benchmarks.trust --measure --figure     compare anew, from the predictions that the protocol stored

`python -m benchmarks.protocol measure version-N=default` predicts and stores. Only test images are compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.summary.__main__ import DOCS, label
from benchmarks.tables.show import write_markdown
from benchmarks.trust import page, stored

from treeformer.errors import TreeformerError

PAGE = DOCS / "what-you-can-trust.md"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trust", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="compare the stored predictions anew")
    parser.add_argument("--figure", action="store_true", help="also draw the reliability diagram")
    parser.add_argument("--model", default=label(), help="label of the model in the stored results")
    parser.add_argument("--page", type=Path, default=PAGE, help="page with the markers of the tables")
    options = parser.parse_args(arguments)
    try:
        if options.measure:
            for test_set in stored.SHOWN:
                print(stored.measure(options.model, test_set) or f"{test_set.name}: not predicted", flush=True)
        documents = {one.name: found for one in stored.SHOWN if (found := stored.read(options.model, one))}
        if not documents:
            raise TreeformerError(f"{stored.FOLDER}: no comparisons of {options.model}")
        missing = [page.title(one.name) for one in stored.SHOWN if one.name not in documents]
        text = page.sentences(documents)
        if missing:
            text += "\n\n" + page.wrapped(f"Not measured with this version: {'; '.join(missing)}.")
        write_markdown(options.page, "sentences", text + "\n")
        write_markdown(options.page, "confidence", page.confidence_table(documents))
        write_markdown(options.page, "traits", page.trait_tables(documents))
        if options.figure:
            page.reliability_diagram(documents, DOCS / "images" / "reliability.png")
    except TreeformerError as error:
        sys.exit(f"trust: {error}")


if __name__ == "__main__":
    main()
