"""The model folder of a run: export, comparison with the start model, card and overlays."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from treeformer import draw
from treeformer._util.files import atomic_write
from treeformer._util.image_output import write_image
from treeformer._util.images import open_image
from treeformer.finetuning.annotated import AnnotatedImage, Survey
from treeformer.hub.model_folder import CARD, ModelFolder
from treeformer.skeleton import Skeleton

OVERLAYS = "overlays"
MAX_OVERLAYS = 10
OVERLAY_PX = 1024


@dataclass(frozen=True)
class Comparison:
    """The start model and the new one on the same images.

    Attributes:
        before: figures of the start model.
        after: figures of the new model.
        images: the images that were measured.
        are_training_images: whether the new model was trained on these images.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    images: Sequence[AnnotatedImage]
    are_training_images: bool

    @property
    def improved(self) -> bool:
        """True if the new model has the higher F1."""
        return self.after["topo_f1"] > self.before["topo_f1"]


def copy_start_model(start: ModelFolder, folder: Path) -> None:
    """Copy the files of the start model, which is the result if training did not help.

    Args:
        start: the start model.
        folder: the folder to write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*start.hashes, "config.json"):
        shutil.copyfile(start.path / name, folder / name)


def write_overlays(folder: Path, images: Sequence[AnnotatedImage], predictions: Sequence[Skeleton]) -> list[str]:
    """Draw predictions and ground truth over their images.

    Args:
        folder: the model folder; drawings go to its sub-folder `overlays`.
        images: the images.
        predictions: one skeleton per image.

    Returns:
        Paths of the drawings relative to the folder. There are at most ten.
    """
    names = []
    for number, (image, predicted) in enumerate(zip(images, predictions, strict=True)):
        if number == MAX_OVERLAYS:
            break
        name = f"{OVERLAYS}/{number:02d}-{image.path.stem[:60]}.jpg"
        drawing = draw.draw_comparison(open_image(image.path, longest_px=OVERLAY_PX), predicted, image.skeleton)
        write_image(drawing, folder / name, quality=85)
        names.append(name)
    return names


def write_card(folder: Path, text: str) -> None:
    """Write card.md atomically.

    Args:
        folder: the model folder.
        text: the text of the card.
    """
    with atomic_write(folder / CARD) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
    """Return the text of the card: data, figures before and after, settings and overlays.

    Args:
        name: name of the model.
        survey: the folder of images.
        train: the training images.
        comparison: figures before and after.
        start: the start model.
        kept_start: whether the weights are those of the start model.
        settings: names and values of what was chosen.
        overlays: paths of the drawings.

    Returns:
        Markdown.
    """
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
