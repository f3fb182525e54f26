"""The command `predict`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from treeformer.cli.common import ALL_CORES, MAX_LISTED, app, counted, examples, finish, listed, progress, say
from treeformer.cli.skeletons import check_table
from treeformer.errors import TreeformerError

# Reading is faster than predicting. More threads would only keep more images in memory.
MAX_READERS = 16
# Worker processes take about a second to start. They are used from this many images on.
MIN_IMAGES_FOR_PROCESSES = 256


class EngineChoice(StrEnum):
    """What runs the network."""

    auto = "auto"
    onnx = "onnx"
    torch = "torch"


class PrecisionChoice(StrEnum):
    """Number format of ONNX Runtime."""

    auto = "auto"
    float32 = "float32"
    int8 = "int8"


@app.command(
    epilog=examples(
        "treeformer predict plant.jpg -o results",
        "treeformer predict photos/ -o results --format rsml --overlay --traits results/traits.csv --px-per-mm 11.8",
        "treeformer predict scan.tif -o results --working-size full --single-plant",
        "treeformer predict photos/ -o results --views 6",
        "treeformer predict photos/ -o results --resume",
    )
)
def predict(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGES_OR_FOLDERS",
            readable=False,
            help="Images (PNG, JPEG, TIFF, BMP, WebP, GIF), or folders, which are searched recursively.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", "-f", help="Also write this format; see `treeformer formats`. Repeatable."),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Also draw each skeleton over its image.")] = False,
    traits: Annotated[
        Path | None, typer.Option(help="CSV file for the traits of all images, one row per plant.")
    ] = None,
    px_per_mm: Annotated[
        float | None,
        typer.Option(help="Resolution of the images, pixels per millimeter, for the traits; stored in JSON and RSML."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="default, small, a model folder, or a name on the Hugging Face hub.")
    ] = "default",
    working_size: Annotated[
        str | None,
        typer.Option(
            metavar="PX",
            help="Reduce longer images to this length; 'auto' chooses it by a first pass over the whole image, "
            "'full' reduces no image. By default auto if the model has a rule for it, otherwise the model's value.",
        ),
    ] = None,
    single_plant: Annotated[bool, typer.Option("--single-plant", help="Predict one tree per image.")] = False,
    min_confidence: Annotated[
        float | None,
        typer.Option(help="Minimum confidence of nodes and edges. By default the model's threshold for nodes."),
    ] = None,
    views: Annotated[
        int,
        typer.Option(
            min=1,
            max=6,
            help="Number of views of each image to predict (mirrored, shifted). The tree that agrees best with the "
            "others is kept: better, but slower by this factor.",
        ),
    ] = 1,
    engine: Annotated[
        EngineChoice, typer.Option(help="What runs the network. auto is torch if it sees a GPU.")
    ] = EngineChoice.auto,
    precision: Annotated[
        PrecisionChoice,
        typer.Option(help="Number format of ONNX Runtime. auto is int8 if the model has it, which is faster."),
    ] = PrecisionChoice.auto,
    threads: Annotated[int | None, typer.Option(help="CPU threads of the network. By default all cores.")] = None,
    workers: Annotated[
        int,
        typer.Option(
            help="Threads that read images ahead; processes for many images on a GPU. 0 reads no image ahead."
        ),
    ] = min(MAX_READERS, ALL_CORES),
    batch: Annotated[
        int | None, typer.Option(help="Images or tiles per batch. By default chosen by the engine.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Skip images whose results exist.")] = False,
) -> None:
    """Predict the skeletons of images: JSON files, and optionally other formats, overlays and a table of traits."""
    from treeformer._util.files import check_writable, is_file, remove_leftovers, write_table
    from treeformer._util.images import IMAGE_SUFFIXES
    from treeformer.formats import SUFFIXES
    from treeformer.hub.model_folder import open_model
    from treeformer.inference.batch import BatchReport, plan, predict_files, traits_of
    from treeformer.inference.options import PredictionOptions
    from treeformer.inference.predictor import Predictor
    from treeformer.results.item import Reader
    from treeformer.results.policy import decide
    from treeformer.results.record import write_record

    # Find invalid options and unwritable folders before the work, not after.
    if traits is not None:
        check_table(traits)
        check_writable(traits.parent)
    if px_per_mm is not None:
        from treeformer.traits import check_px_per_mm

        check_px_per_mm(px_per_mm)
    if not output.is_dir() and output.suffix.lower() in SUFFIXES | IMAGE_SUFFIXES:
        raise TreeformerError(f"{output}: --output is a folder; --format and --overlay choose the files in it")
    check_writable(output)
    options: dict[str, Any] = {
        "working_size": parse_working_size(working_size),
        "single_plant": single_plant,
        "min_confidence": min_confidence,
        "views": views,
    }
    jobs = plan(sources, output, formats or (), overlay, px_per_mm)
    if resume:
        remove_leftovers(output)

    def record() -> Mapping[str, Any]:
        settings: Mapping[str, Any] = PredictionOptions(open_model(model), **options).metadata["prediction"]
        return settings

    with progress("checking") as show:
        decision = decide(jobs, resume, record, show)
    to_do = [replace(job, px_per_mm=job.px_per_mm or decision.px_per_mm.get(job.image)) for job in decision.to_do]
    if decision.kept:
        say(f"treeformer: {_kept_line([job.image for job in decision.kept])}")
    if decision.otherwise:
        say(f"treeformer: {_otherwise_line([job.image for job in decision.otherwise])}")
    report = BatchReport(0, (), ())
    if to_do:
        predictor = Predictor(model, engine=engine.value, threads=threads, precision=precision.value)
        # A GPU is faster than one process can read images and decode skeletons.
        processes = predictor.engine.device.startswith("cuda") and len(to_do) >= MIN_IMAGES_FOR_PROCESSES
        options |= {"batch": batch, "workers": workers, "processes": processes}
        try:
            with progress("predicting") as show:
                report = predict_files(to_do, predictor, progress=show, **options)
        finally:  # also after Ctrl-C
            if any(is_file(job.json) for job in jobs):
                write_record(output, sources, jobs)
    for image in report.empty:
        say(f"treeformer: {image}: no plant was found, the skeleton is empty")
    if report.doubtful:
        say(f"treeformer: {_doubtful_line(report.doubtful)}")
    if report.agreement:
        say(f"treeformer: {_agreement_line(report.agreement)}")
    if choices := Reader().choices(jobs, {path for job in jobs for path in job.skeletons.values()}):
        say(f"treeformer: {choices}")
    done = f"{counted(report.predicted, 'image')} predicted in {output}"
    if len(to_do) < len(jobs):
        done += f", {len(jobs) - len(to_do)} skipped"
    failures = [*report.failures]
    if traits is not None:
        with progress("measuring") as show:
            table, unmeasured = traits_of(jobs, px_per_mm=px_per_mm, progress=show)
        failures += unmeasured
        try:
            write_table(table, traits)
            plants = int(table["plant"].notna().sum())  # an image without a plant also has a row
            done += f", traits of {counted(plants, 'plant')} in {traits}"
        except OSError as error:  # reported with the other failures
            failures.append(f"{traits}: cannot be written ({error.strerror or error})")
    finish(done, failures, total=len(jobs))


def _kept_line(images: Sequence[Path]) -> str:
    """Return one line about the images with corrected results that lack some of the files."""
    return (
        f"corrected results of {counted(len(images), 'image')} are kept as they are: {listed(images)}; "
        f"treeformer convert and treeformer draw write other formats and overlays"
    )


def _otherwise_line(images: Sequence[Path]) -> str:
    """Return one line about the images with results of another model or other settings."""
    return (
        f"results of {counted(len(images), 'image')} from another model or other settings are kept: "
        f"{listed(images)}; predict without --resume, or to another folder, to replace them"
    )


def _doubtful_line(images: Sequence[Path]) -> str:
    """Return one line about the images with much length in edges of low confidence."""
    from treeformer.inference.batch import DOUBTFUL_FRACTION

    return (
        f"{counted(len(images), 'image')} with more than {DOUBTFUL_FRACTION:.0%} of the length in edges of low "
        f"confidence (dashed in overlays, low_confidence_length_fraction in traits): "
        f"{listed(images)}"
    )


def _agreement_line(agreement: Mapping[Path, float]) -> str:
    """Return one line about the images on whose views the model agrees least with itself."""
    least = sorted(agreement, key=lambda image: agreement[image])[:MAX_LISTED]
    shown = ", ".join(f"{image.name} {agreement[image]:.2f}" for image in least)
    return f"least agreement of the views, where errors are likeliest: {shown}"


def parse_working_size(size: str | None) -> int | Literal["full", "auto"] | None:
    """Return the value of `--working-size`; raise `TreeformerError` if it is no number, "auto" or "full"."""
    if size in (None, "full", "auto"):
        return size  # type: ignore[return-value]
    if size is None or not re.fullmatch(r"[0-9]{1,9}", size):  # Python's `int` also accepts 1_024 and other digits
        raise TreeformerError(f"--working-size must be a number of pixels, 'auto' or 'full', not {size!r}")
    return int(size)
