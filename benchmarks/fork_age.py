"""Does the age of the arms of a fork tell which of them continues the axis?

    PYTHONPATH=src:. python benchmarks/fork_age.py --series 3 --cache /tmp/predicted

At a fork of a predicted skeleton, the arm that earlier dates show first is the older one, and the axis should follow
it. An arm is there at an earlier date if 70 % of its first part lies near the registered skeleton of that date, and if
at least half of the dates since then show it, too. Places near other arms do not count. If one arm is at least `--lead`
dates older than all others, the axis is made to follow it. Then the series is matched and scored as in
`benchmarks/timeseries.py`.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.timeseries import FIRST_SEED, PRESETS, observations, predicted
from scipy.spatial import cKDTree

from treeformer import Axis, Series, Skeleton
from treeformer.synthetic.series import generate_series
from treeformer.timeseries.metrics import detected_pairs, identity_score
from treeformer.timeseries.paths import arc_length, sample

SPACING_PX = 1.5
FIRST_PX, LAST_PX = 6.0, 24.0  # part of an arm that is looked for at earlier dates, px from the fork
APART_PX = 6.0  # only where it is farther than this from the other arms
NEAR_PX = 3.0  # a place this near to a skeleton is on it
MIN_SHARE = 0.7


def first_seen(points: np.ndarray, earlier: Sequence[cKDTree | None]) -> int:
    """Return the first date that shows points (K,2), if half of the dates since then do; else the number of dates."""
    seen = [tree is not None and np.mean(tree.query(points)[0] < NEAR_PX) >= MIN_SHARE for tree in earlier]
    dates = (date for date, there in enumerate(seen) if there and np.mean(seen[date:]) >= 0.5)
    return next(dates, len(earlier))


def older_child(arms: Sequence[np.ndarray], earlier: Sequence[cKDTree | None], lead: int) -> int | None:
    """Return the arm (points (K,2), the fork first) that is `lead` dates older than the others; None if unknown."""
    first = []
    for number, arm in enumerate(arms):
        others = cKDTree(np.vstack([other for k, other in enumerate(arms) if k != number]))
        place = arc_length(arm)
        probe = arm[(place > FIRST_PX) & (place <= LAST_PX) & (others.query(arm)[0] > APART_PX)]
        if len(probe) == 0:
            return None
        first.append(first_seen(probe, earlier))
    oldest, second = sorted(first)[:2]
    return first.index(oldest) if second - oldest >= lead else None


def follow_older_arms(
    skeleton: Skeleton, placed: np.ndarray, earlier: Sequence[cKDTree | None], lead: int
) -> tuple[Skeleton, np.ndarray]:
    """Let the axes of a skeleton follow the older arm of each fork.

    Args:
        skeleton: The skeleton.
        placed: (N,2) its registered nodes, px of the reference date.
        earlier: The registered skeletons of the dates before.
        lead: Dates by which the older arm is older.

    Returns:
        The skeleton, and the number of forks with an older arm, and of those where the axis followed another.
    """
    parents, order = skeleton.parents.tolist(), skeleton.traversal.order
    children: dict[int, list[int]] = {}
    reach = np.zeros(len(parents))
    for node in reversed(order):
        if parents[node] >= 0:
            children.setdefault(parents[node], []).append(node)
            step = np.hypot(*(skeleton.nodes[node] - skeleton.nodes[parents[node]]))
            reach[parents[node]] = max(reach[parents[node]], reach[node] + step)
    follows = {b: c for axis in skeleton.axes for b, c in itertools.pairwise(axis.nodes[1:])}
    count = np.zeros(2, dtype=int)
    for fork, kids in children.items():
        if parents[fork] < 0 or len(kids) < 2:
            continue
        arms = []
        for kid in kids:
            line = [fork, kid]
            while line[-1] in children:
                line.append(max(children[line[-1]], key=lambda node: float(reach[node])))
            arms.append(sample(placed[line], SPACING_PX))
        older = older_child(arms, earlier, lead)
        if older is not None:
            count += 1, follows.get(fork) != kids[older]
            follows[fork] = kids[older]
    axis_of = [-1] * len(parents)
    lines: list[list[int]] = []
    above: list[int | None] = []
    for node in order:
        parent = parents[node]
        if parent < 0:
            continue
        if follows.get(parent) == node:
            axis_of[node] = axis_of[parent]
            lines[axis_of[node]].append(node)
        else:
            axis_of[node] = len(lines)
            lines.append([parent, node])
            above.append(axis_of[parent] if axis_of[parent] >= 0 else None)
    plant = skeleton.plant_of_node
    axes = [Axis(tuple(line), parent=p, plant=int(plant[line[0]])) for line, p in zip(lines, above, strict=True)]
    edge_axis = [axis_of[b] if parents[b] == a else axis_of[a] for a, b in skeleton.edges.tolist()]
    return skeleton.replace(axes=axes, edge_axis=edge_axis, plant=plant), count


def with_older_axes(series: Series, lead: int) -> tuple[list[Skeleton], np.ndarray]:
    """Return the skeletons of a series, split into axes with the help of the dates before, and the counts of forks."""
    trees: list[cKDTree | None] = []
    result = []
    total = np.zeros(2, dtype=int)
    for skeleton, registration in zip(series.skeletons, series.registrations, strict=True):
        placed = registration.transform.apply(skeleton.nodes)
        changed, count = follow_older_arms(skeleton, placed, trees, lead) if len(skeleton.edges) else (skeleton, 0)
        result.append(changed)
        total += count
        edges = [sample(placed[edge], SPACING_PX) for edge in skeleton.edges]
        trees.append(cKDTree(np.vstack(edges)) if edges else None)
    return result, total


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=3, help="number of series per preset")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--lead", type=int, default=1, help="dates by which the older arm is older")
    parser.add_argument("--model", default="default")
    parser.add_argument("--cache", help="folder that keeps predictions")
    options = parser.parse_args()
    cache = Path(options.cache or tempfile.mkdtemp())
    total = np.zeros((2, 2), dtype=int)
    forks = np.zeros(2, dtype=int)
    for preset, number in itertools.product(PRESETS, range(options.series)):
        seed = options.first_seed + number
        frames = generate_series(preset, seed, dates=10)
        skeletons = [views[0] for views in predicted(frames, preset, seed, options.model, cache)]
        series = Series([(frame.time, one) for frame, one in zip(frames, skeletons, strict=True)])
        again, count = with_older_axes(series, options.lead)
        forks += count
        both = series, Series([(frame.time, one) for frame, one in zip(frames, again, strict=True)])
        for row, some in enumerate(both):
            pairs = [detected_pairs(s, f.skeleton, 6.0) for s, f in zip(some.skeletons, frames, strict=True)]
            ids = [[axis.id for axis in skeleton.axes] for skeleton in some.skeletons]
            score = identity_score(observations(frames, pairs, ids))
            total[row] += score.errors, score.detected
    print("| axes | identity F1 | errors | detected |")
    print("| --- | --- | --- | --- |")
    for name, (errors, detected) in zip(("as predicted", "older arm continues"), total.tolist(), strict=True):
        print(f"| {name} | {1 - errors / max(detected, 1):.3f} | {errors} | {detected} |")
    print(f"\n{forks[0]} forks with an older arm, of which {forks[1]} continued along another")


if __name__ == "__main__":
    main()
