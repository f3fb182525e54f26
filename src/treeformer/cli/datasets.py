"""The commands `generate` and `prepare`, which make data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import ALL_CORES, Workers, app, examples, progress
from treeformer.errors import TreeformerError


@app.command(
    epilog=examples(
        "treeformer generate drawings --count 1000",
        "treeformer generate photos --preset taproot --style photo --count 200 --seed 5000",
        "treeformer generate growth --series 10 --preset plate --style photo --count 5",
        "treeformer generate composites --preset orchard-row --style photo --backgrounds data/backgrounds/train",
    )
)
def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    preset: Annotated[
        str,
        typer.Option(
            help="Kind of plant: paper, taproot, seedling, vine, orchard, several, plate, orchard-row, vineyard, "
            "potted-shoot, plate-rosette, empty or cluttered-plate."
        ),
    ] = "paper",
    style: Annotated[str, typer.Option(help="Style of the images: paper (black lines on white) or photo.")] = "paper",
    count: Annotated[int, typer.Option(help="Number of images, or of series.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the first image; the others have the following seeds.")] = 0,
    size: Annotated[int, typer.Option(help="Side of the square images, px.")] = 512,
    series: Annotated[
        int | None, typer.Option(metavar="DATES", help="Generate series of this many dates, one folder per series.")
    ] = None,
    jpeg: Annotated[
        bool, typer.Option("--jpeg", help="Write JPEG files, which are smaller and faster to read.")
    ] = False,
    backgrounds: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Show trees and vines in style photo before these photographs: a split of treeformer prepare.",
        ),
    ] = None,
    workers: Workers = ALL_CORES,
) -> None:
    """Generate synthetic images with exact skeletons: one PNG and one JSON file per image. Can be resumed."""
    from treeformer._util.files import check_writable
    from treeformer.data.generate import generate as run
    from treeformer.data.generate_series import generate_series

    check_writable(out)
    what = {"preset": preset, "style": style, "count": count, "seed": seed, "workers": workers}
    with progress("drawing") as show:
        if series is None:
            suffix = "jpg" if jpeg else "png"
            report = run(out, size=(size, size), suffix=suffix, backgrounds=backgrounds, progress=show, **what)  # type: ignore[arg-type]
        elif jpeg or backgrounds is not None:
            raise TreeformerError(f"{'--jpeg' if jpeg else '--backgrounds'} and --series cannot be combined")
        else:
            report = generate_series(out, dates=series, size=(size, size), progress=show, **what)  # type: ignore[arg-type]
    print(report)


@app.command(
    epilog=examples(
        "treeformer prepare osr-roots downloads/osr-roots data/osr-roots",
        "treeformer prepare barley-roots downloads/barley data/barley --one-image-per-plant",
    )
)
def prepare(
    name: Annotated[
        str, typer.Argument(metavar="SET", help="osr-roots, barley-roots, branch-trees, single-guyot or backgrounds.")
    ],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="Folder of the data set, as published.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    size: Annotated[
        int | None, typer.Option(help="Longer side of the images, px. By default chosen per data set.")
    ] = None,
    spacing: Annotated[
        float | None,
        typer.Option(help="Node spacing, px. 0 keeps the annotated nodes. By default chosen per data set."),
    ] = None,
    one_image_per_plant: Annotated[
        bool, typer.Option("--one-image-per-plant", help="Crop one image per plant instead of keeping whole images.")
    ] = False,
    merge_overlaps: Annotated[
        bool, typer.Option(help="Merge roots of a plant that are annotated on top of each other.")
    ] = True,
    workers: Workers = ALL_CORES,
) -> None:
    """Convert a public data set to a folder with splits, and report what was dropped and why."""
    from treeformer._util.files import check_writable
    from treeformer.data.prepare import prepare as run

    check_writable(out)
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
