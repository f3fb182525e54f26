"""Commands that judge: evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import ALL_CORES, Workers, app, counted, examples, finish, progress, say


@app.command(
    epilog=examples(
        "treeformer evaluate predicted/ truth/ -o report/",
        "treeformer evaluate predicted/ truth/ --images photos/ --radius 10",
    )
)
def evaluate(
    prediction: Annotated[Path, typer.Argument(metavar="PRED", help="A folder of predicted skeletons, any format.")],
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="A folder of true skeletons with the same stems.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder for CSV and JSON tables and the worst ten, drawn.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="The pictures, where they are not beside the skeletons.")] = None,
    image_size: Annotated[
        tuple[int, int] | None, typer.Option(metavar="W H", help="Where neither files nor pictures tell the size.")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="How far apart matched nodes may be, px; by default 8/512 of the longer side.")
    ] = None,
    workers: Workers = ALL_CORES,
) -> None:
    """Judge predicted skeletons against the truth: SMD, TOPO, nodes, edges, tree rate, with 95 % intervals."""
    from rich.console import Console

    from treeformer.metrics.report import evaluate_cases, folder_cases

    cases, without_truth = folder_cases(prediction, truth, images)
    with progress("evaluating") as show:
        report = evaluate_cases(cases, image_size=image_size, radius_px=radius, workers=workers, progress=show)
    Console().print(report.table())
    for name in report.missing:
        say(f"treeformer: {name}: no prediction; counted as an empty skeleton")
    for name in without_truth:
        say(f"treeformer: {name}: no truth of this name; left out")
    where = ""
    if output is not None:
        report.write(output)
        where = f", tables and pictures in {output}"
    finish(f"{counted(len(report.rows), 'picture')} evaluated{where}", report.failures, total=len(cases))
