"""What the steps of one fine-tuning run share: limits, progress reports, and typed records."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from treeformer._util.config import ConfigError, build
from treeformer.decoding.calibration import EdgeCalibration
from treeformer.errors import TreeformerError
from treeformer.finetuning import measuring, plan, work_folder
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.predictor import Predictor
from treeformer.models.treeformer import TreeFormer
from treeformer.skeleton import Skeleton

# Estimates of the time after training are multiplied by this, because nothing after them can be shortened.
RESERVE = 1.25
# The 32-bit graph takes at most this many times as long per image as the 8-bit graph.
FLOAT_FACTOR = 3.0


@dataclass(frozen=True)
class Report:
    """One report, for people and, as a line of JSON, for other programs."""

    stage: str  # survey, plan, labels, features, training, validation, export or done
    message: str = ""  # one line for people, empty if there is nothing new to say
    done: int = 0  # items of the stage
    total: int = 0  # 0 if unknown
    seconds_left: float | None = None  # to the end of the whole run, estimated; None if unknown
    figures: Mapping[str, float] = field(default_factory=dict)  # `pseudo_labels` is the number of images with them

    def as_json(self) -> str:
        """Return the report as one line of JSON. Figures that are not finite become null.

        Example:
            >>> Report("training", done=3, total=9).as_json()
            '{"stage": "training", "message": "", "done": 3, "total": 9, "seconds_left": null, "figures": {}}'
        """
        table = asdict(self)
        table["figures"] = {name: value if math.isfinite(value) else None for name, value in self.figures.items()}
        return json.dumps(table)


Listener = Callable[[Report], None]
"""Receives every report. An error that it raises ends the run, which can be resumed."""
Stop = Callable[[], bool]
"""Returns True if the run shall stop. Asked between images and steps."""


def ignore(report: Report) -> None:
    """Ignore a report: the default `Listener`."""


def never() -> bool:
    """Return False: the default `Stop`."""
    return False


@dataclass(frozen=True)
class Run:
    """One run of `finetune`."""

    output: Path  # the model folder to write
    work: Path  # the folder for everything before that
    seed: int  # of the split, the crops and their order
    seconds: float  # time limit of the whole run
    listen: Listener
    should_stop: Stop
    clock: Callable[[], float] = time.monotonic
    began: float = field(default_factory=time.monotonic)  # on the clock

    @property
    def elapsed(self) -> float:
        """Time since the beginning, s."""
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Time until the limit, s."""
        return self.seconds - self.elapsed

    def figures(self, predictor: Predictor, images: Sequence[AnnotatedImage]) -> dict[str, float]:
        """Predict annotated images and return the figures by name."""
        return measuring.score(measuring.predict_images(predictor, images, self.check_stop), images)

    def check_stop(self) -> None:
        """Raise KeyboardInterrupt if the run is to stop."""
        if self.should_stop():
            raise KeyboardInterrupt

    def say(
        self, stage: str, line: str, figures: dict[str, float] | None = None, seconds_left: float | None = None
    ) -> None:
        """Report one line."""
        self.listen(Report(stage, line, seconds_left=seconds_left, figures=figures or {}))

    def show_training(self, rest_seconds: float) -> Callable[[int, int, dict[str, float]], None]:
        """Return the function by which the training loop reports. `rest_seconds` is the time of what follows it."""
        first: list[tuple[int, float]] = []  # step and time of the first report: what is before it takes longer

        def show(step: int, steps: int, figures: dict[str, float]) -> None:
            if "valid_topo_f1" in figures:
                figures = {name.removeprefix("valid_"): value for name, value in figures.items()}
                text = f"step {step} of {steps}: validation F1 {figures['topo_f1']:.3f}"
                self.listen(Report("validation", text, step, steps, None, figures))
                return
            first[:] = first or [(step, self.clock())]
            began, when = first[0]
            left = (steps - step) * (self.clock() - when) / (step - began) + rest_seconds if step > began else None
            self.listen(Report("training", "", step, steps, left, figures))

        return show


class ExportBudget(NamedTuple):
    """Times measured before training, from which the time after training follows."""

    export: float  # writing the model folder with its 8-bit graph, s
    prediction: float  # predicting one image with a model folder, s
    validated: int  # validation images, or training images without validation
    judged: int  # images that choose the node threshold and judge the 8-bit graph
    views: int  # images of one validation

    def seconds(self, validation: float) -> float:
        """Return the estimated time of everything after training, s, if one validation takes `validation` s."""
        thresholds = validation * self.judged / max(1, self.views)
        predictions = self.prediction * (self.judged + FLOAT_FACTOR * self.validated)
        return RESERVE * (self.export + predictions + thresholds)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained."""

    network: TreeFormer  # with the weights of the start model and the chosen number of tokens
    chosen: ModelFolder  # the start model with the chosen settings
    start: ModelFolder
    split: plan.Split
    working_px: Sequence[int]  # of each training image
    crops: plan.CropSettings
    before: Mapping[str, float]  # validation figures of the start model
    start_trees: Sequence[Skeleton]  # its trees of the measured images
    budget: ExportBudget
    # Images that choose the node threshold and judge the 8-bit graph: four views of every validation image and some
    # training images. Without validation, views of a training image. `groups` numbers their annotations.
    judged: Sequence[AnnotatedImage]
    groups: Sequence[int]
    unannotated: Sequence[Path]  # images without corrected skeletons, to be labeled by the trained network
    root: Path  # the folder of the images

    @property
    def start_score(self) -> float:
        """Validation F1 of the start model."""
        return self.before["topo_f1"]

    @property
    def measured(self) -> Sequence[AnnotatedImage]:
        """The validation images, or the training images if there are none."""
        return self.split.valid or self.split.train


class Trained(NamedTuple):
    """The result of the training."""

    network: TreeFormer | None  # None if none is better than the start model
    score: float  # its validation F1, otherwise that of the start model
    calibration: EdgeCalibration | None = None
    node_threshold: float | None = None  # None for that of the start model
    judged: Sequence[Skeleton] = ()  # its trees of the images in `Task.judged`
    labeled: int = 0  # images with pseudo-labels that it was trained on


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    folder: Path  # the new model folder
    before: dict[str, float]  # validation figures of the start model, by name
    after: dict[str, float]  # of the new model
    kept_start: bool  # True if the weights are those of the start model, because none were better
    are_training_images: bool  # True if the figures are those of training images, because there was no other


@dataclass
class SavedRun:
    """What the work folder says of a run, so that an interrupted one continues."""

    fingerprint: str
    unannotated: bool = False
    working_px: int = 0  # fixed working size, 0 for the rule of the start model
    limit: float | None = None  # the time limit for which the schedule was made, s
    schedule: plan.Schedule | None = None  # on a CPU
    first: float | None = None  # validation score of the first training on a GPU
    agreement: dict[str, float] = field(default_factory=dict)  # of the views, by the name of the image
    labeled: bool = False  # True after all images have been labeled
    begun: bool = False  # True from the training on: an error does not remove the folder any more

    @classmethod
    def open(cls, output: Path, fingerprint: str) -> tuple[SavedRun, bool]:
        """Open the work folder of an output. Return its record, and whether an interrupted run is continued."""
        folder, stored = work_folder.open_work_folder(output, fingerprint)
        if not stored:
            return cls(fingerprint), False
        try:
            return build(cls, stored, str(folder / work_folder.PLAN)), True
        except ConfigError as error:
            raise TreeformerError(f"{error}; remove {folder} to begin anew") from None

    def write(self, folder: Path) -> None:
        """Write the record to the work folder."""
        work_folder.write_plan(folder, asdict(self))


def finish_training(run: Run, task: Task, network: TreeFormer, engine: measuring.LiveEngine) -> Trained:
    """Choose the node threshold of a trained network and calibrate its edges, on validation images if there are any."""
    chosen, valid = task.chosen, task.split.valid
    remembering = measuring.RememberingEngine(engine)
    threshold = chosen.config.node_threshold
    if valid:
        threshold = measuring.cautious_threshold(remembering, chosen, task.judged, task.groups, run.check_stop)
    final = ModelFolder(chosen.path, replace(chosen.config, node_threshold=threshold), chosen.hashes)
    predictor = Predictor(final, engine=remembering)
    score = run.figures(predictor, task.measured)["topo_f1"]
    calibration = measuring.calibrate_edges(remembering, final, valid) or task.start.config.edge_calibration
    trees = measuring.predict_images(predictor, task.judged, run.check_stop)
    return Trained(network, score, calibration, threshold, trees)
