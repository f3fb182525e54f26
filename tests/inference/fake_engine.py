"""Engines with known output: one finds the nodes of drawn images by their colors, one returns fixed numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from treeformer import Skeleton
from treeformer.hub.model_folder import ModelFolder, ModelSettings
from treeformer.inference.engine import RawPrediction
from treeformer.inference.predictor import Predictor

LIKELY = 5.0  # cost of an edge that does not exist; an existing one has the negative of it


def drawn(ground_truth: Skeleton) -> np.ndarray:
    """Draw a skeleton: white, with one pixel per node whose color encodes its number. Nodes lie at pixel centers."""
    width, height = ground_truth.image_size
    image = np.full((height, width, 3), 255, dtype=np.uint8)
    column, row = np.floor(ground_truth.nodes).astype(int).T
    number = np.arange(len(ground_truth))
    image[row, column] = np.stack([number // 200, number % 200, np.full(len(ground_truth), 77)], axis=1)
    return image


class ColorEngine:
    """Find the nodes of one drawn skeleton in any tile of its image, with its edges and roots.

    Args:
        ground_truth: the drawn skeleton.
        side: side of the input, px.
        jitter_px: distance by which all nodes of a tile are displaced, in a direction that depends on the tile.
        sees_lines: end an edge that leaves the tile in a node on the border of the tile, as a network does.
    """

    def __init__(self, ground_truth: Skeleton, side: int, jitter_px: float = 0.0, sees_lines: bool = False) -> None:
        self.name, self.device, self.preferred_batch, self.input_size = "color", "cpu", 1, side
        self.ground_truth, self.jitter_px, self.sees_lines = ground_truth, jitter_px, sees_lines
        self.calls: list[int] = []

    def __call__(self, images: np.ndarray) -> RawPrediction:
        self.calls.append(len(images))
        outputs = [self._predict(image) for image in images]
        count = max(2, *(len(score) for score, *_ in outputs))
        padded = []
        for score, points, cost, logit in outputs:
            more = count - len(score)
            padded.append(
                (
                    np.pad(score, (0, more)),
                    np.pad(points, ((0, more), (0, 0))),
                    np.pad(cost, ((0, more), (0, more))),
                    np.pad(logit, (0, more)),
                )
            )
        return RawPrediction(*(np.stack(arrays).astype(np.float32) for arrays in zip(*padded, strict=True)))

    def _predict(self, image: np.ndarray) -> tuple[np.ndarray, ...]:
        row, column = np.nonzero(image[..., 2] == 77)
        number = image[row, column, 0].astype(int) * 200 + image[row, column, 1]
        points = np.stack([column, row], axis=1) + 0.5
        ground_truth = self.ground_truth
        edges = {frozenset(edge) for edge in ground_truth.edges.tolist()}
        names = number.tolist()
        joined = [[frozenset((a, b)) in edges for b in names] for a in names]
        cost = np.where(np.reshape(joined, (len(names), len(names))), -LIKELY, LIKELY)
        # Shorter edges are more likely among the unlikely ones, so that trees have no ties.
        cost = np.where(cost > 0, cost + np.hypot(*(points[:, None] - points).transpose(2, 0, 1)) / 1000, cost)
        logit = np.where(np.isin(number, ground_truth.roots), 3.0, -6.0)
        if self.sees_lines and len(names):
            points, cost, logit = self._with_cut_lines(names, points, cost, logit)
        angle = float(image.astype(int).sum() % 360)
        points = points + self.jitter_px * np.array([np.cos(angle), np.sin(angle)])
        return np.full(len(points), 0.9), points, cost, logit

    def _with_cut_lines(self, names, points, cost, logit):
        ends = []
        for a, b in self.ground_truth.edges.tolist():
            inner, outer = (a, b) if a in names else (b, a)
            if inner in names and outer not in names:
                start = points[names.index(inner)]
                along = self.ground_truth.nodes[outer] - self.ground_truth.nodes[inner]
                walls = np.where(along > 0, self.input_size - start, -start)
                with np.errstate(divide="ignore"):
                    ends.append((names.index(inner), start + along * np.min(walls / along)))
        size = len(points) + len(ends)
        wide = np.full((size, size), 2 * LIKELY)
        wide[: len(points), : len(points)] = cost
        for place, (inner, _) in enumerate(ends, start=len(points)):
            wide[inner, place] = wide[place, inner] = -LIKELY
        return (
            np.concatenate([points, np.reshape([end for _, end in ends], (-1, 2))]),
            wide,
            np.pad(logit, (0, len(ends)), constant_values=-6.0),
        )


class NumbersEngine:
    """Return the same numbers for every image."""

    def __init__(self, score, points, cost, logit, side: int = 64) -> None:
        self.name, self.device, self.preferred_batch, self.input_size = "numbers", "cpu", 1, side
        self.numbers = [np.asarray(array, dtype=np.float32)[None] for array in (score, points, cost, logit)]

    def __call__(self, images: np.ndarray) -> RawPrediction:
        return RawPrediction(*(np.repeat(array, len(images), axis=0) for array in self.numbers))


def line_engine(
    scores=(0.9, 0.9, 0.9, 0.9), costs=(-4.0, -4.0, -4.0), logits=(3.0, -3.0, -3.0, -3.0), side=64
) -> NumbersEngine:
    """Return an engine with four nodes in a row, 10 px apart, and the costs of the edges between neighbors."""
    cost = np.full((4, 4), 9.0)
    for i, value in enumerate(costs):
        cost[i, i + 1] = cost[i + 1, i] = value
    return NumbersEngine(scores, [(10, 30), (20, 30), (30, 30), (40, 30)], cost, logits, side)


def predictor(engine, **settings: float) -> Predictor:
    """Return a predictor with an engine. Settings are those of config.json."""
    # The engine decides about the input size, which need not be valid for config.json.
    config = ModelSettings("fake", {}, working_size=engine.input_size, **settings)
    return Predictor(ModelFolder(Path("fake"), config), engine=engine)


def random_tree(seed: int, count: int, size: tuple[int, int], longest_edge: float, plants: int = 1) -> Skeleton:
    """Return a forest at pixel centers, with nodes at least 12 px apart and edges of at most `longest_edge` px."""
    random = np.random.default_rng(seed)
    nodes, parents = [], []
    for _ in range(40 * count):
        point = np.floor(random.uniform(0, size)) + 0.5
        gap = np.hypot(*(np.reshape(nodes, (-1, 2)) - point).T)
        if gap.size and gap.min() < 12:
            continue
        if len(nodes) < plants:
            nodes.append(point)
            parents.append(-1)
        elif gap.min() <= longest_edge:
            nodes.append(point)
            parents.append(int(gap.argmin()))
        if len(nodes) == count:
            break
    return Skeleton.from_parents(nodes, parents, image_size=size)
