"""Commands on skeleton files: convert, formats, traits, draw."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import app, counted, examples, finish, progress, say
from treeformer.errors import FormatError


class Level(StrEnum):
    """What one row of a traits table is."""

    plant = "plant"
    axis = "axis"
    segment = "segment"


class Names(StrEnum):
    """Whose column names a traits table has."""

    treeformer = "treeformer"
    sleap_roots = "sleap-roots"
    archidart = "archidart"
    rootnav = "rootnav"


@app.command(
    epilog=examples(
        "treeformer convert roots.rsml roots.swc",
        "treeformer convert plates/ converted/ --format geojson",
        "treeformer convert annotations.json skeletons/ --from coco --format rsml",
    )
)
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A skeleton file, or a folder of them.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file, or the folder, to write.")],
    to: Annotated[str | None, typer.Option("--format", "-f", help="Write this one of `treeformer formats`.")] = None,
    from_: Annotated[str | None, typer.Option("--from", help="Read this format, whatever the suffix says.")] = None,
) -> None:
    """Convert skeleton files from one format to another."""
    from treeformer.formats.convert import convert as run

    with progress("converting") as show:
        report = run(source, target, to=to, from_=from_, progress=show)
    total = len(report.written) + len(report.failures)
    if total == 0:
        raise FormatError(f"{source}: no skeleton file in this folder")
    passed = f", {counted(report.skipped, 'other file')} passed over" if report.skipped else ""
    finish(f"{counted(len(report.written), 'file')} written to {target}{passed}", report.failures, total=total)


@app.command()
def formats() -> None:
    """List the formats that can be read and written."""
    from rich.console import Console
    from rich.table import Table

    from treeformer.formats import FORMATS

    table = Table(box=None, pad_edge=False)
    for heading in ("format", "suffixes", "write", "what it is"):
        table.add_column(heading, overflow="fold")  # a name that is cut cannot be typed
    for entry in FORMATS.values():
        table.add_row(entry.name, " ".join(entry.suffixes), "yes" if entry.write else "no", entry.description)
    Console().print(table)


@app.command(
    epilog=examples(
        "treeformer traits plates/*.rsml -o traits.csv --px-per-mm 11.8",
        "treeformer traits plates/ --level axis -o axes.csv",
        "treeformer traits plant.json --column-names sleap-roots",
    )
)
def traits(
    files: Annotated[list[Path], typer.Argument(readable=False, help="Skeleton files, or folders of them.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file; without it, on the screen.")] = None,
    level: Annotated[Level, typer.Option(help="What a row is.")] = Level.plant,
    px_per_mm: Annotated[
        float | None,
        typer.Option(help="Pixels per millimeter; otherwise the file's own resolution, otherwise pixels."),
    ] = None,
    column_names: Annotated[Names, typer.Option(help="The tool whose column names are used.")] = Names.treeformer,
) -> None:
    """Measure skeletons: one table of traits for all files."""
    from treeformer._util.files import check_writable, write_table
    from treeformer.traits import measure_files

    if output is not None:
        check_table(output)
        check_writable(output.parent)
    paths = skeleton_files(files, besides=output)
    if copies := in_several_formats(paths):
        say(f"treeformer: {counted(len(copies), 'name')} in several formats, each with rows of its own: {copies[0]}, …")
    with progress("measuring") as show:
        table, failures = measure_files(
            paths, level=level.value, px_per_mm=px_per_mm, column_names=column_names.value, progress=show
        )
    if len(failures) == len(paths):
        finish("nothing measured", failures, total=len(paths))
    if output is None:
        table.to_csv(sys.stdout, index=False)
    else:
        write_table(table, output)
    where = "" if output is None else f" in {output}"
    done = f"{counted(len(table), 'row')} from {counted(len(paths) - len(failures), 'file')}{where}"
    finish(done, failures, total=len(paths))


def check_table(path: Path) -> None:
    """An error where a table of traits would go by a wrong name, or take the place of a skeleton."""
    from treeformer.formats.csv_table import looks_like

    if path.suffix.lower() != ".csv":
        raise FormatError(f"{path.name}: a table of traits ends in .csv")
    if path.is_file() and looks_like(path.read_bytes()):
        raise FormatError(f"{path.name}: is a skeleton, and the table of traits would overwrite it")


def in_several_formats(paths: Sequence[Path]) -> list[str]:
    """Names that several files have, as `treeformer predict --format` leaves them: a.json, a.rsml, a.coco.json."""
    from treeformer.formats import FORMATS

    suffixes: dict[Path, list[str]] = {}
    for path in dict.fromkeys(paths):
        stem, _, last = path.stem.rpartition(".")
        name = path.with_name(stem if stem and last in FORMATS else path.stem)
        suffixes.setdefault(name, []).append(path.name.removeprefix(name.name))
    return [f"{name}{' and '.join(found)}" for name, found in suffixes.items() if len(found) > 1]


def skeleton_files(paths: Sequence[Path], besides: Path | None = None) -> list[Path]:
    """The files named, and those below the folders named that hold a skeleton; `besides`: one that does not.

    Names that begin with a dot are passed over in folders.
    """
    from treeformer._util.files import list_files
    from treeformer.formats import SUFFIXES, is_skeleton_file

    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            known = [file for file in list_files(path) if file.suffix.lower() in SUFFIXES and file != besides]
            skeletons = [file for file in known if is_skeleton_file(file)]
            if not skeletons:
                raise FormatError(f"{path}: no skeleton file in this folder")
            found += skeletons
        else:
            found.append(path)
    return found


@app.command(
    epilog=examples(
        "treeformer draw plant.jpg plant.rsml -o overlay.png",
        "treeformer draw plant.jpg predicted.json -o both.png --compare ground-truth.rsml",
    )
)
def draw(
    image: Annotated[Path, typer.Argument(help="The image.")],
    skeleton: Annotated[Path, typer.Argument(help="Its skeleton, in any format that is known.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The image to write.")],
    compare: Annotated[
        Path | None, typer.Option(help="A second skeleton, the ground truth: blue and yellow beside red and cyan.")
    ] = None,
) -> None:
    """Draw a skeleton over its image: edges red, nodes yellow, keypoints cyan, roots ringed in magenta."""
    from treeformer import draw as drawing
    from treeformer._util.files import atomic_write
    from treeformer._util.images import IMAGE_SUFFIXES, open_image
    from treeformer.formats import read

    if output.suffix.lower() not in IMAGE_SUFFIXES:
        raise FormatError(f"{output.name}: not a suffix of an image; try .png")
    opened = open_image(image)
    if output.exists() and output.samefile(image):
        raise FormatError(f"{output.name}: is the image itself, and the drawing would overwrite it")
    if compare is None:
        drawn = drawing.draw(opened, read(skeleton))
    else:
        drawn = drawing.draw_comparison(opened, read(skeleton), read(compare))
    with atomic_write(output) as temporary:
        drawn.save(temporary)
    say(f"drawn in {output}")
