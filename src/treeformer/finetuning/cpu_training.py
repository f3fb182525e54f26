"""Train on a CPU: the first stages of the backbone are frozen and their features stored, to train within minutes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer.data.sample import Sample
from treeformer.errors import TreeformerError
from treeformer.finetuning import measuring, plan, top_training, views, work_folder
from treeformer.finetuning.crops import make_crop
from treeformer.finetuning.features import FeatureStore, join_backbone, separate_backbone
from treeformer.finetuning.parallel import Replicas, Workers, usable_workers
from treeformer.finetuning.progress import Report
from treeformer.finetuning.run import Run, Task, Trained
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.predictor import Predictor

# Other settings with the weights of the start model count as better from this gain on.
MIN_SETTINGS_GAIN = 0.01
MAX_STORED_BYTES, MAX_TILE_BYTES = 2_000_000_000, 1_000_000_000
DISK_RESERVE_BYTES = 500_000_000
# Stages of the backbone, from the last one, that are trained. Without any, little is learned (docs/lab/finetuning.md).
TRAINED_STAGES = 1


def train_on_cpu(run: Run, task: Task, stored: dict[str, Any]) -> Trained:
    """Train the last stage of the backbone, neck, decoder and heads with stored features of the stages before.

    Args:
        run: the run.
        task: what is trained. Its network is changed.
        stored: the plan in the work folder. The schedule is added.

    Returns:
        The best network.

    Raises:
        TreeformerError: if the disk is too full or the time is too short.
        KeyboardInterrupt: if the run is to stop.
    """
    network, chosen, split = task.network, task.chosen, task.split
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    backbone = separate_backbone(network, TRAINED_STAGES)
    stages = len(backbone.stage_names) - TRAINED_STAGES
    features = FeatureStore(run.work / "features", backbone, task.crops.side, stages)
    tiles = FeatureStore(run.work / "tiles", backbone, task.crops.side, stages, MAX_TILE_BYTES)
    engine = measuring.LiveEngine(network, chosen, tiles)
    workers = Workers(min(usable_workers(), plan.BATCH_SIZE))

    def crop(number: int) -> top_training.Crop:
        file = run.work / "features" / f"{number}.json"
        sample: list[Sample] = []

        def image() -> ImageArray:
            sample[:] = sample or [make_crop(number, split.train, task.working_px, task.crops)]
            return sample[0].image

        if not file.exists():
            image()
            features.get(str(number), image)
            formats.write(sample[0].skeleton, file)
            sample.clear()
        skeleton = formats.read(file)
        return (lambda: features.get(str(number), image)), skeleton

    validations: list[float] = []

    def validate() -> dict[str, float]:
        seconds = run.clock()
        figures = views.best_threshold(engine, chosen, task.judged[: task.ending.views], run.check_stop)[1]
        validations.append(run.clock() - seconds)
        return figures

    def is_late() -> bool:
        """Return True if only one more validation and the ending fit into the time limit."""
        return run.left < max(validations[-2:]) + task.ending.seconds(validations[0])

    first = validate()  # also stores the features of its tiles
    is_trained = (run.work / top_training.CHECKPOINT).exists()
    if is_trained and stored.get("limit") != run.seconds:
        run.say("plan", "the interrupted run keeps its number of steps, which was planned for another time limit")
    elif stored.get("limit") != run.seconds:
        stored["limit"] = run.seconds
        stored["schedule"] = asdict(_schedule(run, task, crop, features, validations[0], workers))
        work_folder.write_plan(run.work, stored)
    schedule = plan.Schedule(**stored["schedule"])
    run.say(
        "plan",
        f"training the top of the network on the CPU: {schedule.crops} crops, {schedule.steps} steps of "
        f"{schedule.batch_size}, about {math.ceil(schedule.seconds / 60)} minutes in all, model folder included",
        seconds_left=schedule.seconds,
    )
    made: list[top_training.Crop] = []
    for number in range(0, schedule.crops, workers.count):
        made += workers.map(crop, range(number, min(number + workers.count, schedule.crops)))
        run.listen(Report("features", "", len(made), schedule.crops))
        run.check_stop()
    state = top_training.train_top(
        network,
        made,
        schedule,
        top_training.Recipe(plan.LEARNING_RATE, max_tokens=network.config.tokens),
        run.work,
        seed=run.seed,
        side=task.crops.side,
        start_score=first["topo_f1"],
        validate=validate if split.valid else None,
        listen=run.listen,
        should_stop=run.should_stop,
        rest_seconds=task.ending.seconds(validations[0]),
        is_late=is_late,
        workers=workers.count,
    )
    threshold = chosen.config.node_threshold
    remembering = views.RememberingEngine(engine)
    if split.valid:
        threshold = views.cautious_threshold(remembering, chosen, task.judged, task.groups, run.check_stop)
    final = ModelFolder(chosen.path, replace(chosen.config, node_threshold=threshold), chosen.hashes)
    predictor = Predictor(final, engine=remembering)
    score = run.figures(predictor, split.valid or split.train)["topo_f1"]
    if split.valid and not state.best_step and score <= task.start_score + MIN_SETTINGS_GAIN:
        return Trained(None, task.start_score)
    calibration = measuring.calibrate_edges(remembering, final, split.valid)
    trees = measuring.predict_images(predictor, task.judged, run.check_stop)
    join_backbone(network, backbone)
    return Trained(network, score, calibration or task.start.config.edge_calibration, threshold, trees)


def _schedule(
    run: Run,
    task: Task,
    crop: Callable[[int], top_training.Crop],
    features: FeatureStore,
    validation: float,
    workers: Workers,
) -> plan.Schedule:
    """Measure the speed of this machine and fit the run into the time limit."""
    network, split = task.network, task.split
    needed = plan.MIN_CROPS * features.file_bytes
    free = work_folder.free_bytes(run.work) - DISK_RESERVE_BYTES
    if free < needed:
        missing = math.ceil((needed - free) / 1e6)
        raise TreeformerError(f"{run.work.parent}: the disk is too full: {missing:,} MB more are needed")
    seconds = [
        plan.timed(run.clock, lambda first=first: list(workers.map(crop, range(first, first + workers.count))))  # type: ignore[misc]
        for first in (0, workers.count)
    ]
    per_crop = min(seconds) / workers.count
    replicas = Replicas(network, workers)
    side = features.shapes[0][1] * features.backbone.strides[0]
    batch = [crop(number) for number in range(plan.BATCH_SIZE)]

    def step() -> None:
        top_training.step_gradient(replicas, batch, side, network.config.tokens, run.should_stop)
        network.zero_grad(set_to_none=True)

    steps = [plan.timed(run.clock, step) for _ in range(2)]
    run.check_stop()
    speed = plan.Speed(per_crop, min(steps) / plan.BATCH_SIZE, validation / 2, task.ending.seconds(validation))
    room = min(MAX_STORED_BYTES, free) // features.file_bytes
    return plan.make_schedule(
        speed,
        run.left,
        images=len(split.train),
        validated=bool(split.valid),
        max_crops=int(room),
        spent=run.elapsed,
    )
