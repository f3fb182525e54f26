"""The model folder of a run: export, the 8-bit graph, comparison with the start model, card and overlays."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from treeformer import draw
from treeformer._util.arrays import ImageArray
from treeformer._util.files import atomic_write
from treeformer._util.image_output import write_image
from treeformer._util.images import open_image
from treeformer.finetuning import measuring, plan, work_folder
from treeformer.finetuning.annotated import AnnotatedImage, Survey
from treeformer.finetuning.run import Outcome, Report, Run, Task, Trained
from treeformer.hub.model_folder import CARD, CONFIG, INT8_GRAPH, ModelFolder, read_folder, write_config
from treeformer.metrics import topo
from treeformer.models.export import save_pretrained, sizes_and_thresholds
from treeformer.models.quantize import calibration_images
from treeformer.skeleton import Skeleton

OVERLAYS = "overlays"
MAX_OVERLAYS = 10
OVERLAY_PX = 1024
# Images of the rehearsal. The first one takes longer than the others.
REHEARSAL_IMAGES = 2
# Own crops from which the ranges of the 8-bit graph are measured, and as many synthetic images.
INT8_CROPS = 8
# The 8-bit graph may lose this much F1, plus two standard errors of the loss, and never more than the second number.
MAX_LOSS, MOST_LOSS = 0.01, 0.05


def export(
    run: Run, task: Task, trained: Trained, path: Path, *, int8: bool = True, images: Iterable[ImageArray] | None = None
) -> ModelFolder:
    """Write a model folder with the graph of an earlier one, if there is one."""
    assert trained.network is not None
    settings = sizes_and_thresholds(task.chosen) | {"edge_calibration": trained.calibration}
    if trained.node_threshold is not None:
        settings["node_threshold"] = trained.node_threshold
    settings["version"] = f"{settings['version']}+{run.output.name}"[:100] if settings["version"] else ""
    graph = _graph_folder(run)
    like = read_folder(graph) if (graph / CONFIG).exists() else task.start
    return save_pretrained(trained.network.cpu(), path, int8=int8, images=images, like=like, **settings)


def _graph_folder(run: Run) -> Path:
    """Return a model folder with the start model's weights and the graph of the new model."""
    return run.work / "graph"


def _int8_images(task: Task) -> Iterator[ImageArray]:
    """Yield the images from which the ranges of the 8-bit graph are measured."""
    own = replace(task.crops, synthetic_every=0)
    for number in range(INT8_CROPS):
        yield plan.make_crop(number, task.split.train, task.working_px, own).image
    yield from calibration_images(task.crops.side, INT8_CROPS)


def rehearse(run: Run, task: Task) -> float:
    """Write the graph, which does not depend on the training, and return the time of the final export, s."""
    run.say("plan", "writing the graph of the network and measuring how long the model folder will take")
    plain = Trained(task.network, 0.0)
    if not (_graph_folder(run) / CONFIG).exists():
        export(run, task, plain, _graph_folder(run), int8=False)
    run.check_stop()
    folder = run.work / "rehearsal"
    seconds = rehearse_export(
        lambda images: export(run, task, plain, folder, images=images), _int8_images(task), 2 * INT8_CROPS, run.clock
    )
    shutil.rmtree(folder, ignore_errors=True)
    return seconds


def rehearse_export(
    write: Callable[[Iterable[ImageArray]], object],
    images: Iterator[ImageArray],
    count: int,
    clock: Callable[[], float],
) -> float:
    """Estimate how long an export takes by an export that measures the ranges of the 8-bit graph on two images only."""
    requests: list[float] = []

    def watched() -> Iterator[ImageArray]:
        for _ in range(REHEARSAL_IMAGES):
            requests.append(clock())
            yield next(images)
        requests.append(clock())

    began = clock()
    write(watched())
    seconds = clock() - began
    per_image = requests[-1] - requests[-2] if len(requests) > 1 else 0.0
    return seconds + max(0, count - REHEARSAL_IMAGES) * per_image


class Loss(NamedTuple):
    """The F1 that the 8-bit graph loses."""

    mean: float  # over the images
    error: float  # standard error of the mean, infinite for one image

    @property
    def is_too_large(self) -> bool:
        """True if the loss exceeds 0.01 by more than two standard errors, or 0.05 in any case."""
        return self.mean > min(MAX_LOSS + 2 * self.error, MOST_LOSS)


def int8_loss(
    exact: Sequence[Skeleton], rounded: Sequence[Skeleton], images: Sequence[AnnotatedImage], groups: Sequence[int]
) -> Loss:
    """Compare the trees of the 8-bit graph with those of the network. The images of a group count as one."""
    trees = zip(exact, rounded, images, strict=True)
    losses = [topo(one, image.skeleton).f1 - topo(two, image.skeleton).f1 for one, two, image in trees]
    return Loss(*measuring.mean_of_groups(losses, groups))


@dataclass(frozen=True)
class Comparison:
    """The start model and the new one on the same images."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    images: Sequence[AnnotatedImage]
    are_training_images: bool  # True if the new model was trained on these images

    @property
    def improved(self) -> bool:
        """True if the new model has the higher F1."""
        return self.after["topo_f1"] > self.before["topo_f1"]


def write_model(run: Run, found: Survey, task: Task, trained: Trained, *, trained_parts: str) -> Outcome:
    """Write the model folder, compare it with the start model as `predict` would run it, and keep the better."""
    valid, measured = task.split.valid, task.measured
    new = run.work / "model"
    shutil.rmtree(new, ignore_errors=True)
    after, predictions = task.before, task.start_trees
    if trained.network is not None:
        run.say("export", "writing the model folder")
        folder = export(run, task, trained, new, images=_int8_images(task))
        run.check_stop()
        folder, trees = _judge_int8(run, folder, task, trained)
        if folder.has_int8 and valid:  # the first view of every validation image is the image itself
            predictions = trees[: measuring.VIEWS * len(measured) : measuring.VIEWS]
        else:
            predictions = measuring.predict_images(measuring.folder_predictor(folder), measured, run.check_stop)
        after = measuring.score(predictions, measured)
    comparison = Comparison(task.before, after, measured, not valid)
    kept = not comparison.improved
    if kept:
        shutil.rmtree(new, ignore_errors=True)
        copy_start_model(task.start, new)
        comparison = replace(comparison, after=task.before)
        predictions = task.start_trees
    overlays = write_overlays(new, measured, predictions)
    used = (task.start if kept else task.chosen).config
    settings = {
        "images with pseudo-labels": "" if kept or not task.unannotated else str(trained.labeled),
        "trained parts": "none" if kept else trained_parts,
        "working size": "chosen per image" if used.scale_rule else f"{used.working_size} px",
        "tokens": str(used.settings.get("tokens")),
        "node threshold": "" if kept or trained.node_threshold is None else f"{trained.node_threshold:g}",
        "time": f"{run.elapsed / 60:.1f} minutes",
    }
    text = card_text(
        run.output.name,
        found,
        task.split.train,
        comparison,
        start=task.start,
        kept_start=kept,
        settings=[(name, value) for name, value in settings.items() if value],
        overlays=overlays,
    )
    with atomic_write(new / CARD) as temporary:
        temporary.write_text(text, encoding="utf-8")
    work_folder.publish(new, run.output)
    for work in (run.work, *work_folder.other_runs(run.output)):
        shutil.rmtree(work, ignore_errors=True)
    final = dict(comparison.after)
    figures = {"before_topo_f1": task.start_score, "after_topo_f1": final["topo_f1"]}
    if task.unannotated:
        figures["pseudo_labels"] = 0 if kept else trained.labeled
    where = "validation" if valid else "training"
    end = f"{run.output}: F1 {task.start_score:.3f} before, {final['topo_f1']:.3f} after on {where} images"
    if kept:
        end += "; training did not help, so this is the start model"
    run.listen(Report("done", end, 1, 1, 0.0, figures))
    return Outcome(run.output, dict(task.before), final, kept, not valid)


def _judge_int8(run: Run, folder: ModelFolder, task: Task, trained: Trained) -> tuple[ModelFolder, Sequence[Skeleton]]:
    """Remove the 8-bit graph if it is worse than the network. Return the folder and the trees of that graph."""
    trees = measuring.predict_images(measuring.folder_predictor(folder), task.judged, run.check_stop)
    loss = int8_loss(trained.judged, trees, task.judged, task.groups)
    figures = f"F1 {-loss.mean:+.3f}, standard error {loss.error:.3f}, {len(task.judged)} images and views"
    if not loss.is_too_large:
        run.say("export", f"8-bit graph: {figures}")
        return folder, trees
    run.say("export", f"the 8-bit graph loses too much, left out: {figures}")
    (folder.path / INT8_GRAPH).unlink()
    return write_config(folder.path, folder.config), trees


def copy_start_model(start: ModelFolder, folder: Path) -> None:
    """Copy the files of the start model, which is the result if training did not help."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*start.hashes, "config.json"):
        shutil.copyfile(start.path / name, folder / name)


def write_overlays(folder: Path, images: Sequence[AnnotatedImage], predictions: Sequence[Skeleton]) -> list[str]:
    """Draw predictions and ground truth over their images."""
    names = []
    for number, (image, predicted) in enumerate(zip(images, predictions, strict=True)):
        if number == MAX_OVERLAYS:
            break
        name = f"{OVERLAYS}/{number:02d}-{image.path.stem[:60]}.jpg"
        drawing = draw.draw_comparison(open_image(image.path, longest_px=OVERLAY_PX), predicted, image.skeleton)
        write_image(drawing, folder / name, quality=85)
        names.append(name)
    return names


def card_text(
    name: str,
    survey: Survey,
    train: Sequence[AnnotatedImage],
    comparison: Comparison,
    *,
    start: ModelFolder,
    kept_start: bool,
    settings: Iterable[tuple[str, str]],
    overlays: Sequence[str],
) -> str:
    """Return the text of the card: data, figures before and after, settings and overlays."""
    version = f", version {start.config.version}" if start.config.version else ""
    valid = comparison.images
    counted_valid = f"{len(valid)} validation image{'s' if len(valid) > 1 else ''}"
    lines = [
        f"# {name}",
        "",
        f"Written by `treeformer finetune` from the model {start.path.name}{version}.",
        "Its weights are those of the start model: no trained weights were better on the validation images."
        if kept_start
        else "Its weights were trained further on the images below.",
        "",
        "## Data",
        "",
        "| images | number | plants | nodes |",
        "| --- | --- | --- | --- |",
        _row("training", train),
        *([] if comparison.are_training_images else [_row("validation", valid)]),
        "",
        f"Folder: `{survey.folder.name}`. Training images: {', '.join(image.name for image in train)}.",
        *(
            []
            if comparison.are_training_images
            else [f"Validation images: {', '.join(image.name for image in valid)}."]
        ),
        "",
        "## Figures",
        "",
        "Measured on the images that the model was **trained** on, because there was nothing to validate on. They say"
        " nothing about other images."
        if comparison.are_training_images
        else f"Measured on {counted_valid}, which also chose the best weights: expect slightly less on other images.",
        "",
        "| figure | before | after |",
        "| --- | --- | --- |",
        *(
            f"| {label} | {comparison.before[key]:.3f} | {comparison.after[key]:.3f} |"
            for key, label in (
                ("topo_f1", "TOPO F1, corrected"),
                ("topo_precision", "precision"),
                ("topo_recall", "recall"),
                ("length_error", "error of the total length, as a fraction"),
            )
        ),
        "",
        "## Settings",
        "",
        "| setting | value |",
        "| --- | --- |",
        *(f"| {key} | {value} |" for key, value in settings),
        "",
        "## Overlays",
        "",
        "Prediction in red, ground truth in blue, both in violet.",
        "",
        *(f"![{path}]({path})" for path in overlays),
        "",
        "## Start model",
        "",
        "The start model's data, limits and license apply to this model as well:",
        "",
        *(f"> {line}".rstrip() for line in start.card.splitlines()),
        "",
    ]
    return "\n".join(lines)


def _row(label: str, images: Sequence[AnnotatedImage]) -> str:
    plants, nodes = sum(image.plants for image in images), sum(len(image.skeleton) for image in images)
    return f"| {label} | {len(images)} | {plants} | {nodes} |"
