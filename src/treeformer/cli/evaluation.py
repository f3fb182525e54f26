"""The command `evaluate`, which compares predictions with the ground truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treeformer.cli.common import ALL_CORES, Workers, app, counted, examples, finish, progress, say, say_choices
from treeformer.errors import TreeformerError

if TYPE_CHECKING:
    from treeformer.data.sample import Dataset
    from treeformer.metrics.report import Report

DEFAULT_COUNT = 500  # images of a synthetic data set
MAX_LISTED = 10  # names of unpaired images in a message


@app.command(
    epilog=examples(
        "treeformer evaluate predicted/ ground-truth/ -o report/",
        "treeformer evaluate predicted/ ground-truth/ --images photos/ --radius 10",
        "treeformer evaluate data/osr-roots --split test --model default",
        "treeformer evaluate --model models/vines --synthetic vine:photo:test --count 2000",
    )
)
def evaluate(
    prediction: Annotated[
        Path | None, typer.Argument(metavar="PRED", help="Folder of predicted skeletons; with --model, a data set.")
    ] = None,
    ground_truth: Annotated[
        Path | None,
        typer.Argument(metavar="GROUND_TRUTH", help="Folder of true skeletons, with the same folders and file names."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for CSV and JSON tables and a drawing of the ten worst images."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of the images, if they are not beside the skeletons.")
    ] = None,
    image_size: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="W H", help="Size of the images, px, if the skeleton files do not state it."),
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Maximum distance of matched nodes, px. By default 8/512 of the longer side.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model to evaluate: default, small, a model folder, or a name on the Hugging Face hub."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of the data set: train, valid or test.")] = None,
    synthetic: Annotated[
        str | None,
        typer.Option(metavar="PRESET:STYLE:SPLIT", help="Evaluate on a synthetic data set instead of a folder."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="Number of images of the synthetic data set. By default 500.")
    ] = None,
    include_unaccepted: Annotated[
        bool,
        typer.Option("--include-unaccepted", help="With --model: use corrections that were not accepted, too."),
    ] = False,
    single_plant: Annotated[bool, typer.Option("--single-plant", help="Predict one tree per image.")] = False,
    views: Annotated[
        int, typer.Option(min=1, max=6, help="Number of views of each image, as in `treeformer predict`.")
    ] = 1,
    workers: Workers = ALL_CORES,
) -> None:
    """Compare skeletons, or a model, with the ground truth: SMD, TOPO, nodes, edges, tips tree rate; 95 % intervals."""
    from rich.console import Console

    from treeformer._util.files import check_writable
    from treeformer.metrics.report import evaluate_cases, folder_cases
    from treeformer.metrics.report_tables import dominated

    if count is not None and synthetic is None:
        raise TreeformerError("--count is the number of images of --synthetic PRESET:STYLE:SPLIT, which is missing")
    if radius is not None and not 0 < radius < math.inf:  # here, and not after a model has predicted all images
        raise TreeformerError(f"--radius must be a positive number of pixels, not {radius:g}")
    if output is not None:
        check_writable(output)
    if model is not None:
        if images is not None or image_size is not None:
            raise TreeformerError(
                "--images and --image-size are for two folders: with --model, the data set has images"
            )
        report, remarks = _evaluate_model(
            model,
            prediction,
            ground_truth,
            split,
            synthetic,
            count,
            include_unaccepted,
            {"single_plant": single_plant, "views": views},
            radius,
            workers,
        )
    elif split is not None or synthetic is not None or single_plant or views > 1 or include_unaccepted:
        names = "--split, --synthetic, --include-unaccepted, --single-plant and --views"
        raise TreeformerError(f"{names} need a model: --model is missing")
    elif prediction is None or ground_truth is None:
        raise TreeformerError("evaluate needs two folders, PRED and GROUND_TRUTH, or --model and a data set")
    elif prediction.is_file() or ground_truth.is_file():
        raise TreeformerError(
            f"{prediction if prediction.is_file() else ground_truth}: is a file; evaluate compares two folders"
        )
    else:
        cases, without_ground_truth = folder_cases(prediction, ground_truth, images)
        with progress("evaluating") as show:
            report = evaluate_cases(cases, image_size=image_size, radius_px=radius, workers=workers, progress=show)
        remarks = _unpaired("image", "without a prediction, counted as an empty skeleton", report.missing)
        remarks += _unpaired("prediction", "without a ground truth of the same name, left out", without_ground_truth)
    for table in report.tables():
        Console().print(table)
    for remark in [*remarks, *dominated([case.name for case in report.cases], report.rows)]:
        say(f"treeformer: {remark}")
    where = ""
    if output is not None:
        report.write(output)
        where = f", tables and images in {output}"
    finish(
        f"{counted(len(report.rows), 'image')} evaluated{where}",
        report.failures,
        total=len(report.rows) + len(report.failures),
    )


def _unpaired(noun: str, consequence: str, names: Sequence[str]) -> list[str]:
    """Return one line about unpaired files, no line if there are none."""
    if not names:
        return []
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return [f"{counted(len(names), noun)} {consequence}: {', '.join(names[:MAX_LISTED])}{more}"]


def _evaluate_model(
    model: str,
    folder: Path | None,
    ground_truth: Path | None,
    split: str | None,
    synthetic: str | None,
    count: int | None,
    include_unaccepted: bool,
    options: Mapping[str, Any],
    radius: float | None,
    workers: int,
) -> tuple[Report, list[str]]:
    """Return the report of a model on a data set, and one line per image that was skipped."""
    from treeformer.data import FolderDataset
    from treeformer.inference.evaluate import evaluate_model, synthetic_set
    from treeformer.inference.predictor import Predictor

    if ground_truth is not None or (folder is None) == (synthetic is None):
        raise TreeformerError("a model is evaluated on one data set: a folder, or --synthetic PRESET:STYLE:SPLIT")
    if synthetic is not None and split is not None:
        raise TreeformerError("--split is for a folder; a synthetic data set names its split: PRESET:STYLE:SPLIT")
    with say_choices():
        dataset: Dataset = (
            FolderDataset(folder or Path(), split, include_unaccepted=include_unaccepted)
            if synthetic is None
            else synthetic_set(synthetic, DEFAULT_COUNT if count is None else count)
        )
    predictor = Predictor(model)
    with progress("predicting") as show:
        report, skipped = evaluate_model(
            predictor, dataset, radius_px=radius, workers=workers, progress=show, **options
        )
    return report, [f"{item.reason}; left out" for item in skipped]
