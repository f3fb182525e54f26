"""Evaluation reports for data sets: pair predictions with ground truth, compute metrics in parallel, write and draw."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treeformer import formats
from treeformer._util.files import atomic_write, is_backup, list_files, remove_leftovers
from treeformer._util.images import IMAGE_SUFFIXES, open_image
from treeformer._util.pools import check_workers, process_pool
from treeformer._util.progress import ProgressCallback
from treeformer._util.text import as_unicode
from treeformer.errors import FormatError, TreeformerError
from treeformer.metrics.evaluation import Estimate, evaluate_pair, summarize
from treeformer.results.item import editor_data
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    from PIL import Image
    from rich.table import Table

WORST_COUNT = 10
TILE_PX = 420
CAPTION_PX = 34
# Images with a longer side are reduced before the comparison is drawn; a tile is much smaller.
LONGEST_DRAWN_PX = 4096
# Errors of one case that must not end the evaluation of all others. `TreeformerError` is a ValueError.
CASE_ERRORS = (ValueError, ArithmeticError, MemoryError)


@dataclass(frozen=True)
class Case:
    """One image to evaluate. Skeletons given as files are read in the process that evaluates them."""

    name: str  # of the image in tables and messages
    prediction: Skeleton | Path | None  # None if missing, which counts as an empty skeleton
    ground_truth: Skeleton | Path
    image: Path | None = None  # to draw on, also used for the image size if the skeletons have none


@dataclass(frozen=True)
class Report:
    """The metrics of a data set."""

    cases: tuple[Case, ...]  # the evaluated images
    rows: tuple[dict[str, float], ...]  # one row of metrics per case, in the same order
    failures: tuple[str, ...]  # one line per image that could not be evaluated
    missing: tuple[str, ...]  # names of images without a prediction; they are in `rows`, evaluated as empty skeletons

    @property
    def summary(self) -> dict[str, Estimate]:
        """Every metric over the data set, with its 95 % confidence interval."""
        return summarize(self.rows)

    def tables(self) -> list[Table]:
        """Return the tables for the terminal: main metrics, the line, and tips, branch points and bases."""
        from treeformer.metrics.report_tables import report_tables

        return report_tables(self.rows, self.summary)

    def write(self, out: str | os.PathLike[str]) -> list[Path]:
        """Write images.csv (one row per image), summary.csv, report.json (everything) and worst.png to a folder.

        The four files replace those of an earlier report together, after all of them are complete; report.json is the
        last. If one cannot be written, all files stay as they were. Temporary files of a killed run are removed.
        """
        import pandas as pd

        folder = Path(out)
        paths = [folder / name for name in ("images.csv", "summary.csv", "report.json", "worst.png")]
        names = [case.name for case in self.cases]
        images = pd.DataFrame([{"image": as_unicode(name), **row} for name, row in zip(names, self.rows, strict=True)])
        estimates = self.summary
        summary = pd.DataFrame([{"figure": name, **asdict(value)} for name, value in estimates.items()])
        document = {
            "images": len(self.rows),
            "summary": {name: _without_nan(asdict(value)) for name, value in estimates.items()},
            "missing": self.missing,
            "failures": self.failures,
            "by_image": {name: _without_nan(row) for name, row in zip(names, self.rows, strict=True)},
        }
        text = json.dumps(document, indent=1, ensure_ascii=False)
        sheet = self.worst_sheet()
        remove_leftovers(folder)
        with ExitStack() as stack:  # leaves the blocks, and so renames the files, in the reverse order
            temporary = {
                path.name: stack.enter_context(atomic_write(path)) for path in (paths[2], *paths[:2], paths[3])
            }
            # Bytes of a file name that are not UTF-8 are written as \udce4, which is also the JSON escape.
            images.to_csv(temporary["images.csv"], index=False, errors="backslashreplace")
            summary.to_csv(temporary["summary.csv"], index=False, errors="backslashreplace")
            temporary["report.json"].write_text(text, encoding="utf-8", errors="backslashreplace")
            sheet.save(temporary["worst.png"])
        return paths

    def worst_sheet(self) -> Image.Image:
        """Draw the ten images with the lowest TOPO F1 on one sheet, prediction in red and ground truth in blue.

        An image that cannot be read is replaced by a white background. The tile of a case whose files have become
        unreadable since the evaluation shows its caption only.
        """
        from PIL import Image, ImageDraw

        order = sorted(range(len(self.rows)), key=lambda k: (self.rows[k]["topo_f1"], self.cases[k].name))[:WORST_COUNT]
        columns = min(5, len(order))
        size = (columns * TILE_PX, math.ceil(len(order) / columns) * (TILE_PX + CAPTION_PX))
        sheet = Image.new("RGB", size, "white")
        pen = ImageDraw.Draw(sheet)
        for position, k in enumerate(order):
            left, top = (position % columns) * TILE_PX, position // columns * (TILE_PX + CAPTION_PX)
            tile = _draw(self.cases[k])
            tile.thumbnail((TILE_PX - 6, TILE_PX - 6))
            sheet.paste(tile, (left + 3, top + CAPTION_PX))
            row = self.rows[k]
            pen.text((left + 4, top + 4), self.cases[k].name[:60], fill="black")
            pen.text((left + 4, top + 18), f"TOPO F1 {row['topo_f1']:.3f}, edge F1 {row['edge_f1']:.3f}", fill="black")
        return sheet


def evaluate_cases(
    cases: Iterable[Case],
    *,
    image_size: tuple[int, int] | None = None,
    radius_px: float | None = None,
    workers: int = 1,
    progress: ProgressCallback | None = None,
) -> Report:
    """Evaluate every case. A case that cannot be evaluated, for whatever reason, is one of the failures.

    The size of the image, (width, height) px, is for cases whose skeletons and image file do not provide it. Matched
    nodes are at most `radius_px` apart, by default 8/512 of the image's longer side. 0 and 1 workers run everything in
    the calling process. `progress` counts cases. It is an error if no case can be evaluated.
    """
    check_workers(workers)
    jobs = [(case, image_size, radius_px) for case in cases]
    if not jobs:
        raise TreeformerError("there are no images to evaluate")
    evaluated: list[tuple[Case, dict[str, float]]] = []
    failures: list[str] = []
    for done, outcome in enumerate(_outcomes(jobs, workers), start=1):
        if isinstance(outcome, str):
            failures.append(outcome)
        else:
            evaluated.append((jobs[done - 1][0], outcome))
        if progress is not None:
            progress(done, len(jobs))
    if not evaluated:
        raise TreeformerError(f"no image could be evaluated; the first error: {failures[0]}")
    missing = tuple(case.name for case, _ in evaluated if case.prediction is None)
    return Report(tuple(case for case, _ in evaluated), tuple(row for _, row in evaluated), tuple(failures), missing)


def folder_cases(
    prediction: str | os.PathLike[str],
    ground_truth: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
) -> tuple[list[Case], list[str]]:
    """Pair the skeleton files of two folders by name: one case per ground truth, and the predictions without one.

    A name is the path relative to the folder, without its suffix: `day1/a`. `treeformer predict` keeps the sub-folders
    of the images, so the two folders have the same layout. If a skeleton exists in several formats, the .json file is
    used; in the folder of the ground truth only if the editor has saved it. Images have the same names; they are
    searched in the ground truth's folder, then in the prediction's, unless a folder is given. Predictions without a
    ground truth are relative to their folder.
    """
    predicted_folder, true_folder = Path(prediction), Path(ground_truth)
    predictions = _skeleton_files(predicted_folder, true_folder, lambda path: path.suffix.lower() == ".json")
    ground_truths = _skeleton_files(true_folder, predicted_folder, _is_json_of_editor)
    if not predictions.keys() & ground_truths.keys():
        examples = f"the first names are {min(predictions)} and {min(ground_truths)}"
        raise FormatError(f"{predicted_folder} and {true_folder} have no name in common: {examples}")
    folders: list[tuple[Path, Path | None]] = [(true_folder, predicted_folder), (predicted_folder, true_folder)]
    if images is not None:
        folders = [(Path(images), None)]
    image_files: dict[str, Path] = {}
    for folder, excluded in reversed(folders):
        files = list_files(folder, excluded)
        image_files |= {_name(path, folder): path for path in files if path.suffix.lower() in IMAGE_SUFFIXES}
    cases = [Case(name, predictions.get(name), path, image_files.get(name)) for name, path in ground_truths.items()]
    without_ground_truth = [
        str(path.relative_to(predicted_folder))
        for name, path in predictions.items()
        if name not in ground_truths and not _is_copy(name, predictions)
    ]
    return cases, without_ground_truth


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def _is_copy(name: str, predictions: Mapping[str, Path]) -> bool:
    """Return True if this is another format of a prediction that shares the suffix .json, such as a.coco.json."""
    stem, _, format_name = name.rpartition(".")
    return stem in predictions and format_name in formats.FORMATS


def _is_json_of_editor(path: Path) -> bool:
    """Return True for a JSON file that the editor has saved, which writes RSML beside it."""
    return path.suffix.lower() == ".json" and editor_data(formats.read(path)) is not None


def _skeleton_files(folder: Path, excluded: Path, is_preferred: Callable[[Path], bool]) -> dict[str, Path]:
    """Return the skeleton files below a folder by name. If a name has several files, only one may be preferred."""
    files: dict[str, list[Path]] = {}
    for path in list_files(folder, excluded):
        if path.suffix.lower() in formats.SUFFIXES and not is_backup(path) and formats.is_skeleton_file(path):
            files.setdefault(_name(path, folder), []).append(path)
    if not files:
        raise FormatError(f"{folder}: no skeleton file in this folder")
    by_name: dict[str, Path] = {}
    for name, paths in files.items():
        candidates = paths if len(paths) == 1 else [path for path in paths if is_preferred(path)] or paths
        if len(candidates) > 1:
            raise FormatError(f"{candidates[1]}: {candidates[0].name} has the same name; keep only one of them")
        by_name[name] = candidates[0]
    return by_name


CaseJob = tuple[Case, tuple[int, int] | None, float | None]


def _outcomes(jobs: Sequence[CaseJob], workers: int) -> Iterator[dict[str, float] | str]:
    if workers <= 1 or len(jobs) == 1:
        yield from map(_evaluate, jobs)
        return
    with process_pool(min(workers, len(jobs))) as pool:
        yield from pool.map(_evaluate, jobs, chunksize=max(1, min(8, len(jobs) // (4 * workers))))


def _evaluate(job: CaseJob) -> dict[str, float] | str:
    """Return the row of one case, or a one-line error message."""
    case, image_size, radius_px = job
    try:
        prediction, ground_truth = _skeletons(case, image_size)
        return evaluate_pair(prediction, ground_truth, radius_px=radius_px)
    except TreeformerError as error:
        return f"{case.name}: {error}"
    except CASE_ERRORS as error:  # last resort: one file must not cost the other rows
        files = " and ".join(str(path) for path in (case.prediction, case.ground_truth) if isinstance(path, Path))
        reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
        return f"{case.name}: {files or 'the skeletons'} cannot be evaluated ({reason})"


def _skeletons(case: Case, image_size: tuple[int, int] | None) -> tuple[Skeleton, Skeleton]:
    """Return the prediction and the ground truth of a case, both with an image size."""
    ground_truth = formats.read(case.ground_truth) if isinstance(case.ground_truth, Path) else case.ground_truth
    prediction = formats.read(case.prediction) if isinstance(case.prediction, Path) else case.prediction
    size = ground_truth.image_size or (prediction.image_size if prediction is not None else None) or image_size
    if size is None and case.image is not None:
        size = open_image(case.image).size
    if size is None:
        raise TreeformerError("the image size is unknown: put the image next to the ground truth, or pass the size")
    if prediction is None:
        prediction = Skeleton([], [])
    if prediction.image_size is None:
        prediction = prediction.replace(image_size=size)
    if ground_truth.image_size is None:
        ground_truth = ground_truth.replace(image_size=size)
    return prediction, ground_truth


def _draw(case: Case) -> Image.Image:
    """Draw a case on its image if it has one that can be read, on white otherwise; nothing if that fails too."""
    from PIL import Image

    from treeformer.draw import draw_comparison

    try:
        image = open_image(case.image) if case.image is not None else None
    except CASE_ERRORS:
        image = None
    try:
        prediction, ground_truth = _skeletons(case, image.size if image is not None else None)
        if image is not None and ground_truth.image_size != image.size:
            image = None
        assert ground_truth.image_size is not None
        scale = LONGEST_DRAWN_PX / max(ground_truth.image_size)
        if image is None and scale < 1:
            width, height = ground_truth.image_size
            image = Image.new("RGB", (max(1, round(scale * width)), max(1, round(scale * height))), "white")
        return draw_comparison(image, prediction, ground_truth)
    except CASE_ERRORS:
        return Image.new("RGB", (TILE_PX, TILE_PX), "white")


def _without_nan(values: dict[str, float]) -> dict[str, float | None]:
    """Replace NaN, which JSON does not support, by None."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
