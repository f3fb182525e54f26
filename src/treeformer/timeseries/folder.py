"""A folder as a series: its images, the skeleton files beside them, and the time of each."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treeformer._util.files import check_is_regular_file
from treeformer._util.images import IMAGE_SUFFIXES
from treeformer.errors import TreeformerError
from treeformer.timeseries.times import Time, times_in_days

NAME_COLUMNS, TIME_COLUMN = ("name", "image", "file"), "time"
# One-digit months and days need a separator that cannot join other numbers, as in experiment_plate_day.
DATE = re.compile(
    r"(?<!\d)(?P<year>(?:19|20)\d\d)"
    r"(?:[-_.]?(?P<month>\d\d)[-_.]?(?P<day>\d\d)|([-.])(?P<short_month>\d\d?)\4(?P<short_day>\d\d?)(?!\d))"
    r"(?:(?:[-_ T.]*|[-_ ]at[-_ ])(?P<hour>\d\d|(?<=at.)\d)[-_:.h]?(?P<minute>\d\d)"
    r"(?:[-_:.m]?(?P<second>\d\d)(?P<fraction>\d{1,6})?)?(?:[\s_]?(?P<half>[AaPp][Mm]))?)?(?!\d)"
)
# Numbers after such a date are a time, not the month and the day of its year.
DAY_FIRST = re.compile(r"(?<!\d)\d\d?([-.])\d\d?\1(?:19|20)\d\d(?!\d)")
TIME_ONLY = re.compile(r"[\W\d_hms]*")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
EXIF_FOLDER, EXIF_ORIGINAL, EXIF_CHANGED = 0x8769, 36867, 306
# Tags of the time zones.
EXIF_OFFSET = {EXIF_ORIGINAL: 0x9011, EXIF_CHANGED: 0x9010}


@dataclass(frozen=True, slots=True)
class DateFile:
    """The files of one date.

    Attributes:
        name: Name without suffix.
        image: The image, None if there is only a skeleton.
        skeleton: The skeleton file, None if the image has to be predicted.
        others: The skeleton files that are not used.
    """

    name: str
    image: Path | None
    skeleton: Path | None
    others: tuple[Path, ...] = ()


class Times(NamedTuple):
    """The times of a series, numbers or datetimes, and where they come from, in words."""

    values: list[Time]
    origin: str

    def __str__(self) -> str:
        first, last = min(self.values), max(self.values)
        if isinstance(first, float):
            return f"times from {self.origin}, {first:g} to {last:g}"
        return f"times from {self.origin}, {first} to {last}"


class MixedNamesError(TreeformerError):
    """Some names hold a date and others do not."""


def find_dates(folder: str | os.PathLike[str]) -> list[DateFile]:
    """Find the images and skeleton files in a folder, without its subfolders, overlays and backups."""
    from treeformer.data.recipe import check_complete
    from treeformer.formats import is_skeleton_file
    from treeformer.results.layout import groups

    root = Path(folder)
    if not root.is_dir():
        raise TreeformerError(f"{root}: is not a folder" if root.exists() else f"{root}: no such folder")
    check_complete(root)
    dates = []
    for name, images, files in groups(root):
        if len(images) > 1:
            raise TreeformerError(f"{images[1]}: there is another image of this name, {images[0].name}")
        skeletons = list(filter(is_skeleton_file, files))
        if images or skeletons:
            image, skeleton = (next(iter(found), None) for found in (images, skeletons))
            dates.append(DateFile(name, image, skeleton, tuple(skeletons[1:])))
    if not dates:
        raise TreeformerError(f"{root}: no image and no skeleton file in this folder")
    return dates


def times_of(dates: Sequence[DateFile], source: str | None = None) -> Times:
    """Return the time of each date.

    `source` is "name" for the date, or else the last number, in each name; "exif" for the time at which the camera took
    each image; or a CSV file with the columns `name` and `time`, where times are numbers or ISO dates. None uses the
    dates in the names, or else EXIF, or else the numbers in the names.
    """
    if source is None:
        return _default_times(dates)
    if source == "name":
        return _checked(dates, _times_by_name(dates))
    if source == "exif":
        return _checked(dates, _times_by_exif(dates, EXIF_ORIGINAL, EXIF_CHANGED))
    return _checked(dates, Times(_times_in_table(dates, Path(source)), source))


def _default_times(dates: Sequence[DateFile]) -> Times:
    # The numbers of a camera are counters: EXIF times are better. A time of change says little about the plant.
    if not any(_date_in(date.name) for date in dates):
        try:
            times = _times_by_exif(dates, EXIF_ORIGINAL)
        except TreeformerError:
            pass
        else:
            if len(set(times.values)) == len(dates):
                return _checked(dates, times)
    reasons = []
    for source in ("name", "exif"):
        try:
            return times_of(dates, source)
        except MixedNamesError:
            raise
        except TreeformerError as error:
            reasons.append(str(error))
    raise TreeformerError(f"the times are unknown ({'; '.join(reasons)}): give a CSV file with the columns name, time")


def _checked(dates: Sequence[DateFile], times: Times) -> Times:
    """Check the times, and convert those with a time zone to UTC."""
    values = times.values
    zoned = [isinstance(time, datetime) and time.tzinfo is not None for time in values]
    if any(zoned) and not all(zoned):
        naive, aware = (dates[zoned.index(kind)].name for kind in (False, True))
        raise TreeformerError(f"the time of {aware} has a time zone and that of {naive} has none")
    values = [
        time.astimezone(UTC).replace(tzinfo=None) if isinstance(time, datetime) and time.tzinfo else time
        for time in values
    ]
    seen: dict[Time, str] = {}
    for date, time in zip(dates, values, strict=True):
        if time in seen:
            raise TreeformerError(f"{seen[time]} and {date.name} have the same time, {time}")
        seen[time] = date.name
    times_in_days(values)  # raises an error if they are of different kinds
    return Times(values, times.origin)


def _times_by_name(dates: Sequence[DateFile]) -> Times:
    moments = [_date_in(date.name) for date in dates]
    without = [date.name for date, moment in zip(dates, moments, strict=True) if moment is None]
    if not without:
        return Times([moment for moment in moments if moment is not None], "the dates in the names")
    if len(without) < len(dates):
        others = f" and {len(without) - 3} others" if len(without) > 3 else ""
        raise MixedNamesError(f"{', '.join(without[:3])}{others}: no valid date in the name, unlike in other names")
    times: list[Time] = []
    for date in dates:
        if (match := DAY_FIRST.search(date.name)) and TIME_ONLY.fullmatch(date.name, match.end()):
            raise TreeformerError(f"{date.name}: a date in a name must begin with its year, as in 2026-03-01")
        numbers = NUMBER.findall(date.name)
        if not numbers:
            raise TreeformerError(f"{date.name}: no date and no number in the name")
        times.append(float(numbers[-1]))
    return Times(times, "the last numbers in the names")


def _date_in(name: str) -> datetime | None:
    years_at_end = {match.end() for match in DAY_FIRST.finditer(name)}
    for match in DATE.finditer(name):
        if match.end("year") in years_at_end and match["month"] and match.end("month") == match.start("day"):
            continue
        part = {key: int(value or 0) for key, value in match.groupdict().items() if key not in ("half", "fraction")}
        hour = part["hour"]
        if half := match["half"]:
            hour = hour % 12 + (12 if half.lower() == "pm" else 0)
        microsecond = int((match["fraction"] or "").ljust(6, "0"))
        month, day = part["month"] or part["short_month"], part["day"] or part["short_day"]
        try:
            return datetime(part["year"], month, day, hour, part["minute"], part["second"], microsecond)
        except ValueError:
            continue
    return None


def _times_by_exif(dates: Sequence[DateFile], *tags: int) -> Times:
    return Times([_exif_time(date, tags) for date in dates], "EXIF")


def _exif_time(date: DateFile, tags: Sequence[int]) -> datetime:
    from PIL import Image

    if date.image is None:
        raise TreeformerError(f"{date.name}: without an image there is no EXIF time")
    try:
        with Image.open(date.image) as image:
            exif = image.getexif()
            values = {**exif, **exif.get_ifd(EXIF_FOLDER)}
        tag = next((tag for tag in tags if values.get(tag)), tags[0])
        text, offset = (str(values.get(one) or "").strip("\0 ") for one in (tag, EXIF_OFFSET[tag]))
        moment = datetime.strptime(text, "%Y:%m:%d %H:%M:%S")
        return moment.replace(tzinfo=datetime.strptime(offset, "%z").tzinfo) if offset.strip(": ") else moment
    except (OSError, ValueError, SyntaxError):
        raise TreeformerError(f"{date.image.name}: no time in its EXIF data") from None


def _times_in_table(dates: Sequence[DateFile], path: Path) -> list[Time]:
    try:
        check_is_regular_file(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            delimiter = max(",;\t", key=header.count)
            reader = csv.DictReader(file, delimiter=delimiter)
            rows = [{_plain(key).lower(): _plain(value) for key, value in row.items()} for row in reader]
            columns = [_plain(name).lower() for name in reader.fieldnames or ()]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        hint = "" if path.suffix else "; the times come from name, exif or a CSV file"
        raise TreeformerError(f"{path}: cannot be read as a table ({reason}){hint}") from None
    name_column = next((name for name in NAME_COLUMNS if name in columns), None)
    if name_column is None or TIME_COLUMN not in columns:
        raise TreeformerError(f"{path}: needs the columns name and time")
    if not rows:
        raise TreeformerError(f"{path}: has no rows")
    known: dict[str, Time] = {}
    for row in rows:
        name = _without_suffix(row[name_column])
        text = row[TIME_COLUMN]
        # Where numbers have a decimal comma, spreadsheets separate columns by semicolons.
        time = _time_in(text if delimiter == "," else text.replace(",", "."), row[name_column], path)
        if known.setdefault(name, time) != time:
            raise TreeformerError(f"{path}: {name} has two times, {known[name]} and {time}")
    for date in dates:
        if date.name not in known:
            raise TreeformerError(f"{path}: no time for {date.name}")
    numbers = [date.name for date in dates if isinstance(known[date.name], float)]
    if 0 < len(numbers) < len(dates):
        other = next(date.name for date in dates if date.name not in numbers)
        raise TreeformerError(f"{path}: the time of {numbers[0]} is a number and that of {other} a date")
    return [known[date.name] for date in dates]


def _plain(cell: object) -> str:
    return str(cell or "").strip()


def _without_suffix(name: str) -> str:
    """Return a name without its folder, and without the suffix of an image or skeleton file."""
    from treeformer.formats import SUFFIXES

    path = Path(name)
    return path.stem if path.suffix.lower() in IMAGE_SUFFIXES | SUFFIXES else path.name


def _time_in(text: str, name: str, path: Path) -> Time:
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(number):
            return number
        raise TreeformerError(f"{path}: the time of {name}, {text!r}, is not a finite number")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise TreeformerError(f"{path}: the time of {name}, {text!r}, is neither a number nor an ISO date") from None
