"""Where wrong identities in predicted series come from, and which of them better input would avoid.

    PYTHONPATH=src:. python benchmarks/identity_errors.py --first-seed 110001 --series 3 --cache /tmp/predicted
    PYTHONPATH=src:. python benchmarks/identity_errors.py --first-seed 110000 --series 3 --cache /tmp/predicted --fit

The first table counts the wrong axes × dates of `Series` by the first cause that applies:

- `path`: the predicted axis and the true one overlap by less than 80 %;
- `crowded`: it overlaps by half with another true axis as well, or the true one with another predicted axis;
- `split`: its track belongs to no true axis;
- `exchanged`: its track belongs to another true axis.

The second table matches again with better input: the true motion of the plate; the predicted axes without those that
are no true axis; the true paths of the detected axes. `true others` gives all other dates their true identities, and
assigns each date by the cost of Series; axes that no other date shows are left out.

`--fit` fits a logistic regression to pairs of predicted axes of up to three dates apart: are they the same true axis?
Its terms are those of `treeformer.timeseries.costs.identity_costs`, and the distance of the bases.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.timeseries import PRESETS, predicted
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from treeformer import Series
from treeformer.synthetic.series import SeriesFrame, generate_series
from treeformer.timeseries import costs, matching
from treeformer.timeseries.metrics import IdentityScore, _overlap, detected_pairs, identity_score
from treeformer.timeseries.paths import Paths, axis_paths, paths_of_lines
from treeformer.timeseries.plants import NONE, match_plants, with_plant_shifts
from treeformer.timeseries.series import _seeds

TOLERANCE_PX = 6.0  # of detected axes
FULL_OVERLAP, HALF_OVERLAP = 0.8, 0.5
CAUSES = ("path", "crowded", "split", "exchanged")
TERMS = ("whole", "distal", "tip", "turn", "shrinkage", "main")
MAX_GAP = 3


class Case:
    """One predicted series: its axes as paths, and the true name of each, None for a false axis."""

    def __init__(self, frames: Sequence[SeriesFrame], series: Series) -> None:
        self.frames, self.series = frames, series
        self.tolerance, self.spacing = series.tolerance_px, max(series.tolerance_px / 3, 2.0)
        self.paths: list[Paths] = []
        self.true_paths: list[Paths] = []
        self.names: list[list[str | None]] = []
        self.causes: list[dict[str, str]] = []
        for frame, skeleton in zip(frames, series.skeletons, strict=True):
            paths, index = axis_paths(skeleton, self.spacing)
            pairs = dict(detected_pairs(skeleton, frame.skeleton, TOLERANCE_PX))
            self.paths.append(paths)
            self.true_paths.append(axis_paths(frame.skeleton, self.spacing)[0])
            self.names.append(
                [frame.skeleton.axes[pairs[k]].id if k in pairs else None for k in index.tolist()],
            )
            self.causes.append({})
            if not pairs:
                continue
            overlap, _ = _overlap(axis_paths(skeleton, 2.0)[0], axis_paths(frame.skeleton, 2.0)[0], TOLERANCE_PX)
            near = overlap >= HALF_OVERLAP
            rank = {axis: k for k, axis in enumerate(index.tolist())}
            for axis, expected in pairs.items():
                row = rank[axis]
                crowded = near[row].sum() > 1 or near[:, expected].sum() > 1
                cause = "path" if overlap[row, expected] < FULL_OVERLAP else "crowded" if crowded else ""
                self.causes[-1][frame.skeleton.axes[expected].id] = cause

    def registered(self, paths: Sequence[Paths]) -> list[Paths]:
        """Return paths in px of the reference date."""
        return [p.moved(r.transform.apply(p.points)) for p, r in zip(paths, self.series.registrations, strict=True)]

    def on_plate(self, paths: Sequence[Paths]) -> list[Paths]:
        """Return paths in px of the plate, by its true motion."""
        motions = [np.linalg.inv(np.vstack([frame.motion, (0, 0, 1)])) for frame in self.frames]
        return [p.moved(p.points @ m[:2, :2].T + m[:2, 2]) for p, m in zip(paths, motions, strict=True)]

    def match(self, paths: Sequence[Paths], names: Sequence[Sequence[str | None]]) -> IdentityScore:
        """Match paths, and score the identities of those with a name."""
        seeds = []
        for one in paths:
            main = [np.flatnonzero(one.plant == plant)[:1] for plant in range(int(one.plant.max(initial=-1)) + 1)]
            seeds.append(np.asarray([one.bases[k[0]] if len(k) else (0.0, 0.0) for k in main]).reshape(-1, 2))
        options = (self.series.times, self.series.reference, self.tolerance, self.spacing)
        tracks = matching.match_axes(paths, seeds, *options).track_of_axis
        return identity_score(
            [
                (name, str(track))
                for date, some in enumerate(names)
                for name, track in zip(some, tracks[date].tolist(), strict=True)
                if name is not None
            ]
        )


def kept(paths: Paths, keep: Sequence[bool]) -> Paths:
    """Return some of the paths. The parent of a path is its nearest ancestor that is kept."""
    index = [k for k, is_kept in enumerate(keep) if is_kept]
    new = {k: rank for rank, k in enumerate(index)}
    parents = []
    for k in index:
        parent = int(paths.parent[k])
        while parent >= 0 and parent not in new:
            parent = int(paths.parent[parent])
        parents.append(new.get(parent, NONE))
    return paths_of_lines([paths.path(k) for k in index], np.asarray(parents, dtype=np.intp), paths.plant[index])


def causes_of(case: Case) -> Counter[str]:
    """Count the wrong axes × dates of `Series` by cause, and all detected ones."""
    tracks = [
        [skeleton.axes[k].id for k in axis_paths(skeleton, 9.0)[1].tolist()] for skeleton in case.series.skeletons
    ]
    seen = [
        (date, name, track)
        for date, (names, ids) in enumerate(zip(case.names, tracks, strict=True))
        for name, track in zip(names, ids, strict=True)
        if name is not None
    ]
    right = identity_score([(name, track) for _, name, track in seen]).pairs
    owned = set(right.values())
    wrong = [
        case.causes[date][name] or ("exchanged" if track in owned else "split")
        for date, name, track in seen
        if right.get(name) != track
    ]
    return Counter({"detected": len(seen), "errors": len(wrong), **Counter(wrong)})


def errors_with_better_input(case: Case) -> dict[str, int]:
    """Return the number of errors for each kind of better input."""
    detected = [[name is not None for name in names] for names in case.names]
    placed = case.registered(case.paths)
    names = [[name for name in some if name is not None] for some in case.names]
    true_names = [[axis.id for axis in frame.skeleton.axes] for frame in case.frames]
    found = [[name in set(some) for name in all_] for some, all_ in zip(names, true_names, strict=True)]
    true_paths = [kept(paths, keep) for paths, keep in zip(case.true_paths, found, strict=True)]
    true_found = [
        [n for n, k in zip(all_, keep, strict=True) if k] for all_, keep in zip(true_names, found, strict=True)
    ]
    without_false = [kept(p, keep) for p, keep in zip(placed, detected, strict=True)]
    return {
        "true motion": case.match(case.on_plate(case.paths), case.names).errors,
        "no false axes": case.match(without_false, names).errors,
        "true paths": case.match(case.on_plate(true_paths), true_found).errors,
        "true others": errors_with_true_others(case),
    }


def errors_with_true_others(case: Case) -> int:
    """Assign each date with the true identities of all others, and count the wrong ones."""
    placed = case.registered(case.paths)
    seeds = [
        r.transform.apply(_seeds(s)) for s, r in zip(case.series.skeletons, case.series.registrations, strict=True)
    ]
    plants = match_plants(placed, seeds, case.series.reference, case.tolerance)
    placed = [with_plant_shifts(*one) for one in zip(placed, plants.identity, plants.shift, strict=True)]
    options = (case.series.times, case.series.reference, case.tolerance, case.spacing)
    solver = matching._Solver(placed, plants.identity, *options)
    number: dict[object, int] = {}
    for date, names in enumerate(case.names):
        for axis, name in enumerate(names):
            track = number.setdefault((date, axis) if name is None else name, len(number))
            if track == len(solver.tracks):
                solver.tracks.append(matching.Track())
            solver.observe(date, axis, track)
    errors = 0
    for date, names in enumerate(case.names):
        expected = solver.assigned[date].copy()
        for track in expected.tolist():
            del solver.tracks[track].observed[date]
        solver.assigned[date][:] = NONE
        solver._update_tracks()
        weight = costs.importance(placed[date].length / case.tolerance)
        found = dict(costs.assign(solver._costs(date, expected), costs.MAX_COST, weight))
        for axis, track in enumerate(expected.tolist()):
            known = names[axis] is not None and bool(solver.tracks[track].observed)
            errors += known and found.get(axis) != track
        for axis, track in enumerate(expected.tolist()):
            solver.observe(date, axis, track)
    return errors


def terms_of(earlier: Paths, later: Paths, tolerance_px: float) -> np.ndarray:
    """Return the terms of `identity_costs` without weights, (A,B,6)."""
    names = [f"{term.upper()}_WEIGHT" for term in TERMS]
    weights = {name: getattr(costs, name) for name in names}
    terms = []
    try:
        for chosen in names:
            for name in names:
                setattr(costs, name, float(name == chosen))
            terms.append(costs.identity_costs(earlier, later, tolerance_px))
    finally:
        for name, weight in weights.items():
            setattr(costs, name, weight)
    return np.stack(terms, axis=-1)


def fit(cases: Sequence[Case]) -> None:
    """Print the weights of a logistic regression: are two axes the same?"""
    rows, same = [], []
    for case in cases:
        placed = case.registered(case.paths)
        for a, b in itertools.combinations(range(len(placed)), 2):
            if b - a > MAX_GAP or len(placed[a]) == 0 or len(placed[b]) == 0:
                continue
            known = np.asarray([[p is not None or q is not None for q in case.names[b]] for p in case.names[a]])
            near = costs.identity_costs(placed[a], placed[b], case.tolerance) < 2 * costs.MAX_COST
            equal = np.asarray([[p is not None and p == q for q in case.names[b]] for p in case.names[a]])
            base = np.minimum(cdist(placed[a].bases, placed[b].bases) / case.tolerance, 2 * costs.CAP)
            terms = np.concatenate([terms_of(placed[a], placed[b], case.tolerance), base[..., None]], axis=-1)
            rows.append(terms[known & near])
            same.append(equal[known & near])
    x, y = np.concatenate(rows), np.concatenate(same)

    def loss(weights: np.ndarray) -> float:
        score = weights[-1] - x @ weights[:-1]
        return float(np.logaddexp(0.0, np.where(y, -score, score)).mean())

    bounds = [(0, None)] * x.shape[1] + [(None, None)]
    weights = minimize(loss, np.zeros(x.shape[1] + 1), method="L-BFGS-B", bounds=bounds).x
    print(f"{len(y)} pairs, {int(y.sum())} of them the same axis")
    print("| term | weight of the regression | of `identity_costs` |\n| --- | --- | --- |")
    used = [*(getattr(costs, f"{term.upper()}_WEIGHT") for term in TERMS), 0.0]
    for term, weight, current in zip((*TERMS, "base"), weights.tolist(), used, strict=False):
        print(f"| {term} | {weight:.2f} | {current:.2f} |")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=PRESETS)
    parser.add_argument("--series", type=int, default=3, help="number of series per preset")
    parser.add_argument("--first-seed", type=int, default=110_000)
    parser.add_argument("--model", default="default")
    parser.add_argument("--cache", help="folder that keeps predictions")
    parser.add_argument("--fit", action="store_true", help="fit the weights of the cost")
    options = parser.parse_args()
    cache = Path(options.cache or tempfile.mkdtemp())
    causes: dict[str, Counter[str]] = {}
    better: dict[str, Counter[str]] = {}
    cases = []
    for preset, number in itertools.product(options.presets, range(options.series)):
        seed = options.first_seed + number
        frames = generate_series(preset, seed, dates=10)
        skeletons = [views[0] for views in predicted(frames, preset, seed, options.model, cache)]
        case = Case(frames, Series([(frame.time, one) for frame, one in zip(frames, skeletons, strict=True)]))
        if options.fit:
            cases.append(case)
            continue
        for name in (preset, "all"):
            causes.setdefault(name, Counter()).update(causes_of(case))
        again = errors_with_better_input(case)
        for name in (preset, "all"):
            better.setdefault(name, Counter()).update(again)
    if options.fit:
        fit(cases)
        return
    names = ("detected", "errors", *CAUSES)
    print(f"| preset | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
    for preset in (*options.presets, "all"):
        print(f"| {preset} | {' | '.join(str(causes[preset][name]) for name in names)} |")
    names = tuple(better["all"])
    print(f"\n| preset | errors | {' | '.join(names)} |\n|{' --- |' * (len(names) + 2)}")
    for preset in (*options.presets, "all"):
        cells = (causes[preset]["errors"], *(better[preset][name] for name in names))
        print(f"| {preset} | {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
