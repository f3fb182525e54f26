"""Predictions of the tables' trained models on single images, on whatever machine has their weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.tables.recipes import RECIPES, Run
from benchmarks.tables.train import WEIGHTS, load

from treeformer.skeleton import Skeleton


class Models:
    """The trained models of a folder of runs, each loaded once."""

    def __init__(self, runs: Path) -> None:
        import torch

        self.runs = runs
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._loaded: dict[str, Any] = {}

    def has(self, run: Run) -> bool:
        """Whether its weights are here."""
        return (self.runs / run.name / WEIGHTS).exists()

    def model(self, run: Run) -> Any:
        """The model, ready to predict."""
        if run.name not in self._loaded:
            self._loaded[run.name] = load(self.runs / run.name, self.device)
        return self._loaded[run.name]

    def output(self, run: Run, image: np.ndarray) -> Any:
        """What the network says about one image (H,W,3) uint8."""
        import torch

        tensor = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None].to(self.device)
        with torch.no_grad():
            return self.model(run)(tensor.float() / 255.0)

    def skeleton(self, run: Run, decoding: str, image: np.ndarray, **options: Any) -> Skeleton:
        """The skeleton of one image (H,W,3) uint8, decoded in one of the recipe's ways, with options of its own."""
        from treeformer.training.validation import changed_settings

        settings: Mapping[str, Any] = RECIPES[run.recipe].decodings[decoding]
        model, output = self.model(run), self.output(run, image)
        with changed_settings(model, settings):
            size = (image.shape[1], image.shape[0])
            found: Skeleton = model.decode(output, image_size=size, **(run.decode_options | options))[0]
        return found
