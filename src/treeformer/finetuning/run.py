"""What the steps of one fine-tuning run share: its limits, its listener, and what it trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from treeformer.decoding.calibration import EdgeCalibration
from treeformer.finetuning import measuring, plan
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.crops import CropSettings
from treeformer.finetuning.ending import EndingTime
from treeformer.finetuning.progress import Listener, Report, Stop
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.predictor import Predictor
from treeformer.models.treeformer import TreeFormer
from treeformer.skeleton import Skeleton


@dataclass(frozen=True)
class Run:
    """One run of `finetune`.

    Attributes:
        output: the model folder to write.
        work: the folder for everything before that.
        seed: seed of the split, the crops and their order.
        seconds: time limit of the whole run, s.
        listen: receives progress.
        should_stop: asked between images and steps.
        clock: returns the time, s.
        began: value of the clock when the run began, s.
    """

    output: Path
    work: Path
    seed: int
    seconds: float
    listen: Listener
    should_stop: Stop
    clock: Callable[[], float] = time.monotonic
    began: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Time since the beginning, s."""
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Time until the limit, s."""
        return self.seconds - self.elapsed

    def figures(self, predictor: Predictor, images: Sequence[AnnotatedImage]) -> dict[str, float]:
        """Predict annotated images and return the figures.

        Args:
            predictor: the model.
            images: the images with their skeletons.

        Returns:
            The figures by name.

        Raises:
            KeyboardInterrupt: if the run is to stop.
        """
        return measuring.score(measuring.predict_images(predictor, images, self.check_stop), images)

    def check_stop(self) -> None:
        """Raise KeyboardInterrupt if the run is to stop."""
        if self.should_stop():
            raise KeyboardInterrupt

    def say(
        self, stage: str, line: str, figures: dict[str, float] | None = None, seconds_left: float | None = None
    ) -> None:
        """Report one line.

        Args:
            stage: name of the step, see `Report`.
            line: the message.
            figures: figures by name.
            seconds_left: expected time to the end of the run, s.
        """
        self.listen(Report(stage, line, seconds_left=seconds_left, figures=figures or {}))


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained.

    Attributes:
        network: the network with the weights of the start model and the chosen number of tokens.
        chosen: the start model with the chosen settings.
        start: the start model.
        split: images for training and for validation.
        working_px: working size of each training image, px.
        crops: settings of the crops.
        start_score: validation F1 of the start model.
        ending: times measured before training.
        judged: images that choose the node threshold and judge the 8-bit graph: four views of every validation image
            and some training images. Without validation, views of a training image.
        groups: number of the annotation of each of them.
        unannotated: images without corrected skeletons that are labeled by the trained network, to train it again.
        root: the folder of the images.
    """

    network: TreeFormer
    chosen: ModelFolder
    start: ModelFolder
    split: plan.Split
    working_px: Sequence[int]
    crops: CropSettings
    start_score: float
    ending: EndingTime
    judged: Sequence[AnnotatedImage]
    groups: Sequence[int]
    unannotated: Sequence[Path]
    root: Path


class Trained(NamedTuple):
    """The result of the training.

    Attributes:
        network: the best network, None if none is better than the start model.
        score: its validation F1, otherwise that of the start model.
        calibration: calibration of its edge scores.
        node_threshold: its node threshold, None for that of the start model.
        judged: its trees of the images in `Task.judged`.
        labeled: number of images with pseudo-labels that it was trained on.
    """

    network: TreeFormer | None
    score: float
    calibration: EdgeCalibration | None = None
    node_threshold: float | None = None
    judged: Sequence[Skeleton] = ()
    labeled: int = 0
