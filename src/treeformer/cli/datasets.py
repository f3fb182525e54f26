"""Commands that make data sets: synth, prepare."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import ALL_CORES, Workers, app, examples, progress


class Plants(StrEnum):
    """What one picture of a prepared set shows."""

    forest = "forest"
    crop = "crop"


@app.command(
    epilog=examples(
        "treeformer synth drawings --count 1000",
        "treeformer synth photos --preset taproot --look photo --count 200 --seed 5000",
    )
)
def synth(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    preset: Annotated[
        str, typer.Option(help="What grows: paper, taproot, seedling, vine, orchard, several or plate.")
    ] = "paper",
    look: Annotated[str, typer.Option(help="How it is drawn: paper (plain lines) or photo.")] = "paper",
    count: Annotated[int, typer.Option(help="How many pictures.")] = 100,
    seed: Annotated[int, typer.Option(help="The seed of the first one; the next have the next seeds.")] = 0,
    size: Annotated[int, typer.Option(help="Side of the square pictures, px.")] = 512,
    workers: Workers = ALL_CORES,
) -> None:
    """Make synthetic pictures with exact skeletons: a PNG and a JSON file each, and dataset.yaml. Resumes."""
    from treeformer.data.generate import synth as run

    with progress("drawing") as show:
        report = run(
            out, preset=preset, look=look, count=count, seed=seed, size=(size, size), workers=workers, progress=show
        )
    print(report)


@app.command(
    epilog=examples(
        "treeformer prepare osr-roots downloads/osr-roots data/osr-roots",
        "treeformer prepare barley-roots downloads/barley data/barley --plants crop",
    )
)
def prepare(
    name: Annotated[str, typer.Argument(metavar="SET", help="osr-roots, barley-roots, branch-trees or single-guyot.")],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The folder of the set, as it is published.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    size: Annotated[int | None, typer.Option(help="Longer side of a picture, px; by default the set's own.")] = None,
    spacing: Annotated[
        float | None, typer.Option(help="Pixels between nodes; 0 keeps the annotation's own nodes.")
    ] = None,
    plants: Annotated[Plants, typer.Option(help="All plants of a picture, or one picture a plant.")] = Plants.forest,
    merge_overlaps: Annotated[
        bool, typer.Option(help="Let two roots of a plant that are drawn over each other share one line.")
    ] = True,
    workers: Workers = ALL_CORES,
) -> None:
    """Turn a public set into a folder data set with splits, and say what was dropped and why."""
    from treeformer.data.prepare import prepare as run

    with progress("preparing") as show:
        report = run(
            name,
            source,
            out,
            size=size,
            spacing_px=spacing,
            plants=plants.value,
            merge_overlaps=merge_overlaps,
            workers=workers,
            progress=show,
        )
    print(report)
