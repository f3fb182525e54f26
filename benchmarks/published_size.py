"""Compare predictions of images in their published size and of prepared images, by the same ground truth.

TREEFORMER_DATA=DATA PYTHONPATH=src python benchmarks/published_size.py default

`treeformer prepare` joins roots that are annotated on top of each other within a distance in px. In images of the
published size fewer roots are within it, so their ground truth is longer, and scores of the two sizes cannot be
compared. Here the skeletons of the large images are reduced to the prepared size, and both are compared with the
prepared ground truth.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.protocol.sets import SETS

from treeformer import load_model
from treeformer.data import Sample
from treeformer.metrics import topo, topo_paper
from treeformer.skeleton import Skeleton


def reduced(skeleton: Skeleton, size: tuple[int, int]) -> Skeleton:
    """Scale a skeleton to an image of another size, (width, height) px, with the same aspect ratio."""
    scale = max(size) / max(skeleton.image_size or size)
    return skeleton.transform([[scale, 0, 0], [0, scale, 0]], image_size=size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="default", help="model folder or name")
    predictor = load_model(parser.parse_args().model)
    print("| set | images | images | TOPO F1 (paper) | TOPO F1, corrected | median error of length |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in ("osr-roots", "barley-roots"):
        prepared, published = (SETS[f"{name} {kind}"].open() for kind in ("prepared", "published"))
        rows: dict[str, list[tuple[float, float, float]]] = {"prepared": [], "published": []}
        for index in range(len(prepared)):
            small, large = prepared.load(index), published.load(index)
            if not isinstance(small, Sample) or not isinstance(large, Sample):
                continue
            expected = small.skeleton
            for kind, image in (("prepared", small.image), ("published", large.image)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = predictor.predict(image)
                found = reduced(found, expected.image_size or (1, 1))
                error = abs(found.length / expected.length - 1)
                rows[kind].append((topo_paper(found, expected).f1, topo(found, expected).f1, error))
        for kind, values in rows.items():
            paper, corrected, _ = np.mean(values, axis=0)
            error = np.median([value[2] for value in values])
            print(f"| {name} | {kind} | {len(values)} | {paper:.3f} | {corrected:.3f} | {error:.1%} |", flush=True)


if __name__ == "__main__":
    main()
