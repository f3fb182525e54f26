"""The commands `predict-cluster` and `collect`: millions of images, on one computer or on many."""

from __future__ import annotations

import importlib.util
from typing import Annotated, Any

import typer

from treeformer.cli.common import app, counted, examples, progress, say
from treeformer.cli.prediction import EngineChoice, PrecisionChoice, parse_working_size
from treeformer.errors import TreeformerError


@app.command(
    name="predict-cluster",
    epilog=examples(
        "treeformer predict-cluster photos/ -o results",
        "treeformer predict-cluster s3://plants/2024/ -o s3://plants/results --address auto --gpus-per-actor 0.5",
        "treeformer predict-cluster images.parquet -o results --plan-only",
        "treeformer predict-cluster -o results --shard 3/100",
    ),
)
def predict_cluster(
    output: Annotated[str, typer.Option("--output", "-o", help="Folder for the results, or s3:// or gs:// address.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCES",
            help="Images, folders, .txt lists, .parquet or .csv tables with a column 'path', .tar shards; paths or"
            " addresses. Without sources, the plan in the output folder is continued.",
        ),
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Predict the I-th of N shards in this process, without Ray.")
    ] = None,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="List the images and predict none.")] = False,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster, or 'auto'. By default Ray is started here.")
    ] = None,
    actors: Annotated[
        int | None, typer.Option(min=1, help="Number of models in memory. By default as many as fit the cluster.")
    ] = None,
    cpus_per_actor: Annotated[
        float | None, typer.Option(help="CPUs per model, which are also its threads. By default 1.")
    ] = None,
    gpus_per_actor: Annotated[float, typer.Option(help="GPUs per model; 0.5 shares a GPU between two.")] = 0.0,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads of the network with --shard. By default all cores.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Threads per model that read images ahead.")] = 2,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Images or tiles per batch. By default chosen by the engine.")
    ] = None,
    task_images: Annotated[
        int | None, typer.Option(min=1, help="Images per task, the unit that a kill loses. By default at most 256.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Predict images again whose result is an error.")
    ] = False,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", "-f", help="Also write files of this format, such as rsml or json. Repeatable."),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Also draw each skeleton over its image.")] = False,
    traits: Annotated[bool, typer.Option("--traits/--no-traits", help="Measure compact traits.")] = True,
    px_per_mm: Annotated[
        float | None,
        typer.Option(
            help="Resolution of the images, pixels per millimeter, for the traits; stored with the skeletons."
        ),
    ] = None,
    model: Annotated[
        str, typer.Option(help="default, small, a model folder, or a name on the Hugging Face hub.")
    ] = "default",
    working_size: Annotated[
        str | None,
        typer.Option(
            metavar="PX",
            help="Reduce longer images to this length; 'auto' and 'full' as in `treeformer predict`.",
        ),
    ] = None,
    single_plant: Annotated[bool, typer.Option("--single-plant", help="Predict one tree per image.")] = False,
    min_confidence: Annotated[
        float | None,
        typer.Option(help="Minimum confidence of nodes and edges. By default the model's threshold for nodes."),
    ] = None,
    views: Annotated[
        int,
        typer.Option(min=1, max=6, help="Number of views of each image to predict, as in `treeformer predict`."),
    ] = 1,
    engine: Annotated[
        EngineChoice, typer.Option(help="What runs the network. auto is torch if it sees a GPU.")
    ] = EngineChoice.auto,
    precision: Annotated[
        PrecisionChoice, typer.Option(help="Number format of ONNX Runtime. auto is int8 if the model has it.")
    ] = PrecisionChoice.auto,
) -> None:
    """Predict millions of images with Ray or in shards, into Parquet. Can be stopped and continued at any time."""
    _check_packages("pyarrow", *(() if shard or plan_only else ("ray",)))
    from treeformer.inference.cluster.job import Job
    from treeformer.inference.cluster.run import parse_shard, plan, predict_shard
    from treeformer.inference.cluster.storage import Folder

    own_shard = None if shard is None else parse_shard(shard)
    if own_shard is not None and (
        address is not None or actors is not None or cpus_per_actor is not None or gpus_per_actor
    ):
        raise TreeformerError(
            "--shard runs without Ray: --address, --actors, --cpus-per-actor and --gpus-per-actor have no meaning"
        )
    if own_shard is None and threads is not None and not plan_only:
        raise TreeformerError("--threads needs --shard; with Ray, --cpus-per-actor is the number of threads per model")
    folder = Folder.at(output)
    job = Job(
        model=model,
        engine=engine.value,
        precision=precision.value,
        working_size=parse_working_size(working_size),
        single_plant=single_plant,
        min_confidence=min_confidence,
        views=views,
        traits=traits,
        px_per_mm=px_per_mm,
        formats=tuple(formats or ()),
        overlay=overlay,
    )
    tasks = plan(folder, job, sources or (), task_images=task_images, retry_failed=retry_failed)
    to_do = sum(task.count for task in tasks)
    if plan_only:
        say(f"{counted(to_do, 'image')} to be predicted, in {counted(len(tasks), 'task')}, in {output}")
        return
    options: dict[str, Any] = {"workers": workers, "batch": batch}
    with progress("predicting") as show:
        options["progress"] = show
        if own_shard is not None:
            report = predict_shard(folder, job, tasks, own_shard, threads=threads, **options)
        else:
            from treeformer.inference.cluster.ray_run import connection, predict_with_ray

            options |= {"actors": actors, "gpus_per_actor": gpus_per_actor}
            if cpus_per_actor is not None:
                options["cpus_per_actor"] = cpus_per_actor
            with connection(address):
                report = predict_with_ray(folder, job, tasks, **options)
    line = f"{counted(report.images, 'image')} predicted in {output}"
    say(line + (f", {report.failed} of them cannot be read or predicted" if report.failed else ""))


@app.command(
    epilog=examples("treeformer collect results", "treeformer collect s3://plants/results --traits traits.csv")
)
def collect(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Output folder of predict-cluster.")],
    traits: Annotated[
        str | None, typer.Option(help="CSV file for the traits of all images, one row per plant.")
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Collect although results are missing.")] = False,
    rows_per_file: Annotated[int, typer.Option(min=1, help="Images per Parquet file.")] = 100_000,
) -> None:
    """Collect the results of predict-cluster, of all shards: one row per image, checked, without duplicates."""
    _check_packages("pyarrow")
    from treeformer.inference.cluster import collect as collecting
    from treeformer.inference.cluster.storage import Folder

    with progress("collecting") as show:
        report = collecting.collect(
            Folder.at(folder), partial=partial, traits=traits, rows_per_file=rows_per_file, progress=show
        )
    line = f"{counted(report.images, 'image')} in {folder.rstrip('/')}/{collecting.RESULTS}"
    for number, what in (
        (report.failed, "with an error"),
        (report.missing, "missing"),
        (report.duplicates, "replaced by newer results"),
    ):
        line += f", {number} {what}" if number else ""
    say(line)


def _check_packages(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise TreeformerError(f"this command needs {name}: pip install 'treeformer[ray]'")
