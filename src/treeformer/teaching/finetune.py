"""`finetune`: from a folder of images with corrected skeletons to a model folder.

On a CPU the backbone is frozen and its features are stored, so that neck, decoder and heads train within minutes. On a
GPU the whole network trains in the ordinary training loop.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer.data.datasets import Sample
from treeformer.decoding.calibration import EdgeCalibration
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder, ModelSettings, open_model
from treeformer.inference.open_engine import EngineName
from treeformer.inference.predictor import Predictor
from treeformer.models.export import load_trained, load_weights, save_pretrained, sizes_and_thresholds, with_tokens
from treeformer.models.quantize import calibration_images
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.targets import Targets
from treeformer.teaching import full_training, measuring, plan, result, top_training, work_folder
from treeformer.teaching.annotated import AnnotatedImage, Survey, survey
from treeformer.teaching.crops import CropSettings, make_crop
from treeformer.teaching.features import FeatureStore, join_backbone, separate_backbone
from treeformer.teaching.progress import Listener, Report, Stop, ignore, never
from treeformer.training.validation import changed_settings

Device = Literal["auto", "cpu", "cuda"]

CPU_MINUTES, GPU_MINUTES = 15.0, 5.0
# The engine that compares model folders, as `treeformer predict` uses it on a CPU.
ENGINE: EngineName = "onnx"
# Writing the model folder takes as long as computing the features of so many crops, and so many seconds more.
EXPORT_CROPS, EXPORT_SECONDS = 60, 60.0
# A fixed working size replaces the scale rule only if it is better by this much on training images.
MIN_SCALE_GAIN = 0.01
SCALE_IMAGES = 3
# Other settings with the weights of the start model count as better from this gain on.
MIN_SETTINGS_GAIN = 0.01
# The 8-bit graph is left out if its F1 is lower than that of the network by more than this.
MAX_INT8_LOSS = 0.01
INT8_CROPS = 8
MAX_STORED_BYTES, MAX_TILE_BYTES = 2_000_000_000, 1_000_000_000
DISK_RESERVE_BYTES = 500_000_000
TRAINED_STAGES = 0


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        folder: the new model folder.
        before: validation figures of the start model, by name.
        after: validation figures of the new model.
        kept_start: whether the weights are those of the start model, because none were better.
        are_training_images: whether the figures are those of training images, because there was no other.
    """

    folder: Path
    before: dict[str, float]
    after: dict[str, float]
    kept_start: bool
    are_training_images: bool


def finetune(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    start: str | os.PathLike[str] = "default",
    max_minutes: float | None = None,
    device: Device = "auto",
    seed: int = 0,
    listen: Listener = ignore,
    should_stop: Stop = never,
) -> Outcome:
    """Train a model further on own images, and write a model folder that is never worse than the start model.

    A run that is stopped or killed continues where it was if it is called again with the same arguments. Until the
    model folder is complete, everything is in a hidden work folder beside it.

    Other programs run this function in a child process, because it uses all cores and takes minutes:
    `treeformer finetune FOLDER -o MODEL --progress json` prints one JSON object per line on standard output, see
    `treeformer.teaching.progress.Report`. The last one has the stage "done" and the figures `before_topo_f1` and
    `after_topo_f1`. SIGINT or SIGTERM stop the process with exit code 130, and the same command continues. Exit code 2
    means a mistake, explained in one line on standard error.

    Args:
        folder: images with corrected skeletons beside them, or results of `treeformer predict` and `treeformer edit`.
        output: the model folder to write. It must not exist, or be empty.
        start: the model to start from: "default", a model folder, or a name on the Hugging Face hub.
        max_minutes: time limit, minutes; by default 15 on a CPU and 5 on a GPU.
        device: "cpu", "cuda", or "auto": CUDA if there is a GPU.
        seed: seed of the split, the crops and their order.
        listen: receives progress.
        should_stop: asked between images and steps. The run stops if it returns True.

    Returns:
        The figures before and after.

    Raises:
        TreeformerError: if there is no usable image, the output exists, the time is too short, or the disk is too full.
        OSError: if the disk becomes full. The run can be continued.
        KeyboardInterrupt: if `should_stop` returns True. The run can be continued.
    """
    target = Path(output)
    work_folder.check_output(target)
    if max_minutes is not None and not max_minutes > 0:
        raise TreeformerError(f"the time limit must be positive, not {max_minutes:g} minutes")
    for package in ("onnx", "onnxscript"):  # now, not after the training
        if importlib.util.find_spec(package) is None:
            raise TreeformerError(f"fine-tuning needs {package}: pip install 'treeformer[train,export]'")
    on_gpu = _choose_device(device) == "cuda"
    run = _Run(
        target, seed, on_gpu, 60 * (max_minutes or (GPU_MINUTES if on_gpu else CPU_MINUTES)), listen, should_stop
    )
    return run.run(folder, open_model(start))


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn SIGINT and SIGTERM into a request to stop, so that a checkpoint is written first.

    A second signal has its default effect. Outside the main thread, signals are left alone.

    Yields:
        The argument `should_stop` of `finetune`.
    """
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped.is_set
        return

    def request(number: int, _frame: object) -> None:
        stopped.set()
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _choose_device(device: Device) -> str:
    if device not in ("auto", "cpu", "cuda"):
        raise TreeformerError(f"the device must be auto, cpu or cuda, not {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise TreeformerError("no GPU: CUDA was requested, but torch sees no CUDA device")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


class _Run:
    """The steps of one run, in the order in which `run` calls them."""

    def __init__(
        self, output: Path, seed: int, on_gpu: bool, seconds: float, listen: Listener, should_stop: Stop
    ) -> None:
        self.output, self.seed, self.on_gpu, self.seconds = output, seed, on_gpu, seconds
        self.listen, self.should_stop = listen, should_stop
        self.began = time.monotonic()
        self.calibration: EdgeCalibration | None = None
        self.before = 0.0

    def run(self, folder: str | os.PathLike[str], start: ModelFolder) -> Outcome:
        found = survey(folder)
        for line in found.lines():
            self._say("survey", line)
        split = plan.split_images(found, self.seed)
        self._say_split(split)
        key = work_folder.fingerprint(found.images, start, {"seed": self.seed, "gpu": self.on_gpu})
        self.work, stored = work_folder.open_work_folder(self.output, key)
        if stored:
            self._say("plan", "an interrupted run with the same images continues")
        else:
            stored = {"fingerprint": key, **self._choose_scale(start, split)}
            work_folder.write_plan(self.work, stored)
        settings = _with_scale(start.config, stored)
        working_px = [stored["working_px"] or size for size in plan.working_sizes(split.train, settings)]
        crops = _crop_settings(settings, self.seed)
        network = load_weights(start)
        tokens = self._choose_tokens(network, split, settings, crops, stored["working_px"])
        network = with_tokens(network, tokens) if tokens != network.config.tokens else network
        crops = replace(crops, max_nodes=tokens - 8)
        chosen = ModelFolder(
            start.path, replace(settings, settings={**settings.settings, "tokens": tokens}), start.hashes
        )
        measured = split.valid or split.train
        before = self._figures(Predictor(start, engine=ENGINE), measured)
        self.before = before["topo_f1"]
        self._say("validation", f"start model: F1 {self.before:.3f}", before)
        train = self._train_on_gpu if self.on_gpu else self._train_on_cpu
        trained, score = train(network, chosen, start, split, working_px, crops, stored)
        return self._finish(found, split, start, chosen, trained, score, before, working_px, crops)

    # ---- plan

    def _say_split(self, split: plan.Split) -> None:
        if split.valid:
            names = ", ".join(image.name for image in split.valid[:5])
            more = f" and {len(split.valid) - 5} more" if len(split.valid) > 5 else ""
            self._say(
                "plan", f"{len(split.train)} images for training, {len(split.valid)} for validation: {names}{more}"
            )
        else:
            self._say(
                "plan",
                "no image is left for validation: training is short, and all figures are those of training images",
            )

    def _choose_scale(self, start: ModelFolder, split: plan.Split) -> dict[str, Any]:
        """Return the fixed working size as `working_px`, 0 to keep the model's own rule."""
        sizes = set(plan.working_sizes(split.train, start.config))
        side = start.config.input_size
        text = "as the start model chooses it"
        fixed = 0
        if start.config.scale_rule is not None and len(sizes) == 1 and max(split.train[0].size) > side:
            images = [image for image in split.train if len(image.skeleton)][:SCALE_IMAGES]
            (size,) = sizes
            rule = self._figures(Predictor(start, engine=ENGINE), images)["topo_f1"]
            settings = _with_scale(start.config, {"working_px": size})
            predictor = Predictor(ModelFolder(start.path, settings, start.hashes), engine=ENGINE)
            if self._figures(predictor, images)["topo_f1"] > rule + MIN_SCALE_GAIN:
                fixed, text = size, f"{size} px, better than the rule of the start model on training images"
        self._say("plan", f"working size: {text}")
        return {"working_px": fixed}

    def _choose_tokens(
        self, network: TreeFormer, split: plan.Split, settings: ModelSettings, crops: CropSettings, fixed: int
    ) -> int:
        images = (*split.train, *split.valid)
        sizes = [fixed or size for size in plan.working_sizes(images, settings)]
        if not network.has_variable_tokens:
            return network.config.tokens
        tokens = plan.choose_tokens(images, sizes, crops, network.config.tokens)
        if tokens != network.config.tokens:
            self._say("plan", f"tokens: {tokens} instead of {network.config.tokens}, because the images are dense")
        return tokens

    # ---- training on a CPU

    def _train_on_cpu(
        self,
        network: TreeFormer,
        chosen: ModelFolder,
        start: ModelFolder,
        split: plan.Split,
        working_px: Sequence[int],
        crops: CropSettings,
        stored: dict[str, Any],
    ) -> tuple[TreeFormer | None, float]:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
        backbone = separate_backbone(network, TRAINED_STAGES)
        stages = len(backbone.stage_names) - TRAINED_STAGES
        features = FeatureStore(self.work / "features", backbone, crops.side, stages)
        tiles = FeatureStore(self.work / "tiles", backbone, crops.side, stages, MAX_TILE_BYTES)
        predictor = Predictor(chosen, engine=measuring.LiveEngine(network, chosen, tiles))

        def crop(number: int) -> top_training.Crop:
            file = self.work / "features" / f"{number}.json"
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
        first = self._figures(predictor, valid)  # also stores the features of its tiles
        validation = time.monotonic() - seconds
        if "schedule" not in stored:
            schedule, export_seconds = self._schedule(network, crop, features, validation, split)
            stored |= {"schedule": asdict(schedule), "export_seconds": export_seconds}
            work_folder.write_plan(self.work, stored)
        schedule = plan.Schedule(**stored["schedule"])
        self._say(
            "plan",
            f"training neck, decoder and heads on the CPU: {schedule.crops} crops, {schedule.steps} steps of "
            f"{schedule.batch_size}, about {math.ceil(schedule.seconds / 60)} minutes in all, model folder included",
            seconds_left=schedule.seconds,
        )
        made = []
        for number in range(schedule.crops):
            made.append(crop(number))
            self.listen(Report("features", "", number + 1, schedule.crops))
            self._check_stop()
        state = top_training.train_top(
            network,
            made,
            schedule,
            top_training.Recipe(plan.LEARNING_RATE, max_tokens=network.config.tokens),
            self.work,
            seed=self.seed,
            side=crops.side,
            start_score=first["topo_f1"],
            validate=(lambda: self._figures(predictor, split.valid)) if split.valid else None,
            listen=self.listen,
            should_stop=self.should_stop,
            rest_seconds=stored["export_seconds"],
            deadline=self.began + self.seconds - stored["export_seconds"],
        )
        if (
            split.valid
            and not state.best_step
            and not (chosen.config != start.config and first["topo_f1"] > self.before + MIN_SETTINGS_GAIN)
        ):
            return None, first["topo_f1"]
        score = state.best_score if split.valid else self._figures(predictor, split.train)["topo_f1"]
        calibration = measuring.calibrate_edges(measuring.LiveEngine(network, chosen, tiles), chosen, split.valid)
        self.calibration = calibration or start.config.edge_calibration
        join_backbone(network, backbone)
        return network, score

    def _schedule(
        self,
        network: TreeFormer,
        crop: Callable[[int], top_training.Crop],
        features: FeatureStore,
        validation: float,
        split: plan.Split,
    ) -> tuple[plan.Schedule, float]:
        """Measure the speed of this machine, fit the run into the time limit, and return it with the export's time."""
        needed = plan.MIN_CROPS * features.file_bytes
        free = work_folder.free_bytes(self.work) - DISK_RESERVE_BYTES
        if free < needed:
            raise TreeformerError(f"{self.work.parent}: the disk is too full: {needed / 1e6:.0f} MB more are needed")
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
        left = self.seconds - (time.monotonic() - self.began)
        room = min(MAX_STORED_BYTES, free) // features.file_bytes
        schedule = plan.make_schedule(
            speed, left, images=len(split.train), validated=bool(split.valid), max_crops=int(room)
        )
        return schedule, speed.export

    # ---- training on a GPU

    def _train_on_gpu(
        self,
        network: TreeFormer,
        chosen: ModelFolder,
        start: ModelFolder,
        split: plan.Split,
        working_px: Sequence[int],
        crops: CropSettings,
        stored: dict[str, Any],
    ) -> tuple[TreeFormer | None, float]:
        """Train the whole network. Used on the CPU by tests only."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        data = self.work / "images"
        full_training.write_scaled(split.train, working_px, data, crops.side)
        config = full_training.training_config(
            start,
            data,
            network.config.tokens,
            crops,
            learning_rate=plan.LEARNING_RATE,
            workers=min(8, os.cpu_count() or 1) if device == "cuda" else 0,
            bf16=device == "cuda",
        )
        valid = split.valid or split.train

        def measure(model: Any) -> dict[str, float]:
            engine = measuring.LiveEngine(model, chosen, device=device)
            with changed_settings(model, {"tokens": network.config.tokens}):
                return self._figures(Predictor(chosen, engine=engine), valid)

        network.to(device)
        first = measure(network)
        left = max(30.0, self.seconds - (time.monotonic() - self.began) - EXPORT_SECONDS)
        self._say(
            "plan", f"training the whole network on {device}: at most {math.ceil(self.seconds / 60)} minutes in all"
        )
        best, score = full_training.train_whole(
            config,
            self.work / "run",
            minutes=left / 60,
            device=device,
            measure=measure,
            listen=self.listen,
            should_stop=self.should_stop,
        )
        if best is None or (split.valid and score <= first["topo_f1"]):
            return None, first["topo_f1"]
        trained = load_trained(best)
        if trained.config.tokens != network.config.tokens:
            trained = with_tokens(trained, network.config.tokens)
        calibration = measuring.calibrate_edges(measuring.LiveEngine(trained, chosen), chosen, split.valid)
        self.calibration = calibration or start.config.edge_calibration
        return trained, score

    # ---- result

    def _finish(
        self,
        found: Survey,
        split: plan.Split,
        start: ModelFolder,
        chosen: ModelFolder,
        network: TreeFormer | None,
        score: float,
        before: dict[str, float],
        working_px: Sequence[int],
        crops: CropSettings,
    ) -> Outcome:
        """Write the model folder, compare it with the start model as `predict` would run it, and keep the better."""
        measured = split.valid or split.train
        new = self.work / "model"
        shutil.rmtree(new, ignore_errors=True)
        after = before
        predictions = None
        if network is not None:
            self._say("export", "writing the model folder")
            folder = self._export(network.cpu(), chosen, split, working_px, crops)
            self._check_stop()
            predictions = measuring.predict_images(Predictor(folder, engine=ENGINE), measured, self._check_stop)
            after = measuring.score(predictions, measured)
            if after["topo_f1"] < score - MAX_INT8_LOSS:
                self._say("export", f"the 8-bit graph loses too much (F1 {after['topo_f1']:.3f}), left out")
                folder = self._export(network, chosen, split, working_px, crops, int8=False)
                predictions = measuring.predict_images(Predictor(folder, engine=ENGINE), measured, self._check_stop)
                after = measuring.score(predictions, measured)
        comparison = result.Comparison(before, after, measured, not split.valid)
        kept = not comparison.improved
        if kept:
            shutil.rmtree(new, ignore_errors=True)
            result.copy_start_model(start, new)
            comparison = replace(comparison, after=before)
            predictions = measuring.predict_images(Predictor(start, engine=ENGINE), measured, self._check_stop)
        overlays = result.write_overlays(new, measured, predictions or [])
        size = "chosen per image" if chosen.config.scale_rule else f"{chosen.config.working_size} px"
        text = result.card_text(
            self.output.name,
            found,
            split.train,
            comparison,
            start=start,
            kept_start=kept,
            settings=[
                ("trained parts", "none" if kept else "all" if self.on_gpu else "neck, decoder, heads"),
                ("working size", size),
                ("tokens", str(chosen.config.settings.get("tokens"))),
                ("time", f"{(time.monotonic() - self.began) / 60:.1f} minutes"),
            ],
            overlays=overlays,
        )
        result.write_card(new, text)
        work_folder.publish(new, self.output)
        shutil.rmtree(self.work, ignore_errors=True)
        final = dict(comparison.after)
        figures = {"before_topo_f1": before["topo_f1"], "after_topo_f1": final["topo_f1"]}
        where = "training" if not split.valid else "validation"
        end = f"{self.output}: F1 {before['topo_f1']:.3f} before, {final['topo_f1']:.3f} after on {where} images"
        if kept:
            end += "; training did not help, so this is the start model"
        self.listen(Report("done", end, 1, 1, 0.0, figures))
        return Outcome(self.output, dict(before), final, kept, not split.valid)

    def _export(
        self,
        network: TreeFormer,
        chosen: ModelFolder,
        split: plan.Split,
        working_px: Sequence[int],
        crops: CropSettings,
        *,
        int8: bool = True,
    ) -> ModelFolder:
        own = (
            make_crop(number, split.train, working_px, replace(crops, synthetic_every=0)).image
            for number in range(INT8_CROPS)
        )
        settings = sizes_and_thresholds(chosen) | {"edge_calibration": self.calibration}
        settings["version"] = f"{settings['version']}+{self.output.name}"[:100] if settings["version"] else ""
        images = itertools.chain(own, calibration_images(crops.side, INT8_CROPS))
        return save_pretrained(network, self.work / "model", int8=int8, images=images, **settings)

    # ---- helpers

    def _figures(self, predictor: Predictor, images: Sequence[AnnotatedImage]) -> dict[str, float]:
        return measuring.score(measuring.predict_images(predictor, images, self._check_stop), images)

    def _check_stop(self) -> None:
        if self.should_stop():
            raise KeyboardInterrupt

    def _say(
        self, stage: str, line: str, figures: dict[str, float] | None = None, seconds_left: float | None = None
    ) -> None:
        self.listen(Report(stage, line, seconds_left=seconds_left, figures=figures or {}))


def _with_scale(settings: ModelSettings, stored: dict[str, Any]) -> ModelSettings:
    """Return settings with a fixed working size, if one was chosen."""
    size = stored["working_px"]
    return replace(settings, working_size=size, scale_rule=None) if size else settings


def _crop_settings(settings: ModelSettings, seed: int) -> CropSettings:
    grid = settings.settings.get("grid_px", 0.0)
    return CropSettings(
        settings.input_size,
        max_nodes=plan.MAX_TOKENS,
        grid_px=float(grid) if isinstance(grid, int | float) else 0.0,
        synthetic_every=plan.SYNTHETIC_EVERY,
        seed=seed,
    )
