"""The options of a prediction: checked, with the model's own values as defaults."""

from __future__ import annotations

import copy
from typing import Literal

import numpy as np

from treeformer._util.config import build
from treeformer.decoding.objective import StructureWeights
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.provenance import prediction_metadata

# Padding in an engine's output has a score of 0. It must not become a node, whatever the threshold.
SMALLEST_SCORE = float(np.finfo(np.float32).tiny)

WorkingSize = int | Literal["full", "auto"] | None
"""Longest side of an image at its working size, px. "full" keeps the original size, "auto" chooses by the model's scale
rule. None is "auto" if the model has a scale rule, otherwise the model's working size."""


class PredictionOptions:
    """Checked options of a prediction. The model supplies the defaults.

    `working_size` is described at `WorkingSize`. `min_confidence` of nodes and edges is in [0, 1]; None uses the
    model's node threshold and keeps all edges. The names of engine and views only go into the metadata.

    Attributes:
        working_px: length that longer images are reduced to, px. None reduces no image.
        scale_rule: chooses the working size after a first pass at the input size; None for a fixed size
        min_score: minimum score of a candidate in one tile
        node_threshold: minimum confidence of a node in the tree, at least `min_score`
        root_threshold: minimum probability of the root of a further plant
        edge_threshold: minimum confidence of an edge. 0 keeps the whole spanning tree.
        single_plant: predict one tree per image
        unsure_plants: keep plants and doubtful branches without any node that is more likely than not
        tile_step: tiles start at multiples of this, px
        fixed_px: the model's fixed working size
        direction_weight: weight of predicted directions in edge costs
        edge_calibration: coefficients of calibrated edge scores, None for the network's scores
        structure: weights of structured decoding, None for the plain spanning forest
        low_confidence: edges with a lower calibrated score are doubtful, None if the model does not say
        curves: let edges follow the center lines, if the model has a map of them
        metadata: of the predicted skeletons
    """

    def __init__(
        self,
        model: ModelFolder,
        working_size: WorkingSize,
        single_plant: bool,
        min_confidence: float | None,
        engine_name: str = "",
        views: int = 1,
        curves: bool = True,
    ) -> None:
        settings = model.config
        if working_size not in (None, "full", "auto"):
            working_size = _whole_pixels(working_size)
        if working_size == "auto" and settings.scale_rule is None:
            raise TreeformerError(f"{model.path.name}: this model has no scale rule: give the working size in pixels")
        if min_confidence is not None and not _is_probability(min_confidence):
            raise TreeformerError(f"the minimum confidence must be between 0 and 1, not {min_confidence!r}")
        default: WorkingSize = settings.working_size if settings.scale_rule is None else "auto"
        size = default if working_size is None else working_size
        self.scale_rule = settings.scale_rule if size == "auto" else None
        self.fixed_px = settings.working_size
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
        self.low_confidence = settings.low_confidence_threshold
        self.direction_weight = settings.direction_weight
        self.curves = curves
        self.structure = (
            None if settings.structure is None else build(StructureWeights, settings.structure, "structure")
        )
        self._model = model
        self._first_pass: PredictionOptions | None = None
        self._record = {
            "engine": engine_name,
            "working_size": size,
            "node_threshold": self.node_threshold,
            "root_threshold": self.root_threshold,
            "edge_threshold": self.edge_threshold,
            "single_plant": single_plant,
            **({"views": views} if views > 1 else {}),
            **({} if curves else {"curves": False}),
        }
        self.metadata = prediction_metadata(model, self._record)

    def of_first_pass(self, side: int) -> PredictionOptions:
        """Return the options of a pass over the whole image at the side of the network's input, px.

        All images share one object, so that messages between processes contain it once.
        """
        if self.scale_rule is None:
            return self
        first_pass = self._first_pass
        if first_pass is None or first_pass.working_px != side:
            first_pass = self._first_pass = self.at_size(side, is_final=False)
        return first_pass

    def at_size(self, working_px: int, *, is_final: bool) -> PredictionOptions:
        """Return a copy with a working size in px that a scale rule chose; its metadata name the size.

        `is_final` is False if a scale rule may still choose another size.
        """
        other = copy.copy(self)
        other.working_px, other._first_pass = working_px, None
        other.metadata = prediction_metadata(self._model, {**self._record, "chosen_working_size": working_px})
        if is_final:
            other.scale_rule = None
        return other


def _is_probability(value: object) -> bool:
    return isinstance(value, int | float | np.number) and bool(0 <= value <= 1)


def _whole_pixels(size: object) -> int:
    """Return a working size as a positive integer, or raise a `TreeformerError`."""
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 1:
        return int(size)
    raise TreeformerError(f"the working size must be a positive number of pixels, 'auto' or 'full', not {size!r}")
