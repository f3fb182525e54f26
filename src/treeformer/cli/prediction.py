"""Commands that predict: predict."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from treeformer.cli.common import ALL_CORES, app, counted, examples, finish, progress, say
from treeformer.cli.skeletons import check_table
from treeformer.errors import TreeformerError

# Reading is quicker than predicting: more threads would only hold more images.
MOST_READERS = 16
# Processes take about a second to start.
MANY_IMAGES = 256


class EngineChoice(StrEnum):
    """What runs the network."""

    auto = "auto"
    onnx = "onnx"
    torch = "torch"


class PrecisionChoice(StrEnum):
    """In what numbers ONNX Runtime calculates."""

    auto = "auto"
    float32 = "float32"
    int8 = "int8"


@app.command(
    epilog=examples(
        "treeformer predict plant.jpg -o results",
        "treeformer predict photos/ -o results --format rsml --overlay --traits results/traits.csv --px-per-mm 11.8",
        "treeformer predict scan.tif -o results --working-size full --single-plant",
        "treeformer predict photos/ -o results --resume",
    )
)
def predict(
    sources: Annotated[
        list[Path], typer.Argument(metavar="IMAGES_OR_FOLDERS", readable=False, help="Images, or folders of them.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for the results.")],
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", "-f", help="Also write this one of `treeformer formats`; repeatable."),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Also draw each skeleton over its image.")] = False,
    traits: Annotated[Path | None, typer.Option(help="Write one table of traits of all images, CSV.")] = None,
    px_per_mm: Annotated[float | None, typer.Option(help="Pixels per millimeter, for the traits.")] = None,
    model: Annotated[str, typer.Option(help="A model folder, or a name on the Hugging Face hub.")] = "default",
    working_size: Annotated[
        str | None,
        typer.Option(metavar="PX", help="Reduce longer images to this length, or 'full'; by default the model's."),
    ] = None,
    single_plant: Annotated[bool, typer.Option("--single-plant", help="Predict one tree per image.")] = False,
    min_confidence: Annotated[
        float | None, typer.Option(help="Least confidence of nodes and edges; by default the model's, of nodes.")
    ] = None,
    engine: Annotated[EngineChoice, typer.Option(help="What runs the network.")] = EngineChoice.auto,
    precision: Annotated[
        PrecisionChoice, typer.Option(help="Of ONNX Runtime; auto is int8, which is quicker, where the model has it.")
    ] = PrecisionChoice.auto,
    threads: Annotated[int | None, typer.Option(help="CPU threads of the network; by default all cores.")] = None,
    workers: Annotated[
        int, typer.Option(help="Threads that read images ahead or, for many on a GPU, processes; 0: none.")
    ] = min(MOST_READERS, ALL_CORES),
    batch: Annotated[int | None, typer.Option(help="Images or tiles at once; by default as suits the engine.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Pass over images whose results are there.")] = False,
) -> None:
    """Predict the skeletons of images: JSON files, and by option other formats, overlays and a table of traits."""
    from treeformer._util.files import check_writable, write_table
    from treeformer.inference.batch import BatchReport, check_no_annotation_is_lost, plan, predict_files, traits_of
    from treeformer.inference.predictor import Predictor

    # What is wrong with a number or with a place ends it before the work, not after.
    if traits is not None:
        check_table(traits)
        check_writable(traits.parent)
    elif px_per_mm is not None:
        raise TreeformerError("--px-per-mm is for the table of traits: --traits is missing")
    traits_of([], px_per_mm=px_per_mm)
    check_writable(output)
    options: dict[str, Any] = {
        "working_size": _working_size(working_size),
        "single_plant": single_plant,
        "min_confidence": min_confidence,
    }
    jobs = plan(sources, output, formats or (), overlay)
    check_no_annotation_is_lost(jobs)
    to_do = [job for job in jobs if not (resume and job.is_done())]
    report = BatchReport(0, (), ())
    if to_do:
        predictor = Predictor(model, engine=engine.value, threads=threads, precision=precision.value)
        # A GPU is quicker than one process can read images and make trees.
        processes = predictor.engine.device.startswith("cuda") and len(to_do) >= MANY_IMAGES
        options |= {"batch": batch, "workers": workers, "processes": processes}
        with progress("predicting") as show:
            report = predict_files(to_do, predictor, progress=show, **options)
    for image in report.empty:
        say(f"treeformer: {image}: no plant was found: its skeleton is empty")
    done = f"{counted(report.predicted, 'image')} predicted in {output}"
    if len(to_do) < len(jobs):
        done += f", {len(jobs) - len(to_do)} were there"
    failures = [*report.failures]
    if traits is not None:
        with progress("measuring") as show:
            table, unmeasured = traits_of(jobs, px_per_mm=px_per_mm, progress=show)
        failures += unmeasured
        try:
            write_table(table, traits)
            done += f", traits of {counted(len(table), 'plant')} in {traits}"
        except OSError as error:  # one of the failures: the others are still to be named
            failures.append(f"{traits}: cannot be written ({error.strerror or error})")
    finish(done, failures, total=len(jobs))


def _working_size(size: str | None) -> int | Literal["full"] | None:
    if size is None or size == "full":
        return size  # type: ignore[return-value]
    try:
        return int(size)
    except ValueError:
        raise TreeformerError(f"--working-size is a number of pixels or 'full', not {size!r}") from None
