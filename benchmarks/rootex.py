"""Tips, sources and drawn trees of 21 barley plates, beside the published figures of RootEx 2.0.

python -m benchmarks.rootex version-9=default      predict the plates, store the figures, print the table
python -m benchmarks.rootex --markdown             write the stored figures into docs/lab/results.md

RootEx 2.0 (Expert Systems with Applications 299, 129930, 2026) was tested on the same plates of TILLMore: `test` and
`test2` of barley-roots, 299 tips. Its tips and sources are those of keypoint heads, before its graph is built; ours are
nodes of the predicted graph. Its formula assigns all predicted to all annotated tips of a plate with the least total
distance, and a tip is found if its partner is within 15/4 of σ = 15 px. The gated matching has as many pairs within a
distance as possible. Images and annotations are used as published. IoU and Dice are those of the tree drawn 4 px wide.
Counts and areas are summed over the plates. Predictions are stored in --predictions, and plates that have one are not
predicted again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from benchmarks.protocol.sets import SOURCES
from benchmarks.tables.show import wrapped, write_markdown
from PIL import Image, ImageDraw

from treeformer import formats
from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer._util.files import atomic_write
from treeformer.data.folder_dataset import find_pairs
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import Precision
from treeformer.inference.predictor import Predictor
from treeformer.metrics import Counts, keypoint_nodes, match_nodes
from treeformer.skeleton import Skeleton

PAGE = Path(__file__).parents[1] / "docs" / "lab" / "results.md"
FOLDER = Path(__file__).parent / "results" / "rootex"
PREDICTIONS = Path("data") / "rootex"
FOLDERS = ("test", "test2")
SIGMA_PX = 15.0
WITHIN_PX = 15 / 4 * SIGMA_PX
GATES_PX = (15, 56)
LINE_PX = 4
KINDS = {"tip": "tips", "base": "sources"}
# Table of the publication: missed and added tips of 299, and the overlap of the drawn trees.
ROOTEX = {"missed": 16, "added": 4, "recall": 0.946, "precision": 0.986, "iou": 0.774, "dice": 0.870}
RESAMPLINGS = 2000


def plates(folder: Path) -> list[tuple[Path, Path]]:
    """Return the images and annotations of the plates as published, which are what RootEx was compared with."""
    pairs = [pair for name in FOLDERS if (folder / name).is_dir() for pair in find_pairs(folder / name)[0]]
    if not pairs:
        raise TreeformerError(f"{folder}: no plates in {' or '.join(FOLDERS)}; TREEFORMER_DATA names its parent")
    return pairs


def predicted(model: str, precision: Precision, images: Sequence[Path], folder: Path) -> list[Skeleton]:
    """Return the prediction of every plate, from the folder if it is there."""
    predictor = None
    for image in images:
        file = folder / f"{image.stem}.json"
        if not file.exists():
            predictor = predictor or Predictor(model, engine="onnx", precision=precision)
            formats.write(predictor.predict(image), file)
            print(f"{file}: written", file=sys.stderr, flush=True)
    return [formats.read(folder / f"{image.stem}.json") for image in images]


def optimal_assignment(first: FloatArray, second: FloatArray, within_px: float) -> IntArray:
    """Assign points (N,2) and (M,2) with the least total distance of any length, then drop the distant pairs.

    Returns:
        (N,) partner in `second`, -1 for none.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    partner = np.full(len(first), -1, dtype=np.intp)
    distance = cdist(first.reshape(-1, 2), second.reshape(-1, 2))
    rows, columns = linear_sum_assignment(distance)
    found = distance[rows, columns] <= within_px
    partner[rows[found]] = columns[found]
    return partner


def drawn(skeleton: Skeleton, size: tuple[int, int]) -> BoolArray:
    """Return the (H,W) mask of the edges, drawn `LINE_PX` wide."""
    image = Image.new("1", size)
    pen = ImageDraw.Draw(image)
    for edge in skeleton.nodes[skeleton.edges]:
        pen.line([tuple(point) for point in edge.tolist()], fill=1, width=LINE_PX)
    return np.array(image)


def counts(prediction: Skeleton, true: Skeleton) -> dict[str, int]:
    """Return what is counted on one plate. The prediction has the size of the image."""
    assert prediction.image_size is not None
    found = {}
    nodes, true_nodes = keypoint_nodes(prediction), keypoint_nodes(true)
    for kind in KINDS:
        points, true_points = prediction.nodes[nodes[kind]], true.nodes[true_nodes[kind]]
        found |= {f"{kind}_predicted": len(points), f"{kind}_true": len(true_points)}
        found[f"{kind}_found"] = int((optimal_assignment(points, true_points, WITHIN_PX) >= 0).sum())
        for gate in GATES_PX:
            found[f"{kind}_within_{gate}"] = int((match_nodes(points, true_points, gate) >= 0).sum())
    masks = [drawn(one, prediction.image_size) for one in (prediction, true)]
    return found | {"both_px": int((masks[0] & masks[1]).sum()), "drawn_px": int(masks[0].sum() + masks[1].sum())}


def ratios(total: Mapping[str, int]) -> dict[str, float]:
    """Return precision, recall, F1, IoU and Dice of summed counts."""
    result = {"iou": total["both_px"] / (total["drawn_px"] - total["both_px"])}
    result["dice"] = 2 * total["both_px"] / total["drawn_px"]
    for kind in KINDS:
        for name in ("found", *(f"within_{gate}" for gate in GATES_PX)):
            both = Counts(total[f"{kind}_{name}"], total[f"{kind}_predicted"], total[f"{kind}_true"])
            result |= {f"{kind}_{name}_recall": both.recall, f"{kind}_{name}_precision": both.precision}
            result[f"{kind}_{name}_f1"] = both.f1
    return result


def with_intervals(columns: Mapping[str, Sequence[int]]) -> dict[str, tuple[float, float, float]]:
    """Return each ratio with its 95 % interval over resampled plates."""
    table = np.array(list(columns.values()))
    drawn_plates = np.random.default_rng(0).integers(table.shape[1], size=(RESAMPLINGS, table.shape[1]))
    samples = [ratios(dict(zip(columns, table[:, chosen].sum(axis=1), strict=True))) for chosen in drawn_plates]
    value = ratios(dict(zip(columns, table.sum(axis=1), strict=True)))
    bounds = {name: np.percentile([one[name] for one in samples], (2.5, 97.5)).tolist() for name in value}
    return {name: (value[name], *bounds[name]) for name in value}


def measure(model: str, label: str, precision: Precision, folder: Path, source: Path, predictions: Path) -> Path:
    """Predict the plates and store the counts per plate. Return the file."""
    images, annotations = zip(*plates(source), strict=True)
    label = f"{label}-{precision}"
    found = predicted(model, precision, images, predictions / label)
    rows = [counts(one, formats.read(true)) for one, true in zip(found, annotations, strict=True)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    path = folder / f"{label}.json"
    with atomic_write(path) as temporary:
        document = {"images": [image.stem for image in images], "columns": columns}
        temporary.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
    return path


def markdown(folder: Path = FOLDER) -> str:
    """Return the table of the stored figures beside those of RootEx 2.0."""
    stored = {path.stem: json.loads(path.read_text(encoding="utf-8"))["columns"] for path in sorted(folder.glob("*"))}
    if not stored:
        raise TreeformerError(f"{folder}: no stored figures; run `python -m benchmarks.rootex default`")
    gates = [f"F1 within {gate} px" for gate in GATES_PX]
    headings = ["", "", "annotated", "missed", "added", "recall", "precision", "F1", *gates]
    lines = [wrapped("`python -m benchmarks.rootex --markdown`"), "", *_head(headings)]
    theirs: list[object] = [f"{ROOTEX[name]:.3f}" for name in ("recall", "precision")]
    f1 = 2 * ROOTEX["recall"] * ROOTEX["precision"] / (ROOTEX["recall"] + ROOTEX["precision"])
    lines.append(
        _line(
            [
                "RootEx 2.0, keypoint heads",
                "tips",
                "299",
                ROOTEX["missed"],
                ROOTEX["added"],
                *theirs,
                f"{f1:.3f}",
                "—",
                "—",
            ]
        )
    )
    overlaps = [_line(["RootEx 2.0", f"{ROOTEX['iou']:.3f}", f"{ROOTEX['dice']:.3f}"])]
    for label, columns in stored.items():
        figures = {name: f"{v:.3f} [{low:.3f}, {high:.3f}]" for name, (v, low, high) in with_intervals(columns).items()}
        for kind, title in KINDS.items():
            true, hits = sum(columns[f"{kind}_true"]), sum(columns[f"{kind}_found"])
            shares = [figures[f"{kind}_{name}"] for name in ("found_recall", "found_precision", "found_f1")]
            within = [figures[f"{kind}_within_{gate}_f1"] for gate in GATES_PX]
            added = sum(columns[f"{kind}_predicted"]) - hits
            lines.append(
                _line([f"treeformer, {label}, nodes of the graph", title, true, true - hits, added, *shares, *within])
            )
        overlaps.append(_line([f"treeformer, {label}", figures["iou"], figures["dice"]]))
    return "\n".join([*lines, "", *_head(["", "IoU", "Dice"]), *overlaps]) + "\n"


def _head(headings: Sequence[str]) -> list[str]:
    return [_line(headings), "|" + " --- |" * len(headings)]


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure a model, or write the stored figures into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="[LABEL=]MODEL to measure, a model folder or name")
    parser.add_argument("--precision", choices=("int8", "float32"), default="int8", help="of the network")
    parser.add_argument("--results", type=Path, default=FOLDER, help="folder of the stored figures")
    parser.add_argument("--plates", type=Path, default=SOURCES / "barley-roots", help="folder of barley-roots")
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS, help="folder of the predictions, per label")
    parser.add_argument("--markdown", type=Path, nargs="?", const=PAGE, metavar="PAGE", help="write into this page")
    options = parser.parse_args(arguments)
    try:
        if options.model:
            label, _, model = options.model.rpartition("=")
            measure(model, label or model, options.precision, options.results, options.plates, options.predictions)
        text = markdown(options.results)
        if options.markdown:
            write_markdown(options.markdown, "rootex", text)
        else:
            print(text, end="")
    except TreeformerError as error:
        sys.exit(f"rootex: {error}")


if __name__ == "__main__":
    main()
