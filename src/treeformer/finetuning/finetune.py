"""`finetune`: from a folder of images with corrected skeletons to a model folder.

On a CPU the first stages of the backbone are frozen and their features are stored, so that the rest trains within
minutes. On a GPU the whole network trains in the ordinary training loop.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from treeformer._util.arrays import ImageArray
from treeformer._util.locks import sole_lock
from treeformer.errors import TreeformerError
from treeformer.finetuning import measuring, plan, pseudo_labels, result, views, work_folder
from treeformer.finetuning.annotated import Survey, shown_name, survey
from treeformer.finetuning.cpu_training import train_on_cpu
from treeformer.finetuning.crops import CropSettings, make_crop
from treeformer.finetuning.ending import EndingTime, int8_loss, rehearse_export
from treeformer.finetuning.gpu_training import train_on_gpu
from treeformer.finetuning.progress import Listener, Report, Stop, ignore, never
from treeformer.finetuning.run import Run, Task, Trained
from treeformer.hub.model_folder import (
    CONFIG,
    INT8_GRAPH,
    ModelFolder,
    ModelSettings,
    open_model,
    read_folder,
    write_config,
)
from treeformer.inference.open_engine import EngineName
from treeformer.inference.predictor import Predictor
from treeformer.models.export import load_weights, save_pretrained, sizes_and_thresholds, with_tokens
from treeformer.models.quantize import calibration_images
from treeformer.models.treeformer import TreeFormer
from treeformer.skeleton import Skeleton

Device = Literal["auto", "cpu", "cuda"]

CPU_MINUTES, GPU_MINUTES = 15.0, 5.0
# The engine that compares model folders, as `treeformer predict` uses it on a CPU.
ENGINE: EngineName = "onnx"
# A fixed working size replaces the scale rule only if it is better by this much on training images.
MIN_SCALE_GAIN = 0.01
SCALE_IMAGES = 3
# Own crops from which the ranges of the 8-bit graph are measured, and as many synthetic images.
INT8_CROPS = 8
# Training images that help to choose the node threshold and to judge the 8-bit graph.
MAX_JUDGED_TRAINING = 8


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
    unannotated: bool = False,
    listen: Listener = ignore,
    should_stop: Stop = never,
    began: float | None = None,
) -> Outcome:
    """Train a model further on own images, and write a model folder that is never worse than the start model.

    A run that is stopped or killed continues where it was if it is called again with the same arguments. Until the
    model folder is complete, everything is in a hidden work folder beside it. A run that is refused before the training
    leaves nothing behind, unless it would have continued an earlier one.

    Other programs run this function in a child process, because it uses all cores and takes minutes:
    `treeformer finetune FOLDER -o MODEL --progress json` prints one JSON object per line on standard output, see
    `treeformer.finetuning.progress.Report`. The last one has the stage "done" and the figures `before_topo_f1` and
    `after_topo_f1`; with `unannotated`, also `pseudo_labels`, the number of images with pseudo-labels that the model
    was trained on. SIGINT or SIGTERM stop the process with exit code 130, and the same command continues. Exit code 2
    means a mistake, explained in one line on standard error.

    Args:
        folder: images with corrected skeletons beside them, or results of `treeformer predict` and `treeformer edit`.
        output: the model folder to write. It must not exist, or be empty.
        start: the model to start from: "default", "small", a model folder, or a name on the Hugging Face hub.
        max_minutes: time limit of the whole run, minutes; by default 15 on a CPU and 5 on a GPU.
        device: "cpu", "cuda", or "auto": CUDA if there is a GPU.
        seed: seed of the split, the crops and their order.
        unannotated: learn from images without corrected skeletons, too: from the trees on which several views of them
            agree after a first training. Needs a GPU.
        listen: receives progress.
        should_stop: asked between images and steps. The run stops if it returns True.
        began: value of `time.monotonic` from which the time limit counts, s. None is now.

    Returns:
        The figures before and after.

    Raises:
        TreeformerError: if there is no usable image, the output exists, the time is too short, or the disk is too full.
        OSError: if the disk becomes full. The run can be continued.
        KeyboardInterrupt: if `should_stop` returns True. The run can be continued.
    """
    target = Path(output)
    work_folder.check_output(target)
    if max_minutes is not None and not 0 < max_minutes < math.inf:
        raise TreeformerError(f"the time limit must be positive and finite, not {max_minutes:g} minutes")
    for package in ("onnx", "onnxscript"):  # now, not after the training
        if importlib.util.find_spec(package) is None:
            raise TreeformerError(f"fine-tuning needs {package}: pip install 'treeformer[train,export]'")
    on_gpu = _choose_device(device) == "cuda"
    if unannotated and not on_gpu:
        raise TreeformerError("--unannotated needs a GPU: such images help only if the whole network is trained")
    seconds = 60 * (max_minutes or (GPU_MINUTES if on_gpu else CPU_MINUTES))
    run = Run(target, work_folder.work_folder_of(target), seed, seconds, listen, should_stop)
    run = run if began is None else replace(run, began=began)
    with work_folder.without_empty_parents(target), sole_lock(work_folder.lock_file_of(target)) as is_ours:
        if not is_ours:
            raise TreeformerError(f"{target}: another run is writing this model; wait for it, or choose another name")
        return _Steps(run, on_gpu, unannotated).run_all(folder, open_model(start))


def _choose_device(device: Device) -> str:
    if device not in ("auto", "cpu", "cuda"):
        raise TreeformerError(f"the device must be auto, cpu or cuda, not {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise TreeformerError("no GPU: CUDA was requested, but torch sees no CUDA device")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


class _Steps:
    """The steps of one run, in the order in which `run_all` calls them."""

    def __init__(self, run: Run, on_gpu: bool, unannotated: bool) -> None:
        self.run, self.on_gpu, self.unannotated = run, on_gpu, unannotated
        # The plan of a work folder that this run has begun, until training starts. On a CPU the schedule ends it.
        self._new_plan: dict[str, Any] | None = None

    def run_all(self, folder: str | os.PathLike[str], start: ModelFolder) -> Outcome:
        try:
            return self._run_all(folder, start)
        except TreeformerError:
            if self._new_plan is not None and "schedule" not in self._new_plan:
                shutil.rmtree(self.run.work, ignore_errors=True)
            raise

    def _run_all(self, folder: str | os.PathLike[str], start: ModelFolder) -> Outcome:
        run = self.run
        found = survey(folder, run.check_stop)
        for line in found.lines(pseudo_labels=self.unannotated):
            run.say("survey", line)
        # Sorted, so that a run also continues if some of them have been predicted in the meantime.
        others = sorted((*found.without_skeleton, *found.uncorrected)) if self.unannotated else []
        if others:
            run.say("survey", pseudo_labels.LIMITS)
        split = plan.split_images(found, run.seed)
        if self.unannotated and not others:
            raise TreeformerError(f"{found.folder}: every image has a corrected skeleton; there is none to label")
        self._say_split(split)
        options: dict[str, Any] = {
            "seed": run.seed,
            "gpu": self.on_gpu,
            "valid": sorted(image.name for image in split.valid),
        }
        if self.unannotated:
            options["unannotated"] = [shown_name(path, found.folder) for path in others]
        key = work_folder.fingerprint(found.images, start, options)
        _, stored = work_folder.open_work_folder(run.output, key)
        if stored:
            run.say("plan", "an interrupted run with the same images continues")
        else:
            self._new_plan = stored
            stored |= {"fingerprint": key, "unannotated": self.unannotated, **self._choose_scale(start, split)}
            work_folder.write_plan(run.work, stored)
        for other in work_folder.other_runs(run.output):
            run.say("plan", f"an interrupted run with other images or options is kept in {other.name}")
        settings = _with_scale(start.config, stored)
        working_px = [stored["working_px"] or size for size in plan.working_sizes(split.train, settings)]
        crops = plan.crop_settings(settings, run.seed)
        network = load_weights(start)
        tokens = self._choose_tokens(network, split, settings, crops, stored["working_px"])
        network = with_tokens(network, tokens) if tokens != network.config.tokens else network
        crops = replace(crops, max_nodes=tokens - 8)
        chosen = ModelFolder(
            start.path, replace(settings, settings={**settings.settings, "tokens": tokens}), start.hashes
        )
        measured = split.valid or split.train
        predictor = Predictor(start, engine=ENGINE)
        seconds = run.clock()
        trees = measuring.predict_images(predictor, measured, run.check_stop)
        seconds = (run.clock() - seconds) / len(measured)
        before = measuring.score(trees, measured)
        run.say("validation", f"start model: F1 {before['topo_f1']:.3f}", before)
        some_plant = next(image for image in split.train if len(image.skeleton))
        seen = views.make_views(split.valid or [some_plant], run.work / "views")
        judged = [*seen, *(split.train[:MAX_JUDGED_TRAINING] if split.valid else ())]
        groups = [number // views.VIEWS if number < len(seen) else number for number in range(len(judged))]
        untimed = EndingTime(0.0, seconds, len(measured), len(judged), len(seen))
        task = Task(
            network=network,
            chosen=chosen,
            start=start,
            split=split,
            working_px=working_px,
            crops=crops,
            start_score=before["topo_f1"],
            ending=untimed,
            judged=judged,
            groups=groups,
            unannotated=others,
            root=found.folder,
        )
        task = replace(task, ending=untimed._replace(export=self._rehearse(task)))
        if self.on_gpu:
            self._new_plan = None
        train = train_on_gpu if self.on_gpu else train_on_cpu
        return self._finish(found, task, train(run, task, stored), before, trees)

    # ---- plan

    def _say_split(self, split: plan.Split) -> None:
        if split.valid:
            names = ", ".join(image.name for image in split.valid[:5])
            more = f" and {len(split.valid) - 5} more" if len(split.valid) > 5 else ""
            self.run.say(
                "plan", f"{len(split.train)} images for training, {len(split.valid)} for validation: {names}{more}"
            )
        else:
            self.run.say(
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
            rule = self.run.figures(Predictor(start, engine=ENGINE), images)["topo_f1"]
            settings = _with_scale(start.config, {"working_px": size})
            predictor = Predictor(ModelFolder(start.path, settings, start.hashes), engine=ENGINE)
            if self.run.figures(predictor, images)["topo_f1"] > rule + MIN_SCALE_GAIN:
                fixed, text = size, f"{size} px, better than the rule of the start model on training images"
        self.run.say("plan", f"working size: {text}")
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
            self.run.say("plan", f"tokens: {tokens} instead of {network.config.tokens}, because the images are dense")
        return tokens

    def _rehearse(self, task: Task) -> float:
        """Write the graph, which does not depend on the training, and return the time of the final export, s."""
        self.run.say("plan", "writing the graph of the network and measuring how long the model folder will take")
        plain = Trained(task.network, 0.0)
        if not (self._graph_folder / CONFIG).exists():
            self._export(task, plain, self._graph_folder, int8=False)
        self.run.check_stop()
        folder = self.run.work / "rehearsal"
        images = self._int8_images(task)
        seconds = rehearse_export(
            lambda some: self._export(task, plain, folder, images=some), images, 2 * INT8_CROPS, self.run.clock
        )
        shutil.rmtree(folder, ignore_errors=True)
        return seconds

    # ---- result

    @property
    def _graph_folder(self) -> Path:
        """A model folder with the start model's weights and the graph of the new model."""
        return self.run.work / "graph"

    def _finish(
        self, found: Survey, task: Task, trained: Trained, before: dict[str, float], start_trees: Sequence[Skeleton]
    ) -> Outcome:
        """Write the model folder, compare it with the start model as `predict` would run it, and keep the better."""
        chosen, split = task.chosen, task.split
        measured = split.valid or split.train
        new = self.run.work / "model"
        shutil.rmtree(new, ignore_errors=True)
        after = before
        predictions = start_trees
        if trained.network is not None:
            self.run.say("export", "writing the model folder")
            folder = self._export(task, trained, new, images=self._int8_images(task))
            self.run.check_stop()
            folder, trees = self._judge_int8(folder, task, trained)
            if folder.has_int8 and split.valid:  # the first view of every validation image is the image itself
                predictions = trees[: views.VIEWS * len(measured) : views.VIEWS]
            else:
                predictions = measuring.predict_images(Predictor(folder, engine=ENGINE), measured, self.run.check_stop)
            after = measuring.score(predictions, measured)
        comparison = result.Comparison(before, after, measured, not split.valid)
        kept = not comparison.improved
        if kept:
            shutil.rmtree(new, ignore_errors=True)
            result.copy_start_model(task.start, new)
            comparison = replace(comparison, after=before)
            predictions = start_trees
        overlays = result.write_overlays(new, measured, predictions)
        used = (task.start if kept else chosen).config
        size = "chosen per image" if used.scale_rule else f"{used.working_size} px"
        text = result.card_text(
            self.run.output.name,
            found,
            split.train,
            comparison,
            start=task.start,
            kept_start=kept,
            settings=[
                *([] if kept or not task.unannotated else [("images with pseudo-labels", str(trained.labeled))]),
                (
                    "trained parts",
                    "none" if kept else "all" if self.on_gpu else "all but the first stages of the backbone",
                ),
                ("working size", size),
                ("tokens", str(used.settings.get("tokens"))),
                *(
                    []
                    if kept or trained.node_threshold is None
                    else [("node threshold", f"{trained.node_threshold:g}")]
                ),
                ("time", f"{self.run.elapsed / 60:.1f} minutes"),
            ],
            overlays=overlays,
        )
        result.write_card(new, text)
        work_folder.publish(new, self.run.output)
        for work in (self.run.work, *work_folder.other_runs(self.run.output)):
            shutil.rmtree(work, ignore_errors=True)
        final = dict(comparison.after)
        figures = {"before_topo_f1": before["topo_f1"], "after_topo_f1": final["topo_f1"]}
        if task.unannotated:
            figures["pseudo_labels"] = 0 if kept else trained.labeled
        where = "training" if not split.valid else "validation"
        end = f"{self.run.output}: F1 {before['topo_f1']:.3f} before, {final['topo_f1']:.3f} after on {where} images"
        if kept:
            end += "; training did not help, so this is the start model"
        self.run.listen(Report("done", end, 1, 1, 0.0, figures))
        return Outcome(self.run.output, dict(before), final, kept, not split.valid)

    def _judge_int8(self, folder: ModelFolder, task: Task, trained: Trained) -> tuple[ModelFolder, Sequence[Skeleton]]:
        """Remove the 8-bit graph if it is worse than the network. Return the folder and the trees of that graph."""
        trees = measuring.predict_images(Predictor(folder, engine=ENGINE), task.judged, self.run.check_stop)
        loss = int8_loss(trained.judged, trees, task.judged, task.groups)
        figures = f"F1 {-loss.mean:+.3f}, standard error {loss.error:.3f}, {len(task.judged)} images and views"
        if not loss.is_too_large:
            self.run.say("export", f"8-bit graph: {figures}")
            return folder, trees
        self.run.say("export", f"the 8-bit graph loses too much, left out: {figures}")
        (folder.path / INT8_GRAPH).unlink()
        return write_config(folder.path, folder.config), trees

    def _int8_images(self, task: Task) -> Iterator[ImageArray]:
        """Yield the images from which the ranges of the 8-bit graph are measured."""
        own = replace(task.crops, synthetic_every=0)
        for number in range(INT8_CROPS):
            yield make_crop(number, task.split.train, task.working_px, own).image
        yield from calibration_images(task.crops.side, INT8_CROPS)

    def _export(
        self, task: Task, trained: Trained, path: Path, *, int8: bool = True, images: Iterable[ImageArray] | None = None
    ) -> ModelFolder:
        """Write a model folder with the graph of an earlier one, if there is one."""
        assert trained.network is not None
        settings = sizes_and_thresholds(task.chosen) | {"edge_calibration": trained.calibration}
        if trained.node_threshold is not None:
            settings["node_threshold"] = trained.node_threshold
        settings["version"] = f"{settings['version']}+{self.run.output.name}"[:100] if settings["version"] else ""
        like = read_folder(self._graph_folder) if (self._graph_folder / CONFIG).exists() else task.start
        return save_pretrained(trained.network.cpu(), path, int8=int8, images=images, like=like, **settings)


def _with_scale(settings: ModelSettings, stored: dict[str, Any]) -> ModelSettings:
    """Return settings with a fixed working size, if one was chosen."""
    size = stored["working_px"]
    return replace(settings, working_size=size, scale_rule=None) if size else settings
