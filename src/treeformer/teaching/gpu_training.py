"""Train on a GPU: the whole network, with `full_training`, from annotated images to the best weights."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from treeformer._util.cores import usable_cores
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.predictor import Predictor
from treeformer.models.export import load_trained, with_tokens
from treeformer.teaching import full_training, measuring, views
from treeformer.teaching.run import Run, Task, Trained
from treeformer.training.validation import changed_settings

# Training lasts at least this long, s.
MIN_SECONDS = 30.0


def train_on_gpu(run: Run, task: Task, _stored: dict[str, Any]) -> Trained:
    """Train the whole network. Used on the CPU by tests only.

    Args:
        run: the run.
        task: what is trained.
        _stored: the plan in the work folder, not needed.

    Returns:
        The best network.

    Raises:
        KeyboardInterrupt: if the run is to stop.
    """
    network, chosen, split = task.network, task.chosen, task.split
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = run.work / "images"
    full_training.write_scaled(split.train, task.working_px, data, task.crops.side)
    config = full_training.training_config(
        task.start,
        data,
        network.config.tokens,
        task.crops,
        learning_rate=full_training.LEARNING_RATE,
        workers=min(8, usable_cores()) if device == "cuda" else 0,
        bf16=device == "cuda",
    )
    valid = split.valid or split.train

    def measure(model: Any) -> dict[str, float]:
        engine = measuring.LiveEngine(model, chosen, device=device)
        with changed_settings(model, {"tokens": network.config.tokens}):
            if not split.valid:
                return run.figures(Predictor(chosen, engine=engine), valid)
            return views.best_threshold(engine, chosen, task.judged[: task.ending.views], run.check_stop)[1]

    network.to(device)
    began = run.clock()
    first = measure(network)
    measured = task.ending.views if split.valid else len(valid)
    validation = (run.clock() - began) * task.ending.views / max(1, measured)
    left = max(MIN_SECONDS, run.left - task.ending.seconds(validation))
    run.say("plan", f"training the whole network on {device}: at most {math.ceil(run.seconds / 60)} minutes in all")
    best, score = full_training.train_whole(
        config,
        run.work / "run",
        minutes=left / 60,
        device=device,
        measure=measure,
        listen=run.listen,
        should_stop=run.should_stop,
    )
    if best is None or (split.valid and score <= first["topo_f1"]):
        return Trained(None, first["topo_f1"])
    trained = load_trained(best)
    if trained.config.tokens != network.config.tokens:
        trained = with_tokens(trained, network.config.tokens)
    engine = views.RememberingEngine(measuring.LiveEngine(trained.to(device), chosen, device=device))
    threshold = chosen.config.node_threshold
    if split.valid:
        threshold = views.cautious_threshold(engine, chosen, task.judged, task.groups, run.check_stop)
    final = ModelFolder(chosen.path, replace(chosen.config, node_threshold=threshold), chosen.hashes)
    predictor = Predictor(final, engine=engine)
    score = run.figures(predictor, valid)["topo_f1"]
    calibration = measuring.calibrate_edges(engine, final, split.valid)
    trees = measuring.predict_images(predictor, task.judged, run.check_stop)
    return Trained(trained, score, calibration or task.start.config.edge_calibration, threshold, trees)
