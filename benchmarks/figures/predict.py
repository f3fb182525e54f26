"""Predict single images with the trained models of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.tables.recipes import RECIPES, Run
from benchmarks.tables.train import WEIGHTS, load

from treeformer.skeleton import Skeleton


class Models:
    """The trained models of a folder of runs, loaded on first use.

    Args:
        runs: folder of the runs.
    """

    def __init__(self, runs: Path) -> None:
        import torch

        self.runs = runs
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._loaded: dict[str, Any] = {}

    def has(self, run: Run) -> bool:
        """Return True if the weights of a run are available."""
        return (self.runs / run.name / WEIGHTS).exists()

    def model(self, run: Run) -> Any:
        """Return the model of a run in evaluation mode."""
        if run.name not in self._loaded:
            self._loaded[run.name] = load(self.runs / run.name, self.device)
        return self._loaded[run.name]

    def output(self, run: Run, image: np.ndarray) -> Any:
        """Return the network's output for one image.

        Args:
            run: the run.
            image: (H,W,3) uint8.

        Returns:
            The output of the model, a batch of one.
        """
        import torch

        tensor = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None].to(self.device)
        with torch.no_grad():
            return self.model(run)(tensor.float() / 255.0)

    def skeleton(self, run: Run, decoding: str, image: np.ndarray, **options: Any) -> Skeleton:
        """Predict the skeleton of one image.

        Args:
            run: the run.
            decoding: one of the recipe's decodings.
            image: (H,W,3) uint8.
            **options: options of the model's `decode`.

        Returns:
            The skeleton.
        """
        from treeformer.training.validation import changed_settings

        settings: Mapping[str, Any] = RECIPES[run.recipe].decodings[decoding]
        model, output = self.model(run), self.output(run, image)
        with changed_settings(model, settings):
            size = (image.shape[1], image.shape[0])
            found: Skeleton = model.decode(output, image_size=size, **(run.decode_options | options))[0]
        return found
