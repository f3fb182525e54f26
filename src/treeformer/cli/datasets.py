"""Commands that make data sets: generate, prepare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import ALL_CORES, Workers, app, examples, progress


@app.command(
    epilog=examples(
        "treeformer generate drawings --count 1000",
        "treeformer generate photos --preset taproot --style photo --count 200 --seed 5000",
    )
)
def generate(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    preset: Annotated[
        str, typer.Option(help="What grows: paper, taproot, seedling, vine, orchard, several or plate.")
    ] = "paper",
    style: Annotated[str, typer.Option(help="How it is drawn: paper (plain lines) or photo.")] = "paper",
    count: Annotated[int, typer.Option(help="How many images.")] = 100,
    seed: Annotated[int, typer.Option(help="The seed of the first one; the next have the next seeds.")] = 0,
    size: Annotated[int, typer.Option(help="Side of the square images, px.")] = 512,
    workers: Workers = ALL_CORES,
) -> None:
    """Make synthetic images with exact skeletons: a PNG and a JSON file each, and dataset.yaml. Resumes."""
    from treeformer.data.generate import generate as run

    with progress("drawing") as show:
        report = run(
            out, preset=preset, style=style, count=count, seed=seed, size=(size, size), workers=workers, progress=show
        )
    print(report)


@app.command(
    epilog=examples(
        "treeformer prepare osr-roots downloads/osr-roots data/osr-roots",
        "treeformer prepare barley-roots downloads/barley data/barley --one-image-per-plant",
    )
)
def prepare(
    name: Annotated[str, typer.Argument(metavar="SET", help="osr-roots, barley-roots, branch-trees or single-guyot.")],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The folder of the set, as it is published.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    size: Annotated[int | None, typer.Option(help="Longer side of an image, px; by default the set's own.")] = None,
    spacing: Annotated[
        float | None, typer.Option(help="Pixels between nodes; 0 keeps the annotation's own nodes.")
    ] = None,
    one_image_per_plant: Annotated[
        bool, typer.Option("--one-image-per-plant", help="Crop one image per plant instead of keeping whole images.")
    ] = False,
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
            one_image_per_plant=one_image_per_plant,
            merge_overlaps=merge_overlaps,
            workers=workers,
            progress=show,
        )
    print(report)
