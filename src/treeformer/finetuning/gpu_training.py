"""Train on a GPU: the whole network, with `full_training`, from annotated images to the best weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from treeformer._util.cores import usable_cores
from treeformer.finetuning import full_training, measuring, plan, views, work_folder
from treeformer.finetuning.labeling import label_unannotated
from treeformer.finetuning.run import Run, Task, Trained
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.predictor import Predictor
from treeformer.models.export import load_trained, with_tokens
from treeformer.models.treeformer import TreeFormer
from treeformer.training import loop
from treeformer.training.validation import changed_settings

# Training lasts at least this long, s.
MIN_SECONDS = 30.0
# By about this much, the F1 of one image differs by chance between two trained networks.
IMAGE_NOISE = 0.1


def train_on_gpu(run: Run, task: Task, stored: dict[str, Any]) -> Trained:
    """Train the whole network. Used on the CPU by tests only.

    With images without annotation it is trained twice: on the annotated images, and on these and the others with the
    labels of the first network. Both trainings run to the end of their schedule, whatever validation says before: a
    first network that two unusual images have chosen labels all others worse.

    Args:
        run: the run.
        task: what is trained.
        stored: the plan in the work folder. The results of the first training are added.

    Returns:
        The best network.

    Raises:
        KeyboardInterrupt: if the run is to stop.
    """
    network, chosen, split = task.network, task.chosen, task.split
    device = "cuda" if torch.cuda.is_available() else "cpu"
    full_training.write_scaled(split.train, task.working_px, run.work / "images", task.crops.side)
    valid = split.valid or split.train

    def measure(model: Any) -> dict[str, float]:
        engine = measuring.LiveEngine(model, chosen, device=device)
        with changed_settings(model, {"tokens": network.config.tokens}):
            if not split.valid:
                return run.figures(Predictor(chosen, engine=engine), valid)
            return views.best_threshold(engine, chosen, task.judged[: task.ending.views], run.check_stop)[1]

    network.to(device)
    began = run.clock()
    start_score = measure(network)["topo_f1"]
    measured = task.ending.views if split.valid else len(valid)
    validation = (run.clock() - began) * task.ending.views / max(1, measured)
    rest = task.ending.seconds(validation)
    run.say("plan", f"training the whole network on {device}: at most {math.ceil(run.seconds / 60)} minutes in all")
    if "first" not in stored:
        left = max(MIN_SECONDS, (run.left - rest) / (2 if task.unannotated else 1))
        weights, score = _train(run, task, run.work / "run", device, left, measure)
        if weights is None or (split.valid and score <= start_score):
            return Trained(None, start_score)
        stored["first"] = score
        work_folder.write_plan(run.work, stored)
    best, labeled = run.work / "run" / loop.BEST, 0
    if task.unannotated:
        again, labeled = _train_again(run, task, stored, device, rest, measure, start_score)
        best, labeled = (best, 0) if again is None else (again, labeled)
    trained = _load(best, network)
    engine = views.RememberingEngine(measuring.LiveEngine(trained.to(device), chosen, device=device))
    threshold = chosen.config.node_threshold
    if split.valid:
        threshold = views.cautious_threshold(engine, chosen, task.judged, task.groups, run.check_stop)
    final = ModelFolder(chosen.path, replace(chosen.config, node_threshold=threshold), chosen.hashes)
    predictor = Predictor(final, engine=engine)
    score = run.figures(predictor, valid)["topo_f1"]
    calibration = measuring.calibrate_edges(engine, final, split.valid)
    trees = measuring.predict_images(predictor, task.judged, run.check_stop)
    return Trained(trained, score, calibration or task.start.config.edge_calibration, threshold, trees, labeled)


def _train(
    run: Run,
    task: Task,
    folder: Path,
    device: str,
    seconds: float,
    measure: Callable[[Any], dict[str, float]],
    pseudo: Path | None = None,
    start_from: Path | None = None,
) -> tuple[Path | None, float]:
    """Train, or continue an interrupted training. Return the file of the best weights and their validation score.

    Args:
        run: the run.
        task: what is trained.
        folder: receives checkpoints and logs.
        device: "cpu" or "cuda".
        seconds: time limit, s.
        measure: returns validation figures of a model.
        pseudo: folder with images that have pseudo-labels.
        start_from: weights to start from, None for those of the start model.
    """
    config = full_training.training_config(
        task.start,
        run.work / "images",
        task.network.config.tokens,
        task.crops,
        learning_rate=full_training.LEARNING_RATE,
        workers=min(8, usable_cores()) if device == "cuda" else 0,
        bf16=device == "cuda",
        pseudo=pseudo,
        validated_once=bool(task.unannotated),
    )
    if start_from is not None:
        config = replace(config, start_from=str(start_from))
    return full_training.train_whole(
        config,
        folder,
        minutes=seconds / 60,
        device=device,
        measure=measure,
        listen=run.listen,
        should_stop=run.should_stop,
    )


def _train_again(
    run: Run,
    task: Task,
    stored: dict[str, Any],
    device: str,
    rest_seconds: float,
    measure: Callable[[Any], dict[str, float]],
    start_score: float,
) -> tuple[Path | None, int]:
    """Label images without annotation with the first network, and train it again with these images.

    Args:
        run: the run.
        task: what is trained.
        stored: the plan in the work folder, with the score of the first network. Labels are added.
        device: "cpu" or "cuda".
        rest_seconds: time of what follows training, s.
        measure: returns validation figures of a model.
        start_score: validation score of the start model.

    Returns:
        The file of the new weights and the number of labeled images. None if no views agree, or the validation score is
        not above that of the start model, or below that of the first network by more than chance explains.
    """
    weights = run.work / "run" / loop.BEST
    labels = label_unannotated(run, task, stored, _load(weights, task.network).to(device), device)
    if not labels:
        return None, 0
    pseudo = run.work / "labeled-images"
    sizes = plan.working_sizes(labels, task.chosen.config)
    full_training.write_scaled(labels, sizes, pseudo, task.crops.side)
    left = max(MIN_SECONDS, run.left - rest_seconds)
    again, score = _train(run, task, run.work / "run-2", device, left, measure, pseudo, weights)
    count = len(task.split.valid)
    if again is None or (count and score <= max(start_score, stored["first"] - 2 * IMAGE_NOISE / math.sqrt(count))):
        run.say("training", "images without annotation did not help; the first training counts")
        return None, 0
    return again, len(labels)


def _load(weights: Path, like: TreeFormer) -> TreeFormer:
    """Return the network of a file of weights, with the number of tokens of another network."""
    trained = load_trained(weights)
    return with_tokens(trained, like.config.tokens) if trained.config.tokens != like.config.tokens else trained
