"""What the handlers of the editor's server use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeformer.inference.open_engine import torch_sees_gpu
from treeformer.web.folder import Workspace
from treeformer.web.predicting import Predictions
from treeformer.web.pyramid import Pyramids
from treeformer.web.ranking import Ranking
from treeformer.web.saving import Store
from treeformer.web.training import COMMAND, Training

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Services:
    """What the handlers use.

    Attributes:
        workspace: the images and their results.
        store: reads and writes skeletons and drafts.
        pyramids: the tiles.
        predictions: the queue of predictions.
        training: trains on the corrections.
        ranking: which image to correct next.
        static: the folder of the built page.
    """

    workspace: Workspace
    store: Store
    pyramids: Pyramids
    predictions: Predictions
    training: Training
    ranking: Ranking
    static: Path = STATIC

    @classmethod
    def of(cls, workspace: Workspace, model: str = "default", **options: Any) -> Services:
        """Make the services of a workspace."""
        store, pyramids = Store(workspace), Pyramids(workspace)
        predictions = Predictions(workspace, store, pyramids, model, options.pop("load", None))
        has_gpu = options.pop("has_gpu", torch_sees_gpu)
        training = Training(workspace, predictions, options.pop("train", COMMAND), has_gpu)
        return cls(workspace, store, pyramids, predictions, training, Ranking(workspace, pyramids), **options)
