"""The options of a prediction: checked, with the model's own values as defaults."""

from __future__ import annotations

from typing import Literal

import numpy as np

from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.provenance import prediction_metadata

# Padding in an engine's output has a score of 0. It must not become a node, whatever the threshold.
SMALLEST_SCORE = float(np.finfo(np.float32).tiny)

WorkingSize = int | Literal["full"] | None
"""Longest side of an image at its working size, px; "full" keeps the original size, None uses the model's value."""


class PredictionOptions:
    """Checked options of a prediction.

    Args:
        model: the model, which supplies the defaults.
        working_size: longest side of an image at its working size, px; "full" keeps the original size.
        single_plant: predict one tree per image.
        min_confidence: minimum confidence of nodes and edges, in [0, 1]. None uses the model's node threshold and
            keeps all edges.
        engine_name: what runs the network, for the metadata.

    Attributes:
        working_px: length that longer images are reduced to, px. None reduces no image.
        min_score: minimum score of a candidate in one tile.
        node_threshold: minimum confidence of a node in the tree, at least `min_score`.
        root_threshold: minimum probability of the root of a further plant.
        edge_threshold: minimum confidence of an edge. 0 keeps the whole spanning tree.
        single_plant: predict one tree per image.
        unsure_plants: keep plants without any node that is more likely than not.
        tile_step: tiles start at multiples of this, px.
        edge_calibration: coefficients of calibrated edge scores, None for the network's scores.
        metadata: metadata of the predicted skeletons.

    Raises:
        TreeformerError: if a value is out of range.
    """

    def __init__(
        self,
        model: ModelFolder,
        working_size: WorkingSize,
        single_plant: bool,
        min_confidence: float | None,
        engine_name: str = "",
    ) -> None:
        settings = model.config
        if isinstance(working_size, int) and working_size < 1:
            raise TreeformerError(f"the working size must be a positive number of pixels, not {working_size}")
        if isinstance(working_size, str) and working_size != "full":
            raise TreeformerError(f"the working size must be a number of pixels or 'full', not {working_size!r}")
        if min_confidence is not None and not 0 <= min_confidence <= 1:
            raise TreeformerError(f"the minimum confidence must be between 0 and 1, not {min_confidence}")
        size = settings.working_size if working_size is None else working_size
        self.working_px = None if isinstance(size, str) else size
        threshold = settings.node_threshold if min_confidence is None else min_confidence
        self.min_score = max(settings.candidate_threshold, SMALLEST_SCORE)
        self.node_threshold = max(threshold, self.min_score)
        self.root_threshold = settings.root_threshold
        self.single_plant = single_plant
        self.tile_step = settings.tile_step
        self.edge_threshold = 0.0 if self.single_plant else min_confidence or 0.0
        self.unsure_plants = min_confidence is not None
        self.edge_calibration = settings.edge_calibration
        self.metadata = prediction_metadata(
            model,
            {
                "engine": engine_name,
                "working_size": size,
                "node_threshold": self.node_threshold,
                "root_threshold": self.root_threshold,
                "edge_threshold": self.edge_threshold,
                "single_plant": single_plant,
            },
        )
