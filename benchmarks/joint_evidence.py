"""Joint evidence: decode each date of a series again with what the other dates show. Does it help?

    PYTHONPATH=src:. python benchmarks/joint_evidence.py --series 2 --cache /tmp/raw

Each image of a series is predicted once. The network's output is decoded, the series is registered, and every date is
decoded again with changed scores. Three variants are compared with the first decoding:

- `distance`: the log-odds of a node change with its distance from the registered skeletons of the other dates. What a
  later date shows supports it and what no later date shows is doubtful, because roots do not vanish. What an earlier
  date shows supports it. Edges change likewise, with the mean over three places on them.
- `edges`: the same for edges only.
- `paths`: an edge between two nodes gets a vote per date whose skeleton has both places: for it if the path between
  them there is about as long as the edge, against it if there is a detour. No other scores change.

Votes and distances of the dates within `WINDOW` are averaged, the nearer in time the heavier. Identity is that of
`benchmarks/timeseries.py`; length F1 is the harmonic mean of the shares of predicted and of true length within 3 px of
the other, averaged over images; TOPO is `treeformer.metrics.topo`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.timeseries import FIRST_SEED, PRESETS, evaluate
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from treeformer import Series, Skeleton
from treeformer.decoding.attributes import direction_cost, radius_px
from treeformer.decoding.decode import decode
from treeformer.decoding.duplicates import suppress_duplicates
from treeformer.decoding.postprocess import postprocess
from treeformer.hub.model_folder import open_model
from treeformer.inference.options import PredictionOptions
from treeformer.metrics import topo
from treeformer.synthetic.series import SeriesFrame, generate_series
from treeformer.synthetic.series_images import render_series

WINDOW = 4  # dates before and after
SIGMA_PX = 3.0  # a place at this distance from another date's skeleton is supported by exp(-1/2)
MAX_EDGE_PX = 80.0  # longer edges get no votes
DETOUR, DETOUR_PX = 1.3, 4.0  # a path longer than this factor times the edge, plus this, is a detour
SIDE = 512


@dataclass(frozen=True)
class Variant:
    """Weights of the evidence, in log-odds: of nodes and edges by distance, and of the votes of paths."""

    node: float = 0.0
    edge: float = 0.0
    path: float = 0.0


VARIANTS = {
    "first decoding": None,
    "distance": Variant(node=0.5, edge=1.0),
    "edges": Variant(edge=1.0),
    "paths": Variant(path=2.0),
}


@dataclass(frozen=True)
class Other:
    """The skeleton of another date: sampled points in px of this date, their graph, whether it is later, weight."""

    points: np.ndarray
    graph: csr_array
    is_later: bool
    weight: float


def raw_outputs(frames: Sequence[SeriesFrame], preset: str, seed: int, model: str, cache: Path) -> list[dict]:
    """Predict the images of a series and return the network's output per date, from the cache if it is there."""
    from treeformer.inference.predictor import load_model

    path = cache / f"{preset}-{seed}.npz"
    if not path.is_file():
        engine = load_model(model, engine="onnx", threads=1).engine
        arrays = {}
        for k, image in enumerate(render_series(frames, "photo", seed)):
            raw = engine(image[None])
            kept = raw.node_score[0] >= open_model(model).config.candidate_threshold
            arrays[f"s{k}"], arrays[f"p{k}"] = raw.node_score[0][kept], raw.points[0][kept]
            arrays[f"c{k}"], arrays[f"l{k}"] = raw.edge_cost[0][np.ix_(kept, kept)], raw.root_logit[0][kept]
            if raw.attributes is not None:
                arrays[f"a{k}"] = raw.attributes[0][kept]
        cache.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npz")
        np.savez_compressed(partial, **arrays)
        partial.replace(path)
    with np.load(path) as stored:
        return [{key: stored[f"{key}{k}"] for key in "spcla" if f"{key}{k}" in stored} for k in range(len(frames))]


def sampled(skeleton: Skeleton, spacing: float = 3.0) -> tuple[np.ndarray, csr_array]:
    """Return points along all edges, (M,2) px, and the graph that joins them, with lengths in px."""
    points, count = [skeleton.nodes], len(skeleton)
    first, second, length = [], [], []
    for (a, b), px in zip(skeleton.edges.tolist(), skeleton.edge_length.tolist(), strict=True):
        parts = max(int(np.ceil(px / spacing)), 1)
        fraction = (np.arange(1, parts) / parts)[:, None]
        points.append(skeleton.nodes[a] + (skeleton.nodes[b] - skeleton.nodes[a]) * fraction)
        line = [a, *range(count, count + parts - 1), b]
        count += parts - 1
        first += line[:-1]
        second += line[1:]
        length += [max(px / parts, 1e-6)] * parts
    return np.concatenate(points), csr_array((length, (first, second)), shape=(count, count))


def evidence(points: np.ndarray, pairs: np.ndarray, others: Sequence[Other], variant: Variant) -> tuple:
    """Return what is added to the log-odds of nodes (K,) and to the costs of edges (E,)."""
    node, cost = np.zeros(len(points)), np.zeros(len(pairs))
    votes, voters = np.zeros(len(pairs)), np.zeros(len(pairs))
    a, b = points[pairs[:, 0]], points[pairs[:, 1]]
    length = np.hypot(*(a - b).T)
    middle = np.concatenate([a + (b - a) * t for t in (0.25, 0.5, 0.75)])
    total = {later: sum(o.weight for o in others if o.is_later == later) or 1.0 for later in (False, True)}
    for other in others:
        tree = cKDTree(other.points)
        distance, nearest = tree.query(points)
        share = other.weight / total[other.is_later]
        node += variant.node * share * _support(distance, other.is_later)
        if variant.edge:
            on_edge = _support(tree.query(middle)[0], other.is_later).reshape(3, -1).mean(axis=0)
            cost -= variant.edge * share * on_edge
        if variant.path:
            known = np.flatnonzero((distance[pairs] <= 2 * SIGMA_PX).all(axis=1) & (length < MAX_EDGE_PX))
            if len(known):
                begin, end = nearest[pairs[known]].T
                rows, row = np.unique(begin, return_inverse=True)
                path = dijkstra(other.graph, directed=False, indices=rows, limit=2.5 * MAX_EDGE_PX)[row, end]
                is_direct = path <= DETOUR * length[known] + DETOUR_PX
                votes[known] += other.weight * np.where(is_direct, 1, -1)
                voters[known] += other.weight
    # Few voters count less.
    cost -= variant.path * votes / np.maximum(voters, 2.0)
    return node, cost


def _support(distance: np.ndarray, is_later: bool) -> np.ndarray:
    """Return 0 to 1 for an earlier date, and -1 to 1 for a later one, in which absence is evidence, too."""
    support = np.exp(-0.5 * np.square(distance / SIGMA_PX))
    return 2 * support - 1 if is_later else support


def decoded(raw: dict, options: PredictionOptions, others: Sequence[Other], variant: Variant | None) -> Skeleton:
    """Decode the output for one image as `TileAccumulator` does, with evidence if there is a variant."""
    score, points, cost, logit = (np.asarray(raw[key], dtype=float) for key in "spcl")
    attributes = raw.get("a")
    pairs = np.stack(np.triu_indices(len(score), 1), axis=1)
    extra = np.zeros(len(pairs))
    if attributes is not None and options.direction_weight:
        extra += direction_cost(points, pairs, attributes, options.direction_weight)
    if variant is None:
        kept = score >= options.node_threshold
        score = np.where(kept, score, 0.0)
    else:
        node, change = evidence(points, pairs, others, variant)
        odds = np.clip(score, 1e-6, 1 - 1e-6)
        score = 1 / (1 + (1 - odds) / odds * np.exp(-node))
        extra += change
    score = suppress_duplicates(score, points, pairs, cost[pairs[:, 0], pairs[:, 1]], options.node_threshold)
    extra_cost = np.zeros(cost.shape)
    extra_cost[pairs[:, 0], pairs[:, 1]] = extra_cost[pairs[:, 1], pairs[:, 0]] = extra
    forest = decode(
        score,
        np.clip(points, 0.0, SIDE).round(2),
        cost,
        logit,
        node_threshold=options.node_threshold,
        root_threshold=options.root_threshold,
        image_size=(SIDE, SIDE),
        extra_cost=extra_cost,
        radius=None if attributes is None else radius_px(attributes, 1.0),
    )
    return postprocess(forest, calibration=options.edge_calibration)


def decoded_again(
    raws: Sequence[dict],
    options: PredictionOptions,
    times: Sequence[float],
    first: Sequence[Skeleton],
    variant: Variant,
) -> list[Skeleton]:
    """Decode all dates with the evidence of the other dates' first decoding."""
    series = Series(list(zip(times, first, strict=True)))
    lines = [sampled(skeleton) for skeleton in first]
    transforms = [registration.transform for registration in series.registrations]
    registered = [registration.succeeded for registration in series.registrations]
    result = []
    for date, raw in enumerate(raws):
        back = transforms[date].inverse()
        others = [
            Other(back.after(transforms[k]).apply(lines[k][0]), lines[k][1], k > date, 1 / np.sqrt(abs(k - date)))
            for k in range(max(0, date - WINDOW), min(len(raws), date + WINDOW + 1))
            if k != date and len(first[k]) and registered[date] and registered[k]
        ]
        result.append(decoded(raw, options, others, variant))
    return result


def length_f1(predicted: Skeleton, expected: Skeleton, tolerance_px: float = 3.0) -> float:
    """Return the F1 score of the lengths near the other skeleton; 0 if one of them is empty."""
    a, b = sampled(predicted, 2.0)[0], sampled(expected, 2.0)[0]
    if len(a) == 0 or len(b) == 0:
        return 0.0
    precision = float((cKDTree(b).query(a)[0] <= tolerance_px).mean())
    recall = float((cKDTree(a).query(b)[0] <= tolerance_px).mean())
    return 2 * precision * recall / max(precision + recall, 1e-9)


def main() -> None:
    """Parse the command line and print one row per preset and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=PRESETS)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--series", type=int, default=2, help="number of series per preset")
    parser.add_argument("--dates", type=int, default=10)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--model", default="default")
    parser.add_argument("--cache", type=Path, help="folder that keeps the network's outputs")
    arguments = parser.parse_args()
    cache = arguments.cache or Path(tempfile.mkdtemp())
    options = PredictionOptions(open_model(arguments.model), None, False, None)
    print("| preset | variant | identity errors | detected | F1 | recall | IDF1 of all | length F1 | TOPO F1 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for preset in arguments.presets:
        counts = {name: np.zeros(4) for name in arguments.variants}
        quality: dict[str, list[tuple[float, float]]] = {name: [] for name in arguments.variants}
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.series):
            frames = generate_series(preset, seed, dates=arguments.dates)
            raws = raw_outputs(frames, preset, seed, arguments.model, cache)
            first = [decoded(raw, options, (), None) for raw in raws]
            for name in arguments.variants:
                variant, found = VARIANTS[name], first
                if variant is not None:
                    found = decoded_again(raws, options, [frame.time for frame in frames], first, variant)
                score = evaluate(frames, found, 6.0)["scores"]["Series"]  # type: ignore[index]
                counts[name] += (score.right, score.detected, score.expected, score.predicted)
                for skeleton, frame in zip(found, frames, strict=True):
                    values = length_f1(skeleton, frame.skeleton), topo(skeleton, frame.skeleton).f1
                    quality[name].append(values)
        for name, (right, detected, expected, predicted) in counts.items():
            length, walks = np.mean(quality[name], axis=0)
            figures = (right / detected, detected / expected, 2 * right / (expected + predicted), length, walks)
            cells = [f"{detected - right:.0f}", f"{detected:.0f}", *(f"{value:.3f}" for value in figures)]
            print(f"| {preset} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
