"""Recorded network outputs for the decoder of the static page: made up ones, and those of a real model."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.engine import Engine, RawPrediction

WEB = Path(__file__).parents[2] / "web"


def run_node(*arguments: str) -> None:
    """Run a script of web/ in Node; skip the test if Node or its packages are missing."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (WEB / "node_modules" / "vite").is_dir():
        pytest.skip("web/node_modules is missing: run npm ci in web/")
    done = subprocess.run([node, *arguments], cwd=WEB, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


class Recorder:
    """An engine that records the output of another one."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name, self.device = "recorded", "cpu"
        self.preferred_batch, self.input_size = 1, engine.input_size
        self.outputs: list[RawPrediction] = []

    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        raw = self.engine(images)
        self.outputs.append(raw)
        return raw


class MadeUpEngine:
    """Return candidates around the nodes of random trees: jittered, duplicated, with ties, gaps and invalid numbers.

    The trees lie in px of the scaled image. Tiles that overlap see the same nodes, as with a real network.
    """

    def __init__(self, seed: int, size: tuple[int, int], tiles: list[Any], attributes: bool) -> None:
        self.name, self.device, self.preferred_batch, self.input_size = "made up", "cpu", 1, 512
        self.rng = np.random.default_rng(seed)
        self.tiles, self.calls, self.attributes = tiles, 0, attributes
        count = int(self.rng.integers(0, 30 * len(tiles) + 1))
        self.nodes = self.rng.uniform(-6, np.array(size) + 6, (count, 2))
        if count:  # random walks, so that neighbors are near
            for k in range(1, count):
                if self.rng.random() < 0.93:
                    self.nodes[k] = self.nodes[max(0, k - self.rng.integers(1, 4))] + self.rng.normal(0, 14, 2)
        self.score = self.rng.beta(2, 1, count)
        self.logit = self.rng.normal(-4, 3, count)
        self.is_tied = self.rng.random() < 0.3

    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        rng = self.rng
        tile = self.tiles[min(self.calls, len(self.tiles) - 1)]
        self.calls += 1
        local = self.nodes - (tile.left, tile.top)
        seen = np.flatnonzero(((local > -8) & (local < 520)).all(axis=1))
        seen = seen[rng.random(len(seen)) < 0.97]
        copies = np.concatenate([seen, seen[rng.random(len(seen)) < 0.15]])
        points = local[copies] + rng.normal(0, 1.2, (len(copies), 2))
        score = np.clip(self.score[copies] + rng.normal(0, 0.1, len(copies)), 0, 1)
        distance = np.hypot(*(points[:, None] - points).transpose(2, 0, 1)) if len(points) else np.zeros((0, 0))
        cost = distance / 6 - 4 + rng.normal(0, 2, distance.shape)
        if self.is_tied:
            cost, score = np.round(cost), np.round(score, 1)
        logit = self.logit[copies] + rng.normal(0, 0.5, len(copies))
        order = np.argsort(-score, kind="stable")
        pad = int(rng.integers(0, 4))
        count = len(order) + pad
        arrays = {
            "node_score": np.zeros(count), "points": np.zeros((count, 2)),
            "edge_cost": np.zeros((count, count)), "root_logit": np.zeros(count),
        }  # fmt: skip
        arrays["node_score"][: len(order)] = score[order]
        arrays["points"][: len(order)] = points[order]
        arrays["edge_cost"][: len(order), : len(order)] = cost[np.ix_(order, order)]
        arrays["root_logit"][: len(order)] = logit[order]
        if count and rng.random() < 0.2:
            arrays["edge_cost"][rng.integers(count), rng.integers(count)] = rng.choice([np.nan, np.inf, -np.inf])
            arrays["root_logit"][rng.integers(count)] = rng.choice([np.nan, np.inf, -np.inf])
        if self.attributes:
            arrays["attributes"] = rng.normal(0, 1, (count, 3))
        return RawPrediction(**{name: values[None].astype(np.float32) for name, values in arrays.items()})


def web_settings(model: ModelFolder, **changes: Any) -> dict[str, Any]:
    """Return the settings of a model as `treeformer export --web` writes them."""
    settings = asdict(model.config) | {"tile_step": model.config.tile_step, "sha256": "0" * 64, "name": "default"}
    return settings | changes


def encode(raw: RawPrediction) -> list[str | None]:
    """Return the output for one input as base64 of float32."""
    arrays = [None if array is None else np.ascontiguousarray(array[0], dtype="<f4") for array in raw]
    return [None if array is None else base64.b64encode(array.tobytes()).decode() for array in arrays]


def decode_in_node(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Decode cases with the code of the page."""
    (folder / "in.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    run_node("test/predict/decode.mjs", str(folder / "in.jsonl"), str(folder / "out.jsonl"))
    return [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
