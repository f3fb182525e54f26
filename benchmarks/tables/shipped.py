"""The shipped model on grapevines: untrained, fine-tuned on ten images, and trained on all 190.

python -m benchmarks.tables.shipped untrained=default                 measure a model on the 20 test images
python -m benchmarks.tables.shipped untrained=default --split train   on the 190 training images, which it has not seen
python -m benchmarks.tables.shipped --markdown                        write the stored figures into docs/lab/results.md

--data is the set as `treeformer prepare single-guyot` writes it, with PNG or JPEG images. Its license is CC BY-NC-SA
4.0: weights that are trained on it are measured, never shipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tables.build import published
from benchmarks.tables.results import FOLDER, columns_of, rows_of
from benchmarks.tables.show import wrapped, write_markdown

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError
from treeformer.metrics import summarize

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "results.md"
STORED = FOLDER / "grapevine"
METRICS = ("topo_paper_f1", "topo_f1", "node_f1", "edge_f1")
TITLES = {
    "untrained": "version 9, untrained",
    "ten": "after `treeformer finetune` with ten images",
    "all": "after all 190 training images",
}


def measure(model: str, label: str, data: Path, split: str, folder: Path, workers: int) -> Path:
    """Evaluate a model on a split and store the figures per image. Return the file."""
    from treeformer.data import FolderDataset
    from treeformer.inference.evaluate import evaluate_model
    from treeformer.inference.predictor import Predictor

    if label not in TITLES:
        raise TreeformerError(f"the label must be one of {', '.join(TITLES)}, not {label!r}")
    dataset = FolderDataset(data, split)
    predictor = Predictor(model)
    report, _ = evaluate_model(predictor, dataset, workers=workers)
    conditions = {"model": label, "split": split, "images": dataset.pairs[0][0].suffix[1:]}
    conditions["engine"] = getattr(predictor.engine, "name", "")
    document: dict[str, Any] = {**conditions, "columns": columns_of(report.rows)}
    path = folder / f"{'-'.join(conditions.values()).replace(' ', '-')}.json"
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
    return path


def markdown(folder: Path = STORED) -> str:
    """Return the table of the stored figures, with the paper's on its own images above."""
    source = published()["table1"]["grapevine"]["ours"]
    rows = [["the paper's, 1,185 training images", "255 test", "", f"{source['topo_paper_f1']:.3f}", *["—"] * 3]]
    stored = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("[!.]*.json"))]
    order = list(TITLES)
    for one in sorted(stored, key=lambda one: (order.index(one["model"]), *_conditions(one))):
        images = rows_of(one["columns"])
        figures = summarize(images)
        cells = [f"{figures[name].value:.3f} [{figures[name].low:.3f}, {figures[name].high:.3f}]" for name in METRICS]
        shown = f"{len(images)} {one['split']}, {one['images'].upper()}"
        rows.append([TITLES[one["model"]], shown, one["engine"], *cells])
    headings = ["model", "images", "engine", "TOPO F1 (paper code)", "TOPO F1 (corrected)", "node F1", "edge F1"]
    lines = [wrapped("`python -m benchmarks.tables.shipped --markdown`"), ""]
    lines += [f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *rows)]
    missing = [title for label, title in TITLES.items() if not any(one["model"] == label for one in stored)]
    if missing:
        lines += ["", wrapped(f"Not run: {'; '.join(missing)}.")]
    return "\n".join(lines) + "\n"


def _conditions(stored: dict[str, Any]) -> tuple[str, ...]:
    return stored["split"], stored["engine"], stored["images"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure a model, or write the stored figures into the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables.shipped",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", metavar="LABEL=MODEL", help=f"LABEL is one of {', '.join(TITLES)}")
    parser.add_argument("--data", type=Path, default=Path("data") / "single-guyot", help="the prepared set")
    parser.add_argument("--split", default="test", choices=("train", "valid", "test"))
    parser.add_argument("--results", type=Path, default=STORED, help="folder of the stored figures")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--markdown", type=Path, nargs="?", const=PAGE, metavar="PAGE", help="write into this page")
    options = parser.parse_args(arguments)
    try:
        if options.model:
            label, _, model = options.model.partition("=")
            print(measure(model, label, options.data, options.split, options.results, options.workers))
        elif options.markdown:
            write_markdown(options.markdown, "shipped", markdown(options.results))
        else:
            print(markdown(options.results), end="")
    except TreeformerError as error:
        sys.exit(f"shipped: {error}")


if __name__ == "__main__":
    main()
