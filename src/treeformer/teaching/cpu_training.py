"""Train on a CPU: the backbone is frozen and its features are stored, so that the rest trains within minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer.data.datasets import Sample
from treeformer.errors import TreeformerError
from treeformer.inference.predictor import Predictor
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.targets import Targets
from treeformer.teaching import measuring, plan, top_training, work_folder
from treeformer.teaching.crops import make_crop
from treeformer.teaching.features import FeatureStore, join_backbone, separate_backbone
from treeformer.teaching.progress import Report
from treeformer.teaching.run import EXPORT_CROPS, EXPORT_SECONDS, Run, Task, Trained

# Other settings with the weights of the start model count as better from this gain on.
MIN_SETTINGS_GAIN = 0.01
MAX_STORED_BYTES, MAX_TILE_BYTES = 2_000_000_000, 1_000_000_000
DISK_RESERVE_BYTES = 500_000_000
TRAINED_STAGES = 0


def train_on_cpu(run: Run, task: Task, stored: dict[str, Any]) -> Trained:
    """Train neck, decoder and heads with stored features of the frozen backbone.

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
    network, chosen, start, split, working_px, crops, start_score = task
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    backbone = separate_backbone(network, TRAINED_STAGES)
    stages = len(backbone.stage_names) - TRAINED_STAGES
    features = FeatureStore(run.work / "features", backbone, crops.side, stages)
    tiles = FeatureStore(run.work / "tiles", backbone, crops.side, stages, MAX_TILE_BYTES)
    predictor = Predictor(chosen, engine=measuring.LiveEngine(network, chosen, tiles))

    def crop(number: int) -> top_training.Crop:
        file = run.work / "features" / f"{number}.json"
        sample: list[Sample] = []

        def image() -> ImageArray:
            sample[:] = sample or [make_crop(number, split.train, working_px, crops)]
            return sample[0].image

        if not file.exists():
            image()
            features.get(str(number), image)
            formats.write(sample[0].skeleton, file)
            sample.clear()
        skeleton = formats.read(file)
        return (lambda: features.get(str(number), image)), skeleton

    valid = split.valid or split.train[:1]
    seconds = time.monotonic()
    first = run.figures(predictor, valid)  # also stores the features of its tiles
    validation = time.monotonic() - seconds
    if "schedule" not in stored:
        schedule, export_seconds = _schedule(run, network, crop, features, validation, split)
        stored |= {"schedule": asdict(schedule), "export_seconds": export_seconds}
        work_folder.write_plan(run.work, stored)
    schedule = plan.Schedule(**stored["schedule"])
    run.say(
        "plan",
        f"training neck, decoder and heads on the CPU: {schedule.crops} crops, {schedule.steps} steps of "
        f"{schedule.batch_size}, about {math.ceil(schedule.seconds / 60)} minutes in all, model folder included",
        seconds_left=schedule.seconds,
    )
    made = []
    for number in range(schedule.crops):
        made.append(crop(number))
        run.listen(Report("features", "", number + 1, schedule.crops))
        run.check_stop()
    state = top_training.train_top(
        network,
        made,
        schedule,
        top_training.Recipe(plan.LEARNING_RATE, max_tokens=network.config.tokens),
        run.work,
        seed=run.seed,
        side=crops.side,
        start_score=first["topo_f1"],
        validate=(lambda: run.figures(predictor, split.valid)) if split.valid else None,
        listen=run.listen,
        should_stop=run.should_stop,
        rest_seconds=stored["export_seconds"],
        deadline=run.began + run.seconds - stored["export_seconds"],
    )
    if (
        split.valid
        and not state.best_step
        and not (chosen.config != start.config and first["topo_f1"] > start_score + MIN_SETTINGS_GAIN)
    ):
        return Trained(None, first["topo_f1"])
    score = state.best_score if split.valid else run.figures(predictor, split.train)["topo_f1"]
    calibration = measuring.calibrate_edges(measuring.LiveEngine(network, chosen, tiles), chosen, split.valid)
    join_backbone(network, backbone)
    return Trained(network, score, calibration or start.config.edge_calibration)


def _schedule(
    run: Run,
    network: TreeFormer,
    crop: Callable[[int], top_training.Crop],
    features: FeatureStore,
    validation: float,
    split: plan.Split,
) -> tuple[plan.Schedule, float]:
    """Measure the speed of this machine, fit the run into the time limit, and return it with the export's time."""
    needed = plan.MIN_CROPS * features.file_bytes
    free = work_folder.free_bytes(run.work) - DISK_RESERVE_BYTES
    if free < needed:
        raise TreeformerError(f"{run.work.parent}: the disk is too full: {needed / 1e6:.0f} MB more are needed")
    seconds = [plan.timed(time.monotonic, lambda number=number: crop(number)) for number in range(2)]  # type: ignore[misc]
    stored, skeleton = crop(0)
    network.backbone.stored = stored()  # type: ignore[assignment]
    targets = Targets.from_skeletons([skeleton], max(2, len(skeleton)))

    def step() -> None:
        side = features.shapes[0][1] * features.backbone.strides[0]
        output = network(torch.empty(1, 3, side, side), targets)
        torch.stack(list(network.loss(output, targets).values())).sum().backward()  # type: ignore[no-untyped-call]
        network.zero_grad(set_to_none=True)

    steps = [plan.timed(time.monotonic, step) for _ in range(2)]
    speed = plan.Speed(
        min(seconds), min(steps), validation / 2, EXPORT_SECONDS + EXPORT_CROPS * min(seconds) + validation
    )
    left = run.seconds - run.elapsed
    room = min(MAX_STORED_BYTES, free) // features.file_bytes
    schedule = plan.make_schedule(
        speed, left, images=len(split.train), validated=bool(split.valid), max_crops=int(room)
    )
    return schedule, speed.export
