"""Commands that judge: evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treeformer.cli.common import ALL_CORES, Workers, app, counted, examples, finish, progress, say
from treeformer.errors import TreeformerError

if TYPE_CHECKING:
    from treeformer.metrics.report import Report

NAMED = 10  # of the images that have no partner


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
        Path | None, typer.Argument(metavar="PRED", help="A folder of predicted skeletons; with --model, a data set.")
    ] = None,
    ground_truth: Annotated[
        Path | None, typer.Argument(metavar="TRUTH", help="A folder of true skeletons, laid out and named alike.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder for CSV and JSON tables and the worst ten, drawn.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="The images, where they are not beside the skeletons.")] = None,
    image_size: Annotated[
        tuple[int, int] | None, typer.Option(metavar="W H", help="Where neither files nor images tell the size.")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="How far apart matched nodes may be, px; by default 8/512 of the longer side.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Predict with this model: default, a folder, or a name on the hub.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of the data set: train, valid or test.")] = None,
    synthetic: Annotated[
        str | None, typer.Option(metavar="PRESET:STYLE:SPLIT", help="A synthetic data set in place of a folder.")
    ] = None,
    count: Annotated[int, typer.Option(help="Images of the synthetic data set.")] = 500,
    single_plant: Annotated[bool, typer.Option("--single-plant", help="Predict one tree per image.")] = False,
    workers: Workers = ALL_CORES,
) -> None:
    """Judge skeletons, or a model, against the ground truth: SMD, TOPO, nodes, edges, tree rate, with 95 % intervals."""
    from rich.console import Console

    from treeformer._util.files import check_writable
    from treeformer.metrics.report import evaluate_cases, folder_cases

    if output is not None:
        check_writable(output)
    if model is not None:
        report, remarks = _of_model(
            model, prediction, ground_truth, split, synthetic, count, single_plant, radius, workers
        )
    elif split is not None or synthetic is not None or single_plant:
        raise TreeformerError(
            "--split, --synthetic and --single-plant are for the judgement of a model: --model is missing"
        )
    elif prediction is None or ground_truth is None:
        raise TreeformerError("evaluate needs two folders, PRED and TRUTH, or --model and a data set")
    elif prediction.is_file() or ground_truth.is_file():
        raise TreeformerError(
            f"{prediction if prediction.is_file() else ground_truth}: a file; evaluate compares two folders"
        )
    else:
        cases, without_ground_truth = folder_cases(prediction, ground_truth, images)
        with progress("evaluating") as show:
            report = evaluate_cases(cases, image_size=image_size, radius_px=radius, workers=workers, progress=show)
        remarks = _unpaired("image", "without a prediction, counted as an empty skeleton", report.missing)
        remarks += _unpaired("prediction", "without a ground truth of the same name, left out", without_ground_truth)
    Console().print(report.table())
    for remark in remarks:
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


def _unpaired(what: str, fate: str, names: Sequence[str]) -> list[str]:
    """One line, however many they are; none where there are none."""
    if not names:
        return []
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return [f"{counted(len(names), what)} {fate}: {', '.join(names[:NAMED])}{more}"]


def _of_model(
    model: str,
    folder: Path | None,
    ground_truth: Path | None,
    split: str | None,
    synthetic: str | None,
    count: int,
    single_plant: bool,
    radius: float | None,
    workers: int,
) -> tuple[Report, list[str]]:
    """The report of a model on a data set, and a line for each image that was left out."""
    from treeformer.data import FolderDataset
    from treeformer.inference.evaluate import evaluate_model, synthetic_set
    from treeformer.inference.predictor import Predictor

    if ground_truth is not None or (folder is None) == (synthetic is None):
        raise TreeformerError("a model is judged on one data set: a folder, or --synthetic PRESET:STYLE:SPLIT")
    dataset = synthetic_set(synthetic, count) if synthetic is not None else FolderDataset(folder or Path(), split)
    predictor = Predictor(model)
    with progress("predicting") as show:
        report, skipped = evaluate_model(
            predictor, dataset, radius_px=radius, workers=workers, progress=show, single_plant=single_plant
        )
    return report, [f"{one.reason}; left out" for one in skipped]
