"""Fit the weights of structured decoding on validation images, and compare it with the plain spanning forest.

TREEFORMER_DATA=DATA PYTHONPATH=src python benchmarks/structured_decoding.py collect outputs/valid
PYTHONPATH=src python benchmarks/structured_decoding.py fit outputs/valid --model default --write
TREEFORMER_DATA=DATA PYTHONPATH=src python benchmarks/structured_decoding.py collect outputs/test --split test
PYTHONPATH=src python benchmarks/structured_decoding.py compare outputs/test
PYTHONPATH=src python benchmarks/structured_decoding.py ablate outputs/valid

`collect` runs the network once per image and stores its output. Images are rendered at 512 px; the public sets have
their published size, and further prepared folders are given by `--folder`. `fit` changes one weight after another as
long as the mean over the sets of tip F1 and corrected TOPO F1 rises. Tips are matched one to one within 8/512 of the
longer side, or within `--radius` px. Intervals are those of the mean difference, images resampled. `ablate` sets one
weight at a time to 0.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.protocol.sets import PUBLISHED_SIZE, TestSet

from treeformer import Skeleton
from treeformer._util.arrays import FloatArray
from treeformer.data import FolderDataset, Sample
from treeformer.data.sample import Dataset
from treeformer.decoding.objective import StructureWeights
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder, open_model, write_config
from treeformer.inference.accumulator import TileAccumulator
from treeformer.inference.options import PredictionOptions
from treeformer.inference.predictor import Predictor
from treeformer.inference.prepare import prepare, prepare_second_pass
from treeformer.inference.tiles import TileGraph, tile_grid
from treeformer.metrics import match_nodes, topo

RENDERED = (
    ("paper", "paper"), ("paper", "photo"), ("taproot", "photo"), ("seedling", "photo"), ("several", "photo"),
    ("plate", "photo"), ("plate-rosette", "photo"), ("potted-shoot", "photo"), ("vine", "photo"),
    ("vineyard", "photo"), ("orchard", "photo"), ("orchard-row", "photo"),
)  # fmt: skip
OUTPUT = ("node_score", "points", "edge_cost", "root_logit", "attributes")
# Factors that the fit tries for each weight, and the least gain of the mean that it follows.
FACTORS, MIN_GAIN = (0.6, 1.6), 2e-4
# A set may fall by this much on few images without counting as worse.
NOISE = 0.005
RESAMPLES = 2000


class Case(NamedTuple):
    """The network's output for an image and the ground truth."""

    set_name: str
    accumulator: TileAccumulator
    ground_truth: Skeleton
    seconds: float


class Row(NamedTuple):
    """Matched, predicted and true tips, corrected TOPO F1, and the seconds of decoding."""

    matched: int
    predicted: int
    true: int
    topo: float
    seconds: float


def data_sets(split: str, count: int, folders: list[str]) -> Iterator[tuple[str, Dataset]]:
    """Yield the names and data sets: rendered ones, the public sets that are there, and prepared folders."""
    for preset, style in RENDERED:
        yield f"{preset} {style}", TestSet("", synthetic=f"{preset}:{style}:{split}", count=count).open()
    for name in ("osr-roots", "barley-roots"):
        try:
            yield name, TestSet("", public_set=name, size=PUBLISHED_SIZE, split=split).open()
        except TreeformerError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
    for folder in folders:
        yield Path(folder).name, FolderDataset(folder, split)


def run_network(predictor: Predictor, options: PredictionOptions, sample: Sample) -> TileAccumulator:
    """Return the complete output of the network for an image."""
    prepared = prepare(sample.image, options, predictor.engine.input_size)
    while prepared is not None:
        accumulator = prepared.accumulator
        for pixels in prepared.inputs():
            accumulator.add(predictor.engine(pixels[None]), 0)
        prepared = prepare_second_pass(accumulator, predictor.engine.input_size)
    return accumulator


def store(path: Path, accumulator: TileAccumulator, ground_truth: Skeleton, seconds: float) -> None:
    """Write the output for an image, which `load` reads."""
    accumulator.skeleton()  # reduces the output of several tiles to sparse graphs
    arrays: dict[str, Any] = {"seconds": seconds}
    first = accumulator.first_pass
    for part, one in (("", accumulator), ("first_", first)):
        if one is None:
            continue
        arrays |= {f"{part}original": one.original_size, f"{part}scaled": one.scaled_size}
        for number, output in enumerate(one.pending):
            arrays |= {f"{part}pending{number}_{name}": value for name, value in zip(OUTPUT, output, strict=True)}
        for number, graph in enumerate(one.graphs):
            arrays |= {f"{part}graph{number}_{name}": value for name, value in graph._asdict().items()}
    for name, value in (("nodes", ground_truth.nodes), ("edges", ground_truth.edges)):
        arrays[f"true_{name}"] = value
    arrays |= {"true_roots": ground_truth.component_root, "true_size": ground_truth.image_size}
    np.savez_compressed(path, **arrays)


def load(path: Path, options: PredictionOptions, side: int) -> Case:
    """Read the output for an image."""
    with np.load(path) as file:
        arrays = dict(file)

    def accumulator(part: str) -> TileAccumulator:
        original, scaled = (tuple(arrays[f"{part}{name}"].tolist()) for name in ("original", "scaled"))
        tiles = tile_grid(scaled, side, options.tile_step)
        found = TileAccumulator(options, original, scaled, tiles, None)
        if f"{part}pending0_points" in arrays:
            found.pending = [tuple(arrays[f"{part}pending0_{name}"] for name in OUTPUT)]
        else:
            prefix = f"{part}graph%d_"
            for number in range(len(tiles)):
                found.graphs.append(TileGraph(*(arrays[prefix % number + name] for name in TileGraph._fields)))
        return found

    result = accumulator("")
    if "first_points" in arrays or "first_original" in arrays:
        result.first_pass = accumulator("first_")
    nodes, edges, roots = (arrays[f"true_{name}"] for name in ("nodes", "edges", "roots"))
    ground_truth = Skeleton(nodes, edges, root=roots, image_size=tuple(arrays["true_size"].tolist()))
    return Case(path.parent.name, result, ground_truth, float(arrays["seconds"]))


def tips(skeleton: Skeleton) -> FloatArray:
    """Return (T,2) px the nodes of degree 1 that are no roots."""
    is_tip = skeleton.degree == 1
    is_tip[skeleton.component_root] = False
    return skeleton.nodes[is_tip]


def options_of(model: ModelFolder, weights: StructureWeights | None = None) -> PredictionOptions:
    """Return the options of a prediction, with other weights than the model's if they are given."""
    config = model.config if weights is None else replace(model.config, structure=asdict(weights))
    return PredictionOptions(ModelFolder(model.path, config, model.hashes), None, False, None)


def measure(case: Case, options: PredictionOptions, radius_px: float | None = None) -> Row:
    """Decode an image and compare it with the ground truth; tips within `radius_px`, by default 8/512."""
    accumulator = copy.copy(case.accumulator)
    accumulator.pending, accumulator.graphs = list(accumulator.pending), list(accumulator.graphs)
    accumulator.options, accumulator.result = options, None
    begin = time.thread_time()
    found = accumulator.skeleton()
    seconds = time.thread_time() - begin
    radius = radius_px or 8 / 512 * max(case.ground_truth.image_size or (1, 1))
    predicted, true = tips(found), tips(case.ground_truth)
    matched = int((match_nodes(predicted, true, radius) >= 0).sum())
    return Row(matched, len(predicted), len(true), topo(found, case.ground_truth).f1, seconds)


def tip_f1(rows: FloatArray) -> FloatArray:
    """Return the F1 of the tips of all images, for rows (..., I, 5)."""
    matched, predicted, true = np.moveaxis(rows[..., :3].sum(axis=-2), -1, 0)
    return 2 * matched / np.maximum(predicted + true, 1)


def interval(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return the 95 % intervals (2,2) of the differences of tip F1 and TOPO F1."""
    chosen = np.random.default_rng(0).integers(0, len(before), (RESAMPLES, len(before)))
    pairs = [np.stack([tip_f1(rows[chosen]), rows[chosen][..., 3].mean(axis=1)]) for rows in (before, after)]
    bounds: FloatArray = np.percentile(pairs[1] - pairs[0], (2.5, 97.5), axis=1).T
    return bounds


class Fit:
    """A coordinate search; remembers what every set scored with all weights that were tried."""

    def __init__(self, cases: list[Case], model: ModelFolder, before: ModelFolder) -> None:
        self.cases, self.model, self.before = cases, model, before
        self.names = sorted({case.set_name for case in cases})
        self.tried: dict[StructureWeights | None, FloatArray] = {}

    def scores(self, weights: StructureWeights | None) -> FloatArray:
        """Return the mean of tip F1 and TOPO F1 of every set; None stands for the model before."""
        if weights not in self.tried:
            options = options_of(self.before) if weights is None else options_of(self.model, weights)
            rows = np.array([measure(case, options) for case in self.cases], dtype=float)
            of_set = np.array([self.names.index(case.set_name) for case in self.cases])
            parts = [rows[of_set == number] for number in range(len(self.names))]
            self.tried[weights] = np.array([(float(tip_f1(part)) + part[:, 3].mean()) / 2 for part in parts])
        return self.tried[weights]

    def is_allowed(self, scores: FloatArray) -> bool:
        """Return False if a set is worse than before, beyond noise."""
        return bool((scores >= self.scores(None) - NOISE).all())

    def run(self, start: StructureWeights, rounds: int) -> StructureWeights:
        """Change one weight after another while the mean over the sets rises."""
        best = start
        for _ in range(rounds):
            begin = best
            for name, value in asdict(best).items():
                for factor in FACTORS:
                    changed = replace(best, **{name: round(value * factor, 3)})
                    scores = self.scores(changed)
                    if scores.mean() > self.scores(best).mean() + MIN_GAIN and self.is_allowed(scores):
                        best = changed
                        print(f"{scores.mean():.4f} {name} {getattr(best, name)}", flush=True)
                        break
            if best == begin:
                break
        return best

    def left_out(self) -> dict[str, float]:
        """Return for every set its gain with those of the tried weights that are best on all other sets."""
        choices = [weights for weights in self.tried if weights is not None]
        table, plain = np.stack([self.tried[weights] for weights in choices]), self.scores(None)
        result = {}
        for number, name in enumerate(self.names):
            others = np.delete(table, number, axis=1).mean(axis=1)
            result[name] = float(table[others.argmax(), number] - plain[number])
        return result


def comparison(cases: list[Case], before: ModelFolder, after: ModelFolder, radius_px: float | None) -> str:
    """Return the table before and after: tips, TOPO, their intervals, and the share of the time of an image."""
    lines = [
        "| set | images | tip precision | tip recall | tip F1 | difference | TOPO F1 | difference | time |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in sorted({case.set_name for case in cases}):
        chosen = [case for case in cases if case.set_name == name]
        old_rows, new_rows = (
            np.array([measure(case, options_of(model), radius_px) for case in chosen], dtype=float)
            for model in (before, after)
        )
        cells = []
        for place in (1, 2):
            old, new = (rows[:, 0].sum() / max(rows[:, place].sum(), 1) for rows in (old_rows, new_rows))
            cells.append(f"{old:.3f}, {new:.3f}")
        bounds = interval(old_rows, new_rows)
        means = [(float(tip_f1(rows)), rows[:, 3].mean()) for rows in (old_rows, new_rows)]
        for old, new, (low, high) in zip(*means, bounds, strict=True):
            cells += [f"{old:.3f}, {new:.3f}", f"{new - old:+.3f} ({low:+.3f} to {high:+.3f})"]
        share = (new_rows[:, 4] - old_rows[:, 4]).sum() / sum(case.seconds for case in chosen)
        lines.append(f"| {name} | {len(chosen)} | {' | '.join(cells)} | {share:.1%} |")
    return "\n".join(lines)


def ablations(fit: Fit, weights: StructureWeights) -> str:
    """Return the table of means, and of the worst and the best difference of a set, without each term."""
    known = fit.scores(weights)
    lines = ["| without | mean of tip F1 and TOPO F1 | difference | worst set | best set |", "| --- |" + " --- |" * 4]
    lines.append(
        f"| all of it (before) | {fit.scores(None).mean():.4f} | {(fit.scores(None) - known).mean():+.4f} | | |"
    )
    changes = {name: {name: 0.0} for name in asdict(weights) if name not in ("edge_limit", "presence", "score")}
    # A weight at its bound: no limit of edge costs, and no tip that is left out.
    changes |= {"edge_limit": {"edge_limit": 100.0}, "presence and score": {"presence": -100.0, "score": 0.0}}
    for name, change in changes.items():
        gain = fit.scores(replace(weights, **change)) - known
        worst, best = (f"{fit.names[place]} {gain[place]:+.3f}" for place in (gain.argmin(), gain.argmax()))
        lines.append(f"| {name} | {(known + gain).mean():.4f} | {gain.mean():+.4f} | {worst} | {best} |")
    return "\n".join([*lines, f"| nothing | {known.mean():.4f} | | | |"])


def collect(arguments: argparse.Namespace, model: ModelFolder) -> None:
    """Run the network on all images that have no file yet."""
    predictor = Predictor(model, engine="onnx", threads=arguments.threads)
    options = options_of(model)
    for name, dataset in data_sets(arguments.split, arguments.count, arguments.folder):
        folder = arguments.outputs / name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(len(dataset)):
            path = folder / f"{index:03d}.npz"
            loaded = None if path.exists() else dataset.load(index)
            if isinstance(loaded, Sample):
                begin = time.process_time()
                accumulator = run_network(predictor, options, loaded)
                store(path, accumulator, loaded.skeleton, time.process_time() - begin)
        print(f"{name}: {len(dataset)} images", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("collect", "fit", "compare", "ablate"))
    parser.add_argument("outputs", type=Path, help="folder of the network's outputs")
    parser.add_argument("--model", default="default", help="model folder or name")
    parser.add_argument("--split", default="valid", choices=("valid", "test"))
    parser.add_argument("--count", type=int, default=16, help="rendered images per set")
    parser.add_argument(
        "--folder", nargs="*", default=[], help="further data sets, as `treeformer prepare` writes them"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--before", help="model folder to compare with; by default the same one, unstructured")
    parser.add_argument("--radius", type=float, help="largest distance of matched tips, px of the image")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of the fit")
    parser.add_argument("--start", type=json.loads, default={}, help="weights to start the fit from, as JSON")
    parser.add_argument("--write", action="store_true", help="store the weights in the model folder")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # images without a plant
    model = open_model(arguments.model)
    if arguments.command == "collect":
        collect(arguments, model)
        return
    plain = ModelFolder(model.path, replace(model.config, structure=None), model.hashes)
    before = open_model(arguments.before) if arguments.before else plain
    options = options_of(model)
    cases = [load(path, options, model.config.input_size) for path in sorted(arguments.outputs.glob("*/*.npz"))]
    if arguments.command == "compare":
        print(comparison(cases, before, model, arguments.radius))
        return
    fit = Fit(cases, model, before)
    if arguments.command == "ablate":
        print(ablations(fit, options.structure or StructureWeights()))
        return
    best = fit.run(replace(options.structure or StructureWeights(), **arguments.start), arguments.rounds)
    print(json.dumps(asdict(best)))
    print(f"mean of tip F1 and TOPO F1: {fit.scores(None).mean():.4f}, structured {fit.scores(best).mean():.4f}")
    for name, gain in fit.left_out().items():
        print(f"{name}: {gain:+.4f} with the weights that are best on the other sets")
    if arguments.write:
        write_config(model.path, replace(model.config, structure=asdict(best)))


if __name__ == "__main__":
    main()
