"""Train on a CPU: the first stages of the backbone are frozen, and their features are stored once per crop.

Half of a training step is the backbone's forward pass and its gradient. With cached features the rest of the network
trains at twice the speed or better, and needs no memory for the backbone's activations. Every crop is a forward and a
backward pass of its own, with as many tokens as it needs. The loop is the ordinary one (`treeformer.training.loop`).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer._util.files import atomic_write
from treeformer.data.config import DataConfig
from treeformer.data.loader import TimedBatches
from treeformer.data.sample import Sample
from treeformer.errors import TreeformerError
from treeformer.finetuning import measuring, plan, work_folder
from treeformer.finetuning.run import Report, Run, SavedRun, Task, Trained, finish_training, never
from treeformer.hub.model_folder import ModelFolder
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.backbone import Backbone
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton
from treeformer.training.checkpoint import RunState, averaged_weights
from treeformer.training.config import OptimizerConfig, TrainingConfig
from treeformer.training.loop import BEST, CHECKPOINT, Measure, Show, TrainingRun
from treeformer.training.parallel import Replicas, Workers, usable_workers

# Largest number that float16 holds.
LARGEST = 65504.0
MAX_STORED_BYTES, MAX_TILE_BYTES = 2_000_000_000, 1_000_000_000
DISK_RESERVE_BYTES = 500_000_000
# Stages of the backbone, from the last one, that are trained. Without any, little is learned (docs/lab/finetuning.md).
TRAINED_STAGES = 1
# The warm-up is a share of the schedule. The average follows the weights closely, because there are few steps.
OPTIMIZER = OptimizerConfig(learning_rate=plan.LEARNING_RATE, backbone_factor=0.1, neck_factor=0.3, ema_decay=0.9)
WARMUP_SHARE = 0.1
# Validations without improvement after which training stops, in the second half of the schedule.
PATIENCE = 3
# An improvement of the score below this is rounding.
MIN_GAIN = 1e-4
# With few validation images, differences below this are chance.
TOLERANCE = 0.03
# Tokens of a crop: so many per node, and so many more.
TOKENS_PER_NODE, SPARE_TOKENS = 1.25, 48
CHECKPOINT_MINUTES = 1.0
# Other settings with the weights of the start model count as better from this gain on.
MIN_SETTINGS_GAIN = 0.01


class TopOfBackbone(nn.Module):
    """Takes the place of a backbone whose first stages are frozen. Returns stored features instead of computing them.

    Set `stored`, (B,channels[i],h,w) for each frozen stage, before every forward pass.
    """

    def __init__(self, backbone: Backbone, trained_stages: int = 0) -> None:
        super().__init__()
        self.channels, self.strides = backbone.channels, backbone.strides
        self.trained_names = backbone.stage_names[len(backbone.stage_names) - trained_stages :]
        for name in self.trained_names:
            self.add_module(name, getattr(backbone, name))
        self.stored: list[Tensor] = []

    def forward(self, _images: Tensor) -> list[Tensor]:
        """Return the features of all stages. Only the size of the images is used, by the caller."""
        stages = list(self.stored)
        for name in self.trained_names:
            stages.append(getattr(self, name)(stages[-1]))
        return stages


class FeatureStore:
    """Features of square images as float16 files, one per image.

    Features that would exceed `max_bytes`, over all files, are computed at every call.
    """

    def __init__(self, folder: Path, backbone: Backbone, side: int, stages: int, max_bytes: float = math.inf) -> None:
        self.folder, self.backbone, self.side = folder, backbone, side
        self.stages, self.max_bytes = stages, max_bytes
        self.shapes = [
            (1, side // stride, side // stride, channels)
            for stride, channels in zip(backbone.strides[:stages], backbone.channels[:stages], strict=True)
        ]

    @property
    def file_bytes(self) -> int:
        """Size of one file, bytes."""
        return 2 * sum(int(np.prod(shape)) for shape in self.shapes)

    def get(self, name: str, image: Callable[[], ImageArray]) -> list[Tensor]:
        """Return (1,channels[i],h,w) features of an image. Compute and store them if they are not stored yet."""
        path = self.folder / f"{name}.npy"
        stored = self._read(path)
        if stored is None:
            computed = self._compute(image())
            flat = np.concatenate([stage.permute(0, 2, 3, 1).numpy().ravel() for stage in computed])
            stored = np.clip(flat, -LARGEST, LARGEST).astype(np.float16)
            if (len(list(self.folder.glob("*.npy"))) + 1) * self.file_bytes <= self.max_bytes:
                with atomic_write(path) as temporary, temporary.open("wb") as file:
                    np.save(file, stored, allow_pickle=False)
        parts = np.split(stored, np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1])
        return [
            torch.from_numpy(part.astype(np.float32).reshape(shape)).permute(0, 3, 1, 2)
            for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def get_by_content(self, image: ImageArray) -> list[Tensor]:
        """Return the features of an image, stored under a hash of its pixels."""
        digest = hashlib.blake2b(np.ascontiguousarray(image).tobytes(), digest_size=16).hexdigest()
        return self.get(digest, lambda: image)

    def _read(self, path: Path) -> np.ndarray[tuple[int], np.dtype[np.float16]] | None:
        """Return the content of a file, None if there is none or it belongs to another network."""
        try:
            with path.open("rb") as file:
                array = np.load(file, allow_pickle=False)
        except (FileNotFoundError, ValueError, EOFError):
            return None
        fits = array.dtype == np.float16 and array.shape == (self.file_bytes // 2,)
        return array if fits else None

    @torch.no_grad()
    def _compute(self, image: ImageArray) -> list[Tensor]:
        pixels = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None].float() / 255.0
        stages: list[Tensor] = self.backbone(pixels.contiguous(memory_format=torch.channels_last))
        return stages[: self.stages]


def separate_backbone(model: TreeFormer, trained_stages: int = 0) -> Backbone:
    """Replace the backbone of a model by its trained last stages. Return the whole backbone, to be put back."""
    backbone = model.backbone
    backbone.requires_grad_(False)
    top = TopOfBackbone(backbone, trained_stages)
    top.requires_grad_(True)
    model.backbone = top  # type: ignore[assignment]  # it has the same interface
    return backbone


class StoredCrops:
    """A data set of crops: skeletons, and the stored features of the frozen stages. `make` makes a crop by number."""

    def __init__(self, store: FeatureStore, make: Callable[[int], Sample]) -> None:
        self.store, self.make = store, make
        self._skeletons: dict[int, Skeleton] = {}

    def skeleton(self, number: int) -> Skeleton:
        """Return the skeleton of a crop. Make the crop and store its features if it is new."""
        if number not in self._skeletons:
            file = self.store.folder / f"{number}.json"
            if not file.exists():
                sample = self.make(number)
                self.store.get(str(number), lambda: sample.image)
                formats.write(sample.skeleton, file)
            self._skeletons[number] = formats.read(file)
        return self._skeletons[number]

    def features(self, number: int) -> list[Tensor]:
        """Return the features of a crop."""
        return self.store.get(str(number), lambda: self.make(number).image)


@dataclass(frozen=True)
class CropBatch:
    """The numbers of the crops of one step."""

    numbers: tuple[int, ...]
    is_new: bool = True
    shape: None = None  # nothing is compiled

    @property
    def images(self) -> int:
        """Number of crops."""
        return len(self.numbers)


class CachedFeatures:
    """Batches of stored crops and the gradient of a network with a separated backbone, see `training.loop.Work`.

    All random choices depend on the seed and the step alone, so that a resumed run with the same number of workers
    gives the same result.
    """

    def __init__(
        self,
        network: TreeFormer,
        crops: StoredCrops,
        count: int,
        *,
        batch_size: int,
        max_tokens: int,
        seed: int,
        workers: Workers,
    ) -> None:
        self.network, self.crops, self.count = network, crops, count
        self.batch_size, self.max_tokens, self.seed = batch_size, max_tokens, seed
        self.images_per_batch = float(batch_size)
        self.replicas = Replicas(network, workers)

    @contextmanager
    def batches(self, state: RunState) -> Iterator[tuple[TimedBatches, TimedBatches]]:
        """Open the batches from a state on."""
        orders = (crop_order(step, self.batch_size, self.count, self.seed) for step in itertools.count(state.step))
        chosen: Iterator[Any] = (CropBatch(tuple(order)) for order in orders)
        batches = TimedBatches(chosen)
        yield batches, batches

    def gradient(self, batch: CropBatch) -> dict[str, Tensor]:
        """Set the gradient of every parameter to that of a batch. Crops of similar size are computed side by side."""
        skeletons = {number: self.crops.skeleton(number) for number in batch.numbers}
        nodes = max(1, sum(len(skeletons[number]) for number in batch.numbers))

        def backward(replica: TreeFormer, number: int) -> float:
            return _backward(replica, self.crops.features(number), skeletons[number], nodes, self)

        self.network.zero_grad(set_to_none=True)
        loss = self.replicas.backward(backward, sorted(batch.numbers, key=lambda number: len(skeletons[number])))
        return {"loss": torch.tensor(loss)}


def _backward(
    network: TreeFormer, features: list[Tensor], skeleton: Skeleton, nodes: int, work: CachedFeatures
) -> float:
    """Add the gradient of one crop, as a part of a batch with `nodes` nodes. Return its loss."""
    assert isinstance(network.backbone, TopOfBackbone)
    network.backbone.stored = features
    targets = Targets.from_skeletons([skeleton], max(2, len(skeleton)))
    wanted = max(len(skeleton), round(TOKENS_PER_NODE * len(skeleton)) + SPARE_TOKENS)
    tokens = min(wanted, work.max_tokens) if network.has_variable_tokens else None
    side = work.crops.store.side
    output = network(torch.empty(1, 3, side, side), targets, tokens)
    total = torch.stack(list(network.loss(output, targets, torch.tensor(float(nodes))).values())).sum()
    total.backward()  # type: ignore[no-untyped-call]
    return float(total.detach())


def crop_order(step: int, batch_size: int, crops: int, seed: int) -> list[int]:
    """Return the crops of a step, from 0. Every crop is used once before any is used again."""
    positions = range(step * batch_size, (step + 1) * batch_size)
    return [
        int(np.random.default_rng([seed, position // crops]).permutation(crops)[position % crops])
        for position in positions
    ]


def train_cached(
    work: CachedFeatures,
    schedule: plan.Schedule,
    folder: Path,
    *,
    optimizer: OptimizerConfig = OPTIMIZER,
    start_score: float = -1.0,
    measure: Measure | None = None,
    show: Show | None = None,
    should_stop: Callable[[], bool] = never,
    is_late: Callable[[], bool] = never,
) -> RunState:
    """Train until the schedule ends or validation no longer improves. Continue from the checkpoint if there is one.

    The network ends with the best weights, or those it started with. Without `measure` it ends with the last ones.
    """
    config = TrainingConfig(
        name="finetune",
        data=DataConfig(image_size=work.crops.store.side),
        optimizer=replace(optimizer, warmup_steps=round(WARMUP_SHARE * schedule.steps)),
        batch_size=schedule.batch_size,
        steps=schedule.steps,
        validate_every=schedule.validate_every,
        checkpoint_minutes=CHECKPOINT_MINUTES,
        patience_epochs=0 if measure is None else PATIENCE,
        epoch_images=schedule.validate_every * schedule.batch_size,
        min_steps=schedule.steps // 2 + 1,
        score_tolerance=TOLERANCE,
        precision="32",
        seed=work.seed,
    )
    weights = {name: tensor.clone() for name, tensor in work.network.state_dict().items()}
    state = TrainingRun(
        config,
        folder,
        work.network,
        work,
        measure,
        show=show,
        should_stop=should_stop,
        is_late=is_late,
        say=lambda _line: None,
        report_every=1,
        start_score=start_score + MIN_GAIN,
    ).run(resume=(folder / CHECKPOINT).exists())
    if measure is None or state.best_step:
        kept = averaged_weights(folder / (CHECKPOINT if measure is None else BEST))
        weights = {name: torch.from_numpy(np.array(array)) for name, array in kept.items()}
    work.network.load_state_dict(weights)
    return state


def train_on_cached_features(run: Run, task: Task, saved: SavedRun) -> Trained:
    """Train the last stage of the backbone, neck, decoder and heads. The network of the task is changed."""
    network, chosen, split = task.network, task.chosen, task.split
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    backbone = separate_backbone(network, TRAINED_STAGES)
    side, stages = task.crops.side, len(backbone.stage_names) - TRAINED_STAGES
    store = FeatureStore(run.work / "features", backbone, side, stages)
    tiles = FeatureStore(run.work / "tiles", backbone, side, stages, MAX_TILE_BYTES)
    engine = live_engine(network, chosen, tiles)
    workers = Workers(min(usable_workers(), plan.BATCH_SIZE))
    crops = StoredCrops(store, lambda number: plan.make_crop(number, split.train, task.working_px, task.crops))
    validations: list[float] = []  # their times, s

    def measure(_model: object = None) -> dict[str, float]:
        seconds = run.clock()
        figures = measuring.best_threshold(engine, chosen, task.judged[: task.budget.views], run.check_stop)[1]
        validations.append(run.clock() - seconds)
        return figures

    def is_late() -> bool:
        """Return True if only one more validation and the ending fit into the time limit."""
        return run.left < max(validations[-2:]) + task.budget.seconds(validations[0])

    def make_work(count: int, batch_size: int) -> CachedFeatures:
        tokens = network.config.tokens
        return CachedFeatures(
            network, crops, count, batch_size=batch_size, max_tokens=tokens, seed=run.seed, workers=workers
        )

    first = measure()  # also stores the features of its tiles
    if saved.limit != run.seconds and (run.work / CHECKPOINT).exists():
        run.say("plan", "the interrupted run keeps its number of steps, which was planned for another time limit")
    elif saved.limit != run.seconds or saved.schedule is None:
        work = make_work(2 * workers.count, plan.BATCH_SIZE)
        saved.schedule, saved.limit = _make_schedule(run, task, work, validations[0]), run.seconds
        saved.begun = True
        saved.write(run.work)
    schedule = saved.schedule
    assert schedule is not None, "a checkpoint is written after the schedule"
    run.say(
        "plan",
        f"training the top of the network on the CPU: {schedule.crops} crops, {schedule.steps} steps of "
        f"{schedule.batch_size}, about {math.ceil(schedule.seconds / 60)} minutes in all, model folder included",
        seconds_left=schedule.seconds,
    )
    for number in range(0, schedule.crops, workers.count):
        made = list(workers.map(crops.skeleton, range(number, min(number + workers.count, schedule.crops))))
        run.listen(Report("features", "", number + len(made), schedule.crops))
        run.check_stop()
    rest = task.budget.seconds(validations[0])
    state = train_cached(
        make_work(schedule.crops, schedule.batch_size),
        schedule,
        run.work,
        start_score=first["topo_f1"],
        measure=measure if split.valid else None,
        show=run.show_training(rest),
        should_stop=run.should_stop,
        is_late=is_late,
    )
    trained = finish_training(run, task, network, engine)
    network.backbone = backbone
    is_better = state.best_step or trained.score > task.start_score + MIN_SETTINGS_GAIN
    return trained if is_better or not split.valid else Trained(None, task.start_score)


def live_engine(network: TreeFormer, folder: ModelFolder, tiles: FeatureStore) -> measuring.LiveEngine:
    """Return a network with a separated backbone as an engine, for batches of one image."""

    def prepare(images: ImageArray) -> None:
        assert isinstance(network.backbone, TopOfBackbone)
        stages = [tiles.get_by_content(image) for image in images]
        network.backbone.stored = [torch.cat(parts) for parts in zip(*stages, strict=True)]

    return measuring.LiveEngine(network, folder, prepare)


def _make_schedule(run: Run, task: Task, work: CachedFeatures, validation: float) -> plan.Schedule:
    """Measure the speed of this machine and fit the run into the time limit."""
    file_bytes, workers = work.crops.store.file_bytes, work.replicas.workers
    needed = plan.MIN_CROPS * file_bytes
    free = work_folder.free_bytes(run.work) - DISK_RESERVE_BYTES
    if free < needed:
        missing = math.ceil((needed - free) / 1e6)
        raise TreeformerError(f"{run.work.parent}: the disk is too full: {missing:,} MB more are needed")

    def make_crops(first: int) -> float:
        numbers = range(first, first + workers.count)
        return plan.timed(run.clock, lambda: list(workers.map(work.crops.skeleton, numbers)))

    features = min(make_crops(0), make_crops(workers.count)) / workers.count
    batch = CropBatch(tuple(range(work.batch_size)))
    steps = [plan.timed(run.clock, lambda: work.gradient(batch)) for _ in range(2)]
    work.network.zero_grad(set_to_none=True)
    run.check_stop()
    speed = plan.Speed(features, min(steps) / work.batch_size, validation / 2, task.budget.seconds(validation))
    return plan.make_schedule(
        speed,
        run.left,
        images=len(task.split.train),
        validated=bool(task.split.valid),
        max_crops=int(min(MAX_STORED_BYTES, free) // file_bytes),
        spent=run.elapsed,
    )
