"""What a caller asks of a prediction, checked, with the model's own values as defaults."""

from __future__ import annotations

from typing import Literal

import numpy as np

from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder

# What an engine leaves out, or fills up with, has a score of 0, and is no node whatever the threshold.
LEAST_SCORE = float(np.finfo(np.float32).tiny)

WorkingSize = int | Literal["full"] | None


class PredictionOptions:
    """What was asked for, checked, with the model's own values where nothing was.

    Attributes:
        working_px: the length that longer images are reduced to; None: never.
        node_threshold: least confidence of a node in the tree; the model's candidates have no lower one.
        min_score: least score of a candidate in one tile.
        edge_threshold: least confidence of an edge; 0 keeps the spanning tree whole.
        unsure_plants: whether a plant may stay without a single node that is likelier than not.
        tile_step: tiles begin at multiples of it, px.
    """

    def __init__(
        self, model: ModelFolder, working_size: WorkingSize, single_plant: bool, min_confidence: float | None
    ) -> None:
        settings = model.config
        if isinstance(working_size, int) and working_size < 1:
            raise TreeformerError(f"the working size must be a positive number of pixels, not {working_size}")
        if isinstance(working_size, str) and working_size != "full":
            raise TreeformerError(f"the working size is a number of pixels or 'full', not {working_size!r}")
        if min_confidence is not None and not 0 <= min_confidence <= 1:
            raise TreeformerError(f"the least confidence must lie between 0 and 1, not {min_confidence}")
        wanted = settings.working_size if working_size is None else working_size
        self.working_px = None if isinstance(wanted, str) else wanted
        asked = settings.node_threshold if min_confidence is None else min_confidence
        self.min_score = max(settings.candidate_threshold, LEAST_SCORE)
        self.node_threshold = max(asked, self.min_score)
        self.root_threshold = settings.root_threshold
        self.single_plant = single_plant
        self.tile_step = settings.tile_step
        self.edge_threshold = 0.0 if self.single_plant else min_confidence or 0.0
        self.unsure_plants = min_confidence is not None
        self.model_name = model.path.name
