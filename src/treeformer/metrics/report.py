"""The report of a set: two folders of skeleton files, or any source of pairs, judged in parallel, written and drawn."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treeformer import formats
from treeformer._util.files import atomic_write, list_files, write_table
from treeformer._util.images import IMAGE_SUFFIXES, open_image
from treeformer._util.pools import check_workers, process_pool
from treeformer._util.progress import ProgressCallback
from treeformer.errors import FormatError, TreeformerError
from treeformer.metrics.evaluation import Estimate, evaluate_pair, summarize
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    from PIL import Image
    from rich.table import Table

WORST_COUNT = 10
TILE_PX = 420
CAPTION_PX = 34
# What the screen shows, in this order; the files have everything.
SHOWN = (
    "topo_f1", "topo_precision", "topo_recall", "topo_paper_f1", "topo_paper_precision", "topo_paper_recall", "smd",
    "smd_paper", "node_f1", "edge_f1", "keypoint_f1", "tree_rate", "tree_of_edges_rate", "forest_rate", "exact_rate",
    "length_error",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One image to judge. Skeletons may be given as files, which are then read in the process that judges them.

    prediction: None where there is none: it counts as an empty skeleton, with the worst figures.
    image: an image to draw on, and to take the size from where the skeletons have none.
    """

    name: str
    prediction: Skeleton | Path | None
    ground_truth: Skeleton | Path
    image: Path | None = None


@dataclass(frozen=True)
class Report:
    """The figures of a set: one row an image, in the order of the cases, and those that could not be judged."""

    cases: tuple[Case, ...]
    rows: tuple[dict[str, float], ...]
    failures: tuple[str, ...]
    missing: tuple[str, ...]
    """Names of images without a prediction; they are in the rows, with the worst figures."""

    @property
    def summary(self) -> dict[str, Estimate]:
        """Every figure over the set, with its 95 % interval."""
        return summarize(self.rows)

    def table(self) -> Table:
        """The main figures, for the screen."""
        from rich.table import Table

        summary = self.summary
        table = Table(title=f"{len(self.rows)} images", box=None, pad_edge=False, title_justify="left")
        table.add_column("figure", overflow="fold")  # a figure must not lose its end on a narrow screen
        for heading in ("value", "95 % from", "to"):
            table.add_column(heading, justify="right", overflow="fold")
        for name in SHOWN:
            estimate = summary[name]
            table.add_row(name, *(f"{number:.4g}" for number in (estimate.value, estimate.low, estimate.high)))
        return table

    def write(self, out: str | os.PathLike[str]) -> list[Path]:
        """images.csv (a row an image), summary.csv, report.json (all of it) and worst.png; returns their paths."""
        import pandas as pd

        folder = Path(out)
        paths = [folder / name for name in ("images.csv", "summary.csv", "report.json", "worst.png")]
        names = [case.name for case in self.cases]
        images = pd.DataFrame([{"image": name, **row} for name, row in zip(names, self.rows, strict=True)])
        write_table(images, paths[0])
        summary = pd.DataFrame([{"figure": name, **asdict(value)} for name, value in self.summary.items()])
        write_table(summary, paths[1])
        document = {
            "images": len(self.rows),
            "summary": {name: _plain(asdict(value)) for name, value in self.summary.items()},
            "missing": self.missing,
            "failures": self.failures,
            "by_image": {name: _plain(row) for name, row in zip(names, self.rows, strict=True)},
        }
        with atomic_write(paths[2]) as temporary:
            text = json.dumps(document, indent=1, ensure_ascii=False)
            # What UTF-8 cannot hold of a file's name becomes \udce4, which is how JSON writes it, too.
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        sheet = self.worst_sheet()
        with atomic_write(paths[3]) as temporary:
            sheet.save(temporary)
        return paths

    def worst_sheet(self) -> Image.Image:
        """The ten images with the lowest TOPO F1, prediction red and ground truth blue, on one sheet."""
        from PIL import Image, ImageDraw

        order = sorted(range(len(self.rows)), key=lambda k: (self.rows[k]["topo_f1"], self.cases[k].name))[:WORST_COUNT]
        columns = min(5, len(order))
        size = (columns * TILE_PX, math.ceil(len(order) / columns) * (TILE_PX + CAPTION_PX))
        sheet = Image.new("RGB", size, "white")
        pen = ImageDraw.Draw(sheet)
        for place, k in enumerate(order):
            left, top = (place % columns) * TILE_PX, place // columns * (TILE_PX + CAPTION_PX)
            tile = _drawn(self.cases[k])
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
    """Judge every case, in `workers` processes; those that cannot be judged are named and the rest goes on.

    image_size: (width, height) px, where neither the skeletons nor an image tell. workers: 0 and 1 are this process
    alone. progress: called with (done, total).
    """
    check_workers(workers)
    jobs = [(case, image_size, radius_px) for case in cases]
    if not jobs:
        raise TreeformerError("there is no image to evaluate")
    judged: list[tuple[Case, dict[str, float]]] = []
    failures: list[str] = []
    for done, outcome in enumerate(_outcomes(jobs, workers), start=1):
        if isinstance(outcome, str):
            failures.append(outcome)
        else:
            judged.append((jobs[done - 1][0], outcome))
        if progress is not None:
            progress(done, len(jobs))
    if not judged:
        raise TreeformerError(f"no image could be evaluated; the first: {failures[0]}")
    missing = tuple(case.name for case, _ in judged if case.prediction is None)
    return Report(tuple(case for case, _ in judged), tuple(row for _, row in judged), tuple(failures), missing)


def folder_cases(
    prediction: str | os.PathLike[str],
    ground_truth: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
) -> tuple[list[Case], list[str]]:
    """The skeleton files of two folders, paired by name, and the predictions without a ground truth.

    A name is the way to the file below its folder, without its suffix: `day1/a`. So ground truths lie as the predictions
    do, which `treeformer predict` lays as it found the images. Two ground truths of one name are an error, and so are
    two folders without any name in common. Of several predictions the one in .json counts, beside which
    `treeformer predict` writes other formats.

    images: a folder of images of the same names; by default the ground truth's folder, then the prediction's.
    """
    predicted, true = Path(prediction), Path(ground_truth)
    predictions, ground_truths = _skeleton_files(predicted, true, prefer=".json"), _skeleton_files(true, predicted)
    if not predictions.keys() & ground_truths.keys():
        first, other = min(predictions), min(ground_truths)
        raise FormatError(f"{predicted} and {true} have no name in common: here {first}, there {other}")
    folders = [(Path(images), None)] if images is not None else [(true, predicted), (predicted, true)]
    image_files: dict[str, Path] = {}
    for folder, without in reversed(folders):
        files = list_files(folder, without)
        image_files |= {_name(path, folder): path for path in files if path.suffix.lower() in IMAGE_SUFFIXES}
    cases = [Case(name, predictions.get(name), path, image_files.get(name)) for name, path in ground_truths.items()]
    without_ground_truth = [
        str(path.relative_to(predicted))
        for name, path in predictions.items()
        if name not in ground_truths and not _is_copy(name, predictions)
    ]
    return cases, without_ground_truth


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def _is_copy(name: str, predictions: Mapping[str, Path]) -> bool:
    """Whether `treeformer predict` wrote this one beside another, in a format that shares its suffix: a.coco.json."""
    stem, _, format_name = name.rpartition(".")
    return stem in predictions and format_name in formats.FORMATS


def _skeleton_files(folder: Path, without: Path, prefer: str | None = None) -> dict[str, Path]:
    files: dict[str, list[Path]] = {}
    for path in list_files(folder, without):
        if path.suffix.lower() in formats.SUFFIXES and formats.is_skeleton_file(path):
            files.setdefault(_name(path, folder), []).append(path)
    if not files:
        raise FormatError(f"{folder}: no skeleton file in this folder")
    found: dict[str, Path] = {}
    for name, paths in files.items():
        meant = [path for path in paths if path.suffix.lower() == prefer] or paths
        if len(meant) > 1:
            raise FormatError(f"{meant[1]}: {meant[0].name} has the same name; which is meant?")
        found[name] = meant[0]
    return found


CaseJob = tuple[Case, tuple[int, int] | None, float | None]


def _outcomes(jobs: Sequence[CaseJob], workers: int) -> Iterator[dict[str, float] | str]:
    if workers <= 1 or len(jobs) == 1:
        yield from map(_judge, jobs)
        return
    with process_pool(min(workers, len(jobs))) as pool:
        yield from pool.map(_judge, jobs, chunksize=max(1, min(8, len(jobs) // (4 * workers))))


def _judge(job: CaseJob) -> dict[str, float] | str:
    """The row of one case, or one line on why there is none."""
    case, image_size, radius_px = job
    try:
        prediction, ground_truth = _skeletons(case, image_size)
        return evaluate_pair(prediction, ground_truth, radius_px=radius_px)
    except TreeformerError as error:
        return f"{case.name}: {error}"


def _skeletons(case: Case, image_size: tuple[int, int] | None) -> tuple[Skeleton, Skeleton]:
    """Both skeletons of a case, of the same image."""
    ground_truth = formats.read(case.ground_truth) if isinstance(case.ground_truth, Path) else case.ground_truth
    prediction = formats.read(case.prediction) if isinstance(case.prediction, Path) else case.prediction
    size = ground_truth.image_size or (prediction.image_size if prediction is not None else None) or image_size
    if size is None and case.image is not None:
        size = open_image(case.image).size
    if size is None:
        raise TreeformerError("the image size is not known: put the image beside the ground truth, or give the size")
    if prediction is None:
        prediction = Skeleton([], [])
    sized = [one if one.image_size else one.replace(image_size=size) for one in (prediction, ground_truth)]
    return sized[0], sized[1]


def _drawn(case: Case) -> Image.Image:
    from treeformer.draw import draw_comparison

    image = open_image(case.image) if case.image is not None else None
    prediction, ground_truth = _skeletons(case, image.size if image is not None else None)
    if image is not None and ground_truth.image_size != image.size:
        image = None
    return draw_comparison(image, prediction, ground_truth)


def _plain(values: dict[str, float]) -> dict[str, float | None]:
    """NaN is no JSON."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
