"""The commands `convert`, `formats`, `traits` and `draw` for skeleton files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import app, counted, examples, finish, progress, say
from treeformer.errors import FormatError


class TableLevel(StrEnum):
    """What one row of a table of traits describes."""

    plant = "plant"
    axis = "axis"
    segment = "segment"


class ColumnNames(StrEnum):
    """The tool whose column names a table of traits has."""

    treeformer = "treeformer"
    sleap_roots = "sleap-roots"
    archidart = "archidart"
    rootnav = "rootnav"


@app.command(
    epilog=examples(
        "treeformer convert roots.rsml roots.swc",
        "treeformer convert plates/ converted/ --format geojson",
        "treeformer convert annotations.json skeletons/ --from coco --format rsml",
        "treeformer convert rootnav.rsml copy.rsml --preserve",
    )
)
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Skeleton file, or folder of skeleton files.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File or folder to write.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", help="Format to write; see `treeformer formats`. By default given by the suffix."
        ),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="Format to read. By default given by suffix and content.")
    ] = None,
    preserve: Annotated[
        bool,
        typer.Option("--preserve", help="Write elements that RSML does not allow, such as rootnavspline, to RSML too."),
    ] = False,
) -> None:
    """Convert skeleton files from one format to another."""
    from treeformer.formats.convert import convert as run

    with progress("converting") as show:
        report = run(source, target, to=to, from_=from_, preserve=preserve, progress=show)
    total = len(report.written) + len(report.failures)
    if total == 0:
        raise FormatError(f"{source}: no skeleton file in this folder")
    if report.passed_over:
        say_preferred(report.preferred, report.passed_over)
    if report.left_out:
        what = f"elements that RSML does not allow were left out ({', '.join(report.left_out)})"
        say(f"treeformer: {counted(report.incomplete, 'file')}: {what}; --preserve keeps them")
    skipped = f", {counted(report.skipped, 'other file')} skipped" if report.skipped else ""
    finish(f"{counted(len(report.written), 'file')} written to {target}{skipped}", report.failures, total=total)


@app.command(epilog=examples("treeformer formats"))
def formats() -> None:
    """List the formats that can be read and written."""
    from rich.console import Console
    from rich.table import Table

    from treeformer.formats import FORMATS

    table = Table(box=None, pad_edge=False)
    for heading in ("format", "suffixes", "write", "description"):
        table.add_column(heading, overflow="fold")  # show names in full on a narrow screen
    for entry in FORMATS.values():
        table.add_row(entry.name, " ".join(entry.suffixes), "yes" if entry.write else "no", entry.description)
    Console().print(table)


@app.command(
    epilog=examples(
        "treeformer traits plates/*.rsml -o traits.csv --px-per-mm 11.8",
        "treeformer traits plates/ --all -o all-traits.csv",
        "treeformer traits plates/ --level axis -o axes.csv",
        "treeformer traits plant.json --column-names sleap-roots",
    )
)
def traits(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES_OR_FOLDERS",
            readable=False,
            help="Skeleton files, or folders, which are searched recursively.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write. By default the table is printed.")
    ] = None,
    level: Annotated[TableLevel, typer.Option(help="What a row describes.")] = TableLevel.plant,
    px_per_mm: Annotated[
        float | None,
        typer.Option(
            help="Resolution, pixels per millimeter. By default as stored in the file, otherwise lengths are in px."
        ),
    ] = None,
    column_names: Annotated[
        ColumnNames, typer.Option(help="Tool whose column names are used.")
    ] = ColumnNames.treeformer,
    all_columns: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Write all traits in full precision. By default about 20 columns with 6 significant digits; "
            "the names of other tools imply all.",
        ),
    ] = False,
) -> None:
    """Measure skeletons: one table of traits for all files."""
    from treeformer._util.files import check_writable, write_table
    from treeformer.formats.convert import find_copies
    from treeformer.results.layout import list_skeletons
    from treeformer.traits import measure_files

    if output is not None:
        check_table(output)
        check_writable(output.parent)
    paths = list_skeletons(files, exclude=output)
    copies = find_copies(paths)
    if copies.files:
        say_preferred(copies.preferred, copies.passed_over)
        paths = [path for path in paths if path not in copies.files]
    with progress("measuring") as show:
        table, failures = measure_files(
            paths,
            level=level.value,
            px_per_mm=px_per_mm,
            column_names=column_names.value,
            columns="all" if all_columns else "compact",
            progress=show,
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
    """Raise `FormatError` if a table of traits would have a wrong suffix or overwrite a skeleton."""
    from treeformer.formats.csv_table import looks_like

    if path.suffix.lower() != ".csv":
        raise FormatError(f"{path.name}: a table of traits must end in .csv")
    if path.is_file() and looks_like(path.read_bytes()):
        raise FormatError(f"{path.name}: is a skeleton, and the table of traits would overwrite it")


def say_preferred(preferred: Mapping[str, int], passed_over: Mapping[str, int]) -> None:
    """Say which format was preferred for skeletons in several formats: numbers of names and of other files."""
    names, others = counted(sum(preferred.values()), "name"), counted(sum(passed_over.values()), "other file")
    chosen, left = " and ".join(preferred), ", ".join(passed_over)
    say(f"treeformer: {names} in several formats: {chosen} preferred, {others} passed over ({left})")


@app.command(
    epilog=examples(
        "treeformer draw plant.jpg plant.rsml -o overlay.png",
        "treeformer draw plant.jpg predicted.json -o both.png --compare ground-truth.rsml",
    )
)
def draw(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="Image.")],
    skeleton: Annotated[
        Path, typer.Argument(metavar="SKELETON", help="Skeleton of the image, in any format of `treeformer formats`.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Image to write.")],
    compare: Annotated[
        Path | None,
        typer.Option(
            help="Ground truth to draw as well, with blue edges and yellow nodes; the skeleton is then red and cyan."
        ),
    ] = None,
) -> None:
    """Draw a skeleton over its image: edges red (dashed orange if unlikely), keypoints cyan, roots circled."""
    from treeformer import draw as drawing
    from treeformer._util.image_output import write_image
    from treeformer._util.images import IMAGE_SUFFIXES, open_image
    from treeformer.formats import read

    if output.suffix.lower() not in IMAGE_SUFFIXES:
        raise FormatError(f"{output.name}: not the suffix of an image; use .png")
    opened = open_image(image)
    if output.exists() and output.samefile(image):
        raise FormatError(f"{output.name}: is the input image, and the drawing would overwrite it")
    if compare is None:
        drawn = drawing.draw(opened, read(skeleton))
    else:
        drawn = drawing.draw_comparison(opened, read(skeleton), read(compare))
    write_image(drawn, output)
    say(f"drawing written to {output}")
