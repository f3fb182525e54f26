"""`finetune`: from a folder of images with corrected skeletons to a model folder.

On a CPU the first stages of the backbone are frozen and their features are stored, so that the rest trains within
minutes. On a GPU the whole network trains. Both use the ordinary training loop.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from treeformer._util.locks import sole_lock
from treeformer.errors import TreeformerError
from treeformer.finetuning import measuring, plan, pseudo_labels, result, work_folder
from treeformer.finetuning.annotated import Survey, shown_name, survey
from treeformer.finetuning.cached_features import train_on_cached_features
from treeformer.finetuning.run import ExportBudget, Listener, Outcome, Run, SavedRun, Stop, Task, ignore, never
from treeformer.finetuning.whole_network import train_whole_network
from treeformer.hub.model_folder import ModelFolder, ModelSettings, open_model
from treeformer.models.export import load_weights, with_tokens

Device = Literal["auto", "cpu", "cuda"]

CPU_MINUTES, GPU_MINUTES = 15.0, 5.0
# A fixed working size replaces the scale rule only if it is better by this much on training images.
MIN_SCALE_GAIN = 0.01
SCALE_IMAGES = 3
# Training images that help to choose the node threshold and to judge the 8-bit graph.
MAX_JUDGED_TRAINING = 8


def finetune(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    start: str | os.PathLike[str] = "default",
    max_minutes: float | None = None,
    device: Device = "auto",
    seed: int = 0,
    unannotated: bool = False,
    include_unaccepted: bool = False,
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
    `treeformer.finetuning.run.Report`. The last one has the stage "done" and the figures `before_topo_f1` and
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
        include_unaccepted: learn from corrections that were not accepted, too.
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
        return _finetune(run, folder, open_model(start), on_gpu, unannotated, include_unaccepted)


def _choose_device(device: Device) -> str:
    if device not in ("auto", "cpu", "cuda"):
        raise TreeformerError(f"the device must be auto, cpu or cuda, not {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise TreeformerError("no GPU: CUDA was requested, but torch sees no CUDA device")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def _finetune(
    run: Run,
    folder: str | os.PathLike[str],
    start: ModelFolder,
    on_gpu: bool,
    unannotated: bool,
    include_unaccepted: bool = False,
) -> Outcome:
    """Do the steps of a run in their order."""
    found = survey(folder, run.check_stop, include_unaccepted=include_unaccepted)
    for line in found.lines(pseudo_labels=unannotated):
        run.say("survey", line)
    # Sorted, so that a run also continues if some of them have been predicted in the meantime.
    others = sorted((*found.without_skeleton, *found.uncorrected)) if unannotated else []
    if others:
        run.say("survey", pseudo_labels.LIMITS)
    split = plan.split_images(found, run.seed)
    if unannotated and not others:
        raise TreeformerError(f"{found.folder}: every image has a corrected skeleton; there is none to label")
    _say_split(run, split)
    options: dict[str, Any] = {"seed": run.seed, "gpu": on_gpu, "valid": sorted(image.name for image in split.valid)}
    if unannotated:
        options["unannotated"] = [shown_name(path, found.folder) for path in others]
    saved, continues = SavedRun.open(run.output, work_folder.fingerprint(found.images, start, options))
    try:
        if continues:
            run.say("plan", "an interrupted run with the same images continues")
        else:
            saved.unannotated, saved.working_px = unannotated, _choose_scale(run, start, split)
            saved.write(run.work)
        for other in work_folder.other_runs(run.output):
            run.say("plan", f"an interrupted run with other images or options is kept in {other.name}")
        task = _make_task(run, saved, found, split, others, start)
        if on_gpu:
            saved.begun = True
            trained, parts = train_whole_network(run, task, saved), "all"
        else:
            trained, parts = train_on_cached_features(run, task, saved), "all but the first stages of the backbone"
    except TreeformerError:
        if not (continues or saved.begun):
            shutil.rmtree(run.work, ignore_errors=True)
        raise
    return result.write_model(run, found, task, trained, trained_parts=parts)


def _say_split(run: Run, split: plan.Split) -> None:
    if split.valid:
        names = ", ".join(image.name for image in split.valid[:5])
        more = f" and {len(split.valid) - 5} more" if len(split.valid) > 5 else ""
        run.say("plan", f"{len(split.train)} images for training, {len(split.valid)} for validation: {names}{more}")
    else:
        run.say(
            "plan", "no image is left for validation: training is short, and all figures are those of training images"
        )


def _make_task(
    run: Run, saved: SavedRun, found: Survey, split: plan.Split, others: Sequence[Path], start: ModelFolder
) -> Task:
    """Choose the settings of the training, measure the start model, and rehearse the export."""
    settings = _with_working_size(start.config, saved.working_px)
    crops = plan.crop_settings(settings, run.seed)
    network = load_weights(start)
    if network.has_variable_tokens:
        images = (*split.train, *split.valid)
        sizes = [saved.working_px or size for size in plan.working_sizes(images, settings)]
        tokens = plan.choose_tokens(images, sizes, crops, network.config.tokens)
        if tokens != network.config.tokens:
            text = f"tokens: {tokens} instead of {network.config.tokens}, because the images are dense"
            run.say("plan", text)
            network = with_tokens(network, tokens)
    tokens = network.config.tokens
    settings = replace(settings, settings={**settings.settings, "tokens": tokens})
    measured = split.valid or split.train
    seconds = run.clock()
    trees = measuring.predict_images(measuring.folder_predictor(start), measured, run.check_stop)
    seconds = (run.clock() - seconds) / len(measured)
    before = measuring.score(trees, measured)
    run.say("validation", f"start model: F1 {before['topo_f1']:.3f}", before)
    some_plant = next(image for image in split.train if len(image.skeleton))
    seen = measuring.make_views(split.valid or [some_plant], run.work / "views")
    judged = [*seen, *(split.train[:MAX_JUDGED_TRAINING] if split.valid else ())]
    groups = [number // measuring.VIEWS if number < len(seen) else number for number in range(len(judged))]
    untimed = ExportBudget(0.0, seconds, len(measured), len(judged), len(seen))
    task = Task(
        network=network,
        chosen=ModelFolder(start.path, settings, start.hashes),
        start=start,
        split=split,
        working_px=[saved.working_px or size for size in plan.working_sizes(split.train, settings)],
        crops=replace(crops, max_nodes=tokens - 8),
        before=before,
        start_trees=trees,
        budget=untimed,
        judged=judged,
        groups=groups,
        unannotated=others,
        root=found.folder,
    )
    return replace(task, budget=untimed._replace(export=result.rehearse(run, task)))


def _choose_scale(run: Run, start: ModelFolder, split: plan.Split) -> int:
    """Return the fixed working size, px, or 0 to keep the model's own rule."""
    sizes = set(plan.working_sizes(split.train, start.config))
    text, fixed = "as the start model chooses it", 0
    if start.config.scale_rule is not None and len(sizes) == 1 and max(split.train[0].size) > start.config.input_size:
        images = [image for image in split.train if len(image.skeleton)][:SCALE_IMAGES]
        (size,) = sizes
        rule = run.figures(measuring.folder_predictor(start), images)["topo_f1"]
        changed = ModelFolder(start.path, _with_working_size(start.config, size), start.hashes)
        if run.figures(measuring.folder_predictor(changed), images)["topo_f1"] > rule + MIN_SCALE_GAIN:
            fixed, text = size, f"{size} px, better than the rule of the start model on training images"
    run.say("plan", f"working size: {text}")
    return fixed


def _with_working_size(settings: ModelSettings, size: int) -> ModelSettings:
    """Return settings with a fixed working size, unless it is 0."""
    return replace(settings, working_size=size, scale_rule=None) if size else settings
