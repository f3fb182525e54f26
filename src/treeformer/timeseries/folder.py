"""A folder as a series: its images, the skeleton files beside them, and the time of each."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treeformer._util.files import is_backup
from treeformer._util.images import IMAGE_SUFFIXES
from treeformer.errors import TreeformerError
from treeformer.timeseries.series import Time

# Formats of a skeleton file beside an image, the preferred one first.
PREFERRED = (".json", ".rsml", ".swc", ".graphml", ".geojson")
NAME_COLUMNS, TIME_COLUMN = ("name", "image", "file"), "time"
DATE = re.compile(
    r"(?<!\d)(?P<year>(?:19|20)\d\d)[-_.]?(?P<month>\d\d)[-_.]?(?P<day>\d\d)"
    r"(?:[-_ T.]*(?P<hour>\d\d)[-_:.h]?(?P<minute>\d\d)(?:[-_:.m]?(?P<second>\d\d))?)?(?!\d)"
)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
EXIF_FOLDER, EXIF_ORIGINAL, EXIF_CHANGED = 0x8769, 36867, 306


@dataclass(frozen=True, slots=True)
class DateFile:
    """The files of one date.

    Attributes:
        name: Name without suffix.
        image: The image, None if there is only a skeleton.
        skeleton: The skeleton file, None if the image has to be predicted.
    """

    name: str
    image: Path | None
    skeleton: Path | None


def find_dates(folder: str | os.PathLike[str]) -> list[DateFile]:
    """Find the images and skeleton files in a folder, without its subfolders, overlays and backups.

    Args:
        folder: The folder.

    Returns:
        One entry per name, ordered by name. A skeleton in several formats is read from the first of `PREFERRED`.

    Raises:
        TreeformerError: If the folder is missing or holds neither images nor skeletons.
    """
    from treeformer.formats import SUFFIXES, is_skeleton_file

    root = Path(folder)
    if not root.is_dir():
        raise TreeformerError(f"{root}: is not a folder" if root.exists() else f"{root}: no such folder")
    files = sorted(file for file in root.iterdir() if file.is_file() and not file.name.startswith("."))
    images: dict[str, Path] = {}
    skeletons: dict[str, Path] = {}
    for file in files:
        suffix = file.suffix.lower()
        if suffix in IMAGE_SUFFIXES and not file.stem.endswith(".overlay"):
            if file.stem in images:
                raise TreeformerError(f"{file}: there is another image of this name, {images[file.stem].name}")
            images[file.stem] = file
        elif suffix in SUFFIXES and not is_backup(file) and is_skeleton_file(file):
            other = skeletons.get(file.stem)
            if other is None or _rank(file) < _rank(other):
                skeletons[file.stem] = file
    names = sorted(images.keys() | skeletons.keys())
    if not names:
        raise TreeformerError(f"{root}: no image and no skeleton file in this folder")
    return [DateFile(name, images.get(name), skeletons.get(name)) for name in names]


def _rank(file: Path) -> int:
    suffix = file.suffix.lower()
    return PREFERRED.index(suffix) if suffix in PREFERRED else len(PREFERRED)


def times_of(dates: Sequence[DateFile], source: str | None = None) -> list[Time]:
    """Return the time of each date.

    Args:
        dates: The dates.
        source: "name" for the date, or else the last number, in each name; "exif" for the time at which the camera took
            each image; or a CSV file with the columns `name` and `time`, where times are numbers or ISO dates. None
            tries names, then EXIF.

    Returns:
        Numbers, or datetimes.

    Raises:
        TreeformerError: If a time is missing, or two dates have the same.
    """
    if source == "name":
        return _distinct(dates, _times_by_name(dates))
    if source == "exif":
        return _distinct(dates, [_exif_time(date) for date in dates])
    if source is not None:
        return _distinct(dates, _times_in_table(dates, Path(source)))
    reasons = []
    for one in ("name", "exif"):
        try:
            return times_of(dates, one)
        except TreeformerError as error:
            reasons.append(str(error))
    raise TreeformerError(f"the times are unknown ({'; '.join(reasons)}): give a CSV file with the columns name, time")


def _distinct(dates: Sequence[DateFile], times: list[Time]) -> list[Time]:
    seen: dict[Time, str] = {}
    for date, time in zip(dates, times, strict=True):
        if time in seen:
            raise TreeformerError(f"{seen[time]} and {date.name} have the same time, {time}")
        seen[time] = date.name
    return times


def _times_by_name(dates: Sequence[DateFile]) -> list[Time]:
    moments = [_date_in(date.name) for date in dates]
    if all(moment is not None for moment in moments):
        return [moment for moment in moments if moment is not None]
    times: list[Time] = []
    for date in dates:
        numbers = NUMBER.findall(date.name)
        if not numbers:
            raise TreeformerError(f"{date.name}: no date and no number in the name")
        times.append(float(numbers[-1]))
    return times


def _date_in(name: str) -> datetime | None:
    for match in DATE.finditer(name):
        parts = [int(part) for part in match.groups(default="0")]
        try:
            return datetime(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5])
        except ValueError:
            continue
    return None


def _exif_time(date: DateFile) -> datetime:
    from PIL import Image

    if date.image is None:
        raise TreeformerError(f"{date.name}: without an image there is no EXIF time")
    try:
        with Image.open(date.image) as image:
            exif = image.getexif()
            text = exif.get_ifd(EXIF_FOLDER).get(EXIF_ORIGINAL) or exif.get(EXIF_CHANGED) or ""
        return datetime.strptime(str(text).strip("\0 "), "%Y:%m:%d %H:%M:%S")
    except (OSError, ValueError, SyntaxError):
        raise TreeformerError(f"{date.image.name}: no time in its EXIF data") from None


def _times_in_table(dates: Sequence[DateFile], path: Path) -> list[Time]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TreeformerError(f"{path}: cannot be read as a table ({reason})") from None
    columns: list[Any] = [str(name).strip().lower() for name in (rows[0].keys() if rows else ())]
    name_column = next((name for name in NAME_COLUMNS if name in columns), None)
    if name_column is None or TIME_COLUMN not in columns:
        raise TreeformerError(f"{path}: needs the columns name and time")
    known: dict[str, Time] = {}
    for row in rows:
        values = {str(key).strip().lower(): str(value or "").strip() for key, value in row.items()}
        name = values[name_column]
        known[name] = known[Path(name).stem] = _time_in(values[TIME_COLUMN], name, path)
    times = [known.get(date.name) for date in dates]
    for date, time in zip(dates, times, strict=True):
        if time is None:
            raise TreeformerError(f"{path}: no time for {date.name}")
    return [time for time in times if time is not None]


def _time_in(text: str, name: str, path: Path) -> Time:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise TreeformerError(f"{path}: the time of {name}, {text!r}, is neither a number nor an ISO date") from None
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
