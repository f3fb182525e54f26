"""Compare fixed working sizes and scale rules on the same predictions, to choose the rule of a model.

TREEFORMER_DATA=DATA PYTHONPATH=src python benchmarks/scale_rules.py default --store sizes.jsonl
PYTHONPATH=src python benchmarks/scale_rules.py --store sizes.jsonl        the table alone, from a stored file

Images: 5 validation and 8 training images of osr-roots, 10 validation images of barley-roots in their published size,
and 48 renders rescaled by 0.5 to 4. Each is predicted at 512, 1024 and 2048 px; an image is never enlarged.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.auto_scale import real, renders

from treeformer import load_model
from treeformer.data import Sample
from treeformer.inference.auto_scale import measure_scale
from treeformer.metrics import topo, topo_paper

SIZES = (512, 1024, 2048)
SETS = ("osr-roots", "barley-roots", "renders")
Row = dict[str, Any]


def samples() -> Iterator[tuple[str, Sample]]:
    """Yield the name of the set and the image."""
    for sample in real("osr-roots", ["valid", "train"], 8):
        yield "osr-roots", sample
    for sample in real("barley-roots", ["valid"], 10):
        yield "barley-roots", sample
    for sample in renders(48):
        yield "renders", sample


def measure(model: str) -> Iterator[Row]:
    """Yield one row per image: what a first pass measures, px of the input, and the TOPO F1 of every size."""
    predictor = load_model(model)
    for name, sample in samples():
        longest = max(sample.image.shape[:2])
        row: Row = {"set": name, "image": sample.name, "f1": {}}
        for size in SIZES:
            if size > SIZES[0] and size // 2 >= longest:
                break
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = predictor.predict(sample.image, working_size=min(size, longest))
            row["f1"][str(size)] = [topo_paper(found, sample.skeleton).f1, topo(found, sample.skeleton).f1]
            if size == SIZES[0]:
                row["radius"] = measure_scale(found, "radius") * size / longest
                row["spacing"] = measure_scale(found, "spacing") * size / longest
        yield row


def doublings(measured: float, target: float) -> int:
    """Return how often the size doubles, 1 if nothing was measured (the fixed size of 1024 px)."""
    return int(np.clip(round(np.log2(target / measured)), 0, 2)) if measured > 0 else 1


def crowded(row: Row) -> int:
    """Return the doublings of the rule with both signals."""
    count = doublings(row["radius"], 1.06)
    return min(count + (count > 0 and row["spacing"] < 8), 2)


RULES: dict[str, Callable[[Row], int]] = {
    "512": lambda _row: 0,
    "1024": lambda _row: 1,
    "2048": lambda _row: 2,
    "spacing near 13 px": lambda row: doublings(row["spacing"], 13.0),
    "radius near 1.06 px": lambda row: doublings(row["radius"], 1.06),
    "radius near 1.06 px, once more if crowded": crowded,
}


def table(rows: list[Row]) -> str:
    """Return the mean TOPO F1 of every rule and set: the paper's code / corrected."""
    lines = [f"| working size | {' | '.join(SETS)} |", "| --- |" + " --- |" * len(SETS)]
    for rule, choose in RULES.items():
        cells = []
        for name in SETS:
            f1 = [row["f1"] for row in rows if row["set"] == name]
            chosen = [choose(row) for row in rows if row["set"] == name]
            # The largest size of an image that is smaller than the chosen one is that of the image.
            means = np.mean([list(f.values())[min(n, len(f) - 1)] for f, n in zip(f1, chosen, strict=True)], axis=0)
            cells.append(f"{means[0]:.3f} / {means[1]:.3f}")
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="model folder or name; none prints the table of the stored file")
    parser.add_argument("--store", type=Path, required=True, help="file with one line per image")
    arguments = parser.parse_args()
    if arguments.model:
        with arguments.store.open("w", encoding="utf-8") as file:
            for row in measure(arguments.model):
                print(json.dumps(row), file=file, flush=True)
    print(table([json.loads(line) for line in arguments.store.read_text(encoding="utf-8").splitlines()]))


if __name__ == "__main__":
    main()
