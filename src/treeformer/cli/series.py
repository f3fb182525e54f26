"""The command `series`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treeformer.cli.common import app, counted, examples, finish, listed, progress, say
from treeformer.errors import TreeformerError

if TYPE_CHECKING:
    from treeformer.skeleton import Skeleton
    from treeformer.timeseries.folder import DateFile

# Number of warnings that are shown. Those of dates and plants come before those of single axes.
MAX_WARNINGS = 20


@app.command(
    epilog=examples(
        "treeformer series plate7/ -o results --px-per-mm 11.8",
        "treeformer series plate7/ -o results --times exif",
        "treeformer series plate7/ -o results --times times.csv",
        "treeformer series plate7/ -o results --views 1",
        "treeformer series plate7/ -o results --resume",
    )
)
def series(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of images of one plate, or of their skeleton files.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    times: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Times of the images: 'name' (a date, or else the last number, in the file name), 'exif', or a CSV "
            "file with the columns name and time. By default dates in names, or else EXIF, or else numbers in names.",
        ),
    ] = None,
    px_per_mm: Annotated[
        float | None,
        typer.Option(
            help="Resolution of the reference date, which is one of the last, pixels per millimeter. By default px."
        ),
    ] = None,
    register: Annotated[
        bool, typer.Option(help="Align the images. --no-register if neither plate nor camera moved.")
    ] = True,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Distance within which places agree, px. By default 1.5 % of the longer side of the images."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="default, small, a model folder, or a name on the Hugging Face hub.")
    ] = "default",
    predict: Annotated[
        bool, typer.Option("--predict", help="Predict all images, even if there are skeleton files beside them.")
    ] = False,
    views: Annotated[
        int,
        typer.Option(
            help="Predict each image in this many views, 1 to 4, and keep the one that agrees best with the other "
            "dates. 1 is faster, but more axes lose their identity."
        ),
    ] = 4,
    figures: Annotated[bool, typer.Option(help="Draw length curves, kymographs and an animation.")] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip images that were predicted with the same model and settings.")
    ] = False,
) -> None:
    """Follow the plants of one plate over many dates: identities, growth tables, RSML files and figures.

    A skeleton file beside an image, with the same name, is used, and so is a date that was corrected in the editor.
    Other images are predicted.
    """
    from treeformer._util.files import check_writable
    from treeformer.timeseries import Series
    from treeformer.timeseries.corrections import (
        back_up_non_predictions,
        back_up_replaced,
        check_nothing_is_corrected,
        check_same_images,
        found_files,
        update_corrections,
        with_corrections,
    )
    from treeformer.timeseries.folder import DateFile, find_dates, times_of
    from treeformer.timeseries.leftovers import remove_earlier
    from treeformer.timeseries.output import MAX_KYMOGRAPHS, skeletons_with_scale, write_figures
    from treeformer.timeseries.views import VIEWS, choose_views

    dates = find_dates(folder)
    check_same_images(folder, dates, output)
    before = found_files(dates, output)
    if predict:
        dates = [DateFile(date.name, date.image, None) for date in dates if date.image is not None]
        if not dates:
            raise TreeformerError(f"{folder}: no image in this folder")
        check_nothing_is_corrected(dates, output)
    else:
        dates = with_corrections(dates, output)
    for option, value in (("--px-per-mm", px_per_mm), ("--tolerance", tolerance)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise TreeformerError(f"{option} must be a positive number, not {value:g}")
    if not 1 <= views <= len(VIEWS):
        raise TreeformerError(f"--views must be from 1 to {len(VIEWS)}, not {views}")
    found_times = times_of(dates, times)
    moments = found_times.values
    check_writable(output)
    if output.exists() and output.samefile(folder):
        raise TreeformerError(f"{output}: is the folder of the images; choose another for the results")
    say(str(found_times))
    for line in (*_used_files(dates, output), *back_up_non_predictions(dates, output)):
        say(f"treeformer: {line}")
    predicted: dict[str, list[Skeleton]] = {}
    with _hint_after_interrupt(predicted, sum(date.skeleton is None for date in dates)):
        found, failures = _skeletons(dates, output, model, views, resume, predicted)
        order = sorted((k for k, date in enumerate(dates) if date.name in found), key=lambda k: moments[k])
        if not order:
            finish("nothing done", failures, total=len(dates))
            return
        chosen = choose_views([found[dates[k].name] for k in order], tolerance_px=tolerance, register=register)
        pairs = [(moments[k], skeleton) for k, skeleton in zip(order, chosen, strict=True)]
        result = Series(pairs, register=register, tolerance_px=tolerance, label=folder.resolve().name)
        used = [dates[k] for k in order]
        for line in back_up_replaced(used, output, before):
            say(f"treeformer: {line}")
        names = [date.name for date in used]
        written = result.write(output, px_per_mm=px_per_mm, names=names, figures=False)
        for file in update_corrections(skeletons_with_scale(result, px_per_mm), names, output, before):
            say(f"treeformer: {file} was saved during this run: run the command again to use it")
        _record_images(output, folder, used)
        for warning in result.warnings[:MAX_WARNINGS]:
            say(f"treeformer: {warning}")
        if (others := len(result.warnings) - MAX_WARNINGS) > 0:
            say(f"treeformer: and {others} more such lines; compare length and monotone_length in axes_over_time.csv")
        plants = len({track.plant for track in result.tracks})
        if figures:
            images = _readable_images(used, failures)
            if plants > MAX_KYMOGRAPHS:
                say(f"kymographs: only of the first {MAX_KYMOGRAPHS} of {plants} plants")
            written += write_figures(result, output, px_per_mm=px_per_mm, images=images)
        remove_earlier(output, [*written, *(f"rsml/{name}.json" for name in names)])
        summary = f"{counted(len(result), 'date')}, {counted(plants, 'plant')}, {counted(len(result.tracks), 'axis')}"
        summary = summary.replace("axiss", "axes")
        finish(f"{summary}: {counted(len(written), 'file')} in {output}", failures, total=len(dates))


@contextmanager
def _hint_after_interrupt(predicted: Mapping[str, list[Skeleton]], total: int) -> Iterator[None]:
    """After Ctrl-C, say how many dates are predicted and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        if total:
            say(f"treeformer: {len(predicted)} of {counted(total, 'date')} predicted; --resume continues")
        raise


def _used_files(dates: Sequence[DateFile], output: Path) -> list[str]:
    """Return lines about the skeletons that are used if there is a choice."""
    from treeformer.results.item import Item, Reader

    places = (output / "rsml", output / "skeletons")
    corrected = [date.skeleton for date in dates if date.skeleton is not None and date.skeleton.parent in places]
    lines = [f"{counted(len(corrected), 'corrected date')} used: {listed(corrected)}"] if corrected else []
    choices = Reader().choices(
        Item(date.image or date.skeleton, date.skeleton.with_name(date.name))
        for date in dates
        if date.skeleton is not None and date.others and date.skeleton not in corrected
    )
    return [*lines, *([choices] if choices else [])]


def _record_images(output: Path, folder: Path, dates: Sequence[DateFile]) -> None:
    """Record where the images are, so that `treeformer edit` can show the dates."""
    from treeformer.results.item import Item
    from treeformer.results.record import write_record

    items = [Item(date.image, output / "rsml" / date.name) for date in dates if date.image is not None]
    if items:
        write_record(output, [folder], items)


def _readable_images(dates: Sequence[DateFile], failures: list[str]) -> list[Path | None]:
    """Return the images of the dates, None for those that cannot be read, which are added to the failures."""
    from treeformer._util.images import open_image

    images = [date.image for date in dates]
    for k, image in enumerate(images):
        try:
            if image is not None:
                open_image(image, longest_px=64)
        except TreeformerError as error:
            failures.append(f"{error}; its background is white")
            images[k] = None
    return images


def _with_size(skeleton: Skeleton, image: Path | None) -> Skeleton:
    """Return a skeleton that knows the size of its image, unless that cannot be read; a cycle is a `SkeletonError`."""
    from treeformer._util.images import upright_size

    _ = skeleton.parents  # raises the error
    if skeleton.image_size is None and image is not None:
        with suppress(TreeformerError):
            return skeleton.replace(image_size=upright_size(image))
    return skeleton


def _skeletons(
    dates: Sequence[DateFile],
    output: Path,
    model: str,
    views: int,
    resume: bool,
    predicted: dict[str, list[Skeleton]],
) -> tuple[dict[str, list[Skeleton]], list[str]]:
    """Read or predict the skeletons of each date; return them by name, and one line per failure.

    A date that has a file has one skeleton, the others one per view. Those that are predicted are added to `predicted`
    one by one.
    """
    from treeformer import formats
    from treeformer._util.files import remove_leftovers

    if resume:
        remove_leftovers(output)
    found: dict[str, list[Skeleton]] = {}
    failures: list[str] = []
    for date in dates:
        if date.skeleton is not None:
            try:
                found[date.name] = [_with_size(formats.read(date.skeleton), date.image)]
            except TreeformerError as error:
                name = date.skeleton.name
                failures.append(f"{name}: {str(error).removeprefix(f'{name}: ')}")
    images = {date.name: date.image for date in dates if date.skeleton is None and date.image is not None}
    if images:
        failures += _predict(images, output, model, views, resume, predicted)
    return found | predicted, failures


def _predict(
    images: Mapping[str, Path],
    output: Path,
    model: str,
    views: int,
    resume: bool,
    predicted: dict[str, list[Skeleton]],
) -> list[str]:
    """Predict images by name, or use what an earlier run predicted. Return one line per failure."""
    from contextlib import closing

    from treeformer.inference.predictor import Predictor
    from treeformer.timeseries.predictions import DatePredictor

    work = DatePredictor(Predictor(model), output, views)
    if resume:
        with progress("checking") as show:
            for checked, (name, image) in enumerate(images.items(), start=1):
                if (skeletons := work.finished(name, image)) is not None:
                    predicted[name] = skeletons
                show(checked, len(images))
    skipped = len(predicted)
    to_do = {name: image for name, image in images.items() if name not in predicted}
    failures: list[str] = []
    with progress("predicting") as show, closing(work.predict(list(to_do), list(to_do.values()))) as results:
        for done, ((name, image), result) in enumerate(zip(to_do.items(), results, strict=True), start=1):
            if isinstance(result, TreeformerError):
                failures.append(f"{image}: {str(result).removeprefix(f'{image}: ')}")
            else:
                predicted[name] = result
            show(done, len(to_do))
    if skipped:
        say(f"{counted(len(predicted) - skipped, 'image')} predicted in {output}, {skipped} skipped")
    return failures
