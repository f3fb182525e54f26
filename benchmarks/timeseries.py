"""Identity of axes over time: `treeformer.Series` against matching frame by frame.

    PYTHONPATH=src python benchmarks/timeseries.py                    ground-truth skeletons of synthetic series
    PYTHONPATH=src python benchmarks/timeseries.py --predict          skeletons that a model predicts for their images
    PYTHONPATH=src python benchmarks/timeseries.py --barley FOLDER    pairs of dates of barley-roots

All matchers see the same skeletons in the same run. `nearest` matches each date to the date before by the nearest path;
it gets the coordinates that Series registered. `nearest, unregistered` gets those of the images. `known axes` is no
matcher: each axis is assigned to the axes of the ground truth at its date by the cost of Series, with the true motion
of the plate and the true lengths. Its errors show what the predicted paths leave open.

With `--predict`, each date keeps one of `--views` predictions, as in `treeformer series`. `one view` is without this
choice: the images as they are.

The length error of a date is that of all plants together: of the skeletons as predicted, and of
`monotone_total_length` in the table of plants.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from treeformer import Axis, Series, Skeleton, formats
from treeformer.metrics import topo, topo_paper
from treeformer.synthetic.series import SeriesFrame, generate_series
from treeformer.synthetic.series_images import render_series
from treeformer.timeseries.baseline import nearest_tracks
from treeformer.timeseries.costs import CAP, MAX_COST, assign, importance, pair_costs
from treeformer.timeseries.matching import LENGTH_WEIGHT
from treeformer.timeseries.metrics import (
    GrowthErrors,
    IdentityScore,
    detected_pairs,
    growth_errors,
    identity_score,
    shrinkages,
)
from treeformer.timeseries.paths import Paths, axis_paths
from treeformer.timeseries.views import VIEWS, choose_views, from_view, view_of

PRESETS = ("plate", "taproot", "seedling", "several")
FIRST_SEED = 120_000  # of the split for tests


def without_ids(skeleton: Skeleton) -> Skeleton:
    """Return a skeleton whose axes and plants have no names that could give identities away."""
    axes = [Axis(axis.nodes, parent=axis.parent, plant=axis.plant) for axis in skeleton.axes]
    return skeleton.replace(axes=axes, edge_axis=skeleton.edge_axis, plant_records=(), metadata={})


def predicted(
    frames: Sequence[SeriesFrame], preset: str, seed: int, model: str, cache: Path, views: int = 1
) -> list[list[Skeleton]]:
    """Predict the views of the images of a series. Results are kept in a folder, by model, preset, seed and dates."""
    from treeformer.inference.predictor import load_model

    folder = cache / hashlib.sha256(f"{model} {preset} {seed} {len(frames)}".encode()).hexdigest()[:16]
    files = [
        [folder / (f"{k:03d}-{view}.json" if view else f"{k:03d}.json") for view in range(views)]
        for k in range(len(frames))
    ]
    if not all(file.is_file() for row in files for file in row):
        predictor = load_model(model, threads=1)
        for row, image in zip(files, render_series(frames, "photo", seed), strict=True):
            for view, file in enumerate(row):
                if not file.is_file():
                    formats.write(from_view(predictor.predict(view_of(np.asarray(image), view)), view), file)
    return [[formats.read(file) for file in row] for row in files]


def observations(
    frames: Sequence[SeriesFrame], pairs: Sequence[Sequence[tuple[int, int]]], ids: Sequence[Sequence[str]]
) -> list[tuple[str, str]]:
    """Return (id in the ground truth, id of the track) of each detected axis at each date."""
    return [
        (frame.skeleton.axes[expected].id, ids[date][found])
        for date, frame in enumerate(frames)
        for found, expected in pairs[date]
    ]


def evaluate(frames: Sequence[SeriesFrame], skeletons: Sequence[Skeleton], tolerance_px: float) -> dict[str, object]:
    """Run all matchers on one series."""
    series = Series([(frame.time, skeleton) for frame, skeleton in zip(frames, skeletons, strict=True)])
    pairs = [
        detected_pairs(skeleton, frame.skeleton, tolerance_px)
        for frame, skeleton in zip(frames, series.skeletons, strict=True)
    ]
    counts = {
        "expected": sum(len(frame.skeleton.axes) for frame in frames),
        "predicted": sum(len(skeleton.axes) for skeleton in series.skeletons),
    }
    ids = [[axis.id for axis in skeleton.axes] for skeleton in series.skeletons]
    paths = [axis_paths(skeleton, 2.0)[0] for skeleton in series.skeletons]
    placed = [p.moved(r.transform.apply(p.points)) for p, r in zip(paths, series.registrations, strict=True)]
    scores: dict[str, IdentityScore] = {"Series": identity_score(observations(frames, pairs, ids), **counts)}
    shrunk = {"Series": _shrinkages(ids, placed, series.tolerance_px)}
    for name, some_paths in (("nearest", placed), ("nearest, unregistered", paths)):
        others = [[str(k) for k in one.tolist()] for one in nearest_tracks(some_paths, series.tolerance_px)]
        scores[name] = identity_score(observations(frames, pairs, others), **counts)
        shrunk[name] = _shrinkages(others, some_paths, series.tolerance_px)
    bound = [_known_ids(frame, skeleton, series) for frame, skeleton in zip(frames, series.skeletons, strict=True)]
    scores["known axes"] = identity_score(observations(frames, pairs, bound), **counts)
    shrunk["known axes"] = _shrinkages(bound, paths, series.tolerance_px)
    failed = sum(not r.succeeded and len(s) > 0 for r, s in zip(series.registrations, series.skeletons, strict=True))
    growth = growth_errors(series, [frame.skeleton for frame in frames], scores["Series"].pairs)
    lengths = _length_errors(frames, series)
    return {"scores": scores, "shrunk": shrunk, "failed": failed, "growth": growth, "lengths": lengths}


def _known_ids(frame: SeriesFrame, skeleton: Skeleton, series: Series) -> list[str]:
    """Return the id of the ground-truth axis to which each axis of a date is assigned; a new one if there is none."""
    ids = [f"{frame.time} {k}" for k in range(len(skeleton.axes))]
    spacing = max(series.tolerance_px / 3, 2.0)
    paths, index = axis_paths(skeleton, spacing)
    known, known_index = axis_paths(frame.skeleton, spacing)
    for axis, found in match_known_axes(paths, known, series.tolerance_px, spacing):
        ids[int(index[axis])] = frame.skeleton.axes[int(known_index[found])].id
    return ids


def match_known_axes(paths: Paths, known: Paths, tolerance_px: float, spacing_px: float) -> list[tuple[int, int]]:
    """Assign the axes of one date to known ones of the same date, by the cost of a track.

    Args:
        paths: The axes, in the px of the known ones.
        known: The known axes, such as the ground truth.
        tolerance_px: Distance within which places agree, px.
        spacing_px: Distance between the points of all paths, px.

    Returns:
        Pairs (axis, known axis).
    """
    if len(paths) == 0 or len(known) == 0:
        return []
    cost = pair_costs(paths, known, tolerance_px, spacing_px)
    off = np.abs(paths.length[:, None] - known.length[None]) / tolerance_px
    cost += LENGTH_WEIGHT * np.minimum(off, 2 * CAP)
    return assign(cost, MAX_COST, importance(paths.length / tolerance_px))


def _length_errors(frames: Sequence[SeriesFrame], series: Series) -> np.ndarray:
    """Return (D,3) px: absolute errors of the predicted and of the monotone length per date, and the true length."""
    table = series.plants_over_time()
    monotone = table.groupby("time")["monotone_total_length"].sum()
    rows = []
    for date, frame in enumerate(frames):
        scale = series.registrations[date].transform.scale
        fitted = float(monotone.get(float(series.times[date]), 0.0)) / scale
        expected = frame.skeleton.length
        rows.append((abs(series.skeletons[date].length - expected), abs(fitted - expected), expected))
    return np.asarray(rows)


def _shrinkages(ids: Sequence[Sequence[str]], paths: Sequence[object], tolerance_px: float) -> int:
    lengths: dict[str, list[float]] = {}
    for names, one in zip(ids, paths, strict=True):
        for name, length in zip(names, one.length.tolist(), strict=True):  # type: ignore[attr-defined]
            lengths.setdefault(name, []).append(length)
    return sum(shrinkages(np.asarray(values), tolerance_px) for values in lengths.values())


def synthetic(options: argparse.Namespace) -> None:
    """Print one row per preset and matcher."""
    cache = Path(options.cache or tempfile.mkdtemp())
    totals: dict[str, dict[str, np.ndarray]] = {}
    everything: list[GrowthErrors] = []
    lengths: dict[str, list[np.ndarray]] = {}
    images: dict[str, list[np.ndarray]] = {}
    print("| preset | matcher | identity F1 | errors | detected | recall | IDF1 of all | lengths that shrink |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for preset in options.presets:
        rows: dict[str, np.ndarray] = {}
        failed = 0
        for seed in range(options.first_seed, options.first_seed + options.series):
            frames = generate_series(preset, seed, dates=options.dates)
            single = [without_ids(frame.skeleton) for frame in frames]
            skeletons = single
            if options.predict:
                views = predicted(frames, preset, seed, options.model, cache, options.views)
                single, skeletons = [one[0] for one in views], choose_views(views)
            result = evaluate(frames, skeletons, options.tolerance)
            if options.predict and options.views > 1:
                plain = evaluate(frames, single, options.tolerance)
                images.setdefault(preset, []).append(_image_scores(frames, single, skeletons))
                for name in ("Series", "nearest"):
                    for part in ("scores", "shrunk"):
                        result[part][f"{name}, one view"] = plain[part][name]  # type: ignore[index]
            failed += result["failed"]  # type: ignore[operator]
            everything.append(result["growth"])  # type: ignore[arg-type]
            lengths.setdefault(preset, []).append(result["lengths"])  # type: ignore[arg-type]
            line = []
            for name, score in result["scores"].items():  # type: ignore[attr-defined]
                row = (score.right, score.detected, score.expected, score.predicted, result["shrunk"][name])  # type: ignore[index]
                rows[name] = rows.get(name, 0) + np.asarray(row)
                line.append(f"{name} {score.f1:.3f}")
            print(f"{preset} {seed}: {', '.join(line)}", file=sys.stderr, flush=True)
        for name, row in rows.items():
            print(_row(preset, name, row))
            totals.setdefault("all", {}).setdefault(name, np.zeros(5, dtype=int))
            totals["all"][name] += row
        if failed:
            print(f"{preset}: {failed} dates could not be registered", file=sys.stderr)
    for name, row in totals["all"].items():
        print(_row("all", name, row))
    _print_lengths(lengths)
    if images:
        _print_images(images)
    emergence = np.concatenate([one.emergence for one in everything])
    rate, true_rate = (np.concatenate([getattr(one, n) for one in everything]) for n in ("rate", "expected_rate"))
    print()
    print("| measure | median | 90th percentile | n |")
    print("| --- | --- | --- | --- |")
    if len(emergence):
        print(f"| error of the emergence time, days | {_two(emergence)} | {len(emergence)} |")
    if len(rate):
        print(f"| error of the growth rate, px per day | {_two(np.abs(rate - true_rate))} | {len(rate)} |")
        print(f"| true growth rate, px per day | {_two(true_rate)} | {len(rate)} |")


def _image_scores(frames: Sequence[SeriesFrame], single: Sequence[Skeleton], chosen: Sequence[Skeleton]) -> np.ndarray:
    """Return (D,4) per date: TOPO F1 of the paper's code and corrected, of one view and of the chosen one."""
    return np.asarray(
        [
            [measure(one, frame.skeleton).f1 for one in pair for measure in (topo_paper, topo)]
            for frame, *pair in zip(frames, single, chosen, strict=True)
        ]
    )


def _print_images(images: dict[str, list[np.ndarray]]) -> None:
    print()
    print("| preset | TOPO F1 of single images, one view | chosen view |")
    print("| --- | --- | --- |")
    for preset, one in _with_all(images).items():
        values = [f"{value:.3f}" for value in np.nanmean(one, axis=0).tolist()]
        print(f"| {preset} | {values[0]} / {values[1]} | {values[2]} / {values[3]} |")


def _print_lengths(lengths: dict[str, list[np.ndarray]]) -> None:
    print()
    print("| preset | true length per date, px | mean error of single images, px | of the series, px |")
    print("| --- | --- | --- | --- |")
    for preset, one in _with_all(lengths).items():
        single, fitted, expected = one.mean(axis=0).tolist()
        print(f"| {preset} | {expected:.0f} | {single:.1f} | {fitted:.1f} |")


def _with_all(parts: dict[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the rows of each preset, and those of all."""
    rows = {preset: np.concatenate(some) for preset, some in parts.items()}
    return {**rows, "all": np.concatenate(list(rows.values()))}


def _two(values: np.ndarray) -> str:
    return f"{np.median(values):.2f} | {np.percentile(values, 90):.2f}"


def _row(preset: str, name: str, row: np.ndarray) -> str:
    right, detected, expected, found, shrunk = row.tolist()
    f1, recall = right / max(detected, 1), detected / max(expected, 1)
    overall = 2 * right / max(expected + found, 1)
    cells = (preset, name, f"{f1:.3f}", detected - right, detected, f"{recall:.3f}", f"{overall:.3f}", shrunk)
    return f"| {' | '.join(map(str, cells))} |"


def barley(folder: Path, options: argparse.Namespace) -> None:
    """Match the plants of each pair NNN, NNNR, and print whether plants annotated at both dates are paired."""
    print("| plate | plants at both dates | matched | registered | plants |")
    print("| --- | --- | --- | --- | --- |")
    total = np.zeros(2, dtype=int)
    for later in sorted(folder.glob("*R.rsml")):
        earlier = later.with_name(later.name.replace("R.rsml", ".rsml"))
        if not earlier.is_file() or earlier.stem in options.leave_out:
            continue
        pair = [formats.read(earlier), formats.read(later)]
        series = Series([(0.0, pair[0]), (1.0, pair[1])])
        # Plants stand in a row: those of both dates are numbered from left to right if equally many are annotated.
        order = [
            [s.plant_records[p].id for p in sorted(set(s.plant_of_node.tolist()), key=lambda p: _seed_x(s, p))]
            for s in series.skeletons
        ]
        expected = min(len(order[0]), len(order[1]))
        matched = len(set(order[0]) & set(order[1]))
        if len(order[0]) == len(order[1]):
            matched = sum(a == b for a, b in zip(*order, strict=True))
        total += (expected, matched)
        state = "yes" if series.registrations[0].succeeded else "no"
        print(f"| {earlier.stem} | {expected} | {matched} | {state} | {json.dumps(order)} |")
    print(f"| all | {total[0]} | {total[1]} | | |")


def _seed_x(skeleton: Skeleton, plant: int) -> float:
    roots = skeleton.component_root
    return float(skeleton.nodes[roots[skeleton.plant_of_node[roots] == plant], 0].mean())


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=PRESETS)
    parser.add_argument("--series", type=int, default=12, help="number of series per preset")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="110000 and later for development")
    parser.add_argument("--dates", type=int, default=10)
    parser.add_argument("--predict", action="store_true", help="predict the skeletons from rendered images")
    parser.add_argument("--model", default="default")
    parser.add_argument("--views", type=int, choices=range(1, len(VIEWS) + 1), default=len(VIEWS))
    parser.add_argument("--tolerance", type=float, default=6.0, help="of detected axes, px")
    parser.add_argument("--cache", help="folder that keeps predictions")
    parser.add_argument("--barley", type=Path, help="folder barley-roots/test or barley-roots/train")
    parser.add_argument("--leave-out", nargs="*", default=["426"])
    options = parser.parse_args()
    if options.barley:
        barley(options.barley, options)
    else:
        synthetic(options)


if __name__ == "__main__":
    main()
